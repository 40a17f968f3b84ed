//! Cache of route updates for callers with stale routes, one per version of the callers.
//!
//! When an owner changes, every client of the set is stale at once, most of them at the same version. Computing the
//! changes reads the whole table, so it is done once per version; further requests get a copy of the message.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_api::service::SequenceService;
use seq_core::RouteVersion;
use seq_proto::v1;

/// Most cached versions; above this number the oldest is evicted. Each response refreshes its client, so clients are
/// few versions apart.
const MAX_CACHED: usize = 16;

/// The cached messages for the newest version.
#[derive(Debug, Default)]
pub(crate) struct RoutesCache {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// The version that all messages lead to.
    version: RouteVersion,
    /// Oldest first, by the version that they build on.
    since: Vec<(RouteVersion, Arc<v1::Routes>)>,
}

impl RoutesCache {
    /// Returns the changes since version `known`, or `None` if there are none, or if the caller keeps no routes.
    pub(crate) fn newer<F: SequenceService>(&self, service: &F, known: Option<u64>) -> Option<v1::Routes> {
        let known = RouteVersion(known?);
        if known >= service.route_version() {
            return None;
        }
        let routes = self.cached(service, known)?;
        Some(v1::Routes::clone(&routes))
    }

    fn cached<F: SequenceService>(&self, service: &F, known: RouteVersion) -> Option<Arc<v1::Routes>> {
        let mut made = self.made.lock();
        if made.version < service.route_version() {
            made.since.clear();
        }
        if let Some((_, routes)) = made.since.iter().find(|(since, _)| *since == known) {
            return Some(routes.clone());
        }
        let routes = Arc::new(v1::Routes::from(&service.routes_since(known)?));
        if made.version.0 != routes.version {
            made.version = RouteVersion(routes.version);
            made.since.clear();
        }
        if made.since.len() == MAX_CACHED {
            made.since.remove(0);
        }
        made.since.push((known, routes.clone()));
        Some(routes)
    }
}
