//! Bounds of raises, which are checked before the raises are proposed. This module supplies [`seq_core::raise_bound`]
//! and [`seq_core::raise_rate`] with clocks and the committed ceilings, and adds a warning and a metric.
//!
//! **Invariant:** no raise moves a ceiling by more than was taken from the token bucket of its section.
//!
//! The buckets belong to one term of leadership. The next leader begins with full buckets, and so does this member when
//! it leads again. Each raise is committed by the leader that admitted it.

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

/// Minimum time between two warnings, because an AllocSvr may repeat a refused raise hundreds of times a second.
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

    /// Takes the distances of all raises of one request from the buckets. If a bucket has too few numbers, takes
    /// nothing. Lowers the target of each raise whose sender is not on record as the owner of the section. If such a
    /// raise is accepted all the same, [`check`] refuses the request.
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

/// Refuses a request if one of its lowered raises was accepted. `sections` and `ceilings` are in the order of the
/// raises in the request.
///
/// # Errors
/// `RAISE_TOO_FAST` if an ownership began after it was looked up. The sender should repeat the request soon.
pub(crate) fn check(lowered: &Lowered, sections: &[u32], ceilings: &[Option<Seq>]) -> Result<(), Status> {
    let Some(index) = lowered.first_accepted(ceilings) else { return Ok(()) };
    let section = sections[index];
    let text = format!("section {section}: its ownership began while the request was processed; repeat it");
    Err(Reason::RaiseTooFast.status_with(text, [(key::SECTION, section.to_string())]))
}

impl Warnings {
    /// Returns whether a refused request is to be logged now. If so, returns the number of refused requests since the
    /// last warning that were not logged; otherwise returns `None`.
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
