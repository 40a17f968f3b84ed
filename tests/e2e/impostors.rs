//! Two sets over TLS, and a node of a third set at an address of theirs: no process sends a request to it.

use std::fs;
use std::process::Command;

use seq_testkit::eventually;

use crate::cluster::{Place, Server};
use crate::two_sets::TwoSets;

/// The identity of the impostor.
const IMPOSTOR: &str = "seqsvr://two/alloc/im-c/a1";

/// Starts a node of set im-c at the ports of a1 of set im-a. Its certificate is of the cluster and for this host.
fn impostor(place: &Place) -> Server {
    let text = fs::read_to_string(place.path("sets/two/a.toml")).unwrap();
    let text = text.replace("name = \"im-a\"", "name = \"im-c\"");
    let file = place.path("c.toml");
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let issued = place.seqsvr(&["cert", "issue", "--set", &file]);
    assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
    place.server("c-a1", &["alloc", "--set", &file, "--name", "a1", "--cores", "1"])
}

/// Returns whether a process has logged that it refused the impostor, at the address and instead of the node of set
/// im-a.
fn has_refused(server: &Server, addr: &str) -> bool {
    let parts = ["refused the server at an address", addr, IMPOSTOR, "server with role alloc and set", "im-a"];
    server.log().lines().any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn a_node_of_a_third_set_gets_no_call_for_another_one() {
    let sets = TwoSets::secure(10_000_000);
    let place = &sets.place;
    let issued = place.seqsvr(&["cert", "issue", "proxy/p", "--host", &place.host.to_string()]);
    assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
    let [mut a, b] = sets.start();
    // The SDK would send the call to im-a itself, so curl is used.
    let next = |port: u16| {
        let pem = place.path("certs/client.backend.pem");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "10", "--request", "POST", "--cacert"]);
        curl.arg(place.path("certs/ca.crt")).arg("--cert").arg(&pem).arg("--key").arg(&pem);
        curl.arg(format!("{}/api/seq/next/7", sets.addr(port))).output().expect("curl is installed").status.success()
    };
    // All sections are in set im-a, so its nodes receive the forwarded calls.
    eventually("im-b forwards", || next(7420).then_some(()));
    let [listen, http] = [7440, 7441].map(|port| format!("{}:{port}", place.host));
    let file = sets.file("a").display().to_string();
    let args = ["proxy", "--set", &file, "--name", "p", "--listen", &listen, "--http", &http, "--cores", "1"];
    let proxy = place.server("p", &args);
    eventually("the proxy forwards", || next(7440).then_some(()));

    a.allocs.iter_mut().for_each(Server::kill);
    let _impostor = impostor(place);
    let addr = format!("{}:7400", place.host);
    for (server, port) in [(&b.allocs[0], 7420), (&proxy, 7440)] {
        eventually("the impostor is refused", || {
            assert!(!next(port), "no node of im-a serves");
            has_refused(server, &addr).then_some(())
        });
    }
}
