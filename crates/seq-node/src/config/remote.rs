//! Settings of running nodes, and the nodes of a set that its nodes name.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use seq_channel::Pool;
use seq_command::exit::{Exit, Failure};
use seq_command::port_kind::{self, Needed};
use seq_command::store_client::{Node, NodeRole};
use seq_load::outcome::Chain;
use seq_proto::reason::Reason;
use seq_proto::settings::MAX_SETTINGS;
use seq_proto::status;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{GetConfigRequest, GetConfigResponse, StatusRequest, StatusResponse};
use tonic::{Code, Status};

/// Limit on the nodes of a survey, which bounds the effect of a wrong response.
const MAX_NODES: usize = 4_096;

/// The nodes from which a survey starts.
#[derive(Debug)]
pub(super) enum Seeds {
    /// All nodes of a set, and further nodes, such as proxies.
    SetFile(Vec<Node>),
    /// Nodes that name the other nodes of their sets.
    Addresses(Vec<Node>),
}

/// A node, and its settings or the reason why it does not report them.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) node: Node,
    pub(super) outcome: Result<GetConfigResponse, Failure>,
}

/// Requests the settings of a node.
///
/// # Errors
/// The node does not respond, refuses the request, or does not know it.
pub(super) async fn config_of(pool: &Pool, addr: &str, timeout: Duration) -> Result<GetConfigResponse, Failure> {
    let channel = pool.get(addr).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut node = StatusServiceClient::new(channel);
    let status = match tokio::time::timeout(timeout, node.get_config(GetConfigRequest {})).await {
        Ok(Ok(response)) => {
            let mut response = response.into_inner();
            response.settings.truncate(MAX_SETTINGS);
            return Ok(response);
        }
        Ok(Err(status)) => status,
        Err(_) => return Err(Failure::new(Exit::CannotConnect, format!("{addr}: no response within {timeout:?}"))),
    };
    if let Some(reason) = status::reason(&status) {
        return Err(refused(addr, &reason, &status));
    }
    let kind = port_kind::identify(addr).await;
    if let Some(failure) = kind.and_then(|kind| kind.failure(addr, Needed::Node)) {
        return Err(failure);
    }
    Err(match status.code() {
        Code::Unimplemented => Failure::new(Exit::Failed, format!("{addr}: its release does not report its settings")),
        _ => Failure::new(Exit::CannotConnect, format!("{addr}: {}", Chain(&status))),
    })
}

fn refused(addr: &str, reason: &str, status: &Status) -> Failure {
    let exit = if status.code() == Code::Unavailable { Exit::Unhealthy } else { Exit::Failed };
    let failure = Failure::new(exit, format!("{addr}: {} ({reason})", status.message())).reason(reason);
    match Reason::parse(reason) {
        Some(Reason::RoleDenied) => failure.hint("nodes report their settings to operators: --identity operator/NAME"),
        _ => failure,
    }
}

/// Requests the settings of all nodes of a set file, or of the seeds and all nodes of their sets.
pub(super) async fn survey(pool: &Pool, seeds: Seeds, timeout: Duration) -> Vec<Surveyed> {
    let nodes = match seeds {
        Seeds::SetFile(nodes) => nodes,
        Seeds::Addresses(seeds) => with_named(pool, seeds, timeout).await,
    };
    let outcomes = join_all(nodes.iter().map(|node| config_of(pool, &node.addr, timeout))).await;
    let mut surveyed: Vec<Surveyed> =
        nodes.into_iter().zip(outcomes).map(|(node, outcome)| Surveyed { node, outcome }).collect();
    // A node may be named by the addresses of several of its ports.
    let mut known = BTreeSet::new();
    surveyed.retain(|Surveyed { node, outcome }| match outcome {
        Ok(GetConfigResponse { set, node: name, kind, .. }) => {
            let addr = if set.is_empty() { node.addr.clone() } else { String::new() };
            known.insert((set.clone(), kind.clone(), name.clone(), addr))
        }
        Err(_) => true,
    });
    surveyed
}

/// Returns the seeds and the nodes of their sets, as the seeds and these nodes name them.
async fn with_named(pool: &Pool, seeds: Vec<Node>, timeout: Duration) -> Vec<Node> {
    let mut known: BTreeMap<String, Node> = seeds.iter().map(|seed| (seed.addr.clone(), seed.clone())).collect();
    let mut next: Vec<String> = known.keys().cloned().collect();
    while !next.is_empty() && known.len() < MAX_NODES {
        let responses = join_all(next.iter().map(|addr| status_of(pool, addr, timeout))).await;
        let named: Vec<Node> = responses.iter().flatten().flat_map(nodes_in).collect();
        next.clear();
        for node in named {
            let addr = node.addr.clone();
            let first = known.entry(addr.clone()).or_insert_with(|| {
                next.push(addr);
                node.clone()
            });
            if first.name.is_none() {
                *first = node;
            }
        }
    }
    known.into_values().take(MAX_NODES).collect()
}

async fn status_of(pool: &Pool, addr: &str, timeout: Duration) -> Option<StatusResponse> {
    let mut node = StatusServiceClient::new(pool.get(addr).ok()?);
    let response = tokio::time::timeout(timeout, node.status(StatusRequest {})).await.ok()?;
    response.ok().map(tonic::Response::into_inner)
}

/// Returns the nodes of its set that a node's status names. An AllocSvr has no names of stores, which the stores have.
fn nodes_in(response: &StatusResponse) -> Vec<Node> {
    let set = &response.set;
    let node = |name: Option<&String>, addr: &str, role| Node {
        name: name.cloned(),
        of: Some((set.clone(), role)),
        ..Node::at(addr)
    };
    match &response.role {
        Some(Role::Store(store)) => {
            let members = store.members.iter().map(|one| node(Some(&one.name), &one.addr, NodeRole::Store));
            let allocs = store.allocs.iter().map(|one| node(Some(&one.name), &one.addr, NodeRole::Alloc));
            members.chain(allocs).collect()
        }
        Some(Role::Alloc(alloc)) => alloc.store_addrs.iter().map(|addr| node(None, addr, NodeRole::Store)).collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::{AllocMember, AllocStatus, StoreMember, StoreStatus};

    use super::*;

    #[test]
    fn a_status_names_the_nodes_of_its_set() {
        let member =
            |name: &str, addr: &str| StoreMember { name: name.into(), addr: addr.into(), ..Default::default() };
        let alloc = |name: &str, addr: &str| AllocMember { name: name.into(), addr: addr.into(), ..Default::default() };
        let named = |role| {
            let nodes = nodes_in(&StatusResponse { set: "im-a".into(), role, ..Default::default() });
            nodes.into_iter().map(|node| (node.name, node.addr, node.of.unwrap().1)).collect::<Vec<_>>()
        };
        let (members, allocs) = (vec![member("s1", "h:1")], vec![alloc("a1", "h:2")]);
        let store = Role::Store(StoreStatus { members, allocs, ..Default::default() });
        assert_eq!(
            named(Some(store)),
            [(Some("s1".into()), "h:1".into(), NodeRole::Store), (Some("a1".into()), "h:2".into(), NodeRole::Alloc)]
        );
        let alloc = Role::Alloc(AllocStatus { store_addrs: vec!["h:1".into()], ..Default::default() });
        assert_eq!(named(Some(alloc)), [(None, "h:1".into(), NodeRole::Store)]);
        assert_eq!(named(None), [], "of a proxy");
    }
}
