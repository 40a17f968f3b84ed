//! Keeps this process known to the store: registers it, renews, and gives each ownership update to the owner's machine.
//!
//! An incarnation lasts from a registration until the store reports a newer one. Then every section is dropped and a new
//! incarnation begins with a new token. When a call is due is decided by `seq_core::renewals`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seq_core::owner::{AdoptError, OwnershipUpdate, Renewal, Session};
use seq_core::renewals::{Poll, Registrations, Renewals};
use seq_core::{Incarnation, NodeId, RenewSeq, RouteVersion};
use seq_kit::repeats::Repeats;
use seq_proto::owners::{self, OwnershipUpdateError};
use seq_proto::{Reason, v1};
use tokio::time::Instant;

use crate::shared::Shared;
use crate::store_link::{StoreError, StoreLink};

/// Registers and renews, incarnation after incarnation, until shutdown, or until this process may no longer serve.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let origin = Instant::now();
    let mut registrations = Registrations::new(shared.options.renewals());
    loop {
        let incarnation = async {
            let session = register(&shared, &link, &mut registrations).await;
            registrations.on_registered(origin.elapsed(), session.incarnation);
            renew(&shared, &link, session).await;
            shared.end_session(session);
            tokio::time::sleep(registrations.on_session_over(origin.elapsed(), fastrand::u32(..))).await;
        };
        tokio::select! {
            biased;
            () = shared.halt.wait() => break,
            () = shared.shutdown.cancelled() => return,
            () = incarnation => {}
        }
    }
    let session = shared.ownership.machine().session();
    if let Some(session) = session {
        shared.end_session(session);
    }
    shared.note_fault(shared.halt.get().map(|halt| halt.to_string()));
    shared.shutdown.cancelled().await;
}

/// Begins an incarnation. Repeated until it succeeds, with one token, so that a repeat is the same incarnation.
async fn register(shared: &Shared, link: &StoreLink, registrations: &mut Registrations) -> Session {
    let mut request = v1::RegisterRequest {
        set: shared.set.clone(),
        node: shared.name.clone(),
        addr: shared.advertise.clone(),
        token: fastrand::u64(1..),
        lease_ms: u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX),
        follows: 0,
        seen_revision: 0,
        replace: shared.replace,
    };
    let mut repeats = Repeats::default();
    loop {
        request.follows = registrations.follows().0;
        request.seen_revision = link.seen().revision.0;
        match link.call(request.clone()).await {
            Ok(response) => {
                link.adopt_members(&response.stores);
                shared.note_stores(response.stores);
                let session =
                    Session { node: NodeId(response.node_id), incarnation: Incarnation(response.incarnation) };
                let (set, name) = (&shared.set, &shared.name);
                let (node, incarnation) = (session.node.0, session.incarnation.0);
                tracing::info!(set, name, node, incarnation, "registered");
                shared.begin_session(session);
                return session;
            }
            // The store names the newest incarnation; the next attempt follows that one.
            Err(StoreError::Refused { reason, current, .. })
                if reason == Reason::OtherPredecessor && registrations.on_newer(Incarnation(current)) => {}
            Err(error) => {
                shared.judge(Session { node: NodeId(0), incarnation: Incarnation(request.follows) }, &error);
                if let Some(repeated) = repeats.admit() {
                    tracing::warn!(set = shared.set, name = shared.name, %error, repeated, "cannot register");
                }
                shared.note_fault(Some(error.to_string()));
                tokio::time::sleep(registrations.on_failed(fastrand::u32(..))).await;
            }
        }
    }
}

/// Renews until the incarnation is over. A renewal without a response is repeated under the same number.
async fn renew(shared: &Shared, link: &StoreLink, session: Session) {
    let origin = Instant::now();
    let mut renewals = Renewals::new(shared.options.renewals());
    let mut fault = RenewalFault::default();
    renewals.on_registered();
    loop {
        shared.renewal_due(&mut renewals, origin).await;
        let renewal = shared.ownership.machine().renewal().filter(|renewal| renewal.session == session);
        let Some(renewal) = renewal else { return };
        // Read before the request is sent: what the response grants is counted from here.
        let sent = shared.clock.now();
        match link.call(request(&renewal)).await {
            Ok(response) => {
                shared.counters.renewed(true);
                link.adopt_members(&response.stores);
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
                }
                shared.note_fault(adopted.err().map(|error| error.to_string()));
                fault.end(shared, session);
                renewals.on_response();
            }
            Err(error @ (StoreError::SessionOver { .. } | StoreError::Behind(_))) => {
                tracing::warn!(%error, "this incarnation is over; every section is dropped");
                shared.judge(session, &error);
                return;
            }
            Err(error) => {
                shared.counters.renewed(false);
                fault.note(shared, session, &error);
                shared.note_fault(Some(error.to_string()));
                renewals.on_failed(origin.elapsed(), fastrand::u32(..));
            }
        }
    }
}

/// Renewals that fail: logged at the first, once a minute while they do, when the lease ends, and when one succeeds.
#[derive(Debug, Default)]
struct RenewalFault {
    repeats: Repeats,
    lease_lost: bool,
}

impl RenewalFault {
    fn note(&mut self, shared: &Shared, session: Session, error: &StoreError) {
        let (set, name, incarnation) = (&shared.set, &shared.name, session.incarnation.0);
        if let Some(repeated) = self.repeats.admit() {
            tracing::warn!(set, name, incarnation, %error, repeated, "cannot renew");
        }
        if !self.lease_lost && !shared.is_leased() {
            self.lease_lost = true;
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
        let failed = self.repeats.end();
        if failed > 0 {
            let lease_lost = std::mem::take(&mut self.lease_lost);
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
    }
}

impl Shared {
    fn begin_session(&self, session: Session) {
        self.node.store(session.node.0, Relaxed);
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
        owners::update(update, &self.layout, me)
    }

    /// Completes when the next renewal is to be sent.
    async fn renewal_due(&self, renewals: &mut Renewals, origin: Instant) {
        loop {
            let expects = || self.pending.await_owner() || self.ownership.machine().expects_update();
            let due = match renewals.poll(origin.elapsed(), expects) {
                Poll::Send => return,
                Poll::Wait(due) => Some(origin + due),
                Poll::Idle => None,
            };
            tokio::select! {
                () = self.grants_due.notified() => renewals.on_grant_reported(),
                () = self.renew_now.notified() => renewals.on_stale(),
                () = tokio::time::sleep_until(due.unwrap_or(origin)), if due.is_some() => {}
            }
        }
    }
}
