//! Keeps this process known to the store: registers it, renews, and gives each ownership update to the owner's machine.
//!
//! An incarnation lasts from a registration until the store reports a newer one. Then every section is dropped and a
//! new incarnation begins with a new token. When a call is due is decided by `seq_core::renewals`; the control loop
//! sends it.
//!
//! **Invariant:** at most one registration or renewal is in flight, and its response is adopted before the next is
//! sent.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use seq_core::clock_offset::ClockOffset;
use seq_core::lease::Clocks;
use seq_core::owner::{AdoptError, OwnershipUpdate, Renewal, Session};
use seq_core::renewals::{Poll, Registrations, Renewals};
use seq_core::state::CopyPart;
use seq_core::{Incarnation, NodeId, RenewSeq, RouteVersion};
use seq_kit::repeats::Repeats;
use seq_proto::owners::{self, OwnershipUpdateError};
use seq_proto::{Reason, v1};
use tokio::time::Instant;

use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// Pause between two looks at whether an expired certificate was renewed.
const STOPPED_PAUSE: Duration = Duration::from_secs(1);

/// The incarnations of this process: what is registered, renewed, and repeated after a failure.
pub(crate) struct Sessions {
    shared: Arc<Shared>,
    link: Arc<StoreLink>,
    /// What the times of the machines count from.
    origin: Instant,
    registrations: Registrations,
    renewals: Renewals,
    state: State,
    /// When the next registration or renewal is due; `None` while a call is in flight.
    due: Option<Instant>,
}

enum State {
    /// Between two incarnations, until a registration with a new token is due.
    Paused,
    /// Repeated until it succeeds, with one token, so that a repeat is the same incarnation.
    Registering {
        request: v1::RegisterRequest,
        repeats: Repeats,
    },
    Registered {
        session: Session,
        fault: RenewalFault,
    },
    /// This process may no longer serve.
    Halted,
}

/// A call to the store. One is in flight at a time.
pub(crate) enum SessionCall {
    Register(v1::RegisterRequest),
    Renew(RenewalCall),
}

pub(crate) struct RenewalCall {
    renewal: Renewal,
    /// Read before the request is sent: what the response grants is counted from here.
    sent: Clocks,
}

/// A renewal whose call ended.
pub(crate) struct AnsweredRenewal {
    renewal: Renewal,
    sent: Clocks,
    response: Result<v1::RenewResponse, StoreError>,
}

impl RenewalCall {
    pub(crate) async fn send(self, link: &StoreLink) -> AnsweredRenewal {
        let RenewalCall { renewal, sent } = self;
        let response = link.call(request(&renewal)).await;
        AnsweredRenewal { renewal, sent, response }
    }
}

impl Sessions {
    /// The first registration is due at once.
    pub(crate) fn new(shared: Arc<Shared>, link: Arc<StoreLink>) -> Sessions {
        let (origin, options) = (Instant::now(), shared.options.renewals());
        let (registrations, renewals) = (Registrations::new(options), Renewals::new(options));
        Sessions { shared, link, origin, registrations, renewals, state: State::Paused, due: Some(origin) }
    }

    pub(crate) fn registration_due(&self) -> Option<Instant> {
        self.due.filter(|_| matches!(self.state, State::Paused | State::Registering { .. }))
    }

    pub(crate) fn renewal_due(&self) -> Option<Instant> {
        self.due.filter(|_| matches!(self.state, State::Registered { .. }))
    }

    pub(crate) fn is_halted(&self) -> bool {
        matches!(self.state, State::Halted)
    }

    /// Begins an incarnation, or repeats its registration.
    pub(crate) fn on_registration_due(&mut self) -> Option<SessionCall> {
        if let State::Paused = self.state {
            let request = v1::RegisterRequest {
                set: self.shared.set.clone(),
                node: self.shared.name.clone(),
                addr: self.shared.advertise.clone(),
                token: fastrand::u64(1..),
                lease_ms: u64::try_from(self.shared.options.lease.as_millis()).unwrap_or(u64::MAX),
                follows: 0,
                seen_revision: 0,
                replace: self.shared.replace,
                peer_addr: self.shared.advertise_to_peers.clone().unwrap_or_default(),
            };
            self.state = State::Registering { request, repeats: Repeats::default() };
        }
        self.register()
    }

    fn register(&mut self) -> Option<SessionCall> {
        let State::Registering { request, .. } = &mut self.state else { return None };
        if self.shared.is_stopped() {
            self.due = Some(Instant::now() + STOPPED_PAUSE);
            return None;
        }
        request.follows = self.registrations.follows().0;
        request.seen_revision = self.link.seen().revision.0;
        self.due = None;
        Some(SessionCall::Register(request.clone()))
    }

    /// Adopts the incarnation, whose first renewal is due at once, or has the registration repeated.
    pub(crate) fn on_registration_done(
        &mut self,
        response: Result<v1::RegisterResponse, StoreError>,
    ) -> Option<SessionCall> {
        let State::Registering { request, repeats } = &mut self.state else { return None };
        let shared = &self.shared;
        match response {
            Ok(response) => self.on_registered(response),
            // The store names the newest incarnation; the next attempt follows that one.
            Err(StoreError::Refused { reason, current, .. })
                if reason == Reason::OtherPredecessor && self.registrations.on_newer(Incarnation(current)) =>
            {
                self.register()
            }
            Err(error) => {
                shared.judge(Session { node: NodeId(0), incarnation: Incarnation(request.follows) }, &error);
                if let Some(repeated) = repeats.admit() {
                    tracing::warn!(set = shared.set, name = shared.name, %error, repeated, "cannot register");
                }
                shared.note_fault(Some(error.to_string()));
                self.due = Some(Instant::now() + self.registrations.on_failed(fastrand::u32(..)));
                None
            }
        }
    }

    fn on_registered(&mut self, response: v1::RegisterResponse) -> Option<SessionCall> {
        let shared = &self.shared;
        self.link.adopt_members(&response.stores);
        shared.note_stores(response.stores);
        let session = Session { node: NodeId(response.node_id), incarnation: Incarnation(response.incarnation) };
        let (set, name) = (&shared.set, &shared.name);
        let (node, incarnation) = (session.node.0, session.incarnation.0);
        tracing::info!(set, name, node, incarnation, "registered");
        shared.begin_session(session);
        self.registrations.on_registered(self.origin.elapsed(), session.incarnation);
        self.renewals.on_registered();
        self.state = State::Registered { session, fault: RenewalFault::default() };
        self.poll()
    }

    pub(crate) fn on_renewal_due(&mut self) -> Option<SessionCall> {
        self.poll()
    }

    /// The routes known here proved stale.
    pub(crate) fn on_routes_stale(&mut self) -> Option<SessionCall> {
        self.renewals.on_stale();
        self.poll()
    }

    /// A peer reports that a handover to this node is committed.
    pub(crate) fn on_grant_reported(&mut self) -> Option<SessionCall> {
        self.renewals.on_grant_reported();
        self.poll()
    }

    /// Renews where that is due; else notes when it will be.
    fn poll(&mut self) -> Option<SessionCall> {
        let State::Registered { session, .. } = self.state else { return None };
        let shared = &self.shared;
        if shared.is_stopped() {
            self.due = Some(Instant::now() + STOPPED_PAUSE);
            return None;
        }
        let expects = || shared.pending.await_owner() || shared.ownership.machine().expects_update();
        self.due = match self.renewals.poll(self.origin.elapsed(), expects) {
            Poll::Send => {
                self.due = None;
                return self.renew(session);
            }
            Poll::Wait(due) => Some(self.origin + due),
            Poll::Idle => None,
        };
        None
    }

    fn renew(&mut self, session: Session) -> Option<SessionCall> {
        let renewal = self.shared.ownership.machine().renewal().filter(|renewal| renewal.session == session);
        let Some(renewal) = renewal else {
            self.end(session);
            return None;
        };
        Some(SessionCall::Renew(RenewalCall { renewal, sent: self.shared.clock.now() }))
    }

    /// Adopts a response. A renewal without one is repeated under the same number.
    pub(crate) fn on_renewal_done(&mut self, answered: AnsweredRenewal) -> Option<SessionCall> {
        let State::Registered { session, fault } = &mut self.state else { return None };
        let (shared, session) = (&self.shared, *session);
        let AnsweredRenewal { renewal, sent, response } = answered;
        let received = shared.clock.now();
        // A process that was suspended sends its renewal late: no attempt failed.
        fault.note_lease(shared, session);
        match response {
            Ok(response) => {
                shared.counters.renewed(true);
                if let Some(ahead_ms) = clock_ahead_ms(response.clock_ms, sent, received) {
                    shared.counters.clock_ahead(ahead_ms);
                }
                self.link.adopt_members(&response.stores);
                shared.note_stores(response.stores);
                let adopted = shared
                    .read_update(response.update.as_ref(), session.node)
                    .map_err(UnusableUpdate::Unread)
                    .and_then(|update| {
                        let renewed = shared.step(|owner, effects| owner.on_renewed(&renewal, sent, update, effects));
                        renewed.map_err(UnusableUpdate::Adopt)
                    });
                if let Err(error) = &adopted {
                    tracing::error!(%error, "cannot use the store's ownership update");
                    // With routes the set file was right once: then it is the store that errs, and the lease runs out.
                    if matches!(error, UnusableUpdate::Adopt(AdoptError::OtherSet { .. })) && shared.routes().is_none()
                    {
                        shared.halt.other_set(error.to_string());
                    }
                }
                shared.note_fault(adopted.err().map(|error| error.to_string()));
                fault.end(shared, session);
                self.renewals.on_response();
            }
            Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
                tracing::warn!(%error, "this incarnation is over; every section is dropped");
                shared.judge(session, &error);
                self.end(session);
            }
            Err(error) => {
                shared.counters.renewed(false);
                fault.note(shared, session, &error);
                shared.note_fault(Some(error.to_string()));
                self.renewals.on_failed(self.origin.elapsed(), fastrand::u32(..));
            }
        }
        self.poll()
    }

    /// Ends an incarnation; the next registration is due after a pause.
    fn end(&mut self, session: Session) {
        self.shared.end_session(session);
        self.renewals.on_session_over();
        let pause = self.registrations.on_session_over(self.origin.elapsed(), fastrand::u32(..));
        self.due = Some(Instant::now() + pause);
        self.state = State::Paused;
    }

    /// This process may no longer serve: ends the incarnation, and begins no other. The response of a call in flight is
    /// not adopted.
    pub(crate) fn on_halted(&mut self) {
        let shared = &self.shared;
        let session = shared.ownership.machine().session();
        if let Some(session) = session {
            shared.end_session(session);
        }
        shared.note_fault(shared.halt.get().map(|halt| halt.to_string()));
        self.renewals.on_session_over();
        self.due = None;
        self.state = State::Halted;
    }
}

/// Returns the milliseconds that this machine's wall clock is ahead of the store's in a response to a renewal; `None`
/// where the store states none, or the response took too long.
fn clock_ahead_ms(store_ms: u64, sent: Clocks, received: Clocks) -> Option<i64> {
    let store = ClockOffset::measure(store_ms, sent.realtime / 1_000_000, received.at_least_since(sent))?;
    store.precise().map(i64::saturating_neg)
}

/// Renewals that fail: logged at the first, once a minute while they do, when the lease ends, and when one succeeds.
#[derive(Debug, Default)]
struct RenewalFault {
    repeats: Repeats,
    lease_lost: bool,
    /// Whether a renewal succeeded: there was a lease.
    renewed: bool,
}

impl RenewalFault {
    fn note(&mut self, shared: &Shared, session: Session, error: &StoreError) {
        let (set, name, incarnation) = (&shared.set, &shared.name, session.incarnation.0);
        if let Some(repeated) = self.repeats.admit() {
            tracing::warn!(set, name, incarnation, %error, repeated, "cannot renew");
        }
    }

    /// Counts a lease that has expired, once.
    fn note_lease(&mut self, shared: &Shared, session: Session) {
        let (set, name, incarnation) = (&shared.set, &shared.name, session.incarnation.0);
        if self.renewed && !self.lease_lost && !shared.is_leased() {
            self.lease_lost = true;
            shared.counters.lease_expired(shared.clock.now().boottime);
            let sections = shared.ownership.owned().iter().count();
            tracing::warn!(
                set,
                name,
                incarnation,
                sections,
                "lease lost: nothing is answered until a renewal succeeds"
            );
        }
    }

    fn end(&mut self, shared: &Shared, session: Session) {
        let (set, name, incarnation) = (&shared.set, &shared.name, session.incarnation.0);
        let (failed, lease_lost) = (self.repeats.end(), std::mem::take(&mut self.lease_lost));
        self.renewed = true;
        if failed > 0 || lease_lost {
            tracing::info!(set, name, incarnation, failed, lease_lost, "renewed again");
        }
    }
}

/// Why an ownership update is not used. It extended no lease.
#[derive(Debug, thiserror::Error)]
enum UnusableUpdate {
    #[error(transparent)]
    Unread(OwnershipUpdateError),
    #[error(transparent)]
    Adopt(AdoptError),
}

fn request(renewal: &Renewal) -> v1::RenewRequest {
    v1::RenewRequest {
        node_id: renewal.session.node.0,
        incarnation: renewal.session.incarnation.0,
        renew_seq: renewal.renew_seq.0,
        route_version: renewal.route_version.0,
        released: renewal.released.iter().map(|(section, _)| section.0).collect(),
        released_epochs: renewal.released.iter().map(|(_, epoch)| epoch.0).collect(),
        leaving: renewal.leaving,
        copies: renewal.copies.iter().map(part).collect(),
        taken: renewal.taken.iter().map(|(section, _)| section.0).collect(),
        taken_epochs: renewal.taken.iter().map(|(_, epoch)| epoch.0).collect(),
    }
}

fn part(part: &CopyPart) -> v1::CopyPart {
    let CopyPart { section, epoch, highest, length, offset, bytes } = part;
    let (length, offset, part) = (*length, *offset, bytes.clone());
    v1::CopyPart { section: section.0, epoch: epoch.0, highest: highest.0, length, offset, part }
}

impl Shared {
    fn begin_session(&self, session: Session) {
        self.node.store(session.node.0, Relaxed);
        self.last_incarnation.fetch_max(session.incarnation.0, Relaxed);
        self.step(|owner, _| owner.on_registered(session));
        self.note_fault(None);
    }

    /// Ends an incarnation, if it still is the current one: nothing more is given out under it.
    pub(crate) fn end_session(&self, session: Session) {
        self.step(|owner, effects| owner.on_session_over(session, effects));
        self.renew_now.notify_one();
    }

    /// Checks whether a refusal of the store means that this process may no longer serve.
    pub(crate) fn judge(&self, session: Session, error: &StoreError) {
        // The number of the renewal to send is one more than that of the last answered one.
        let renewal = self.ownership.machine().renewal().filter(|renewal| renewal.session == session);
        let renewed = RenewSeq(renewal.map_or(0, |renewal| renewal.renew_seq.0 - 1));
        self.halt.judge(session, renewed, &self.advertise, error);
    }

    fn note_stores(&self, stores: Vec<String>) {
        if !stores.is_empty() {
            *self.stores.lock() = stores;
        }
    }

    fn note_fault(&self, fault: Option<String>) {
        *self.fault.lock() = fault;
    }

    /// Version of the routes that a request to the store should name.
    pub(crate) fn known_version(&self) -> RouteVersion {
        self.ownership.machine().known_version()
    }

    /// Decodes an ownership update of the store.
    pub(crate) fn read_update(
        &self,
        update: Option<&v1::OwnershipUpdate>,
        me: NodeId,
    ) -> Result<OwnershipUpdate, OwnershipUpdateError> {
        let decoded = owners::update(update, &self.layout, me)?;
        let planned = update.into_iter().flat_map(|update| &update.handovers);
        for planned in planned.filter(|planned| !planned.to_addr.is_empty()) {
            self.peer_addrs.lock().insert(NodeId(planned.to_node_id), planned.to_addr.clone());
        }
        Ok(decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_at_the_middle_of_a_renewal() {
        let at = |realtime: u64, raw: u64| Clocks { boottime: raw, raw, realtime: realtime * 1_000_000 };
        let ahead = |ms: u64| clock_ahead_ms(10_000, at(13_600, 0), at(0, ms * 1_000_000));
        assert_eq!(ahead(20), Some(3_610), "whatever the wall clock was set to meanwhile");
        assert_eq!(ahead(1_100), None, "the response took too long");
        assert_eq!(clock_ahead_ms(0, at(13_600, 0), at(13_600, 0)), None, "an older store states none");
    }
}
