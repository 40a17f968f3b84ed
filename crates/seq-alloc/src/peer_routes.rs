//! Fetches newer routes from other AllocSvrs of the set while the lease is expired.
//!
//! A node that reaches its peers but not the store keeps its sections without a lease, and calls for these sections
//! stay pending. The peers may know that the sections have got other owners. A peer's routes can only take a section
//! away from this node. They never grant a section or extend the lease. If a peer's routes state another owner or set
//! for a section, with a larger epoch, this node gives the section up and forwards the pending calls for it.

use std::sync::Arc;
use std::time::Duration;

use seq_core::renewals::PEER_ROUTES_INTERVAL;
use seq_core::route::RouteUpdate;
use seq_kit::repeats::Repeats;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::time::Instant;

use crate::shared::Shared;

/// Timeout of the fetch from one peer. It is long enough even if the peer is as far away as the store.
const FETCH_TIMEOUT: Duration = Duration::from_millis(200);

/// State of the fetches. While the lease is expired, this node fetches routes from one peer after another.
pub(crate) struct PeerRoutes {
    shared: Arc<Shared>,
    /// Number of checks of the lease so far. It selects the peer for the next fetch.
    turn: usize,
    /// Time of the next check of the lease; `None` while a fetch is in flight.
    due: Option<Instant>,
    /// Whether the next fetch requests all routes instead of the changes since this node's version. This is so after
    /// the changes sent by a peer could not be applied to this node's routes, because they are relative to another
    /// version or to another set of nodes.
    whole: bool,
    repeats: Repeats,
}

/// Fetch from the peer that `turn` selects.
pub(crate) struct PeerRoutesCall {
    shared: Arc<Shared>,
    turn: usize,
    whole: bool,
}

impl PeerRoutesCall {
    pub(crate) async fn send(self) -> Option<RouteUpdate> {
        fetch(&self.shared, self.turn, self.whole).await
    }
}

impl PeerRoutes {
    /// Creates the state. The first check is due after [`PEER_ROUTES_INTERVAL`].
    pub(crate) fn new(shared: Arc<Shared>) -> PeerRoutes {
        let due = Some(Instant::now() + PEER_ROUTES_INTERVAL);
        PeerRoutes { shared, turn: 0, due, whole: false, repeats: Repeats::default() }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn on_due(&mut self) -> Option<PeerRoutesCall> {
        let (shared, turn) = (self.shared.clone(), self.turn);
        self.turn = turn.wrapping_add(1);
        let leased = shared.is_leased();
        self.due = leased.then(|| Instant::now() + PEER_ROUTES_INTERVAL);
        (!leased).then_some(PeerRoutesCall { shared, turn, whole: self.whole })
    }

    pub(crate) fn on_fetched(&mut self, update: Option<RouteUpdate>) {
        if let Some(update) = update {
            let adopted = self.shared.step(|owner, effects| owner.on_peer_routes(&update, effects));
            self.whole = adopted.is_err();
            if let Err(error) = adopted
                && let Some(repeated) = self.repeats.admit()
            {
                tracing::warn!(%error, repeated, "cannot use the routes of a peer");
            }
        }
        self.due = Some(Instant::now() + PEER_ROUTES_INTERVAL);
    }
}

/// Fetches the routes of the peer that `turn` selects if they are newer than the routes of this node. Fetches only the
/// routes that changed since this node's version, or, if `whole` is set, all routes.
async fn fetch(shared: &Shared, turn: usize, whole: bool) -> Option<RouteUpdate> {
    let (addr, known) = {
        let owner = shared.ownership.machine();
        let (session, routes) = (owner.session()?, owner.routes()?);
        let others: Vec<_> = routes.nodes().iter().filter(|(id, _)| **id != session.node).collect();
        let (_, node) = others.get(turn.checked_rem(others.len())?)?;
        (node.addr.clone(), routes.version().0)
    };
    let mut node = SequenceServiceClient::new(shared.peers.here().pool.get(&addr).ok()?)
        .max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
    let request = node.get_routes(v1::GetRoutesRequest { known_version: if whole { 0 } else { known } });
    let response = tokio::time::timeout(FETCH_TIMEOUT, request).await.ok()?.ok()?.into_inner();
    let routes = response.routes.iter().find(|routes| routes.set == shared.config.set && routes.version > known)?;
    RouteUpdate::try_from(routes).inspect_err(|error| tracing::warn!(addr, %error, "a peer sent malformed routes")).ok()
}
