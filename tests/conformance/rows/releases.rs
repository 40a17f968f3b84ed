//! Servers of other releases, and responses that are damaged on the way.

use std::path::PathBuf;

use seq_client::fake::FakeServer;
use serde_json::json;

use crate::cluster::{Cluster, SECTION_SIZE, Shape};
use crate::driver::{Client, Driver, Sdk};
use crate::place::Place;
use crate::proxy::{Edit, Proxy};
use crate::rows::cuts::is_reported;

const PROXIED: Shape = Shape { proxies: true, ..Shape::USUAL };

/// Responses with further fields on each connection. They are so few that the client's window has room for the fields,
/// of which the node does not know.
const EDITED: u64 = 400;

pub(super) fn newer(sdk: &Sdk) {
    let cluster = Cluster::start(PROXIED);
    let driver = Driver::start(sdk);
    let uids = cluster.uids();
    let edits = || cluster.proxies.iter().map(Proxy::edits).sum::<u64>();
    for coalesce in [true, false] {
        cluster.proxies.iter().for_each(|proxy| proxy.edit_next(Edit::Fields, EDITED));
        let before = edits();
        let client = driver.open_with(&cluster.seeds(), json!({"coalesce": coalesce}));
        every_call(&client, &uids, sdk.has("advance"));
        assert!(edits() - before > uids.len() as u64, "the responses have new fields");
    }
    driver.end_seamless();
}

/// Makes every call that reads a response, each of which must succeed.
fn every_call(client: &Client<'_>, uids: &[u64], advance: bool) {
    for uid in uids {
        client.next_n(*uid, 3).unwrap();
    }
    assert!(client.next_many(uids, &[]).unwrap().iter().all(Result::is_ok));
    assert!(client.current(uids[0]).unwrap().exact);
    assert!(client.current_many(uids).unwrap().iter().all(Result::is_ok));
    if advance {
        // The target is the last number, so that no number is missing.
        let last = client.current(uids[0]).unwrap().value;
        client.advance(uids[0], last).unwrap();
    }
}

pub(super) fn older(sdk: &Sdk) {
    let server = FakeServer::start();
    server.know_streams(false);
    let driver = Driver::start(sdk);
    let client = driver.open(&[server.url()]);
    let uids: Vec<u64> = (0..20).map(|section| section * 1_000 + 7).collect();
    every_call(&client, &uids, sdk.has("advance"));
    client.burst(&uids, 500, 32).wait();
    assert!(server.seen().iter().all(|request| request.method != "NextStream"));
    driver.end_seamless();
}

/// Variable of the environment with the program of the release before; `tests/rolling/before` builds it.
const BEFORE: &str = "SEQSVR_BEFORE";

/// Returns the missing program for [`older_release`].
pub(super) fn older_program() -> Vec<String> {
    let missing = std::env::var_os(BEFORE).is_none();
    missing
        .then(|| format!("{BEFORE}=$(tests/rolling/before), the program of the release before"))
        .into_iter()
        .collect()
}

pub(super) fn older_release(sdk: &Sdk) {
    let program = PathBuf::from(std::env::var_os(BEFORE).expect("the row needs it"));
    let place = Place::new();
    let mut server = place.server_of(&program, "dev", &["dev", "--ports", "random", "-o", "json"]);
    let ready = server.ready();
    let allocs = ready["allocs"].as_array().unwrap_or_else(|| panic!("{ready} names no allocators"));
    let seeds: Vec<String> = allocs.iter().map(|alloc| alloc["grpc"].as_str().expect("a URL").to_owned()).collect();
    let driver = Driver::start(sdk);
    let uids: Vec<u64> = (0..10).map(|section| section * 100_000 + 7).collect();
    for coalesce in [true, false] {
        let client = driver.open_with(&seeds, json!({"coalesce": coalesce}));
        every_call(&client, &uids, sdk.has("advance"));
        client.burst(&uids, 2_000, 64).wait();
        let error = client.next(u64::MAX).unwrap_err();
        assert_eq!((&*error.kind, error.retryable), ("uid_outside", false), "{error:?}");
    }
    // The calls for a uid outside have no numbers.
    driver.end();
}

pub(super) fn damaged(sdk: &Sdk) {
    let cluster = Cluster::start(PROXIED);
    let driver = Driver::start(sdk);
    let edits = || cluster.proxies.iter().map(Proxy::edits).sum::<u64>();
    for (coalesce, edit) in
        [true, false].into_iter().flat_map(|coalesce| [Edit::Truncate, Edit::Oversize].map(|edit| (coalesce, edit)))
    {
        let client = driver.open_with(&cluster.seeds(), json!({"coalesce": coalesce}));
        let (uid, other) = (7, 7 + 5 * SECTION_SIZE);
        let damage = |what: &str, call: &dyn Fn()| {
            client.next_many(&[uid, other], &[]).unwrap();
            let is_reported = is_reported(&client, |responses| {
                let before = edits();
                cluster.proxies.iter().for_each(|proxy| proxy.edit_next(edit, responses));
                call();
                cluster.proxies.iter().for_each(|proxy| proxy.edit_next(edit, 0));
                assert!(edits() > before, "a response to {what} was damaged");
            });
            assert!(is_reported, "{what}, coalesce {coalesce}: no attempt was reported as lost after {edit:?}");
        };
        damage("next", &|| drop(client.next_n(uid, 3)));
        damage("next_many", &|| drop(client.next_many(&[uid, other], &[])));
        client.next_many(&[uid, other], &[]).unwrap();
    }
    driver.end();
}
