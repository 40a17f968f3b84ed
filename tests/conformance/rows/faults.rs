//! Faults of real processes under load.

use std::time::Duration;

use seq_testkit::eventually;
use seq_testkit::rows::note;
use serde_json::json;

use crate::cluster::{Cluster, Shape};
use crate::driver::{Driver, Sdk, now_ns};
use crate::load;

/// The allocator under the faults.
const VICTIM: u16 = 0;

/// Deadline of the calls while the store has no majority: short, so that many of them end then.
const SHORT_DEADLINE_MS: u64 = 1_000;

/// Time for which calls fail, longer than their deadline, and a bound below the default deadline for each of them.
const LOST: Duration = Duration::from_secs(3);
const LATEST: Duration = Duration::from_secs(4);

pub(super) fn kill(sdk: &Sdk) {
    let mut cluster = Cluster::start(Shape::USUAL);
    let driver = Driver::start(sdk);
    let (client, uids) = (driver.open(&cluster.seeds()), cluster.uids());
    load::during(client, &uids, |load| {
        cluster.allocs[usize::from(VICTIM)].kill();
        load.wait_served();
        cluster.restart(VICTIM);
        cluster.wait_shared();
        load.wait_served();
    });
    assert_none_failed(&driver, 0);
    driver.end();
}

pub(super) fn hung(sdk: &Sdk) {
    let cluster = Cluster::start(Shape::USUAL);
    let driver = Driver::start(sdk);
    let (client, uids) = (driver.open(&cluster.seeds()), cluster.uids());
    let victim = &cluster.allocs[usize::from(VICTIM)];
    load::during(client, &uids, |load| {
        victim.freeze();
        load.wait_served();
        victim.thaw();
        cluster.wait_shared();
        load.wait_served();
    });
    assert_none_failed(&driver, 0);
    driver.end();
}

pub(super) fn drain(sdk: &Sdk) {
    let mut cluster = Cluster::start(Shape::USUAL);
    let driver = Driver::start(sdk);
    let (client, uids) = (driver.open(&cluster.seeds()), cluster.uids());
    load::during(client, &uids, |load| {
        cluster.command(&["node", "drain", "a1", "--yes"]);
        load.wait_served();
        cluster.command(&["node", "undrain", "a1"]);
        cluster.wait_shared();
        for index in 0..Shape::USUAL.allocs {
            let alloc = &mut cluster.allocs[usize::from(index)];
            assert_eq!(alloc.terminate(), Some(0), "{}", alloc.log());
            load.wait_served();
            cluster.restart(index);
            cluster.wait_shared();
            load.wait_served();
        }
    });
    driver.end_seamless();
}

pub(super) fn store_lost(sdk: &Sdk) {
    // With a small step, every section soon needs the store.
    let cluster = Cluster::start(Shape { stores: 3, step: 50, ..Shape::USUAL });
    let driver = Driver::start(sdk);
    let client = driver.open_with(&cluster.seeds(), json!({"deadline_ms": SHORT_DEADLINE_MS}));
    let uids = cluster.uids();
    load::during(client, &uids, |load| {
        let lost = now_ns();
        cluster.stores[1..].iter().for_each(|store| store.freeze());
        eventually("calls fail", || (!driver.history().figures_since(lost).failed.is_empty()).then_some(()));
        std::thread::park_timeout(LOST);
        let longest = driver.history().figures_since(lost).longest;
        note(format_args!(
            "longest call without a store: {:.3} s, {SHORT_DEADLINE_MS} ms allowed",
            longest.as_secs_f64()
        ));
        assert!(longest < LATEST, "calls end by their deadline");
        cluster.stores[1..].iter().for_each(|store| store.thaw());
        load.wait_served();
    });
    let healed = now_ns();
    driver.open(&cluster.seeds()).burst(&uids, 1_000, 32).wait();
    assert_none_failed(&driver, healed);
    driver.end();
}

/// Asserts that no call failed that began at `since_ns` or later.
pub(super) fn assert_none_failed(driver: &Driver, since_ns: u64) {
    let figures = driver.history().figures_since(since_ns);
    assert!(figures.failed.is_empty() && figures.calls > 0, "{figures:?}");
}
