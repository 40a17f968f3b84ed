//! The doors a load can go through. A lane is one worker's way through one of them.
//!
//! The doors other than the SDK's send what the protocol says and nothing more: no routes, no retries. What they measure is
//! the server's door, and any server that speaks the protocol can be measured beside it with the same flags.

use std::rc::Rc;
use std::time::Duration;

use seq_client::Client;
use seq_client::pool::Pool;
use seq_proto::status;
use tonic::{Code, Status};

use crate::exit::{Exit, Failure as Ending};
use crate::target::{Target, host_port};
use crate::traffic::{Answer, Failure};

mod grpc;
mod json;
mod resp;
mod sdk;
mod stream;

/// A way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Door {
    /// The Rust SDK: routes, retries, calls that wait share a message.
    #[default]
    Sdk,
    /// Unary gRPC calls, `Next`, straight to the address.
    Grpc,
    /// Unary gRPC calls for --batch uids, `NextMany`.
    Many,
    /// A gRPC stream for each worker, with --pipeline messages of --batch uids in flight.
    Stream,
    /// The Redis protocol: `INCR`, with --pipeline commands in one write.
    Resp,
    /// JSON over HTTP/1.1.
    Json,
}

/// Where the lanes of a load lead, and how wide they are.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub(crate) target: Target,
    /// The Redis port, as `host:port`.
    pub(crate) redis: String,
    /// Before the digits of a key.
    pub(crate) prefix: String,
    /// Connections to each address, where workers share them.
    pub(crate) connections: usize,
    /// Deadline of a call.
    pub(crate) deadline: Duration,
    /// Uids in a call.
    pub(crate) batch: usize,
    /// Whether calls of the SDK share messages.
    pub(crate) coalesce: bool,
}

/// One worker's way in.
pub(crate) trait Lane {
    /// Makes one call for each `batch` of the uids, all at a time, and adds one answer for each uid, in their order.
    async fn round(&mut self, uids: &[u64], answers: &mut Vec<Answer>);
}

/// A lane through any door.
pub(crate) enum AnyLane {
    Sdk(sdk::Lane),
    Grpc(grpc::Lane),
    Stream(Box<stream::Lane>),
    Resp(resp::Lane),
    Json(json::Lane),
}

impl Lane for AnyLane {
    async fn round(&mut self, uids: &[u64], answers: &mut Vec<Answer>) {
        match self {
            AnyLane::Sdk(lane) => lane.round(uids, answers).await,
            AnyLane::Grpc(lane) => lane.round(uids, answers).await,
            AnyLane::Stream(lane) => lane.round(uids, answers).await,
            AnyLane::Resp(lane) => lane.round(uids, answers).await,
            AnyLane::Json(lane) => lane.round(uids, answers).await,
        }
    }
}

/// Opens as many lanes as there are workers.
///
/// # Errors
/// When nobody answers at the address.
pub(crate) async fn open(door: Door, ways: &Ways, workers: usize) -> anyhow::Result<Vec<AnyLane>> {
    let addrs: Vec<&str> = ways.target.addrs.iter().map(|addr| host_port(addr)).collect();
    let addr = |worker: usize| addrs[worker % addrs.len()];
    let pool = Pool::with_connections(ways.connections);
    let channel = |worker: usize| pool.get(addr(worker)).map_err(|error| Ending::new(Exit::Usage, error.to_string()));
    let mut lanes = Vec::with_capacity(workers);
    match door {
        Door::Sdk => {
            let settings =
                Client::builder().connections(ways.connections).deadline(ways.deadline).coalesce(ways.coalesce);
            let client = ways.target.connect_with(settings).await?;
            lanes.extend((0..workers).map(|_| AnyLane::Sdk(sdk::Lane::new(client.clone(), ways.batch))));
        }
        Door::Grpc | Door::Many => {
            for worker in 0..workers {
                lanes.push(AnyLane::Grpc(grpc::Lane::new(channel(worker)?, ways)));
            }
        }
        Door::Stream => {
            for worker in 0..workers {
                lanes.push(AnyLane::Stream(Box::new(stream::Lane::new(channel(worker)?, ways))));
            }
        }
        Door::Resp => {
            for _ in 0..workers {
                lanes.push(AnyLane::Resp(
                    resp::Lane::connect(ways).await.map_err(|error| refused(&ways.redis, &error))?,
                ));
            }
        }
        Door::Json => {
            for worker in 0..workers {
                let lane = json::Lane::connect(addr(worker), ways).await;
                lanes.push(AnyLane::Json(lane.map_err(|error| refused(addr(worker), &error))?));
            }
        }
    }
    Ok(lanes)
}

fn refused(addr: &str, error: &std::io::Error) -> Ending {
    Ending::new(Exit::CannotConnect, format!("{addr}: {error}"))
        .hint("is the server running? --help names the addresses")
}

/// What a status says of a call.
fn failed(status: &Status) -> Answer {
    let reason = status::reason(status);
    // This service's own refusals moved nothing, but for an owner that did not answer; of others nothing is known.
    let moved = reason.as_deref().is_none_or(|reason| matches!(reason, "OWNER_TIMED_OUT" | "OWNER_CONNECTION_LOST"));
    failure(&reason.unwrap_or_else(|| format!("{:?}", status.code()).to_uppercase()), status.message(), moved)
}

/// What an item of a batch was refused for.
fn refused_item(error: &seq_proto::v1::ItemError) -> Answer {
    failure(&error.reason, &error.message, Code::from_i32(error.code as i32) == Code::DeadlineExceeded)
}

fn failure(reason: &str, message: &str, moved: bool) -> Answer {
    Answer::Failed(Rc::new(Failure {
        reason: reason.to_owned(),
        message: message.to_owned(),
        retryable: true,
        lost: u32::from(moved),
    }))
}
