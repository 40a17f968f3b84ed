//! Every call of an SDK, and values that need all of their 64 bits.

use seq_client::fake::FakeSet;
use serde_json::json;

use crate::cluster::{Cluster, SECTION_SIZE, SECTIONS, Shape};
use crate::driver::{Client, Driver, Sdk};

/// Items of a batch of which each of two owners gets more than one request. Its uids are multiples of 4 in all
/// sections.
const LARGE_BATCH: u64 = SECTIONS * SECTION_SIZE / 4;
const _: () = assert!(LARGE_BATCH / 2 > seq_core::limits::MAX_ITEMS as u64);

pub(super) fn basics(sdk: &Sdk) {
    let cluster = Cluster::start(Shape::USUAL);
    let driver = Driver::start(sdk);
    // The batches before have no number of these uids.
    for (coalesce, uid) in [(true, 71), (false, 81)] {
        let client = driver.open_with(&cluster.seeds(), json!({"coalesce": coalesce}));
        numbers(&client, uid);
        batches(&client, uid);
        if sdk.has("advance") {
            advances(&client, uid);
        }
    }
    driver.end();
}

/// Requests and reads numbers of a uid that has none.
fn numbers(client: &Client<'_>, uid: u64) {
    let unused = client.current(uid).unwrap();
    assert_eq!((unused.value, unused.exact), (0, true), "{unused:?}");
    let mut last = 0;
    for count in [1, 1, 1_000_000, 1] {
        let given = client.next_n(uid, count).unwrap();
        assert_eq!((given.first, given.prev, given.lost), (last + 1, last, 0), "{given:?}");
        assert!(given.epoch > 0, "{given:?}");
        last = given.value;
    }
    let current = client.current(uid).unwrap();
    assert_eq!((current.value, current.exact), (last, true), "{current:?}");
}

/// Requests numbers of several uids at once, of which `uid` has numbers.
fn batches(client: &Client<'_>, uid: u64) {
    let (other, last) = (uid + 5 * SECTION_SIZE, client.current(uid).unwrap().value);
    let given = client.next_many(&[uid, other, uid], &[]).unwrap();
    let values: Vec<(u64, u64)> =
        given.iter().map(|item| item.as_ref().unwrap()).map(|one| (one.prev, one.value)).collect();
    assert_eq!(values, [(last, last + 1), (0, 1), (last + 1, last + 2)]);
    let given = client.next_many(&[uid, other], &[2, 3]).unwrap();
    let values: Vec<(u64, u64)> =
        given.iter().map(|item| item.as_ref().unwrap()).map(|one| (one.first, one.value)).collect();
    assert_eq!(values, [(last + 3, last + 4), (2, 4)]);

    let read = client.current_many(&[other, uid]).unwrap();
    let values: Vec<u64> = read.iter().map(|item| item.as_ref().unwrap().value).collect();
    assert_eq!(values, [4, last + 4]);

    assert_eq!(client.next_many(&[], &[]).unwrap(), []);
    assert_eq!(client.current_many(&[]).unwrap(), []);
    let uids: Vec<u64> = (0..LARGE_BATCH).map(|item| 4 * item).collect();
    let given = client.next_many(&uids, &[]).unwrap();
    assert!(given.iter().all(|item| item.as_ref().is_ok_and(|given| given.lost == 0)), "{given:?}");
}

fn advances(client: &Client<'_>, uid: u64) {
    let last = client.current(uid).unwrap().value;
    assert!(client.advance(uid, last + 1_000).unwrap() > 0);
    let given = client.next(uid).unwrap();
    assert_eq!((given.value, given.prev), (last + 1_001, 0), "{given:?}");
    let refused = client.advance(uid, last).unwrap_err();
    assert_eq!((&*refused.kind, &*refused.reason), ("refused", "ALREADY_PAST"), "{refused:?}");
    assert!(!refused.retryable && !refused.may_have_applied, "{refused:?}");
}

/// The first number that a double does not have.
const NO_DOUBLE: u64 = (1 << 53) + 1;

/// An odd number just below the largest target of an advance.
const MOST: u64 = seq_core::limits::MAX_ADVANCE - 1_000;

pub(super) fn bits(sdk: &Sdk) {
    let set = FakeSet { uids: NO_DOUBLE - 1_001..NO_DOUBLE + 1_000, ..FakeSet::default() };
    let server = set.start().pop().expect("one server");
    let driver = Driver::start(sdk);
    let client = driver.open(&[server.url()]);
    // As doubles, these two uids are equal.
    let (uid, neighbour) = (NO_DOUBLE, NO_DOUBLE - 1);
    assert_eq!(client.next_n(neighbour, 5).unwrap().value, 5);
    assert_eq!(client.next(uid).unwrap().value, 1);
    let both = client.next_many(&[neighbour, uid], &[]).unwrap();
    assert_eq!(both.iter().map(|item| item.as_ref().unwrap().value).collect::<Vec<_>>(), [6, 2]);
    for outside in [u64::MAX, NO_DOUBLE + 1_000] {
        let refused = client.next(outside).unwrap_err();
        assert_eq!(refused.kind, "uid_outside", "{refused:?}");
    }
    if sdk.has("advance") {
        for to in [NO_DOUBLE, MOST] {
            client.advance(uid, to).unwrap();
            let given = client.next_n(uid, 2).unwrap();
            assert_eq!((given.first, given.value), (to + 1, to + 2), "{given:?}");
            assert_eq!(client.next(uid).unwrap().prev, to + 2);
            assert_eq!(client.current(uid).unwrap().value, to + 3);
        }
    }
    driver.end();
}
