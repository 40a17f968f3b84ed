//! Waits until all AllocSvrs of a cluster know that a series was created or retired, or that a keyspace was created.
//! The next request of a command or a caller may go to any AllocSvr. Until an AllocSvr knows of the change, it refuses
//! requests for a new series, and still allocates ids of a retired series.

use std::time::{Duration, Instant};

use futures::future::join_all;
use seq_channel::Pool;
use seq_command::output::{Output, note};
use seq_command::security;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::v1::{GetRoutesRequest, ListSeriesRequest, SetInfo, SetState};

/// Interval between requests to an AllocSvr.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum time of the wait. It suffices because AllocSvrs renew their leases every second, and sets send their series
/// to each other every two seconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a response with a whole route table, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// A change of which all AllocSvrs should know.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// The series of this name exists, and is retired or is not.
    Series(&'a str, bool),
    /// The keyspace of this name exists.
    Keyspace(&'a str),
}

/// Waits until all AllocSvrs of open sets know of `wanted`. Returns the addresses of the AllocSvrs that did not do so
/// within [`TIMEOUT`].
pub(crate) async fn until_known(sets: &[SetInfo], wanted: Wanted<'_>, output: &Output) -> Vec<String> {
    let open = sets.iter().filter(|set| set.state() == SetState::Open);
    let addrs: Vec<&String> = open.flat_map(|set| &set.allocs).collect();
    let line = output.progress_line();
    line.set_message(format!("waiting until the allocators know it: {}", addrs.len()));
    line.tick();
    let (pool, since) = (security::pool(), Instant::now());
    let wait = async |addr: &str| {
        while let Some(known) = knows(&pool, addr, wanted, TIMEOUT.saturating_sub(since.elapsed())).await {
            if known {
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
pub(crate) fn note_pending(pending: &[String]) {
    if !pending.is_empty() {
        note(format_args!("note: {} did not confirm it; an allocator learns of it from its store", pending.join(", ")));
    }
}

/// Returns whether the AllocSvr at `addr` knows of `wanted`; `None` if it does not respond within `limit`.
async fn knows(pool: &Pool, addr: &str, wanted: Wanted<'_>, limit: Duration) -> Option<bool> {
    let channel = pool.get(addr).ok()?;
    match wanted {
        Wanted::Series(name, retired) => {
            let mut client = IdServiceClient::new(channel);
            let response = tokio::time::timeout(limit, client.list_series(ListSeriesRequest {})).await;
            let series = response.ok()?.ok()?.into_inner().series;
            Some(series.iter().any(|series| series.name == name && series.retired == retired))
        }
        Wanted::Keyspace(name) => {
            let mut client = SequenceServiceClient::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
            let request = GetRoutesRequest { known_version: 0 };
            let routes = tokio::time::timeout(limit, client.get_routes(request)).await.ok()?.ok()?.into_inner().routes;
            Some(routes.is_some_and(|routes| routes.series.iter().any(|series| series.name == name)))
        }
    }
}
