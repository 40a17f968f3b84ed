//! Several sets of one cluster: sections that move between them under load, sets with old routes, and a set that is
//! down.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::error::CallError;
use crate::fake::{FakeCluster, FakeServer};
use crate::{Allocation, Client};

use super::{TIMEOUT, client, requested, seeds, within};

/// Starts the sets a, b, .. with two servers and 100 uids each, in sections of 10.
fn sets(count: u64) -> Vec<Vec<FakeServer>> {
    let name = |set: u64| (char::from(b'a' + set as u8).to_string(), 2);
    FakeCluster { uids: 0..count * 100, section_size: 10, sets: (0..count).map(name).collect() }.start()
}

fn values(results: &[Result<Allocation, CallError>]) -> Vec<Option<u64>> {
    results.iter().map(|result| result.as_ref().ok().map(|answer| answer.value)).collect()
}

fn total(server: &FakeServer) -> usize {
    server.seen().len()
}

#[tokio::test]
async fn one_seed_reaches_all_sets() {
    let sets = sets(3);
    let client = client([&sets[0][1]]).await;
    let uids = [5, 105, 205, 115, 5];
    assert_eq!(values(&client.next_many(&uids).await.unwrap()), [1, 1, 1, 1, 2].map(Some));
    // The first request to each set fetched its routes: every later request goes to the owner.
    let before: Vec<Vec<usize>> = sets.iter().map(|set| set.iter().map(total).collect()).collect();
    for uid in [105, 205] {
        assert_eq!(client.next(uid).await.unwrap().value, 2);
    }
    let after: Vec<Vec<usize>> = sets.iter().map(|set| set.iter().map(total).collect()).collect();
    assert_eq!(after[0], before[0]);
    for set in 1..3 {
        assert_eq!([after[set][0] - before[set][0], after[set][1] - before[set][1]], [1, 0], "set {set}");
        let versions = sets[set].iter().flat_map(FakeServer::seen).map(|seen| seen.route_version);
        assert_eq!(versions.filter(|version| *version == Some(0)).count(), 1, "one request for the whole table");
    }
    assert!(client.known_uids().into_iter().eq(std::iter::once(0..300)));
}

#[tokio::test]
async fn seeds_of_several_sets_share_one_table() {
    let sets = sets(2);
    let client = client([&sets[0][0], &sets[1][0]]).await;
    assert!(client.known_uids().into_iter().eq(std::iter::once(0..200)));
    for (uid, server) in [(5, &sets[0][0]), (15, &sets[0][1]), (105, &sets[1][0]), (115, &sets[1][1])] {
        client.next(uid).await.unwrap();
        assert_eq!(requested(server), [[uid]]);
    }
}

#[tokio::test]
async fn a_section_that_moved_is_followed_without_a_gap() {
    let sets = sets(2);
    let client = client([&sets[0][0], &sets[1][0]]).await;
    client.next(5).await.unwrap();
    sets[0][0].forward_to_sets(false);
    sets[1][1].take_section_of(5);
    let next = client.next(5).await.unwrap();
    assert_eq!((next.value, next.prev, next.epoch, next.lost), (2, 1, 2, 0));
    // The refusal names the set, not the owner in it: any node of that set serves the call.
    assert_eq!(sets[1].iter().flat_map(requested).collect::<Vec<_>>(), [[5]], "the refusal names the owner's set");
    // In a batch with items that stay, and back.
    sets[0][1].take_section_of(5);
    sets[1][0].forward_to_sets(false);
    sets[0][0].forward_to_sets(true);
    assert_eq!(values(&client.next_many(&[5, 105, 6]).await.unwrap()), [Some(3), Some(1), Some(1)]);
    assert_eq!(client.next(5).await.unwrap().epoch, 3);
    let read = client.current_many(&[5, 105]).await.unwrap();
    assert_eq!(read.into_iter().map(|read| read.unwrap().value).collect::<Vec<_>>(), [4, 1]);
}

#[tokio::test]
async fn a_set_with_old_routes_takes_nothing_back() {
    let sets = sets(3);
    let client = client([&sets[0][0], &sets[1][0], &sets[2][0]]).await;
    sets[2][0].learn_moves(false);
    sets[1][0].take_section_of(5);
    client.next(5).await.unwrap();
    assert_eq!(client.next(5).await.unwrap().epoch, 2);
    // That set's routes in a newer version, with the claim that the section is in the first set.
    sets[2][1].take_section_of(205);
    client.next(205).await.unwrap();
    let before = total(&sets[1][0]);
    assert_eq!(client.next(5).await.unwrap().value, 3);
    assert_eq!(total(&sets[1][0]), before + 1, "it still goes to the owner");
}

#[tokio::test]
async fn every_number_is_consecutive_while_sections_move_between_sets() {
    const CALLS: u64 = 300;
    let sets = sets(3);
    // One set has old routes, another does not forward: both occur during moves.
    sets[1][0].learn_moves(false);
    sets[2][0].forward_to_sets(false);
    let client = client([&sets[0][0], &sets[2][0]]).await;
    let uids = [5, 15, 105, 115, 205, 215];
    let single = join_all(uids.map(|uid| {
        let client = client.clone();
        async move {
            for value in 1..=CALLS {
                let next = client.next(uid).await.unwrap();
                assert_eq!((next.value, next.prev, next.lost), (value, value - 1, 0), "uid {uid}");
                assert!(client.current(uid).await.unwrap().value >= value);
            }
        }
    }));
    let batches = async {
        let uids = uids.map(|uid| uid + 1);
        for value in 1..=CALLS {
            assert_eq!(values(&client.next_many(&uids).await.unwrap()), [Some(value); 6]);
        }
    };
    let moves = async {
        let mut epochs = BTreeMap::<u64, u64>::new();
        for round in 0_usize.. {
            for (index, uid) in uids.into_iter().enumerate() {
                // A successful call for the section shows that the load goes on.
                let epoch = client.next(uid + 2).await.unwrap().epoch;
                assert!(epochs.insert(uid, epoch).is_none_or(|before| before <= epoch));
                sets[(round + index) % 3][round % 2].take_section_of(uid);
            }
        }
    };
    tokio::select! {
        _ = within(async { tokio::join!(single, batches) }) => {}
        () = moves => unreachable!("it goes on forever"),
    }
}

#[tokio::test]
async fn a_set_that_is_down_fails_its_own_items_only() {
    let sets = sets(3);
    let client = client([&sets[0][0], &sets[1][0], &sets[2][0]]).await;
    let uids = [5, 105, 205, 115];
    assert_eq!(values(&client.next_many(&uids).await.unwrap()), [Some(1); 4]);
    sets[1].iter().for_each(FakeServer::stop);
    let began = Instant::now();
    for value in 2..50 {
        let results = client.next_many(&uids).await.unwrap();
        assert_eq!(values(&results), [Some(value), None, Some(value), None]);
        for (uid, result) in [(105, &results[1]), (115, &results[3])] {
            let Err(error) = result else { panic!("{result:?}") };
            let CallError::SetUnavailable(unavailable) = error else { panic!("{error:?}") };
            assert_eq!((unavailable.set, unavailable.name.as_str()), (sets[1][0].set_id(), "b"));
            assert!([uid, 105, 115].map(Some).contains(&unavailable.uid) && error.is_retryable());
        }
    }
    assert!(began.elapsed() < TIMEOUT / 2, "no batch waits for its deadline");
    // A call for that set alone is retried up to its deadline.
    let error = client.with_deadline(Duration::from_millis(200)).next(105).await.unwrap_err();
    assert!(matches!(error, CallError::SetUnavailable(_) | CallError::DeadlineExceeded { .. }), "{error:?}");
}

#[tokio::test]
async fn a_section_that_left_a_set_before_it_went_down_is_found() {
    let sets = sets(3);
    let client = client([&sets[1][0]]).await;
    assert_eq!(client.next(105).await.unwrap().value, 1);
    // The client does not learn of the move until the whole set is gone.
    sets[2][0].take_section_of(105);
    sets[1].iter().for_each(FakeServer::stop);
    let next = within(client.next(105)).await.unwrap();
    assert_eq!((next.value, next.prev), (2, 1));
    let many = within(client.next_many(&[105, 5])).await.unwrap();
    assert_eq!(values(&many), [Some(3), Some(1)]);
}

#[tokio::test]
async fn a_forwarder_that_reaches_no_node_of_a_set_names_it() {
    let sets = sets(2);
    let client: Client = seeds([&sets[0][0]]).deadline(Duration::from_millis(500)).connect().await.unwrap();
    sets[1][0].take_section_of(5);
    sets[1].iter().for_each(FakeServer::stop);
    let unavailable = within(async {
        loop {
            match client.next(5).await.unwrap_err() {
                CallError::SetUnavailable(unavailable) => break unavailable,
                // The last attempt of the call got no response in time, because the machine is busy.
                error => assert!(matches!(error, CallError::DeadlineExceeded { .. }), "{error:?}"),
            }
        }
    });
    let unavailable = unavailable.await;
    assert_eq!((unavailable.uid, unavailable.set), (Some(5), sets[1][0].set_id()));
    assert_eq!(unavailable.to_string(), "uid 5: the section is in set \"b\", of which no node can be reached");
    assert_eq!(client.next(15).await.unwrap().value, 1);
}
