//! Keeps this process known to the store: registers it, renews, and adopts what the answers say it owns.
//!
//! A life lasts from a registration until the store says that there is a newer one. Then every section is dropped and a
//! new life begins with a new token.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seq_core::route::{Adopted, RouteTable, RouteUpdate};
use seq_core::{Epoch, Incarnation, Layout, NodeId, RouteVersion, Section, SectionId, Seq};
use seq_proto::convert::RoutesError;
use seq_proto::v1;
use tokio::time::Instant;

use crate::owned::OwnedSection;
use crate::shared::{Life, Shared};
use crate::store_link::{Backoff, StoreError, StoreLink};

/// Lives the node's lives, one after the other, until shutdown.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<StoreLink>) {
    let mut backoff = Backoff::new(shared.tuning.retry_min, shared.tuning.retry_max);
    loop {
        let living = async {
            let life = register(&shared, &link).await;
            let began = Instant::now();
            live(&shared, &link, life).await;
            shared.end_life(life);
            if began.elapsed() > shared.tuning.retry_max * 2 {
                backoff.reset();
            }
            // Two processes with one name end each other's lives; the wait keeps that from filling the store's log.
            tokio::time::sleep(backoff.wait()).await;
        };
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = living => {}
        }
    }
}

/// Starts a life. Tries until it succeeds, with one token, so that a repeat is the same life.
async fn register(shared: &Shared, link: &StoreLink) -> Life {
    let question = v1::RegisterRequest {
        set: shared.set.clone(),
        node: shared.name.clone(),
        addr: shared.advertise.clone(),
        token: fastrand::u64(1..),
    };
    let mut backoff = Backoff::new(shared.tuning.retry_min, shared.tuning.retry_max);
    loop {
        match link.call(question.clone()).await {
            Ok(answer) => {
                let life = Life { node: NodeId(answer.node_id), incarnation: Incarnation(answer.incarnation) };
                tracing::info!(node = life.node.0, incarnation = life.incarnation.0, "registered");
                shared.begin_life(life);
                return life;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot register");
                shared.note_fault(Some(error.to_string()));
            }
        }
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Renews until the life is over. A renewal without an answer is repeated under the same number.
async fn live(shared: &Shared, link: &StoreLink, life: Life) {
    let mut backoff = Backoff::new(shared.tuning.retry_min, shared.tuning.retry_max);
    let mut renew_seq = 1;
    // After an answer that did not fit the table, everything is asked for anew.
    let mut whole = false;
    while *shared.life.lock() == Some(life) {
        let sent = Instant::now();
        let known = shared.routes().as_ref().map_or(RouteVersion(0), |routes| routes.version());
        let question = v1::RenewRequest {
            node_id: life.node.0,
            incarnation: life.incarnation.0,
            renew_seq,
            route_version: if whole { 0 } else { known.0 },
        };
        match link.call(question).await {
            Ok(answer) => {
                renew_seq += 1;
                shared.counters.renewed(true);
                let adopted = shared.adopt(life, &answer);
                whole = adopted.is_err();
                if let Err(error) = &adopted {
                    tracing::error!(%error, "cannot use what the store says of owners");
                }
                shared.note_fault(adopted.err().map(|error| error.to_string()));
                backoff.reset();
                shared.next_renewal(sent).await;
            }
            Err(StoreError::LifeOver { message }) => {
                tracing::warn!(message, "this life is over; every section is dropped");
                return;
            }
            Err(error) => {
                shared.counters.renewed(false);
                tracing::warn!(%error, "cannot renew");
                shared.note_fault(Some(error.to_string()));
                tokio::time::sleep(backoff.wait()).await;
            }
        }
    }
}

/// Why the store's word on owners cannot be adopted. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdoptError {
    /// The lists are not parallel, or a value is out of its range.
    #[error("the grants are malformed")]
    Grants,
    /// The routes cannot be read.
    #[error(transparent)]
    Routes(#[from] RoutesError),
    /// The store's set is not the one this node was configured with.
    #[error(
        "the store holds set {set} with uids {:?} in sections of {}, and the set file says otherwise",
        layout.uids(), layout.section_size()
    )]
    OtherSet { set: String, layout: Layout },
    /// The change does not build on the table held.
    #[error("the routes at version {version} build on version {base}, which is not held here")]
    Gap { version: RouteVersion, base: RouteVersion },
}

impl Shared {
    fn begin_life(&self, life: Life) {
        self.node.store(life.node.0, Relaxed);
        *self.life.lock() = Some(life);
        self.note_fault(None);
    }

    /// Ends a life, if it still is the current one: nothing is given out under it any more.
    pub(crate) fn end_life(&self, life: Life) {
        let mut current = self.life.lock();
        if *current == Some(life) {
            *current = None;
            self.owned.clear();
            self.renew_now.notify_one();
        }
    }

    fn note_fault(&self, fault: Option<String>) {
        *self.fault.lock() = fault;
    }

    /// Waits for the next renewal: soon while nothing is owned or what is known proved old, else at the usual pace.
    async fn next_renewal(&self, last: Instant) {
        let soonest = last + self.tuning.claim_every;
        tokio::time::sleep_until(soonest).await;
        if self.expects_sections() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(last + self.tuning.renew_every) => {}
            () = self.renew_now.notified() => {}
        }
    }

    /// Whether the next answer may well bring the first sections: this node has none, and some have no owner or an earlier
    /// life of this node as their owner.
    fn expects_sections(&self) -> bool {
        let routes = self.routes();
        let Some(routes) = routes.as_ref() else { return true };
        let mine = NodeId(self.node.load(Relaxed));
        let may_come =
            |id| routes.get(SectionId(id)).is_some_and(|route| route.owner.is_none_or(|owner| owner == mine));
        self.owned.load().iter().next().is_none() && (0..self.layout.sections()).any(may_come)
    }

    /// Adopts a renewal's answer: the grants become sections, the sections that have another owner go, the routes follow.
    fn adopt(&self, life: Life, answer: &v1::RenewResponse) -> Result<(), AdoptError> {
        let granted = self.granted(answer)?;
        let next = match &answer.routes {
            Some(routes) => self.next_routes(&RouteUpdate::try_from(routes)?)?,
            None => None,
        };
        let still_mine = |owned: &OwnedSection| match &next {
            None => true,
            Some(routes) => {
                routes.get(owned.id).is_some_and(|route| route.owner == Some(life.node) && route.epoch == owned.epoch)
            }
        };
        // Locked until the table is changed: a life that ends meanwhile leaves no sections behind.
        let current = self.life.lock();
        if *current != Some(life) {
            return Ok(());
        }
        let (entered, left) = self.owned.change(granted, still_mine);
        if let Some(next) = next {
            tracing::info!(version = next.version().0, entered, left, "routes changed");
            self.routes.store(Some(Arc::new(next)));
        }
        drop(current);
        Ok(())
    }

    /// The granted sections, each at its committed ceiling: what was given out before is unknown, and none of it is above.
    fn granted(&self, answer: &v1::RenewResponse) -> Result<Vec<Arc<OwnedSection>>, AdoptError> {
        let v1::RenewResponse { sections, epochs, ceilings, .. } = answer;
        if epochs.len() != sections.len() || ceilings.len() != sections.len() {
            return Err(AdoptError::Grants);
        }
        let of = |((section, epoch), ceiling): ((&u32, &u64), &u64)| {
            let uids = self.layout.uids_of(SectionId(*section));
            if uids.is_empty() || *epoch == 0 || *ceiling > Seq::MAX.0 {
                return Err(AdoptError::Grants);
            }
            let counters = Section::takeover((uids.end - uids.start) as u32, Seq(*ceiling), self.step);
            Ok(OwnedSection::new(SectionId(*section), Epoch(*epoch), counters))
        };
        sections.iter().zip(epochs).zip(ceilings).map(of).collect()
    }

    /// The table after an update; `None` when it is as new already.
    fn next_routes(&self, update: &RouteUpdate) -> Result<Option<RouteTable>, AdoptError> {
        if update.set != self.set || update.layout != self.layout {
            return Err(AdoptError::OtherSet { set: update.set.clone(), layout: update.layout });
        }
        let gap = AdoptError::Gap { version: update.version, base: update.base };
        let Some(held) = self.routes.load_full() else { return RouteTable::from_whole(update).map(Some).ok_or(gap) };
        let mut next = RouteTable::clone(&held);
        match next.adopt(update) {
            Adopted::Newer => Ok(Some(next)),
            Adopted::NotNewer => Ok(None),
            Adopted::Mismatch => Err(gap),
        }
    }
}
