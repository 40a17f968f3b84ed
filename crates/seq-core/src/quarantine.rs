//! Decides when the leader of a restored set's store ends the quarantine of the set, and whether the set must begin a
//! newer lineage before that.
//!
//! **Invariant:** the leader proposes the end of a quarantine only after it has every awaited response of another set,
//! and after the leases of the earlier lineages are over. The leases are over after the time
//! [`State::quarantine_wait`], counted from when this leader first had the restored state. The count begins again when
//! another member becomes the leader, and when the leader learns of a newer lineage of another set.
//!
//! The caller reads the clock, sends requests to other sets and to members of the store, commits the proposals, and
//! draws the random part of a lineage. When the store applies the end of the quarantine, it checks again that it has
//! all awaited responses.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{Lineage, SectionId, SetId};
use crate::state::{EndQuarantine, State};

/// The progress of a set's quarantine at the leader of the set's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The set's lineage, and the newest known lineages of other sets: see [`State::quarantine_lineages`].
    lineages: (Lineage, BTreeMap<SetId, Lineage>),
    /// Time when the wait began, by the leader's clock.
    began: Duration,
    /// Of the rival groups that have a majority and at least this set's count of restores, the lineage with the highest
    /// count. Such a group may have served. `None` if no such group has responded.
    rival: Option<Lineage>,
}

/// The next step of a quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Request that each of these sets fence the lineages before this set's lineage, and respond with its section
    /// records. Each set is listed with the section at which the next page of its response must begin.
    Fence(Vec<(SetId, SectionId)>),
    /// Wait for this time, because leases of the earlier lineages may last until its end.
    Wait(Duration),
    /// Call [`Quarantine::of`] again, because a lineage has changed since its last call, or the quarantine has ended.
    Restart,
    /// Commit the current time of the leader's clock.
    NoteClock,
    /// Propose the end of the quarantine.
    End(EndQuarantine),
}

/// A process that the set file names as a member of the store, but that responds as a member of another Raft group. It
/// was restored from another backup file, or with another count of restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The lineage of the rival's group.
    pub lineage: Lineage,
    /// Whether the rival's group has a majority, and so can end its quarantine.
    pub has_majority: bool,
    /// Whether the rival's group is out of quarantine.
    pub serves: bool,
}

/// The effect of rivals on this group's quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// There is no rival, and the quarantine continues.
    None,
    /// The quarantine waits until an operator has stopped the rivals and restored them from the same backup as this
    /// group.
    Waits,
    /// This set begins a new lineage that counts at least this many restores. It is necessary because a rival group may
    /// have served with the same count of restores as this group, or with a higher count, and then both groups would
    /// allocate the same numbers.
    Begin(u32),
}

impl Quarantine {
    /// Returns the quarantine of a state at the time `now` of the leader's clock; `None` if the state is not in
    /// quarantine. `known` is the result of the leader's previous call. The wait that began with `known` continues,
    /// unless a lineage has changed since that call.
    #[must_use]
    pub fn of(known: Option<Quarantine>, state: &State, now: Duration) -> Option<Quarantine> {
        state.quarantine_wait()?;
        let lineages = state.quarantine_lineages();
        let known = known.filter(|known| known.lineages == lineages);
        Some(known.unwrap_or(Quarantine { lineages, began: now, rival: None }))
    }

    /// Returns the lineage under which the set serves after the quarantine.
    #[must_use]
    pub fn lineage(&self) -> Lineage {
        self.lineages.0
    }

    /// Returns the time since the wait began.
    #[must_use]
    pub fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.began)
    }

    /// Returns the next step, for the state given to [`Quarantine::of`] or a later state.
    #[must_use]
    pub fn step(&self, state: &State, now: Duration) -> Step {
        let Some(wait) = state.quarantine_wait().filter(|_| state.quarantine_lineages() == self.lineages) else {
            return Step::Restart;
        };
        let awaited: Vec<(SetId, SectionId)> = state.awaited_responses().collect();
        let left = wait.saturating_sub(self.waited(now));
        match (awaited.is_empty(), left.is_zero()) {
            (false, _) => Step::Fence(awaited),
            (true, false) => Step::Wait(left),
            // After the wait, because leases of earlier lineages are over then.
            (true, true) if state.awaits_clock() => Step::NoteClock,
            (true, true) => Step::End(EndQuarantine { lineage: self.lineage() }),
        }
    }

    /// Decides how the rivals that respond now affect the quarantine. If a rival group has a majority and at least this
    /// group's count of restores, it is remembered even after it stops responding, because it may have served.
    pub fn contest(&mut self, rivals: &[Rival]) -> Contest {
        let own = self.lineage().restores();
        let is_ahead = |rival: &&Rival| rival.has_majority && rival.lineage.restores() >= own;
        let ahead = rivals.iter().filter(is_ahead).map(|rival| rival.lineage).chain(self.rival);
        self.rival = ahead.max_by_key(|rival| rival.restores());
        // Two groups in quarantine wait for each other, and do not outbid each other.
        let is_settled = rivals.is_empty() || rivals.iter().any(|rival| rival.serves);
        match self.rival.filter(|_| is_settled) {
            Some(rival) => Contest::Begin(rival.restores().saturating_add(1)),
            None if rivals.is_empty() => Contest::None,
            None => Contest::Waits,
        }
    }
}

/// Returns the least count of restores for the lineage that replaces the lineage `refused`. `least` is the count that
/// another set or a rival requires. `None` if the set is no longer in quarantine in the lineage `refused`.
#[must_use]
pub fn next_count(state: &State, refused: Lineage, least: u32) -> Option<u32> {
    // The log may have learned by now that other sets require a higher count.
    (state.is_quarantined() && state.lineage == refused).then(|| state.least_restores().max(least))
}

#[cfg(test)]
mod tests;
