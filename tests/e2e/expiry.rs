//! Certificates of nodes that expire, and files that no node takes into use.

use std::fs;
use std::time::{Duration, SystemTime};

use seq_auth::Identity;
use seq_auth::authority::{Authority, Request};
use serde_json::json;

use crate::cluster::eventually;
use crate::tls::{Cluster, text};

/// How long before its expiry a certificate makes its node hand over, in these tests.
const MARGIN_MS: u64 = 4_000;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A cluster whose allocators hand over so long before their certificates expire.
pub(crate) fn cluster() -> Cluster {
    Cluster::start_with(|place| {
        let config = place.path("settings.toml");
        let text = format!("[alloc]\ncertificate_margin_ms = {MARGIN_MS}\n[shutdown]\ntimeout_ms = 120_000\n");
        fs::write(&config, text).unwrap();
        vec!["--config".to_owned(), config.display().to_string()]
    })
}

/// Gives a1 a certificate whose day ends so many seconds from now.
pub(crate) fn issue(cluster: &Cluster, seconds: i64) {
    let authority = Authority::from_pem(&fs::read_to_string(cluster.cert("ca.key")).unwrap()).unwrap();
    let identity = Identity::in_cluster(authority.cluster(), "alloc/im-a/a1").unwrap();
    let request = Request { identity, hosts: vec![cluster.place.host.to_string()], validity: DAY };
    #[expect(clippy::disallowed_methods, reason = "certificates are valid by the wall clock")]
    let now = SystemTime::now();
    let end = if seconds < 0 {
        now - Duration::from_secs(seconds.unsigned_abs())
    } else {
        now + Duration::from_secs(seconds.unsigned_abs())
    };
    let issued = authority.issue(&request, end - DAY).unwrap();
    let (path, new) = (cluster.cert("alloc.im-a.a1.pem"), cluster.cert("new.pem"));
    fs::write(&new, format!("{}{}", *issued.key, issued.certificate)).unwrap();
    fs::rename(new, path).unwrap();
}

/// Sections of a1 in the store.
fn sections(cluster: &Cluster) -> u64 {
    let list = cluster.place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    let nodes = list["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == "a1").and_then(|node| node["sections"].as_u64()).unwrap_or_default()
}

/// The response of a1's port for probes, whose certificate may have expired.
fn ready(cluster: &Cluster) -> String {
    text(&cluster.curl(None, &["--insecure"], 7480, "/readyz").stdout).to_owned()
}

#[test]
fn a_certificate_that_expires_under_load_fails_no_call() {
    let cluster = cluster();
    eventually("a1 has sections", || (sections(&cluster) > 0).then_some(()));
    let (one, other) = (cluster.url(7400), cluster.url(7401));
    let load = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let args = ["bench", "--seamless", "--rate", "300", "--duration-s", "14", "--uids", "100000"];
            let more = ["--addr", &one, "--addr", &other, "--deadline-ms", "5000"];
            cluster.place.seqsvr_json(&[&args[..], &more[..]].concat())
        });
        issue(&cluster, 9);
        eventually("a1 is not ready", || {
            ready(&cluster).contains("its certificate expires within minutes").then_some(())
        });
        eventually("a1 has handed over", || (sections(&cluster) == 0).then_some(()));
        assert!(cluster.metric(7480, "seqsvr_withdrawals_total{node=\"a1\"}") >= 1.0);
        let status = cluster.place.seqsvr(&["status", "--set", &cluster.set]);
        let printed = text(&status.stdout);
        assert!(printed.contains("a1: its certificate") || printed.contains("expired"), "{printed}");
        eventually("it has expired", || {
            ready(&cluster).contains("its certificate has expired: `seqsvr cert rotate`").then_some(())
        });
        // No new connection reaches a1, and no renewal of it the store.
        assert_eq!(cluster.metric(7480, "seqsvr_sections{set=\"im-a\",node=\"a1\",state=\"served\"}"), 0.0);
        load.join().unwrap()
    });
    assert_eq!(load["failed_items"], json!({}), "{load:#}");
    for fault in ["decreases", "duplicates", "chain_breaks", "gaps"] {
        assert_eq!(load["order"][fault], 0, "{load:#}");
    }
    let status = cluster.place.seqsvr(&["status", "--set", &cluster.set]);
    let printed = text(&status.stdout);
    assert!(printed.contains("its certificate has expired: `seqsvr cert rotate`"), "{printed}");
    assert!(printed.contains("certificate expired: a1") && !printed.contains("no response of allocator"), "{printed}");

    // With a new certificate it serves again, without a restart.
    let renewed = cluster.place.seqsvr(&["cert", "rotate"]);
    assert!(renewed.status.success(), "{}", text(&renewed.stderr));
    eventually("a1 is ready", || ready(&cluster).ends_with("\nready\n").then_some(()));
    eventually("a1 has sections again", || (sections(&cluster) > 0).then_some(()));
}

#[test]
fn a_node_with_an_expired_certificate_stops_at_once() {
    let mut cluster = cluster();
    eventually("a1 has sections", || (sections(&cluster) > 0).then_some(()));
    // Without another candidate it keeps its sections until it has expired.
    cluster.server_mut("a2").kill();
    issue(&cluster, 5);
    eventually("it has expired", || ready(&cluster).contains("its certificate has expired").then_some(()));
    // There is nothing to hand over to: it does not wait for the timeout of the shutdown, which is longer than this waits.
    assert_eq!(cluster.server_mut("a1").terminate(), Some(0));
    assert!(cluster.log("a1").contains("sections not handed over"), "{}", cluster.log("a1"));
}

#[test]
fn a_certificate_that_is_not_valid_now_is_not_taken_into_use() {
    let cluster = cluster();
    let failed = || cluster.metric(7480, "seqsvr_certificate_reloads_total{node=\"a1\",outcome=\"failed\"}");
    let two_days = 2 * 24 * 60 * 60;
    let clock = "is the clock of this machine right?";
    for (seconds, cause, at_start) in
        [(-60, "the certificate expired", "the certificate has expired"), (two_days, clock, clock)]
    {
        let before = failed();
        issue(&cluster, seconds);
        eventually("the file is refused again and again", || (failed() >= before + 2.0).then_some(()));
        let log = cluster.log("a1");
        assert_eq!(log.matches(cause).count(), 1, "{log}");
        assert!(cluster.next("client/backend").status.success());
        assert!(ready(&cluster).ends_with("\nready\n"), "{}", ready(&cluster));
        // Nor does a process start with it: its ports, which are in use, are not opened before.
        let started = cluster.place.seqsvr(&["alloc", "--set", &cluster.set, "--name", "a1"]);
        assert_eq!(started.status.code(), Some(64), "{started:?}");
        assert!(text(&started.stderr).contains(at_start), "{started:?}");
    }
}
