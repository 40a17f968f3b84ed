//! The endpoints that a load can use. A transport is one worker's client of one of them.
//!
//! The transports other than the SDK's send plain protocol requests: no routes, no retries. They measure the server's
//! endpoint, and any server of the same protocol can be measured with the same flags.

use std::rc::Rc;
use std::time::Duration;

use seq_client::Client;
use seq_client::pool::Pool;
use seq_proto::reason::{Outcome, Reason};
use seq_proto::status;
use tonic::{Code, Status};

use crate::exit::{Exit, Failure as Ending};
use crate::target::{Target, host_port};
use crate::traffic::{Failure, Reply};

mod grpc;
mod json;
mod resp;
mod sdk;
mod stream;

/// An endpoint of the service and its protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Endpoint {
    /// The Rust SDK: routes, retries, pending calls share a message.
    #[default]
    Sdk,
    /// Unary gRPC calls, `Next`, directly to the address.
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

/// Addresses and parameters of a load's transports.
#[derive(Clone, Debug)]
pub(crate) struct EndpointOptions {
    pub(crate) target: Target,
    /// The Redis port, as `host:port`.
    pub(crate) redis: String,
    /// Prefix of the uid in a key.
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

/// One worker's client of an endpoint.
pub(crate) trait Transport {
    /// Sends one request for each `batch` of the uids, concurrently, and adds one reply for each uid, in their order.
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>);
}

/// A transport of any endpoint.
pub(crate) enum AnyTransport {
    Sdk(sdk::Transport),
    Grpc(grpc::Transport),
    Stream(Box<stream::Transport>),
    Resp(resp::Transport),
    Json(json::Transport),
}

impl Transport for AnyTransport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        match self {
            AnyTransport::Sdk(transport) => transport.round(uids, replies).await,
            AnyTransport::Grpc(transport) => transport.round(uids, replies).await,
            AnyTransport::Stream(transport) => transport.round(uids, replies).await,
            AnyTransport::Resp(transport) => transport.round(uids, replies).await,
            AnyTransport::Json(transport) => transport.round(uids, replies).await,
        }
    }
}

/// Opens one transport for each worker.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) async fn open(
    endpoint: Endpoint,
    options: &EndpointOptions,
    workers: usize,
) -> anyhow::Result<Vec<AnyTransport>> {
    let addrs: Vec<&str> = options.target.addrs.iter().map(|addr| host_port(addr)).collect();
    let addr = |worker: usize| addrs[worker % addrs.len()];
    let pool = Pool::with_connections(options.connections);
    let channel = |worker: usize| pool.get(addr(worker)).map_err(|error| Ending::new(Exit::Usage, error.to_string()));
    let mut transports = Vec::with_capacity(workers);
    match endpoint {
        Endpoint::Sdk => {
            let settings = Client::builder().connections(options.connections).coalesce(options.coalesce);
            let client = options.target.connect_with(settings, options.deadline).await?;
            transports
                .extend((0..workers).map(|_| AnyTransport::Sdk(sdk::Transport::new(client.clone(), options.batch))));
        }
        Endpoint::Grpc | Endpoint::Many => {
            for worker in 0..workers {
                transports.push(AnyTransport::Grpc(grpc::Transport::new(channel(worker)?, options)));
            }
        }
        Endpoint::Stream => {
            for worker in 0..workers {
                transports.push(AnyTransport::Stream(Box::new(stream::Transport::new(channel(worker)?, options))));
            }
        }
        Endpoint::Resp => {
            for _ in 0..workers {
                transports.push(AnyTransport::Resp(
                    resp::Transport::connect(options).await.map_err(|error| refused(&options.redis, &error))?,
                ));
            }
        }
        Endpoint::Json => {
            for worker in 0..workers {
                let transport = json::Transport::connect(addr(worker), options).await;
                transports.push(AnyTransport::Json(transport.map_err(|error| refused(addr(worker), &error))?));
            }
        }
    }
    Ok(transports)
}

fn refused(addr: &str, error: &std::io::Error) -> Ending {
    Ending::new(Exit::CannotConnect, format!("{addr}: {error}"))
        .hint("is the server running? --help names the addresses")
}

/// The reply for a failed request.
fn failed(status: &Status) -> Reply {
    let reason = status::reason(status);
    // Refusals of this service advance no counter, except when the owner did not respond; errors of others may have.
    let moved = reason
        .as_deref()
        .is_none_or(|reason| Reason::parse(reason).is_some_and(|reason| reason.outcome() == Outcome::Unknown));
    failure(&reason.unwrap_or_else(|| format!("{:?}", status.code()).to_uppercase()), status.message(), moved)
}

/// The reply for a refused item of a batch.
fn refused_item(error: &seq_proto::v1::ItemError) -> Reply {
    failure(&error.reason, &error.message, Code::from_i32(error.code as i32) == Code::DeadlineExceeded)
}

fn failure(reason: &str, message: &str, moved: bool) -> Reply {
    Reply::Failed(Rc::new(Failure {
        reason: reason.to_owned(),
        message: message.to_owned(),
        retryable: true,
        lost: u32::from(moved),
    }))
}
