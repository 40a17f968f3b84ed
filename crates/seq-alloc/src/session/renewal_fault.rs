//! Log lines about renewals that fail.

use seq_core::node_events::Fact;
use seq_core::owner::Session;
use seq_kit::repeats::Repeats;
use seq_kit::telemetry::traces::Span;

use crate::shared::Shared;
use crate::store_link::StoreError;

/// Log of failed renewals. Lines are logged at the first failure, once a minute while renewals keep failing, when the
/// lease expires, and when a renewal succeeds again.
#[derive(Debug, Default)]
pub(super) struct RenewalFault {
    repeats: Repeats,
    lease_lost: bool,
    /// Whether a renewal has succeeded, that is, whether there ever was a lease.
    renewed: bool,
}

impl RenewalFault {
    pub(super) fn note(&mut self, shared: &Shared, session: Session, error: &StoreError, span: &Span) {
        let (set, name, incarnation) = (&shared.config.set, &shared.config.name, session.incarnation.0);
        if let Some(repeated) = self.repeats.admit() {
            tracing::warn!(set, name, incarnation, %error, repeated, trace = span.trace(), "cannot renew");
        }
    }

    /// Counts and logs the expiry of a lease, only once for each lease.
    pub(super) fn note_lease(&mut self, shared: &Shared, session: Session) {
        let (set, name, incarnation) = (&shared.config.set, &shared.config.name, session.incarnation.0);
        if self.renewed && !self.lease_lost && !shared.is_leased() {
            self.lease_lost = true;
            shared.counters.lease_expired(shared.clock.now().boottime);
            let sections = shared.ownership.owned().iter().count();
            let event = note_event(shared);
            tracing::warn!(
                event,
                set,
                name,
                incarnation,
                sections,
                "lease lost: no call is served until a renewal succeeds"
            );
        }
    }

    pub(super) fn end(&mut self, shared: &Shared, session: Session) {
        let (set, name, incarnation) = (&shared.config.set, &shared.config.name, session.incarnation.0);
        let (failed, lease_lost) = (self.repeats.end(), std::mem::take(&mut self.lease_lost));
        self.renewed = true;
        let event = note_event(shared);
        if failed > 0 || lease_lost {
            tracing::info!(event, set, name, incarnation, failed, lease_lost, "renewed again");
        }
    }
}

/// Reports to the event log whether the lease holds, and returns the kind of the event if it is one. The sections are
/// counted only if the lease does not hold.
fn note_event(shared: &Shared) -> Option<&'static str> {
    let now = shared.clock.now();
    let holds = shared.ownership.is_leased(now);
    let sections = if holds { 0 } else { shared.ownership.owned().iter().count() };
    shared.events.note(Fact::Lease {
        holds,
        expired: u64::try_from(shared.ownership.lease_expired_for(now).as_nanos()).unwrap_or(u64::MAX),
        sections: u32::try_from(sections).unwrap_or(u32::MAX),
    })
}
