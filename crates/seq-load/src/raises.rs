//! Counts of the ceiling raises and of the CPU time of a cluster during a run. The counts are read from the status of
//! the AllocSvrs.
//!
//! Each raise makes the StoreSvr write one section, so the number of raises is the cost that the numbers of a run have
//! at the StoreSvr. The raise count of a node restarts at 0 with each incarnation of the node. Raises between the last
//! poll of an incarnation and its end are not counted. A node that does not respond to a poll is polled again in the
//! next poll.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use seq_channel::Pool;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;

/// Timeout of each request of a poll. It is short because the next poll follows soon.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);

/// Watch that polls the nodes of a cluster, and sums their raises since the first poll.
#[derive(Debug)]
pub struct RaiseWatch {
    pool: Pool,
    addrs: BTreeSet<String>,
    seen: BTreeMap<String, NodeCounts>,
    raises: u64,
    restarts: u64,
    /// CPU time of each process at the first poll and at the last poll to which the process responded. The key is the
    /// host and the pid of the process.
    processes: BTreeMap<(String, u32), (Duration, Duration)>,
}

/// The counts that an incarnation of a node reported in its last response to a poll.
#[derive(Clone, Copy, Debug)]
struct NodeCounts {
    incarnation: u64,
    raises: u64,
}

impl RaiseWatch {
    /// Creates a watch on the cluster to which the nodes at `addrs` belong. An address has the form `host:port`.
    pub fn new(pool: Pool, addrs: impl IntoIterator<Item = String>) -> RaiseWatch {
        RaiseWatch {
            pool,
            addrs: addrs.into_iter().collect(),
            seen: BTreeMap::new(),
            raises: 0,
            restarts: 0,
            processes: BTreeMap::new(),
        }
    }

    /// Polls every node once, including the nodes that the route tables of the nodes contain. The first poll of a node
    /// only sets the values from which later polls count.
    ///
    /// # Cancel safety
    /// Dropping the future skips this poll.
    pub async fn poll(&mut self) {
        let routes = join_all(self.addrs.iter().map(|addr| nodes(&self.pool, addr))).await;
        self.addrs.extend(routes.into_iter().flatten());
        let responses = join_all(self.addrs.iter().map(|addr| status(&self.pool, addr))).await;
        for (addr, response) in self.addrs.clone().into_iter().zip(responses) {
            let Some(response) = response else { continue };
            let host = addr.rsplit_once(':').map_or(&*addr, |(host, _)| host).to_owned();
            let used = Duration::from_micros(response.cpu_us);
            self.processes.entry((host, response.pid)).or_insert((used, used)).1 = used;
            if let Some((name, counts)) = counts_of(response) {
                self.note(name, counts);
            }
        }
    }

    /// Returns the CPU time that the processes of all nodes used between the first and the last poll; `None` if no node
    /// has responded yet.
    pub fn cpu(&self) -> Option<Duration> {
        (!self.processes.is_empty())
            .then(|| self.processes.values().map(|(first, last)| last.saturating_sub(*first)).sum())
    }

    /// Returns the number of raises since the first poll; `None` if no node has responded yet.
    pub fn raises(&self) -> Option<u64> {
        (!self.seen.is_empty()).then_some(self.raises)
    }

    /// Returns the number of incarnations that began since the first poll.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    fn note(&mut self, name: String, counts: NodeCounts) {
        match self.seen.insert(name, counts) {
            // If a node did not respond to the first poll, it may have made its raises before this run, so they are not
            // counted.
            None => {}
            Some(before) if before.incarnation == counts.incarnation => {
                self.raises += counts.raises.saturating_sub(before.raises);
            }
            Some(_) => {
                self.restarts += 1;
                self.raises += counts.raises;
            }
        }
    }
}

/// Returns the addresses of the nodes in the route table of `addr`.
async fn nodes(pool: &Pool, addr: &str) -> Vec<String> {
    let Ok(channel) = pool.get(addr) else { return Vec::new() };
    let mut client = SequenceServiceClient::new(channel);
    let call = client.get_routes(v1::GetRoutesRequest { known_version: 0 });
    match tokio::time::timeout(POLL_TIMEOUT, call).await {
        Ok(Ok(response)) => {
            response.into_inner().routes.into_iter().flat_map(|routes| routes.nodes).map(|node| node.addr).collect()
        }
        _ => Vec::new(),
    }
}

async fn status(pool: &Pool, addr: &str) -> Option<v1::StatusResponse> {
    let mut client = StatusServiceClient::new(pool.get(addr).ok()?);
    let call = client.status(v1::StatusRequest {});
    Some(tokio::time::timeout(POLL_TIMEOUT, call).await.ok()?.ok()?.into_inner())
}

fn counts_of(response: v1::StatusResponse) -> Option<(String, NodeCounts)> {
    match response.role? {
        // A node has no incarnation before it has registered.
        Role::Alloc(alloc) if alloc.incarnation == 0 => None,
        Role::Alloc(alloc) => {
            Some((response.node, NodeCounts { incarnation: alloc.incarnation, raises: alloc.raises }))
        }
        Role::Store(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn raises_add_up_over_incarnations() {
        let mut watch = RaiseWatch::new(Pool::new(), []);
        assert_eq!(watch.raises(), None);
        let mut note =
            |name: &str, incarnation, raises| watch.note(name.to_owned(), NodeCounts { incarnation, raises });
        note("a1", 1, 100);
        note("a2", 2, 50);
        note("a1", 1, 103);
        note("a2", 3, 4);
        assert_eq!((watch.raises(), watch.restarts()), (Some(7), 1));
    }
}
