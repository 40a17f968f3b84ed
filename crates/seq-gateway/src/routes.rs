//! Cache of route updates for callers with outdated routes. It has one update for each version of the routes that
//! callers have.
//!
//! When a section gets another owner, the routes of every client of the set are outdated at once, and most clients have
//! the same version. The changes since a version are computed from the whole table, so this is done only once for each
//! version. Later requests get a copy of the message.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_api::service::SequenceService;
use seq_core::RouteVersion;
use seq_proto::v1;

/// Limit on the cached updates. If it is reached, the oldest update is removed. The limit can be small, because each
/// response updates the routes of its client, so the versions of the clients differ by only a few.
const MAX_CACHED: usize = 16;

/// The cached messages that update older routes to the newest version.
#[derive(Debug, Default)]
pub(crate) struct RoutesCache {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// The version to which all cached messages lead.
    version: RouteVersion,
    /// The cached messages, the oldest first. Each is stored with the version of the routes since which it contains the
    /// changes.
    since: Vec<(RouteVersion, Arc<v1::Routes>)>,
}

impl RoutesCache {
    /// Returns the changes of the routes since the version `known`; `None` if there are none, or if the caller keeps no
    /// routes.
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
