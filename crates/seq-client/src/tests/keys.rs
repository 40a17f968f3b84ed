//! Calls for many keys: one request to each owner, parts of large batches, and a separate result for every key.

use seq_core::keyspace::Bucket;
use seq_core::limits::{MAX_ITEMS, MAX_KEY_BYTES};
use seq_core::{Refusal, SectionId};

use crate::allocation::Allocation;
use crate::error::CallError;
use crate::fake::{FakeCluster, FakeServer};
use crate::keyspace::Keyspace;

use super::{client, servers, within};

const UNSERVED: Refusal = Refusal::Unserved { section: SectionId(0) };

/// Returns a handle of a keyspace whose buckets the servers own in turn.
pub(super) async fn keyspace(servers: &[FakeServer]) -> Keyspace {
    servers[0].create_keyspace("main");
    client(servers).await.keyspace("main").await.unwrap()
}

pub(super) fn requested(server: &FakeServer) -> Vec<Vec<String>> {
    let text = |key: Vec<u8>| String::from_utf8(key).unwrap();
    server.seen().into_iter().map(|seen| seen.keys.into_iter().map(text).collect()).collect()
}

fn values(results: &[Result<Allocation, CallError>]) -> Vec<Option<u64>> {
    results.iter().map(|result| result.as_ref().ok().map(|given| given.value)).collect()
}

fn reason(error: &CallError) -> &str {
    let CallError::Refused(refused) = error else { panic!("{error:?}") };
    &refused.reason
}

#[tokio::test]
async fn each_owner_gets_one_request_and_repeats_stay_in_order() {
    let servers = servers("a", 0..100, 2);
    let main = keyspace(&servers).await;
    // Sixteen neighbouring buckets have the same owner.
    let (one, other) = ("{123456789}", "{foo}");
    assert_ne!(Bucket::of(one.as_bytes()).index() / 16 % 2, Bucket::of(other.as_bytes()).index() / 16 % 2);
    let results = main.next_many(&[one, other, one, one]).await.unwrap();
    assert_eq!(values(&results), [Some(1), Some(1), Some(2), Some(3)]);
    let mut seen: Vec<_> = servers.iter().flat_map(requested).collect();
    seen.sort();
    assert_eq!(seen, [vec![one, one, one], vec![other]]);
    assert!(servers.iter().all(|server| server.seen()[0].epochs.iter().all(|epoch| *epoch == 1)));
    let read = main.current_many(&[other, one, "never"]).await.unwrap();
    assert_eq!(read.iter().map(|read| read.as_ref().unwrap().value).collect::<Vec<_>>(), [1, 3, 0]);
    assert!(main.next_many::<&str>(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_key_of_a_bad_size_refuses_its_own_item() {
    let servers = servers("a", 0..100, 2);
    let main = keyspace(&servers).await;
    let (longest, long) = ("k".repeat(MAX_KEY_BYTES), "k".repeat(MAX_KEY_BYTES + 1));
    let keys = ["", "a", &long, &longest, "a"];
    let results = main.next_many_n(&keys, 3).await.unwrap();
    assert_eq!(values(&results), [None, Some(3), None, Some(3), Some(6)]);
    let read = main.current_many(&keys).await.unwrap();
    for wrong in [0, 2] {
        let (given, read) = (results[wrong].as_ref().unwrap_err(), read[wrong].as_ref().unwrap_err());
        assert_eq!([reason(given), reason(read)], ["KEY_SIZE"; 2]);
        assert!(!given.may_have_applied() && !given.is_retryable(), "{given:?}");
    }
    assert_eq!(read[3].as_ref().unwrap().value, 3);
    let sent = servers.iter().flat_map(requested).count();
    assert_eq!(values(&main.next_many(&["", &long]).await.unwrap()), [None, None]);
    assert_eq!(servers.iter().flat_map(requested).count(), sent, "a batch without a good key sends nothing");
}

#[tokio::test]
async fn a_large_batch_is_sent_in_parts() {
    let servers = servers("a", 0..100, 1);
    let main = keyspace(&servers).await;
    let many: Vec<String> = (0..2 * MAX_ITEMS + 1).map(|key| format!("k{}", key % 7)).collect();
    let results = main.next_many(&many).await.unwrap();
    for (index, result) in results.iter().enumerate() {
        assert_eq!(result.as_ref().unwrap().value, 1 + index as u64 / 7, "each key's numbers are in order");
    }
    let parts = |from: usize| servers[0].seen()[from..].iter().map(|seen| seen.keys.len()).collect::<Vec<_>>();
    assert_eq!(parts(0), [MAX_ITEMS, MAX_ITEMS, 1]);
    // 256 keys of 512 bytes are 128 KiB.
    let long: Vec<String> = (0..600).map(|key| format!("{key:0width$}", width = MAX_KEY_BYTES)).collect();
    assert!(main.next_many(&long).await.unwrap().iter().all(|result| result.as_ref().unwrap().value == 1));
    assert!(main.current_many(&long).await.unwrap().iter().all(|result| result.as_ref().unwrap().value == 1));
    assert_eq!(parts(3), [256, 256, 88, 256, 256, 88]);
}

#[tokio::test]
async fn only_refused_items_are_sent_again() {
    let servers = servers("a", 0..100, 1);
    let main = keyspace(&servers).await;
    servers[0].refuse_key(b"b", [UNSERVED, UNSERVED]);
    servers[0].refuse_key(b"c", [Refusal::AlreadyPast { uid: seq_core::Uid(0) }]);
    let results = main.next_many(&["a", "b", "c"]).await.unwrap();
    assert_eq!(values(&results), [Some(1), Some(1), None]);
    assert_eq!(reason(results[2].as_ref().unwrap_err()), "ALREADY_PAST");
    assert_eq!(requested(&servers[0]), [vec!["a", "b", "c"], vec!["b"], vec!["b"]]);
}

#[tokio::test]
async fn keys_of_a_lost_owner_are_sent_to_another_node() {
    let servers = servers("a", 0..100, 2);
    let main = keyspace(&servers).await;
    let keys: Vec<String> = (0..50).map(|key| format!("k{key}")).collect();
    main.next_many(&keys).await.unwrap();
    servers[0].stop();
    let results = main.next_many(&keys).await.unwrap();
    assert_eq!(values(&results), vec![Some(2); keys.len()]);
    assert_eq!(main.next("k1").await.unwrap().value, 3);
}

#[tokio::test]
async fn a_moved_bucket_is_followed() {
    let servers = servers("a", 0..100, 2);
    let main = keyspace(&servers).await;
    for server in &servers {
        server.take_bucket_of("main", b"a");
        for value in 1..=3 {
            let given = main.next_many(&["a"]).await.unwrap().remove(0).unwrap();
            assert_eq!(given.value % 3, value % 3, "no number is skipped");
        }
        assert_eq!(server.seen().last().unwrap().keys, [b"a"]);
    }
}

#[tokio::test]
async fn a_bucket_that_moved_to_another_set_is_followed_at_once() {
    let sets = [("a", 1), ("b", 1)].map(|(name, servers)| (name.to_owned(), servers));
    let servers: Vec<_> =
        FakeCluster { uids: 0..100, section_size: 10, sets: sets.into() }.start().into_iter().flatten().collect();
    servers.iter().for_each(|server| server.forward_to_sets(false));
    let main = keyspace(&servers).await;
    servers[0].take_bucket_of("main", b"a");
    main.next("a").await.unwrap();
    servers[1].take_bucket_of("main", b"a");
    assert_eq!(within(main.next("a")).await.unwrap().value, 2);
    servers[0].take_bucket_of("main", b"a");
    let given = within(main.next_many(&["a", "a"])).await.unwrap();
    assert_eq!(values(&given), [Some(3), Some(4)]);
    assert_eq!(within(main.advance("a", 10)).await.unwrap(), 4);
    let unary = |server: &FakeServer| server.seen().iter().map(|seen| seen.method).collect::<Vec<_>>();
    assert_eq!(unary(&servers[0])[unary(&servers[0]).len() - 2..], ["NextKeys", "AdvanceKey"]);
}
