//! Events of the processes of nodes. A process keeps its events in memory only, so a reader requests them at intervals,
//! and keeps the events of a process that has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt, stream};
use seq_channel::Pool;
use seq_core::node_events::{MAX_DETAIL_BYTES, MAX_NODE_EVENTS};
use seq_load::outcome::Chain;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ListNodeEventsRequest, ListNodeEventsResponse, NodeEvent};
use tonic::{Code, Status};

use crate::Cluster;
use crate::events::ClusterEvent;
use crate::response::within_or;

/// Maximum number of nodes from which events are requested at the same time. The limit keeps the number of sockets and
/// the load of one reader low.
const IN_FLIGHT: usize = 32;

/// Maximum number of pages that are requested from a node at a time, which is above the number of pages that a node
/// keeps. The number is limited because a wrong server could state forever that more pages follow.
const MAX_PAGES: usize = 8;

/// Number of logs above which the logs of nodes that no longer respond are removed. No cluster has as many nodes.
const MAX_LOGS: usize = 1_024;

/// Maximum number of bytes of the kind of an event, which is above the length of any kind, so that kinds of later
/// releases fit.
const MAX_KIND_BYTES: usize = 64;

/// A node whose events are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Name of the node's set; empty for a proxy.
    pub set: String,
    /// Name of the node.
    pub node: String,
    /// Address of a gRPC port of the node.
    pub addr: String,
}

impl Source {
    /// Returns the nodes of a cluster that respond.
    #[must_use]
    pub fn all(cluster: &Cluster) -> Vec<Source> {
        let source = |set: &str, node: &str, addr: &str| Source {
            set: set.to_owned(),
            node: node.to_owned(),
            addr: addr.to_owned(),
        };
        let stores = cluster.stores.iter().map(|store| source(&store.set, &store.name, &store.addr));
        let allocs = cluster.allocs.iter().map(|alloc| source(&alloc.set, &alloc.name, &alloc.addr));
        let proxies = cluster.proxies.iter().map(|proxy| source("", &proxy.name, &proxy.addr));
        stores.chain(allocs).chain(proxies).collect()
    }
}

/// The events of nodes that were read so far.
#[derive(Debug)]
pub struct NodeLogs {
    /// Maximum number of events that are kept of one node.
    kept: usize,
    /// Logs by the address of the node.
    logs: BTreeMap<String, Log>,
    /// Errors of the last requests: the node, and the cause.
    failures: Vec<(Source, String)>,
}

/// The events of a node.
#[derive(Debug, Default)]
struct Log {
    set: String,
    node: String,
    /// Random number of the run of the process that responded last.
    instance: u64,
    /// Number of the last change of an event of this run that was received.
    after: u64,
    /// Events by the number of the run, counted by this reader, and by their index.
    events: BTreeMap<(u32, u64), ClusterEvent>,
    run: u32,
}

impl Log {
    /// Adds at most [`MAX_NODE_EVENTS`] events of a page, because a node keeps no more. An added event replaces the
    /// event of the same run with the same index. If there are more than `kept` events then, removes the oldest events
    /// of the most frequent kinds. Returns the added events.
    fn add(&mut self, page: ListNodeEventsResponse, kept: usize) -> Vec<ClusterEvent> {
        let ListNodeEventsResponse { instance, events, next, .. } = page;
        if self.instance != instance {
            self.instance = instance;
            self.run += 1;
        }
        self.after = next;
        let of = (&*self.set, &*self.node);
        let events = events.into_iter().take(MAX_NODE_EVENTS);
        let added: Vec<_> = events.map(|event| ClusterEvent::of_node(of, instance, bounded(event))).collect();
        self.events.extend(added.iter().map(|event| ((self.run, event.index()), event.clone())));
        while self.events.len() > kept {
            self.remove_one();
        }
        added
    }

    /// Removes the oldest event of the kind that has the most events, so that requests that the node refuses every
    /// minute do not push out the loss of its lease.
    fn remove_one(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for event in self.events.values() {
            *counts.entry(event.kind()).or_default() += 1;
        }
        let most = counts.values().max();
        let oldest = self.events.iter().find(|(_, event)| counts.get(event.kind()) == most);
        if let Some(place) = oldest.map(|(place, _)| *place) {
            self.events.remove(&place);
        }
    }
}

impl NodeLogs {
    /// Creates a reader that keeps at most `kept` events of each node. Of the most frequent kinds, it keeps the newest
    /// events.
    #[must_use]
    pub fn new(kept: usize) -> NodeLogs {
        NodeLogs { kept, logs: BTreeMap::new(), failures: Vec::new() }
    }

    /// Requests the newer events of the nodes `sources`, each request within `timeout`. Returns the events that are new
    /// or continued. The events of a node that no longer responds are kept, because they may have the cause.
    ///
    /// # Cancel safety
    /// If the future is dropped, the events of the nodes that responded before are kept, and no later call returns
    /// them.
    pub async fn poll(&mut self, pool: &Pool, sources: Vec<Source>, timeout: Duration) -> Vec<ClusterEvent> {
        let current: BTreeSet<String> = sources.iter().map(|source| source.addr.clone()).collect();
        let request = |source: Source| {
            let known = self.logs.get(&source.addr).map(|log| (log.instance, log.after));
            let pool = pool.clone();
            async move {
                let pages = request(&pool, &source.addr, known, timeout).await;
                (source, pages)
            }
        };
        // The futures are created first, because they depend on the logs, which the responses change.
        let requests: Vec<_> = sources.into_iter().map(request).collect();
        let mut responses = stream::iter(requests).buffer_unordered(IN_FLIGHT);
        self.failures.clear();
        let mut changed = Vec::new();
        while let Some((source, pages)) = responses.next().await {
            match pages {
                Ok(pages) => {
                    let log = self.logs.entry(source.addr).or_default();
                    (log.set, log.node) = (source.set, source.node);
                    pages.into_iter().for_each(|page| changed.extend(log.add(page, self.kept)));
                }
                Err(cause) => self.failures.push((source, cause)),
            }
        }
        if self.logs.len() > MAX_LOGS {
            self.logs.retain(|addr, _| current.contains(addr));
        }
        self.failures.sort_by(|(one, _), (other, _)| (&one.set, &one.node).cmp(&(&other.set, &other.node)));
        changed
    }

    /// Returns all kept events, in no order.
    pub fn events(&self) -> impl Iterator<Item = &ClusterEvent> {
        self.logs.values().flat_map(|log| log.events.values())
    }

    /// Returns the nodes whose events could not be read by the last [`NodeLogs::poll`], each with the cause.
    #[must_use]
    pub fn failures(&self) -> &[(Source, String)] {
        &self.failures
    }
}

/// Requests the events of the node at `addr`. `known` are the last run of the process and its last change of an event
/// that the caller knows. If the process was started anew since then, all events of the new run are requested.
async fn request(
    pool: &Pool,
    addr: &str,
    known: Option<(u64, u64)>,
    timeout: Duration,
) -> Result<Vec<ListNodeEventsResponse>, String> {
    let mut node = StatusServiceClient::new(pool.get(addr).map_err(|error| error.to_string())?);
    let (mut run, mut after) = known.map_or((None, 0), |(run, after)| (Some(run), after));
    let mut pages = Vec::new();
    for _ in 0..MAX_PAGES {
        let request = ListNodeEventsRequest { after, limit: 0 };
        let page = within_or(timeout, node.list_node_events(request), cause).await?;
        if run.is_some_and(|run| run != page.instance) && after > 0 {
            (run, after) = (Some(page.instance), 0);
            continue;
        }
        (run, after) = (Some(page.instance), page.next);
        let more = page.more;
        pages.push(page);
        if !more {
            break;
        }
    }
    Ok(pages)
}

/// Cuts the texts of an event. A reader does not trust the node to limit them, because the reader keeps the events.
fn bounded(mut event: NodeEvent) -> NodeEvent {
    for (text, most) in [(&mut event.kind, MAX_KIND_BYTES), (&mut event.detail, MAX_DETAIL_BYTES)] {
        text.truncate(text.floor_char_boundary(most));
        text.shrink_to_fit();
    }
    event
}

/// Returns the cause for which a node refused the request for its events.
fn cause(status: &Status) -> String {
    match status.code() {
        Code::Unimplemented => "its release keeps no events".to_owned(),
        _ => Chain(status).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Recorded;

    fn page(instance: u64, indexes: &[u64]) -> ListNodeEventsResponse {
        let event =
            |index: &u64| NodeEvent { index: *index, change: *index, kind: "denied".into(), ..NodeEvent::default() };
        let events: Vec<NodeEvent> = indexes.iter().map(event).collect();
        let next = indexes.iter().copied().max().unwrap_or(0);
        ListNodeEventsResponse { instance, events, next, ..ListNodeEventsResponse::default() }
    }

    fn kept(log: &Log) -> Vec<(u64, u64)> {
        let run = |event: &ClusterEvent| match &event.recorded {
            Recorded::Node { instance, .. } => *instance,
            Recorded::Set(_) => 0,
        };
        log.events.values().map(|event| (run(event), event.index())).collect()
    }

    #[test]
    fn the_events_of_a_process_that_ended_are_kept_before_those_of_the_next() {
        let mut log = Log::default();
        assert_eq!(log.add(page(7, &[1, 2]), 4).len(), 2);
        log.add(page(7, &[2, 3]), 4);
        assert_eq!((kept(&log), log.after), (vec![(7, 1), (7, 2), (7, 3)], 3));
        log.add(page(5, &[1, 2]), 4);
        assert_eq!((kept(&log), log.after), (vec![(7, 2), (7, 3), (5, 1), (5, 2)], 2));
    }

    #[test]
    fn refusals_of_a_node_do_not_push_out_the_loss_of_its_lease() {
        let mut log = Log::default();
        let mut first = page(7, &[1, 2, 3]);
        "lease_lost".clone_into(&mut first.events[0].kind);
        log.add(first, 4);
        log.add(page(7, &[4, 5, 6]), 4);
        assert_eq!(kept(&log), [(7, 1), (7, 4), (7, 5), (7, 6)], "the oldest denied requests are removed");
    }

    #[test]
    fn the_texts_and_the_number_of_events_of_a_node_are_limited() {
        let mut log = Log::default();
        let mut long = page(7, &(1..=2_000).collect::<Vec<u64>>());
        (long.events[0].kind, long.events[0].detail) = ("k".repeat(1_000), "é".repeat(1_000_000));
        let added = log.add(long, 5_000);
        assert_eq!((added.len(), log.events.len(), log.after), (MAX_NODE_EVENTS, MAX_NODE_EVENTS, 2_000));
        let Recorded::Node { event: NodeEvent { kind, detail, .. }, .. } = &log.events[&(1, 1)].recorded else {
            panic!("an event of a set");
        };
        assert_eq!((kind.len(), detail.len()), (MAX_KIND_BYTES, MAX_DETAIL_BYTES));
        assert!(detail.capacity() <= 2 * MAX_DETAIL_BYTES, "the rest takes no memory");
    }

    #[test]
    fn events_of_runs_have_keys_of_their_own() {
        let mut log = Log { set: "im-a".into(), node: "a1".into(), ..Log::default() };
        let one = log.add(page(7, &[1]), 4).remove(0);
        let next = log.add(page(8, &[1]), 4).remove(0);
        assert_eq!((one.source(), one.index(), next.index()), ("a1", 1, 1));
        assert_ne!(one.key(), next.key());
    }
}
