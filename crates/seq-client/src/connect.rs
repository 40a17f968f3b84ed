//! Settings of a client, and the connection to the cluster with these settings. A connected client has the routes of at
//! least one set.

use std::sync::Arc;
use std::time::Duration;

use seq_auth::Trust;
use seq_channel::batch::{Batchers, Bounds};
use seq_channel::{Access, Bearer, Dial, ExpectedServer, Pool, PoolError};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use tonic::Status;

use crate::attempts::{FIRST_BACKOFF, MAX_BACKOFF};
use crate::client::{Client, DEADLINE, MAX_DEADLINE};
use crate::directory::Routes;
use crate::discovery::fetch_routes;
use crate::error::ConnectError;
use crate::shared::Shared;

/// Limit on the seeds of a client. It is half of the number of addresses that the connection pool can hold. The other
/// half is for the nodes in the routes that the seeds send.
pub(crate) const MAX_SEEDS: usize = seq_channel::MAX_ADDRESSES / 2;

/// Cause for which a seed over TLS is refused, if the client has no settings for TLS.
const NEEDS_TLS: &str = match cfg!(feature = "tls") {
    true => "https:// needs ClientBuilder::tls",
    false => "https:// needs the feature `tls` of seq-client, and ClientBuilder::tls",
};

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
    trust: Option<Trust>,
    allocs_only: bool,
    bearer: Option<Bearer>,
}

impl ClientBuilder {
    pub(crate) fn new() -> ClientBuilder {
        ClientBuilder {
            seeds: Vec::new(),
            deadline: DEADLINE,
            connections: seq_channel::CONNECTIONS,
            coalesce: true,
            bounds: Bounds::DEFAULT,
            dial: Dial::tcp(),
            trust: None,
            allocs_only: false,
            bearer: None,
        }
    }

    /// Adds a node from which routes are fetched, as `host:port`, `http://host:port` or `https://host:port`. A seed
    /// with `https` needs [`ClientBuilder::tls`]. One node of any set of a cluster is enough, because its routes name
    /// the nodes of the other sets. With several seeds, the client can start while some of them are down.
    pub fn seed(mut self, url: impl AsRef<str>) -> ClientBuilder {
        self.seeds.push(url.as_ref().to_owned());
        self
    }

    /// Sets the deadline of each call and of [`ClientBuilder::connect`], at most a day. The default is [`DEADLINE`].
    pub fn deadline(mut self, deadline: Duration) -> ClientBuilder {
        self.deadline = deadline.min(MAX_DEADLINE);
        self
    }

    /// Sets the number of connections to each node, `1 ..=` [`seq_channel::MAX_CONNECTIONS`]. The default is
    /// [`seq_channel::CONNECTIONS`].
    pub fn connections(mut self, connections: usize) -> ClientBuilder {
        self.connections = connections;
        self
    }

    /// Sets whether concurrent calls of [`Client::next`] and [`Client::next_n`] share the messages of one stream to
    /// each node. The default is `true`. In either case no call waits for another call.
    pub fn coalesce(mut self, coalesce: bool) -> ClientBuilder {
        self.coalesce = coalesce;
        self
    }

    #[cfg(test)]
    pub(crate) fn bounds(mut self, bounds: Bounds) -> ClientBuilder {
        self.bounds = bounds;
        self
    }

    /// Connects to every node over TLS. `trust` is either [`Credentials`](crate::Credentials), which are a client's
    /// certificate and the cluster's authorities, or the [`Authorities`](crate::Authorities) alone, together with a
    /// [`ClientBuilder::token`].
    #[cfg(feature = "tls")]
    pub fn tls(self, trust: impl Into<Trust>) -> ClientBuilder {
        let trust = trust.into();
        ClientBuilder { trust: Some(trust.clone()), ..self.dial(seq_channel::tls::dial(trust)) }
    }

    /// Makes the client accept a server only if its certificate is that of an AllocSvr. This needs TLS. If the routes
    /// state the server's address for a set, the AllocSvr must also belong to that set. A seed whose address is in no
    /// routes may belong to any set. By default any server of the cluster is accepted, because callers may reach a
    /// cluster through its proxies. The proxies themselves need this stricter check.
    pub fn allocs_only(self) -> ClientBuilder {
        ClientBuilder { allocs_only: true, ..self }
    }

    /// Sends a tenant's token with every request. Use it together with [`ClientBuilder::tls`] only, because any party
    /// that reads the token in transit can use it.
    pub fn token(self, token: Bearer) -> ClientBuilder {
        ClientBuilder { bearer: Some(token), ..self }
    }

    /// Sets the connector. The default is TCP.
    pub fn dial(mut self, dial: Dial) -> ClientBuilder {
        self.dial = dial;
        self
    }

    /// Connects the client: fetches the routes of every seed's set. Succeeds if at least one seed has routes. If seeds
    /// respond but none of them has routes yet, requests the routes repeatedly until the deadline.
    ///
    /// # Errors
    /// [`ConnectError`]. If no seed can be reached, the error is returned at once.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let deadline = Instant::now() + self.deadline;
        if self.seeds.is_empty() {
            return Err(ConnectError::NoSeeds);
        }
        if self.seeds.len() > MAX_SEEDS {
            return Err(ConnectError::TooManySeeds { seeds: self.seeds.len() });
        }
        let dial = match self.allocs_only {
            true => self.dial.expecting(ExpectedServer::alloc()),
            false => self.dial.clone(),
        };
        let pool = Pool::of_caller(self.connections, dial, self.bearer.clone());
        let mut seeds: Vec<Arc<str>> = Vec::new();
        for url in &self.seeds {
            let addr = address(url)?;
            let bad = |what| ConnectError::BadUrl { url: url.clone(), what };
            if url.starts_with("https://") && self.trust.is_none() {
                return Err(bad(NEEDS_TLS));
            }
            pool.get(addr).map_err(|error| match error {
                PoolError::BadAddress { .. } => bad("not of the form http://host:port"),
                PoolError::Full { .. } => ConnectError::TooManySeeds { seeds: self.seeds.len() },
            })?;
            if !seeds.iter().any(|seed| &**seed == addr) {
                seeds.push(addr.into());
            }
        }
        let batchers = self.coalesce.then(|| Batchers::new(self.bounds, pool.clone()));
        let routes = Routes::default();
        let shared = Shared {
            pool,
            routes,
            seeds,
            batchers,
            refreshed: tokio::sync::Mutex::default(),
            allocs_only: self.allocs_only,
            addrs: parking_lot::Mutex::default(),
        };
        let mut wait = FIRST_BACKOFF;
        loop {
            match fetch_routes(&shared, deadline).await {
                Ok(()) => return Ok(Client::new(shared, self.deadline)),
                Err(ConnectError::NoRoutes { .. }) if Instant::now() + wait < deadline => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(MAX_BACKOFF);
                }
                Err(error) => return Err(explained(error, self.trust.as_ref(), deadline).await),
            }
        }
    }
}

/// Time for which [`explained`] waits for an alert.
const ALERT_TIMEOUT: Duration = Duration::from_secs(1);

/// Adds the alert to the error of a connection, if the server refuses the client's certificate.
///
/// In TLS 1.3 a client completes its handshake before the server checks the client's certificate. So a request may fail
/// because the server has closed the connection, before the alert is read. A connection that sends nothing reads it.
async fn explained(failed: ConnectError, trust: Option<&Trust>, deadline: Instant) -> ConnectError {
    let (ConnectError::Unreachable { addr, source }, Some(trust)) = (&failed, trust) else { return failed };
    if !seq_channel::is_transport(source) {
        return failed;
    }
    let access = Access { trust: Some(trust.clone()), bearer: None };
    let alert = async {
        let mut stream = access.connect(addr, None).await.ok()?;
        seq_auth::alert(&stream.read(&mut [0]).await.err()?)
    };
    let limit = deadline.min(Instant::now() + ALERT_TIMEOUT);
    match tokio::time::timeout_at(limit, alert).await {
        Ok(Some(alert)) => ConnectError::Unreachable {
            addr: addr.clone(),
            source: Status::new(source.code(), format!("the server refuses the client's certificate: {alert}")),
        },
        _ => failed,
    }
}

impl Client {
    /// Connects through one node, given as `http://host:port` or `host:port`, with the defaults of [`Client::builder`].
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(url: impl AsRef<str>) -> Result<Client, ConnectError> {
        Client::builder().seed(url).connect().await
    }

    /// Returns a builder for a client with several seeds or other settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }
}

/// Returns the address in a seed's URL.
fn address(url: &str) -> Result<&str, ConnectError> {
    let bad = |what| ConnectError::BadUrl { url: url.to_owned(), what };
    match url.split_once("://") {
        None => Ok(url),
        Some(("http" | "https", rest)) => Ok(rest.strip_suffix('/').unwrap_or(rest)),
        Some(_) => Err(bad("only http:// and https:// are supported")),
    }
}
