//! Registers this process with the store, renews its lease, and passes each ownership update from the store to the
//! owner's state machine.
//!
//! An incarnation lasts from a registration until the store reports a newer incarnation of the node. Then this process
//! drops every section and registers a new incarnation with a new token. `seq_core::renewals` decides when calls are
//! due, and the control loop sends them.
//!
//! **Invariant:** at most one registration or renewal is in flight, and its response is adopted before the next
//! registration or renewal is sent.

use std::sync::Arc;
use std::time::Duration;

use seq_core::owner::{AdoptError, Session};
use seq_core::renewals::{Poll, Registrations, Renewals};
use seq_core::state::EventKind;
use seq_core::{Incarnation, NodeId};
use seq_kit::nonce::draw_nonce;
use seq_kit::repeats::Repeats;
use seq_kit::telemetry::traces;
use seq_proto::owners::OwnershipUpdateError;
use seq_proto::{Reason, v1};
use tokio::time::Instant;

use self::renewal::clock_ahead_ms;
use self::renewal_fault::RenewalFault;
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

mod renewal;
mod renewal_fault;

pub(crate) use self::renewal::{AnsweredRenewal, RenewalCall};

/// Pause between two checks whether this node has a new certificate, after its certificate expired.
const STOPPED_PAUSE: Duration = Duration::from_secs(1);

/// State of this process' incarnations. It registers the process, renews the lease, and retries both.
pub(crate) struct Sessions {
    shared: Arc<Shared>,
    link: Arc<StoreLink>,
    /// Origin of the state machines' times.
    origin: Instant,
    registrations: Registrations,
    renewals: Renewals,
    state: State,
    /// Time of the next registration or renewal; `None` while a call is in flight.
    due: Option<Instant>,
}

enum State {
    /// Pause between two incarnations, until a registration with a new token is due.
    Paused,
    /// Registration that is repeated until it succeeds. Each repetition has the same token, so that all of them
    /// register the same incarnation.
    Registering {
        request: v1::RegisterRequest,
        repeats: Repeats,
    },
    Registered {
        session: Session,
        fault: RenewalFault,
    },
    /// End, because this process may no longer serve.
    Halted,
}

/// Registration or renewal to send to the store. At most one such call is in flight at a time.
pub(crate) enum SessionCall {
    Register(v1::RegisterRequest),
    Renew(RenewalCall),
}

impl Sessions {
    /// Creates the state of a process that is not registered. The first registration is due at once.
    pub(crate) fn new(shared: Arc<Shared>, link: Arc<StoreLink>) -> Sessions {
        let (origin, options) = (Instant::now(), shared.config.options.renewals());
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

    /// Begins a new incarnation, or repeats the registration of the incarnation that was begun.
    pub(crate) fn on_registration_due(&mut self) -> Option<SessionCall> {
        if let State::Paused = self.state {
            let request = v1::RegisterRequest {
                set: self.shared.config.set.clone(),
                node: self.shared.config.name.clone(),
                addr: self.shared.config.advertise.clone(),
                token: draw_nonce(),
                lease_ms: u64::try_from(self.shared.config.options.lease.as_millis()).unwrap_or(u64::MAX),
                follows: 0,
                seen_revision: 0,
                replace: self.shared.config.replace,
                peer_addr: self.shared.config.advertise_to_peers.clone().unwrap_or_default(),
                process: self.shared.config.process,
            };
            self.state = State::Registering { request, repeats: Repeats::default() };
        }
        self.register()
    }

    fn register(&mut self) -> Option<SessionCall> {
        let State::Registering { request, .. } = &mut self.state else { return None };
        if self.shared.reachability.is_stopped() {
            self.due = Some(Instant::now() + STOPPED_PAUSE);
            return None;
        }
        request.follows = self.registrations.follows().0;
        request.seen_revision = self.link.seen().revision.0;
        self.due = None;
        Some(SessionCall::Register(request.clone()))
    }

    /// Handles the response to a registration. If the registration succeeded, adopts the incarnation and returns its
    /// first renewal, which is sent at once. If it failed, schedules another registration.
    pub(crate) fn on_registration_done(
        &mut self,
        response: Result<v1::RegisterResponse, StoreError>,
    ) -> Option<SessionCall> {
        let State::Registering { request, repeats } = &mut self.state else { return None };
        let shared = &self.shared;
        match response {
            Ok(response) => self.on_registered(response),
            // The refusal names the newest incarnation on record. The next attempt states that it follows that
            // incarnation.
            Err(StoreError::Refused { reason, current, .. })
                if reason == Reason::OtherPredecessor && self.registrations.on_newer(Incarnation(current)) =>
            {
                self.register()
            }
            Err(error) => {
                shared.judge(Session { node: NodeId(0), incarnation: Incarnation(request.follows) }, &error);
                if let Some(repeated) = repeats.admit() {
                    tracing::warn!(set = shared.config.set, name = shared.config.name, %error, repeated, "cannot register");
                }
                shared.registration.note_fault(Some(error.to_string()));
                self.due = Some(Instant::now() + self.registrations.on_failed(fastrand::u32(..)));
                None
            }
        }
    }

    fn on_registered(&mut self, response: v1::RegisterResponse) -> Option<SessionCall> {
        let shared = &self.shared;
        self.link.adopt_members(response.stores);
        let session = Session { node: NodeId(response.node_id), incarnation: Incarnation(response.incarnation) };
        let (set, name) = (&shared.config.set, &shared.config.name);
        let (node, incarnation) = (session.node.0, session.incarnation.0);
        tracing::info!(event = EventKind::Registered.name(), set, name, node, incarnation, "registered");
        shared.begin_session(session);
        self.registrations.on_registered(self.origin.elapsed(), session.incarnation);
        self.renewals.on_registered();
        self.state = State::Registered { session, fault: RenewalFault::default() };
        self.poll()
    }

    pub(crate) fn on_renewal_due(&mut self) -> Option<SessionCall> {
        self.poll()
    }

    /// Handles another task's request for a renewal, e.g. because the routes of this node proved stale.
    pub(crate) fn on_routes_stale(&mut self) -> Option<SessionCall> {
        self.renewals.on_stale();
        self.poll()
    }

    /// Handles a peer's report that the store committed a handover to this node.
    pub(crate) fn on_grant_reported(&mut self) -> Option<SessionCall> {
        self.renewals.on_grant_reported();
        self.poll()
    }

    /// Returns a renewal if one is due; otherwise records the time at which the next renewal is due.
    fn poll(&mut self) -> Option<SessionCall> {
        let State::Registered { session, .. } = self.state else { return None };
        let shared = &self.shared;
        if shared.reachability.is_stopped() {
            self.due = Some(Instant::now() + STOPPED_PAUSE);
            return None;
        }
        let expects = || shared.pending.is_owner_awaited() || shared.ownership.machine().expects_update();
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
        let mut span = self.shared.described(traces::sampled("renew"));
        span.set("seqsvr.renewal", renewal.renew_seq.0);
        Some(SessionCall::Renew(RenewalCall { renewal, sent: self.shared.clock.now(), span }))
    }

    /// Adopts the response to a renewal. If there was no response, repeats the renewal under the same number.
    pub(crate) fn on_renewal_done(&mut self, answered: AnsweredRenewal) -> Option<SessionCall> {
        let State::Registered { session, fault } = &mut self.state else { return None };
        let (shared, session) = (&self.shared, *session);
        let AnsweredRenewal { renewal, sent, response, span } = answered;
        let received = shared.clock.now();
        // The lease is checked even if no attempt failed, because a process that was suspended sends its renewal late.
        fault.note_lease(shared, session);
        match response {
            Ok(response) => {
                shared.counters.renewed(true);
                if let Some(ahead_ms) = clock_ahead_ms(response.clock_ms, sent, received) {
                    shared.counters.clock_ahead(ahead_ms);
                }
                self.link.adopt_members(response.stores);
                let adopted = shared
                    .read_update(response.update.as_ref(), session.node)
                    .map_err(UnusableUpdate::Unread)
                    .and_then(|update| {
                        let renewed = shared.step(|owner, effects| owner.on_renewed(&renewal, sent, update, effects));
                        renewed.map_err(UnusableUpdate::Adopt)
                    });
                if let Err(error) = &adopted {
                    tracing::error!(%error, "cannot use the store's ownership update");
                    // If this node already has routes, the store's set agreed with the set file earlier. Then the store
                    // is wrong, and this node lets its lease expire.
                    if matches!(error, UnusableUpdate::Adopt(AdoptError::OtherSet { .. })) && shared.routes().is_none()
                    {
                        shared.halt.other_set(error.to_string());
                    }
                }
                shared.registration.note_fault(adopted.err().map(|error| error.to_string()));
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
                fault.note(shared, session, &error, &span);
                shared.registration.note_fault(Some(error.to_string()));
                self.renewals.on_failed(self.origin.elapsed(), fastrand::u32(..));
            }
        }
        self.poll()
    }

    /// Ends an incarnation. The next registration is due after a pause.
    fn end(&mut self, session: Session) {
        self.shared.end_session(session);
        self.renewals.on_session_over();
        let pause = self.registrations.on_session_over(self.origin.elapsed(), fastrand::u32(..));
        self.due = Some(Instant::now() + pause);
        self.state = State::Paused;
    }

    /// Ends the incarnation and registers no other incarnation, because this process may no longer serve. If a call is
    /// in flight, its response is not adopted.
    pub(crate) fn on_halted(&mut self) {
        let shared = &self.shared;
        let session = shared.ownership.machine().session();
        if let Some(session) = session {
            shared.end_session(session);
        }
        shared.registration.note_fault(shared.halt.get().map(|halt| halt.to_string()));
        self.renewals.on_session_over();
        self.due = None;
        self.state = State::Halted;
    }
}

/// Cause for which an ownership update cannot be used. Such an update has not extended the lease.
#[derive(Debug, thiserror::Error)]
enum UnusableUpdate {
    #[error(transparent)]
    Unread(OwnershipUpdateError),
    #[error(transparent)]
    Adopt(AdoptError),
}

impl Shared {
    fn begin_session(&self, session: Session) {
        self.registration.begin(session);
        self.step(|owner, _| owner.on_registered(session));
        self.registration.note_fault(None);
    }
}
