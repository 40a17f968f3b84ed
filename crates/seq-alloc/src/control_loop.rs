//! Loop in which an AllocSvr waits for its next task. Each notification, each call that ended, and each expiry of the
//! loop's only timer becomes an [`Event`].
//!
//! Each event is handled by a short method of the module that it concerns: `session`, `raises`, `handover` or
//! `peer_routes`. A handler never waits. It returns the calls to make next, which run as tasks. The end of a call is an
//! event too, so a slow store or peer delays only the handlers of its own responses. At the `trace` level this module
//! logs each event, so the log shows why the loop wakes.
//!
//! Some waits are not part of this loop. The check of this node (`self_check`) only changes whether the node is
//! withdrawn. The probes of other sets (`other_sets`) change no ownership. The loop that publishes metrics
//! (`metrics_loop`) and the loop that reads all slots (`activity_loop`) decide nothing and may fail without ending the
//! process. Pending calls wait for `ownership_changed` on the threads of their endpoints.
//!
//! **Invariant:** only this loop adopts responses of the store, one at a time, in the order in which the calls ended.
//! Once this process may no longer serve, the loop sends no registration or renewal any more.

use std::panic::resume_unwind;
use std::sync::Arc;

use seq_core::route::RouteUpdate;
use seq_proto::v1::RegisterResponse;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::handover::{AnsweredSteps, Handovers};
use crate::peer_routes::PeerRoutes;
use crate::raises::{AnsweredRaise, Raises};
use crate::session::{AnsweredRenewal, SessionCall, Sessions};
use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// Cause for which the control loop wakes.
enum Event {
    /// `halt` was set, so this process may no longer serve.
    Halted,
    /// Shutdown of the allocator.
    ShutDown,
    /// Time of a registration or its repetition.
    RegistrationDue,
    /// End of the call of a registration.
    RegistrationDone(Result<RegisterResponse, StoreError>),
    /// Time of a renewal or its repetition.
    RenewalDue,
    /// End of the call of a renewal.
    RenewalDone(AnsweredRenewal),
    /// Request of another task for a renewal, e.g. because the routes of this node proved stale.
    RoutesStale,
    /// Request for an immediate renewal, because a peer reports that the store committed a handover to this node.
    GrantReported,
    /// New section in the queue of raises.
    RaiseQueued,
    /// End of the wait after a raise that failed.
    RaiseRetryDue,
    /// End of the call of a raise.
    RaiseDone(AnsweredRaise),
    /// New step of a handover, requested by the owner's machine.
    HandoverRequested,
    /// Time to repeat a step of a handover, e.g. a commit to which the store gave no definite response.
    CommitRetryDue,
    /// End of the call of steps of handovers.
    HandoverStepsDone(AnsweredSteps),
    /// Time to check the lease. If the lease is expired, the handler fetches routes from a peer.
    PeerRoutesDue,
    /// End of a fetch of routes from a peer. The value is `None` unless the peer's routes are newer than this node's
    /// routes.
    PeerRoutesFetched(Option<RouteUpdate>),
}

impl Event {
    /// Returns the name of the variant, for the log. The variant's data are not logged, because an ownership update can
    /// have megabytes.
    fn name(&self) -> &'static str {
        match self {
            Event::Halted => "halted",
            Event::ShutDown => "shut down",
            Event::RegistrationDue => "registration due",
            Event::RegistrationDone(_) => "registration done",
            Event::RenewalDue => "renewal due",
            Event::RenewalDone(_) => "renewal done",
            Event::RoutesStale => "routes stale",
            Event::GrantReported => "grant reported",
            Event::RaiseQueued => "raise queued",
            Event::RaiseRetryDue => "raise retry due",
            Event::RaiseDone(_) => "raise done",
            Event::HandoverRequested => "handover requested",
            Event::CommitRetryDue => "commit retry due",
            Event::HandoverStepsDone(_) => "handover steps done",
            Event::PeerRoutesDue => "peer routes due",
            Event::PeerRoutesFetched(_) => "peer routes fetched",
        }
    }
}

struct ControlLoop {
    shared: Arc<Shared>,
    link: Arc<StoreLink>,
    sessions: Sessions,
    raises: Raises,
    handovers: Handovers,
    peer_routes: PeerRoutes,
    /// Calls in flight. They are at most one registration or renewal, as many raises as the options allow, one step of
    /// each handover in progress, and one fetch of routes from a peer.
    calls: JoinSet<Event>,
    /// Last call of a registration or renewal. It is in flight or has ended.
    session_call: Option<AbortHandle>,
}

/// Registers, renews, raises, hands over and fetches routes until shutdown.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let mut control = ControlLoop {
        sessions: Sessions::new(shared.clone(), link.clone()),
        raises: Raises::new(shared.clone()),
        handovers: Handovers::new(shared.clone()),
        peer_routes: PeerRoutes::new(shared.clone()),
        calls: JoinSet::new(),
        session_call: None,
        shared,
        link,
    };
    loop {
        let event = control.next_event().await;
        tracing::trace!(set = control.shared.config.set, name = control.shared.config.name, by = event.name(), "woken");
        if let Event::ShutDown = event {
            break;
        }
        control.handle(event);
    }
    // Aborts the calls in flight, because their responses would not be adopted any more.
    control.calls.shutdown().await;
}

impl ControlLoop {
    /// Waits for the next event. If several events are ready, returns the most urgent one: first a halt or a shutdown,
    /// then the timer and ended calls, whose rate is limited, and then the notifications. Of the notifications, the
    /// kinds that any caller can cause come last, so that a flood of them delays no other event.
    async fn next_event(&mut self) -> Event {
        loop {
            let (at, due) = self.next_deadline().unzip();
            let shared = &self.shared;
            return tokio::select! {
                biased;
                () = shared.halt.wait(), if !self.sessions.is_halted() => Event::Halted,
                () = shared.halt.shutdown().cancelled() => Event::ShutDown,
                () = sleep_until(at.unwrap_or_else(Instant::now)), if due.is_some() => due.expect("a timer"),
                Some(ended) = self.calls.join_next() => match of_call(ended) {
                    Some(event) => event,
                    None => continue,
                },
                () = shared.handovers.queue.arrived() => Event::HandoverRequested,
                () = shared.raises.arrived() => Event::RaiseQueued,
                () = shared.registration.grant_requested() => Event::GrantReported,
                () = shared.registration.renewal_requested() => Event::RoutesStale,
            };
        }
    }

    /// Returns the earliest time at which `session`, `raises`, `handover` or `peer_routes` has work to do, with the
    /// event that starts this work.
    fn next_deadline(&self) -> Option<(Instant, Event)> {
        let timers = [
            (self.sessions.registration_due(), Event::RegistrationDue),
            (self.sessions.renewal_due(), Event::RenewalDue),
            (self.raises.retry_due(), Event::RaiseRetryDue),
            (self.handovers.retry_due(), Event::CommitRetryDue),
            (self.peer_routes.due(), Event::PeerRoutesDue),
        ];
        timers.into_iter().filter_map(|(at, event)| Some((at?, event))).min_by_key(|(at, _)| *at)
    }

    /// Passes an event to the module that handles it, and starts the calls that the handler returns.
    fn handle(&mut self, event: Event) {
        match event {
            Event::Halted => {
                if let Some(call) = self.session_call.take() {
                    call.abort();
                }
                self.sessions.on_halted();
            }
            // Ends the loop.
            Event::ShutDown => {}
            Event::RegistrationDue => self.in_session(Sessions::on_registration_due),
            Event::RegistrationDone(response) => self.in_session(|sessions| sessions.on_registration_done(response)),
            Event::RenewalDue => self.in_session(Sessions::on_renewal_due),
            Event::RenewalDone(answered) => self.in_session(|sessions| sessions.on_renewal_done(answered)),
            Event::RoutesStale => self.in_session(Sessions::on_routes_stale),
            Event::GrantReported => self.in_session(Sessions::on_grant_reported),
            Event::RaiseQueued | Event::RaiseRetryDue => self.start_raises(),
            Event::RaiseDone(answered) => {
                self.raises.on_done(answered);
                self.start_raises();
            }
            Event::HandoverRequested | Event::CommitRetryDue => self.start_handover_steps(),
            Event::HandoverStepsDone(answered) => {
                self.handovers.on_steps_done(answered);
                self.start_handover_steps();
            }
            Event::PeerRoutesDue => {
                if let Some(call) = self.peer_routes.on_due() {
                    self.calls.spawn(async move { Event::PeerRoutesFetched(call.send().await) });
                }
            }
            Event::PeerRoutesFetched(update) => self.peer_routes.on_fetched(update),
        }
    }

    fn in_session(&mut self, handler: impl FnOnce(&mut Sessions) -> Option<SessionCall>) {
        let Some(call) = handler(&mut self.sessions) else { return };
        let link = self.link.clone();
        let started = self.calls.spawn(async move {
            match call {
                SessionCall::Register(request) => Event::RegistrationDone(link.call(request).await),
                SessionCall::Renew(call) => Event::RenewalDone(call.send(&link).await),
            }
        });
        self.session_call = Some(started);
    }

    fn start_raises(&mut self) {
        while let Some(call) = self.raises.next_call() {
            let link = self.link.clone();
            self.calls.spawn(async move { Event::RaiseDone(call.send(&link).await) });
        }
    }

    fn start_handover_steps(&mut self) {
        while let Some(call) = self.handovers.next_call() {
            let link = self.link.clone();
            self.calls.spawn(async move { Event::HandoverStepsDone(call.send(&link).await) });
        }
    }
}

/// Returns the event that the task of a call returned; `None` if the task was aborted. If the task panicked, resumes
/// the panic here, so that the control loop ends and with it the process.
fn of_call(ended: Result<Event, JoinError>) -> Option<Event> {
    match ended {
        Ok(event) => Some(event),
        Err(error) => {
            if let Ok(panic) = error.try_into_panic() {
                resume_unwind(panic);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_call_that_was_aborted_is_no_event() {
        let mut calls: JoinSet<Event> = JoinSet::new();
        calls.spawn(pending()).abort();
        assert!(of_call(calls.join_next().await.unwrap()).is_none());
        calls.spawn(async { Event::PeerRoutesFetched(None) });
        let event = of_call(calls.join_next().await.unwrap()).unwrap();
        assert_eq!(event.name(), "peer routes fetched");
    }

    #[tokio::test]
    #[should_panic(expected = "a fault of a call")]
    async fn a_panic_of_a_call_is_one_of_the_loop() {
        let mut calls: JoinSet<Event> = JoinSet::new();
        calls.spawn(async { panic!("a fault of a call") });
        of_call(calls.join_next().await.unwrap());
    }
}
