//! Comparison of the applied states of the members. It finds a member whose state differs.
//!
//! Members apply the same entries in the same order, so their states are equal after the same entry. This equality is
//! silently lost if memory is damaged, if a data directory began with another state, or if a release applies a command
//! differently. So the leader marks an entry at an interval. The mark is a
//! [`RaiseFormat`](crate::encoding::Record::RaiseFormat) to the group's current format. Every release reads this
//! record, and it changes no state. Each member computes the SHA-256 of its state after that entry, in the group's
//! format, and requests the digests of the other members. If a majority of the voters agrees on a different digest, the
//! member stops permanently. Without such a majority it is unknown which state is right, and all members report the
//! difference.
//!
//! **Invariant:** a member stops only because of its own comparison, and only if a majority of the voters has another
//! state. Neither the leader nor any other single member can stop it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use parking_lot::Mutex;
use seq_proto::v1;
use tokio::sync::Notify;

/// Number of digests that a member keeps. A member that lags behind the others by fewer marked entries than this can
/// still be compared with them.
pub(crate) const KEPT: usize = 8;

/// Digest of the state after one log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateDigest {
    /// Index of the entry.
    pub(crate) index: u64,
    /// SHA-256 over the number of the group's format, the id of the entry, and the state in that format.
    pub(crate) sha256: [u8; 32],
}

impl StateDigest {
    /// Reads the digests in a message. A hostile member can send wrong digests, but they count only for that member
    /// itself.
    pub(crate) fn read(digests: Vec<v1::StateDigest>) -> Vec<StateDigest> {
        let read = |v1::StateDigest { index, sha256 }: v1::StateDigest| {
            Some(StateDigest { index, sha256: sha256.try_into().ok()? })
        };
        digests.into_iter().take(KEPT).filter_map(read).collect()
    }

    pub(crate) fn into_wire(self) -> v1::StateDigest {
        v1::StateDigest { index: self.index, sha256: self.sha256.to_vec() }
    }
}

/// Function that digests a copy of the state at a marked entry. It runs while later entries are applied.
pub(crate) type Due = Box<dyn FnOnce() -> StateDigest + Send>;

/// Digests of one member's state, the copy that is to be digested next, and the last difference found.
#[derive(Default)]
pub(crate) struct Digests {
    /// The newest copy of the state that is not digested yet. It replaces an older copy, because a starting member
    /// applies many marked entries within a short time.
    due: Mutex<Option<Due>>,
    changed: Notify,
    /// Ascending by index, at most [`KEPT`].
    kept: Mutex<VecDeque<StateDigest>>,
    difference: Mutex<Option<Difference>>,
    /// Digests that other members sent in their own probes, by Raft id. They replace the response of a member that was
    /// outvoted and no longer responds. They are not used to outvote this member.
    heard: Mutex<BTreeMap<u64, Vec<StateDigest>>>,
}

impl Digests {
    /// Enqueues the copy of the state at a marked entry.
    pub(crate) fn mark(&self, due: Due) {
        *self.due.lock() = Some(due);
        self.changed.notify_one();
    }

    /// Waits for the next copy. Cancel safe.
    pub(crate) async fn due(&self) -> Due {
        loop {
            if let Some(due) = self.due.lock().take() {
                return due;
            }
            self.changed.notified().await;
        }
    }

    pub(crate) fn keep(&self, digest: StateDigest) {
        let mut kept = self.kept.lock();
        kept.push_back(digest);
        while kept.len() > KEPT {
            kept.pop_front();
        }
    }

    /// Records the digests that a member of the group has sent.
    pub(crate) fn hear(&self, from: u64, digests: Vec<v1::StateDigest>) {
        self.heard.lock().insert(from, StateDigest::read(digests));
    }

    /// Returns `responses`, completed by the last recorded digests of each member that did not respond.
    pub(crate) fn with_heard(&self, mut responses: BTreeMap<u64, Vec<StateDigest>>) -> BTreeMap<u64, Vec<StateDigest>> {
        for (from, digests) in &*self.heard.lock() {
            responses.entry(*from).or_insert_with(|| digests.clone());
        }
        responses
    }

    /// Returns the newest digests, ascending by index.
    pub(crate) fn kept(&self) -> Vec<StateDigest> {
        self.kept.lock().iter().copied().collect()
    }

    /// Returns the last difference found; `None` once all voters have the same state again.
    pub(crate) fn difference(&self) -> Option<Difference> {
        self.difference.lock().clone()
    }
}

/// Members whose states differ after one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Index of the entry.
    pub(crate) index: u64,
    /// Raft ids by digest; two or more digests.
    pub(crate) members: BTreeMap<[u8; 32], BTreeSet<u64>>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "behind log entry {} the state of ", self.index)?;
        for (position, (digest, ids)) in self.members.iter().enumerate() {
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            let stores = if ids.len() == 1 { "store" } else { "stores" };
            let [a, b, c, d, ..] = digest;
            let and = if position == 0 { "" } else { ", that of " };
            write!(f, "{and}{stores} {} is {a:02x}{b:02x}{c:02x}{d:02x}", ids.join(" and "))?;
        }
        Ok(())
    }
}

/// Result of comparing digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No other member has a digest of an entry that this member has digested.
    Unknown,
    /// Some other member has the same state, and no member has a different state.
    Same,
    /// Every voter has the same state after one entry.
    AllSame {
        /// Index of the newest such entry.
        index: u64,
    },
    /// Members differ, and no majority contradicts this member.
    Differs(Difference),
    /// A majority of the voters has one state, and this member has a different state.
    Outvoted(Difference),
}

/// Compares the digests of member `me` with the digests of the other members. `digests` holds the digests of all
/// members, including `me`. Each entry is judged separately, so a member that is behind is compared at an older entry.
pub(crate) fn judge(me: u64, voters: &BTreeSet<u64>, digests: &BTreeMap<u64, Vec<StateDigest>>) -> Verdict {
    let mut verdict = Verdict::Unknown;
    let mine = digests.get(&me).map_or(&[][..], Vec::as_slice);
    for StateDigest { index, sha256 } in mine {
        let mut members: BTreeMap<[u8; 32], BTreeSet<u64>> = BTreeMap::new();
        for (id, theirs) in digests {
            if let Some(digest) = theirs.iter().find(|digest| digest.index == *index) {
                members.entry(digest.sha256).or_default().insert(*id);
            }
        }
        let votes = |ids: &BTreeSet<u64>| ids.intersection(voters).count();
        let outvoted = members.iter().any(|(digest, ids)| digest != sha256 && votes(ids) * 2 > voters.len());
        let (groups, same) = (members.len(), members[sha256].clone());
        let difference = Difference { index: *index, members };
        verdict = match verdict {
            _ if outvoted => return Verdict::Outvoted(difference),
            _ if groups > 1 => Verdict::Differs(difference),
            Verdict::Differs(_) => verdict,
            _ if voters.is_subset(&same) => Verdict::AllSame { index: *index },
            Verdict::Unknown if same.len() > 1 => Verdict::Same,
            earlier => earlier,
        };
    }
    verdict
}

impl Digests {
    /// Records a verdict. A recorded difference stays until every voter has the same state after a later entry, because
    /// a member that stopped because of the difference no longer responds.
    pub(crate) fn note(&self, verdict: &Verdict) {
        let mut known = self.difference.lock();
        match verdict {
            Verdict::Unknown | Verdict::Same => {}
            Verdict::AllSame { index } => {
                if known.as_ref().is_some_and(|known| known.index < *index) {
                    tracing::info!(index, "all voters have the same state again");
                    *known = None;
                }
            }
            Verdict::Differs(difference) | Verdict::Outvoted(difference) => {
                if known.as_ref() != Some(difference) {
                    tracing::error!(%difference, "members of the store have different states");
                    *known = Some(difference.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
