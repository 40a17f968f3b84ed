//! Waits until the AllocSvrs of a cluster have adopted a change of a series. The next request of a command or caller
//! may go to any AllocSvr, and until it adopts the change, an AllocSvr does not know a new series, and still allocates
//! ids of a retired series.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_channel::Pool;
use seq_command::output::{Output, note};
use seq_command::security;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::{ListSeriesRequest, Series, SetInfo, SetState};

/// Interval between requests to an AllocSvr.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Limit on the wait. It is long enough because AllocSvrs renew their leases every second, and sets exchange their
/// series every two seconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until all AllocSvrs of open sets list the series, with `retired` as its state. Returns the addresses of the
/// AllocSvrs that do not respond, or do not list it so in time.
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

/// Prints the addresses of AllocSvrs that have not adopted a change yet.
pub(super) fn note_pending(pending: &[String]) {
    if !pending.is_empty() {
        note(format_args!("note: {} did not confirm it; an allocator learns of it from its store", pending.join(", ")));
    }
}

/// Requests the list of series from an AllocSvr; returns `None` if it does not respond in time.
async fn list(pool: &Pool, addr: &str, limit: Duration) -> Option<Vec<Series>> {
    let mut client = IdServiceClient::new(pool.get(addr).ok()?);
    let response = tokio::time::timeout(limit, client.list_series(ListSeriesRequest {})).await;
    Some(response.ok()?.ok()?.into_inner().series)
}
