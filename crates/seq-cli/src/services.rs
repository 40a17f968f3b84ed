//! The command `services`, which lists the gRPC services that are registered on a port. It requests them by server
//! reflection.

use std::time::Duration;

use clap::Args;
use seq_channel::Pool;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::port_kind::{self, Needed};
use seq_command::security;
use seq_command::target::{Target, host_port};
use seq_command::time_limit::time;
use seq_load::outcome::Chain;
use serde::Serialize;
use tonic::{Request, Status};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr services --addr http://127.0.0.1:7201\n\n\
                        Exit codes: 0 listed, 1 the server cannot list its services, 2 the address is not a gRPC port, 4 no response, \
                        7 the deadline passed.")]
pub struct ServicesArgs {
    #[command(flatten)]
    target: Target,
    /// Time limit of the response from each address.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
}

#[derive(Serialize)]
struct Services {
    addr: String,
    services: Vec<String>,
}

pub async fn run(args: ServicesArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut items = Vec::new();
    let addrs = args.target.addrs()?;
    let pool = security::pool();
    for addr in addrs {
        items.push(Services { addr: addr.clone(), services: list(&pool, host_port(&addr), args.timeout).await? });
    }
    if output.is_json() {
        output.json_items(&items)?;
        return Ok(Exit::Ok);
    }
    for service in items.into_iter().flat_map(|item| item.services) {
        output.line(service)?;
    }
    Ok(Exit::Ok)
}

async fn list(pool: &Pool, addr: &str, timeout: Duration) -> anyhow::Result<Vec<String>> {
    let channel = pool.get(addr).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let call = async {
        let mut client = ServerReflectionClient::new(channel);
        let requests = futures::stream::iter([request]);
        client.server_reflection_info(Request::new(requests)).await?.into_inner().message().await
    };
    let response = match tokio::time::timeout(timeout, call).await {
        Ok(Ok(response)) => response,
        Ok(Err(status)) => return Err(unreachable(addr, &status).await.into()),
        Err(_) => {
            let message = format!("no response from {addr} within {timeout:?}");
            return Err(Failure::new(Exit::Deadline, message).into());
        }
    };
    match response.and_then(|response| response.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
            names.sort();
            Ok(names)
        }
        _ => Err(Failure::new(Exit::Failed, format!("{addr} did not list its services")).into()),
    }
}

async fn unreachable(addr: &str, status: &Status) -> Failure {
    let kind = port_kind::identify(addr).await;
    kind.and_then(|kind| kind.failure(addr, Needed::Node)).unwrap_or_else(|| {
        Failure::new(Exit::CannotConnect, format!("{addr} does not respond: {}", Chain(status)))
            .hint("is the cluster running? `seqsvr dev` starts one; --addr URL names another")
    })
}
