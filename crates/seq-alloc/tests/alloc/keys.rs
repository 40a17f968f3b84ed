//! Keys: counters that are added while they are used, forwarded by their hashes, handed over exactly, and above all
//! earlier numbers after a takeover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use seq_alloc::AllocOptions;
use seq_api::keys::{HashedKey, KeyedItem, KeyedItems, Keyspace};
use seq_api::service::{Allocation, Call, Current, SequenceService};
use seq_core::keyspace::{BUCKETS, Bucket};
use seq_core::{Count, Epoch, Refusal, Seq, Target};
use seq_proto::v1;
use seq_proto::v1::key_owner_service_client::KeyOwnerServiceClient;
use seq_proto::v1::key_service_client::KeyServiceClient;
use tokio::task::JoinSet;

use crate::world::{Node, PATIENCE, World, call, given, impatient, quick, until};

/// Number of buckets that each of two nodes owns.
const HALF: u32 = BUCKETS as u32 / 2;

/// Number of buckets that are handed over.
const MOVED: u32 = 64;

/// Starts two nodes, each with half of the buckets of a keyspace.
async fn start(set: &str) -> (World, Node, Node, Arc<Keyspace>) {
    start_with(set, quick()).await
}

async fn start_with(set: &str, options: AllocOptions) -> (World, Node, Node, Arc<Keyspace>) {
    let world = World::of(set);
    let buckets = world.store.create_keyspace("main", [7; 16]);
    let middle = buckets.start + HALF;
    let one = world.start_owning_with("a1", buckets.start..middle, options).await;
    let two = world.start_owning_with("a2", middle..buckets.end, options).await;
    world.routed(&[&one, &two]).await;
    let keyspace = one.allocator.keyspace("main").unwrap();
    (world, one, two, keyspace)
}

/// Returns the first `count` keys whose buckets are among these.
fn keys(count: usize, buckets: std::ops::Range<u32>) -> Vec<String> {
    let names = (0..).map(|number| format!("conv:{number}"));
    names.filter(|name| buckets.contains(&Bucket::of(name.as_bytes()).index().into())).take(count).collect()
}

fn items(keyspace: &Keyspace, keys: &[(&str, u32)]) -> KeyedItems {
    let item = |(key, count): &(&str, u32)| {
        let (key, count) = (keyspace.locate(key.as_bytes()).unwrap(), Count::new(*count).unwrap());
        KeyedItem { key, count, epoch: Epoch(0) }
    };
    KeyedItems { digest: keyspace.hashing.digest(), items: keys.iter().map(item).collect() }
}

async fn next_in(node: &Node, call: Call, keyspace: &Keyspace, key: &str) -> Result<Allocation, Refusal> {
    node.allocator.next_keys(call, items(keyspace, &[(key, 1)])).await.remove(0)
}

async fn next(node: &Node, keyspace: &Keyspace, key: &str) -> Allocation {
    next_in(node, call(), keyspace, key).await.unwrap()
}

async fn current(node: &Node, keyspace: &Keyspace, key: &str) -> (u64, bool) {
    let Current { reading, .. } =
        node.allocator.current_keys(call(), items(keyspace, &[(key, 1)])).await.remove(0).unwrap();
    (reading.value.0, reading.exact)
}

async fn advance(node: &Node, keyspace: &Keyspace, key: &str, to: u64) -> Result<Epoch, Refusal> {
    let to = Target::new(to).unwrap();
    node.allocator.advance_keys(call(), items(keyspace, &[(key, 1)]), to).await.remove(0)
}

#[tokio::test]
async fn each_key_has_its_own_numbers_at_every_node() {
    let (_world, one, two, keyspace) = start("test").await;
    let [here, there] = [keys(1, 0..HALF), keys(1, HALF..2 * HALF)].map(|mut keys| keys.remove(0));
    for key in [&here, &there] {
        assert_eq!(current(&one, &keyspace, key).await, (0, true), "it never had a number");
        assert_eq!(next(&one, &keyspace, key).await, given(1, 0, 1));
        assert_eq!(next(&two, &keyspace, key).await, given(2, 1, 1));
        assert_eq!(current(&two, &keyspace, key).await, (2, true));
        assert_eq!(advance(&two, &keyspace, key, 5).await, Ok(Epoch(1)));
        assert_eq!(current(&one, &keyspace, key).await, (5, true));
        assert!(matches!(advance(&one, &keyspace, key, 4).await, Err(Refusal::AlreadyPast { .. })));
        let far = advance(&one, &keyspace, key, 1 << 40).await;
        assert!(matches!(far, Err(Refusal::AdvanceTooFar { .. })), "{far:?}");
        assert_eq!(next(&one, &keyspace, key).await, given(6, 0, 1), "no call took 5");
    }
    let both = [(here.as_str(), 1), (there.as_str(), 3), (here.as_str(), 2), ("other", 1)];
    let taken = one.allocator.next_keys(call(), items(&keyspace, &both)).await;
    let values: Vec<u64> = taken.into_iter().map(|taken| taken.unwrap().value.0).collect();
    assert_eq!(values, [7, 9, 9, 1], "a key that occurs twice gets numbers in order");
    let read = two.allocator.current_keys(call(), items(&keyspace, &both)).await;
    let values: Vec<u64> = read.into_iter().map(|read| read.unwrap().reading.value.0).collect();
    assert_eq!(values, [9, 9, 9, 1]);
}

/// All keys have one bucket, which grows again and again while they are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_grows_while_its_keys_are_used_and_nobody_is_refused() {
    let (_world, one, two, keyspace) = start("test").await;
    let keys: Vec<String> = (0..300).map(|number| format!("{{conv}}:{number}")).collect();
    let caller = |node: &Node, turn: usize| {
        let (allocator, keyspace, keys) = (node.allocator.clone(), keyspace.clone(), keys.clone());
        async move {
            let mut taken = Vec::new();
            for index in 0..keys.len() {
                let key = &keys[(index * 7 + turn * 31) % keys.len()];
                let given = allocator.next_keys(call(), items(&keyspace, &[(key.as_str(), 1)])).await.remove(0);
                taken.push((key.clone(), given.unwrap().value.0));
            }
            taken
        }
    };
    let callers: JoinSet<_> = (0..4).map(|turn| caller(if turn % 2 == 0 { &one } else { &two }, turn)).collect();
    let mut taken: Vec<(String, u64)> = callers.join_all().await.into_iter().flatten().collect();
    taken.sort();
    let expected: Vec<(String, u64)> = {
        let mut keys = keys.clone();
        keys.sort();
        keys.into_iter().flat_map(|key| (1..=4).map(move |value| (key.clone(), value))).collect()
    };
    assert_eq!(taken, expected, "each key has each of its numbers once, without a gap");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_keys_go_on_exactly_across_a_move() {
    let (world, one, two, keyspace) = start("test").await;
    let keys = keys(20, 0..MOVED);
    let done = AtomicBool::new(false);
    let caller = |node: &Node, key: &str| {
        let (allocator, done, keyspace, key) = (node.allocator.clone(), &done, keyspace.clone(), key.to_owned());
        async move {
            let mut last = 0;
            while !done.load(SeqCst) {
                let taken = allocator.next_keys(call(), items(&keyspace, &[(&key, 1)])).await.remove(0).unwrap();
                assert_eq!((taken.value.0, taken.prev.0), (last + 1, last), "key {key}");
                last += 1;
            }
            last
        }
    };
    let callers = keys.iter().enumerate().map(|(turn, key)| caller(if turn % 2 == 0 { &one } else { &two }, key));
    let operator = async {
        until("numbers go", || one.allocator.status().allocations > 200).await;
        let first = keyspace.buckets.first.0;
        world.store.plan(first..first + MOVED, "a2");
        until("the buckets are moved", || two.allocator.status().sections == HALF + MOVED).await;
        let before = two.allocator.status().allocations;
        until("numbers go on", || two.allocator.status().allocations > before + 200).await;
        done.store(true, SeqCst);
    };
    let (lasts, ()) = join(join_all(callers), operator).await;
    for (key, last) in keys.iter().zip(lasts) {
        assert!(last > 0);
        assert_eq!(current(&one, &keyspace, key).await, (last, true), "key {key}");
    }
    let never = other_of_bucket(&keyspace, &keys[0]);
    assert_eq!(current(&two, &keyspace, &never).await, (0, true), "the floor of the copy is 0");
}

/// Returns another key that is in the bucket of `key`.
fn other_of_bucket(keyspace: &Keyspace, key: &str) -> String {
    let section = |key: &str| keyspace.locate(key.as_bytes()).unwrap().section;
    let other = (0..).map(|number| format!("other:{number}")).find(|other| section(other) == section(key));
    other.expect("there are infinitely many keys")
}

#[tokio::test]
async fn after_a_takeover_keys_continue_above_the_ceiling() {
    let (world, one, two, keyspace) = start("test").await;
    let key = keys(1, 0..HALF).remove(0);
    assert_eq!(next(&two, &keyspace, &key).await, given(1, 0, 1));
    one.group.shutdown(PATIENCE).await.unwrap();
    let section = keyspace.locate(key.as_bytes()).unwrap().section;
    world.store.assign("a2", [section.0]);
    until("the bucket is taken over", || two.allocator.status().sections == HALF + 1).await;
    let ceiling = world.store.ceiling(section.0);
    assert!(ceiling >= Seq(1));
    assert_eq!(current(&two, &keyspace, &key).await, (ceiling.0, false), "it may have any number up to the ceiling");
    assert!(matches!(advance(&two, &keyspace, &key, ceiling.0).await, Err(Refusal::AlreadyPast { .. })));
    assert_eq!(next(&two, &keyspace, &key).await, given(ceiling.0 + 1, 0, 2));
    assert!(world.store.ceiling(section.0) > ceiling);
}

#[tokio::test]
async fn a_leaving_node_keeps_its_keys_in_the_store() {
    let world = World::of("test");
    let buckets = world.store.create_keyspace("main", [7; 16]);
    let bucket = u32::from(Bucket::of(b"conv:42").index());
    let sections = buckets.start + bucket..buckets.start + bucket + 1;
    let node = world.start_owning("a1", sections.clone()).await;
    let keyspace = node.allocator.keyspace("main").unwrap();
    for number in 1..=3 {
        assert_eq!(next(&node, &keyspace, "conv:42").await, given(number, number - 1, 1));
    }
    assert!(node.allocator.drain(PATIENCE).await);
    let again = world.start_owning("a2", sections).await;
    // The release of the bucket and its new owner are two changes of owner.
    assert_eq!(next(&again, &keyspace, "conv:42").await, given(4, 3, 3));
}

#[tokio::test]
async fn at_the_limit_new_keys_are_refused_and_keys_with_a_counter_served() {
    let (_world, one, two, keyspace) = start_with("test", AllocOptions { max_keys: 20, ..quick() }).await;
    let keys = keys(40, 0..HALF);
    let mut served = Vec::new();
    for key in &keys {
        match next_in(&two, call(), &keyspace, key).await {
            Ok(taken) => served.push((key, taken)),
            Err(refusal) => {
                let section = keyspace.locate(key.as_bytes()).unwrap().section;
                assert_eq!(refusal, Refusal::KeysExhausted { section });
            }
        }
    }
    assert_eq!(served.len(), 2, "each of two buckets has room for seven keys");
    for (key, taken) in served {
        assert_eq!(next(&one, &keyspace, key).await, given(2, taken.value.0, 1));
        assert_eq!(next(&one, &keyspace, key).await, given(3, 2, 1));
    }
}

/// The counter of a key that is used all the time stays exact while others make room.
#[tokio::test]
async fn unused_counters_are_evicted_for_keys_that_get_no_room() {
    let options = AllocOptions { max_keys: 20, key_idle: Duration::from_secs(1), ..quick() };
    let (_world, one, _two, keyspace) = start_with("test", options).await;
    let keys = keys(3, 0..HALF);
    let [hot, cold, new] = [&keys[0], &keys[1], &keys[2]];
    for number in 1..=5 {
        assert_eq!(next(&one, &keyspace, cold).await, given(number, number - 1, 1));
    }
    let mut last = 0;
    let began = Instant::now();
    let served = loop {
        assert!(began.elapsed() < PATIENCE, "the new key is refused forever");
        assert_eq!(next(&one, &keyspace, hot).await, given(last + 1, last, 1));
        last += 1;
        match next_in(&one, call(), &keyspace, new).await {
            Ok(taken) => break taken,
            Err(refusal) => assert!(matches!(refusal, Refusal::KeysExhausted { .. }), "{refusal}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((served.value, served.prev), (Seq(1), Seq(0)));
    assert_eq!(current(&one, &keyspace, hot).await, (last, true));
    let evicted = current(&one, &keyspace, cold).await;
    assert_eq!(evicted, (5, false), "the floor is the number of the evicted key");
    assert_eq!(next(&one, &keyspace, hot).await, given(last + 1, last, 1));
}

/// A request with hashes under another seed is refused, as it would give a key a second counter.
#[tokio::test]
async fn hashes_under_another_seed_are_not_served() {
    let (_world, one, _two, keyspace) = start("test").await;
    let key = keys(1, 0..HALF).remove(0);
    let mut other = items(&keyspace, &[(&key, 1)]);
    other.digest += 1;
    let section = other.items[0].key.section;
    let refused = one.allocator.next_keys(impatient(), other).await.remove(0);
    assert_eq!(refused, Err(Refusal::Unserved { section }));
    let mut elsewhere = items(&keyspace, &[(&key, 1)]);
    elsewhere.items[0].key = HashedKey { section: seq_core::SectionId(0), ..elsewhere.items[0].key };
    let refused = one.allocator.next_keys(impatient(), elsewhere).await.remove(0);
    assert_eq!(refused, Err(Refusal::Unserved { section: seq_core::SectionId(0) }), "a section of uids");
    assert_eq!(current(&one, &keyspace, &key).await, (0, true));
}

fn reason(status: &tonic::Status) -> String {
    seq_proto::status::reason(status).unwrap_or_default()
}

#[tokio::test]
async fn the_service_checks_keys_and_keyspaces() {
    let (_world, one, two, _) = start("test").await;
    let mut client = KeyServiceClient::connect(format!("http://{}", one.addr)).await.unwrap();
    let request = |keyspace: &str, key: &str, raw_key: &[u8]| v1::NextKeyRequest {
        keyspace: keyspace.to_owned(),
        key: key.to_owned(),
        raw_key: raw_key.to_vec(),
        ..v1::NextKeyRequest::default()
    };
    let response = client.next(request("main", "conv:42", b"")).await.unwrap().into_inner();
    assert_eq!((response.value, response.prev, response.epoch), (1, 0, 1));
    let response = client.next(request("main", "", b"conv:42")).await.unwrap().into_inner();
    assert_eq!((response.value, response.prev), (2, 1), "its bytes are the same key");
    let long = "k".repeat(513);
    for (keyspace, key, raw_key, expected) in [
        ("main", "", &b""[..], "KEY_SIZE"),
        ("main", long.as_str(), b"", "KEY_SIZE"),
        ("main", "a", b"a", "MALFORMED"),
        ("", "a", b"", "UNKNOWN_KEYSPACE"),
        ("other", "a", b"", "UNKNOWN_KEYSPACE"),
    ] {
        let refused = client.next(request(keyspace, key, raw_key)).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{keyspace:?} {key:?}");
    }
    let keys = vec!["conv:42".to_owned(), "conv:43".to_owned()];
    let many = v1::NextKeysRequest {
        keyspace: "main".to_owned(),
        keys: keys.clone(),
        counts: vec![1, 1_000_001],
        ..v1::NextKeysRequest::default()
    };
    let response = client.next_many(many.clone()).await.unwrap().into_inner();
    assert_eq!((response.values, response.prevs), (vec![3, 0], vec![2, 0]));
    assert_eq!((response.errors[0].index, response.errors[0].reason.as_str()), (1, "COUNT_OUT_OF_RANGE"));
    for (many, expected) in [
        (v1::NextKeysRequest { keys: Vec::new(), ..many.clone() }, "EMPTY_BATCH"),
        (v1::NextKeysRequest { counts: vec![1], ..many.clone() }, "COUNTS_MISMATCH"),
        (v1::NextKeysRequest { raw_keys: vec![b"a".to_vec()], ..many.clone() }, "MALFORMED"),
    ] {
        let refused = client.next_many(many).await.unwrap_err();
        assert_eq!(reason(&refused), expected);
    }
    let mut other = KeyServiceClient::connect(format!("http://{}", two.addr)).await.unwrap();
    let read = v1::CurrentKeysRequest { keyspace: "main".to_owned(), keys, ..v1::CurrentKeysRequest::default() };
    let response = other.current_many(read).await.unwrap().into_inner();
    assert_eq!((response.values, response.exactness), (vec![3, 0], vec![1, 1]));
    let advance = v1::AdvanceKeyRequest {
        keyspace: "main".to_owned(),
        key: "conv:43".to_owned(),
        to: Some(8),
        ..v1::AdvanceKeyRequest::default()
    };
    assert_eq!(other.advance(advance.clone()).await.unwrap().into_inner().epoch, 1);
    let read = v1::CurrentKeyRequest {
        keyspace: "main".to_owned(),
        key: "conv:43".to_owned(),
        ..v1::CurrentKeyRequest::default()
    };
    assert_eq!(client.current(read).await.unwrap().into_inner().value, 8);
    let refused = client.advance(v1::AdvanceKeyRequest { to: Some(7), ..advance.clone() }).await.unwrap_err();
    assert_eq!(reason(&refused), "ALREADY_PAST");
    assert!(refused.message().contains("key \"conv:43\""), "{refused:?}");
    let refused = client.advance(v1::AdvanceKeyRequest { to: None, ..advance }).await.unwrap_err();
    assert_eq!(reason(&refused), "TO_MISSING");
}

#[tokio::test]
async fn malformed_hashes_are_refused() {
    let (_world, one, _two, keyspace) = start("test").await;
    let mut client = KeyOwnerServiceClient::connect(format!("http://{}", one.addr)).await.unwrap();
    let key = keys(1, 0..HALF).remove(0);
    let HashedKey { section, hash } = keyspace.locate(key.as_bytes()).unwrap();
    let sound = v1::HashedKeysRequest {
        digest: keyspace.hashing.digest(),
        sections: vec![section.0],
        hashes: hash.to_bytes().to_vec(),
        hops: 1,
        ..v1::HashedKeysRequest::default()
    };
    let response = client.next_hashed(sound.clone()).await.unwrap().into_inner();
    assert_eq!(response.values, [1]);
    for (bad, expected) in [
        (v1::HashedKeysRequest { hops: 0, ..sound.clone() }, "MALFORMED"),
        (v1::HashedKeysRequest { hops: 3, ..sound.clone() }, "TOO_MANY_HOPS"),
        (v1::HashedKeysRequest { hashes: vec![1; 15], ..sound.clone() }, "MALFORMED"),
        (v1::HashedKeysRequest { hashes: vec![1; 32], ..sound.clone() }, "MALFORMED"),
        (v1::HashedKeysRequest { hashes: vec![0; 16], ..sound.clone() }, "MALFORMED"),
        (v1::HashedKeysRequest { sections: Vec::new(), hashes: Vec::new(), ..sound.clone() }, "EMPTY_BATCH"),
    ] {
        let refused = client.next_hashed(bad).await.unwrap_err();
        assert_eq!(reason(&refused), expected);
    }
    let both =
        v1::HashedKeysRequest { sections: vec![section.0; 2], hashes: [hash.to_bytes(); 2].concat(), ..sound.clone() };
    let refused = client.advance_hashed(v1::AdvanceHashedRequest { key: Some(both), to: 9 }).await.unwrap_err();
    assert_eq!(reason(&refused), "MALFORMED");
    assert_eq!(current(&one, &keyspace, &key).await, (1, true));
}

/// A bucket changes its owner by handovers and by takeovers, while new keys make it grow at both nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_moves_while_it_grows_gives_no_number_twice() {
    const MOVES: usize = 30;
    const MOST_KEYS: usize = 5_000;
    let (world, one, two, keyspace) = start("test").await;
    let section = keyspace.locate(b"{conv}").unwrap().section.0;
    let done = Arc::new(AtomicBool::new(false));
    let caller = |node: &Node, seed: u64| {
        let (allocator, keyspace, done) = (node.allocator.clone(), keyspace.clone(), done.clone());
        async move {
            let (mut random, mut taken) = (fastrand::Rng::with_seed(seed), Vec::new());
            while !done.load(SeqCst) {
                // The number of keys rises, so that there are new keys all the time.
                let key = random.usize(0..(10 + taken.len() / 4).min(MOST_KEYS));
                let keys = items(&keyspace, &[(&format!("{{conv}}:{key}"), 1)]);
                match allocator.next_keys(call(), keys).await.remove(0) {
                    Ok(given) => taken.push((key, given.value.0)),
                    // The node did not know that the bucket has left.
                    Err(
                        Refusal::OwnerTimedOut { .. }
                        | Refusal::OwnerConnectionLost { .. }
                        | Refusal::StaleEpoch { .. },
                    ) => {}
                    Err(refusal) => panic!("{refusal:?}"),
                }
                // The owner gives most numbers at once. Without a pause, its callers would keep both threads of the
                // runtime, and no renewal and no handover would advance.
                tokio::task::yield_now().await;
            }
            taken
        }
    };
    let callers: JoinSet<_> =
        [&one, &two, &one, &two].into_iter().zip(1..).map(|(node, seed)| caller(node, seed)).collect();
    let allocations = || one.allocator.status().allocations + two.allocator.status().allocations;
    for turn in 0..MOVES {
        let (before, to) = (allocations(), ["a1", "a2"][turn % 2]);
        until("numbers go on", || allocations() > before + 50).await;
        let epoch = world.store.epoch(section);
        if turn % 3 == 0 {
            world.store.assign(to, [section]);
        } else {
            world.store.plan(section..section + 1, to);
        }
        until("the bucket moves", || world.store.owner(section).as_deref() == Some(to)).await;
        assert!(world.store.epoch(section) > epoch, "it moved");
    }
    done.store(true, SeqCst);
    let taken = callers.join_all().await.into_iter().flatten();
    let (mut seen, mut highest) = (std::collections::BTreeSet::new(), 0);
    for (key, value) in taken {
        assert!(seen.insert((key, value)), "key {key} got {value} twice");
        highest = highest.max(key);
    }
    assert!(highest > 100, "the bucket has grown: {highest} keys");
}
