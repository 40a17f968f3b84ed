//! The events of the processes of a set's nodes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use seq_channel::Pool;
use seq_command::output::note;
use seq_command::security;
use seq_command::store_client::Node;
use seq_core::node_events::MAX_NODE_EVENTS;
use seq_observe::node_log::{NodeLogs, Source};
use seq_observe::{Cluster, ClusterEvent};

use super::FilterArgs;

/// Maximum timeout of a request to one node.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Number of timeouts that follow one another for which the time limit of the command must suffice. A search requests
/// the status of the given nodes, then of the nodes that their responses name, and may repeat both once.
const REQUESTS: u32 = 4;

/// Interval at which a watch searches for nodes that were added to the set or were started.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);

/// The nodes of a set, with their events that were read so far.
pub(super) struct Nodes {
    pool: Pool,
    seeds: Vec<Node>,
    /// Timeout of a request to one node.
    timeout: Duration,
    /// Time limit of a reading of all nodes, which is that of the command.
    limit: Duration,
    logs: NodeLogs,
    sources: Vec<Source>,
    /// Nodes that should respond and do not, and the cause.
    silent: Vec<String>,
    /// Time of the last search for nodes.
    searched: Option<Instant>,
    /// Nodes whose failures were named, so that a watch names each failure once.
    named: BTreeSet<String>,
}

impl Nodes {
    pub(super) fn new(args: &FilterArgs) -> anyhow::Result<Nodes> {
        let limit = args.timeout.duration();
        Ok(Nodes {
            seeds: args.target.nodes()?,
            pool: security::pool(),
            timeout: TIMEOUT.min(limit / REQUESTS),
            limit,
            logs: NodeLogs::new(MAX_NODE_EVENTS),
            sources: Vec::new(),
            silent: Vec::new(),
            searched: None,
            named: BTreeSet::new(),
        })
    }

    /// Returns all events that the nodes keep. If not all nodes respond within the time limit of the command, returns
    /// the events of the nodes that responded.
    pub(super) async fn all(&mut self) -> Vec<ClusterEvent> {
        if tokio::time::timeout(self.limit, self.poll()).await.is_err() {
            self.silent.push(format!("events of some nodes are missing: no response within {:?}", self.limit));
        }
        self.logs.events().cloned().collect()
    }

    /// Returns the events that were added or continued since the last call; at the first call all events.
    pub(super) async fn poll(&mut self) -> Vec<ClusterEvent> {
        if self.searched.is_none_or(|at| at.elapsed() >= SEARCH_INTERVAL) {
            self.search().await;
        }
        self.logs.poll(&self.pool, self.sources.clone(), self.timeout).await
    }

    /// Searches for the nodes of the set. If no node responds, the nodes that were found before are kept.
    async fn search(&mut self) {
        match Cluster::sample(&self.pool, &self.seeds, false, self.timeout).await {
            Ok(cluster) => {
                self.sources = Source::all(&cluster);
                let silent = cluster.unreachable.iter().filter(|node| node.is_missing());
                let text = |name: &str, why: &str| format!("no events of {name}: {why}");
                self.silent = silent.map(|node| text(node.name.as_deref().unwrap_or(&node.addr), &node.why)).collect();
            }
            Err(failure) => self.silent = vec![format!("no events of nodes: {failure}")],
        }
        self.searched = Some(Instant::now());
    }

    /// Names the nodes whose events could not be read, with the cause, unless the last call named the node too.
    pub(super) fn name_failures(&mut self) {
        let failed = |(source, cause): &(Source, String)| format!("no events of {}: {cause}", source.node);
        let failures = self.silent.iter().cloned().chain(self.logs.failures().iter().map(failed));
        // The text of a timeout or of a refused connection stays the same while the node does not respond.
        let failures: BTreeSet<String> = failures.collect();
        failures.difference(&self.named).for_each(note);
        self.named = failures;
    }
}
