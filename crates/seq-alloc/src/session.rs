//! Keeps this process known to the store: registers it, renews, and has what the answers say of owners taken in.
//!
//! An incarnation lasts from a registration until the store says that there is a newer one. Then every section is dropped and a
//! new incarnation begins with a new token.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use seq_core::owner::{AdoptError, OwnershipUpdate, Renewal, Session};
use seq_core::{Incarnation, NodeId, RenewSeq, RouteVersion, SectionId};
use seq_kit::repeats::Repeats;
use seq_proto::owners::{self, OwnershipUpdateError};
use seq_proto::v1;
use tokio::time::Instant;

use crate::shared::Shared;
use crate::store_link::{Backoff, StoreError, StoreLink};

/// The longest wait between two lives that were short. Two processes with one name end each other's lives: it keeps that
/// from filling the store's log, and is long enough for the other one to be given sections meanwhile.
const LONGEST_BETWEEN_LIVES: Duration = Duration::from_secs(5);

/// The reason of a registration that does not follow the newest incarnation; its metadata names that one.
const OTHER_PREDECESSOR: &str = "OTHER_PREDECESSOR";

/// The least time between two renewals that wait for the grants of planned moves: about what the store takes to commit one. What
/// is activated meanwhile shares the next one, and a stranger's Activates cost no more than these renewals.
const GRANT_EVERY: Duration = Duration::from_millis(5);

/// Registers and renews, incarnation after incarnation, until shutdown, or until this process may serve no more.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let mut backoff = Backoff::new(shared.options.retry_min, LONGEST_BETWEEN_LIVES);
    let mut last = Incarnation(0);
    loop {
        let living = async {
            let session = register(&shared, &link, last).await;
            last = session.incarnation;
            let began = Instant::now();
            live(&shared, &link, session).await;
            shared.end_session(session);
            if began.elapsed() > LONGEST_BETWEEN_LIVES * 2 {
                backoff.reset();
            }
            tokio::time::sleep(backoff.wait()).await;
        };
        tokio::select! {
            biased;
            () = shared.halt.wait() => break,
            () = shared.shutdown.cancelled() => return,
            () = living => {}
        }
    }
    let session = shared.owner.lock().session();
    if let Some(session) = session {
        shared.end_session(session);
    }
    shared.note_fault(shared.halt.get().map(|halt| halt.to_string()));
    shared.shutdown.cancelled().await;
}

/// Starts an incarnation. Tries until it succeeds, with one token, so that a repeat is the same incarnation.
async fn register(shared: &Shared, link: &StoreLink, last: Incarnation) -> Session {
    let mut question = v1::RegisterRequest {
        set: shared.set.clone(),
        node: shared.name.clone(),
        addr: shared.advertise.clone(),
        token: fastrand::u64(1..),
        lease_ms: u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX),
        follows: last.0,
        seen_revision: 0,
        replace: shared.replace,
    };
    let mut backoff = Backoff::new(shared.options.retry_min, shared.options.retry_max);
    let mut repeats = Repeats::default();
    loop {
        question.seen_revision = link.seen().revision.0;
        match link.call(question.clone()).await {
            Ok(answer) => {
                link.learn(&answer.stores);
                shared.note_stores(answer.stores);
                let session = Session { node: NodeId(answer.node_id), incarnation: Incarnation(answer.incarnation) };
                let (set, name) = (&shared.set, &shared.name);
                let (node, incarnation) = (session.node.0, session.incarnation.0);
                tracing::info!(set, name, node, incarnation, "registered");
                shared.begin_session(session);
                return session;
            }
            // The store says which incarnation is the newest; the next attempt follows that one.
            Err(StoreError::Refused { reason, current, .. })
                if reason == OTHER_PREDECESSOR && current > question.follows =>
            {
                question.follows = current;
                continue;
            }
            Err(error) => {
                shared.judge(Session { node: NodeId(0), incarnation: Incarnation(question.follows) }, &error);
                if let Some(repeated) = repeats.admit() {
                    tracing::warn!(set = shared.set, name = shared.name, %error, repeated, "cannot register");
                }
                shared.note_fault(Some(error.to_string()));
            }
        }
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Renews until the incarnation is over. A renewal without an answer is repeated under the same number.
async fn live(shared: &Shared, link: &StoreLink, session: Session) {
    let mut backoff = Backoff::new(shared.options.retry_min, shared.options.retry_max);
    let mut fault = RenewalFault::default();
    loop {
        let Some(renewal) = shared.owner.lock().renewal().filter(|renewal| renewal.session == session) else { return };
        let began = Instant::now();
        // Read before the question goes out: whatever the answer grants is counted from here.
        let sent = shared.clock.now();
        match link.call(question(&renewal)).await {
            Ok(answer) => {
                shared.counters.renewed(true);
                link.learn(&answer.stores);
                shared.note_stores(answer.stores);
                let adopted = shared
                    .read_update(answer.update.as_ref(), session.node)
                    .map_err(UnusableUpdate::Unread)
                    .and_then(|update| {
                        let renewed = shared.step(|owner, effects| owner.on_renewed(&renewal, sent, update, effects));
                        renewed.map_err(UnusableUpdate::Adopt)
                    });
                if let Err(error) = &adopted {
                    tracing::error!(%error, "cannot use what the store says of owners");
                }
                shared.note_fault(adopted.err().map(|error| error.to_string()));
                fault.end(shared, session);
                backoff.reset();
                shared.next_renewal(began).await;
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
                tokio::time::sleep(backoff.wait()).await;
            }
        }
    }
}

/// Renewals that fail: a line at the first, one a minute while they do, one when the lease ends, and one when it is
/// over.
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
        if !self.lease_lost && !shared.leased() {
            self.lease_lost = true;
            let sections = shared.owned.load().iter().count();
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

/// Why an answer says nothing of owners. No lease was extended by it.
#[derive(Debug, thiserror::Error)]
enum UnusableUpdate {
    #[error(transparent)]
    Unread(OwnershipUpdateError),
    #[error(transparent)]
    Adopt(AdoptError),
}

fn question(renewal: &Renewal) -> v1::RenewRequest {
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

    /// Ends an incarnation, if it still is the current one: nothing is given out under it any more.
    pub(crate) fn end_session(&self, session: Session) {
        self.step(|owner, effects| owner.on_session_over(session, effects));
        self.renew_now.notify_one();
    }

    /// Judges whether a refusal of the store means that this process may serve no more.
    pub(crate) fn judge(&self, session: Session, error: &StoreError) {
        // The number of the renewal to send is one more than that of the last answered one.
        let renewal = self.owner.lock().renewal().filter(|renewal| renewal.session == session);
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

    /// Version of the routes that a question to the store should name.
    pub(crate) fn known_version(&self) -> RouteVersion {
        self.owner.lock().known_version()
    }

    /// Reads what the store says of owners.
    pub(crate) fn read_update(
        &self,
        update: Option<&v1::OwnershipUpdate>,
        me: NodeId,
    ) -> Result<OwnershipUpdate, OwnershipUpdateError> {
        owners::update(update, &self.layout, me)
    }

    /// Waits for the next renewal: at once where a grant is due, soon while news are expected, else at the usual pace.
    async fn next_renewal(&self, last: Instant) {
        let due = async {
            self.grants_due.notified().await;
            tokio::time::sleep_until(last + GRANT_EVERY).await;
        };
        tokio::select! {
            () = self.paced_renewal(last) => {}
            () = due => {}
        }
    }

    async fn paced_renewal(&self, last: Instant) {
        tokio::time::sleep_until(last + self.options.claim_every).await;
        if self.expects_update() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(last + self.options.renew_every) => {}
            () = self.renew_now.notified() => {}
        }
    }

    /// Whether the next answer may well bring what somebody waits for: an owner for a section that callers ask for, more
    /// sections to hand over, or the first ones of this node.
    fn expects_update(&self) -> bool {
        let owner = self.owner.lock();
        if self.pending.await_owner() || owner.handovers_in_progress() > 0 || owner.is_leaving() {
            return true;
        }
        let Some(routes) = owner.routes() else { return true };
        let mine = NodeId(self.node.load(Relaxed));
        let may_come =
            |id| routes.get(SectionId(id)).is_some_and(|route| route.owner.is_none_or(|owner| owner == mine));
        owner.owned().next().is_none() && (0..self.layout.sections()).any(may_come)
    }
}
