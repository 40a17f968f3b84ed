//! Observes a cluster continuously. An observation has the status with rates, the busiest sections, and the events of
//! the sets.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream;
use seq_channel::Pool;
use seq_command::exit::Failure;
use seq_command::output::digits;
use seq_command::store_client::Node;
use seq_command::utc;
use serde::Serialize;

use crate::Cluster;
use crate::activity::{self, By, FiguresView};
use crate::cluster::AllocView;
use crate::feed::{ClusterEvent, Feeds};

/// Maximum number of requests for activity in flight. It limits the sockets and the load of one observer.
const IN_FLIGHT: usize = 32;

/// Maximum number of rates that are kept for a section. Each observation adds one rate.
pub const HISTORY: usize = 32;

/// Observer of a cluster, which makes one observation after another. Dropping it ends its requests.
pub struct Observer {
    pool: Pool,
    seeds: Vec<Node>,
    all_sets: bool,
    timeout: Duration,
    /// The last observation and its time, relative to which the next observation computes rates.
    before: Option<(Instant, Arc<Observation>)>,
    /// Rates of the sections in the last observation, by section. The newest rate is the last.
    ///
    /// **Invariant:** no section has more than [`HISTORY`] rates.
    rates: HashMap<u32, VecDeque<f64>>,
    feeds: Feeds,
}

/// A cluster at one moment.
#[derive(Debug, Serialize)]
pub struct Observation {
    /// Time of the observation in milliseconds since 1970, by the clock of this machine.
    pub unix_ms: u64,
    /// Status of all sets and nodes.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// The busiest sections, in descending order.
    pub sections: Vec<BusySection>,
    /// The newest events of all sets, the newest first.
    pub events: Vec<ClusterEvent>,
    /// Parts of the cluster that did not respond to requests for activity or events, each with the cause.
    pub missing: Vec<String>,
}

/// A section with its activity of the last seconds.
#[derive(Clone, Debug, Serialize)]
pub struct BusySection {
    /// Index of the section.
    pub section: u32,
    /// First uid of the section.
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
    /// The rate by which sections are ordered, in this and the previous observations. The newest rate is the last.
    pub history: Vec<f64>,
}

impl Observer {
    /// Returns an observer of the sets to which the seed nodes belong, or of all sets of their cluster if `all_sets` is
    /// true. A node that does not respond within `timeout` is listed as unreachable in an observation.
    #[must_use]
    pub fn new(pool: Pool, seeds: Vec<Node>, all_sets: bool, timeout: Duration) -> Observer {
        Observer { pool, seeds, all_sets, timeout, before: None, rates: HashMap::new(), feeds: Feeds::default() }
    }

    /// Observes the cluster once, with the `count` busiest sections. Rates of nodes and sets are relative to the
    /// previous observation, so the first observation does not have them.
    ///
    /// # Errors
    /// No node responds, or the address of a seed belongs to no node.
    ///
    /// # Cancel safety
    /// If the future is dropped, the previous observation remains the last observation.
    pub async fn observe(&mut self, by: By, count: u32) -> Result<Arc<Observation>, Failure> {
        let now = Instant::now();
        let mut cluster = Cluster::sample(&self.pool, &self.seeds, self.all_sets, self.timeout).await?;
        if let Some((at, before)) = &self.before {
            cluster.add_rates(&before.cluster, now - *at);
        }
        let (sections, mut missing) = self.sections(&cluster, by, count).await;
        self.feeds.follow(&self.pool, &cluster);
        missing.extend(self.feeds.failures());
        let events = self.feeds.newest();
        let observation = Arc::new(Observation { unix_ms: utc::now_ms(), cluster, sections, events, missing });
        self.before = Some((now, Arc::clone(&observation)));
        Ok(observation)
    }

    /// Waits until an event of a set is added.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn next_event(&self) {
        self.feeds.changed().await;
    }

    /// Requests the busiest sections of all allocators. Returns the sections, and a text for each allocator that does
    /// not respond.
    async fn sections(&mut self, cluster: &Cluster, by: By, count: u32) -> (Vec<BusySection>, Vec<String>) {
        let owners: Vec<&AllocView> = cluster.allocs.iter().filter(|alloc| alloc.sections > 0).collect();
        // The futures own their values, so that an observation can be awaited on any thread.
        let addrs: Vec<(usize, String)> = owners.iter().map(|alloc| alloc.addr.clone()).enumerate().collect();
        let requests = addrs.into_iter().map(|(owner, addr)| {
            let (pool, timeout) = (self.pool.clone(), self.timeout);
            async move { (owner, activity::request(&pool, &addr, by, count, timeout).await) }
        });
        let responses: Vec<_> = stream::iter(requests).buffer_unordered(IN_FLIGHT).collect().await;
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (owner, response) in responses {
            let alloc = owners[owner];
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
            let size = cluster.sets.iter().find(|set| set.name == owner.set).map_or(0, |set| set.section_size);
            let uid_start = u64::from(figures.section) * u64::from(size);
            sections.push(BusySection {
                section: figures.section,
                uid_start,
                uid_end: uid_start + u64::from(size),
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
