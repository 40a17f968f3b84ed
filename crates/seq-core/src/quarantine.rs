//! Decides when the leader of a restored set ends the quarantine of the set, and when a newer lineage begins first.
//!
//! **Invariant:** the machine proposes the end of a quarantine only when no response of another set is awaited, and
//! when the leases of the earlier lineages are over: after [`State::quarantine_wait`], counted from when this leader
//! has the restored state. A new leader starts the count again, and so does a leader that learns of a newer lineage of
//! another set.
//!
//! The shell reads the clock, sends requests to other sets and to members of the store, proposes, and draws the random
//! part of a lineage. The state checks the responses again when the end is applied.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::{Lineage, SectionId, SetId};
use crate::state::{EndQuarantine, State};

/// A quarantine, as the leader that ends it keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The set's lineage, and the newest known lineages of other sets: see [`State::quarantine_lineages`].
    lineages: (Lineage, BTreeMap<SetId, Lineage>),
    /// Time when the wait began, by the leader's clock.
    began: Duration,
    /// The lineage with the highest count of a rival group that may have served. It counts at least as many restores as
    /// the set's own lineage.
    rival: Option<Lineage>,
}

/// The next step of a quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends the fence to these sets, each with the first section of the awaited page of its response.
    Fence(Vec<(SetId, SectionId)>),
    /// Waits for this time: leases of the earlier lineages may last until then.
    Wait(Duration),
    /// Another set was restored as well, so the wait begins again with [`Quarantine::of`].
    Restart,
    /// Notes the time by the clock of the store.
    NoteClock,
    /// Proposes the end of the quarantine.
    End(EndQuarantine),
}

/// A listed member of the store that responds as a member of another group, because it was restored from another file,
/// or under another count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The lineage of its group.
    pub lineage: Lineage,
    /// Whether its group has a majority, and so can end its quarantine.
    pub has_majority: bool,
    /// Whether its group is out of quarantine.
    pub serves: bool,
}

/// The effect of rivals on a quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contest {
    /// There is no rival, and the quarantine continues.
    None,
    /// The quarantine waits until the rivals are stopped, and restored like the other members.
    Waits,
    /// A rival group may have served under a count that is not below this group's count, so both groups would have the
    /// same numbers. A lineage begins that counts this many restores or more.
    Begin(u32),
}

impl Quarantine {
    /// Returns the quarantine that a state is in at a time of the leader's clock, or `None` outside of a quarantine. It
    /// continues from `known`, the result of the leader's last call, unless a lineage has changed since.
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

    /// Returns how long the leader has waited.
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

    /// Compares the group of this leader with the rivals that respond now. A rival with a high count is remembered,
    /// because it may have served, whether or not it responds again.
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

/// Returns how many restores the lineage after `refused` must count, of which another set or a rival requires `least`;
/// `None` if `refused` is no longer the lineage of a set in quarantine.
#[must_use]
pub fn next_count(state: &State, refused: Lineage, least: u32) -> Option<u32> {
    // Other sets may require more by now, which the log has learned.
    (state.is_quarantined() && state.lineage == refused).then(|| state.least_restores().max(least))
}

#[cfg(test)]
mod tests;
