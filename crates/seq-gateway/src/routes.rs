//! The routes a stale caller gets, made once for each version callers come with.
//!
//! When an owner changes, every client of the set is stale at once and most of them by the same step. Finding the changes
//! reads the whole table, so it is done once; later callers get a copy of the message.

use std::sync::Arc;

use parking_lot::Mutex;
use seq_core::RouteVersion;
use seq_kit::frontend::Frontend;
use seq_proto::v1;

/// How many versions callers may come with before the oldest is made anew: clients are refreshed by each answer, so they
/// are few versions apart.
const KEPT: usize = 16;

/// The messages made for the newest version.
#[derive(Debug, Default)]
pub(crate) struct RoutesCache {
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// The version all messages lead to.
    version: RouteVersion,
    /// Oldest first, by the version they build on.
    since: Vec<(RouteVersion, Arc<v1::Routes>)>,
}

impl RoutesCache {
    /// What a caller that knows `known` does not know yet; `None` also when the caller keeps no routes.
    pub(crate) fn newer<F: Frontend>(&self, frontend: &F, known: Option<u64>) -> Option<v1::Routes> {
        let known = RouteVersion(known?);
        if known >= frontend.route_version() {
            return None;
        }
        let routes = self.cached(frontend, known)?;
        Some(v1::Routes::clone(&routes))
    }

    fn cached<F: Frontend>(&self, frontend: &F, known: RouteVersion) -> Option<Arc<v1::Routes>> {
        let mut made = self.made.lock();
        if made.version < frontend.route_version() {
            made.since.clear();
        }
        if let Some((_, routes)) = made.since.iter().find(|(since, _)| *since == known) {
            return Some(routes.clone());
        }
        let routes = Arc::new(v1::Routes::from(&frontend.routes_since(known)?));
        if made.version.0 != routes.version {
            made.version = RouteVersion(routes.version);
            made.since.clear();
        }
        if made.since.len() == KEPT {
            made.since.remove(0);
        }
        made.since.push((known, routes.clone()));
        Some(routes)
    }
}
