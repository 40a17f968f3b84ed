//! A cluster under load: the start and the end of every row.

use std::time::{Duration, Instant};

use seq_testkit::eventually;

use crate::cluster::{Cluster, Shape};
use crate::load::keys::Keys;
use crate::load::{Load, Report};

/// A cluster under load. The callers end before the cluster.
pub(crate) struct Scene {
    pub(crate) load: Load,
    pub(crate) cluster: Cluster,
}

impl Scene {
    pub(crate) fn start(shape: Shape) -> Scene {
        Scene::of(Cluster::start(shape))
    }

    /// Starts load on a cluster, and waits until every section is served.
    pub(crate) fn of(cluster: Cluster) -> Scene {
        let load = Load::start(&cluster);
        load.reset();
        Scene { load, cluster }
    }

    /// Starts load on keys of a cluster that has the keyspace.
    pub(crate) fn of_keys(cluster: Cluster, keys: Keys) -> Scene {
        let load = Load::start_keys(&cluster, keys);
        load.reset();
        Scene { load, cluster }
    }

    /// Waits until every section is served again, ends the load, and asserts the order.
    pub(crate) fn end(self, what: &str) -> (Report, Cluster) {
        self.load.wait_served();
        let report = self.load.finish();
        report.print(what);
        report.assert_order();
        (report, self.cluster)
    }

    /// Waits until one of these stores has applied more than `seen`; returns the time since `since`.
    pub(crate) fn writes_resume(&self, stores: &[usize], seen: u64, since: Instant) -> Duration {
        // One more write may have been in flight, and the first entry of a term is the leader's own.
        eventually("writes resume", || (self.cluster.applied(stores) > seen + 2).then(|| since.elapsed()))
    }
}
