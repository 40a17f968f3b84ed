//! The command `status`: requests the status of the seed nodes and of the nodes they list, and shows each set.
//!
//! A section is served while its owner has a lease that has not expired. A node that does not respond is shown; a
//! member that was removed from its store does not count as missing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use seq_channel::Pool;
use seq_proto::v1::admin_service_client::AdminServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::{GetRoutesRequest, StatusRequest, StatusResponse};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::{Target, host_port};

mod verdict;
mod view;

use view::View;

/// Limit on the nodes queried: bounds the effect of a wrong response.
const MAX_NODES: usize = 4_096;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr status\n  seqsvr status --addr http://127.0.0.1:7301 -o json\n\n\
                        Exit codes: 0 all served, 3 something is missing, 4 no node responded.")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    target: Target,
    /// Timeout of each node, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

/// The response of one node, or the error.
type StatusResult = Result<StatusResponse, String>;

pub(crate) async fn run(args: StatusArgs, output: &Output) -> anyhow::Result<Exit> {
    let pool = Pool::with_connections(1);
    let seeds: BTreeSet<String> = args.target.addrs.iter().map(|addr| host_port(addr).to_owned()).collect();
    let responses = query_all(&pool, seeds.clone(), Duration::from_millis(args.timeout_ms)).await;
    if responses.values().all(Result::is_err) {
        let (addr, why) = responses.iter().next().expect("at least one address is given");
        let why = why.as_ref().err().map_or("", String::as_str);
        return Err(Failure::new(Exit::CannotConnect, format!("no node responds; {addr}: {why}"))
            .hint("is the cluster running? `seqsvr dev` starts one; --addr URL names another")
            .into());
    }
    let view = View::new(&responses, &seeds);
    if output.is_json() {
        output.json(&view)?;
    } else {
        output.text(&view.render(output.is_wide()))?;
    }
    Ok(if view.healthy { Exit::Ok } else { Exit::Unhealthy })
}

/// Queries the seeds, then every node that a response lists and that was not queried yet.
async fn query_all(pool: &Pool, seeds: BTreeSet<String>, timeout: Duration) -> BTreeMap<String, StatusResult> {
    let mut responses: BTreeMap<String, StatusResult> = BTreeMap::new();
    let mut next = seeds;
    while !next.is_empty() && responses.len() < MAX_NODES {
        let round = join_all(next.iter().map(|addr| query(pool, addr, timeout))).await;
        let mut named = BTreeSet::new();
        for (addr, (response, more)) in next.into_iter().zip(round) {
            named.extend(more);
            responses.insert(addr, response);
        }
        named.retain(|addr| !responses.contains_key(addr));
        next = named;
    }
    responses
}

/// Requests one node's status and the addresses of other nodes it knows.
async fn query(pool: &Pool, addr: &str, timeout: Duration) -> (StatusResult, Vec<String>) {
    let channel = match pool.get(addr) {
        Ok(channel) => channel,
        Err(error) => return (Err(error.to_string()), Vec::new()),
    };
    let mut admin = AdminServiceClient::new(channel.clone());
    let response = match tokio::time::timeout(timeout, admin.status(StatusRequest {})).await {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => return (Err(status.message().to_owned()), Vec::new()),
        Err(_) => return (Err(format!("no response within {timeout:?}")), Vec::new()),
    };
    let mut named = Vec::new();
    match &response.role {
        Some(Role::Store(store)) => {
            named.extend(store.members.iter().map(|member| member.addr.clone()));
            named.extend(store.allocs.iter().map(|alloc| alloc.addr.clone()));
        }
        Some(Role::Alloc(alloc)) => {
            named.extend(alloc.store_addrs.iter().cloned());
            let mut sequence = SequenceServiceClient::new(channel);
            let routes = sequence.get_routes(GetRoutesRequest { known_version: 0 });
            if let Ok(Ok(routes)) = tokio::time::timeout(timeout, routes).await {
                let nodes = routes.into_inner().routes.into_iter().flat_map(|routes| routes.nodes);
                named.extend(nodes.map(|node| node.addr));
            }
        }
        None => {}
    }
    (Ok(response), named)
}
