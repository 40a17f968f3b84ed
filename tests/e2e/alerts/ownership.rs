//! Alerts about old routes, handovers without a copy, long takeovers, and numbers that are allocated twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_proto::v1::{HandoverOffer, PrepareRequest};

use super::disks::{end_tracers, slow_syncs};
use super::{FILES, Scene, Setup};
use crate::cluster::{digits, seqsvr, seqsvr_json};
use crate::order_violation::make_counter_fall;

pub(super) const ALERTS_OF_ROUTES: &[&str] = &["SeqsvrWrongOwner"];
pub(super) const ALERTS_OF_COPIES: &[&str] = &["SeqsvrHandoverCopiesLost"];
pub(super) const ALERTS_OF_TAKEOVERS: &[&str] = &["SeqsvrUnservedLong"];
pub(super) const ALERTS_OF_ORDER: &[&str] = &["SeqsvrOrderViolation"];

/// Connections that send forged offers, each with one offer in flight.
const FORGERS: usize = 16;

#[test]
#[ignore = "a quarter of an hour, with Prometheus; `just alerts`"]
fn alerts_of_routes_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_ROUTES, ..Setup::default() });
    let args = ["--endpoint", "grpc", "--rate", "50", "--concurrency", "512", "--uids", "10000000"];
    let _load = scene.load_at("load", 7400, &args);
    scene.stage(
        "stores 2 and 3 are killed and allocator 2 is restarted, under a load at allocator 1",
        ALERTS_OF_ROUTES,
        |scene| {
            (scene.stores[1], scene.stores[2]) = (None, None);
            scene.allocs[1] = None;
            scene.start_alloc(1, FILES);
        },
        |scene| (2..=3).for_each(|store| scene.start_store(store)),
    );
    scene.print();
}

#[test]
#[ignore = "twenty minutes, with Prometheus; `just alerts`"]
fn alerts_of_copies_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_COPIES, ..Setup::default() });
    let _load = scene.load("load", &["--rate", "200", "--uids", "10000000"]);
    let set = scene.set.clone();
    let offers = offers(&set);
    assert!(!offers.is_empty(), "a1 owns sections");
    scene.stage(
        "forged offers push copies out of allocator 2 while allocator 1 is drained, and syncs of the stores take 0.12 s more",
        ALERTS_OF_COPIES,
        |scene| {
            let (tracers, stop) = (slow_syncs(scene), AtomicBool::new(false));
            let peer = format!("http://{}:7405", scene.place.host);
            std::thread::scope(|scope| {
                scope.spawn(|| forge(&peer, &offers, &stop));
                let drained = seqsvr(&["node", "drain", "a1", "--yes", "--set", &set]);
                stop.store(true, Ordering::Relaxed);
                assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
            });
            end_tracers(tracers);
        },
        |_| {},
    );
    scene.print();
}

#[test]
#[ignore = "a quarter of an hour, with Prometheus; `just alerts`"]
fn alerts_of_takeovers_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_TAKEOVERS, ..Setup::default() });
    scene.stage(
        "both allocators are killed, and started again 15 s later",
        ALERTS_OF_TAKEOVERS,
        |scene| {
            scene.allocs[1] = None;
            scene.restart_alloc(0, Duration::from_secs(15));
            scene.start_alloc(1, FILES);
        },
        |_| {},
    );
    scene.print();
}

#[test]
#[ignore = "a minute, as root, with Prometheus; `just alerts`"]
fn alerts_of_order_fire_and_resolve() {
    let mut scene = Scene::start(&Setup { alerts: ALERTS_OF_ORDER, ..Setup::default() });
    let (set, addr) = (scene.set.clone(), scene.addr(7400));
    let call = |args: &[&str]| seqsvr_json(&[args, &["--addr", &addr]].concat());
    let owner = || seqsvr_json(&["section", "show", "--uid", "1", "--set", &set])["owner"].clone();
    let damaged = usize::from(owner() == "a2");
    scene.stage(
        "the counter of a user falls in the memory of its owner",
        ALERTS_OF_ORDER,
        |scene| make_counter_fall(scene.allocs[damaged].as_ref().unwrap(), "1", call),
        // The section begins at its ceiling, above all numbers that the damaged process has allocated.
        |scene| scene.restart_alloc(damaged, Duration::from_secs(5)),
    );
    scene.print();
}

/// Returns offers of all sections of a1 to a2, for their next ownership.
fn offers(set: &str) -> Vec<HandoverOffer> {
    let nodes = seqsvr_json(&["node", "list", "--set", set]);
    let target = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "a2").unwrap();
    let incarnation = target["incarnation"].as_u64().unwrap();
    let sections = seqsvr_json(&["section", "list", "--owner", "a1", "--set", set]);
    let offer = |section: &serde_json::Value| HandoverOffer {
        set: "im-a".to_owned(),
        section: section["first_section"].as_u64().unwrap() as u32,
        epoch: digits(&section["epoch"]) + 1,
        incarnation,
        ..HandoverOffer::default()
    };
    sections["items"].as_array().unwrap().iter().map(offer).collect()
}

/// Sends these offers to a peer port until it is stopped, under ids that no handover has. The peer keeps two attempts
/// per section.
fn forge(peer: &str, offers: &[HandoverOffer], stop: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let forger = async |first: usize| {
        let mut client = HandoverServiceClient::connect(peer.to_owned()).await.unwrap();
        for at in first.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let offer = HandoverOffer { handover_id: at as u64 + 1, ..offers[at % offers.len()].clone() };
            // The offer is refused once the section has arrived.
            let _ = client.prepare(PrepareRequest { offer: Some(offer) }).await;
        }
    };
    let forgers = (0..FORGERS).map(|number| forger(number * offers.len() / FORGERS));
    runtime.block_on(futures::future::join_all(forgers));
}
