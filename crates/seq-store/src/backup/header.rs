//! Header of a backup file, which states which set was backed up, when, and by which program.

use seq_core::state::{SetDefinition, State};
use seq_kit::wall_clock;
use seq_proto::v1::BackupHeader;

use super::file::SECRET_BYTES;

/// Returns the header of a backup that is made now. The header contains a new random secret. The length of the state is
/// not set yet.
pub(crate) fn of(cluster: &str, set: &SetDefinition, format: u16, state: &State, log_index: u64) -> BackupHeader {
    let mut secret = vec![0; SECRET_BYTES];
    getrandom::fill(&mut secret).expect("the operating system gives random numbers");
    BackupHeader {
        cluster: cluster.to_owned(),
        set: set.name.to_string(),
        set_id: set.id.0,
        lineage: state.lineage.0,
        revision: state.revision.0,
        log_index,
        uid_start: set.layout.uids().start,
        uid_end: set.layout.uids().end,
        section_size: set.layout.section_size(),
        resident: state.sections.residents().count() as u32,
        created_unix_ms: wall_clock::now_ms(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state_format: format.into(),
        secret,
        ..BackupHeader::default()
    }
}
