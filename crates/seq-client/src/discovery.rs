//! Discovery of the sets: fetches routes from the seeds when a client connects, and again for a uid outside every known
//! set.

use std::time::Duration;

use futures::future::join_all;
use seq_proto::v1;
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::error::ConnectError;
use crate::node_client;
use crate::shared::Shared;

/// Minimum interval between fetches from the seeds for uids outside every known set.
pub(crate) const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);

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
pub(crate) async fn fetch_routes(shared: &Shared, deadline: Instant) -> Result<(), ConnectError> {
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
            Err(source) if seq_channel::is_transport(&source) => {
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
    let mut client = node_client::of(&shared.pool, addr).map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(v1::GetRoutesRequest { known_version: 0 });
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    match tokio::time::timeout_at(deadline, client.get_routes(request)).await {
        Ok(response) => response.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("the deadline passed")),
    }
}
