//! Routes from peers. A process whose lease has expired asks the other AllocSvrs of its set for newer routes, one
//! AllocSvr after another.

use std::rc::Rc;

use seq_core::RouteVersion;
use seq_core::lease::Clocks;
use seq_core::renewals::PEER_ROUTES_INTERVAL;
use seq_core::route::RouteUpdate;

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::net::{Address, Body};
use crate::process::Process;
use crate::world::World;

/// The last request for routes to a peer. The next request replaces it, even if it has no response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RouteFetch {
    id: u64,
    sent: Clocks,
    /// Number of requests so far, which selects the peer for the next request.
    turns: usize,
    /// Whether routes of a peer were adopted.
    adopted: bool,
}

impl World {
    /// Fetches routes from the next peer, if the lease is over.
    pub(crate) fn fetch_routes(&mut self, p: usize) {
        self.after(PEER_ROUTES_INTERVAL.as_nanos() as u64, Event::Step(p, Step::FetchRoutes));
        let sent = self.clock(p);
        let process = &self.procs[p];
        let (Some(session), Some(routes)) = (process.owner.session(), process.owner.routes()) else { return };
        if process.lease.holds(sent) {
            return;
        }
        let peers: Vec<_> = routes.nodes().keys().filter(|node| **node != session.node).copied().collect();
        let turns = process.route_fetch.turns + 1;
        let Some(peer) = turns.checked_rem(peers.len()).map(|turn| peers[turn]) else { return };
        let (known, host) = (routes.version(), process.name);
        let Some(to) = self.address_of(p, peer) else { return };
        let id = self.fresh();
        let adopted = self.procs[p].route_fetch.adopted;
        self.procs[p].route_fetch = RouteFetch { id, sent, turns, adopted };
        self.send(host, to, Body::FetchRoutes { process: p, id, known });
    }

    /// Returns the route version that the next request of process `p` to the store names. The response has the changes
    /// of the routes since this version.
    pub(crate) fn known_version(&self, p: usize) -> RouteVersion {
        let Process { owner, route_fetch, .. } = &self.procs[p];
        match (self.bug, owner.routes()) {
            (Some(Bug::PeerRoutesNoWhole), Some(routes)) if route_fetch.adopted => routes.version(),
            _ => owner.known_version(),
        }
    }

    /// Responds to a peer, process `from`, with the changes of the routes of process `p` since the version `known`, if
    /// there are any.
    pub(crate) fn serve_routes(&mut self, p: usize, from: usize, id: u64, known: RouteVersion) {
        let process = &self.procs[p];
        let update = process.owner.routes().and_then(|routes| routes.since(known)).map(Rc::new);
        let host = process.name;
        self.send(host, Address::Process(from), Body::PeerRoutes { id, update });
    }

    /// Adopts the routes of a peer, unless the peer has no newer routes.
    pub(crate) fn adopt_peer_routes(&mut self, p: usize, id: u64, update: Option<&RouteUpdate>) {
        if self.is_probe(p, id, update) {
            return;
        }
        let fetch = self.procs[p].route_fetch;
        if fetch.id != id || self.procs[p].stopped {
            return;
        }
        if self.bug == Some(Bug::PeerRoutesExtend) && self.procs[p].owner.session().is_some() {
            self.extend(p, fetch.sent);
        }
        let Some(update) = update else { return };
        self.coverage.saw(Situation::PeerRoutes);
        let owned = self.procs[p].owner.owned().count();
        // If the update is not based on the version of the current routes, it changes nothing. The next request then
        // names the version of the current routes.
        let adopted = self.step(p, |owner, effects| owner.on_peer_routes(update, effects)).is_ok();
        self.procs[p].route_fetch.adopted |= adopted;
        if self.procs[p].owner.owned().count() < owned {
            self.coverage.saw(Situation::PeerRevoked);
        }
    }
}
