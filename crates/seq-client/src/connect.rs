//! Getting to know the sets: from the seeds when a client is made, and once more for a uid that no known set holds.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use seq_proto::v1;
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::attempts::{FIRST_BACKOFF, MAX_BACKOFF, Shared};
use crate::budget::Budget;
use crate::client::Client;
use crate::coalesce::{Bounds, Lanes};
use crate::directory::Routes;
use crate::error::ConnectError;
use crate::pool::{self, Dial, Pool, PoolError};

/// The deadline of a call unless another is set: longer than a lost host's sections wait for their next owner.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The longest deadline of a call; a longer one is brought down to it, so that times do not overflow.
pub(crate) const MAX_DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// How often at most the seeds are asked again because of uids outside every known set.
pub(crate) const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// Most seeds of a client: half a pool, so that the nodes they name have room too.
pub(crate) const MAX_SEEDS: usize = pool::MAX_ADDRESSES / 2;

/// The settings of a client to be.
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

    /// Adds a node to ask for routes, as `http://host:port` or `host:port`. One node of each set is enough; more of them
    /// let the client start while some are down.
    pub fn seed(mut self, url: impl AsRef<str>) -> ClientBuilder {
        self.seeds.push(url.as_ref().to_owned());
        self
    }

    /// Sets the deadline of each call and of [`ClientBuilder::connect`], up to a day; [`DEADLINE`] unless set.
    pub fn deadline(mut self, deadline: Duration) -> ClientBuilder {
        self.deadline = deadline.min(MAX_DEADLINE);
        self
    }

    /// Sets the number of connections to each node, `1 ..=` [`pool::MAX_CONNECTIONS`]; [`pool::CONNECTIONS`] unless set.
    pub fn connections(mut self, connections: usize) -> ClientBuilder {
        self.connections = connections;
        self
    }

    /// Sets whether calls of [`Client::next`] and [`Client::next_n`] that are there at the same time share messages of a
    /// stream, one to each node; they do unless set. No call waits for another in either case.
    pub fn coalesce(mut self, coalesce: bool) -> ClientBuilder {
        self.coalesce = coalesce;
        self
    }

    #[cfg(test)]
    pub(crate) fn bounds(mut self, bounds: Bounds) -> ClientBuilder {
        self.bounds = bounds;
        self
    }

    /// Sets what makes the connections; TCP unless set.
    pub fn dial(mut self, dial: Dial) -> ClientBuilder {
        self.dial = dial;
        self
    }

    /// Asks every seed for its set's routes. Succeeds when at least one has them; a seed that answers but has none yet is
    /// asked again until the deadline.
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
        let lanes = self.coalesce.then(|| Lanes::new(self.bounds));
        let shared = Shared { pool, routes, seeds, budget, lanes, refreshed: tokio::sync::Mutex::default() };
        let mut wait = FIRST_BACKOFF;
        loop {
            match gather(&shared, deadline).await {
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
        Some(_) => Err(bad("only http:// is understood")),
    }
}

/// Asks the seeds again, because a uid lies outside every known set. Calls that come while it runs wait for it; within
/// [`REFRESH_EVERY`] it does nothing.
pub(crate) async fn refresh(shared: &Shared, deadline: Instant) {
    let refreshed = async {
        let mut refreshed = shared.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < REFRESH_EVERY) {
            return;
        }
        if let Err(error) = gather(shared, deadline).await {
            tracing::debug!(%error, "the seeds were asked again in vain");
        }
        *refreshed = Some(Instant::now());
    };
    // Out of time: the call goes on with what is known, and so ends.
    let _ = tokio::time::timeout_at(deadline, refreshed).await;
}

/// Asks every seed for its routes and takes in what is good. Fails when nothing is known afterwards, or when some routes
/// were bad or contradict another set's.
async fn gather(shared: &Shared, deadline: Instant) -> Result<(), ConnectError> {
    let (mut bad, mut failed) = (None, None);
    let answers = join_all(shared.seeds.iter().map(|seed| ask(shared, seed, deadline))).await;
    for (addr, answer) in shared.seeds.iter().zip(answers) {
        let addr = addr.clone();
        match answer.map(|answer| answer.routes) {
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
    shared.forget_unnamed();
    match (bad, failed) {
        (Some(bad), _) => Err(bad),
        (None, Some(failed)) if shared.routes.load().is_empty() => Err(failed),
        _ => Ok(()),
    }
}

async fn ask(shared: &Shared, addr: &str, deadline: Instant) -> Result<v1::GetRoutesResponse, Status> {
    let mut client = shared.client(addr).map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(v1::GetRoutesRequest { known_version: 0 });
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    match tokio::time::timeout_at(deadline, client.get_routes(request)).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("the deadline passed")),
    }
}
