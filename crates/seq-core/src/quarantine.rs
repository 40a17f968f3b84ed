//! Decides when the leader of a restored set's store ends the quarantine of the set, and whether a newer lineage must
//! begin before.
//!
//! **Invariant:** the end of a quarantine is proposed only when every awaited response of another set is there, and
//! when the leases of the earlier lineages are over. The leases are over after the time [`State::quarantine_wait`],
//! counted from when this leader first has the restored state. The count begins again at a new leader, and when a
//! leader learns of a newer lineage of another set.
//!
//! The caller reads the clock, sends requests to other sets and to members of the store, commits the proposals, and
//! draws the random part of a lineage. When the end of the quarantine is applied, the state checks the responses again.

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
    /// The lineage with the highest count of restores among rival groups that may have served. Its count is not below
    /// the count of the set's own lineage. `None` if there is no such group.
    rival: Option<Lineage>,
}

/// The next step of a quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends the fence to these sets. Each set is listed with the section at which the next page of its response must
    /// begin.
    Fence(Vec<(SetId, SectionId)>),
    /// Waits for this time, because leases of the earlier lineages may last until its end.
    Wait(Duration),
    /// Begins the wait again with [`Quarantine::of`], because another set was restored in the meantime.
    Restart,
    /// Notes the time by the clock of the store.
    NoteClock,
    /// Proposes the end of the quarantine.
    End(EndQuarantine),
}

/// A member of the store, according to the set file, that responds as a member of another Raft group. It was restored
/// from another backup file, or under another count of restores.
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
    /// A new lineage begins, which counts at least this many restores. It is necessary because a rival group may have
    /// served under a count that is not below this group's count, and both groups would allocate the same numbers.
    Begin(u32),
}

impl Quarantine {
    /// Returns the quarantine of a state at the time `now` of the leader's clock; `None` if the state is not in
    /// quarantine. `known` is the result of the leader's previous call. Its wait continues, unless a lineage has
    /// changed since that call.
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

    /// Compares this leader's group with the rivals that respond now. A rival group with a majority and with at least
    /// this group's count is remembered, even if it does not respond again, because it may have served.
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

/// Returns how many restores the lineage that follows `refused` must count. `least` is the count that another set or a
/// rival requires. `None` if the set is no longer in quarantine under the lineage `refused`.
#[must_use]
pub fn next_count(state: &State, refused: Lineage, least: u32) -> Option<u32> {
    // The log may have learned by now that other sets require a higher count.
    (state.is_quarantined() && state.lineage == refused).then(|| state.least_restores().max(least))
}

#[cfg(test)]
mod tests;
