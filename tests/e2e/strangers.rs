//! Two sets over TLS, and messages with the certificates of a third set's store and of a neighbour set's store: every
//! method of the service between sets, with lies about the sender, the sections, the facts and the lineages. No section
//! moves.

use std::time::{Duration, Instant};

use seq_auth::{Credentials, Files};
use seq_channel::Pool;
use seq_core::Layout;
use seq_proto::status::reason;
use seq_proto::v1::inter_set_service_client::InterSetServiceClient;
use seq_proto::v1::{
    ArriveRequest, Between, CompleteArrivalRequest, ExchangeRequest, FenceRequest, SetFacts, StartReturnRequest,
};
use seq_testkit::eventually;
use serde_json::Value;
use tonic::Status;
use tonic::transport::Channel;

use crate::cluster::digits;
use crate::two_sets::TwoSets;

/// Users of both sets: a hundred sections, of which im-b has the upper half.
const UIDS: u64 = 10_000_000;

/// The store of a third set that does not run, and a store of im-b.
const STRANGER: &str = "store/im-c/s1";
const NEIGHBOUR: &str = "store/im-b/s1";

/// Seconds of messages in random order; `STRANGERS_S` replaces the number.
const SECONDS: u64 = 5;

/// The id that the third set claims.
const THIRD: u64 = 0xc0ffee;

/// A revision that im-b could have reached since im-a received its facts, but has not.
const NEWER: u64 = 1 << 30;

type Client = InterSetServiceClient<Channel>;

struct World {
    sets: TwoSets,
    /// Ids of im-a and im-b.
    ids: [u64; 2],
    layout_id: u64,
}

impl World {
    /// Creates clients of all stores of im-a with a certificate, and the pool of their connections.
    fn clients(&self, holder: &str) -> (Pool, Vec<Client>) {
        let place = &self.sets.place;
        let credentials = Credentials::load(Files::in_dir(&place.path("certs"), holder)).unwrap();
        let pool = Pool::with_dial(1, seq_channel::tls::dial(credentials));
        let client = |port: &u16| InterSetServiceClient::new(pool.get(&format!("{}:{port}", place.host)).unwrap());
        let clients = [7301, 7302, 7303].iter().map(client).collect();
        (pool, clients)
    }

    fn between(&self, from: u64, lineage: u64) -> Option<Between> {
        let cluster = "two".to_owned();
        Some(Between { cluster, from_set_id: from, from_lineage: lineage, to_set_id: self.ids[0] })
    }

    /// Returns the arrival in im-a of a section of im-b, with a ceiling of 0.
    fn arrive(&self, from: u64, section: u32, epoch: u64) -> ArriveRequest {
        ArriveRequest {
            between: self.between(from, 0),
            layout_id: self.layout_id,
            sections: vec![section],
            epochs: vec![epoch],
            ceilings: vec![0],
            handover_ids: vec![0],
            node_ids: vec![0],
            incarnations: vec![0],
            migration_ids: vec![7],
            ..ArriveRequest::default()
        }
    }

    fn exchange(&self, from: u64, facts: SetFacts) -> ExchangeRequest {
        ExchangeRequest { between: self.between(from, 0), facts: Some(facts), ..ExchangeRequest::default() }
    }

    fn facts(&self, id: u64, name: &str) -> SetFacts {
        let addrs = vec![format!("{}:9", self.sets.place.host)];
        SetFacts { id, name: name.to_owned(), revision: 1, stores: addrs.clone(), allocs: addrs, ..SetFacts::default() }
    }

    fn list(&self) -> Vec<Value> {
        let list = self.sets.place.seqsvr_json(&["set", "list", "--addr", &self.sets.addr(7301)]);
        list["items"].as_array().unwrap().clone()
    }

    fn next(&self, uid: u64, port: u16) -> u64 {
        let args = ["next", &uid.to_string(), "--addr", &self.sets.addr(port)];
        let response = self.sets.place.seqsvr_json(&args);
        digits(&response["items"][0]["value"])
    }
}

/// Returns the reason of the leader's refusal; empty if the request is not refused.
macro_rules! refusal {
    ($clients:expr, $method:ident, $request:expr) => {{
        let mut last = String::new();
        let request = $request;
        for client in &mut $clients {
            let response: Result<_, Status> = client.$method(request.clone()).await;
            last = response
                .err()
                .map_or_else(String::new, |status| reason(&status).unwrap_or_else(|| format!("{status:?}")));
            if last != "NOT_LEADER" {
                break;
            }
        }
        last
    }};
}

#[test]
fn a_stores_certificate_of_another_set_moves_nothing() {
    let sets = TwoSets::secure(UIDS);
    let [_a, _b] = sets.start();
    sets.split_for_good("5_000_000");
    let issued = sets.place.seqsvr(&["cert", "issue", STRANGER, "--host", &sets.place.host.to_string()]);
    assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
    let ids = ["im-a", "im-b"].map(|name| {
        let list = sets.place.seqsvr_json(&["set", "list", "--addr", &sets.addr(7301)]);
        let named = list["items"].as_array().unwrap().iter().find(|set| set["name"] == name).unwrap().clone();
        digits(&named["id"])
    });
    let layout_id = Layout::new(0..UIDS, 100_000).unwrap().id().0;
    let world = World { sets, ids, layout_id };
    let before = [7, 7_500_000].map(|uid| (uid, world.next(uid, 7400)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        lies(&world).await;
        anything(&world).await;
    });
    // Users of both sets continue with their next seq, through the nodes of both.
    for (uid, last) in before {
        for (port, step) in [(7400, 1), (7420, 2)] {
            assert_eq!(world.next(uid, port), last + step, "uid {uid} at port {port}");
        }
    }
    // The only additional set is the set that the certificate names, and an operator can remove it.
    let names: Vec<_> = world.list().iter().map(|set| set["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["im-a", "im-b", "im-c"]);
    let args = ["set", "forget", "im-c", "--in", "im-a", "--addr", &world.sets.addr(7301), "--yes"];
    assert!(world.sets.place.seqsvr(&args).status.success());
    assert_eq!(world.list().len(), 2);
    eventually("an allocator learned that there is no such set", || {
        let output = world.sets.place.seqsvr(&["status", "--addr", &world.sets.addr(7400)]);
        output.status.success().then_some(())
    });
}

/// Runs the demonstrations N1 to N3 in order.
async fn lies(world: &World) {
    let [_, b] = world.ids;
    let (_of_stranger, mut stranger) = world.clients(STRANGER);
    let (_of_neighbour, mut neighbour) = world.clients(NEIGHBOUR);
    // N1: a section of im-b arrives in im-a, sent by a third set in the name of im-b, and in its own name.
    assert_eq!(refusal!(stranger, arrive, world.arrive(b, 75, 1_002)), "OTHER_HOLDER");
    assert_eq!(refusal!(stranger, arrive, world.arrive(THIRD, 75, 1_002)), "UNKNOWN_SET");
    // N2, N3: facts and fences in the name of im-b.
    let poisoned = SetFacts { revision: 1 << 63, closed: true, closing: true, ..world.facts(b, "im-b") };
    assert_eq!(refusal!(stranger, exchange, world.exchange(b, poisoned.clone())), "OTHER_HOLDER");
    let fence = FenceRequest { between: world.between(b, u64::MAX), first_section: 0 };
    assert_eq!(refusal!(stranger, fence, fence), "OTHER_HOLDER");
    for name in ["im-x", "im-b", "im-a"] {
        assert_eq!(refusal!(stranger, exchange, world.exchange(0xbad, world.facts(0xbad, name))), "OTHER_HOLDER");
    }
    // A certificate makes only the set that it names known, and no second set under that name; nor does im-b become
    // known by the stranger's certificate.
    let renamed = |name| SetFacts { revision: NEWER, ..world.facts(b, name) };
    assert_eq!(refusal!(stranger, exchange, world.exchange(b, renamed("im-c"))), "OTHER_HOLDER");
    assert_eq!(refusal!(neighbour, exchange, world.exchange(b, renamed("im-x"))), "OTHER_HOLDER");
    assert_eq!(refusal!(stranger, exchange, world.exchange(THIRD, world.facts(THIRD, "im-c"))), "");
    assert_eq!(refusal!(stranger, exchange, world.exchange(0xbad, world.facts(0xbad, "im-c"))), "SET_NAME_TAKEN");
    assert_eq!(refusal!(stranger, arrive, world.arrive(THIRD, 75, 1_002)), "SET_UNAVAILABLE");
    let start = StartReturnRequest {
        between: world.between(THIRD, 0),
        of_migration_id: 5,
        return_id: 6,
        rate: 1,
        ..StartReturnRequest::default()
    };
    assert_eq!(refusal!(stranger, start_return, start), "SET_UNAVAILABLE");
    let complete = CompleteArrivalRequest { between: world.between(THIRD, 0), migration_id: 5 };
    assert_eq!(refusal!(stranger, complete_arrival, complete), "SET_UNAVAILABLE");
    let fence = FenceRequest { between: world.between(THIRD, 1 << 32), first_section: 0 };
    assert_eq!(refusal!(stranger, fence, fence), "SET_UNAVAILABLE");
    // A store of im-b that does not lead: im-b has not sent the section, and has no such lineage.
    assert_eq!(refusal!(neighbour, arrive, world.arrive(b, 93, 1_002)), "SET_UNAVAILABLE");
    let fence = FenceRequest { between: world.between(b, 1 << 32), first_section: 0 };
    assert_eq!(refusal!(neighbour, fence, fence), "SET_UNAVAILABLE");
    assert_eq!(
        refusal!(neighbour, exchange, world.exchange(b, SetFacts { closed: false, closing: false, ..poisoned })),
        "BAD_RESPONSE"
    );
}

/// Sends messages with both certificates in random order.
async fn anything(world: &World) {
    let seconds = std::env::var("STRANGERS_S").map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let seed = std::env::var("STRANGERS_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("again: STRANGERS_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let [a, b] = world.ids;
    let mut holders = [world.clients(STRANGER), world.clients(NEIGHBOUR)];
    let (began, mut sent) = (Instant::now(), 0_u32);
    while began.elapsed() < Duration::from_secs(seconds) {
        let of_neighbour = rng.u8(..8) == 0;
        let (_, clients) = &mut holders[usize::from(of_neighbour)];
        let from = [a, b, THIRD, 0, rng.u64(..)][rng.usize(..5)];
        let lineage = [0, 1, 1 << 32, u64::MAX, rng.u64(..)][rng.usize(..5)];
        let section = [0, 49, 50, 75, 99, 100, u32::MAX][rng.usize(..7)];
        let epoch = [0, 1, 2, 1_002, 1 << 62, u64::MAX][rng.usize(..6)];
        let name = ["im-a", "im-b", "im-c", "im-x", "", "\u{1b}[2J"][rng.usize(..6)];
        let facts = SetFacts {
            // The certificate of im-b's store makes facts about im-b credible, unless im-b cannot have reached the
            // revision.
            revision: if of_neighbour { u64::MAX } else { [0, 1, NEWER, 1 << 40, u64::MAX][rng.usize(..5)] },
            lineage,
            closed: rng.bool(),
            quarantined: rng.bool(),
            ..world.facts(from, name)
        };
        let end = CompleteArrivalRequest { between: world.between(from, lineage), migration_id: rng.u64(..) };
        let refused = match rng.u8(..5) {
            0 => refusal!(*clients, arrive, world.arrive(from, section, epoch)),
            1 => refusal!(*clients, exchange, world.exchange(from, facts)),
            2 => refusal!(
                *clients,
                fence,
                FenceRequest { between: world.between(from, lineage), first_section: section }
            ),
            3 => refusal!(*clients, complete_arrival, end),
            _ => refusal!(
                *clients,
                start_return,
                StartReturnRequest {
                    between: world.between(from, lineage),
                    of_migration_id: rng.u64(..),
                    return_id: rng.u64(..),
                    rate: 1,
                    max_pause_ms: 1,
                    settled: rng.bool(),
                }
            ),
        };
        sent += 1;
        assert!(!refused.starts_with("Internal"), "{refused}");
    }
    println!("{sent} messages of other sets in {seconds} s");
    eventually("the sets exchange", || (world.list().len() == 3).then_some(()));
}
