//! Allocators whose processes end, with parents that report it: other nodes serve their sections at once, without the
//! wait for the lease. Only a host that is cut off has nothing that reports.

use std::time::{Duration, Instant};

use seq_load::reply::Reasons;
use seq_testkit::eventually;

use crate::cluster::{Cluster, LEASE_WAIT, Shape};
use crate::load::Report;
use crate::machine::pause;
use crate::memory_groups::MemoryGroup;
use crate::node::Node;
use crate::node::parent::Parent;
use crate::rows::trials;
use crate::scene::Scene;

/// Defaults of `CHAOS_TRIALS`: crashes under each parent, crashes for lack of memory under each parent, crashes in a
/// loop, late reports, and cuts of each kind.
const CRASHES: usize = 4;
const OUT_OF_MEMORY: usize = 2;
const STARTS: usize = 10;
const LATE: usize = 3;
const CUTS: usize = 2;

/// The allocator under a fault that concerns only one.
const VICTIM: usize = 0;

/// `RestartSec=` of the unit of allocators.
const RESTART: Duration = Duration::from_secs(1);

/// Length of the load before a loop of crashes, with which the load in the loop is compared.
const BEFORE: Duration = Duration::from_secs(5);

/// Time in which a report that had an effect would have moved sections.
const EFFECT: Duration = Duration::from_secs(1);

/// Exit code of a report that no leader of the store responded to in time.
const UNREACHED: i32 = 7;

/// A cluster under load whose allocators have parents that report deaths, and the owners of its sections while all
/// nodes serve.
struct Crashes {
    scene: Scene,
    home: Vec<String>,
    /// For each crash, the longest time without a response of a section of the node.
    unserved: Vec<Duration>,
    /// Items without a number, by reason, from the beginning.
    failures: Reasons,
}

impl Crashes {
    fn start(parent: Parent) -> Crashes {
        Crashes::start_with(parent, |_| {})
    }

    /// Starts a cluster after `prepare` has changed it.
    fn start_with(parent: Parent, prepare: impl FnOnce(&mut Cluster)) -> Crashes {
        let mut cluster = Cluster::prepare(Shape::USUAL);
        let dir = cluster.path("");
        cluster.allocs.iter_mut().for_each(|node| node.set_parent(parent, &dir));
        prepare(&mut cluster);
        cluster.start_all();
        let home = cluster.owners();
        Crashes { scene: Scene::of(cluster), home, unserved: Vec::new(), failures: Reasons::new() }
    }

    /// Waits until every section is at its first owner again.
    fn wait_home(&self) {
        eventually("every section is back", || (self.scene.cluster.owners() == self.home).then_some(()));
        self.scene.load.wait_served();
    }

    /// Restarts the measurement; returns the report of the time since the last restart.
    fn measure(&mut self) -> Report {
        let report = self.scene.load.report();
        for (reason, items) in &report.failures {
            *self.failures.entry(reason.clone()).or_default() += items;
        }
        self.scene.load.reset();
        report
    }

    /// Ends the process of a node with `end` while all nodes serve, and waits until others serve its sections.
    fn take_over(&mut self, victim: usize, end: impl FnOnce(&mut Cluster)) {
        self.wait_home();
        self.measure();
        let sections = self.scene.cluster.sections_of(victim);
        assert!(!sections.is_empty(), "the victim owns something");
        end(&mut self.scene.cluster);
        self.scene.load.wait_served();
        let report = self.measure();
        self.unserved.push(report.longest(sections));
    }

    /// Crashes a node with `crash`, and starts it again once others serve its sections.
    fn crash(&mut self, victim: usize, crash: impl FnOnce(&mut Node)) {
        self.take_over(victim, |cluster| crash(&mut cluster.allocs[victim]));
        self.scene.cluster.allocs[victim].start();
    }

    /// Asserts that the store noted this many deaths, and that it never waited for a silent node.
    fn assert_noted(&self, deaths: usize) {
        assert_eq!(self.scene.cluster.deaths_noted(), deaths as u64, "deaths that the store noted");
        let silent = self.scene.cluster.events("silent");
        assert!(silent.is_empty(), "no takeover waited: {silent:#?}");
    }

    /// Ends the load, asserts the order, and prints the figures; returns the items that failed.
    fn end(mut self, what: &str) -> Reasons {
        self.wait_home();
        self.measure();
        self.unserved.sort_unstable();
        let share = |share: f64| {
            let rank = (self.unserved.len() as f64 * share).ceil() as usize;
            self.unserved[rank.max(1) - 1].as_millis()
        };
        println!(
            "  {what}, {} times: sections of the node without a response p50 {} ms, p90 {} ms, p99 {} ms, longest {} ms; failed items {:?}",
            self.unserved.len(),
            share(0.5),
            share(0.9),
            share(0.99),
            share(1.0),
            self.failures,
        );
        self.scene.end(what);
        self.failures
    }
}

pub(super) fn killed() {
    for (parent, what) in [(Parent::Supervisor, "killed under a supervisor"), (Parent::Guard, "killed under a guard")] {
        let mut crashes = Crashes::start(parent);
        let count = trials(CRASHES);
        for crash in 0..count {
            crashes.crash(crash % Shape::USUAL.allocs as usize, Node::crash);
        }
        crashes.assert_noted(count);
        let failures = crashes.end(what);
        assert!(failures.is_empty(), "no call fails for a crash that is reported: {failures:?}");
    }
}

/// The kernel ends the largest process of the control group, which is the server. A supervisor and a guard live on. A
/// kernel that ends all processes of a container leaves nothing that reports; the row ends a guard for that, with which
/// the kernel ends the server.
pub(super) fn out_of_memory() {
    for (parent, what) in
        [(Parent::Supervisor, "out of memory under a supervisor"), (Parent::Guard, "out of memory under a guard")]
    {
        let mut crashes = Crashes::start_with(parent, |cluster| {
            cluster.allocs.iter_mut().for_each(|node| node.set_memory(MemoryGroup::new(&node.name)));
        });
        let count = trials(OUT_OF_MEMORY);
        let mut kills = [0; Shape::USUAL.allocs as usize];
        for crash in 0..count {
            let victim = crash % kills.len();
            crashes.crash(victim, |node| {
                let neighbour = node.memory().exhaust(node.server());
                node.reap_and_report();
                drop(neighbour);
                node.memory().relax();
                let killed = node.memory().kills();
                assert!(killed > kills[victim], "the kernel ended the server");
                kills[victim] = killed;
            });
        }
        crashes.assert_noted(count);
        let failures = crashes.end(what);
        assert!(failures.is_empty(), "no call fails for a crash that is reported: {failures:?}");
    }

    let mut crashes = Crashes::start(Parent::Guard);
    crashes.crash(VICTIM, Node::kill);
    assert_eq!(crashes.scene.cluster.deaths_noted(), 0, "nothing has reaped the server");
    assert_waited(&crashes.scene.cluster, 1);
    crashes.end("the guard ends with its server");
}

/// A process that crashes at each start, before it has registered and after. Its first crash costs a takeover. The
/// others move no section, because a node gets sections only once the live nodes have been the same for a while.
pub(super) fn in_a_loop() {
    let mut crashes = Crashes::start_with(Parent::Supervisor, |cluster| {
        let settings = cluster.steady_settings();
        cluster.stores.iter_mut().for_each(|store| store.set_config(&settings));
    });
    let stores: Vec<usize> = (0..crashes.scene.cluster.stores.len()).collect();
    crashes.measure();
    let (began, applied) = (Instant::now(), crashes.scene.cluster.applied(&stores));
    pause(BEFORE);
    let usual = (crashes.scene.cluster.applied(&stores) - applied) as f64 / began.elapsed().as_secs_f64();
    let before = crashes.measure();

    crashes.take_over(VICTIM, |cluster| cluster.allocs[VICTIM].crash());
    let owned = crashes.scene.cluster.ownerships();
    let (began, applied) = (Instant::now(), crashes.scene.cluster.applied(&stores));
    let (mut noted, mut slowest) = (0, Duration::ZERO);
    let count = trials(STARTS);
    for start in 0..count {
        let cluster = &mut crashes.scene.cluster;
        let known = cluster.incarnation(VICTIM);
        cluster.allocs[VICTIM].start();
        let registers = start % 2 == 1;
        if registers {
            eventually("it registers", || (cluster.incarnation(VICTIM) > known).then_some(()));
        } else {
            eventually("it has drawn its number", || cluster.allocs[VICTIM].has_number().then_some(()));
        }
        cluster.allocs[VICTIM].kill();
        let ended = Instant::now();
        let reported = cluster.allocs[VICTIM].report_death(None);
        slowest = slowest.max(ended.elapsed());
        // A registration may have been in flight when the process was killed.
        assert!(reported.is_noted() || (!registers && reported.changed_nothing()), "{reported:?}");
        noted += usize::from(reported.is_noted());
        pause(RESTART);
    }
    let entries = (crashes.scene.cluster.applied(&stores) - applied) as f64 - usual * began.elapsed().as_secs_f64();
    crashes.scene.load.wait_served();
    let during = crashes.measure();
    println!(
        "  {count} crashes at the start, {noted} of them after the registration: {:.1} entries of the log for each crash; reports \
         within {} ms; all calls before: {}; in the loop: {}; longest time without a response {} ms and {} ms",
        entries / count as f64,
        slowest.as_millis(),
        before.latency,
        during.latency,
        longest(&before).as_millis(),
        longest(&during).as_millis(),
    );
    assert_eq!(crashes.scene.cluster.ownerships(), owned, "no section has moved since the first crash");
    assert_eq!(crashes.scene.cluster.events("takeover").len(), 1);
    assert!(during.failures.is_empty(), "{:?}", during.failures);
    crashes.assert_noted(1 + noted);
    crashes.scene.cluster.allocs[VICTIM].start();
    let failures = crashes.end("crashes at each start, the first one");
    assert!(failures.is_empty(), "{failures:?}");
}

/// The report of a process arrives after the next process of the node has registered: when sections of the dead process
/// still wait for its lease, and again when the next process serves.
pub(super) fn reported_late() {
    let mut crashes = Crashes::start(Parent::Supervisor);
    let count = trials(LATE);
    for late in 0..count {
        let victim = late % Shape::USUAL.allocs as usize;
        let mut kept = None;
        crashes.take_over(victim, |cluster| {
            let known = cluster.incarnation(victim);
            let node = &mut cluster.allocs[victim];
            kept = Some(node.keep_number());
            node.restart();
            eventually("the next process registers", || (cluster.incarnation(victim) > known).then_some(()));
            let reported = cluster.allocs[victim].report_death(kept.as_deref());
            assert!(reported.changed_nothing(), "{reported:?}");
        });
        crashes.wait_home();
        crashes.measure();
        let (cluster, owned) = (&crashes.scene.cluster, crashes.scene.cluster.ownerships());
        let reported = cluster.allocs[victim].report_death(kept.as_deref());
        assert!(reported.changed_nothing(), "{reported:?}");
        pause(EFFECT);
        assert_eq!(cluster.ownerships(), owned, "a late report moves no section");
        assert!(crashes.scene.cluster.allocs[victim].is_running());
        let after = crashes.measure();
        assert!(after.failures.is_empty(), "{:?}", after.failures);
    }
    crashes.assert_noted_none();
    println!("  {} late reports changed nothing", 2 * count);
    crashes.end("killed, and reported after the next start");
}

/// A host without a network: its allocator lives on, or ends, and its supervisor cannot report that.
pub(super) fn host_cut() {
    for (what, ends) in [("cut off, and lives on", false), ("cut off, and killed", true)] {
        let mut crashes = Crashes::start(Parent::Supervisor);
        let count = trials(CUTS);
        for cut in 0..count {
            let victim = cut % Shape::USUAL.allocs as usize;
            let host = crashes.scene.cluster.allocs[victim].host.clone();
            crashes.take_over(victim, |cluster| {
                cluster.net.unplug(&host);
                if ends {
                    cluster.allocs[victim].kill();
                    let reported = cluster.allocs[victim].report_death(None);
                    assert_eq!(reported.code, Some(UNREACHED), "{reported:?}");
                }
            });
            crashes.scene.cluster.net.plug(&host);
            crashes.scene.cluster.allocs[victim].ensure_runs();
        }
        crashes.assert_noted_none();
        assert_waited(&crashes.scene.cluster, count);
        crashes.end(what);
    }
}

impl Crashes {
    /// Asserts that no death was noted.
    fn assert_noted_none(&self) {
        let cluster = &self.scene.cluster;
        assert_eq!(cluster.deaths_noted(), 0);
        let died = cluster.events("died");
        assert!(died.is_empty(), "{died:#?}");
    }
}

/// Asserts that at least this many takeovers followed, each after the wait for the lease.
fn assert_waited(cluster: &Cluster, least: usize) {
    let takeovers = cluster.events("takeover");
    assert!(takeovers.len() >= least, "{takeovers:#?}");
    for takeover in takeovers {
        let waited: u128 = takeover["lasted_ms"].as_str().and_then(|ms| ms.parse().ok()).unwrap_or(0);
        assert!(waited >= LEASE_WAIT.as_millis(), "{takeover:#}");
    }
}

/// Returns the longest time without a response among all sections.
fn longest(report: &Report) -> Duration {
    report.longest(0..report.unserved.len())
}
