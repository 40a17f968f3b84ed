//! Forms the data directory of a member from a backup, offline. Each member does so by itself, from the same file.
//!
//! **Invariant:** what the directory begins with depends on the backup, the set file and the number of the restore
//! alone, so all members begin with the same state, lineage and list of members.

use std::path::PathBuf;

use seq_core::plan::{Fingerprint, Preconditions};
use seq_core::set_spec::SetSpec;
use seq_core::state::{Answer, BeginOperation, Command, CommandRefusal, EndOperation, RestoreMargin, SectionRecord};
use seq_core::{Lineage, limits};
use seq_raft::{OpenError, Peer, RestoredGroup, form_restored};
use sha2::{Digest, Sha256};

use super::file::Backup;
use crate::encoding;
use crate::replicated_set::SetState;

/// How a member is restored.
#[derive(Clone, Debug)]
pub struct RestoreConfig {
    /// The set, as its file describes it: its stores are the members.
    pub spec: SetSpec,
    /// Name of the cluster.
    pub cluster: String,
    /// Which of the set's stores the member is.
    pub id: u64,
    /// Its data directory; missing or empty.
    pub dir: PathBuf,
    /// Which restore this is since the backup was made, 1 or above. Ceilings and epochs are raised once for each: two
    /// restores under one number allocate the same numbers.
    pub nth: u32,
    /// By how many numbers each restore raises the ceilings, 1 or above; `None`: [`limits::RESTORE_MARGIN`].
    pub margin: Option<u64>,
}

/// A member that was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The lineage that begins.
    pub lineage: Lineage,
    /// Lineage of the backup.
    pub backup: Lineage,
    /// Sections in quarantine.
    pub quarantined: u32,
    /// Numbers by which ceilings rise, or more.
    pub margin: u64,
}

/// What a restore of one member forms, before anything is written.
#[derive(Debug)]
pub struct RestorePlan<'a> {
    backup: &'a Backup,
    config: &'a RestoreConfig,
    pub(super) state: SetState,
    restored: Restored,
}

impl<'a> RestorePlan<'a> {
    /// Compares the backup with the set file, and begins the lineage.
    ///
    /// # Errors
    /// [`RestoreError`]; nothing is written.
    pub fn new(backup: &'a Backup, config: &'a RestoreConfig) -> Result<RestorePlan<'a>, RestoreError> {
        check(backup, config)?;
        let mut state = backup.state().clone();
        let before = state.0.lineage;
        let lineage = lineage(backup, config.nth).ok_or(RestoreError::TooManyRestores { nth: config.nth })?;
        let format = backup.state_format();
        if config.margin.is_some() && format < encoding::AUDIT {
            return Err(RestoreError::NoMargin { format });
        }
        // That of an earlier restore does not stay.
        state.0.restore_margin = config.margin.map_or_else(RestoreMargin::default, RestoreMargin);
        state.0.restore(lineage)?;
        if format >= encoding::AUDIT {
            record(&mut state, backup, config);
        }
        for store in &config.spec.stores {
            if let Err(place) = state.0.store_ids.binary_search(&store.id) {
                state.0.store_ids.insert(place, store.id);
            }
        }
        let quarantined = state.0.sections.known().filter(|(_, record)| is_quarantined(record)).count() as u32;
        let margin = state.0.restore_margin.0.saturating_mul(config.nth.into());
        let restored = Restored { lineage, backup: before, quarantined, margin };
        Ok(RestorePlan { backup, config, state, restored })
    }

    /// What the restore begins with.
    #[must_use]
    pub fn restored(&self) -> Restored {
        self.restored
    }

    /// Identifies the member, the backup, the number of the restore and the list of members: a plan of something else has
    /// another one. Times and running nodes are not in it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let RestoreConfig { spec, cluster, id, dir, nth, margin } = self.config;
        let numbers = [*id, (*nth).into(), margin.unwrap_or(limits::RESTORE_MARGIN)];
        let mut plan = Preconditions::of("restore").text(&self.backup.checksum_text()).numbers(numbers);
        plan = plan.text(cluster).text(&dir.to_string_lossy());
        for store in &spec.stores {
            plan = plan.number(store.id).text(&store.name).text(&store.addr).text(&store.raft);
        }
        plan.fingerprint()
    }

    /// Forms the data directory. Blocks while it writes.
    ///
    /// # Errors
    /// [`RestoreError::Dir`]; nothing is written where the directory is not empty or in use.
    pub fn carry_out(self) -> Result<Restored, RestoreError> {
        let RestorePlan { backup, config, state, restored } = self;
        let peer = |store: &seq_core::set_spec::StoreSpec| Peer {
            id: store.id,
            name: store.name.clone(),
            addr: store.addr.clone(),
            raft_addr: store.raft.clone(),
        };
        let peers: Vec<Peer> = config.spec.stores.iter().map(peer).collect();
        let (format, seed) = (backup.state_format(), seed(backup, restored.lineage));
        let group = RestoredGroup { cluster: &config.cluster, peers: &peers, format, seed };
        form_restored(&config.dir, config.id, &group, state)?;
        Ok(restored)
    }
}

/// Plans and carries out the restore of a member. Blocks while it writes.
///
/// # Errors
/// [`RestoreError`]; nothing is written unless it is an error of the directory.
pub fn restore(backup: &Backup, config: &RestoreConfig) -> Result<Restored, RestoreError> {
    RestorePlan::new(backup, config)?.carry_out()
}

/// Records the restore in the audit log that the set begins with, without a time: all members begin alike.
fn record(state: &mut SetState, backup: &Backup, config: &RestoreConfig) {
    let RestoreConfig { nth, margin, .. } = config;
    let checksum = &backup.checksum_text()[..16];
    let margin = margin.map_or_else(String::new, |margin| format!(" --bump {margin}"));
    let begin = BeginOperation {
        at_unix_ms: 0,
        principal: "offline".to_owned(),
        node: "all".to_owned(),
        operation: format!("restore --nth {nth}{margin}: the backup with SHA-256 {checksum}..."),
        plan: 0,
    };
    if let Answer::OperationBegun(Ok(operation)) = state.0.apply(&Command::BeginOperation(begin)) {
        drop(state.0.apply(&Command::EndOperation(EndOperation { at_unix_ms: 0, operation, refusal: None })));
    }
}

fn is_quarantined(record: &SectionRecord) -> bool {
    matches!(record, SectionRecord::Quarantined(_))
}

/// Compares the backup with the set file.
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

/// The lineage of the nth restore since the backup; `None` where its count does not fit.
fn lineage(backup: &Backup, nth: u32) -> Option<Lineage> {
    let count = backup.state().0.least_restores().checked_add(nth.checked_sub(1)?)?;
    let digest = Sha256::new()
        .chain_update(b"seqsvr lineage")
        .chain_update(backup.checksum)
        .chain_update(count.to_be_bytes())
        .finalize();
    let random = u32::from_be_bytes(digest[..4].try_into().expect("four bytes"));
    Some(Lineage(u64::from(count) << 32 | u64::from(random)))
}

/// What only the members of this restore know.
fn seed(backup: &Backup, lineage: Lineage) -> [u8; 32] {
    let seed = Sha256::new().chain_update(b"seqsvr restore").chain_update(&backup.header.secret);
    seed.chain_update(backup.checksum).chain_update(lineage.0.to_be_bytes()).finalize().into()
}

/// Uids, and how many are a section.
type Uids = (std::ops::Range<u64>, u32);

/// Why a member is not restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup is of another cluster.
    #[error("the backup is of cluster {found:?}, and the set file is of {expected:?}")]
    OtherCluster {
        /// That of the backup.
        found: String,
        /// That of the set file.
        expected: String,
    },
    /// The backup is of another set.
    #[error("the backup is of set {found:?}, and the set file describes {expected:?}")]
    OtherSet {
        /// That of the backup.
        found: String,
        /// That of the set file.
        expected: String,
    },
    /// The backup is of another layout.
    #[error(
        "the backup is of uids {:?} in sections of {}, and the set file has uids {:?} in sections of {}",
        found.0, found.1, expected.0, expected.1
    )]
    OtherLayout {
        /// That of the backup.
        found: Uids,
        /// That of the set file.
        expected: Uids,
    },
    /// The set file does not have this member.
    #[error("set {set:?} has no store with id {id}, only {known:?}")]
    UnknownStore {
        /// Name of the set.
        set: String,
        /// The id given.
        id: u64,
        /// The ids in the set file.
        known: Vec<u64>,
    },
    /// The number of the restore is 0, or too large.
    #[error("restore number {nth} is not 1 or above, or too large for the lineage of the backup")]
    TooManyRestores {
        /// The number given.
        nth: u32,
    },
    /// The format of the backup has no margin of its own.
    #[error("the backup is of format {format}, in which a restore has no other margin than 2^40")]
    NoMargin {
        /// The format of its state.
        format: u16,
    },
    /// The state cannot begin this lineage.
    #[error("the backup cannot be restored under this number")]
    Lineage(#[from] CommandRefusal),
    /// The data directory is not empty, or cannot be written.
    #[error(transparent)]
    Dir(#[from] OpenError),
}

impl RestoreError {
    /// Whether something may have been written before the error.
    #[must_use]
    pub fn may_have_written(&self) -> bool {
        let RestoreError::Dir(error) = self else { return false };
        !matches!(error, OpenError::NotEmpty { .. } | OpenError::InUse { .. })
    }
}
