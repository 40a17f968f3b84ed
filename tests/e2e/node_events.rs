//! The events of processes: a lease and a quorum that are lost and regained, denied requests as one event a minute,
//! reloads. These events are listed with the events of the set, with their source, and nodes that do not respond are
//! named.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use seq_auth::{Credentials, Files};
use seq_channel::Pool;
use seq_core::node_events::NodeEventKind;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ListCeilingsRequest, ListNodeEventsRequest};
use seq_testkit::eventually;
use serde_json::Value;
use tonic::Code;

use crate::cluster::{digits, seqsvr, seqsvr_json};
use crate::events::Watch;
use crate::{plans, tls};

/// Requests of a client that its role does not allow.
const DENIED: u64 = 50;

impl plans::Cluster {
    /// Returns the events of the given kinds.
    fn events(&self, kinds: &[&str]) -> Vec<Value> {
        let kinds = kinds.iter().flat_map(|kind| ["--kind", kind]);
        let args: Vec<&str> = ["events", "list", "--set", &self.set].into_iter().chain(kinds).collect();
        items(&seqsvr_json(&args))
    }
}

impl tls::Cluster {
    /// Returns the events of a node.
    fn events(&self, node: &str) -> Vec<Value> {
        items(&self.place.seqsvr_json(&["events", "list", "--set", &self.set, "--node", node]))
    }

    /// Sends requests that the role of a client does not allow to a1.
    fn denied_requests(&self) {
        let credentials = Credentials::load(Files::in_dir(&self.place.path("certs"), "client/backend")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let addr = format!("{}:7400", self.place.host);
        runtime.block_on(async {
            let pool = Pool::with_dial(1, seq_channel::tls::dial(credentials));
            let mut node = StatusServiceClient::new(pool.get(&addr).unwrap());
            for _ in 0..DENIED - 1 {
                let denied = node.list_ceilings(ListCeilingsRequest::default()).await.unwrap_err();
                assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");
            }
            let denied = node.list_node_events(ListNodeEventsRequest::default()).await.unwrap_err();
            assert_eq!(denied.code(), Code::PermissionDenied, "clients do not read events: {denied}");
        });
    }
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().unwrap_or_else(|| panic!("{list:#}")).clone()
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["kind"] == kind).collect()
}

fn sources(events: &[Value], kind: &str) -> BTreeSet<String> {
    of(events, kind).into_iter().map(|event| event["source"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_lease_and_a_quorum_are_lost_and_regained_while_two_stores_are_paused() {
    let cluster = plans::Cluster::start();
    let watch = Watch::start(&cluster.set);
    // The watch has begun once it shows an event of the set.
    eventually("the watch has begun", || {
        cluster.run(&["node", "drain", "a3", "--yes"]);
        cluster.run(&["node", "undrain", "a3"]);
        watch.seen(|event| event["kind"] == "undrained" && event["source"] == "log" && event["of"] == "im-a")
    });
    let before = cluster.events(&["lease_lost", "quorum_lost"]);

    for store in ["s1", "s2"] {
        cluster.servers[store].freeze();
    }
    let lost = eventually("the allocators have no lease and s3 has no quorum", || {
        let lost = cluster.events(&["lease_lost", "quorum_lost"]);
        let leases = sources(&lost, "lease_lost");
        let all = ["a1", "a2"].iter().all(|node| leases.contains(*node));
        (all && sources(&lost, "quorum_lost").contains("s3")).then_some(lost)
    });
    assert!(lost.len() > before.len());
    let a1 = *of(&lost, "lease_lost").iter().rfind(|event| event["source"] == "a1").unwrap();
    assert!(a1["severity"] == "attention" && a1["unserved_sections"].as_u64() > Some(0), "{a1:#}");
    // Paused nodes are named, and the others are listed.
    let output = seqsvr(&["events", "list", "--kind", "quorum_lost", "--set", &cluster.set]);
    let (text, notes) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success() && text.contains("s3") && text.contains("quorum_lost"), "{text}{notes}");
    assert!(["s1", "s2"].iter().all(|store| notes.contains(&format!("no events of {store}: "))), "{notes}");

    for store in ["s1", "s2"] {
        cluster.servers[store].thaw();
    }
    let regained = eventually("the allocators have leases and s3 has a quorum", || {
        let events = cluster.events(&["lease_regained", "quorum_regained"]);
        let leases = sources(&events, "lease_regained");
        let all = ["a1", "a2"].iter().all(|node| leases.contains(*node));
        (all && sources(&events, "quorum_regained").contains("s3")).then_some(events)
    });
    for event in of(&regained, "lease_regained") {
        assert!(event["severity"] == "info" && digits(&event["lasted_ms"]) > 0, "{event:#}");
    }
    for (source, kind) in [("a1", "lease_lost"), ("a1", "lease_regained"), ("s3", "quorum_regained")] {
        watch.see(kind, |event| event["kind"] == kind && event["source"] == source);
    }

    // One line of time, with the events of the set.
    let all = items(&seqsvr_json(&["events", "list", "--set", &cluster.set]));
    let times: Vec<&str> = all.iter().filter_map(|event| event["time"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(all.iter().any(|event| event["source"] == "log") && all.iter().any(|event| event["source"] == "a1"));
    let of_a1 = items(&seqsvr_json(&["events", "list", "--set", &cluster.set, "--node", "a1"]));
    assert!(of_a1.iter().all(|event| event["source"] == "log" || event["source"] == "a1"), "{of_a1:#?}");
    assert!(!of(&of_a1, "registered").is_empty() && !of(&of_a1, "lease_lost").is_empty(), "{of_a1:#?}");
}

#[test]
fn denied_requests_are_one_event_a_minute_with_a_count() {
    let mut cluster = tls::Cluster::start();
    let since = Instant::now();
    // A client that finds no server yet may probe, without TLS, which kind of port this is.
    let handshakes = |cluster: &tls::Cluster| -> u64 {
        of(&cluster.events("a1"), "handshakes_failed").iter().map(|event| digits(&event["count"])).sum()
    };
    let before = handshakes(&cluster);
    cluster.denied_requests();
    let events = cluster.events("a1");
    let minutes = since.elapsed().as_secs() / 60 + 1;
    let denied = of(&events, "denied");
    let counts: Vec<u64> = denied.iter().map(|event| digits(&event["count"])).collect();
    assert_eq!(counts.iter().sum::<u64>(), DENIED, "{events:#?}");
    assert!(counts.len() as u64 <= minutes, "{minutes} minutes have begun: {events:#?}");
    assert_eq!((&denied[0]["severity"], &denied[0]["source"]), (&"info".into(), &"a1".into()));
    assert_eq!(handshakes(&cluster), before, "{events:#?}");
    let stranger = cluster.curl(None, &[], 7400, "/api/seq/current/1");
    assert!(!stranger.status.success());
    eventually("the failed handshake is an event", || (handshakes(&cluster) > before).then_some(()));
    let log = cluster.server_mut("a1").log();
    for kind in [NodeEventKind::Denied, NodeEventKind::HandshakesFailed] {
        assert!(log.contains(&format!(" event=\"{}\"", kind.name())), "{log}");
    }
}

#[test]
fn reloads_and_certificates_are_events_of_the_process_that_reads_them() {
    let mut cluster = tls::Cluster::start();
    let set = cluster.set.clone();
    let text = fs::read_to_string(&set).unwrap();
    let reload = |cluster: &mut tls::Cluster, text: &str, kind: &str| {
        let before = of(&cluster.events("a1"), kind).len();
        fs::write(&set, text).unwrap();
        cluster.server_mut("a1").hang_up();
        eventually("the reload is an event", || {
            of(&cluster.events("a1"), kind).get(before).map(|event| (*event).clone())
        })
    };
    let changed = text.replace("step = 10_000", "step = 20_000");
    assert_ne!(changed, text);
    let event = reload(&mut cluster, &changed, "reloaded");
    assert_eq!((&event["detail"], &event["severity"]), (&"step 20000".into(), &"info".into()), "{event:#}");
    let event = reload(&mut cluster, &changed, "reloaded");
    assert_eq!(event["text"], "files were read again: nothing has changed", "{event:#}");
    let rotated = cluster.place.seqsvr(&["cert", "rotate"]);
    assert!(rotated.status.success(), "{rotated:?}");
    for node in ["a1", "s1"] {
        let event = eventually("the certificate is an event", || {
            of(&cluster.events(node), "certificate_reloaded").first().map(|event| (*event).clone())
        });
        assert_eq!(event["source"], node, "{event:#}");
        let log = cluster.server_mut(node).log();
        assert!(log.contains(&format!(" event=\"{}\"", NodeEventKind::CertificateReloaded.name())), "{log}");
    }
}
