//! Keys of keyspaces: every call, and an owner that dies while keys are numbered.

use seq_core::limits::MAX_KEY_BYTES;
use seq_testkit::eventually;
use serde_json::json;

use super::faults::assert_none_failed;
use crate::call::CallError;
use crate::cluster::{Cluster, Shape};
use crate::driver::{Client, Driver, Key, Sdk};
use crate::load;

/// The keyspace of the rows.
const KEYSPACE: &str = "main";

/// Keys of a large batch, which are in the buckets of all owners.
const LARGE_BATCH: usize = 5_000;

pub(super) fn basic(sdk: &Sdk) {
    let mut cluster = Cluster::start(Shape::USUAL);
    let driver = Driver::start(sdk);
    // This client knows no keyspace when it is opened.
    let early = driver.open(&cluster.seeds());
    cluster.create_keyspace(KEYSPACE);
    // An SDK may wait for a second between two fetches of routes.
    let finds = || early.keyspace(KEYSPACE).current(Key::Text("early:conv:42")).ok();
    eventually("the early client finds the keyspace", finds);
    for (client, prefix) in [(early, "early:"), (driver.open(&cluster.seeds()), "late:")] {
        numbers(client, &format!("{prefix}conv:42"));
        batches(client, prefix);
        bytes(client, prefix);
        refused(client, prefix);
    }
    driver.end();
}

/// Requests, reads and raises the numbers of a key that has none.
fn numbers(client: Client<'_>, key: &str) {
    let (keyspace, key) = (client.keyspace(KEYSPACE), Key::Text(key));
    let unused = keyspace.current(key).unwrap();
    assert_eq!((unused.value, unused.exact), (0, true), "{unused:?}");
    let mut last = 0;
    for count in [1, 1, 1_000, 1] {
        let given = keyspace.next_n(key, count).unwrap();
        assert_eq!((given.first, given.prev, given.lost), (last + 1, last, 0), "{given:?}");
        assert!(given.epoch > 0, "{given:?}");
        last = given.value;
    }
    let current = keyspace.current(key).unwrap();
    assert_eq!((current.value, current.exact), (last, true), "{current:?}");
    assert!(keyspace.advance(key, last + 1_000).unwrap() > 0);
    let given = keyspace.next(key).unwrap();
    assert_eq!((given.value, given.prev), (last + 1_001, 0), "{given:?}");
    let past = keyspace.advance(key, last).unwrap_err();
    assert_eq!((&*past.kind, &*past.reason), ("refused", "ALREADY_PAST"), "{past:?}");
    assert!(!past.retryable && !past.may_have_applied, "{past:?}");
}

/// Requests and reads numbers of several keys at once, one of them twice.
fn batches(client: Client<'_>, prefix: &str) {
    let keyspace = client.keyspace(KEYSPACE);
    let [one, other] = ["one", "other"].map(|name| format!("{prefix}{name}"));
    let (one, other) = (Key::Text(&one), Key::Text(&other));
    let given = keyspace.next_many(&[one, other, one], 1).unwrap();
    let values: Vec<(u64, u64)> =
        given.iter().map(|item| item.as_ref().unwrap()).map(|one| (one.prev, one.value)).collect();
    assert_eq!(values, [(0, 1), (0, 1), (1, 2)]);
    let given = keyspace.next_many(&[other, one], 3).unwrap();
    let values: Vec<(u64, u64)> =
        given.iter().map(|item| item.as_ref().unwrap()).map(|one| (one.first, one.value)).collect();
    assert_eq!(values, [(2, 4), (3, 5)]);
    let read = keyspace.current_many(&[one, other]).unwrap();
    assert_eq!(read.iter().map(|item| item.as_ref().unwrap().value).collect::<Vec<_>>(), [5, 4]);
    assert_eq!(keyspace.next_many(&[], 1).unwrap(), []);
    assert_eq!(keyspace.current_many(&[]).unwrap(), []);
    let many: Vec<String> = (0..LARGE_BATCH).map(|item| format!("{prefix}many:{item}")).collect();
    let many: Vec<Key<'_>> = many.iter().map(|key| Key::Text(key)).collect();
    let given = keyspace.next_many(&many, 1).unwrap();
    assert!(given.iter().all(|item| item.as_ref().is_ok_and(|given| given.lost == 0 && given.value == 1)), "{given:?}");
}

/// Numbers keys of bytes. A text and its UTF-8 are the same key.
fn bytes(client: Client<'_>, prefix: &str) {
    let keyspace = client.keyspace(KEYSPACE);
    let keys =
        [&b"\xff\x00"[..], b" ", b"\r\n", "\u{fc}".as_bytes(), b"{tag}\0"].map(|end| [prefix.as_bytes(), end].concat());
    let longest = vec![prefix.as_bytes()[0]; MAX_KEY_BYTES];
    let keys: Vec<Key<'_>> = keys.iter().chain([&longest]).map(|key| Key::Bytes(key)).collect();
    for value in [1, 2] {
        let given = keyspace.next_many(&keys, 1).unwrap();
        let values: Vec<u64> = given.iter().map(|item| item.as_ref().unwrap().value).collect();
        assert_eq!(values, vec![value; keys.len()]);
    }
    assert_eq!(keyspace.next(keys[0]).unwrap().value, 3);
    let text = format!("{prefix}\u{fc}");
    assert_eq!(keyspace.next(Key::Text(&text)).unwrap().value, 3, "a text and its UTF-8 are the same key");
    assert_eq!(keyspace.current(keys[3]).unwrap().value, 3);
    assert!(keyspace.advance(keys[0], 100).unwrap() > 0);
    assert_eq!(keyspace.next(keys[0]).unwrap().value, 101);
}

/// Calls that change nothing, and that no retry changes.
fn refused(client: Client<'_>, prefix: &str) {
    let check = |error: CallError, reason: &str, code: &str| {
        let found = (&*error.kind, &*error.reason, &*error.code);
        assert_eq!(found, ("refused", reason, code), "{error:?}");
        assert!(!error.retryable && !error.may_have_applied && !error.message.is_empty(), "{error:?}");
    };
    let (keyspace, good) = (client.keyspace(KEYSPACE), format!("{prefix}good"));
    let (long, long_text) = (vec![0xff; MAX_KEY_BYTES + 1], "\u{fc}".repeat(MAX_KEY_BYTES / 2 + 1));
    let good = Key::Text(&good);
    let mut last = 0;
    for wrong in [Key::Text(""), Key::Bytes(b""), Key::Bytes(&long), Key::Text(&long_text)] {
        let size = |error| check(error, "KEY_SIZE", "INVALID_ARGUMENT");
        size(keyspace.next(wrong).unwrap_err());
        size(keyspace.current(wrong).unwrap_err());
        size(keyspace.advance(wrong, 5).unwrap_err());
        // A wrong key refuses its own item of a batch.
        let mut given = keyspace.next_many(&[good, wrong, good], 1).unwrap();
        size(given.remove(1).unwrap_err());
        let values: Vec<u64> = given.into_iter().map(|item| item.unwrap().value).collect();
        assert_eq!(values, [last + 1, last + 2]);
        last += 2;
        let mut read = keyspace.current_many(&[wrong, good]).unwrap();
        size(read.remove(0).unwrap_err());
        assert_eq!(read.remove(0).unwrap().value, last);
        keyspace.next_many(&[wrong, wrong], 1).unwrap().into_iter().for_each(|item| size(item.unwrap_err()));
    }
    for count in [0, 1_000_001] {
        let error = keyspace.next_n(good, count).unwrap_err();
        assert_eq!((&*error.kind, error.retryable, error.may_have_applied), ("count", false, false), "{error:?}");
    }
    let none = client.keyspace("none");
    for error in [
        none.next(Key::Text("a")).unwrap_err(),
        none.current(Key::Text("a")).unwrap_err(),
        none.next_many(&[Key::Text("a")], 1).unwrap_err(),
    ] {
        check(error, "UNKNOWN_KEYSPACE", "NOT_FOUND");
    }
}

pub(super) fn owner_dies(sdk: &Sdk) {
    let mut cluster = Cluster::start(Shape::USUAL);
    cluster.create_keyspace(KEYSPACE);
    let driver = Driver::start(sdk);
    let client = driver.open_with(&cluster.seeds(), json!({}));
    // The keys of these uids are in buckets of both owners.
    let uids: Vec<u64> = (0..32).collect();
    load::of_keys(client, KEYSPACE, &uids, |load| {
        for victim in 0..Shape::USUAL.allocs {
            cluster.allocs[usize::from(victim)].kill();
            load.wait_served();
            cluster.restart(victim);
            // The other owner is killed next.
            cluster.wait_owning();
            load.wait_served();
        }
    });
    assert_none_failed(&driver, 0);
    driver.end();
}
