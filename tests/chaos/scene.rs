//! A cluster under load: what every row begins with, and how it ends.

use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Shape};
use crate::load::{Load, Report};
use crate::machine::eventually;

/// A cluster under load. The callers end before the cluster does.
pub(crate) struct Scene {
    pub(crate) load: Load,
    pub(crate) cluster: Cluster,
}

impl Scene {
    pub(crate) fn start(shape: Shape) -> Scene {
        Scene::of(Cluster::start(shape))
    }

    /// Puts load on a cluster, and waits until it is served everywhere.
    pub(crate) fn of(cluster: Cluster) -> Scene {
        let load = Load::start(&cluster);
        load.reset();
        Scene { load, cluster }
    }

    /// Waits until every section is served again, ends the load, and holds the history against the promise.
    pub(crate) fn end(self, what: &str) -> (Report, Cluster) {
        self.load.wait_served();
        let report = self.load.finish();
        report.print(what);
        report.assert_order();
        (report, self.cluster)
    }

    /// Waits until the stores named have committed more than they had when `seen` was looked up; answers how long it took
    /// since `since`.
    pub(crate) fn writes_go_on(&self, stores: &[usize], seen: u64, since: Instant) -> Duration {
        // One more may have been on its way already, and the first of a term is the leader's own.
        eventually("writes go on", || (self.cluster.applied(stores) > seen + 2).then(|| since.elapsed()))
    }
}
