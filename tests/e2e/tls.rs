//! A cluster over TLS: all its ports, its clients, strangers, and the rotation of its certificates under load.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use seq_testkit::eventually;
use serde_json::Value;

use crate::cluster::{Place, Server, seqsvr};

/// The endpoints of `seqsvr bench`.
pub(crate) const LOADS: [&str; 6] = ["sdk", "grpc", "many", "stream", "resp", "json"];

/// Returns the arguments of a load on an endpoint; `redis` is the address of the Redis port.
pub(crate) fn load<'a>(endpoint: &'a str, redis: &'a str) -> Vec<&'a str> {
    let redis = ["--redis", redis];
    let redis = if endpoint == "resp" { &redis[..] } else { &[] };
    [&["bench", "--endpoint", endpoint], redis].concat()
}

/// The set of `three-node.toml`, with a certificate for each process.
pub(crate) struct Cluster {
    servers: Vec<Server>,
    pub(crate) set: String,
    pub(crate) place: Place,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        Cluster::start_with(|_| Vec::new())
    }

    /// Starts the cluster with additional arguments of its allocators; the certificates exist when `more` is called.
    pub(crate) fn start_with(more: impl FnOnce(&Place) -> Vec<String>) -> Cluster {
        Cluster::start_by(more, |place, name, args| place.server(name, args))
    }

    /// Starts the cluster of processes with a limit of open files.
    pub(crate) fn start_with_files(files: usize) -> Cluster {
        Cluster::start_by(|_| Vec::new(), |place, name, args| place.server_with_files(name, args, files))
    }

    fn start_by(more: impl FnOnce(&Place) -> Vec<String>, server: impl Fn(&Place, &str, &[&str]) -> Server) -> Cluster {
        let place = Place::new();
        let set = place.secure_set_file("three-node.toml").display().to_string();
        let more = more(&place);
        let mut servers = Vec::new();
        for id in ["1", "2", "3"] {
            let data = place.path(&format!("s{id}")).display().to_string();
            let args = ["store", "--set", &set, "--id", id, "--data", &data];
            servers.push(server(&place, &format!("s{id}"), &args));
        }
        for name in ["a1", "a2"] {
            let args = ["alloc", "--set", &set, "--name", name, "--cores", "1"];
            let args: Vec<&str> = args.into_iter().chain(more.iter().map(String::as_str)).collect();
            servers.push(server(&place, name, &args));
        }
        let cluster = Cluster { servers, set, place };
        eventually("numbers are allocated", || cluster.next("client/backend").status.success().then_some(()));
        cluster
    }

    /// Stops every process, in order.
    pub(crate) fn stop(&mut self) {
        for server in self.servers.iter_mut().rev() {
            assert_eq!(server.terminate(), Some(0), "{}", server.log());
        }
    }

    pub(crate) fn url(&self, port: u16) -> String {
        format!("https://{}:{port}", self.place.host)
    }

    pub(crate) fn next(&self, holder: &str) -> Output {
        self.place.seqsvr_as(holder, &["next", "42", "--addr", &self.url(7400), "--deadline-ms", "3000"])
    }

    pub(crate) fn cert(&self, name: &str) -> PathBuf {
        self.place.path(&format!("certs/{name}"))
    }

    /// Sends a request with curl, with or without the certificate of a holder.
    pub(crate) fn curl(&self, holder: Option<&str>, more: &[&str], port: u16, path: &str) -> Output {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "10", "--cacert"]).arg(self.cert("ca.crt"));
        if let Some(holder) = holder {
            let pem = self.cert(&format!("{holder}.pem"));
            curl.arg("--cert").arg(&pem).arg("--key").arg(&pem);
        }
        curl.args(more).arg(format!("{}{path}", self.url(port))).output().expect("curl is installed")
    }

    /// Sends a command to the Redis port of a2.
    pub(crate) fn redis(&self, holder: Option<&str>, command: &[&str]) -> Output {
        let mut redis = Command::new("redis-cli");
        redis.args(["-h", &self.place.host.to_string(), "-p", "7478", "--tls", "--cacert"]).arg(self.cert("ca.crt"));
        if let Some(holder) = holder {
            let pem = self.cert(&format!("{holder}.pem"));
            redis.arg("--cert").arg(&pem).arg("--key").arg(&pem);
        }
        redis.args(command).output().expect("redis-cli is installed")
    }

    /// Returns the log of a process.
    pub(crate) fn log(&self, name: &str) -> String {
        self.servers[index(name)].log()
    }

    /// Returns a process of the cluster.
    pub(crate) fn server_mut(&mut self, name: &str) -> &mut Server {
        &mut self.servers[index(name)]
    }

    /// Returns a metric from the port for probes of a node, whose certificate may have expired.
    pub(crate) fn metric(&self, port: u16, name: &str) -> f64 {
        let output = self.curl(None, &["--insecure"], port, "/metrics");
        let text = text(&output.stdout).to_owned();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// An allocator whose file disables TLS does not start if the stores have TLS, and names the cause.
#[test]
fn an_allocator_without_tls_is_refused_beside_stores_with_it() {
    let place = Place::new();
    let set = place.secure_set_file("three-node.toml").display().to_string();
    let data = place.path("s1").display().to_string();
    let store = place.server("s1", &["store", "--set", &set, "--id", "1", "--data", &data]);
    eventually("the store listens", || TcpStream::connect((place.host, 7301)).ok());
    let text = format!("plaintext = true\n{}", fs::read_to_string(&set).unwrap());
    let other = place.path("plaintext.toml").display().to_string();
    fs::write(&other, text).unwrap();
    let refused = seqsvr(&["alloc", "--set", &other, "--name", "a1"]);
    let said = failed(&refused, 64);
    assert!(said.contains("store s1 at") && said.contains("has TLS"), "{said}");
    drop(store);
}

/// Returns the text of a command that failed with `code`.
fn failed(output: &Output, code: i32) -> String {
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{printed}");
    printed
}

#[test]
fn every_port_has_tls_and_refuses_those_without_a_certificate() {
    let cluster = Cluster::start();
    let place = &cluster.place;

    // Commands that use the set file, and commands that use an address.
    let status = place.seqsvr_json(&["status", "--set", &cluster.set]);
    assert_eq!(status["sets"][0]["state"], "ok", "{status:#}");
    let certificates = ["stores", "allocs"].map(|kind| status[kind][0]["certificate"]["state"].clone());
    assert_eq!(certificates, ["valid", "valid"], "{status:#}");
    let drained = place.seqsvr(&["node", "drain", "a1", "--set", &cluster.set, "--yes"]);
    assert!(drained.status.success(), "{}", text(&drained.stderr));
    assert!(cluster.next("operator/admin").status.success());

    // JSON and the Redis protocol, with foreign tools.
    let path = "/api/seq/next/42";
    let served = cluster.curl(Some("client.backend"), &["-X", "POST"], 7401, path);
    assert!(text(&served.stdout).trim().parse::<u64>().unwrap() > 1, "{served:?}");
    assert!(
        text(&cluster.redis(Some("client.backend"), &["INCR", "seq:42"]).stdout).trim().parse::<u64>().unwrap() > 2
    );
    assert!(text(&cluster.redis(None, &["INCR", "seq:42"]).stdout).trim().parse::<u64>().is_err());

    // Loads.
    let (url, redis) = (cluster.url(7401), format!("{}:7478", place.host));
    for endpoint in LOADS {
        let load = [load(endpoint, &redis), vec!["--addr", &url, "--calls", "200", "--check"]].concat();
        let output = place.seqsvr_as("client/backend", &load);
        assert!(output.status.success(), "{endpoint}: {output:?}");
    }

    // Without a certificate, only probes and metrics are served. TLS 1.2 is not accepted.
    let bare = cluster.curl(None, &["-X", "POST"], 7401, path);
    assert!(!bare.status.success() && bare.stdout.is_empty(), "{bare:?}");
    assert!(cluster.metric(7481, "seqsvr_handshakes_failed_total{node=\"a2\"}") >= 2.0);
    for port in [7301, 7400, 7311, 7480] {
        let old = cluster.curl(Some("client.backend"), &["--tls-max", "1.2"], port, "/livez");
        assert!(text(&old.stderr).contains("alert protocol version"), "port {port}: {old:?}");
    }
    // Garbage ends its connection long before the timeout of a handshake.
    let failed_before = cluster.metric(7481, "seqsvr_handshakes_failed_total{node=\"a2\"}");
    for port in [7401, 7478] {
        let mut garbage = TcpStream::connect((place.host, port)).unwrap();
        garbage.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        garbage.write_all(&[0xff; 64]).unwrap();
        let ended = garbage.read_to_end(&mut Vec::new());
        assert!(!matches!(&ended, Err(error) if error.kind() == ErrorKind::WouldBlock), "port {port}: {ended:?}");
    }
    assert!(cluster.metric(7481, "seqsvr_handshakes_failed_total{node=\"a2\"}") >= failed_before + 2.0);
    assert_eq!(cluster.metric(7481, "seqsvr_handshakes_refused_total{node=\"a2\"}"), 0.0);
    assert_eq!(text(&cluster.curl(None, &[], 7480, "/livez").stdout), "alive\n");
    assert!(cluster.metric(7311, "seqsvr_certificate_expiry_seconds{node=\"s1\"}") > 1e9);

    // The calls go through a proxy, which has its own certificate.
    let issued = place.seqsvr(&["cert", "issue", "proxy/p1", "--host", &place.host.to_string()]);
    assert!(issued.status.success(), "{}", text(&issued.stderr));
    let [listen, http] = [7600, 7680].map(|port| format!("{}:{port}", place.host));
    let args = ["proxy", "--set", &cluster.set, "--name", "p1", "--listen", &listen, "--http", &http, "--cores", "1"];
    let _proxy = place.server("p1", &args);
    let through = ["next", "42", "--addr", &cluster.url(7600), "--deadline-ms", "3000"];
    eventually("the proxy serves", || place.seqsvr_as("client/backend", &through).status.success().then_some(()));
    let status = place.seqsvr_json(&["status", "--addr", &cluster.url(7600)]);
    assert_eq!(
        (&status["proxies"][0]["name"], &status["proxies"][0]["certificate"]["state"]),
        (&"p1".into(), &"valid".into()),
        "{status:#}"
    );

    // Without TLS, each command names the missing TLS.
    let plain = format!("http://{}:7400", place.host);
    let printed = failed(&place.seqsvr(&["next", "42", "--addr", &plain]), 2);
    assert!(printed.contains("has TLS") && printed.contains("https://"), "{printed}");
    let printed = failed(&place.seqsvr(&["status", "--addr", &plain, "--addr", &cluster.url(7401)]), 2);
    assert!(printed.contains("either all nodes of a cluster have TLS or none has"), "{printed}");
    let printed = failed(&seqsvr(&["next", "42", "--addr", &cluster.url(7400), "--certs", "/nonexistent"]), 2);
    assert!(printed.contains("/nonexistent/ca.crt: cannot be read") && printed.contains("cert issue"), "{printed}");
}

#[test]
fn handshakes_that_never_end_delay_no_shutdown() {
    let mut cluster = Cluster::start();
    let host = cluster.place.host;
    let half_open = [7401, 7478, 7481].map(|port| TcpStream::connect((host, port)).unwrap());
    // Each port has accepted another connection after these connections.
    assert!(text(&cluster.redis(Some("client.backend"), &["PING"]).stdout).contains("PONG"));
    let a2 = cluster.servers.last_mut().unwrap();
    assert_eq!(a2.terminate(), Some(0), "{}", a2.log());
    assert!(!a2.log().contains("redis connection"), "none hung: {}", a2.log());
    drop(half_open);
}

#[test]
fn strangers_move_nothing() {
    let cluster = Cluster::start();
    let place = &cluster.place;
    // Another authority for a cluster with the same name, whose operator trusts this cluster's servers.
    let stranger = Place::new();
    let certs = stranger.path("certs");
    let made = stranger.seqsvr(&["cert", "ca", "--cluster", "three-node"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(stranger.seqsvr(&["cert", "issue", "operator/admin"]).status.success());
    fs::copy(cluster.cert("ca.crt"), certs.join("ca.crt")).unwrap();
    let before = place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    let drain = ["node", "drain", "a1", "--set", &cluster.set, "--yes", "--timeout-s", "4"];
    let refused = stranger.seqsvr(&drain);
    assert!(!refused.status.success(), "{}", text(&refused.stdout));

    // A revoked certificate is refused within seconds, without a restart of any server, and its open connections end.
    assert!(cluster.next("client/backend").status.success());
    let url = cluster.url(7400);
    let connections = || cluster.metric(7480, "seqsvr_connections{node=\"a1\"}");
    let load = std::thread::scope(|scope| {
        let before = connections();
        let load = scope.spawn(|| {
            let load = ["bench", "--endpoint", "grpc", "--addr", &url, "--rate", "100", "--duration-s", "12"];
            place.seqsvr_as("client/backend", &[&load[..], &["--warmup-s", "0", "-o", "json"]].concat())
        });
        eventually("the load is connected", || (connections() >= before + 4.0).then_some(()));
        assert!(place.seqsvr(&["cert", "revoke", "client/backend"]).status.success());
        eventually("the revocation is read", || (!cluster.next("client/backend").status.success()).then_some(()));
        load.join().unwrap()
    });
    let load: Value = serde_json::from_slice(&load.stdout).unwrap_or_else(|_| panic!("{load:?}"));
    assert!(load["numbers"].as_u64() > Some(0) && load["failed"].as_u64() > Some(0), "{load:#}");
    let refused = cluster.next("client/backend");
    let why = text(&refused.stderr);
    assert!(why.contains("refuses the certificate client/backend (CertificateRevoked)"), "{why}");
    assert!(cluster.next("operator/admin").status.success());
    let after = place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    assert_eq!(nodes(&before), nodes(&after), "nothing has moved");
}

/// Returns the incarnation and sections of each allocator.
fn nodes(list: &Value) -> Vec<(Value, Value)> {
    let items = list["nodes"].as_array().unwrap().iter();
    items.map(|item| (item["incarnation"].clone(), item["sections"].clone())).collect()
}

#[test]
fn certificates_and_their_authority_are_rotated_under_load_without_a_failed_call() {
    let cluster = Cluster::start();
    let place = &cluster.place;
    let ports = [7311, 7312, 7313, 7480, 7481];
    let reloads = || ports.map(|port| reloaded(&cluster, port));
    let load = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let args = ["bench", "--seamless", "--rate", "500", "--duration-s", "20", "--uids", "100000"];
            let (one, other) = (cluster.url(7400), cluster.url(7401));
            let more = ["--addr", &one, "--addr", &other, "--deadline-ms", "5000"];
            place.seqsvr_json(&[&args[..], &more[..]].concat())
        });
        // The authority is rotated first, because every process has to trust it before a certificate of it is used.
        for step in [&["cert", "rotate", "--ca"][..], &["cert", "rotate"][..]] {
            let before = reloads();
            let done = place.seqsvr(step);
            assert!(done.status.success(), "{}", text(&done.stderr));
            eventually("all nodes have read the new files", || {
                reloads().iter().zip(before).all(|(now, before)| *now > before).then_some(())
            });
            // The requests need new connections between all processes.
            assert!(cluster.next("operator/admin").status.success());
            // During a stall of a disk for a second, its store has no quorum, and refuses both commands.
            let command = |args: &[&str]| {
                let args = [args, &["--set", &cluster.set]].concat();
                eventually(args[1], || place.seqsvr(&args).status.success().then_some(()));
            };
            command(&["node", "drain", "a2", "--yes"]);
            command(&["node", "undrain", "a2"]);
        }
        load.join().unwrap()
    });
    assert_eq!(load["failed_items"], serde_json::json!({}), "{load:#}");
    for fault in ["decreases", "duplicates", "chain_breaks", "gaps"] {
        assert_eq!(load["order"][fault], 0, "{load:#}");
    }
    // A damaged file changes nothing, and is counted.
    fs::write(cluster.cert("alloc.im-a.a1.pem"), "damaged").unwrap();
    eventually("the damaged file is noticed", || {
        let name = "seqsvr_certificate_reloads_total{node=\"a1\",outcome=\"failed\"}";
        (cluster.metric(7480, name) > 0.0).then_some(())
    });
    assert!(cluster.next("operator/admin").status.success());
    drop(cluster.servers);
}

/// Returns the number of changed files that the node of a metrics port has read.
fn reloaded(cluster: &Cluster, port: u16) -> u64 {
    let output = cluster.curl(None, &[], port, "/metrics");
    let line = text(&output.stdout)
        .lines()
        .find(|line| line.starts_with("seqsvr_certificate_reloads_total{") && line.contains("outcome=\"loaded\""));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

#[test]
fn a_server_does_not_start_without_its_own_certificate() {
    let place = Place::new();
    let set = place.secure_set_file("three-node.toml").display().to_string();
    let start = |name: &str| place.server(name, &["alloc", "--set", &set, "--name", name]);
    let refused = |name: &str, what: &str| {
        let mut server = start(name);
        assert_eq!(server.wait_exit(), Some(64), "{}", server.log());
        assert!(server.log().contains(what), "{}", server.log());
    };
    let (own, other) = (place.path("certs/alloc.im-a.a1.pem"), place.path("certs/alloc.im-a.a2.pem"));
    fs::copy(&other, &own).unwrap();
    refused("a1", "the certificate is of seqsvr://three-node/alloc/im-a/a2, and this process is");
    fs::write(&own, "").unwrap();
    refused("a1", "no certificate in PEM");
    fs::remove_file(&own).unwrap();
    refused("a1", "cannot be read");

    // A set without TLS must use loopback addresses, or its file must state twice that TLS is not wanted.
    let file = place.path("plain.toml");
    let original = fs::read_to_string(&set).unwrap();
    let refuse = |text: &str, what: &str| {
        fs::write(&file, text).unwrap();
        let printed = failed(&seqsvr(&["config", "check", &file.display().to_string()]), 2);
        assert!(printed.contains(what), "{printed}");
    };
    let on_network = format!("plaintext = true\n{}", original.replace(&place.host.to_string(), "10.0.0.1"));
    refuse(&on_network, "other machines can read and change the traffic of 10.0.0.1:7301");
    refuse(&format!("plaintext_on_network = true\n{original}"), "no effect without plaintext = true");
    fs::write(&file, format!("plaintext_on_network = true\n{on_network}")).unwrap();
    assert!(seqsvr(&["config", "check", &file.display().to_string()]).status.success());
}

fn index(name: &str) -> usize {
    ["s1", "s2", "s3", "a1", "a2"].iter().position(|one| *one == name).expect("a process of the set")
}
