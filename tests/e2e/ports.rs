//! The ports of a real set: each port lists by reflection the services that the table in `seq_proto::ports` has for it,
//! and does not know the methods of any other service. Prints the table.

use std::collections::BTreeSet;

use seq_auth::{Credentials, Files};
use seq_channel::Pool;
use seq_proto::ports::{self, Port};
use seq_proto::roles::{self, Allowed};
use seq_proto::status::reason;
use seq_proto::v1::forward_service_client::ForwardServiceClient;
use seq_proto::v1::status_response::Role;
use seq_proto::v1::status_service_client::StatusServiceClient;
use seq_proto::v1::{ForwardRequest, StatusRequest};
use seq_testkit::eventually;
use serde_json::Value;
use tonic::client::Grpc;
use tonic::{Code, Request};

use crate::cluster::{Place, Server, json};
use crate::roles::Empty;

/// The ports of store s1 and of AllocSvr a1 in `three-node.toml`.
const PORTS: [(Port, u16); 8] = [
    (Port::StorePeers, 7301),
    (Port::Raft, 7307),
    (Port::Admin, 7304),
    (Port::Metrics, 7311),
    (Port::Callers, 7400),
    (Port::AllocPeers, 7404),
    (Port::Redis, 7479),
    (Port::Metrics, 7480),
];

/// A set of real processes with or without TLS.
struct Cluster {
    _servers: Vec<Server>,
    place: Place,
    set: String,
    tls: bool,
}

impl Cluster {
    fn start(tls: bool) -> Cluster {
        let place = Place::new();
        let file = if tls { place.secure_set_file("three-node.toml") } else { place.set_file("three-node.toml") };
        let set = file.display().to_string();
        let mut servers = Vec::new();
        for id in ["1", "2", "3"] {
            let data = place.path(&format!("s{id}")).display().to_string();
            servers.push(place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data]));
        }
        for name in ["a1", "a2"] {
            servers.push(place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1"]));
        }
        let cluster = Cluster { _servers: servers, place, set, tls };
        eventually("all is served", || {
            cluster.place.seqsvr(&["status", "--set", &cluster.set]).status.success().then_some(())
        });
        cluster
    }

    fn url(&self, port: u16) -> String {
        format!("{}://{}:{port}", if self.tls { "https" } else { "http" }, self.place.host)
    }

    /// Creates connections with the certificate of a holder.
    fn pool(&self, holder: &str) -> Pool {
        if !self.tls {
            return Pool::new();
        }
        let credentials = Credentials::load(Files::in_dir(&self.place.path("certs"), holder)).unwrap();
        Pool::with_dial(1, seq_channel::tls::dial(credentials))
    }

    /// Returns the services that a port lists; `None` if the port does not serve gRPC.
    fn listed(&self, port: u16) -> Option<BTreeSet<String>> {
        let args = ["services", "--addr", &self.url(port), "-o", "json"];
        let output = self.place.seqsvr(&args);
        let list: Value = output.status.success().then(|| json(&args, &output))?;
        let services = list["items"][0]["services"].as_array().unwrap();
        Some(services.iter().map(|service| service.as_str().unwrap().to_owned()).collect())
    }

    /// Sends an empty message to a method on a port; returns the code of the response.
    async fn try_method(&self, holder: &str, port: u16, path: &str) -> Code {
        let pool = self.pool(holder);
        let mut service = Grpc::new(pool.get(&format!("{}:{port}", self.place.host)).unwrap());
        if let Err(error) = service.ready().await {
            panic!("{path} at {port}: {error}");
        }
        let response = service.server_streaming(Request::new(()), path.parse().unwrap(), Empty).await;
        match response {
            Ok(_) => Code::Ok,
            Err(status) => {
                assert_ne!(reason(&status).as_deref(), Some("ROLE_DENIED"), "{holder} calls {path} at {port}");
                status.code()
            }
        }
    }
}

/// Returns a holder that may call a service.
fn holder_of(row: &roles::Row) -> &'static str {
    use seq_auth::Role::{Alloc, Operator, Store};
    let has = |role| {
        row.allowed.iter().any(|allowed| matches!(allowed, Allowed::Any(one) | Allowed::OwnSet(one) if *one == role))
    };
    if has(Operator) {
        "operator/admin"
    } else if has(Alloc) {
        "alloc/im-a/a2"
    } else {
        assert!(has(Store), "{}", row.service);
        "store/im-a/s2"
    }
}

/// Checks the services that every port lists and knows; returns the lines of the table.
fn check_ports(cluster: &Cluster) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut lines = Vec::new();
    for (port, number) in PORTS {
        let row = port.row();
        let listed = cluster.listed(number);
        let expected: BTreeSet<String> =
            row.services.iter().chain(&ports::COMMON).map(|service| (*service).to_owned()).collect();
        let is_grpc = !row.services.is_empty();
        assert_eq!(listed, is_grpc.then_some(expected), "{port:?}");
        let own: Vec<&str> =
            listed.iter().flatten().map(String::as_str).filter(|one| !ports::COMMON.contains(one)).collect();
        lines.push(format!(
            "{number:>5}  {port:<10}  {}",
            [&own[..], row.others].concat().join(", "),
            port = format!("{port:?}")
        ));
        if !is_grpc {
            continue;
        }
        for service in roles::TABLE.iter().filter(|one| one.service.starts_with("seqsvr.")) {
            let path = format!("/{}/{}", service.service, service.methods[0]);
            let code = runtime.block_on(cluster.try_method(holder_of(service), number, &path));
            let is_known = row.services.contains(&service.service);
            assert_eq!(code == Code::Unimplemented, !is_known, "{path} at {number}: {code:?}");
        }
    }
    lines
}

#[test]
fn each_port_has_what_the_table_names_and_nothing_else() {
    for tls in [true, false] {
        let cluster = Cluster::start(tls);
        let lines = check_ports(&cluster);
        println!("{} TLS:\n{}", if tls { "with" } else { "without" }, lines.join("\n"));
        // The admin port of any member is enough, because followers forward to the leader.
        for port in [7304, 7305, 7306] {
            let nodes = cluster.place.seqsvr_json(&["node", "list", "--addr", &cluster.url(port)]);
            assert_eq!(nodes["nodes"].as_array().unwrap().len(), 2, "{nodes:#}");
            let members = cluster.place.seqsvr_json(&["store", "members", "--addr", &cluster.url(port)]);
            assert_eq!(members["members"].as_array().unwrap().len(), 3, "{members:#}");
            let file = cluster.place.path(&format!("backup-{port}")).display().to_string();
            let made = cluster.place.seqsvr(&["backup", "create", "--out", &file, "--addr", &cluster.url(port)]);
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        // Any other port names the admin ports, but with TLS only to operators.
        for port in [7301, 7400, 7404] {
            let list = ["node", "list", "--addr", &cluster.url(port)];
            cluster.place.seqsvr_json(&list);
            if tls {
                let refused = cluster.place.seqsvr_as("client/backend", &list);
                let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
                assert!(!refused.status.success() && stderr.contains("ROLE_DENIED"), "{stderr}");
            }
        }
        // A command for callers names the role of the port that it was given.
        let refused = cluster.place.seqsvr(&["next", "42", "--addr", &cluster.url(7404)]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(stderr.contains("is the port of an AllocSvr for its peers"), "{stderr}");
        // The handover of a section uses the ports for peers.
        let drained = cluster.place.seqsvr(&["node", "drain", "a1", "--set", &cluster.set, "--yes"]);
        assert!(drained.status.success(), "{}", String::from_utf8_lossy(&drained.stderr));
    }
}

#[test]
fn a_store_forwards_with_the_rights_of_the_sender_that_it_states() {
    let cluster = Cluster::start(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let forward = |holder: &str, method: &str, sender: Option<&str>| {
        let mut request = Request::new(ForwardRequest { method: method.to_owned(), message: bytes::Bytes::new() });
        if let Some(sender) = sender {
            request.metadata_mut().insert("seqsvr-sender", sender.parse().unwrap());
        }
        let addr = format!("{}:7301", cluster.place.host);
        runtime.block_on(async {
            let pool = cluster.pool(holder);
            ForwardServiceClient::new(pool.get(&addr).unwrap()).forward(request).await.map(drop)
        })
    };
    // The status for a client has no ids of processes and nodes, at either port for nodes.
    for (holder, is_shown) in [("client/backend", false), ("operator/admin", true), ("alloc/im-a/a1", true)] {
        for port in [7301, 7404] {
            let addr = format!("{}:{port}", cluster.place.host);
            let status = runtime.block_on(async {
                let pool = cluster.pool(holder);
                StatusServiceClient::new(pool.get(&addr).unwrap()).status(StatusRequest {}).await.unwrap().into_inner()
            });
            let incarnation = match status.role.unwrap() {
                Role::Store(store) => store.allocs[0].incarnation,
                Role::Alloc(alloc) => alloc.incarnation,
            };
            assert_eq!((status.pid > 0, incarnation > 0), (is_shown, is_shown), "{holder} at {port}");
        }
    }
    let list = "/seqsvr.v1.NodeAdminService/ListNodes";
    let operator = Some("seqsvr://three-node/operator/admin");
    // Only stores may forward, and a request that a store forwards under its own identity is denied.
    for holder in ["operator/admin", "client/backend", "alloc/im-a/a1"] {
        let refused = forward(holder, list, operator).unwrap_err();
        assert_eq!(reason(&refused).as_deref(), Some("ROLE_DENIED"), "{holder}");
    }
    for sender in [None, Some("seqsvr://three-node/client/backend")] {
        let refused = forward("store/im-a/s2", list, sender).unwrap_err();
        assert_eq!(reason(&refused).as_deref(), Some("ROLE_DENIED"), "{sender:?}");
    }
    // A forwarded request does not reach the services of the other ports.
    for method in ["/seqsvr.v1.ControlService/Register", "/seqsvr.v1.ForwardService/Forward", "x"] {
        let refused = forward("store/im-a/s2", method, operator).unwrap_err();
        assert_eq!(reason(&refused).as_deref(), Some("MALFORMED"), "{method}");
    }
    let handled = forward("store/im-a/s2", list, operator);
    assert!(handled.as_ref().is_ok_and(|()| true) || reason(&handled.unwrap_err()).as_deref() == Some("NOT_LEADER"));
}
