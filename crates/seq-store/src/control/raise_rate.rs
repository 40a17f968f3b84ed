//! Limits on raises, which are checked before the raises are proposed. This module passes clocks and the committed
//! ceilings to [`seq_core::raise_bound`] and [`seq_core::raise_rate`], and adds a warning and a metric.
//!
//! **Invariant:** no raise moves a ceiling by more numbers than were taken from the token bucket of its section. The
//! raises of lanes with a clock are an exception, because the clock limits them instead.
//!
//! The buckets belong to one term in which this member leads. The next leader begins with full buckets, and so does
//! this member when it leads in a later term. A raise is committed only by the leader that took its numbers from a
//! bucket.

use std::time::Duration;

use parking_lot::Mutex;
use seq_api::metrics::RAISES_TOO_FAST_TOTAL;
use seq_core::owner::Session;
use seq_core::raise_bound::{Lowered, bound, committed};
use seq_core::raise_rate::{RaiseRate, TooFast};
use seq_core::state::Raise;
use seq_core::{SectionId, Seq, limits};
use seq_proto::reason::{Reason, key};
use seq_proto::status;
use tokio::time::Instant;
use tonic::Status;

use crate::replicated_set::ReplicatedSet;

/// Minimum time between two warnings. It limits their number, because an AllocSvr may repeat a refused raise hundreds
/// of times in a second.
const WARN_INTERVAL: Duration = Duration::from_secs(1);

/// Token buckets with which this member limits raises, and the state of its warnings.
#[derive(Debug)]
pub(crate) struct RaiseGate {
    /// Name of the set, as it appears in metrics and logs.
    set: String,
    node: String,
    /// Time at which the time scale of the buckets begins.
    origin: Instant,
    buckets: Mutex<Buckets>,
    warnings: Mutex<Warnings>,
}

/// Token buckets of one term in which this member leads.
#[derive(Debug, Default)]
struct Buckets {
    /// Last term in which this member led, as far as it knows.
    term: Option<u64>,
    rate: RaiseRate,
}

#[derive(Debug, Default)]
struct Warnings {
    last: Option<Instant>,
    /// Number of refused requests since then that were not logged.
    suppressed: u64,
}

impl RaiseGate {
    /// Creates full buckets for the member `node` of the set `set`. Both names are used in metrics and logs.
    pub(crate) fn new(set: &str, node: &str) -> RaiseGate {
        RaiseGate {
            set: set.to_owned(),
            node: node.to_owned(),
            origin: Instant::now(),
            buckets: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// Takes numbers from the token bucket of each section in a request, as many as the request raises the section's
    /// ceiling by. If one bucket has too few numbers, takes nothing. If the sender of a raise is not recorded as the
    /// owner of its section, lowers the target of the raise to the present ceiling. If such a raise is accepted after
    /// all, [`check`] refuses the request.
    ///
    /// # Errors
    /// `RAISE_TOO_FAST`. In this case the caller must not propose the raises.
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

    /// Takes `distances`, the numbers by which one request raises the ceilings of sections, from the token buckets of
    /// these sections. `term` is the term in which this member leads, or `None` if it does not lead.
    ///
    /// # Errors
    /// The section whose bucket has too few numbers. In this case nothing is taken.
    fn take(&self, term: Option<u64>, distances: &[(SectionId, u64)]) -> Result<(), TooFast> {
        let mut buckets = self.buckets.lock();
        if term.is_some() && term != buckets.term {
            *buckets = Buckets { term, rate: RaiseRate::new() };
        }
        // The clock is read under the lock, so that the time never goes back.
        buckets.rate.admit(self.origin.elapsed(), distances)
    }

    /// Counts and logs a refused request, and returns its error.
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

/// Returns an error if the state has accepted one of the raises whose target [`RaiseGate::admit`] lowered. `sections`
/// and `ceilings` are in the order of the raises in the request.
///
/// # Errors
/// `RAISE_TOO_FAST` if the sender became the owner of a section after its target was lowered. The sender should repeat
/// the request soon.
pub(crate) fn check(lowered: &Lowered, sections: &[u32], ceilings: &[Option<Seq>]) -> Result<(), Status> {
    let Some(index) = lowered.first_accepted(ceilings) else { return Ok(()) };
    let section = sections[index];
    let text = format!("section {section}: its ownership began while the request was processed; repeat it");
    Err(Reason::RaiseTooFast.status_with(text, [(key::SECTION, section.to_string())]))
}

impl Warnings {
    /// Decides whether a refused request is logged now. If so, returns the number of refused requests since the last
    /// warning that were not logged. Otherwise returns `None`.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < WARN_INTERVAL) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
