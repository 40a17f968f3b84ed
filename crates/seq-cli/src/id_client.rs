//! The client of the gRPC service `IdService`. It sends a request to one AllocSvr after another until one of them
//! responds, and sends the request again if a refusal is transient.
//!
//! **Invariant:** no command runs longer than its time limit. If a request for ids is sent again, ids may be skipped,
//! but no id is returned twice. If the request fails in the end and ids may have been allocated, the failure states
//! this.

use std::time::{Duration, Instant};

use seq_channel::{CallerChannel, Pool, not_processed};
use seq_command::exit::{Exit, Failure};
use seq_command::port_kind::{self, Needed};
use seq_command::security;
use seq_command::target::{self, Target, host_port};
use seq_load::outcome::Chain;
use seq_proto::reason::{Outcome, Reason};
use seq_proto::series::SeriesShape;
use seq_proto::status;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::{
    GetRoutesRequest, GetRoutesResponse, ListSeriesRequest, NextIdsRequest, NextIdsResponse, Routes, Series,
};
use tonic::{Code, Request, Response, Status};

/// Pause before the next attempt, unless the refusal states another pause.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum size of a response, in bytes. It suffices for a list of all series of a cluster, and for a whole route
/// table.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Sends requests for ids and series to the AllocSvrs of a cluster.
pub(crate) struct IdClient {
    pool: Pool,
    /// Addresses of the AllocSvrs, as `host:port`.
    addrs: Vec<String>,
    since: Instant,
    /// Time limit of the command.
    timeout: Duration,
}

/// The failure of a request.
struct Failed {
    failure: Failure,
    /// Whether a server may have allocated ids for the request, although the client received no response.
    may_have_applied: bool,
}

impl IdClient {
    /// Creates a client of the cluster that the command line names. It does not connect yet.
    pub(crate) fn new(target: &Target, timeout: Duration) -> anyhow::Result<IdClient> {
        let addrs = target.addrs()?.iter().map(|addr| host_port(addr).to_owned()).collect();
        Ok(IdClient { pool: security::access()?.pool(1), addrs, since: Instant::now(), timeout })
    }

    /// Requests a list of all series of the cluster, which is ordered by their creation.
    pub(crate) async fn list(&self) -> anyhow::Result<Vec<Series>> {
        let list = async |to, limit| {
            let mut client = IdServiceClient::new(to).max_decoding_message_size(MAX_RESPONSE_BYTES);
            client.list_series(timed(ListSeriesRequest {}, limit)).await
        };
        Ok(self.call(list).await.map_err(|failed| failed.failure)?.series)
    }

    /// Requests the series with the given name.
    ///
    /// # Errors
    /// `UNKNOWN_SERIES` if there is none, or the failure of the request.
    pub(crate) async fn series(&self, name: &str) -> anyhow::Result<Series> {
        let found = self.list().await?.into_iter().find(|series| series.name == name);
        Ok(found.ok_or_else(|| {
            let message = format!("the cluster has no series {name:?} ({})", Reason::UnknownSeries);
            Failure::new(Exit::Failed, message)
                .reason(Reason::UnknownSeries.name())
                .hint("`seqsvr series list` lists them")
        })?)
    }

    /// Requests ids.
    pub(crate) async fn next(&self, request: &NextIdsRequest) -> anyhow::Result<NextIdsResponse> {
        let next = async |to, limit| {
            let mut client = IdServiceClient::new(to).max_decoding_message_size(MAX_RESPONSE_BYTES);
            client.next(timed(request.clone(), limit)).await
        };
        Ok(self.call(next).await.map_err(|Failed { failure, may_have_applied }| match may_have_applied {
            true => failure.hint("ids may have been consumed; another call leaves a gap, never a duplicate"),
            false => failure,
        })?)
    }

    /// Requests the whole route table of a node's set.
    pub(crate) async fn routes(&self) -> anyhow::Result<Routes> {
        let routes = async |to, limit| {
            let mut client = SequenceServiceClient::new(to).max_decoding_message_size(MAX_RESPONSE_BYTES);
            client.get_routes(timed(GetRoutesRequest { known_version: 0 }, limit)).await
        };
        let GetRoutesResponse { routes } = self.call(routes).await.map_err(|failed| failed.failure)?;
        Ok(routes.ok_or_else(|| Failure::new(Exit::Failed, "the response of the node has no routes"))?)
    }

    /// Returns the time left for the command.
    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.since.elapsed())
    }

    /// Sends a request to one AllocSvr after another until one of them responds. Returns an error if one refuses the
    /// request permanently, if none of them responds, or if the time limit of the command ends.
    async fn call<T>(
        &self,
        send: impl AsyncFn(CallerChannel, Duration) -> Result<Response<T>, Status>,
    ) -> Result<T, Failed> {
        let (mut attempt, mut may_have_applied) = (0, false);
        loop {
            let addr = &self.addrs[attempt % self.addrs.len()];
            let failed = |failure| Failed { failure, may_have_applied };
            let channel = self.pool.get_for_caller(addr);
            let channel = channel.map_err(|error| failed(Failure::new(Exit::Usage, error.to_string())))?;
            // The remaining time is divided among the untried nodes, so that a node that hangs leaves time for the
            // others.
            let untried = u32::try_from(self.addrs.len().saturating_sub(attempt)).unwrap_or(u32::MAX);
            let limit = self.left() / untried.max(1);
            let status = match tokio::time::timeout(limit, send(channel, limit)).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded(format!("no response within {limit:?}")),
            };
            let known = status::known_reason(&status);
            may_have_applied |= match (known, status.code()) {
                (Some(reason), _) => reason.outcome() == Outcome::Unknown,
                (None, Code::Unimplemented | Code::PermissionDenied | Code::Unauthenticated) => false,
                (None, _) => !not_processed(&status),
            };
            let failed = |failure| Failed { failure, may_have_applied };
            let (reason, pause) = (status::reason(&status), status::retry_after(&status).unwrap_or(RETRY_INTERVAL));
            let is_transient = status.code() == Code::Unavailable || status::retry_after(&status).is_some();
            match reason {
                Some(reason) if !is_transient || self.left() <= pause => return Err(failed(refused(&reason, &status))),
                // The node has an earlier release, or the port is of another kind. Another address may have the
                // service.
                None if status.code() == Code::Unimplemented && attempt + 1 < self.addrs.len() => {}
                None if status.code() == Code::Unimplemented => return Err(failed(not_served(addr).await)),
                // Each address gets one attempt. After these attempts, a node that does not respond ends the command.
                None if attempt + 1 >= self.addrs.len() || self.left() <= pause => {
                    let message = format!("no node responded; {addr} failed last: {}", Chain(&status));
                    return Err(failed(target::unreachable(addr, &status, message, self.timeout).await));
                }
                _ => tokio::time::sleep(pause).await,
            }
            attempt += 1;
        }
    }
}

/// Converts the shape of a series from its protobuf form.
///
/// # Errors
/// The shape is of a later release, which this program does not know.
pub(crate) fn shape_of(series: &Series) -> Result<SeriesShape, Failure> {
    let shape = series.shape.as_ref().and_then(|shape| SeriesShape::try_from(shape).ok());
    shape.ok_or_else(|| {
        Failure::new(Exit::Failed, format!("series {} has a shape that this release does not know", series.name))
            .hint("use a newer release of this program")
    })
}

/// Sets the deadline of a request, so that the server stops working on the request when the client stops waiting for
/// the response.
fn timed<T>(request: T, limit: Duration) -> Request<T> {
    let mut request = Request::new(request);
    request.set_timeout(limit);
    request
}

/// Converts a refusal by a server to a failure of the command, with an exit code and a hint.
fn refused(reason: &str, status: &Status) -> Failure {
    let known = Reason::parse(reason);
    let exit = match known {
        Some(Reason::LaneRequired | Reason::LaneNotAllowed | Reason::LaneOutOfRange | Reason::NotAnId) => Exit::Usage,
        Some(Reason::CountOutOfRange | Reason::BadName) => Exit::Usage,
        _ if status.code() == Code::Unavailable || status::retry_after(status).is_some() => Exit::Unhealthy,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, format!("{} ({reason})", status.message())).reason(reason);
    match known {
        // No hint is needed, because the text already names the command that lists the series.
        Some(Reason::UnknownSeries) => failure,
        Some(Reason::LaneRequired) => failure.hint("--lane N names it, for example the shard of a user"),
        Some(Reason::LaneNotAllowed) => failure.hint("leave --lane out"),
        _ => failure.hint(format!("`seqsvr explain {reason}` explains the reason")),
    }
}

/// Returns the failure of a command whose server lacks the gRPC service. Either the port at `addr` is of another kind,
/// or its node runs an earlier release.
async fn not_served(addr: &str) -> Failure {
    let kind = port_kind::identify(addr).await;
    kind.and_then(|kind| kind.failure(addr, Needed::Alloc)).unwrap_or_else(|| {
        Failure::new(Exit::Failed, format!("the node at {addr} runs a release without series"))
            .hint("upgrade it, or name another node with --addr")
    })
}
