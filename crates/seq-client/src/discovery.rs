//! Discovery of the cluster's sets and their routes. Routes are fetched from the seeds when a client connects, and when
//! a uid is in no known set. They are fetched from other sets if no node of a section's set can be reached, because the
//! section may have migrated to one of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use seq_proto::v1;
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::directory::sections::SetIndex;
use crate::directory::set_routes::SetRoutes;
use crate::error::ConnectError;
use crate::node_client;
use crate::shared::Shared;

/// Minimum interval between two fetches of routes from the seeds that are made because a uid is in no known set.
pub(crate) const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout of a request for routes to another set. It is short, because a call waits for the response before its next
/// attempt.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(250);

/// Fetches routes from the seeds again, because a uid is in no known set. If such a fetch is in progress, waits for its
/// end instead. If the last fetch ended less than [`MIN_REFRESH_INTERVAL`] ago, does nothing.
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
    // After a timeout the call continues with the known routes, and fails with an error of its own.
    let _ = tokio::time::timeout_at(deadline, refreshed).await;
}

/// Fetches the routes of every seed and adopts the valid routes. Fails if no set is known afterwards, if the routes of
/// a seed are invalid, or if they overlap the routes of another set.
pub(crate) async fn fetch_routes(shared: &Shared, deadline: Instant) -> Result<(), ConnectError> {
    let (mut bad, mut failed) = (None, None);
    let responses = join_all(shared.seeds.iter().map(|seed| get_routes(shared, seed, 0, deadline))).await;
    for (addr, response) in shared.seeds.iter().zip(responses) {
        let addr = addr.clone();
        match response.map(|response| response.routes) {
            Ok(Some(routes)) => match shared.routes.adopt(&routes, Some(&addr)) {
                Ok(_) => {}
                Err(source) => bad = bad.or(Some(ConnectError::BadRoutes { addr, source })),
            },
            Ok(None) => failed = Some(ConnectError::NoRoutes { addr }),
            Err(source) if seq_channel::is_transport(&source) => {
                shared.pool.suspect(&addr);
                failed.get_or_insert(ConnectError::Unreachable { addr, source });
            }
            Err(source) if source.code() == tonic::Code::Unavailable => failed = Some(ConnectError::NoRoutes { addr }),
            Err(source) => failed = failed.or(Some(ConnectError::Unreachable { addr, source })),
        }
    }
    shared.follow_addrs();
    match (bad, failed) {
        (Some(bad), _) => Err(bad),
        (None, Some(failed)) if shared.routes.load().is_empty() => Err(failed),
        _ => Ok(()),
    }
}

/// Fetches newer routes because no node of the set `down` can be reached. Fetches them from the node `from`, or, if it
/// is `None`, from another set. Does nothing while such a fetch for `down` is in progress, or if the last such fetch
/// began less than [`MIN_REFRESH_INTERVAL`] ago. So a set that is down causes only one small request per second to the
/// other sets.
pub(crate) async fn refresh_from_others(shared: &Shared, down: SetIndex, from: Option<(SetIndex, &Arc<str>)>) {
    let state = shared.routes.load().set(down).state().clone();
    let Ok(mut asked) = state.others_asked.try_lock() else { return };
    if asked.is_some_and(|asked| asked.elapsed() < MIN_REFRESH_INTERVAL) {
        return;
    }
    let Some((addr, version)) = source(shared, down, from) else { return };
    // The time is set before the request is sent, because a request whose future is dropped counts too.
    *asked = Some(Instant::now());
    match get_routes(shared, &addr, version, Instant::now() + OTHERS_TIMEOUT).await {
        Ok(response) => shared.adopt(response.routes.as_ref(), &addr),
        Err(error) => tracing::debug!(%addr, %error, "fetching routes from another set failed"),
    }
}

/// Limit on the number of sets from which one round of [`probe`] requests routes.
const PROBED_SETS: usize = 8;

/// Limit on the rounds of [`probe`]. A round fails if the nodes that it asks have just stopped. The next round asks
/// other nodes, which run, because a rolling restart stops only one node at a time.
const PROBE_ROUNDS: usize = 4;

/// Requests newer routes from one node of each of several sets, and returns when the first of them responds. If none of
/// these nodes responds, requests routes from other nodes of the sets, because a set is still served if only one of its
/// nodes has just stopped.
pub(crate) async fn probe(shared: &Shared, deadline: Instant) -> Result<(), ConnectError> {
    let (mut failed, mut tried) = (ConnectError::NoSeeds, HashSet::new());
    for _ in 0..PROBE_ROUNDS {
        let nodes = probed(shared, &tried);
        if nodes.is_empty() {
            break;
        }
        tried.extend(nodes.iter().map(|(addr, _)| addr.clone()));
        let request = |(addr, version): (Arc<str>, u64)| async move {
            let response = get_routes(shared, &addr, version, deadline).await;
            (addr, response)
        };
        let mut responses: FuturesUnordered<_> = nodes.into_iter().map(request).collect();
        while let Some((addr, response)) = responses.next().await {
            match response {
                Ok(response) => {
                    shared.adopt(response.routes.as_ref(), &addr);
                    return Ok(());
                }
                Err(source) => {
                    shared.pool.suspect(&addr);
                    failed = ConnectError::Unreachable { addr, source };
                }
            }
        }
    }
    Err(failed)
}

/// Returns one node for each of several sets, with the version of that set's routes that this client has. None of the
/// nodes is in `tried`. Reachable sets come first.
fn probed(shared: &Shared, tried: &HashSet<Arc<str>>) -> Vec<(Arc<str>, u64)> {
    let directory = shared.routes.load();
    let mut sets: Vec<_> = directory.sets().iter().collect();
    fastrand::shuffle(&mut sets);
    let was_tried = |addr: &str| tried.contains(addr);
    let is_suspect = |addr: &str| was_tried(addr) || shared.pool.is_suspect(addr);
    sets.sort_by_key(|set| set.is_down(is_suspect));
    let untried = |host: Option<Arc<str>>| host.filter(|addr| !tried.contains(addr));
    let node = |set: &Arc<SetRoutes>| {
        let host = untried(set.host(None, None, is_suspect)).or_else(|| untried(set.host(None, None, was_tried)))?;
        Some((host, set.known_version()?))
    };
    sets.into_iter().filter_map(node).take(PROBED_SETS).collect()
}

/// Returns the address from which routes are fetched while no node of the set `down` can be reached, and the version of
/// the routes that this client has of the set at that address. `from` is the address to use, with its set; if it is
/// `None`, a reachable node of another set is chosen.
fn source(shared: &Shared, down: SetIndex, from: Option<(SetIndex, &Arc<str>)>) -> Option<(Arc<str>, u64)> {
    let is_suspect = |addr: &str| shared.pool.is_suspect(addr);
    let directory = shared.routes.load();
    let (addr, set) = match from {
        Some((set, addr)) => (addr.clone(), directory.set(set)),
        None => {
            let up = directory.others(directory.set(down)).filter(|other| !other.is_down(is_suspect));
            let other = fastrand::choice(up.collect::<Vec<_>>())?;
            (other.host(None, None, is_suspect)?, other)
        }
    };
    Some((addr, set.known_version().unwrap_or(0)))
}

async fn get_routes(
    shared: &Shared,
    addr: &str,
    known_version: u64,
    deadline: Instant,
) -> Result<v1::GetRoutesResponse, Status> {
    let mut client = node_client::of(&shared.pool, addr).map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(v1::GetRoutesRequest { known_version });
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    match tokio::time::timeout_at(deadline, client.get_routes(request)).await {
        Ok(response) => response.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("the deadline passed")),
    }
}
