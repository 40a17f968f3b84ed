//! Comparison of the members' applied states, which detects a member whose state differs from the others.
//!
//! Members apply the same entries in the same order, so their states must be equal after the same entry. They differ if
//! memory is damaged, if a data directory began with another state, or if a release applies a command differently than
//! other releases do, and without a comparison no member would notice. So the leader marks an entry at an interval. The
//! mark is a [`RaiseFormat`](crate::encoding::Record::RaiseFormat) to the format that the group already has. Every
//! release can read this record, and the record changes no state. After a marked entry, each member computes the
//! SHA-256 of its state in the group's format, and requests the digests of the other members. If a majority of the
//! voters agrees on a digest that differs from a member's own digest, this member stops permanently. If the digests
//! differ without such a majority, it is unknown which state is right, and all members report the difference.
//!
//! **Invariant:** a member stops only because of a comparison that it made itself, and only if a majority of the voters
//! has another state than it. Neither the leader nor any other single member can make it stop.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use parking_lot::Mutex;
use seq_proto::v1;
use tokio::sync::Notify;

/// Number of digests that a member keeps, one for each of the last marked entries. A member whose log lags behind the
/// logs of the others by fewer marked entries than this number can still be compared with them.
pub(crate) const KEPT: usize = 8;

/// Digest of a member's state after it has applied one log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateDigest {
    /// Index of that log entry.
    pub(crate) index: u64,
    /// SHA-256 over the number of the group's format, the log id of the entry, and the state encoded in that format.
    pub(crate) sha256: [u8; 32],
}

impl StateDigest {
    /// Decodes the digests in a message. A hostile member can send wrong digests, but they count only as the digests of
    /// that member.
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

/// Function that computes the digest of a copy of the state at a marked entry. It runs while the member applies later
/// entries to the state itself.
pub(crate) type Due = Box<dyn FnOnce() -> StateDigest + Send>;

/// Digests of this member's state after the last marked entries, a copy of the state that is not digested yet, and the
/// last difference that a comparison found.
#[derive(Default)]
pub(crate) struct Digests {
    /// The newest copy of the state that is not digested yet. It replaces an older copy that is still waiting, because
    /// a starting member applies many marked entries faster than it digests them.
    due: Mutex<Option<Due>>,
    changed: Notify,
    /// Digests of the last marked entries, in ascending order of the entries' indexes; at most [`KEPT`].
    kept: Mutex<VecDeque<StateDigest>>,
    difference: Mutex<Option<Difference>>,
    /// Digests that other members sent in their own probes, by Raft id. If a member no longer responds to probes
    /// because it was outvoted, these digests are used in its place to report a difference. They never decide whether
    /// this member itself is outvoted.
    heard: Mutex<BTreeMap<u64, Vec<StateDigest>>>,
}

impl Digests {
    /// Sets the copy of the state that is to be digested next, and wakes the task that waits in [`Digests::due`].
    pub(crate) fn mark(&self, due: Due) {
        *self.due.lock() = Some(due);
        self.changed.notify_one();
    }

    /// Waits for the next copy of the state that is to be digested. Cancel safe.
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

    /// Records the digests that the member `from` has sent in its probe.
    pub(crate) fn hear(&self, from: u64, digests: Vec<v1::StateDigest>) {
        self.heard.lock().insert(from, StateDigest::read(digests));
    }

    /// Returns `responses` with an added entry for each member that did not respond but sent digests in an earlier
    /// probe of its own.
    pub(crate) fn with_heard(&self, mut responses: BTreeMap<u64, Vec<StateDigest>>) -> BTreeMap<u64, Vec<StateDigest>> {
        for (from, digests) in &*self.heard.lock() {
            responses.entry(*from).or_insert_with(|| digests.clone());
        }
        responses
    }

    /// Returns the digests of the last marked entries, in ascending order of the entries' indexes.
    pub(crate) fn kept(&self) -> Vec<StateDigest> {
        self.kept.lock().iter().copied().collect()
    }

    /// Returns the last difference that a comparison found, or `None` if all voters have had the same state after a
    /// later entry.
    pub(crate) fn difference(&self) -> Option<Difference> {
        self.difference.lock().clone()
    }
}

/// Difference between the states that members have after the same log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Index of that log entry.
    pub(crate) index: u64,
    /// Raft ids of the members by the digest of their state. There are at least two digests.
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

/// Result of comparing the digests of all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The digests that this member has kept and the digests of the other members do not belong to the same entries, so
    /// nothing can be compared.
    Unknown,
    /// At least one other member has the same state as this member, and no member has a different state.
    Same,
    /// Every voter has the same state as this member after some entry, and no member has a different state.
    AllSame {
        /// Index of the newest entry after which every voter has the same state.
        index: u64,
    },
    /// The members' states differ, and no majority of the voters has a state that differs from this member's.
    Differs(Difference),
    /// A majority of the voters has one state, and this member has a different state.
    Outvoted(Difference),
}

/// Compares the digests of member `me` with the digests of the other members. `digests` holds the digests of all
/// members, including `me`. Digests are compared only if they belong to the same entry, so a member that lags behind is
/// compared at an older entry than the others.
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
    /// Records a verdict. A recorded difference remains until every voter has the same state after a later entry. So it
    /// remains if the member that had the different state stops and no longer responds.
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
