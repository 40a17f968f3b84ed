//! What a client knows of its cluster, for programs that forward the requests of others.

use std::time::Duration;

use seq_core::route::{RouteNode, RouteSet, RouteUpdate};
use seq_core::{NodeId, RouteVersion, SectionId};
use tokio::time::Instant;

use crate::client::Client;
use crate::directory::Directory;
use crate::discovery;
use crate::error::ConnectError;

/// The section of a uid, as far as a client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionView {
    /// The section.
    pub section: SectionId,
    /// Its owner in its set; `None` while it has none, or none is known.
    pub owner: Option<NodeId>,
}

impl Client {
    /// The section of a uid; `None` outside every known set.
    #[must_use]
    pub fn section_of(&self, uid: u64) -> Option<SectionView> {
        let directory = self.shared().routes.load();
        let section = directory.section_of(uid)?;
        Some(SectionView { section, owner: directory.route(uid)?.owner })
    }

    /// Version of [`Client::routes`].
    #[must_use]
    pub fn route_version(&self) -> RouteVersion {
        self.shared().routes.load().home().map_or(RouteVersion(0), |(_, home)| home.version())
    }

    /// The merged routes as the whole table of one set: that of the first cluster whose routes arrived first. The
    /// sections of other sets are `away` in it. `None` while nothing is known.
    #[must_use]
    pub fn routes(&self) -> Option<RouteUpdate> {
        self.shared().routes.load().whole_table()
    }

    /// Fetches newer routes from one node of each set, until one responds.
    ///
    /// # Errors
    /// [`ConnectError::Unreachable`] names a node that was tried, if none responded within `timeout`.
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub async fn probe(&self, timeout: Duration) -> Result<(), ConnectError> {
        discovery::probe(self.shared(), Instant::now() + timeout).await
    }
}

impl Directory {
    fn whole_table(&self) -> Option<RouteUpdate> {
        let (layout, home) = self.home()?;
        let runs = (0..layout.sections()).map(SectionId).filter_map(|section| {
            let route = self.merged(section)?;
            let set = self.set(route.set).id();
            let is_home = set == home.id();
            let here = seq_core::route::Route::here(route.owner, route.epoch);
            Some((section, if is_home { here } else { seq_core::route::Route::away(set, route.epoch) }))
        });
        let node = |(id, addr): (NodeId, &str)| {
            // Names are not kept: none is needed to send a request.
            (id, RouteNode { name: format!("node-{id}"), addr: addr.to_owned() })
        };
        let other = |set: &std::sync::Arc<crate::directory::set_routes::SetRoutes>| {
            let allocs = set.all_addrs().take(MAX_NAMED_ADDRS).map(|addr| addr.to_string()).collect();
            (set.id(), RouteSet { name: set.name().to_owned(), allocs })
        };
        Some(RouteUpdate {
            set: home.name().to_owned(),
            id: home.id(),
            layout: layout.clone(),
            version: home.version(),
            base: RouteVersion(0),
            nodes: home.nodes().map(node).collect(),
            sets: self.others(home).map(other).collect(),
            runs: seq_core::route::runs(runs),
        })
    }
}

/// Most addresses of another set in a table: enough to reach one that is up.
const MAX_NAMED_ADDRS: usize = 16;
