//! The client's view of its cluster, for proxies, which forward the requests of their callers.

use std::time::Duration;

use seq_core::route::{RouteNode, RouteSet, RouteUpdate};
use seq_core::{NodeId, RouteVersion, SectionId};
use tokio::time::Instant;

use crate::client::Client;
use crate::directory::Directory;
use crate::discovery;
use crate::error::ConnectError;

/// The section of a uid according to the client's newest routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionView {
    /// Id of the section.
    pub section: SectionId,
    /// Owner of the section in the section's set; `None` if the section has no owner, or if the owner is not known.
    pub owner: Option<NodeId>,
}

impl Client {
    /// Returns the section of a uid; `None` outside every known set.
    #[must_use]
    pub fn section_of(&self, uid: u64) -> Option<SectionView> {
        let directory = self.shared().routes.load();
        let section = directory.section_of(uid)?;
        Some(SectionView { section, owner: directory.route(uid)?.owner })
    }

    /// Returns the version of [`Client::routes`].
    #[must_use]
    pub fn route_version(&self) -> RouteVersion {
        self.shared().routes.load().home().map_or(RouteVersion(0), |(_, home)| home.version())
    }

    /// Returns the merged routes of all sets in the form of the whole route table of one set. This set is the first
    /// that sent routes of the cluster to this client. Sections of other sets are marked as `away` in the table.
    /// Returns `None` before the client has any routes.
    #[must_use]
    pub fn routes(&self) -> Option<RouteUpdate> {
        self.shared().routes.load().whole_table()
    }

    /// Requests newer routes from one node of each of up to eight sets, and returns when the first of them responds.
    ///
    /// # Errors
    /// [`ConnectError::Unreachable`] if no node responded within `timeout`. The error contains the address of a node
    /// that did not respond.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
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
            // Names of nodes are not kept, because no request needs them.
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
            series: self
                .series()
                .filter(|(set, _)| self.set(*set).id() == home.id())
                .map(|(_, known)| known.record.clone())
                .collect(),
        })
    }
}

/// Limit on the addresses of each other set in the route table that [`Client::routes`] returns. It is large enough that
/// one of these addresses usually reaches a running node.
const MAX_NAMED_ADDRS: usize = 16;
