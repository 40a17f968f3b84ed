//! Keys of a keyspace under faults: counters are evicted, buckets change owner and set, and one bucket has all keys.

use std::time::Duration;

use rustix::process::Signal;
use seq_core::keyspace::{BUCKETS, Bucket};
use seq_proto::Reason;
use seq_proto::v1::MigrationPhase;
use seq_testkit::eventually;

use crate::cluster::{Cluster, Shape};
use crate::load::keys::Keys;
use crate::load::{Load, Report};
use crate::machine::pause;
use crate::rows::sets::{self, TWO_SETS, Way};
use crate::scene::Scene;

/// The allocator under the faults.
const VICTIM: usize = 0;

/// Setting `alloc.key_idle_ms`: short, so that counters are evicted in seconds.
const IDLE: Duration = Duration::from_secs(3);

/// Memory of a key at most, as promised with the setting `alloc.max_keys`.
const BYTES_OF_KEY: f64 = 42.0;

/// Metrics of the keys of a node.
const KEYS: &str = "seqsvr_keys";
const BYTES: &str = "seqsvr_key_bytes";
const EVICTED: &str = "seqsvr_keys_evicted_total";

/// Buckets that migrate to another set, next to each other.
const MIGRATED: std::ops::Range<u16> = 4_000..4_016;

/// Starts a cluster with a keyspace whose nodes may have `most` keys each.
fn start_with(most: u32) -> Cluster {
    let mut cluster = Cluster::prepare(Shape::USUAL);
    cluster.add_settings(&format!("[alloc]\nmax_keys = {most}\nkey_idle_ms = {}\n", IDLE.as_millis()));
    cluster.start_all();
    cluster.create_keyspace();
    cluster
}

/// Returns so few keys of several buckets that calls use each of them many times a second.
fn busy_keys() -> Keys {
    let groups = (0..8).map(|group| format!("{{busy{group}}}")).collect();
    Keys { groups, each: 8, batch: 4, pause: Duration::from_millis(15), only_batches: true }
}

/// Returns the number of evicted counters.
fn evicted(cluster: &mut Cluster) -> f64 {
    cluster.gauges(EVICTED).iter().sum()
}

/// Waits until no node has counters of more than `most` keys, and asserts that they take no more memory than promised.
/// Counters that are handed over to a node are accepted above its limit, until evictions make up for them. The room of
/// a node is no measure here: a bucket that was replaced takes part in it until its last numbers are recorded, a second
/// later, and [`IDLE`] is so short that each bucket is replaced all the time.
fn wait_bounded(cluster: &mut Cluster, most: u32) {
    eventually("each node has counters of as many keys as it may have", || {
        cluster.gauges(KEYS).iter().all(|keys| *keys <= f64::from(most)).then_some(())
    });
    let (keys, bytes) = (cluster.gauges(KEYS), cluster.gauges(BYTES));
    println!("  {keys:?} keys take {bytes:?} bytes, with alloc.max_keys = {most}");
    assert!(bytes.iter().all(|bytes| *bytes <= f64::from(most) * BYTES_OF_KEY), "{bytes:?} bytes for {most} keys");
}

/// Asserts that counters that calls use all the time were neither evicted nor refused.
fn assert_kept(report: &Report) {
    let longest = report.longest(0..report.unserved.len());
    if longest > IDLE / 2 {
        return println!("  the machine is busy: counters may have been idle for {:.1} s", longest.as_secs_f64());
    }
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(report.skips.iter().sum::<u64>(), 0, "a counter in use was evicted: {:?}", report.skips);
}

/// Nodes have room for a tenth of the keys that are called at random, and one of them is killed.
pub(super) fn evict() {
    /// Groups of keys, each in a bucket of its own.
    const GROUPS: u32 = 24;
    const EACH: u32 = 1_000;
    const MOST: u32 = GROUPS * EACH / 10;
    let cluster = start_with(MOST);
    let busy = Load::start_keys(&cluster, busy_keys());
    let groups = (0..GROUPS).map(|group| format!("{{rare{group}}}")).collect();
    let rare = Keys { groups, each: EACH, batch: 4, pause: Duration::from_millis(100), only_batches: true };
    let mut scene = Scene::of_keys(cluster, rare);
    busy.reset();
    eventually("more counters are evicted than a node may have", || {
        (evicted(&mut scene.cluster) > f64::from(MOST)).then_some(())
    });
    wait_bounded(&mut scene.cluster, MOST);
    let kept = busy.report();
    kept.print("keys in use");
    assert_kept(&kept);

    scene.cluster.allocs[VICTIM].kill();
    scene.load.wait_served();
    busy.wait_served();
    let before = evicted(&mut scene.cluster);
    scene.cluster.allocs[VICTIM].start();
    eventually("the allocator owns sections again", || (!scene.cluster.sections_of(VICTIM).is_empty()).then_some(()));
    eventually("counters are evicted again", || {
        (evicted(&mut scene.cluster) > before + f64::from(MOST) / 2.0).then_some(())
    });
    busy.wait_served();
    busy.finish().assert_order();
    let (report, mut cluster) = scene.end("keys called at random, with room for a tenth of them");
    let skips: u64 = report.skips.iter().sum();
    println!("  {} counters evicted, {skips} items skipped numbers", evicted(&mut cluster));
    assert!(skips > 0, "a key that was evicted continues above the others");
}

/// Neighbouring buckets migrate to another set and back.
pub(super) fn migrate() {
    let cluster = Cluster::start(TWO_SETS);
    let first = cluster.create_keyspace();
    let others = [0, 1, MIGRATED.start - 1, MIGRATED.end, BUCKETS - 1];
    let groups = MIGRATED.chain(others).map(tag_of).collect();
    let keys = Keys { groups, each: 16, batch: 6, pause: Duration::from_millis(40), only_batches: false };
    let scene = Scene::of_keys(cluster, keys);
    scene.load.seamless();
    let sections = first + u32::from(MIGRATED.start)..first + u32::from(MIGRATED.end);
    for _ in 0..2 {
        for way in [Way::Out, Way::Back] {
            let id = sets::start(&scene.cluster, way, sections.clone(), MIGRATED.len() as u32 / 2);
            let arrived = sets::is_in(MigrationPhase::Arrived);
            let status = sets::wait(&scene.cluster, way, id, "all buckets have arrived", arrived);
            assert_eq!(status.sections, MIGRATED.len() as u32);
            sets::complete(&scene.cluster, way, id);
            scene.load.wait_served();
        }
    }
    assert_untouched(scene, "buckets migrated to another set and back, twice");
}

/// All nodes are restarted as planned, one after another.
pub(super) fn rolling() {
    let mut cluster = Cluster::prepare(Shape::USUAL);
    // The copies of thousands of buckets take their time on a busy machine.
    cluster.add_settings("[shutdown]\ntimeout_ms = 60_000\n");
    cluster.start_all();
    let first = cluster.create_keyspace() as usize;
    let groups = (0..24).map(|group| tag_of(group * (BUCKETS / 24))).collect();
    let keys = Keys { groups, each: 16, batch: 6, pause: Duration::from_millis(40), only_batches: false };
    let mut scene = Scene::of_keys(cluster, keys);
    scene.load.seamless();
    let wait_balanced = |cluster: &Cluster| {
        eventually("each allocator has its part of the buckets", || {
            let owners = cluster.ownerships_of(first..first + usize::from(BUCKETS));
            let buckets_of = |name: &str| owners.iter().filter(|(_, owner)| owner == name).count();
            let least = usize::from(BUCKETS) / (cluster.allocs.len() + 1);
            cluster.allocs.iter().all(|node| buckets_of(&node.name) > least).then_some(())
        });
    };
    for victim in 0..scene.cluster.allocs.len() {
        wait_balanced(&scene.cluster);
        scene.cluster.allocs[victim].signal(Signal::TERM);
        let status = scene.cluster.allocs[victim].wait_exit();
        assert!(status.success(), "{status}");
        scene.cluster.allocs[victim].start();
    }
    wait_balanced(&scene.cluster);
    for victim in 0..scene.cluster.stores.len() {
        scene.cluster.stores[victim].signal(Signal::TERM);
        let status = scene.cluster.stores[victim].wait_exit();
        assert!(status.success(), "{status}");
        let others: Vec<usize> = (0..scene.cluster.stores.len()).filter(|store| *store != victim).collect();
        let applied = scene.cluster.applied(&others);
        scene.cluster.stores[victim].start();
        eventually("the store has caught up", || (scene.cluster.applied(&[victim]) > applied).then_some(()));
        scene.load.wait_served();
    }
    assert_untouched(scene, "each node restarted as planned");
}

/// All keys but a few are in one bucket, and there are more of them than a node may have.
pub(super) fn skewed() {
    const MOST: u32 = 4_000;
    const LENGTH: Duration = Duration::from_secs(6);
    let cluster = start_with(MOST);
    let others = Load::start_keys(&cluster, busy_keys());
    others.reset();
    pause(LENGTH);
    let before = others.report();
    before.print("other buckets, alone");
    let groups = vec!["{x}".to_owned()];
    let skewed = Keys { groups, each: 10 * MOST, batch: 50, pause: Duration::from_millis(5), only_batches: true };
    let mut scene = Scene::of_keys(cluster, skewed);
    others.reset();
    pause(LENGTH);
    eventually("counters of the bucket are evicted", || {
        (evicted(&mut scene.cluster) > f64::from(2 * MOST)).then_some(())
    });
    wait_bounded(&mut scene.cluster, MOST);
    // Within the time for which a counter counts as in use, several times as many keys are called as have room.
    eventually("keys are refused", || {
        scene.load.report().failures.contains_key(Reason::KeysExhausted.name()).then_some(())
    });
    let during = others.report();
    during.print("other buckets, next to the bucket of all keys");
    println!(
        "  p99 of other buckets is {:.2} times as long as alone",
        during.latency.p99_us as f64 / before.latency.p99_us as f64
    );
    assert_kept(&during);
    others.finish().assert_order();
    let (report, mut cluster) = scene.end("one bucket of all keys");
    wait_bounded(&mut cluster, MOST);
    assert!(report.tally.allocations > u64::from(MOST), "the bucket is served too: {:?}", report.failures);
}

/// Returns a hash tag whose keys are in this bucket.
fn tag_of(bucket: u16) -> String {
    let tags = (0u32..).map(|number| format!("{{{number}}}"));
    tags.into_iter().find(|tag| Bucket::of(tag.as_bytes()).index() == bucket).expect("each bucket has a tag")
}

/// Ends the load, and asserts that no call failed and no number is missing.
fn assert_untouched(scene: Scene, what: &str) {
    let (report, _) = scene.end(what);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(report.skips.iter().sum::<u64>(), 0, "items skipped numbers: {:?}", report.skips);
}
