//! Requests to many nodes for one page, within a bounded time.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

/// Requests in flight.
const IN_FLIGHT: usize = 32;

/// Time limit of a page, relative to the timeout of one node. Nodes that hang in a large cluster, of which only
/// [`IN_FLIGHT`] wait at a time, do not add up to more.
const ALL_NODES: u32 = 3;

/// Sends requests to nodes, each with the name of its node, and collects the responses until a multiple of `timeout`,
/// which is the limit of one request. Returns the responses, and the names of the nodes whose response is missing.
pub(super) async fn collect<T>(
    requests: Vec<(String, BoxFuture<'static, T>)>,
    timeout: Duration,
) -> (Vec<(String, T)>, BTreeSet<String>) {
    let limit = Instant::now() + timeout * ALL_NODES;
    let mut missing: BTreeSet<String> = requests.iter().map(|(name, _)| name.clone()).collect();
    let (mut requests, mut open, mut found) = (requests.into_iter(), FuturesUnordered::new(), Vec::new());
    loop {
        open.extend(requests.by_ref().take(IN_FLIGHT - open.len()).map(named));
        let Ok(Some((name, response))) = timeout_at(limit, open.next()).await else { return (found, missing) };
        missing.remove(&name);
        found.push((name, response));
    }
}

async fn named<T>((name, request): (String, BoxFuture<'static, T>)) -> (String, T) {
    (name, request.await)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nodes_that_hang_are_named_after_a_bounded_time() {
        let timeout = Duration::from_secs(1);
        let hang = || {
            async move {
                tokio::time::sleep(timeout).await;
                false
            }
            .boxed()
        };
        let mut requests: Vec<_> = (0..10 * IN_FLIGHT).map(|node| (format!("h{node}"), hang())).collect();
        requests.insert(0, ("a1".to_owned(), async { true }.boxed()));
        let begin = Instant::now();
        let (found, missing) = collect(requests, timeout).await;
        assert_eq!(begin.elapsed(), timeout * ALL_NODES);
        assert!(found.contains(&("a1".to_owned(), true)) && !missing.contains("a1"));
        assert_eq!(found.len() + missing.len(), 10 * IN_FLIGHT + 1);
        assert!(missing.len() > 6 * IN_FLIGHT, "{} were not reached", missing.len());
    }
}
