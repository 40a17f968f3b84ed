//! Loop that probes the other sets to find out whether they respond. Different sets are probed concurrently, and each
//! set has at most one round of probes in progress.
//!
//! A probe only shows that a node responds. It requests no routes, because they may be large. The first response to a
//! probe ends the round. If this node's copy of the set's routes is known to be stale, the loop then fetches newer
//! routes from the node that responded first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use seq_core::route::RouteUpdate;
use seq_core::set_health::{Due, PROBE_TIMEOUT};
use seq_core::{Layout, SetId};
use seq_kit::repeats::Repeats;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::OtherSets;
use super::other_set::OtherSet;

/// Limit on the number of nodes that one round probes. If a set has more nodes, successive rounds probe different
/// nodes. So many nodes usually include a live node, and not all nodes of a large set have to be probed.
const PROBED: usize = 16;

/// Timeout of fetching a set's routes. It is long enough to transfer the routes of the largest set, which are
/// megabytes, from another site.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Task that ended.
enum Ended {
    /// Round of probes of a set, with the address of the node that responded first.
    Round(Arc<OtherSet>, Option<Arc<str>>),
    /// Fetch of a set's routes, with a description of the fault if the received routes are faulty.
    Fetch(SetId, Option<String>),
}

/// Tasks in progress for a set.
#[derive(Default)]
struct Running {
    /// Time at which the last round began.
    probed: Option<Instant>,
    round: bool,
    fetch: bool,
    /// Limit on log lines about faulty routes.
    wrong: Repeats,
}

/// Probes the other sets until shutdown.
pub(crate) async fn probe_loop(sets: Arc<OtherSets>, layout: Layout, shutdown: CancellationToken) {
    let mut running: BTreeMap<SetId, Running> = BTreeMap::new();
    let mut under_way: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
    let mut turn = 0;
    loop {
        let mut next: Option<Instant> = None;
        for set in sets.all() {
            let of_set = running.entry(set.id()).or_default();
            if of_set.round {
                continue;
            }
            match set.due(of_set.probed) {
                Due::Now => {
                    (of_set.probed, of_set.round) = (Some(Instant::now()), true);
                    turn += 1;
                    under_way.push(round(set, turn).boxed());
                }
                Due::At(at) => next = Some(next.map_or(set.at(at), |next| next.min(set.at(at)))),
                Due::Idle => {}
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(ended) = under_way.next(), if !under_way.is_empty() => match ended {
                Ended::Round(set, responded) => {
                    let of_set = running.entry(set.id()).or_default();
                    of_set.round = false;
                    if let Some(addr) = responded.filter(|_| !of_set.fetch && set.take_stale()) {
                        of_set.fetch = true;
                        under_way.push(fetch(set, addr, layout.clone()).boxed());
                    }
                }
                Ended::Fetch(set, wrong) => {
                    let of_set = running.entry(set).or_default();
                    of_set.fetch = false;
                    match wrong {
                        None => drop(of_set.wrong.end()),
                        Some(wrong) => {
                            if let Some(repeated) = of_set.wrong.admit() {
                                tracing::warn!(set = set.0, repeated, "{wrong}");
                            }
                        }
                    }
                }
            },
            () = sets.probe.notified() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

/// Makes one round of probes of a set, which ends when a node responds or the timeout has passed. `turn` selects the
/// nodes if the set has more than [`PROBED`].
async fn round(set: Arc<OtherSet>, turn: usize) -> Ended {
    set.on_probing();
    let mut nodes = set.nodes();
    let count = nodes.len();
    if count > PROBED {
        nodes.rotate_left(turn * PROBED % count);
        nodes.truncate(PROBED);
    }
    let responded = first_response(&set, nodes).await;
    set.on_probed(responded.is_some());
    Ended::Round(set, responded)
}

/// Returns the address of the first node that responds within the timeout.
async fn first_response(set: &OtherSet, nodes: Vec<Arc<str>>) -> Option<Arc<str>> {
    let mut probes: FuturesUnordered<_> = nodes.into_iter().map(|addr| probe(set, addr)).collect();
    let mut first = std::pin::pin!(async {
        while let Some(responded) = probes.next().await {
            if responded.is_some() {
                return responded;
            }
        }
        None
    });
    let began = Instant::now();
    match tokio::time::timeout(PROBE_TIMEOUT, &mut first).await {
        Ok(responded) => responded,
        Err(_) => {
            // If the process was paused, the timer fires late. Responses may have arrived during the pause, so the wait
            // goes on for as long as the timer was late, to read them.
            let late = began.elapsed().saturating_sub(PROBE_TIMEOUT);
            tokio::time::timeout(late.min(PROBE_TIMEOUT), first).await.unwrap_or(None)
        }
    }
}

/// Returns the address of the node if it responds.
async fn probe(set: &OtherSet, addr: Arc<str>) -> Option<Arc<str>> {
    // No routes are newer than this version, so the response contains no routes.
    get_routes(set, &addr, u64::MAX).await.map(|_| addr)
}

/// Fetches the routes of a set from one of its nodes.
async fn fetch(set: Arc<OtherSet>, addr: Arc<str>, layout: Layout) -> Ended {
    let id = set.id();
    let response = tokio::time::timeout(FETCH_TIMEOUT, get_routes(&set, &addr, set.route_version())).await;
    let Ok(Some(v1::GetRoutesResponse { routes: Some(routes) })) = response else { return Ended::Fetch(id, None) };
    let wrong = match RouteUpdate::try_from(&routes) {
        Ok(update) if update.id == id && update.layout.declared() == layout => {
            set.adopt(&update);
            None
        }
        Ok(update) => {
            Some(format!("the node at {addr} is of set {} or of another layout than its address states", update.id.0))
        }
        Err(error) => Some(format!("the node at {addr} sent malformed routes: {error}")),
    };
    Ended::Fetch(id, wrong)
}

async fn get_routes(set: &OtherSet, addr: &str, known_version: u64) -> Option<v1::GetRoutesResponse> {
    let channel = set.probes.here().pool.get(addr).ok()?;
    let mut node = SequenceServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
    Some(node.get_routes(v1::GetRoutesRequest { known_version }).await.ok()?.into_inner())
}
