//! Counts the ceiling raises of a cluster and the processor time of its processes while a run lasts, from what its AllocSvrs
//! say of themselves.
//!
//! A raise is a section write, what the numbers of a run cost the store. A node's count starts over when it restarts; the
//! raises between the last look at one life and its end are not seen. A node that does not answer is looked at again later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use seq_client::pool::Pool;
use seq_proto::v1;
use seq_proto::v1::admin_service_client::AdminServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_response::Role;

/// How long a look at one node may take; the next look comes soon.
const LOOK_DEADLINE: Duration = Duration::from_millis(500);

/// Raises of a cluster since the first look.
#[derive(Debug)]
pub(crate) struct RaiseWatch {
    pool: Pool,
    addrs: BTreeSet<String>,
    seen: BTreeMap<String, Life>,
    raises: u64,
    restarts: u64,
    /// Processor time of each process, by its address and id, at the first and the last look.
    processes: BTreeMap<(String, u32), (Duration, Duration)>,
}

/// What one life of a node said last.
#[derive(Clone, Copy, Debug)]
struct Life {
    incarnation: u64,
    raises: u64,
}

impl RaiseWatch {
    /// Watches the cluster behind `addrs`, each as `host:port`.
    pub(crate) fn new(pool: Pool, addrs: impl IntoIterator<Item = String>) -> RaiseWatch {
        RaiseWatch {
            pool,
            addrs: addrs.into_iter().collect(),
            seen: BTreeMap::new(),
            raises: 0,
            restarts: 0,
            processes: BTreeMap::new(),
        }
    }

    /// Asks every node once. The first look only notes where the counts stand.
    pub(crate) async fn look(&mut self) {
        let routes = join_all(self.addrs.iter().map(|addr| nodes(&self.pool, addr))).await;
        self.addrs.extend(routes.into_iter().flatten());
        let answers = join_all(self.addrs.iter().map(|addr| status(&self.pool, addr))).await;
        for (addr, answer) in self.addrs.clone().into_iter().zip(answers) {
            let Some(answer) = answer else { continue };
            let host = addr.rsplit_once(':').map_or(&*addr, |(host, _)| host).to_owned();
            let used = Duration::from_micros(answer.cpu_us);
            self.processes.entry((host, answer.pid)).or_insert((used, used)).1 = used;
            if let Some((name, life)) = life(answer) {
                self.note(name, life);
            }
        }
    }

    /// Processor time that the processes have used between the first look and the last; `None` while none has said.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        (!self.processes.is_empty())
            .then(|| self.processes.values().map(|(first, last)| last.saturating_sub(*first)).sum())
    }

    /// Raises since the first look; `None` while no node has answered.
    pub(crate) fn raises(&self) -> Option<u64> {
        (!self.seen.is_empty()).then_some(self.raises)
    }

    /// Lives that began since the first look.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }

    fn note(&mut self, name: String, life: Life) {
        match self.seen.insert(name, life) {
            // A node that was not there at the first look may have a past that is not this run's; it is not counted.
            None => {}
            Some(before) if before.incarnation == life.incarnation => {
                self.raises += life.raises.saturating_sub(before.raises);
            }
            Some(_) => {
                self.restarts += 1;
                self.raises += life.raises;
            }
        }
    }
}

/// The addresses of the nodes that `addr` routes to.
async fn nodes(pool: &Pool, addr: &str) -> Vec<String> {
    let Ok(channel) = pool.get(addr) else { return Vec::new() };
    let mut client = SequenceServiceClient::new(channel);
    let call = client.get_routes(v1::GetRoutesRequest { known_version: 0 });
    match tokio::time::timeout(LOOK_DEADLINE, call).await {
        Ok(Ok(answer)) => {
            answer.into_inner().routes.into_iter().flat_map(|routes| routes.nodes).map(|node| node.addr).collect()
        }
        _ => Vec::new(),
    }
}

async fn status(pool: &Pool, addr: &str) -> Option<v1::StatusResponse> {
    let mut client = AdminServiceClient::new(pool.get(addr).ok()?);
    let call = client.status(v1::StatusRequest {});
    Some(tokio::time::timeout(LOOK_DEADLINE, call).await.ok()?.ok()?.into_inner())
}

fn life(answer: v1::StatusResponse) -> Option<(String, Life)> {
    match answer.role? {
        // Before it registered a node has no life to count in.
        Role::Alloc(alloc) if alloc.incarnation == 0 => None,
        Role::Alloc(alloc) => Some((answer.node, Life { incarnation: alloc.incarnation, raises: alloc.raises })),
        Role::Store(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn raises_add_up_over_lives() {
        let mut watch = RaiseWatch::new(Pool::new(), []);
        assert_eq!(watch.raises(), None);
        let mut note = |name: &str, incarnation, raises| watch.note(name.to_owned(), Life { incarnation, raises });
        note("a1", 1, 100);
        note("a2", 2, 50);
        note("a1", 1, 103);
        note("a2", 3, 4);
        assert_eq!((watch.raises(), watch.restarts()), (Some(7), 1));
    }
}
