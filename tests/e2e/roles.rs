//! The rights of roles at real ports: every cell of docs/reference/roles.md, and the requests that used to let a
//! stranger take over a set.

use std::fs;
use std::path::Path;

use bytes::Buf;
use seq_auth::{Credentials, Files};
use seq_channel::Pool;
use seq_proto::status::reason;
use seq_proto::v1::control_service_client::ControlServiceClient;
use seq_proto::v1::handover_service_client::HandoverServiceClient;
use seq_proto::v1::node_admin_service_client::NodeAdminServiceClient;
use seq_proto::v1::raft_service_client::RaftServiceClient;
use seq_proto::v1::store_admin_service_client::StoreAdminServiceClient;
use seq_proto::v1::{
    ActivateRequest, ChangeVotersRequest, DrainNodeRequest, RaftMessage, RaiseCeilingsRequest, RegisterRequest,
    RenewRequest, TransferRequest,
};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::tls::{Cluster, text};

/// The gRPC ports of a store and of an AllocSvr, each with the port for metrics.
const PORTS: [(u16, &[u16]); 2] = [(7311, &[7301, 7304, 7307]), (7480, &[7400, 7404])];

/// Holders by their column of the table: nodes of the same set and of another set.
const HOLDERS: [(&str, &str); 9] = [
    ("store", "store/im-a/s2"),
    ("alloc", "alloc/im-a/a2"),
    ("store", "store/im-b/s1"),
    ("alloc", "alloc/im-b/a1"),
    ("proxy", "proxy/p1"),
    ("operator", "operator/admin"),
    ("viewer", "viewer/console"),
    ("client", "client/backend"),
    ("metrics", "metrics/m"),
];

/// Reads the table: each method with its cells, by column.
fn table() -> (Vec<String>, Vec<(String, Vec<String>)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/roles.md");
    let page = fs::read_to_string(path).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let mut rows = page.lines().filter(|line| line.starts_with("| ")).map(cells);
    let columns = rows.next().unwrap()[1..].to_vec();
    (columns, rows.map(|mut row| (row.remove(0), row)).collect())
}

/// A codec of messages without fields, for any method.
#[derive(Clone, Copy, Default)]
pub(crate) struct Empty;

impl Codec for Empty {
    type Encode = ();
    type Decode = ();
    type Encoder = Empty;
    type Decoder = Empty;

    fn encoder(&mut self) -> Empty {
        Empty
    }

    fn decoder(&mut self) -> Empty {
        Empty
    }
}

impl Encoder for Empty {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for Empty {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        message.advance(message.remaining());
        Ok(Some(()))
    }
}

/// Sends an empty message to each method on a port; returns for each method whether it was refused because of the role.
async fn denied(cluster: &Cluster, holder: &str, port: u16, methods: &[&str]) -> Vec<bool> {
    let credentials = Credentials::load(Files::in_dir(&cluster.place.path("certs"), holder)).unwrap();
    let pool = Pool::with_dial(1, seq_channel::tls::dial(credentials));
    let mut service = Grpc::new(pool.get(&format!("{}:{port}", cluster.place.host)).unwrap());
    let mut denied = Vec::new();
    for method in methods {
        service.ready().await.unwrap();
        let path: PathAndQuery = format!("/{method}").parse().unwrap();
        // The response is not read, because a watch has no end.
        let response = service.server_streaming(Request::new(()), path, Empty).await;
        denied.push(response.is_err_and(|status| reason(&status).as_deref() == Some("ROLE_DENIED")));
    }
    denied
}

#[test]
fn every_cell_of_the_table_holds_at_the_ports() {
    let cluster = Cluster::start();
    for (_, holder) in HOLDERS {
        let issued = cluster.place.seqsvr(&["cert", "issue", holder]);
        assert!(issued.status.success(), "{}", text(&issued.stderr));
    }
    let before = cluster.place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    let (columns, table) = table();
    let tried: Vec<_> = table.iter().filter(|(method, _)| method.contains('.')).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let methods: Vec<&str> = tried.iter().map(|(method, _)| method.as_str()).collect();
    let mut cells = 0;
    for (metrics, ports) in PORTS {
        let mut refused = 0;
        for (port, (role, holder)) in ports.iter().flat_map(|port| HOLDERS.map(|one| (*port, one))) {
            let column = columns.iter().position(|column| column == role).unwrap();
            let is_other = holder.contains("/im-b/");
            for ((method, row), denied) in tried.iter().zip(runtime.block_on(denied(&cluster, holder, port, &methods)))
            {
                let allowed = row[column] == "yes" || (row[column] == "set" && !is_other);
                assert_eq!(denied, !allowed, "{holder} calls {method} at {port}");
                refused += u64::from(denied);
                cells += 1;
            }
        }
        let counted = cluster.metric(metrics, "seqsvr_requests_denied_total{");
        assert!(refused > 0 && counted == refused as f64, "{counted} of {refused} counted at {metrics}");
    }
    println!("{cells} cells at {} ports", PORTS.map(|(_, ports)| ports.len()).iter().sum::<usize>());
    let after = cluster.place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    let nodes = |list: &serde_json::Value| {
        let nodes = list["nodes"].as_array().unwrap().clone();
        nodes.into_iter().map(|node| (node["incarnation"].clone(), node["drained"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&before), nodes(&after), "nothing has moved");

    // Requests over plain HTTP and the Redis protocol.
    let get = |holder: &str| text(&cluster.curl(Some(holder), &[], 7400, "/api/seq/current/1").stdout).to_owned();
    assert!(get("metrics.m").contains("ROLE_DENIED"), "{}", get("metrics.m"));
    assert!(!get("client.backend").contains("ROLE_DENIED"));
    let redis = |holder: &str| text(&cluster.redis(Some(holder), &["PING"]).stdout).to_owned();
    assert!(redis("metrics.m").contains("NOPERM"), "{}", redis("metrics.m"));
    assert_eq!(redis("client.backend"), "PONG\n");
}

/// Sends requests of a takeover as node a1 to the ports of a store, and to the AllocSvr's port for peers; returns the
/// reason of each refusal.
async fn takeover(
    node_id: u32,
    incarnation: u64,
    [store, admin, raft, alloc]: [Channel; 4],
) -> Vec<(&'static str, Result<(), Status>)> {
    let mut control = ControlServiceClient::new(store);
    let a1 = "a1".to_owned();
    let register = RegisterRequest {
        set: "im-a".into(),
        node: a1.clone(),
        addr: "127.0.0.1:9".into(),
        token: 7,
        lease_ms: 2_000,
        follows: incarnation,
        replace: true,
        ..RegisterRequest::default()
    };
    let renew = RenewRequest { node_id, incarnation, renew_seq: 1_000, ..RenewRequest::default() };
    let raise = RaiseCeilingsRequest {
        node_id,
        incarnation,
        sections: vec![0],
        epochs: vec![1],
        ceilings: vec![1 << 40],
        route_version: 0,
    };
    let transfer = TransferRequest {
        node_id,
        incarnation,
        epoch: 1,
        to_node_id: 2,
        to_incarnation: 1,
        handover_id: 1,
        ..TransferRequest::default()
    };
    let voters =
        ChangeVotersRequest { set: "im-a".into(), remove: vec![3], allow_even: true, ..ChangeVotersRequest::default() };
    let drain = DrainNodeRequest { set: "im-a".into(), node: a1, drained: true, ..DrainNodeRequest::default() };
    let vote = RaftMessage {
        cluster_id: "three-node".into(),
        from: 2,
        to: 1,
        nonce: vec![1; 16].into(),
        ..RaftMessage::default()
    };
    vec![
        ("Register", control.register(register).await.map(drop)),
        ("Renew", control.renew(renew).await.map(drop)),
        ("RaiseCeilings", control.raise_ceilings(raise).await.map(drop)),
        ("Transfer", control.transfer(transfer).await.map(drop)),
        ("ChangeVoters", StoreAdminServiceClient::new(admin.clone()).change_voters(voters).await.map(drop)),
        ("DrainNode", NodeAdminServiceClient::new(admin).drain_node(drain).await.map(drop)),
        ("Vote", RaftServiceClient::new(raft).vote(vote).await.map(drop)),
        ("Activate", HandoverServiceClient::new(alloc).activate(ActivateRequest::default()).await.map(drop)),
    ]
}

#[test]
fn a_holder_does_not_act_for_another_node() {
    let cluster = Cluster::start();
    let list = || {
        let list = cluster.place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
        list["nodes"].as_array().unwrap().iter().map(|node| node["incarnation"].clone()).collect::<Vec<_>>()
    };
    let before = list();
    let nodes = cluster.place.seqsvr_json(&["node", "list", "--set", &cluster.set]);
    let a1 = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "a1").unwrap().clone();
    let node_id = u32::try_from(a1["id"].as_u64().unwrap()).unwrap();
    let incarnation = a1["incarnation"].as_u64().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let reasons = |holder: &str| {
        let credentials = Credentials::load(Files::in_dir(&cluster.place.path("certs"), holder)).unwrap();
        let host = cluster.place.host;
        runtime.block_on(async {
            let pool = Pool::with_dial(1, seq_channel::tls::dial(credentials));
            let mut all = Vec::new();
            // The requests go to the leader, and to members that forward to it.
            for port in [7301, 7302, 7303] {
                let ports = [port, port + 3, port + 6, 7404].map(|port| pool.get(&format!("{host}:{port}")).unwrap());
                for (method, outcome) in takeover(node_id, incarnation, ports).await {
                    let refused = outcome.expect_err(method);
                    all.push((method, reason(&refused).unwrap_or_else(|| refused.to_string())));
                }
            }
            all
        })
    };
    for (method, reason) in reasons("client/backend") {
        assert_eq!(reason, "ROLE_DENIED", "{method} by a client");
    }
    for (method, reason) in reasons("alloc/im-a/a2") {
        let expected = match method {
            "Register" | "Renew" | "RaiseCeilings" | "Transfer" => "OTHER_HOLDER",
            // The holder may offer handovers, but this message is no offer.
            "Activate" => "BAD_OFFER",
            _ => "ROLE_DENIED",
        };
        assert_eq!(reason, expected, "{method} by another node");
    }
    assert_eq!(list(), before, "nothing has moved");
    assert!(cluster.next("client/backend").status.success());
}
