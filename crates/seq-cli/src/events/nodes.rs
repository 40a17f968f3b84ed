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
    /// Name of the only node whose events are requested; `None` for all nodes.
    only: Option<String>,
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
            only: args.node.clone(),
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
        self.skip().await;
        self.logs.events().cloned().collect()
    }

    /// Reads the events that the nodes keep, within the time limit of the command. [`Nodes::poll`] then returns only
    /// the later events of the nodes that responded.
    pub(super) async fn skip(&mut self) {
        if tokio::time::timeout(self.limit, self.poll()).await.is_err() {
            self.silent.push(format!("events of some nodes are missing: no response within {:?}", self.limit));
        }
    }

    /// Returns the events that were added or continued since the last call. All events of a node that responds for the
    /// first time are returned.
    pub(super) async fn poll(&mut self) -> Vec<ClusterEvent> {
        if self.searched.is_none_or(|at| at.elapsed() >= SEARCH_INTERVAL) {
            self.search().await;
        }
        self.logs.poll(&self.pool, self.sources.clone(), self.timeout).await
    }

    /// Returns whether the last search found a node that responds.
    pub(super) fn respond(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Searches for the nodes of the set. If no node responds, the nodes that were found before are kept.
    async fn search(&mut self) {
        match Cluster::sample(&self.pool, &self.seeds, false, self.timeout).await {
            Ok(cluster) => (self.sources, self.silent) = select(&cluster, self.only.as_deref()),
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

/// Returns the nodes of a cluster that respond, and texts about the nodes that should respond and do not. If `only` is
/// the name of a node, both concern this node only.
fn select(cluster: &Cluster, only: Option<&str>) -> (Vec<Source>, Vec<String>) {
    let is_wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut sources = Source::all(cluster);
    sources.retain(|source| is_wanted(&source.node));
    let missing = cluster.unreachable.iter().filter(|node| node.is_missing());
    let missing = missing.map(|node| (node.name.as_deref().unwrap_or(&node.addr), &node.why));
    let text = |(name, why): (&str, &String)| format!("no events of {name}: {why}");
    let mut silent: Vec<String> = missing.filter(|(name, _)| is_wanted(name)).map(text).collect();
    if let Some(only) = only.filter(|_| sources.is_empty() && silent.is_empty()) {
        silent.push(format!("no events of the process of {only}: no node of this name responds"));
    }
    (sources, silent)
}

#[cfg(test)]
mod tests {
    use seq_observe::cluster::{Absence, ProxyView, Unreachable};

    use super::*;

    #[test]
    fn only_the_named_node_is_requested() {
        let proxy = |name: &str| ProxyView { name: name.to_owned(), addr: format!("{name}:1"), ..ProxyView::default() };
        let mut cluster = Cluster::default();
        cluster.proxies = vec![proxy("p1"), proxy("p2")];
        cluster.unreachable = vec![Unreachable {
            addr: "h:7".to_owned(),
            name: Some("a1".to_owned()),
            set: Some("im-a".to_owned()),
            role: None,
            state: Absence::Silent,
            removed: false,
            silent_ms: None,
            why: "Connection refused".to_owned(),
        }];
        let selected = |only: Option<&str>| {
            let (sources, silent) = select(&cluster, only);
            (sources.into_iter().map(|source| source.node).collect::<Vec<_>>().join(" "), silent.join("; "))
        };
        let of = |nodes: &str, silent: &str| (nodes.to_owned(), silent.to_owned());
        assert_eq!(selected(None), of("p1 p2", "no events of a1: Connection refused"));
        assert_eq!(selected(Some("p2")), of("p2", ""));
        assert_eq!(selected(Some("a1")), of("", "no events of a1: Connection refused"));
        assert_eq!(selected(Some("a9")), of("", "no events of the process of a9: no node of this name responds"));
    }
}
