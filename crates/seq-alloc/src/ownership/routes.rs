//! Access to the routes of this node, which map each section to its owner and its set.

use std::sync::Arc;

use arc_swap::Guard;
use seq_core::calls::SetRoute;
use seq_core::route::{Route, RouteTable};
use seq_core::{NodeId, RouteVersion, SectionId, SetId};

use super::Ownership;
use crate::lanes::SeriesIndex;

impl Ownership {
    /// Returns the newest routes. The returned guard must not be held across an await.
    #[inline]
    pub(crate) fn routes(&self) -> Guard<Option<Arc<RouteTable>>> {
        self.routes.load()
    }

    /// Returns the index of the series in the newest routes. The returned guard must not be held across an await.
    #[inline]
    pub(crate) fn series(&self) -> Guard<Arc<SeriesIndex>> {
        self.series.load()
    }

    /// Returns the route of a section in the newest routes. Before this node has routes, returns the default route.
    pub(crate) fn route(&self, section: SectionId) -> Route {
        self.routes().as_ref().and_then(|routes| routes.get(section)).unwrap_or_default()
    }

    /// Returns the owner of a section if the owner is a node other than `me`; otherwise `None`.
    pub(crate) fn other_owner(&self, section: SectionId, me: NodeId) -> Option<NodeId> {
        self.route(section).owner.filter(|owner| *owner != me)
    }

    /// Returns the set of a section.
    pub(crate) fn set_route(&self, section: SectionId) -> SetRoute {
        let routes = self.routes();
        let Some(routes) = routes.as_ref() else { return SetRoute::default() };
        let route = routes.get(section).unwrap_or_default();
        SetRoute { own: routes.id(), other: route.other_set(), epoch: route.epoch }
    }

    /// Returns the id of this set; `SetId(0)` before the first routes.
    pub(crate) fn set_id(&self) -> SetId {
        self.routes().as_ref().map_or(SetId(0), |routes| routes.id())
    }

    /// Returns the version of the routes; `RouteVersion(0)` before the first routes.
    #[inline]
    pub(crate) fn route_version(&self) -> RouteVersion {
        self.routes().as_ref().map_or(RouteVersion(0), |routes| routes.version())
    }

    /// Returns the version of the routes that requests to the store state as known to this node.
    pub(crate) fn known_version(&self) -> RouteVersion {
        self.machine().known_version()
    }
}
