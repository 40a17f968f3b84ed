//! A viewer's certificate: the commands that show the state of a cluster work with it, and all others are refused.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use seq_testkit::eventually;

use crate::tls::{Cluster, text};

const VIEWER: &str = "viewer/console";

/// A process that watches events; ended on drop.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Cluster {
    fn view(&self, args: &[&str]) -> Output {
        self.place.seqsvr_as(VIEWER, args)
    }
}

/// Asserts that a command was refused because of the role, with the method and the holder.
fn assert_refused(output: &Output, method: &str) {
    let stderr = text(&output.stderr);
    let is_clear = stderr.contains("ROLE_DENIED") && stderr.contains(&format!("{VIEWER} may not call {method}"));
    assert!(!output.status.success() && is_clear, "{method}: {stderr}");
}

#[test]
fn a_viewer_sees_the_state_of_a_cluster_and_changes_nothing() {
    let cluster = Cluster::start();
    let issued = cluster.place.seqsvr(&["cert", "issue", VIEWER]);
    assert!(issued.status.success(), "{}", text(&issued.stderr));
    let set = ["--set", &*cluster.set];
    let (alloc, admin) = (cluster.url(7400), cluster.url(7304));
    let (of_alloc, of_admin) = (["--addr", &*alloc], ["--addr", &*admin]);

    for (command, target) in [
        (&["status"][..], &set),
        (&["status"], &of_alloc),
        (&["health"], &set),
        (&["services"], &of_admin),
        (&["store", "members"], &set),
        (&["node", "list"], &of_alloc),
        (&["set", "list"], &set),
        (&["migration", "list"], &set),
        (&["section", "list"], &set),
        (&["section", "list", "--top", "numbers"], &set),
        (&["section", "show", "0"], &of_alloc),
        (&["events", "list"], &set),
        (&["audit", "list"], &of_admin),
        (&["current", "42"], &of_alloc),
    ] {
        let output = cluster.view(&[command, &target[..]].concat());
        assert!(output.status.success(), "{command:?} {target:?}: {output:?}");
        assert!(!text(&output.stderr).contains("ROLE_DENIED"), "{command:?}: {output:?}");
    }
    let denied = |port| cluster.metric(port, "seqsvr_requests_denied_total{");
    assert_eq!([7311, 7312, 7313, 7480, 7481].map(denied), [0.0; 5], "the commands send nothing that is denied");

    // A watch shows the drains of an operator.
    let mut watch = Command::new(env!("CARGO_BIN_EXE_seqsvr"));
    watch.env("SEQSVR_CERTS", cluster.place.path("certs")).env("SEQSVR_IDENTITY", VIEWER).stdout(Stdio::piped());
    let mut watch = Watch(watch.args(["events", "watch", "--kind", "undrained"]).args(set).spawn().unwrap());
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    let seen = std::thread::spawn(move || lines.next().unwrap().unwrap());
    eventually("the watch shows an event", || {
        for command in [&["node", "drain", "a2", "--yes"][..], &["node", "undrain", "a2"]] {
            let done = cluster.place.seqsvr(&[command, &set[..]].concat());
            assert!(done.status.success(), "{}", text(&done.stderr));
        }
        seen.is_finished().then_some(())
    });
    let line = seen.join().unwrap();
    assert!(line.contains("a2"), "{line}");
    drop(watch);

    let before = cluster.place.seqsvr_json(&[&["node", "list"], &set[..]].concat());
    let backup = cluster.place.path("backup").display().to_string();
    for (command, method) in [
        (&["node", "drain", "a1", "--yes"][..], "seqsvr.v1.NodeAdminService/DrainNode"),
        (&["section", "balance", "--pause"], "seqsvr.v1.NodeAdminService/PauseBalancing"),
        (&["backup", "create", "--out", &backup], "seqsvr.v1.BackupService/CreateBackup"),
        (&["next", "42"], "seqsvr.v1.SequenceService/Next"),
        (&["advance", "42", "1000", "--yes"], "seqsvr.v1.SequenceService/Advance"),
    ] {
        assert_refused(&cluster.view(&[command, &set[..]].concat()), method);
    }
    let drain = cluster.view(&[&["node", "drain", "a1", "--yes"], &set[..]].concat());
    assert!(text(&drain.stderr).contains("--identity"), "it names the next step: {drain:?}");
    let http = cluster.curl(Some("viewer.console"), &[], 7400, "/api/seq/current/42");
    assert!(text(&http.stdout).contains("ROLE_DENIED"), "{http:?}");
    let redis = cluster.redis(Some("viewer.console"), &["GET", "seq:42"]);
    assert!(text(&redis.stdout).contains("NOPERM"), "{redis:?}");
    let after = cluster.place.seqsvr_json(&[&["node", "list"], &set[..]].concat());
    assert_eq!(before["nodes"].as_array().map(Vec::len), after["nodes"].as_array().map(Vec::len));
    let drained = |list: &serde_json::Value| {
        list["nodes"].as_array().unwrap().iter().map(|node| node["drained"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(drained(&before), drained(&after), "nothing has changed");
}
