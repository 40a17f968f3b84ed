//! Waits until all AllocSvrs of a cluster know that a series was created or retired. The next request of a command or a
//! caller may go to any AllocSvr. Until an AllocSvr knows of the change, it refuses requests for a new series, and
//! still allocates ids of a retired series.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_channel::Pool;
use seq_command::output::{Output, note};
use seq_command::security;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::{ListSeriesRequest, Series, SetInfo, SetState};

/// Interval between requests to an AllocSvr.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum time of the wait. It suffices because AllocSvrs renew their leases every second, and sets send their series
/// to each other every two seconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until all AllocSvrs of open sets list the series `name` and report that it is retired, if `retired` is true,
/// or that it is not. Returns the addresses of the AllocSvrs that did not do so within [`TIMEOUT`].
pub(super) async fn until_known(sets: &[SetInfo], name: &str, retired: bool, output: &Output) -> Vec<String> {
    let open = sets.iter().filter(|set| set.state() == SetState::Open);
    let addrs: Vec<&String> = open.flat_map(|set| &set.allocs).collect();
    let line = output.progress_line();
    line.set_message(format!("waiting until the allocators know it: {}", addrs.len()));
    line.tick();
    let (pool, since) = (security::pool(), Instant::now());
    let is_known = |series: &Series| series.name == name && series.retired == retired;
    let wait = async |addr: &str| {
        while let Some(series) = list(&pool, addr, TIMEOUT.saturating_sub(since.elapsed())).await {
            if series.iter().any(is_known) {
                return true;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        false
    };
    let known = join_all(addrs.iter().map(|addr| wait(addr))).await;
    line.finish_and_clear();
    addrs.into_iter().zip(known).filter(|(_, known)| !known).map(|(addr, _)| addr.clone()).collect()
}

/// Prints a note with the addresses of the AllocSvrs that do not know of a change yet.
pub(super) fn note_pending(pending: &[String]) {
    if !pending.is_empty() {
        note(format_args!("note: {} did not confirm it; an allocator learns of it from its store", pending.join(", ")));
    }
}

/// Requests the list of all series from the AllocSvr at `addr`. Returns `None` if it does not respond within `limit`.
async fn list(pool: &Pool, addr: &str, limit: Duration) -> Option<Vec<Series>> {
    let mut client = IdServiceClient::new(pool.get(addr).ok()?);
    let response = tokio::time::timeout(limit, client.list_series(ListSeriesRequest {})).await;
    Some(response.ok()?.ok()?.into_inner().series)
}
