//! Ids of series under SIGKILL: no id is given out twice, ids of a counter and of a named lane rise in real time, and
//! the time in an id is the time of its call.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use seq_order::{IdCall, IdPromises, IdTime, check_ids};
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::v1::{NextIdsRequest, NextIdsResponse};
use tonic::transport::{Channel, Endpoint};

use crate::cluster::{Place, eventually, now_ms, seqsvr};
use crate::dev;

/// Kills; `E2E_KILLS` replaces the number.
const KILLS: u32 = 3;

/// Callers of each series.
const CALLERS: usize = 2;

/// Time by which an id may be ahead of the clock, of a series that is created without another.
const AHEAD_MS: u64 = 1_000;

/// Time of a call's response on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// A series under load.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    lane: Option<u32>,
    /// Whether an id that was taken after the response with another id is above that id.
    is_ordered: bool,
    /// Time 0 and bits below the time, for ids with a time.
    time: Option<(u64, u32)>,
}

const CASES: [Case; 3] = [
    Case { name: "k-orders", args: &["--counter"], lane: None, is_ordered: true, time: None },
    Case {
        name: "k-tweets",
        args: &["--shape", "snowflake"],
        lane: None,
        is_ordered: false,
        time: Some((1_288_834_974_657, 22)),
    },
    Case {
        name: "k-media",
        args: &["--shape", "instagram"],
        lane: Some(1_341),
        is_ordered: true,
        time: Some((1_314_220_021_721, 23)),
    },
];

#[test]
fn kills_repeat_no_id() {
    let kills = std::env::var("E2E_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let place = Place::new();
    let (mut server, addr) = dev::start(&place);
    for Case { name, args, .. } in CASES {
        let made = seqsvr(&[&["series", "create", name, "--yes", "--addr", &addr], args].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let load = Load::start(&addr);
    for _ in 0..kills {
        load.wait_for_more();
        server.kill();
        (server, _) = dev::start(&place);
    }
    load.wait_for_more();
    for (case, taken) in load.stop() {
        let ids = check(case, &taken);
        println!("{}: {ids} ids in {} calls over {kills} kills, none twice", case.name, taken.len());
    }
}

/// Callers that take ids until they are stopped.
struct Load {
    runtime: tokio::runtime::Runtime,
    stopped: Arc<AtomicBool>,
    /// Number of responses, by series.
    responses: Arc<[AtomicU64; CASES.len()]>,
    callers: Vec<(Case, tokio::task::JoinHandle<Vec<IdCall>>)>,
}

impl Load {
    fn start(addr: &str) -> Load {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let responses: Arc<[AtomicU64; CASES.len()]> = Arc::default();
        let mut callers = Vec::new();
        for (place, case) in CASES.into_iter().enumerate() {
            for _ in 0..CALLERS {
                let endpoint = Endpoint::from_shared(addr.to_owned()).unwrap().connect_timeout(PATIENCE);
                let (stopped, responses) = (stopped.clone(), responses.clone());
                let caller = runtime.spawn(async move {
                    // Connects again when a connection breaks.
                    let mut ids = IdServiceClient::new(endpoint.connect_lazy());
                    let mut all = Vec::new();
                    while !stopped.load(SeqCst) {
                        match call(&mut ids, case).await {
                            Some(taken) => {
                                all.push(taken);
                                responses[place].fetch_add(1, SeqCst);
                            }
                            None => tokio::time::sleep(Duration::from_millis(5)).await,
                        }
                    }
                    all
                });
                callers.push((case, caller));
            }
        }
        Load { runtime, stopped, responses, callers }
    }

    /// Waits until each series has given out more ids.
    fn wait_for_more(&self) {
        let before: Vec<u64> = self.responses.iter().map(|count| count.load(SeqCst)).collect();
        let more = || self.responses.iter().zip(&before).all(|(count, before)| count.load(SeqCst) > before + 20);
        eventually("ids are given out", || more().then_some(()));
    }

    fn stop(self) -> Vec<(Case, Vec<IdCall>)> {
        self.stopped.store(true, SeqCst);
        let mut taken: HashMap<&str, (Case, Vec<IdCall>)> = HashMap::new();
        for (case, caller) in self.callers {
            let all = self.runtime.block_on(caller).unwrap();
            taken.entry(case.name).or_insert((case, Vec::new())).1.extend(all);
        }
        taken.into_values().collect()
    }
}

/// Takes 1 to 300 ids; `None` for a call without a response.
async fn call(client: &mut IdServiceClient<Channel>, case: Case) -> Option<IdCall> {
    let count = fastrand::u32(1..=300);
    let request = NextIdsRequest { series: case.name.into(), count, lane: case.lane, after: None };
    let (sent, before) = (Instant::now(), now_ms());
    let response = tokio::time::timeout(PATIENCE, client.next(request)).await.ok()?;
    let NextIdsResponse { runs, step, .. } = response.ok()?.into_inner();
    let (received, clock_ms) = (Instant::now(), (before, now_ms()));
    let ids: Vec<u64> = runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|at| run.first + at * step)).collect();
    assert_eq!(ids.len(), count as usize, "{case:?}");
    Some(IdCall { sent, received, clock_ms, ids })
}

/// Checks all ids of a series. Returns their number.
fn check(case: Case, calls: &[IdCall]) -> usize {
    let time =
        case.time.map(|(epoch_ms, bits_below)| IdTime { epoch_ms, bits_below, behind_ms: 0, ahead_ms: AHEAD_MS });
    let promises = IdPromises { is_ordered: case.is_ordered, time };
    check_ids(promises, calls).unwrap_or_else(|violation| panic!("{}: {violation}", case.name))
}

/// Connections, each for one id: a session of a database that caches numbers burns them at its end.
const CONNECTIONS: u64 = 25_865;

#[test]
fn a_connection_for_each_id_burns_none() {
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let redis = dev::redis(&place);
    let made = seqsvr(&["series", "create", "k-burn", "--counter", "--yes", "--addr", &addr]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for id in 1..=CONNECTIONS {
        let mut connection = TcpStream::connect(&redis).unwrap();
        connection.write_all(b"INCR id:k-burn\r\n").unwrap();
        let mut response = String::new();
        BufReader::new(connection).read_line(&mut response).unwrap();
        assert_eq!(response, format!(":{id}\r\n"));
    }
}
