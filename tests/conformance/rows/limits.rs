//! Amounts: messages of many callers, requests that nodes forward, retries, and times up to a deadline.

use std::time::{Duration, Instant};

use seq_client::fake::FakeServer;
use seq_proto::Reason;
use seq_testkit::eventually;
use seq_testkit::rows::note;
use serde_json::json;

use crate::cluster::{Cluster, Shape};
use crate::driver::{Client, Driver, Sdk};

/// Calls with current routes.
const ROUTED: u64 = 10_000;

pub(super) fn routing(sdk: &Sdk) {
    let cluster = Cluster::start(Shape::USUAL);
    let driver = Driver::start(sdk);
    let (client, uids) = (driver.open(&cluster.seeds()), cluster.uids());
    // The routes are current after a call for each section.
    client.next_many(&uids, &[]).unwrap();
    let forwarded = || cluster.metric("seqsvr_forwarded_total");
    let before = forwarded();
    client.burst(&uids, ROUTED, 64).wait();
    client.next_many(&uids, &[]).unwrap();
    client.current_many(&uids).unwrap();
    let numbers = ROUTED + 2 * uids.len() as u64;
    eventually("the nodes publish what they have counted", || {
        (cluster.metric("seqsvr_allocations_total") >= numbers as f64).then_some(())
    });
    assert_eq!(forwarded(), before, "no node forwards");
    driver.end_seamless();
}

/// Callers that share messages, and their calls.
const CALLERS: u64 = 256;
const CALLS: u64 = 20_000;

pub(super) fn coalescing(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    let client = driver.open(&[server.url()]);
    let uids: Vec<u64> = (0..100).map(|section| section * 1_000).collect();
    client.next(uids[0]).unwrap();
    let before = server.received();
    client.burst(&uids, CALLS, CALLERS).wait();
    let received = server.received();
    let (messages, items) = (received.requests - before.requests, received.items - before.items);
    note(format_args!("{items} calls in {messages} messages"));
    assert!(items >= CALLS && messages <= CALLS / 8, "{items} calls in {messages} messages");

    // A call for a section without an owner waits, and no other call waits for it.
    let unowned = 500_000;
    server.orphan_section_of(unowned);
    let waiting = client.start_next(unowned, json!({}));
    client.burst(&uids, 2 * CALLERS, CALLERS).wait();
    assert!(waiting.pending.is_pending(), "the call waits for an owner of its section");
    server.take_section_of(unowned);
    waiting.wait().unwrap();
    driver.end_seamless();
}

/// A short deadline, and the time within which a call with this deadline must have ended in any case: shorter than the
/// default deadline of the client.
const SHORT_MS: u64 = 50;
const BOUND: Duration = Duration::from_secs(3);

pub(super) fn deadline(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    for coalesce in [true, false] {
        let client = driver.open_with(&[server.url()], json!({"coalesce": coalesce}));
        client.next(7).unwrap();
        server.hold(true);
        let (result, took) = client.start_next(7, json!({"deadline_ms": SHORT_MS})).timed();
        let late = result.unwrap_err();
        note(format_args!(
            "coalesce {coalesce}: ends after {:.0} ms, {SHORT_MS} allowed",
            took.as_secs_f64() * 1_000.0
        ));
        assert_eq!((&*late.kind, late.retryable, late.may_have_applied), ("deadline", true, true), "{late:?}");
        assert!(took < BOUND, "the default deadline ends the call");
        // The deadline passes while many other calls wait.
        let began = Instant::now();
        let calls: Vec<_> = (0..100).map(|uid| client.start_next(uid, json!({"deadline_ms": SHORT_MS}))).collect();
        for call in calls {
            assert_eq!(call.wait().unwrap_err().kind, "deadline");
        }
        assert!(began.elapsed() < BOUND, "the default deadline ends the calls");
        server.hold(false);
        client.next(7).unwrap();
    }
    let seen = server.seen();
    assert!(seen.iter().all(|request| request.has_deadline), "{seen:?}");
    driver.end();
}

/// The retry budget of a new client, its share of the calls, and its growth per second.
const SAVED_RETRIES: f64 = 1_000.0;
const RETRY_RATIO: f64 = 0.2;
const RETRIES_PER_SECOND: f64 = 10.0;

/// Calls to an overloaded server: so many that a client without a budget sends far more requests than it may.
const OVERLOADING: u64 = 4_000;

pub(super) fn overload(sdk: &Sdk) {
    let server = FakeServer::start();
    let driver = Driver::start(sdk);
    let uids: Vec<u64> = (0..100).collect();
    let refusal = || Some(Reason::CeilingStalled.status("planted"));
    for one_in in [1, 2] {
        let client = driver.open_with(&[server.url()], json!({"deadline_ms": 2_000}));
        client.next(7).unwrap();
        server.refuse_one_in(one_in, refusal());
        attempts_are_bounded(&server, &client, &uids);
        server.refuse_one_in(1, None);
        client.next(7).unwrap();
    }
    // The hint of the refusal is 200 ms, so few attempts fit into a second.
    let client = driver.open(&[server.url()]);
    server.refuse_one_in(1, refusal());
    let error = client.next_with(7, json!({"deadline_ms": 1_000})).unwrap_err();
    assert!(error.retryable && (2..=6).contains(&error.attempts), "{error:?}");
    driver.end();
}

fn attempts_are_bounded(server: &FakeServer, client: &Client<'_>, uids: &[u64]) {
    let (began, before) = (Instant::now(), server.received().items);
    client.burst(uids, OVERLOADING, 128).wait();
    let seconds = began.elapsed().as_secs_f64();
    let attempts = (server.received().items - before) as f64;
    let most = OVERLOADING as f64 * (1.0 + RETRY_RATIO) + SAVED_RETRIES + (seconds + 1.0) * RETRIES_PER_SECOND;
    note(format_args!("{OVERLOADING} calls, {attempts} attempts in {seconds:.1} s, at most {most:.0} allowed"));
    assert!(attempts >= OVERLOADING as f64 && attempts <= most, "{attempts} attempts, {most} allowed");
}
