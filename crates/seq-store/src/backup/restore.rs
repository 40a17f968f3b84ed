//! Restore of one member from a backup. The restore creates the member's data directory while the member is stopped.
//! Each member of a store is restored separately, from the same file.
//!
//! **Invariant:** the initial content of the data directory depends only on the backup, the set file and the count of
//! the restore, and the identity of each member depends on all three. So members whose initial contents differ belong
//! to different groups and to different lineages.

use std::path::PathBuf;

use seq_core::plan::{Fingerprint, Preconditions};
use seq_core::set_spec::SetSpec;
use seq_core::state::{Answer, BeginOperation, Command, CommandRefusal, EndOperation, Residence, SectionRecord};
use seq_core::{Lineage, SectionId, limits};
use seq_raft::{OpenError, Peer, RestoredGroup, StateMachine as _, form_restored};
use sha2::{Digest, Sha256};

use super::file::{Backup, hex};
use crate::replicated_set::SetState;

/// Configuration of the restore of one member.
#[derive(Clone, Debug)]
pub struct RestoreConfig {
    /// Description of the set, from the set file. The stores in it are the members of the restored store.
    pub spec: SetSpec,
    /// Name of the cluster.
    pub cluster: String,
    /// Raft id of the member that is restored, as in the set file.
    pub id: u64,
    /// Data directory of this member, which must be missing or empty.
    pub dir: PathBuf,
    /// Count of the restore, at least 1. It must be greater than the count of every earlier restore of any set of the
    /// cluster. Ceilings and epochs are raised once for each count since the backup, so two restores with the same
    /// count would allocate the same numbers.
    pub count: u32,
}

/// Result of the restore of one member, or its foreseen result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Lineage of the restored set.
    pub lineage: Lineage,
    /// Lineage of the set in the backup.
    pub backup: Lineage,
    /// Number of sections that are in quarantine after the restore.
    pub quarantined: u32,
    /// Minimum amount by which each ceiling rises.
    pub margin: u64,
    /// Hash of the initial content of the members' data directories. Members with different hashes belong to different
    /// groups.
    pub content: [u8; 32],
}

/// Restore of one member that has been checked but has not written anything yet.
#[derive(Debug)]
pub struct RestorePlan<'a> {
    backup: &'a Backup,
    config: &'a RestoreConfig,
    pub(super) state: SetState,
    restored: Restored,
}

/// Returns the minimum count with which a set can be restored from a backup, according to the earlier restores that the
/// backup records.
#[must_use]
pub fn least_count(backup: &Backup) -> u32 {
    least_above(backup.state(), backup.header.least_restores)
}

/// Returns the minimum count with which a set can be restored from `state`. The result is at least `noted`, a lower
/// bound from the header of a backup.
pub(super) fn least_above(state: &SetState, noted: u32) -> u32 {
    state.0.most_restores().saturating_add(1).max(noted)
}

/// Checks that the clock of this machine is not too far behind the time of a backup, if the backup has series whose ids
/// contain a time. If the clock were behind by more than [`limits::MAX_CLOCK_SPREAD_MS`], the restored set would
/// allocate ids a second time. `now_ms` is the time of the clock in milliseconds since 1970.
///
/// # Errors
/// [`RestoreError::ClockBehind`] if the clock is too far behind.
pub fn check_clock(backup: &Backup, now_ms: u64) -> Result<(), RestoreError> {
    let behind_ms = backup.header.created_unix_ms.saturating_sub(now_ms);
    if backup.state().0.follows_clock() && behind_ms > limits::MAX_CLOCK_SPREAD_MS {
        return Err(RestoreError::ClockBehind { behind_s: behind_ms / 1_000 });
    }
    Ok(())
}

impl<'a> RestorePlan<'a> {
    /// Checks that the backup matches the set file and the count, and computes the state with which the new lineage
    /// begins.
    ///
    /// # Errors
    /// [`RestoreError`]. Nothing is written in any case.
    pub fn new(backup: &'a Backup, config: &'a RestoreConfig) -> Result<RestorePlan<'a>, RestoreError> {
        check(backup, config)?;
        check_count(backup.state(), least_count(backup), config.count)?;
        let mut state = backup.state().clone();
        let before = state.0.lineage;
        // The group begins with the newest format, because the rules for the count need it.
        state.raise_format(SetState::FORMAT);
        let lineage = lineage(backup, config);
        state.0.restore(lineage)?;
        record(&mut state, backup, config);
        for store in &config.spec.stores {
            if let Err(place) = state.0.store_ids.binary_search(&store.id) {
                state.0.store_ids.insert(place, store.id);
            }
        }
        let quarantined = state.0.sections.known().filter(|(_, record)| is_quarantined(record)).count() as u32;
        let counts = u64::from(lineage.restores() - before.restores());
        let margin = state.0.restore_margin.0.saturating_mul(counts);
        let content = hash(config, b"seqsvr content").chain_update(state.encode(SetState::FORMAT)).finalize().into();
        let restored = Restored { lineage, backup: before, quarantined, margin, content };
        Ok(RestorePlan { backup, config, state, restored })
    }

    /// Returns the foreseen result of the restore.
    #[must_use]
    pub fn restored(&self) -> Restored {
        self.restored
    }

    /// Returns the fingerprint of this plan. It covers the member, its data directory and the initial content of the
    /// group. It does not depend on times or on running nodes.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let RestoreConfig { id, dir, .. } = self.config;
        let plan = Preconditions::of("restore").text(&hex(&self.restored.content)).number(*id);
        plan.text(&dir.to_string_lossy()).fingerprint()
    }

    /// Creates the contents of the data directory. Blocks the thread while it writes.
    ///
    /// # Errors
    /// [`RestoreError::Dir`]. Nothing is written if the directory is not empty or is in use.
    pub fn carry_out(self) -> Result<Restored, RestoreError> {
        let RestorePlan { backup, config, state, restored } = self;
        let peer = |store: &seq_core::set_spec::StoreSpec| Peer {
            id: store.id,
            name: store.name.clone(),
            addr: store.addr.clone(),
            raft_addr: store.raft.clone(),
        };
        let peers: Vec<Peer> = config.spec.stores.iter().map(peer).collect();
        let seed = seed(backup, &restored.content);
        let group = RestoredGroup { cluster: &config.cluster, peers: &peers, format: SetState::FORMAT, seed };
        form_restored(&config.dir, config.id, &group, state)?;
        Ok(restored)
    }
}

/// Plans and carries out the restore of a member. Blocks the thread while it writes.
///
/// # Errors
/// [`RestoreError`]. Some data was possibly written if [`RestoreError::may_have_written`] returns true for the error.
pub fn restore(backup: &Backup, config: &RestoreConfig) -> Result<Restored, RestoreError> {
    RestorePlan::new(backup, config)?.carry_out()
}

/// Records the restore in the audit log of the initial state. The record has no time, so that all members begin with
/// the same audit log.
fn record(state: &mut SetState, backup: &Backup, config: &RestoreConfig) {
    let checksum = &backup.checksum_text()[..16];
    let begin = BeginOperation {
        at_unix_ms: 0,
        principal: "offline".to_owned(),
        node: "all".to_owned(),
        operation: format!("restore --count {}: the backup with SHA-256 {checksum}...", config.count),
        plan: 0,
    };
    if let Answer::OperationBegun(Ok(operation)) = state.0.apply(&Command::BeginOperation(begin)) {
        drop(state.0.apply(&Command::EndOperation(EndOperation { at_unix_ms: 0, operation, refusal: None })));
    }
}

/// Checks that the count `given` is at least `least`, is not greater than other sets would accept, and leaves each
/// section enough numbers above its raised ceiling.
pub(super) fn check_count(SetState(state): &SetState, least: u32, given: u32) -> Result<(), RestoreError> {
    if given < least {
        return Err(RestoreError::CountUsed { given, least });
    }
    // If the cluster has only one set, no other set has to accept the count.
    let step = if state.sets.is_empty() { limits::MAX_RESTORES } else { limits::MAX_RESTORE_STEP };
    let most = least.saturating_add(step - 1).min(limits::MAX_RESTORES);
    if given > most {
        return Err(RestoreError::CountTooLarge { given, most });
    }
    let rises = |record: &Residence| {
        let counts = given.saturating_sub(record.epoch.restores());
        record.max_seq.0.saturating_add(u64::from(counts).saturating_mul(state.restore_margin.0))
    };
    let highest = state.sections.residents().map(|(section, record)| (rises(record), section)).max();
    match highest.filter(|(ceiling, _)| *ceiling > limits::MAX_RESTORED_CEILING) {
        Some((ceiling, section)) => Err(RestoreError::NoNumbersLeft { given, section, ceiling }),
        None => Ok(()),
    }
}

fn is_quarantined(record: &SectionRecord) -> bool {
    matches!(record, SectionRecord::Quarantined(_))
}

/// Checks that the backup is of the cluster, the set and the layout in the configuration, and that the set file has the
/// member.
fn check(backup: &Backup, config: &RestoreConfig) -> Result<(), RestoreError> {
    let (header, spec) = (&backup.header, &config.spec);
    if header.cluster != config.cluster {
        return Err(RestoreError::OtherCluster { found: header.cluster.clone(), expected: config.cluster.clone() });
    }
    if header.set != spec.name {
        return Err(RestoreError::OtherSet { found: header.set.clone(), expected: spec.name.clone() });
    }
    let found = (header.uid_start..header.uid_end, header.section_size);
    let expected = (spec.uids.clone(), spec.section_size);
    if found != expected {
        return Err(RestoreError::OtherLayout { found, expected });
    }
    let known: Vec<u64> = spec.stores.iter().map(|store| store.id).collect();
    if config.id == 0 || !known.contains(&config.id) {
        return Err(RestoreError::UnknownStore { set: spec.name.clone(), id: config.id, known });
    }
    Ok(())
}

/// Returns the new lineage of a restore. It depends on the initial content, so members with different initial contents
/// have different lineages.
fn lineage(backup: &Backup, config: &RestoreConfig) -> Lineage {
    let digest = hash(config, b"seqsvr lineage").chain_update(backup.checksum).finalize();
    let random = u32::from_be_bytes(digest[..4].try_into().expect("four bytes"));
    Lineage::of_restore(config.count, random)
}

/// Returns a hash of the cluster, the members and the count. The caller adds the initial content to it. `purpose`
/// distinguishes hashes for different purposes.
fn hash(config: &RestoreConfig, purpose: &[u8]) -> Sha256 {
    let RestoreConfig { spec, cluster, count, .. } = config;
    let mut hash = Sha256::new().chain_update(purpose).chain_update(SetState::FORMAT.to_be_bytes());
    let mut text = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    text(cluster);
    for store in &spec.stores {
        for part in [&store.id.to_string(), &store.name, &store.addr, &store.raft] {
            text(part);
        }
    }
    hash.chain_update(count.to_be_bytes())
}

/// Returns the secret seed from which the members' nonces are derived. It is the same for all members with the same
/// initial content.
fn seed(backup: &Backup, content: &[u8; 32]) -> [u8; 32] {
    let seed = Sha256::new().chain_update(b"seqsvr restore").chain_update(&backup.header.secret);
    seed.chain_update(backup.checksum).chain_update(content).finalize().into()
}

/// Range of uids, and the number of uids in each section.
type Uids = (std::ops::Range<u64>, u32);

/// Reason why a member cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is of another cluster.
    #[error("the backup is of cluster {found:?}, and the set file is of {expected:?}")]
    OtherCluster {
        /// Name of the cluster in the backup.
        found: String,
        /// Name of the cluster in the configuration.
        expected: String,
    },
    /// The backup is of another set.
    #[error("the backup is of set {found:?}, and the set file describes {expected:?}")]
    OtherSet {
        /// Name of the set in the backup.
        found: String,
        /// Name of the set in the set file.
        expected: String,
    },
    /// The backup has another layout than the set file.
    #[error(
        "the backup is of uids {:?} in sections of {}, and the set file has uids {:?} in sections of {}",
        found.0, found.1, expected.0, expected.1
    )]
    OtherLayout {
        /// Layout of the backup.
        found: Uids,
        /// Layout of the set file.
        expected: Uids,
    },
    /// The set file has no entry for this member.
    #[error("set {set:?} has no store with id {id}, only {known:?}")]
    UnknownStore {
        /// Name of the set.
        set: String,
        /// Id in the configuration.
        id: u64,
        /// The ids in the set file.
        known: Vec<u64>,
    },
    /// The backup records an earlier restore with this count or a greater one.
    #[error(
        "the count {given} was used: the backup knows of restores up to {}, so this one counts {least} or more",
        least - 1
    )]
    CountUsed {
        /// Count in the configuration.
        given: u32,
        /// Minimum count that is possible.
        least: u32,
    },
    /// The count is greater than other sets would accept.
    #[error(
        "the count {given} is too large: other sets would refuse more than {most}, by what the backup knows of them"
    )]
    CountTooLarge {
        /// Count in the configuration.
        given: u32,
        /// Maximum count that is possible.
        most: u32,
    },
    /// With this count, a ceiling would rise above [`limits::MAX_RESTORED_CEILING`].
    #[error(
        "under the count {given}, users of section {section} would go on above {ceiling}: too few numbers are left below \
         2^63"
    )]
    NoNumbersLeft {
        /// Count in the configuration.
        given: u32,
        /// The section.
        section: SectionId,
        /// Ceiling of the section after the restore.
        ceiling: u64,
    },
    /// The clock of this machine is too far behind the time of the backup.
    #[error(
        "the clock of this machine is {behind_s} s before the time of the backup, which has series whose ids have a \
         time: the set would give out ids again; set the clock, then repeat the command"
    )]
    ClockBehind {
        /// Number of whole seconds by which the clock is behind.
        behind_s: u64,
    },
    /// The state in the backup refuses to begin the new lineage.
    #[error("the backup cannot be restored under this count")]
    Lineage(#[from] CommandRefusal),
    /// The data directory is not empty, or cannot be written.
    #[error(transparent)]
    Dir(#[from] OpenError),
}

impl RestoreError {
    /// Returns whether some data may have been written to the directory before the error.
    #[must_use]
    pub fn may_have_written(&self) -> bool {
        let RestoreError::Dir(error) = self else { return false };
        !matches!(error, OpenError::NotEmpty { .. } | OpenError::InUse { .. })
    }
}
