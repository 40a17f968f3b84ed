//! Clusters of several sets: played by fake servers, and of real processes.

use std::time::{Duration, Instant};

use seq_client::fake::{FakeCluster, FakeServer};
use seq_testkit::eventually;
use seq_testkit::rows::note;
use serde_json::json;

use crate::driver::{Driver, Sdk, now_ns};
use crate::load;
use crate::place::Server;
use crate::two_sets::{ALLOC_PORTS, TwoSets};

/// Uids of the cluster, and of each section.
const UIDS: u64 = 12_000;
const SECTION_SIZE: u32 = 1_000;

fn cluster(sets: &[&str]) -> Vec<Vec<FakeServer>> {
    let sets = sets.iter().map(|name| (name.to_string(), 2)).collect();
    FakeCluster { uids: 0..UIDS, section_size: SECTION_SIZE, sets }.start()
}

fn seeds(sets: &[Vec<FakeServer>]) -> Vec<String> {
    sets.iter().flatten().map(FakeServer::url).collect()
}

/// Returns one uid of each section.
fn uids() -> Vec<u64> {
    (0..UIDS / u64::from(SECTION_SIZE)).map(|section| section * u64::from(SECTION_SIZE) + 7).collect()
}

/// Time within which items of a set that is up must have numbers: shorter than the deadline of the call.
const BOUND: Duration = Duration::from_secs(3);

pub(super) fn down(sdk: &Sdk) {
    let sets = cluster(&["im-a", "im-b"]);
    let driver = Driver::start(sdk);
    let client = driver.open(&seeds(&sets));
    let uids = uids();
    let (of_a, of_b) = uids.split_at(uids.len() / 2);
    let given = client.next_many(&uids, &[]).unwrap();
    assert!(given.iter().all(Result::is_ok), "{given:?}");
    sets[1].iter().for_each(FakeServer::stop);

    // The first call finds the set down, the second one knows.
    for _ in 0..2 {
        let began = Instant::now();
        let given = client.next_many(&uids, &[]).unwrap();
        let took = began.elapsed();
        note(format_args!("a batch for both sets took {:.3} s", took.as_secs_f64()));
        let (up, down) = given.split_at(of_a.len());
        assert!(up.iter().all(Result::is_ok), "{given:?}");
        for item in down {
            let error = item.as_ref().unwrap_err();
            assert_eq!((&*error.kind, error.retryable), ("set_unavailable", true), "{error:?}");
        }
        assert!(took < BOUND, "items of another set waited for the deadline");
    }
    let began = Instant::now();
    let error = client.next_with(of_b[0], json!({"deadline_ms": 500})).unwrap_err();
    assert_eq!((&*error.kind, error.retryable), ("set_unavailable", true), "{error:?}");
    assert!(began.elapsed() < BOUND, "the default deadline ends the call");
    client.burst(of_a, 1_000, 64).wait();
    // Of the burst, no call failed.
    let figures = driver.history().figures();
    assert_eq!(figures.failed.values().sum::<u64>(), 2 * of_b.len() as u64 + 1, "{figures:?}");
    driver.end();
}

/// Uids of two real sets, each of which has half of them, and of each section.
const REAL_UIDS: u64 = 1_000_000;
const REAL_SECTION: u64 = 100_000;

/// Kinds of the errors of items whose set hangs.
const OF_HUNG: [&str; 4] = ["set_unavailable", "unreachable", "deadline", "refused"];

/// Deadline of a batch for both sets while one hangs.
const HUNG_DEADLINE_MS: u64 = 3_000;

pub(super) fn hung(sdk: &Sdk) {
    let sets = TwoSets::new(REAL_UIDS);
    let [_up, down] = sets.start();
    sets.split_for_good(&(REAL_UIDS / 2).to_string());
    let seeds: Vec<String> = ALLOC_PORTS.iter().map(|port| sets.addr(*port)).collect();
    let driver = Driver::start(sdk);
    let client = driver.open(&seeds);
    // The start of the sets takes a number of uid 7.
    let uids: Vec<u64> = (0..REAL_UIDS / REAL_SECTION).map(|section| section * REAL_SECTION + 11).collect();
    let (of_up, of_down) = uids.split_at(uids.len() / 2);
    eventually("both sets serve", || {
        let given = client.next_many(&uids, &[]).ok()?;
        given.iter().all(Result::is_ok).then_some(())
    });

    let servers = || down.stores.iter().chain(&down.allocs);
    servers().for_each(Server::freeze);
    for _ in 0..2 {
        let began = Instant::now();
        let given = client.next_many_within(&uids, HUNG_DEADLINE_MS).unwrap();
        note(format_args!("a batch for both sets took {:.3} s", began.elapsed().as_secs_f64()));
        let (up, down) = given.split_at(of_up.len());
        assert!(up.iter().all(Result::is_ok), "{given:?}");
        for item in down {
            let error = item.as_ref().unwrap_err();
            assert!(OF_HUNG.contains(&&*error.kind) && error.retryable, "{error:?}");
        }
    }
    let frozen = now_ns();
    client.burst(of_up, 1_000, 64).wait();
    let figures = driver.history().figures_since(frozen);
    assert!(figures.failed.is_empty(), "{figures:?}");

    servers().for_each(Server::thaw);
    eventually("the set serves again", || {
        let given = client.next_many(of_down, &[]).ok()?;
        given.iter().all(Result::is_ok).then_some(())
    });
    driver.end();
}

/// Migrations of each section, which end in the set where they did not begin, and calls after them.
const MIGRATIONS: usize = 5;
const CALLS: u64 = 500;

pub(super) fn migration(sdk: &Sdk) {
    let sets = cluster(&["im-a", "im-b", "im-c"]);
    // The third set does not learn of sections that move between the other two, so its routes are outdated.
    sets[2][0].learn_moves(false);
    let driver = Driver::start(sdk);
    let client = driver.open(&seeds(&sets));
    let uids = uids();
    let of_a = &uids[..uids.len() / 3];
    load::during(client, &uids, |load| {
        for round in 0..MIGRATIONS {
            let target = &sets[(round + 1) % 2][round % 2];
            for uid in of_a {
                target.take_section_of(*uid);
            }
            load.wait_served();
        }
    });
    // The routes of the third set still name the sets before the moves. A new client, which has these routes first,
    // must adopt the routes of later epochs and keep them.
    let seeds_of_c: Vec<String> = sets[2].iter().map(FakeServer::url).collect();
    let (client, of_c) = (driver.open(&seeds_of_c), &uids[2 * uids.len() / 3..]);
    for _ in 0..2 {
        client.next_many(&uids, &[]).unwrap();
    }
    client.next_many(of_c, &[]).unwrap();
    let items = || sets.iter().map(|set| set.iter().map(|server| server.received().items).sum()).collect::<Vec<u64>>();
    let before = items();
    client.burst(of_a, CALLS, 16).wait();
    let received: Vec<u64> = items().iter().zip(before).map(|(now, before)| now - before).collect();
    let mut expected = [0; 3];
    expected[MIGRATIONS % 2] = CALLS;
    assert_eq!(received, expected, "calls for moved sections, by the set that received them");
    driver.end_seamless();
}
