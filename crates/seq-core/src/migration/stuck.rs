//! The rule by which a migration is stuck.
//!
//! A migration is stuck when one of its steps has failed for some time. The coordinator records the failures and
//! successes of each step. The status of the migration, the metric and the event log show the decision of this module,
//! so that they agree.
//!
//! One failure is no reason for an operator to act, because the coordinator repeats a failed step: a set without a
//! leader has another one soon, and the sections of a dead owner get another owner.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::{ARM_TIMEOUT, ARMED_FOR, Coordinator, Move, Owner, covered};
use crate::id::{MigrationId, SectionId};
use crate::state::{Migration, Phase, Scope, State};

/// Time for which a step fails before the status and the metric show that the migration is stuck. An election in the
/// other set takes less.
const SHOWN_AFTER: Duration = Duration::from_secs(2);

/// Time for which a step fails before the event log gets an event. It is longer than [`SHOWN_AFTER`], because an event
/// stays: a restart of the other set's store should leave none.
const EVENT_AFTER: Duration = Duration::from_secs(10);

/// Time without a failure of a step after which its earlier failures no longer count. The coordinator repeats a failed
/// step sooner, even if each member of the other set's store lets the request time out.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30);

/// Pause before an event that was not committed is proposed again.
const NOTE_AGAIN: Duration = Duration::from_secs(1);

/// A step of a migration that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The target set names the next owners of sections.
    Arm,
    /// The owner of a section hands the section over to the next owner.
    HandOver,
    /// The target set commits the arrival of sections.
    Arrive,
    /// The target set commits the end of the migration.
    End,
}

impl Step {
    const ALL: [Step; 4] = [Step::Arm, Step::HandOver, Step::Arrive, Step::End];
}

/// Failures of a step since its last success.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failures {
    /// Time of the first failure.
    first: Duration,
    /// Time until which the failures count, unless the step fails again.
    until: Duration,
    /// Cause of the last failure.
    cause: String,
}

/// The failing steps of one migration. All times are on the coordinator's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Obstacles {
    /// In the order of [`Step::ALL`].
    failures: [Option<Failures>; Step::ALL.len()],
    event: EventState,
}

/// State of the event about the present failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EventState {
    /// The event log has no event.
    #[default]
    None,
    /// The event is proposed, or the event log has it.
    Noted,
    /// A proposal of the event failed. It is to be proposed again at this time.
    Again(Duration),
}

impl Obstacles {
    /// Records that a step failed. The failure counts until the step succeeds, at most until the time `until`.
    fn failed(&mut self, step: Step, cause: &str, (now, until): (Duration, Duration)) {
        if self.current(now).is_none() {
            self.event = EventState::None;
        }
        let failures = &mut self.failures[step as usize];
        let known = failures.take().filter(|known| now < known.until);
        let first = known.map_or(now, |known| known.first);
        *failures = Some(Failures { first, until, cause: cause.to_owned() });
    }

    /// Records that a step succeeded, or is not due any more.
    fn succeeded(&mut self, step: Step) {
        self.failures[step as usize] = None;
        if self.failures.iter().all(Option::is_none) {
            self.event = EventState::None;
        }
    }

    /// Drops the failures of the steps for which `is_due` returns false.
    fn retain(&mut self, is_due: impl Fn(Step) -> bool) {
        Step::ALL.into_iter().filter(|step| !is_due(*step)).for_each(|step| self.succeeded(step));
    }

    /// Returns the cause why the migration is stuck; `None` if it is not.
    fn stuck(&self, now: Duration) -> Option<&str> {
        self.lasting(SHOWN_AFTER, now).map(|failures| &*failures.cause)
    }

    /// Returns the cause for which the event log is to get an event now; `None` if it is to get none. The caller
    /// proposes the event, and calls [`Obstacles::not_noted`] if this fails.
    fn take_event(&mut self, now: Duration) -> Option<String> {
        let cause = self.lasting(EVENT_AFTER, now)?.cause.clone();
        let is_due = match self.event {
            EventState::None => true,
            EventState::Noted => false,
            EventState::Again(at) => at <= now,
        };
        is_due.then(|| {
            self.event = EventState::Noted;
            cause
        })
    }

    /// Records that the event was not committed, so that it is proposed again after a pause.
    fn not_noted(&mut self, now: Duration) {
        if self.event == EventState::Noted {
            self.event = EventState::Again(now + NOTE_AGAIN);
        }
    }

    /// Returns the time when the next decision of this rule changes; `None` if none will.
    fn next_deadline(&self, now: Duration) -> Option<Duration> {
        let first = self.current(now)?.first;
        let again = if let EventState::Again(at) = self.event { Some(at) } else { None };
        [Some(first + SHOWN_AFTER), Some(first + EVENT_AFTER), again].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Returns the failures that began first, if they have lasted for `time`.
    fn lasting(&self, time: Duration, now: Duration) -> Option<&Failures> {
        self.current(now).filter(|failures| now.saturating_sub(failures.first) >= time)
    }

    /// Returns the failures that began first.
    fn current(&self, now: Duration) -> Option<&Failures> {
        let current = self.failures.iter().flatten().filter(|failures| now < failures.until);
        current.min_by_key(|failures| failures.first)
    }
}

impl Coordinator {
    /// Returns the migrations that are stuck, each with the cause.
    pub fn stuck(&self, now: Duration) -> impl Iterator<Item = (MigrationId, &str)> {
        self.obstacles.iter().filter_map(move |(id, obstacles)| Some((*id, obstacles.stuck(now)?)))
    }

    /// Returns the migrations of which the event log is to get an event because they are stuck, each with the cause.
    /// The caller proposes the events, and calls [`Coordinator::on_event_failed`] for each proposal that fails.
    pub fn take_stuck_events(&mut self, now: Duration) -> Vec<(MigrationId, String)> {
        let event = |(id, obstacles): (&MigrationId, &mut Obstacles)| Some((*id, obstacles.take_event(now)?));
        self.obstacles.iter_mut().filter_map(event).collect()
    }

    /// Returns the time when [`Coordinator::stuck`] or [`Coordinator::take_stuck_events`] returns something else than
    /// now, if no command is applied and no request ends until then. It is apart from [`Coordinator::next_deadline`],
    /// because no step of a migration depends on it.
    #[must_use]
    pub fn next_stuck_deadline(&self, now: Duration) -> Option<Duration> {
        self.obstacles.values().filter_map(|obstacles| obstacles.next_deadline(now)).min()
    }

    /// Continues after the event that a migration is stuck was not committed.
    pub fn on_event_failed(&mut self, migration: MigrationId, now: Duration) {
        if let Some(obstacles) = self.obstacles.get_mut(&migration) {
            obstacles.not_noted(now);
        }
    }

    pub(super) fn on_failure(&mut self, migration: MigrationId, step: Step, cause: &str, now: Duration) {
        self.obstacles.entry(migration).or_default().failed(step, cause, (now, now + FORGOTTEN_AFTER));
    }

    pub(super) fn on_success(&mut self, migration: MigrationId, step: Step) {
        if let Some(obstacles) = self.obstacles.get_mut(&migration) {
            obstacles.succeeded(step);
        }
    }

    /// Drops the failures of steps that are not due any more. Requests overlap, so one of them may fail after another
    /// one has succeeded.
    pub(super) fn observe_obstacles(&mut self, state: &State) {
        let on_their_way: BTreeSet<MigrationId> = self.sent.values().map(|sent| sent.migration).collect();
        self.obstacles.retain(|id, obstacles| {
            let Some(migration) = state.migrations.get(id) else { return false };
            let departs = migration.phase == Phase::Open && !migration.pace.paused;
            let departs = departs && covered(state, migration).next().is_some();
            obstacles.retain(|step| match step {
                Step::Arm | Step::HandOver => departs,
                // Sections that departed before a pause or the end of the migration are still to arrive.
                Step::Arrive => on_their_way.contains(id),
                Step::End => migration.phase == Phase::RolledBack { noted: false },
            });
            true
        });
    }

    /// Records that the target set of an open migration is closing. The failure lasts as long as sections are to
    /// depart.
    pub(super) fn observe_closing(&mut self, state: &State, (id, migration): (MigrationId, &Migration), now: Duration) {
        let facts = state.sets.get(&migration.to).and_then(|peer| peer.facts.as_ref());
        let name = facts.map_or("", |facts| &*facts.name);
        let advice = if matches!(migration.scope, Scope::Runs(_)) { ": roll the migration back" } else { "" };
        let cause = format!("set {name} is closing and takes no more sections{advice}");
        self.obstacles.entry(id).or_default().failed(Step::Arm, &cause, (now, Duration::MAX));
    }
}

impl Move {
    /// Returns the step that has not happened within its time, with the cause; `None` if the section has no live owner.
    /// Its departure is then not committed, because it has another owner by now.
    pub(super) fn late(&self, section: SectionId, state: &State) -> Option<(MigrationId, Step, String)> {
        let Owner::Living(owner) = self.owner else { return None };
        let (step, cause) = match &self.planned {
            None => {
                let text =
                    format!("the other set has not named the next owner of section {section} within {ARM_TIMEOUT:?}");
                (Step::Arm, text)
            }
            Some(_) => {
                let name = state.node(owner).map_or("", |node| &*node.name);
                (Step::HandOver, format!("{name} has not handed section {section} over within {ARMED_FOR:?}"))
            }
        };
        Some((self.migration, step, cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn failed(obstacles: &mut Obstacles, step: Step, cause: &str, now: Duration) {
        obstacles.failed(step, cause, (now, now + FORGOTTEN_AFTER));
    }

    #[test]
    fn a_step_that_fails_for_two_seconds_is_shown_and_one_that_fails_for_ten_is_an_event() {
        let mut obstacles = Obstacles::default();
        assert_eq!((obstacles.stuck(at(0)), obstacles.next_deadline(at(0))), (None, None));
        failed(&mut obstacles, Step::Arm, "no leader", at(100));
        assert_eq!((obstacles.stuck(at(2_099)), obstacles.next_deadline(at(2_099))), (None, Some(at(2_100))));
        failed(&mut obstacles, Step::Arm, "no response", at(2_000));
        assert_eq!(
            (obstacles.stuck(at(2_100)), obstacles.next_deadline(at(2_100))),
            (Some("no response"), Some(at(10_100)))
        );
        assert_eq!(obstacles.take_event(at(10_099)), None);
        assert_eq!(obstacles.take_event(at(10_100)).as_deref(), Some("no response"));
        assert_eq!((obstacles.take_event(at(10_101)), obstacles.next_deadline(at(10_101))), (None, None), "once");
        obstacles.succeeded(Step::Arm);
        assert_eq!(obstacles.stuck(at(10_102)), None);
        failed(&mut obstacles, Step::Arm, "no leader", at(11_000));
        failed(&mut obstacles, Step::Arm, "no leader", at(21_000));
        assert_eq!(obstacles.take_event(at(20_999)), None);
        assert_eq!(obstacles.take_event(at(21_000)).as_deref(), Some("no leader"), "it was over in between");
    }

    #[test]
    fn an_event_that_is_not_committed_is_proposed_again_after_a_pause() {
        let mut obstacles = Obstacles::default();
        failed(&mut obstacles, Step::End, "no response", at(0));
        failed(&mut obstacles, Step::End, "no response", at(9_900));
        assert!(obstacles.take_event(at(10_000)).is_some());
        obstacles.not_noted(at(10_500));
        assert_eq!((obstacles.take_event(at(11_499)), obstacles.next_deadline(at(11_499))), (None, Some(at(11_500))));
        assert!(obstacles.take_event(at(11_500)).is_some());
        assert_eq!(obstacles.next_deadline(at(11_500)), None);
    }

    #[test]
    fn a_success_of_one_step_does_not_hide_that_another_one_fails() {
        let mut obstacles = Obstacles::default();
        failed(&mut obstacles, Step::Arrive, "no response", at(0));
        failed(&mut obstacles, Step::Arm, "no candidate", at(1_000));
        obstacles.succeeded(Step::Arm);
        assert_eq!(obstacles.stuck(at(2_000)), Some("no response"));
        failed(&mut obstacles, Step::Arm, "no candidate", at(2_000));
        obstacles.retain(|step| step != Step::Arrive);
        assert_eq!((obstacles.stuck(at(3_999)), obstacles.stuck(at(4_000))), (None, Some("no candidate")));
    }

    #[test]
    fn failures_before_a_long_pause_do_not_count() {
        let mut obstacles = Obstacles::default();
        failed(&mut obstacles, Step::HandOver, "late", at(0));
        assert_eq!(obstacles.stuck(at(29_999)), Some("late"));
        assert!(obstacles.take_event(at(29_999)).is_some());
        assert_eq!((obstacles.stuck(at(30_000)), obstacles.next_deadline(at(30_000))), (None, None));
        failed(&mut obstacles, Step::HandOver, "late", at(30_000));
        assert_eq!(obstacles.stuck(at(31_999)), None);
        assert_eq!(obstacles.take_event(at(39_999)), None);
        assert!(obstacles.take_event(at(40_000)).is_some(), "another event");
    }
}
