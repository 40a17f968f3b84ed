//! Observes a cluster repeatedly. Each observation contains the status of the cluster, the rates since the previous
//! observation, the busiest sections, and the events of the sets.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use seq_channel::Pool;
use seq_command::exit::Failure;
use seq_command::output::digits;
use seq_command::store_client::Node;
use seq_command::utc;
use seq_proto::v1::SectionFigures;
use serde::Serialize;

use crate::Cluster;
use crate::activity::{self, By, FiguresView};
use crate::cluster::AllocView;
use crate::events::{self, ClusterEvent};
use crate::feed::Feeds;
use crate::node_log::{NodeLogs, Source};

/// Maximum number of requests for the activity of sections that are in flight at the same time. The limit keeps the
/// number of sockets and the load of one observer low.
const IN_FLIGHT: usize = 32;

/// Maximum age of an observation to which rates are relative. After a longer pause, an average over the pause would be
/// shown as a rate.
const MOST_AGE: Duration = Duration::from_secs(60);

/// Maximum number of rates that an observer keeps for a section. Each observation adds one rate.
pub const HISTORY: usize = 32;

/// Maximum number of events that an observer keeps of one node. The node keeps more.
const KEPT_OF_NODE: usize = 64;

/// Maximum number of events of nodes in an observation.
const NODE_EVENTS: usize = 512;

/// Maximum number of events of nodes of one kind in an observation. With this limit, requests that all nodes refuse
/// every minute do not push out the loss of a lease.
const NODE_EVENTS_OF_KIND: usize = 128;

/// Reader of a cluster's status. Each call of [`Observer::observe`] returns an [`Observation`]: the status, the rates
/// since the previous call, the busiest sections and the newest events of the sets and nodes. Background tasks read the
/// events of the sets. Dropping the observer ends the tasks.
pub struct Observer {
    pool: Pool,
    seeds: Vec<Node>,
    all_sets: bool,
    timeout: Duration,
    /// The last observation and its time. The next observation computes rates relative to them.
    before: Option<(Instant, Arc<Observation>)>,
    /// Rates of each section of the last observation, by the index of the section. The newest rate comes last.
    ///
    /// **Invariant:** for each section there are at most [`HISTORY`] rates.
    rates: HashMap<u32, VecDeque<f64>>,
    feeds: Feeds,
    nodes: NodeLogs,
}

/// A cluster at one moment.
#[derive(Debug, Serialize)]
pub struct Observation {
    /// Time of the observation by the clock of this machine, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Status of all sets and nodes.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// The busiest sections, with the highest rate first.
    pub sections: Vec<BusySection>,
    /// The newest events of all sets and nodes, the newest first.
    pub events: Vec<ClusterEvent>,
    /// Texts about the AllocSvrs that did not report the activity of their sections, and about the sets and nodes whose
    /// events cannot be read. Each text states the cause.
    pub missing: Vec<String>,
}

/// A section with its activity of the last seconds.
#[derive(Clone, Debug, Serialize)]
pub struct BusySection {
    /// Index of the section.
    pub section: u32,
    /// First uid of the section; like the end, equal to the end of all uids for a section with lanes of series.
    #[serde(serialize_with = "digits")]
    pub uid_start: u64,
    /// End of its uids, exclusive.
    #[serde(serialize_with = "digits")]
    pub uid_end: u64,
    /// Name of its set.
    pub set: String,
    /// Name of its owner.
    pub owner: String,
    /// Its activity.
    #[serde(flatten)]
    pub figures: FiguresView,
    /// Rates of the section, by which the sections are ordered, in this observation and in the observations before it.
    /// The newest rate comes last.
    pub history: Vec<f64>,
}

impl Observer {
    /// Creates an observer of the sets to which the seed nodes belong. If `all_sets` is true, it observes all sets of
    /// their cluster. An observation lists a node as unreachable if the node does not respond within `timeout`.
    #[must_use]
    pub fn new(pool: Pool, seeds: Vec<Node>, all_sets: bool, timeout: Duration) -> Observer {
        Observer {
            pool,
            seeds,
            all_sets,
            timeout,
            before: None,
            rates: HashMap::new(),
            feeds: Feeds::default(),
            nodes: NodeLogs::new(KEPT_OF_NODE),
        }
    }

    /// Makes one observation of the cluster, with the `count` busiest sections in the order `by`. Rates of nodes and
    /// sets are relative to the previous observation, so the first observation has none.
    ///
    /// # Errors
    /// No node responds, or a server that is no node of a cluster responds at the address of a seed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the next observation is relative to the observation before the dropped one, and no
    /// event is lost.
    pub async fn observe(&mut self, by: By, count: u32) -> Result<Arc<Observation>, Failure> {
        let now = Instant::now();
        let mut cluster = Cluster::sample(&self.pool, &self.seeds, self.all_sets, self.timeout).await?;
        if self.before.as_ref().is_some_and(|(at, _)| now - *at > MOST_AGE) {
            self.before = None;
            self.rates.clear();
        }
        if let Some((at, before)) = &self.before {
            cluster.adopt(&before.cluster);
            cluster.add_rates(&before.cluster, now - *at);
        }
        let requested = activity_of_all(&self.pool, &cluster, (by, count), self.timeout);
        let polled = self.nodes.poll(&self.pool, Source::all(&cluster), self.timeout);
        let (responses, _) = tokio::join!(requested, polled);
        let (sections, mut missing) = self.sections(&cluster, responses, (by, count));
        self.feeds.follow(&self.pool, &cluster);
        missing.extend(self.feeds.failures());
        missing.extend(self.nodes.failures().iter().map(|(source, cause)| {
            let of = if source.set.is_empty() { String::new() } else { format!(" of {}", source.set) };
            format!("events of {}{of}: {cause}", source.node)
        }));
        let mut events = self.feeds.newest();
        events.extend(newest_of_nodes(self.nodes.events()));
        events::sort(&mut events);
        events.reverse();
        let observation = Arc::new(Observation { unix_ms: utc::now_ms(), cluster, sections, events, missing });
        self.before = Some((now, Arc::clone(&observation)));
        Ok(observation)
    }

    /// Ends the streams of events and closes the connections to nodes, because no observation is needed for some time.
    /// The next observation is like the first.
    pub fn rest(&mut self) {
        (self.feeds, self.before) = (Feeds::default(), None);
        self.nodes = NodeLogs::new(KEPT_OF_NODE);
        self.rates.clear();
        self.pool.retain(|_| false);
    }

    /// Waits until the observer receives a new or changed event of any set.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn next_event(&self) {
        self.feeds.changed().await;
    }

    /// Returns the `count` busiest sections of the cluster in the order `by`, and a text for each AllocSvr that did not
    /// respond. `responses` are the responses of the AllocSvrs.
    fn sections(
        &mut self,
        cluster: &Cluster,
        responses: Vec<Activity>,
        (by, count): (By, u32),
    ) -> (Vec<BusySection>, Vec<String>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for Activity { owner, response } in responses {
            let alloc = &cluster.allocs[owner];
            match response {
                Ok(figures) => found.extend(figures.into_iter().map(|figures| (figures, alloc))),
                Err(error) => missing.push(format!("activity of {} of {}: {error}", alloc.name, alloc.set)),
            }
        }
        missing.sort();
        let busiest = activity::merge(found, by);
        let mut before = std::mem::take(&mut self.rates);
        let mut sections = Vec::new();
        for (figures, owner) in busiest.into_iter().take(count as usize) {
            let mut history = before.remove(&figures.section).unwrap_or_default();
            if history.len() == HISTORY {
                history.pop_front();
            }
            history.push_back(by.rate(&figures));
            let uids = cluster.uids_of(figures.section);
            sections.push(BusySection {
                section: figures.section,
                uid_start: uids.start,
                uid_end: uids.end,
                set: owner.set.clone(),
                owner: owner.name.clone(),
                figures: FiguresView::new(&figures),
                history: history.iter().copied().collect(),
            });
            self.rates.insert(figures.section, history);
        }
        (sections, missing)
    }
}

/// The response of an AllocSvr to the request for its busiest sections.
struct Activity {
    /// Place of the AllocSvr in [`Cluster::allocs`].
    owner: usize,
    /// The busiest sections, or the cause for which they are missing.
    response: Result<Vec<SectionFigures>, String>,
}

/// Requests the `count` busiest sections in the order `by` from each AllocSvr that owns sections.
async fn activity_of_all(pool: &Pool, cluster: &Cluster, (by, count): (By, u32), timeout: Duration) -> Vec<Activity> {
    let owners = cluster.allocs.iter().enumerate().filter(|(_, alloc)| alloc.sections > 0);
    let request = |(owner, alloc): (usize, &AllocView)| {
        let (pool, addr) = (pool.clone(), alloc.addr.clone());
        async move { Activity { owner, response: activity::request(&pool, &addr, by, count, timeout).await } }
    };
    // The futures own their values, so that an observation can be awaited on any thread.
    let requests: Vec<_> = owners.map(request).collect();
    stream::iter(requests).buffer_unordered(IN_FLIGHT).collect().await
}

/// Returns copies of the newest events of nodes, at most [`NODE_EVENTS`], and at most [`NODE_EVENTS_OF_KIND`] of each
/// kind. The newest event comes first.
fn newest_of_nodes<'a>(events: impl Iterator<Item = &'a ClusterEvent>) -> Vec<ClusterEvent> {
    let mut events: Vec<&ClusterEvent> = events.collect();
    events.sort_by(|one, other| events::order(other, one));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    events.retain(|event| {
        let count = counts.entry(event.kind()).or_default();
        *count += 1;
        *count <= NODE_EVENTS_OF_KIND
    });
    events.into_iter().take(NODE_EVENTS).cloned().collect()
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::NodeEvent;

    use super::*;

    #[test]
    fn refusals_of_all_nodes_do_not_push_out_the_loss_of_a_lease() {
        let event = |index: u64, kind: &str| {
            let event = NodeEvent { index, at_unix_ms: index, kind: kind.to_owned(), ..NodeEvent::default() };
            ClusterEvent::of_node(("im-a", "a1"), 7, event)
        };
        let denied = (2..=2_000).map(|index| event(index, "denied"));
        let events: Vec<ClusterEvent> = denied.chain([event(1, "lease_lost")]).collect();
        let newest = newest_of_nodes(events.iter());
        assert_eq!((newest.len(), newest[0].index()), (NODE_EVENTS_OF_KIND + 1, 2_000));
        assert_eq!(newest.last().map(ClusterEvent::kind), Some("lease_lost"));
    }
}
