//! Certificates of nodes that expire, and certificate files that no node takes into use.

use std::fs;
use std::time::{Duration, SystemTime};

use seq_auth::Identity;
use seq_auth::authority::{Authority, Request};
use seq_testkit::eventually;
use serde_json::json;

use crate::tls::{Cluster, text};

/// Time before the expiry of its certificate at which a node hands over, in these tests.
const MARGIN_MS: u64 = 4_000;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Starts a cluster whose allocators hand over [`MARGIN_MS`] before their certificates expire.
pub(crate) fn cluster() -> Cluster {
    Cluster::start_with(|place| {
        let config = place.path("settings.toml");
        let text = format!("[alloc]\ncertificate_margin_ms = {MARGIN_MS}\n[shutdown]\ntimeout_ms = 120_000\n");
        fs::write(&config, text).unwrap();
        vec!["--config".to_owned(), config.display().to_string()]
    })
}

/// Gives a1 a certificate that expires in a number of seconds.
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

/// Returns the number of sections of a1 by the store's records.
fn sections(cluster: &Cluster) -> u64 {
    let list = cluster.place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    let nodes = list["nodes"].as_array().unwrap();
    nodes.iter().find(|node| node["name"] == "a1").and_then(|node| node["sections"].as_u64()).unwrap_or_default()
}

/// Returns the response of a1's port for probes, whose certificate may have expired.
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
        eventually("the certificate has expired", || {
            ready(&cluster).contains("its certificate has expired: `seqsvr cert rotate`").then_some(())
        });
        // No new connection reaches a1, and a1's renewals do not reach the store.
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

    // With a new certificate, a1 serves again without a restart.
    let renewed = cluster.place.seqsvr(&["cert", "rotate"]);
    assert!(renewed.status.success(), "{}", text(&renewed.stderr));
    eventually("a1 is ready", || ready(&cluster).ends_with("\nready\n").then_some(()));
    eventually("a1 has sections again", || (sections(&cluster) > 0).then_some(()));
}

#[test]
fn a_node_with_an_expired_certificate_stops_at_once() {
    let mut cluster = cluster();
    eventually("a1 has sections", || (sections(&cluster) > 0).then_some(()));
    // Without another candidate, a1 keeps its sections until its certificate has expired.
    cluster.server_mut("a2").kill();
    issue(&cluster, 5);
    eventually("the certificate has expired", || ready(&cluster).contains("its certificate has expired").then_some(()));
    // No node can take the sections, so a1 skips the timeout of the shutdown, which is longer than this test waits.
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
        // A process does not start with the certificate either. It checks the certificate before it opens its ports,
        // which are in use.
        let started = cluster.place.seqsvr(&["alloc", "--set", &cluster.set, "--name", "a1"]);
        assert_eq!(started.status.code(), Some(64), "{started:?}");
        assert!(text(&started.stderr).contains(at_start), "{started:?}");
    }
}
