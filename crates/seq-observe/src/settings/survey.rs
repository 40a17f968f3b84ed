//! Settings of running nodes, as the nodes report them.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_channel::Pool;
use seq_command::exit::{Exit, Failure};
use seq_command::port_kind::{self, Needed};
use seq_command::store_client::Node;
use seq_load::outcome::Chain;
use seq_proto::reason::Reason;
use seq_proto::settings::MAX_SETTINGS;
use seq_proto::status;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{GetConfigRequest, GetConfigResponse};
use tonic::{Code, Status};

use crate::Cluster;

/// A node with the settings that it reports, or with the reason why it does not report them.
#[derive(Debug)]
pub struct Surveyed {
    /// The node.
    pub node: Node,
    /// The settings, or the reason.
    pub outcome: Result<GetConfigResponse, Failure>,
}

/// Requests the settings of the node at `addr`. If the node does not respond as a node of this release does, the rest
/// of `timeout` is for finding out the kind of the server.
///
/// # Errors
/// The node does not respond within `timeout` or refuses the request, or its release does not know this kind of
/// request.
pub async fn config_of(pool: &Pool, addr: &str, timeout: Duration) -> Result<GetConfigResponse, Failure> {
    let channel = pool.get(addr).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let mut node = StatusServiceClient::new(channel);
    let limit = Instant::now() + timeout;
    let status = match tokio::time::timeout_at(limit.into(), node.get_config(GetConfigRequest {})).await {
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
    let kind = port_kind::identify_until(addr, limit).await;
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

/// Requests the settings of the seed nodes and of all other nodes of their sets. For a node that should respond and
/// does not, the result has the reason.
///
/// # Errors
/// No node responds, or a server that is no node of a cluster responds at the address of a seed.
pub async fn survey(pool: &Pool, seeds: &[Node], timeout: Duration) -> Result<Vec<Surveyed>, Failure> {
    let nodes = Cluster::sample(pool, seeds, false, timeout).await?.nodes();
    let outcomes = join_all(nodes.iter().map(|node| config_of(pool, &node.addr, timeout))).await;
    Ok(nodes.into_iter().zip(outcomes).map(|(node, outcome)| Surveyed { node, outcome }).collect())
}

#[cfg(test)]
mod tests {
    use seq_channel::Dial;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_kind_of_a_server_is_found_out_within_the_same_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("an address").to_string();
        // The request fails at once, and the server that is to be identified hangs.
        let server = async {
            drop(listener.accept().await);
            let mut open = Vec::new();
            loop {
                open.push(listener.accept().await);
            }
        };
        let (begin, timeout) = (tokio::time::Instant::now(), Duration::from_millis(200));
        let pool = Pool::with_dial(1, Dial::tcp());
        tokio::select! {
            settings = config_of(&pool, &addr, timeout) => assert!(settings.is_err(), "{settings:?}"),
            () = server => {}
        }
        // A timer may be a millisecond late; a probe alone would take a second.
        assert!(begin.elapsed() < 2 * timeout, "{:?}", begin.elapsed());
    }
}
