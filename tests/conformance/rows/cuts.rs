//! Connections that end at the worst moment, by a proxy in front of each node.

use seq_testkit::eventually;
use serde_json::json;

use crate::cluster::{Cluster, SECTION_SIZE, Shape};
use crate::driver::{Client, Driver, Sdk};
use crate::load;
use crate::proxy::{Cut, End, Proxy};

const PROXIED: Shape = Shape { proxies: true, ..Shape::USUAL };

/// Cuts of each kind and each call in a quiet client, and cuts under load.
const ROUNDS: usize = 3;
const CUTS_UNDER_LOAD: usize = 12;

/// Calls in flight when a stream ends.
const IN_FLIGHT: u64 = 512;

pub(super) fn lost_response(sdk: &Sdk) {
    let cluster = Cluster::start(PROXIED);
    let driver = Driver::start(sdk);
    let uids = cluster.uids();
    for coalesce in [true, false] {
        let client = driver.open_with(&cluster.seeds(), json!({"coalesce": coalesce}));
        for (cut, round) in Cut::ALL.into_iter().flat_map(|cut| (0..ROUNDS).map(move |round| (cut, round))) {
            let uid = uids[round];
            cut_one(&cluster, &client, cut, || drop(client.next_n(uid, 3)));
            cut_one(&cluster, &client, cut, || drop(client.next_many(&[uid, uid + 5 * SECTION_SIZE], &[])));
            // The next numbers name the numbers of lost responses.
            client.next_many(&[uid, uid + 5 * SECTION_SIZE], &[]).unwrap();
        }
    }
    let client = driver.open(&cluster.seeds());
    load::during(client, &uids, |load| {
        for round in 0..CUTS_UNDER_LOAD {
            let proxy = &cluster.proxies[round % cluster.proxies.len()];
            let before = proxy.cuts();
            proxy.cut_next(Cut::ALL[round % Cut::ALL.len()]);
            eventually("a response is cut", || (proxy.cuts() > before).then_some(()));
        }
        load.wait_served();
    });
    driver.end();
}

/// Cuts the response to a call at each node, once. Unless the whole response has arrived, the call must report a lost
/// attempt, or that its outcome is unknown.
fn cut_one(cluster: &Cluster, client: &Client<'_>, cut: Cut, call: impl Fn()) {
    let cuts = || cluster.proxies.iter().map(Proxy::cuts).sum::<u64>();
    let cut_once = |_| {
        let before = cuts();
        cluster.proxies.iter().for_each(|proxy| proxy.cut_next(cut));
        call();
        cluster.proxies.iter().for_each(Proxy::disarm);
        assert!(cuts() > before, "a response was cut");
    };
    if cut == Cut::After {
        cut_once(1);
    } else {
        assert!(is_reported(client, cut_once), "no attempt was reported as lost after a cut {cut:?} a response");
    }
}

/// Calls in a row whose broken responses may have had no numbers, because the client fetched routes at the same time.
const FETCHES: u64 = 4;

/// Makes a call with a response that is broken on the way; returns whether the client reports a lost attempt, or that
/// the outcome is unknown. A call that does not is made again, because a fetch of routes may have got the fault
/// instead. A client repeats a failed fetch, so each time one more response is to be broken, whose number
/// `broken_call` gets.
pub(super) fn is_reported(client: &Client<'_>, broken_call: impl Fn(u64)) -> bool {
    (1..=1 + FETCHES).any(|responses| {
        let before = client.driver.history().figures();
        broken_call(responses);
        let after = client.driver.history().figures();
        after.lost + after.unknown > before.lost + before.unknown
    })
}

pub(super) fn stream_end(sdk: &Sdk) {
    let cluster = Cluster::start(PROXIED);
    let driver = Driver::start(sdk);
    let uids = cluster.uids();
    for end in [End::Close, End::Reset] {
        // Each client has its own retry budget, of which the calls of a stream take a good half.
        let client = driver.open(&cluster.seeds());
        client.burst(&uids, 100, 10).wait();
        let allocated = || cluster.metric("seqsvr_allocations_total");
        let (before, lost_before) = (allocated(), driver.history().figures().lost);
        cluster.proxies.iter().for_each(|proxy| proxy.hold(true));
        let burst = client.burst(&uids, IN_FLIGHT, IN_FLIGHT);
        eventually("nodes have allocated numbers", || (allocated() > before).then_some(()));
        cluster.proxies.iter().for_each(|proxy| proxy.end_all(end));
        cluster.proxies.iter().for_each(|proxy| proxy.hold(false));
        burst.wait();
        let figures = driver.history().figures();
        assert!(figures.failed.is_empty() && figures.lost > lost_before, "{end:?}: {figures:?}");
        client.burst(&uids, 100, 10).wait();
    }
    driver.end();
}
