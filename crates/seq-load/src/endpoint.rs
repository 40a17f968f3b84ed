//! Endpoints to which a load can be sent. Each worker of a load has its own client of the endpoint, which is called a
//! transport.
//!
//! A transport other than that of [`Endpoint::Sdk`] sends plain requests of a protocol, without routes and retries. It
//! measures only the endpoint of the server, so any other server of the same protocol, such as Redis, can be measured
//! with the same flags of `seqsvr bench`.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use seq_channel::{Access, PoolError};
use seq_client::{Client, ClientBuilder, ConnectError};
use seq_proto::reason::{Outcome, Reason, code_name};
use seq_proto::status;
use serde::Serialize;
use tonic::{Code, Status};

use crate::reply::{Failure, Reply};

mod grpc;
mod id;
mod json;
mod resp;
mod sdk;
mod stream;

/// An endpoint of the service and its protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Endpoint {
    /// The Rust SDK, which follows routes, retries calls, and sends several pending calls in one message.
    #[default]
    Sdk,
    /// Unary gRPC calls, `Next`, directly to the address.
    Grpc,
    /// Unary gRPC calls for several uids, `NextMany`.
    Many,
    /// One gRPC stream per worker. All messages of a worker's round are in flight at the same time.
    Stream,
    /// The Redis protocol, with `INCR`. All commands of a worker's round are sent in a single write.
    Resp,
    /// JSON over HTTP/1.1.
    Json,
    /// Unary gRPC calls for ids of a series, directly to the address.
    Id,
}

/// Addresses and parameters of a load's transports.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// Nodes, as `http://host:port` or `host:port`.
    pub addrs: Vec<String>,
    /// The Redis port, as `host:port`.
    pub redis: String,
    /// Prefix of the uid in a key.
    pub prefix: String,
    /// Number of connections to each address, for endpoints whose workers share connections.
    pub connections: usize,
    /// Deadline of a call.
    pub deadline: Duration,
    /// Number of uids per call; for [`Endpoint::Id`], number of ids per call.
    pub batch: usize,
    /// Name of the series, for [`Endpoint::Id`].
    pub series: String,
    /// The lane of the ids, if callers of the series name the lane.
    pub lane: Option<u32>,
    /// Whether calls of the SDK share messages.
    pub coalesce: bool,
    /// Settings for opening connections, such as certificates, and the bearer token of the calls.
    pub access: Access,
}

/// A worker's client of an endpoint.
pub trait Transport {
    /// Divides `uids` into batches and sends one request for each batch. Adds one reply for each uid to `replies`, in
    /// the order of the uids. The requests are in flight concurrently, except over HTTP/1.1.
    fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) -> impl Future<Output = ()>;
}

/// A transport of any endpoint.
pub struct AnyTransport(Any);

enum Any {
    Sdk(sdk::Transport),
    Grpc(grpc::Transport),
    Stream(Box<stream::Transport>),
    Resp(resp::Transport),
    Json(json::Transport),
    Id(id::Transport),
}

/// Error of opening the transports of a load.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An address is not `host:port`.
    #[error(transparent)]
    Address(#[from] PoolError),
    /// The SDK cannot connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A server refused the connection, or opening the connection failed.
    #[error("{addr}: {source}")]
    Refused {
        /// Address of the server.
        addr: String,
        /// The cause.
        source: io::Error,
    },
}

impl std::fmt::Debug for AnyTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyTransport")
    }
}

impl Transport for AnyTransport {
    async fn round(&mut self, uids: &[u64], replies: &mut Vec<Reply>) {
        match &mut self.0 {
            Any::Sdk(transport) => transport.round(uids, replies).await,
            Any::Grpc(transport) => transport.round(uids, replies).await,
            Any::Stream(transport) => transport.round(uids, replies).await,
            Any::Resp(transport) => transport.round(uids, replies).await,
            Any::Json(transport) => transport.round(uids, replies).await,
            Any::Id(transport) => transport.round(uids, replies).await,
        }
    }
}

/// Opens one transport for each worker.
///
/// # Errors
/// [`OpenError`] if the server cannot be reached.
///
/// # Cancel safety
/// Dropping the future closes the transports opened so far.
pub async fn open(
    endpoint: Endpoint,
    options: &EndpointOptions,
    workers: usize,
) -> Result<Vec<AnyTransport>, OpenError> {
    let addrs: Vec<&str> = options.addrs.iter().map(|addr| host_port(addr)).collect();
    let addr = |worker: usize| addrs[worker % addrs.len()];
    let pool = options.access.pool(options.connections);
    let mut transports = Vec::with_capacity(workers);
    match endpoint {
        Endpoint::Sdk => {
            let client = connect(options).await?;
            transports.extend((0..workers).map(|_| Any::Sdk(sdk::Transport::new(client.clone(), options.batch))));
        }
        Endpoint::Grpc | Endpoint::Many => {
            for worker in 0..workers {
                transports.push(Any::Grpc(grpc::Transport::new(&pool, addr(worker), options)?));
            }
        }
        Endpoint::Id => {
            for worker in 0..workers {
                transports.push(Any::Id(id::Transport::new(&pool, addr(worker), options)?));
            }
        }
        Endpoint::Stream => {
            for worker in 0..workers {
                transports.push(Any::Stream(Box::new(stream::Transport::new(&pool, addr(worker), options)?)));
            }
        }
        Endpoint::Resp => {
            for _ in 0..workers {
                let transport = resp::Transport::connect(options).await;
                transports.push(Any::Resp(transport.map_err(|source| refused(&options.redis, source))?));
            }
        }
        Endpoint::Json => {
            for worker in 0..workers {
                let transport = json::Transport::connect(addr(worker), options).await;
                transports.push(Any::Json(transport.map_err(|source| refused(addr(worker), source))?));
            }
        }
    }
    Ok(transports.into_iter().map(AnyTransport).collect())
}

async fn connect(options: &EndpointOptions) -> Result<Client, ConnectError> {
    let settings = Client::builder().connections(options.connections).coalesce(options.coalesce);
    let settings = settings.dial(options.access.dial());
    let settings = options.access.bearer.clone().into_iter().fold(settings, ClientBuilder::token);
    options
        .addrs
        .iter()
        .fold(settings.deadline(options.deadline), |settings, addr| settings.seed(host_port(addr)))
        .connect()
        .await
}

/// Returns the `host:port` of a node's URL.
#[must_use]
pub fn host_port(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/')
}

fn refused(addr: &str, source: io::Error) -> OpenError {
    OpenError::Refused { addr: addr.to_owned(), source }
}

/// Converts the status of a failed request to a reply.
fn failed(status: &Status) -> Reply {
    let reason = status::reason(status);
    // A refusal with a reason of this service means that no counter moved, unless the reason is that the owner did not
    // respond. After an error from another program, such as a proxy, the counter may have moved.
    let unknown = |reason| Reason::parse(reason).is_some_and(|reason| reason.outcome() == Outcome::Unknown);
    let moved = reason.as_deref().is_none_or(unknown);
    failure(&reason.unwrap_or_else(|| code_name(status.code())), status.message(), moved)
}

/// Converts the error of one item of a batch to a reply.
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
