//! Ids of series under faults: no id is given out twice, whatever the clocks of the nodes read and whoever owns a lane.

use std::time::{Duration, Instant};

use seq_testkit::eventually;
use seq_testkit::ids::{Clocks, IdLoad, SERIES, Series, TWEETS_AT};

use crate::cluster::{Cluster, OTHER_SET, SET, Shape, seqsvr};
use crate::machine::pause;
use crate::node::Node;
use crate::rows::clocks::WallClock;
use crate::rows::names::EVICTED;
use crate::rows::sets::restores::{backup, lose_disks, restore, start_nodes};
use crate::rows::sets::{TWO_SETS, Way};

pub(super) mod limits;
pub(super) mod tickets;

/// The node under the faults.
const VICTIM: usize = 0;

/// A clock that is wrong by an hour.
const HOUR: Duration = Duration::from_secs(3_600);

/// Time for which a wrong clock or a cut stays.
const LENGTH: Duration = Duration::from_secs(10);

/// Lead of ceilings by default, and the bound of the store beyond it: a node whose clock is ahead takes ids up to here.
const LEAD_AND_BOUND: Duration = Duration::from_secs(70);

/// Creates all series, those with a time with these additional arguments, and starts callers at each node.
fn load(cluster: &Cluster, more: &[&str]) -> IdLoad {
    SERIES.iter().for_each(|series| create(cluster, *series, if series.is_timed() { more } else { &[] }));
    IdLoad::start(&cluster.allocs.iter().map(|node| node.addr.clone()).collect::<Vec<_>>())
}

/// Creates a series, once the cluster can.
fn create(cluster: &Cluster, series: Series, more: &[&str]) {
    let set = cluster.path("set.toml").display().to_string();
    series.create(more, |args| seqsvr(&[args, &["--set", &set]].concat()).is_ok());
}

/// A node's clock is an hour behind; it is killed and restarted with this clock, and the clock is set right.
pub(super) fn clock_back() {
    let mut cluster = Cluster::prepare(Shape::USUAL);
    let file = cluster.path("clock");
    let clock = WallClock::of(&mut cluster.allocs[..=VICTIM], file);
    cluster.start_all();
    let load = load(&cluster, &[]);
    for _ in 0..2 {
        clock.step("-3600s");
        pause(Duration::from_secs(1));
        load.wait_for_more(TWEETS_AT);
        cluster.allocs[VICTIM].restart();
        pause(LENGTH);
        load.wait_for_more(TWEETS_AT);
        assert_eq!(load.figures(TWEETS_AT).failed, 0, "{:?}", load.figures(TWEETS_AT));
        clock.step("+0s");
        load.wait_served();
    }
    load.end("a clock an hour behind", Clocks { behind: HOUR, ..Clocks::RIGHT });
}

/// A node's clock is an hour ahead for some seconds.
pub(super) fn clock_ahead() {
    let mut cluster = Cluster::prepare(Shape::USUAL);
    let file = cluster.path("clock");
    let clock = WallClock::of(&mut cluster.allocs[..=VICTIM], file);
    cluster.start_all();
    let load = load(&cluster, &[]);
    for _ in 0..2 {
        let raises = cluster.raises().count();
        clock.step("+3600s");
        pause(LENGTH);
        load.wait_for_more(TWEETS_AT);
        let raised = cluster.raises().count() - raises;
        assert_eq!(load.figures(TWEETS_AT).failed, 0, "{:?}", load.figures(TWEETS_AT));
        println!("  {:.1} raises/s with a clock an hour ahead", raised as f64 / LENGTH.as_secs_f64());
        clock.step("+0s");
        load.wait_served();
    }
    load.end("a clock an hour ahead", Clocks { ahead: LEAD_AND_BOUND + Clocks::RIGHT.ahead, ..Clocks::RIGHT });
}

/// A node is cut off from the store, and its callers stay with it: it gives ids up to its ceilings while its sections
/// have other owners.
pub(super) fn two_holders() {
    let cluster = Cluster::start(Shape::USUAL);
    let mut load = load(&cluster, &[]);
    for _ in 0..2 {
        let victim = &cluster.allocs[VICTIM];
        load.add(TWEETS_AT, vec![victim.addr.clone()]);
        load.wait_served();
        load.reset();
        cluster.stores.iter().for_each(|store| cluster.net.cut(&store.host, &victim.host));
        pause(LENGTH * 2);
        load.wait_served();
        let figures = load.figures(TWEETS_AT);
        assert_eq!(figures.failed, 0, "{figures:?}");
        cluster.net.heal();
        load.wait_served();
    }
    load.end("two holders", Clocks::RIGHT);
}

/// The host of a node is copied with its configuration, and callers stay with each of the two processes. The process
/// that has the name stops until the other process has taken it, and continues with its lanes; and back.
pub(super) fn copied_host() {
    let mut cluster = Cluster::start(Shape::USUAL);
    let mut load = load(&cluster, &[]);
    let mut copy = cluster.outsider("copy", "a1", |cluster, ip| {
        cluster.set_file(SET).replace(&cluster.allocs[VICTIM].host.ip.to_string(), ip)
    });
    for addr in [&cluster.allocs[VICTIM].addr, &copy.addr] {
        load.add(TWEETS_AT, vec![addr.clone()]);
    }
    let holder = &mut cluster.allocs[VICTIM];
    take_name(holder, &mut copy);
    load.wait_served();
    take_name(&mut copy, holder);
    load.wait_served();
    load.end("a copied host", Clocks::RIGHT);
}

/// Starts a process with the name of another process, which stops until the first has taken the name.
fn take_name(holder: &mut Node, newcomer: &mut Node) {
    let registrations = |node: &Node| node.log().matches("event=\"registered\"").count();
    let before = registrations(newcomer);
    newcomer.start();
    eventually("the newcomer is refused", || newcomer.log().contains("is alive").then_some(()));
    holder.freeze();
    eventually("the newcomer takes the name", || (registrations(newcomer) > before).then_some(()));
    pause(Duration::from_secs(1));
    holder.thaw();
    let status = holder.wait_exit();
    assert_eq!(status.code(), Some(EVICTED), "{status}");
}

/// Two stores of three are down for as long as ceilings are ahead at least.
pub(super) fn store_gone() {
    let mut cluster = Cluster::start(Shape::USUAL);
    let load = load(&cluster, &[]);
    // Each section in use has a ceiling near its lead.
    pause(Duration::from_secs(2));
    load.reset();
    cluster.stores[..2].iter_mut().for_each(Node::kill);
    pause(Duration::from_secs(25));
    let figures = load.figures(TWEETS_AT);
    println!("  25 s without a store: {} calls for ids of chosen lanes, {} failed", figures.calls, figures.failed);
    assert_eq!((figures.failed, figures.attempts), (0, 1), "{figures:?}");
    cluster.stores[..2].iter_mut().for_each(Node::start);
    load.wait_served();
    load.end("the store gone", Clocks::RIGHT);
}

/// All processes are killed and started, twice.
pub(super) fn power() {
    let mut cluster = Cluster::start(Shape::USUAL);
    let load = load(&cluster, &[]);
    for _ in 0..2 {
        cluster.stores.iter_mut().chain(&mut cluster.allocs).for_each(Node::kill);
        let began = Instant::now();
        cluster.stores.iter_mut().chain(&mut cluster.allocs).for_each(Node::start);
        load.wait_for_more(TWEETS_AT);
        println!("  ids of chosen lanes {:.2} s after the start", began.elapsed().as_secs_f64());
        load.wait_served();
    }
    load.end("power lost", Clocks::RIGHT);
}

/// A node is killed: others give ids of their own lanes at once.
pub(super) fn alloc_kill() {
    let mut cluster = Cluster::start(Shape::USUAL);
    let load = load(&cluster, &[]);
    for victim in 0..cluster.allocs.len() {
        load.reset();
        cluster.allocs[victim].kill();
        load.wait_served();
        let figures = load.figures(TWEETS_AT);
        println!(
            "  ids of chosen lanes: {} failed, up to {} nodes tried, longest silence {:.3} s",
            figures.failed,
            figures.attempts,
            figures.silence.as_secs_f64()
        );
        assert!(figures.failed == 0 && figures.attempts <= 2, "{figures:?}");
        cluster.allocs[victim].start();
        load.wait_served();
    }
    load.end("nodes killed", Clocks::RIGHT);
}

/// All sections of the series migrate to another set and back.
pub(super) fn migrate() {
    let cluster = Cluster::start(TWO_SETS);
    let load = load(&cluster, &[]);
    let names = SERIES.map(|series| series.name).join(",");
    let set = cluster.path("set.toml").display().to_string();
    for (from, into) in [(SET, OTHER_SET), (OTHER_SET, SET)] {
        let began = Instant::now();
        let args = ["set", "migrate", from, "--series", &names, "--into", into, "--wait", "--yes", "--set", &set];
        let out = seqsvr(&args).unwrap_or_else(|error| panic!("{error}"));
        println!("  to set {into} in {:.2} s", began.elapsed().as_secs_f64());
        let id = out.split_whitespace().skip_while(|word| *word != "migration").nth(1).expect("an id");
        seqsvr(&["migration", "complete", id, "--yes", "--set", &set]).unwrap_or_else(|error| panic!("{error}"));
        load.wait_served();
    }
    let failed = SERIES.iter().enumerate().map(|(at, _)| load.figures(at).failed);
    assert_eq!(failed.collect::<Vec<_>>(), [0; SERIES.len()]);
    let calls = load.end("migrated to another set and back", Clocks::RIGHT);
    let orders = calls[0].iter().flat_map(|call| &call.ids);
    let (last, count) = (orders.clone().max(), orders.count());
    assert_eq!(last, Some(&(count as u64)), "the counter has a gap");
}

/// The set is lost and restored from the same backup, twice.
pub(super) fn restored() {
    /// The lead of the series, short because ids are dark for the lead and 70 s.
    const LEAD: &[&str] = &["--lead", "2s"];
    const DARK: Duration = Duration::from_secs(72 + 60);
    let mut cluster = Cluster::start(Shape::USUAL);
    let load = load(&cluster, LEAD);
    let from = backup(&cluster, Way::Out, "ids");
    for count in 1..=2 {
        pause(LENGTH);
        let began = Instant::now();
        cluster.allocs.iter_mut().for_each(Node::kill);
        lose_disks(&mut cluster, Way::Out);
        restore(&cluster, Way::Out, &from, Some(count));
        start_nodes(&mut cluster, Way::Out);
        load.wait_served_within(DARK);
        println!("  restore {count}: all series served {:.1} s after the loss", began.elapsed().as_secs_f64());
    }
    load.end("restored twice", Clocks::RIGHT);
}
