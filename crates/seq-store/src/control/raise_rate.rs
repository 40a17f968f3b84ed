//! The bound on how fast ceilings rise, before a raise is proposed: [`seq_core::raise_rate`] with a clock, the
//! committed ceilings, a warning and a metric.
//!
//! **Invariant:** no raise moves a ceiling by more than was taken from the bucket of its section. The distance is
//! counted from the committed ceiling as read here; ceilings never fall, so an applied raise moves the ceiling by this
//! distance at most. A raise whose ownership is not on record takes nothing, so that a node cannot exhaust the bucket
//! of another node's section. It moves nothing either: its target is lowered to the ceiling as read, in case the
//! ownership begins before the raise is applied.
//!
//! The buckets belong to one term of leadership: the next leader, and this member in its next term, begins with full
//! buckets. Only the leader commits the raises that it admits.

use std::time::Duration;

use parking_lot::Mutex;
use seq_api::metrics::RAISES_TOO_FAST_TOTAL;
use seq_core::owner::Session;
use seq_core::raise_rate::{RaiseRate, TooFast};
use seq_core::state::{Raise, SectionRecord, State};
use seq_core::{SectionId, Seq, limits};
use seq_proto::reason::{Reason, key};
use seq_proto::status;
use tokio::time::Instant;
use tonic::Status;

use crate::replicated_set::ReplicatedSet;

/// Shortest time between two warnings: an AllocSvr may repeat a refused raise hundreds of times a second.
const WARN_INTERVAL: Duration = Duration::from_secs(1);

/// Buckets of this member, and its warnings.
#[derive(Debug)]
pub(crate) struct RaiseGate {
    /// Name of the set, in metrics and logs.
    set: String,
    node: String,
    /// Origin of the buckets' times.
    origin: Instant,
    buckets: Mutex<Buckets>,
    warnings: Mutex<Warnings>,
}

/// Buckets of one term.
#[derive(Debug, Default)]
struct Buckets {
    /// The last term that this member led, as far as it knows.
    term: Option<u64>,
    rate: RaiseRate,
}

#[derive(Debug, Default)]
struct Warnings {
    last: Option<Instant>,
    /// Refused requests since then.
    suppressed: u64,
}

/// Raises of one request whose target was lowered, each with its position in the request and its requested target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lowered(Vec<(usize, Seq)>);

impl RaiseGate {
    /// Creates full buckets for a member of this name, in the store of this set.
    pub(crate) fn new(set: &str, node: &str) -> RaiseGate {
        RaiseGate {
            set: set.to_owned(),
            node: node.to_owned(),
            origin: Instant::now(),
            buckets: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// Takes the numbers of all raises of one request from the buckets, or of none of them. Lowers the targets of
    /// raises whose ownership is not on record; if such a raise is accepted all the same, [`Lowered::check`] refuses
    /// the request.
    ///
    /// # Errors
    /// `RAISE_TOO_FAST`; in this case nothing may be proposed.
    pub(crate) fn admit(
        &self,
        replicated: &ReplicatedSet,
        session: Session,
        raises: &mut [Raise],
    ) -> Result<Lowered, Status> {
        let now_ms = replicated.raft().clock_ms();
        let (distances, lowered) = replicated.read(|state| bound(state, session, raises, now_ms));
        self.take(replicated.raft().leads(), &distances)
            .map_err(|too_fast| self.refuse(replicated, session, raises, too_fast))?;
        Ok(lowered)
    }

    /// Takes the distances of one request from the buckets. `term` is the term that this member leads, or `None` while
    /// it does not lead.
    ///
    /// # Errors
    /// The section whose bucket has too few numbers; in this case nothing is taken.
    fn take(&self, term: Option<u64>, distances: &[(SectionId, u64)]) -> Result<(), TooFast> {
        let mut buckets = self.buckets.lock();
        if term.is_some() && term != buckets.term {
            *buckets = Buckets { term, rate: RaiseRate::new() };
        }
        // Read under the lock, so that the time never goes back.
        buckets.rate.admit(self.origin.elapsed(), distances)
    }

    /// Counts and logs a refused request.
    fn refuse(&self, replicated: &ReplicatedSet, session: Session, raises: &[Raise], too_fast: TooFast) -> Status {
        let TooFast { section, after } = too_fast;
        let asked = raises.iter().find(|raise| raise.section == section).map_or(Seq::ZERO, |raise| raise.to);
        let (alloc, committed) = replicated.read(|state| {
            let name = state.node(session.node).map(|node| node.name.clone()).unwrap_or_default();
            (name, committed(state, section))
        });
        let labels = [("set", self.set.clone()), ("node", self.node.clone()), ("alloc", alloc.clone())];
        metrics::counter!(RAISES_TOO_FAST_TOTAL, &labels).increment(1);
        if let Some(suppressed) = self.warnings.lock().admit(Instant::now()) {
            let (set, section) = (&self.set, section.0);
            tracing::warn!(
                set,
                node = alloc,
                section,
                asked = asked.0,
                committed = committed.0,
                ?after,
                suppressed,
                "an AllocSvr raises a ceiling too fast: refused"
            );
        }
        let text = format!(
            "section {section}: a raise from {committed} to {asked} is refused now, because its ceiling rose by {} and {} \
             more for each second before; repeat it after {after:?}",
            limits::RAISE_BURST,
            limits::RAISE_RATE
        );
        let (reason, metadata) = (Reason::RaiseTooFast, [(key::SECTION, section.to_string())]);
        status::with_reason(reason.code(), reason, text, metadata, Some(after))
    }
}

impl Lowered {
    /// Compares the committed ceilings of these raises with their requested targets, both in the order of the request.
    ///
    /// # Errors
    /// `RAISE_TOO_FAST`, to be repeated soon, if an ownership began after it was looked up.
    pub(crate) fn check(&self, sections: &[u32], ceilings: &[Option<Seq>]) -> Result<(), Status> {
        for &(index, requested) in &self.0 {
            if ceilings[index].is_some_and(|ceiling| ceiling < requested) {
                let section = sections[index];
                let text = format!("section {section}: its ownership began while the request was processed; repeat it");
                return Err(Reason::RaiseTooFast.status_with(text, [(key::SECTION, section.to_string())]));
            }
        }
        Ok(())
    }
}

impl Warnings {
    /// Returns the number of suppressed requests before this request if it is to be logged now, or `None`.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < WARN_INTERVAL) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

/// Returns the largest distance by which each raise by the owner on record moves its ceiling, and lowers the targets of
/// all other raises to the committed ceiling. A raise of ticks has no distance: its target is lowered to the highest
/// ceiling at this time of the store, in milliseconds since 1970.
fn bound(state: &State, session: Session, raises: &mut [Raise], now_ms: u64) -> (Vec<(SectionId, u64)>, Lowered) {
    let layout = state.set.as_ref().map(|set| &set.layout);
    let (mut distances, mut lowered) = (Vec::with_capacity(raises.len()), Vec::new());
    for (index, raise) in raises.iter_mut().enumerate() {
        let committed = committed(state, raise.section);
        let owns = state.sections.resident(raise.section).is_some_and(|record| {
            record.owner == Some(session.node)
                && record.incarnation == session.incarnation
                && record.epoch == raise.epoch
        });
        if let Some(clock) = layout.and_then(|layout| layout.clock_of(raise.section)).filter(|_| owns) {
            // A raise that is cut short is no refusal: the owner requests again.
            raise.to = raise.to.min(clock.clamp(now_ms));
        } else if owns {
            distances.push((raise.section, raise.to.0.saturating_sub(committed.0).min(limits::MAX_RAISE)));
        } else if raise.to > committed {
            lowered.push((index, raise.to));
            raise.to = committed;
        }
    }
    (distances, Lowered(lowered))
}

/// Returns the committed ceiling of a section; 0 if the set has no record of it.
fn committed(state: &State, section: SectionId) -> Seq {
    state.sections.get(section).map_or(Seq::ZERO, SectionRecord::max_seq)
}

#[cfg(test)]
mod tests {
    use seq_core::state::{Answer, Command, RaiseCeilings, Reassign, Registration, SetDefinition};
    use seq_core::{Epoch, Incarnation, Layout, Liveness, NodeId, Revision};

    use super::*;

    const OWNER: Session = Session { node: NodeId(1), incarnation: Incarnation(1) };
    const OTHER: Session = Session { node: NodeId(2), incarnation: Incarnation(1) };

    /// Returns a set of ten sections and two AllocSvrs, the first of which owns section 3 under epoch 1 with a ceiling
    /// of 500.
    fn state() -> State {
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::only("im-a", Layout::new(0..1_000, 100).unwrap())));
        for (name, token) in [("a1", 1), ("a2", 2)] {
            state.apply(&Command::Register(Registration {
                name: name.into(),
                addr: format!("{name}:1"),
                peer_addr: format!("{name}:2"),
                token,
                lease: Duration::from_secs(2),
                follows: Incarnation(0),
                seen: Revision(0),
            }));
        }
        assign(&mut state, OWNER, Epoch(0), None);
        assert_eq!(apply(&mut state, OWNER, &[raise(1, 500)]), [Some(Seq(500))]);
        state
    }

    fn assign(state: &mut State, to: Session, expected: Epoch, liveness: Option<Liveness>) {
        let section = SectionId(3);
        let reassign = Reassign { section, expected, liveness, to: to.node, incarnation: to.incarnation };
        let answer = state.apply(&Command::Reassign(vec![reassign]));
        assert_eq!(answer, Answer::Reassigned(vec![Some(expected.next())]));
    }

    fn raise(epoch: u64, to: u64) -> Raise {
        Raise { section: SectionId(3), epoch: Epoch(epoch), to: Seq(to) }
    }

    fn apply(state: &mut State, Session { node, incarnation }: Session, raises: &[Raise]) -> Vec<Option<Seq>> {
        let Answer::Raised(answer) =
            state.apply(&Command::Raise(RaiseCeilings { node, incarnation, raises: raises.to_vec() }))
        else {
            panic!()
        };
        answer.unwrap()
    }

    #[test]
    fn a_raise_of_the_owner_counts_for_as_far_as_it_moves_the_ceiling() {
        let state = state();
        for (to, distance) in [(1, 0), (500, 0), (501, 1), (10_500, 10_000), (Seq::MAX.0, limits::MAX_RAISE)] {
            let mut raises = [raise(1, to)];
            assert_eq!(bound(&state, OWNER, &mut raises, 0), (vec![(SectionId(3), distance)], Lowered::default()));
            assert_eq!(raises, [raise(1, to)], "proposed as requested");
        }
    }

    #[test]
    fn a_raise_without_an_ownership_takes_nothing_and_moves_nothing_when_the_ownership_begins_meanwhile() {
        let mut state = state();
        for (session, epoch) in [(OTHER, 1), (OWNER, 2), (Session { incarnation: Incarnation(2), ..OWNER }, 1)] {
            let mut raises = [raise(epoch, 9_000)];
            let (distances, lowered) = bound(&state, session, &mut raises, 0);
            assert_eq!((distances, lowered), (vec![], Lowered(vec![(0, Seq(9_000))])));
            assert_eq!(raises, [raise(epoch, 500)]);
        }
        // The node guessed its epoch, and the ownership begins between the lookup and the entry.
        let mut raises = [raise(2, 9_000)];
        let (_, lowered) = bound(&state, OTHER, &mut raises, 0);
        let liveness = state.node(OWNER.node).unwrap().liveness;
        assign(&mut state, OTHER, Epoch(1), Some(liveness));
        let ceilings = apply(&mut state, OTHER, &raises);
        assert_eq!(ceilings, [Some(Seq(500))], "the ceiling is where it was");
        let refusal = lowered.check(&[3], &ceilings).unwrap_err();
        assert_eq!(status::known_reason(&refusal), Some(Reason::RaiseTooFast));
        // Now the repeated request is a raise of the owner.
        let mut again = [raise(2, 9_000)];
        assert_eq!(bound(&state, OTHER, &mut again, 0), (vec![(SectionId(3), 8_500)], Lowered::default()));
        assert!(lowered.check(&[3], &[None]).is_ok(), "refused by the log");
    }

    #[test]
    fn a_new_term_begins_with_full_buckets_and_the_end_of_one_does_not() {
        let gate = RaiseGate::new("im-a", "s1");
        let most = vec![(SectionId(3), limits::MAX_RAISE)];
        let exhaust = |term| {
            let admitted = (0..1_000).take_while(|_| gate.take(term, &most).is_ok()).count() as u64;
            assert!(admitted < 1_000, "no raise was refused in term {term:?}");
            admitted >= limits::RAISE_BURST / limits::MAX_RAISE
        };
        assert!(exhaust(Some(1)));
        assert!(!exhaust(Some(1)));
        assert!(!exhaust(None), "it does not lead");
        assert!(!exhaust(Some(1)), "it learned of its own term late");
        assert!(exhaust(Some(4)));
    }

    #[test]
    fn one_refused_request_a_second_is_logged_with_the_number_of_the_others() {
        let (mut warnings, start) = (Warnings::default(), Instant::now());
        assert_eq!(warnings.admit(start), Some(0));
        for hundredth in 1..100 {
            assert_eq!(warnings.admit(start + hundredth * WARN_INTERVAL / 100), None);
        }
        assert_eq!(warnings.admit(start + WARN_INTERVAL), Some(99));
    }
}
