//! Tickets of two counters in two sets, one of which is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seq_client::{Client, Tickets};
use seq_kit::wall_clock::now_ms;
use seq_order::{IdCall, IdPromises, check_ids};
use seq_testkit::eventually;

use crate::cluster::{Cluster, OTHER_SET, SET, seqsvr};
use crate::machine::pause;
use crate::node::Node;
use crate::rows::sets::TWO_SETS;

/// The counters: odd and even ids.
const SERIES: [(&str, &str); 2] = [("photos.1", "1"), ("photos.2", "2")];

/// Callers, each with tickets of its own, and the pause of each between two calls.
const CALLERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(5);

/// Time for which the set is lost.
const LOST: Duration = Duration::from_secs(20);

/// All processes of the set with the even ids are killed, and started again.
pub(in crate::rows) fn set_lost() {
    let mut cluster = Cluster::start(TWO_SETS);
    let set = cluster.path("set.toml").display().to_string();
    for (name, offset) in SERIES {
        let args =
            ["series", "create", name, "--counter", "--increment", "2", "--offset", offset, "--yes", "--set", &set];
        eventually(&format!("{name} is created"), || seqsvr(&args).ok());
    }
    let to_other =
        ["set", "migrate", SET, "--series", SERIES[1].0, "--into", OTHER_SET, "--wait", "--yes", "--set", &set];
    let out = seqsvr(&to_other).unwrap_or_else(|error| panic!("{error}"));
    let id = out.split_whitespace().skip_while(|word| *word != "migration").nth(1).expect("an id");
    seqsvr(&["migration", "complete", id, "--yes", "--set", &set]).unwrap_or_else(|error| panic!("{error}"));

    let load = Load::start(&cluster);
    load.wait_for_both();
    for _ in 0..2 {
        let other = &mut cluster.other;
        other.stores.iter_mut().chain(&mut other.allocs).for_each(Node::kill);
        pause(LOST);
        let other = &mut cluster.other;
        other.stores.iter_mut().chain(&mut other.allocs).for_each(Node::start);
        load.wait_for_both();
    }
    load.end();
}

/// Callers that take tickets until they are stopped.
struct Load {
    runtime: tokio::runtime::Runtime,
    stopped: Arc<AtomicBool>,
    /// Number of odd ids, and of even ids.
    given: Arc<[AtomicU64; 2]>,
    failures: Arc<Mutex<Vec<String>>>,
    callers: Vec<tokio::task::JoinHandle<Vec<IdCall>>>,
}

impl Load {
    fn start(cluster: &Cluster) -> Load {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut load = Load {
            runtime,
            stopped: Arc::default(),
            given: Arc::default(),
            failures: Arc::default(),
            callers: Vec::new(),
        };
        let seeds: Vec<String> = cluster.seeds();
        for _ in 0..CALLERS {
            let (stopped, given, failures) = (load.stopped.clone(), load.given.clone(), load.failures.clone());
            let seeds = seeds.clone();
            load.callers.push(load.runtime.spawn(async move {
                let client = seeds.into_iter().fold(Client::builder(), |builder, seed| builder.seed(seed));
                let client = client.connect().await.unwrap();
                let [odd, even] = SERIES.map(|(name, _)| client.series(name));
                let tickets = Tickets::over([odd.await.unwrap(), even.await.unwrap()]).unwrap();
                let mut calls = Vec::new();
                while !stopped.load(SeqCst) {
                    let (sent, before) = (Instant::now(), now_ms());
                    match tickets.next().await {
                        Ok(id) => {
                            let (received, id) = (Instant::now(), id.get());
                            given[usize::from(id % 2 == 0)].fetch_add(1, SeqCst);
                            calls.push(IdCall { sent, received, clock_ms: (before, now_ms()), ids: vec![id] });
                        }
                        Err(error) => failures.lock().push(error.to_string()),
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                calls
            }));
        }
        load
    }

    /// Waits until both counters have given more ids.
    fn wait_for_both(&self) {
        let given = || [self.given[0].load(SeqCst), self.given[1].load(SeqCst)];
        let before = given();
        eventually("both counters give ids", || {
            given().iter().zip(before).all(|(now, before)| *now > before + 20).then_some(())
        });
    }

    /// Ends the load; the ids of all callers are unique, and the ids of each caller increase.
    fn end(self) {
        self.stopped.store(true, SeqCst);
        let mut all = Vec::new();
        for caller in self.callers {
            let calls = self.runtime.block_on(caller).unwrap();
            let ascends = calls.windows(2).all(|two| two[0].ids[0] < two[1].ids[0]);
            assert!(ascends, "the ids of a caller do not increase");
            all.extend(calls);
        }
        let unique = IdPromises { is_ordered: false, time: None };
        let ids = check_ids(unique, &all).unwrap_or_else(|violation| panic!("{violation}"));
        let (failures, [odd, even]) = (self.failures.lock(), self.given.each_ref().map(|given| given.load(SeqCst)));
        println!("  {ids} tickets, {odd} odd and {even} even, none twice; {} calls failed", failures.len());
        assert!(failures.is_empty(), "{failures:?}");
    }
}
