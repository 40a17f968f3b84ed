//! Creation of a member's data directory from a given state, when a group is restored. The directory of each member is
//! created separately, while the member is stopped. The same secret seed is used for all members.
//!
//! The new directory contains a snapshot of the state, and the list of members in the snapshot defines the new group.
//! This list must contain the fingerprints of all members' directories, although the members exchange no messages. So
//! the nonces of all directories are derived from the seed.
//!
//! **Invariant:** the file with the directory's identity is written last. A process accepts no directory without this
//! file, even if the other contents are complete.
//!
//! **Invariant:** a directory is formed only once from a seed. If it were formed again, it would have the same nonce as
//! before, but would lack all entries that the member has acknowledged in the meantime (see [`form_restored`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::DataDir;
use super::backend::LogBackend;
use super::error::{LoadError, OpenError};
use super::files::Files;
use super::identity;
use super::loaded::Meta;
use super::sled_backend::SledBackend;
use super::snapshot::{self, Contents};
use super::watermark::{self, WatermarkFile};
use crate::encoding::envelope::Kind;
use crate::encoding::{self, Identity, Watermark};
use crate::nonce::Nonce;
use crate::peer::Peer;
use crate::state_machine::StateMachine;
use crate::types::{LeaderId, LogId, Member, Membership, StoredMembership, Vote};

/// Term and index of the last entry that the first snapshot covers. All entries of the new group follow this entry.
const FIRST: u64 = 1;

/// Group that a restored member belongs to.
#[derive(Clone, Debug)]
pub struct RestoredGroup<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// All members of the group, which are all voters.
    pub peers: &'a [Peer],
    /// Format of the group's commands and states. The caller derives the seed from the format too, so members that
    /// releases with different formats formed belong to different groups.
    pub format: u16,
    /// Secret seed from which the members' nonces are derived. It is the same for all members of the group, and
    /// different for each state with which a group begins.
    pub seed: [u8; 32],
}

/// Forms the data directory of member `id` with `state`. Creates the directory if it is missing; an existing directory
/// must be empty. Blocks the thread while it writes. Until this function returns, the process must not read other data
/// directories.
///
/// Once the member has run, its directory must never be formed again from the same seed. The other members would accept
/// the new directory, and the member would vote although it lacks entries that it acknowledged. Replace the member by
/// one with a new id instead.
///
/// # Errors
/// The directory is not empty, is in use by another process, or cannot be written. Files that were written before an
/// error remain, but no process accepts them as data.
///
/// # Panics
/// When `id` is not in `group.peers`, or `state` does not list the ids of all members.
pub fn form_restored<M: StateMachine>(
    dir: &Path,
    id: u64,
    group: &RestoredGroup<'_>,
    state: M,
) -> Result<(), OpenError> {
    assert!(group.peers.iter().any(|peer| peer.id == id), "the member is of its group");
    assert!(group.peers.iter().all(|peer| state.member_ids().contains(&peer.id)), "the state lists the members' ids");
    refuse_contents(dir)?;
    let _lock = identity::lock(&DataDir::Path(dir.to_owned()))?;
    let files = Files::Dir(dir.to_owned());
    let failed = |place: String| move |source| LoadError::Io { place, source };

    let first = first_log_id(group);
    let (format, membership) = (group.format, membership(group, first));
    let contents = Contents { state, format, last_applied: Some(first), membership };
    let snapshot = contents.encode();
    let file = snapshot::file_name(Some(&first));
    files.write(&file, &snapshot.snapshot).map_err(failed(files.place(&file)))?;
    let manifest = snapshot::manifest(&snapshot, file);

    let vote = Vote::new(first.leader_id.term, first.leader_id.node_id);
    let log = dir.join(identity::LOG_DIR);
    let mut backend = SledBackend::open(&log, |file| Box::new(file))?;
    let write = |backend: &mut SledBackend| -> io::Result<()> {
        backend.put_meta(Meta::Manifest, &encoding::write_manifest(&manifest))?;
        backend.put_meta(Meta::Vote, &encoding::write_vote(&vote))?;
        backend.put_meta(Meta::Purged, &encoding::write_log_id(Kind::Purged, &first))?;
        backend.sync()
    };
    write(&mut backend).map_err(failed(log.display().to_string()))?;

    let end = Some((&first).into());
    let mark = Watermark { generation: 0, vote: Some((&vote).into()), last: end, purged: end, snapshot: end };
    watermark::create(&files).map_err(failed(files.place(watermark::FILE)))?;
    let written = WatermarkFile::open(&files)?.write_durably(mark);
    written.map_err(failed(files.place(watermark::FILE)))?;
    let nonce = Nonce::derived(&group.seed, id).bytes();
    identity::put(&files, &Identity { cluster: group.cluster.to_owned(), node: id, nonce })?;
    Ok(())
}

/// Returns the log id of the last entry that the first snapshot covers. The leader in this log id is the member with
/// the lowest id.
fn first_log_id(group: &RestoredGroup<'_>) -> LogId {
    let node_id = group.peers.iter().map(|peer| peer.id).min().expect("a group has members");
    LogId::new(LeaderId { term: FIRST, node_id }, FIRST)
}

fn membership(group: &RestoredGroup<'_>, first: LogId) -> StoredMembership {
    let member = |peer: &Peer| {
        let fingerprint = Nonce::derived(&group.seed, peer.id).fingerprint();
        let Peer { name, addr, raft_addr, .. } = peer.clone();
        (peer.id, Member { name, addr, raft_addr, fingerprint })
    };
    let members: BTreeMap<u64, Member> = group.peers.iter().map(member).collect();
    let voters: BTreeSet<u64> = members.keys().copied().collect();
    let members = Membership::new(vec![voters], members).expect("the voters are the members");
    StoredMembership::new(Some(first), members)
}

/// Returns an error if the directory has any contents, such as the files of an interrupted restore.
fn refuse_contents(dir: &Path) -> Result<(), OpenError> {
    let failed = |source| LoadError::Io { place: dir.display().to_string(), source };
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed(source).into()),
    };
    match entries.next() {
        None => Ok(()),
        Some(entry) => {
            let found = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            Err(OpenError::NotEmpty { dir: dir.to_owned(), found })
        }
    }
}
