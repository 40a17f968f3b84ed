//! Discovery of the sets: fetches routes from the seeds when a client connects, and again for a uid outside every known
//! set.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seq_proto::v1;
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::attempts::{FIRST_BACKOFF, MAX_BACKOFF, Shared};
use crate::budget::Budget;
use crate::client::Client;
use crate::coalesce::{Batchers, Bounds};
use crate::directory::Routes;
use crate::error::ConnectError;
use crate::pool::{self, Dial, Pool, PoolError};

/// The default deadline of a call: longer than the sections of a lost host wait for their next owner.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The longest deadline of a call. A longer one is clamped to it: instants must not overflow.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// Minimum interval between fetches from the seeds for uids outside every known set.
pub(crate) const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Most seeds of a client: half of a pool; the other half is for the nodes of their routes.
pub(crate) const MAX_SEEDS: usize = pool::MAX_ADDRESSES / 2;

/// Settings of a new client.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `connect`"]
pub struct ClientBuilder {
    seeds: Vec<String>,
    deadline: Duration,
    connections: usize,
    coalesce: bool,
    bounds: Bounds,
    dial: Dial,
}

impl ClientBuilder {
    pub(crate) fn new() -> ClientBuilder {
        ClientBuilder {
            seeds: Vec::new(),
            deadline: DEADLINE,
            connections: pool::CONNECTIONS,
            coalesce: true,
            bounds: Bounds::DEFAULT,
            dial: Dial::tcp(),
        }
    }

    /// Adds a node to fetch routes from, as `http://host:port` or `host:port`. One node of each set is enough; with
    /// more of them the client can start while some are down.
    pub fn seed(mut self, url: impl AsRef<str>) -> ClientBuilder {
        self.seeds.push(url.as_ref().to_owned());
        self
    }

    /// Sets the deadline of each call and of [`ClientBuilder::connect`], up to a day; [`DEADLINE`] by default.
    pub fn deadline(mut self, deadline: Duration) -> ClientBuilder {
        self.deadline = deadline.min(MAX_DEADLINE);
        self
    }

    /// Sets the number of connections to each node, `1 ..=` [`pool::MAX_CONNECTIONS`]; [`pool::CONNECTIONS`] by
    /// default.
    pub fn connections(mut self, connections: usize) -> ClientBuilder {
        self.connections = connections;
        self
    }

    /// Sets whether concurrent calls of [`Client::next`] and [`Client::next_n`] share the messages of one stream per
    /// node; `true` by default. No call waits for another in either case.
    pub fn coalesce(mut self, coalesce: bool) -> ClientBuilder {
        self.coalesce = coalesce;
        self
    }

    #[cfg(test)]
    pub(crate) fn bounds(mut self, bounds: Bounds) -> ClientBuilder {
        self.bounds = bounds;
        self
    }

    /// Sets the connector; TCP by default.
    pub fn dial(mut self, dial: Dial) -> ClientBuilder {
        self.dial = dial;
        self
    }

    /// Fetches the routes of every seed's set. Succeeds when at least one seed has routes; a seed that replies without
    /// routes is polled until the deadline.
    ///
    /// # Errors
    /// [`ConnectError`]; at once when no seed can be reached.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let deadline = Instant::now() + self.deadline;
        if self.seeds.is_empty() {
            return Err(ConnectError::NoSeeds);
        }
        if self.seeds.len() > MAX_SEEDS {
            return Err(ConnectError::TooManySeeds { seeds: self.seeds.len() });
        }
        let pool = Pool::with_dial(self.connections, self.dial.clone());
        let mut seeds: Vec<Arc<str>> = Vec::new();
        for url in &self.seeds {
            let addr = address(url)?;
            let bad = |what| ConnectError::BadUrl { url: url.clone(), what };
            pool.get(addr).map_err(|error| match error {
                PoolError::BadAddress { .. } => bad("not of the form http://host:port"),
                PoolError::Full { .. } => ConnectError::TooManySeeds { seeds: self.seeds.len() },
            })?;
            if !seeds.iter().any(|seed| &**seed == addr) {
                seeds.push(addr.into());
            }
        }
        let (routes, budget) = (Routes::default(), Budget::new(Instant::now()));
        let batchers = self.coalesce.then(|| Batchers::new(self.bounds));
        let shared = Shared { pool, routes, seeds, budget, batchers, refreshed: tokio::sync::Mutex::default() };
        let mut wait = FIRST_BACKOFF;
        loop {
            match fetch_routes(&shared, deadline).await {
                Ok(()) => return Ok(Client::new(shared, self.deadline)),
                Err(ConnectError::NoRoutes { .. }) if Instant::now() + wait < deadline => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_BACKOFF);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The address in a seed's URL.
fn address(url: &str) -> Result<&str, ConnectError> {
    let bad = |what| ConnectError::BadUrl { url: url.to_owned(), what };
    match url.split_once("://") {
        None => Ok(url),
        Some(("http", rest)) => Ok(rest.strip_suffix('/').unwrap_or(rest)),
        Some(("https", _)) => Err(bad("TLS is not supported")),
        Some(_) => Err(bad("only http:// is supported")),
    }
}

/// Fetches routes from the seeds again, for a uid outside every known set. Concurrent calls wait for the running fetch;
/// within [`MIN_REFRESH_INTERVAL`] of the last one it does nothing.
pub(crate) async fn refresh(shared: &Shared, deadline: Instant) {
    let refreshed = async {
        let mut refreshed = shared.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < MIN_REFRESH_INTERVAL) {
            return;
        }
        if let Err(error) = fetch_routes(shared, deadline).await {
            tracing::debug!(%error, "fetching routes from the seeds failed");
        }
        *refreshed = Some(Instant::now());
    };
    // On timeout the call continues with the known routes, and fails with its own error.
    let _ = tokio::time::timeout_at(deadline, refreshed).await;
}

/// Fetches the routes of every seed and adopts the valid ones. Fails when no set is known afterwards, or when some
/// routes are invalid or overlap another set.
async fn fetch_routes(shared: &Shared, deadline: Instant) -> Result<(), ConnectError> {
    let (mut bad, mut failed) = (None, None);
    let responses = join_all(shared.seeds.iter().map(|seed| get_routes(shared, seed, deadline))).await;
    for (addr, response) in shared.seeds.iter().zip(responses) {
        let addr = addr.clone();
        match response.map(|response| response.routes) {
            Ok(Some(routes)) => match shared.routes.adopt(&routes, Some(&addr)) {
                Ok(_) => {}
                Err(source) => bad = bad.or(Some(ConnectError::BadRoutes { addr, source })),
            },
            Ok(None) => failed = Some(ConnectError::NoRoutes { addr }),
            Err(source) if pool::is_transport(&source) => {
                shared.pool.suspect(&addr);
                failed.get_or_insert(ConnectError::Unreachable { addr, source });
            }
            Err(source) if source.code() == tonic::Code::Unavailable => failed = Some(ConnectError::NoRoutes { addr }),
            Err(source) => failed = failed.or(Some(ConnectError::Unreachable { addr, source })),
        }
    }
    shared.drop_unused_addrs();
    match (bad, failed) {
        (Some(bad), _) => Err(bad),
        (None, Some(failed)) if shared.routes.load().is_empty() => Err(failed),
        _ => Ok(()),
    }
}

async fn get_routes(shared: &Shared, addr: &str, deadline: Instant) -> Result<v1::GetRoutesResponse, Status> {
    let mut client = shared.client(addr).map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(v1::GetRoutesRequest { known_version: 0 });
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    match tokio::time::timeout_at(deadline, client.get_routes(request)).await {
        Ok(response) => response.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("the deadline passed")),
    }
}
