//! The command `health`, which reports to scripts and to probes of containers whether nodes serve. It sends requests of
//! the gRPC health protocol.
//!
//! Unlike `status`, the command queries only the nodes that the user named, and its exit code depends on them alone.

use std::time::{Duration, Instant};

use clap::Args;
use futures::future::join_all;
use seq_channel::Pool;
use seq_command::exit::Exit;
use seq_command::output::{Output, Table};
use seq_command::port_kind::{self, Needed};
use seq_command::security;
use seq_command::store_client::{Node, SetAddress};
use seq_command::time_limit::time;
use seq_load::outcome::Chain;
use serde::Serialize;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Interval between requests with `--wait`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr health\n  seqsvr health --set sets/three-node.toml\n  \
                        seqsvr health --addr http://127.0.0.1:7400 --wait 30s && ./start-backend\n\n\
                        Exit codes: 0 all nodes serve, 2 an address is not a gRPC port of a node, 3 a node does not serve or \
                        does not respond, 4 no node responds, 7 still so when --wait is over.")]
pub struct HealthArgs {
    #[command(flatten)]
    target: SetAddress,
    /// Time limit of each node.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
    /// Repeats the requests until all nodes serve, at most for this time.
    #[arg(long, value_name = "TIME", alias = "wait-s", value_parser = time)]
    wait: Option<Duration>,
}

/// The health of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Health {
    Serving,
    /// The node responds but does not serve. It is starting or stopping, or it has no lease or knows no leader.
    NotServing,
    Unreachable,
}

#[derive(Debug, Serialize)]
struct Item {
    /// Name of the node, if a set file lists it.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    addr: String,
    health: Health,
    response_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub async fn run(args: HealthArgs, output: &Output) -> anyhow::Result<Exit> {
    let nodes = args.target.nodes()?;
    let pool = security::pool();
    let timeout = args.timeout;
    let end = args.wait.map(|wait| Instant::now() + wait);
    let (items, limit) = loop {
        let limit = Instant::now() + timeout;
        let items = join_all(nodes.iter().map(|node| check(&pool, node, timeout))).await;
        let is_over = end.is_none_or(|end| Instant::now() + POLL_INTERVAL >= end);
        if is_over || items.iter().all(|item| item.health == Health::Serving) {
            break (items, limit);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    for item in items.iter().filter(|item| item.health == Health::Unreachable) {
        if let Some(failure) =
            port_kind::identify_until(&item.addr, limit).await.and_then(|kind| kind.failure(&item.addr, Needed::Node))
        {
            return Err(failure.into());
        }
    }
    if output.is_json() {
        output.json_items(&items)?;
    } else {
        output.table(&table(&items))?;
    }
    Ok(match (exit_of(&items), args.wait) {
        (Exit::Unhealthy | Exit::CannotConnect, Some(_)) => Exit::Deadline,
        (exit, _) => exit,
    })
}

async fn check(pool: &Pool, node: &Node, timeout: Duration) -> Item {
    let since = Instant::now();
    let (health, why) = match request(pool, &node.addr, timeout).await {
        Ok(true) => (Health::Serving, None),
        Ok(false) => (Health::NotServing, None),
        Err(why) => (Health::Unreachable, Some(why)),
    };
    let response_ms = (since.elapsed().as_secs_f64() * 1e5).round() / 1e2;
    Item { node: node.name.clone(), addr: node.addr.clone(), health, response_ms, why }
}

async fn request(pool: &Pool, addr: &str, timeout: Duration) -> Result<bool, String> {
    let channel = pool.get(addr).map_err(|error| error.to_string())?;
    let mut client = HealthClient::new(channel);
    // An empty name of a service stands for the whole node.
    match tokio::time::timeout(timeout, client.check(HealthCheckRequest { service: String::new() })).await {
        Ok(Ok(response)) => Ok(response.into_inner().status() == ServingStatus::Serving),
        Ok(Err(status)) => Err(Chain(&status).to_string()),
        Err(_) => Err(format!("no response within {timeout:?}")),
    }
}

fn exit_of(items: &[Item]) -> Exit {
    let all = |health: &dyn Fn(Health) -> bool| items.iter().all(|item| health(item.health));
    if all(&|health| health == Health::Serving) {
        Exit::Ok
    } else if all(&|health| health == Health::Unreachable) {
        Exit::CannotConnect
    } else {
        Exit::Unhealthy
    }
}

fn table(items: &[Item]) -> Table {
    let mut table = Table::new(&["node", "addr", "health", "response"]);
    for Item { node, addr, health, response_ms, why } in items {
        let node = node.clone().unwrap_or_else(|| "-".to_owned());
        let (health, response) = match (health, why) {
            (Health::Serving, _) => ("serving", format!("{response_ms:.1} ms")),
            (Health::NotServing, _) => ("not serving", format!("{response_ms:.1} ms")),
            (Health::Unreachable, why) => ("unreachable", why.clone().unwrap_or_default()),
        };
        table.row([node, addr.clone(), health.to_owned(), response]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_about_all_nodes() {
        let exit = |healths: &[Health]| {
            let item = |health: &Health| Item {
                node: None,
                addr: "h:1".to_owned(),
                health: *health,
                response_ms: 1.0,
                why: None,
            };
            exit_of(&healths.iter().map(item).collect::<Vec<_>>())
        };
        use Health::{NotServing, Serving, Unreachable};
        assert_eq!(exit(&[Serving, Serving]), Exit::Ok);
        assert_eq!(exit(&[Serving, NotServing]), Exit::Unhealthy);
        assert_eq!(exit(&[Serving, Unreachable]), Exit::Unhealthy);
        assert_eq!(exit(&[Unreachable, Unreachable]), Exit::CannotConnect);
        assert_eq!(exit(&[NotServing]), Exit::Unhealthy);
    }
}
