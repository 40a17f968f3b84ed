//! Dials over TLS to servers whose certificate has another role or set.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::time::SystemTime;

use seq_auth::authority::{Authority, Request};
use seq_auth::{ClientCertificate, Credentials, Files, Identity};
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tonic::Status;

use super::*;
use crate::Pool;

const DAY: Duration = Duration::from_secs(86_400);

/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Authority of a cluster, and the directory of its certificates.
struct Cluster {
    authority: Authority,
    dir: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "certificates are valid by the wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Cluster {
    fn new() -> Cluster {
        let authority = Authority::create("im", 10 * DAY, now() - DAY).unwrap();
        Cluster { authority, dir: tempfile::tempdir().unwrap() }
    }

    fn credentials(&self, short: &str) -> Credentials {
        let identity = Identity::in_cluster("im", short).unwrap();
        let request = Request { identity, hosts: vec!["127.0.0.1".into()], validity: 5 * DAY };
        let issued = self.authority.issue(&request, now()).unwrap();
        let files = Files::in_dir(self.dir.path(), short);
        fs::write(&files.bundle, self.authority.bundle()).unwrap();
        fs::write(&files.certificate, format!("{}{}", *issued.key, issued.certificate)).unwrap();
        Credentials::load(files).unwrap()
    }
}

/// A server that accepts one connection at a time.
struct Server {
    listener: TcpListener,
    credentials: Credentials,
    addr: String,
}

impl Server {
    async fn start(credentials: Credentials) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        Server { listener, credentials, addr }
    }

    /// Accepts a connection; returns whether it received the first bytes of a request.
    async fn accept(&self) -> bool {
        let (stream, _) = self.listener.accept().await.unwrap();
        let Ok(mut stream) = self.credentials.accept(ClientCertificate::Required, stream).await else { return false };
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).await.is_ok_and(|_| preface == *PREFACE)
    }

    /// Sends a request of a pool to this server, which ends its connection without a response. Returns the failure of
    /// the request, and whether the server received it.
    async fn request(&self, pool: &Pool) -> (Status, bool) {
        let mut client = SequenceServiceClient::new(pool.get(&self.addr).unwrap());
        let request = client.get_routes(v1::GetRoutesRequest { known_version: 0 });
        let (response, received) = tokio::join!(request, self.accept());
        (response.unwrap_err(), received)
    }
}

/// Returns all causes of a failed request as one text.
fn causes(failed: &Status) -> String {
    let causes = std::iter::successors(failed.source(), |&cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn no_request_reaches_a_server_with_another_role_or_set() {
    let cluster = Cluster::new();
    let own = cluster.credentials("alloc/im-a/a1");
    let store_of_c = Server::start(cluster.credentials("store/im-c/s1")).await;
    let dial = dial(own);
    for expected in [
        ExpectedServer::any(),
        ExpectedServer::store(),
        ExpectedServer::store().of_set("im-c"),
        ExpectedServer::any().of_set("im-c"),
    ] {
        let (failed, received) = store_of_c.request(&Pool::with_dial(1, dial.expecting(expected))).await;
        assert!(received, "{}", causes(&failed));
    }
    for (expected, named) in [
        (ExpectedServer::alloc().of_set("im-b"), "role alloc and set \"im-b\""),
        (ExpectedServer::store().of_set("im-a"), "role store and set \"im-a\""),
        (ExpectedServer::alloc(), "role alloc and any set"),
    ] {
        let pool = Pool::with_dial(1, dial.expecting(expected));
        // Checked on every dial.
        for _ in 0..2 {
            let (failed, received) = store_of_c.request(&pool).await;
            assert!(!received);
            assert!(crate::not_processed(&failed), "{failed:?}");
            let text = causes(&failed);
            for part in [&store_of_c.addr, "seqsvr://im/store/im-c/s1", named] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn connections_are_kept_for_one_expectation() {
    let cluster = Cluster::new();
    let own = cluster.credentials("proxy/p");
    let server = Server::start(cluster.credentials("alloc/im-c/a1")).await;
    let pool = Pool::with_dial(2, dial(own).expecting(ExpectedServer::alloc()));
    assert!(server.request(&pool).await.1);
    let expect = |expected: &[ExpectedServer]| {
        let expected = expected.iter().map(|expected| (Box::from(server.addr.as_str()), expected.clone()));
        pool.expect(expected.collect::<BTreeMap<_, _>>()).len()
    };
    // The routes state that the address belongs to set im-b.
    assert_eq!(expect(&[ExpectedServer::alloc().of_set("im-b")]), 1);
    assert!(!server.request(&pool).await.1);
    assert_eq!(expect(&[ExpectedServer::alloc().of_set("im-b")]), 0, "nothing has changed");
    assert_eq!(expect(&[ExpectedServer::alloc().of_set("im-c")]), 1);
    assert!(server.request(&pool).await.1);
    assert_eq!(expect(&[]), 1, "the address is in no routes any more");
    assert!(server.request(&pool).await.1);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_fault_is_logged_once_a_minute() {
    let cluster = Cluster::new();
    let rejected = seq_auth::Rejected::NoServer { identity: cluster.credentials("client/c").certificate().identity };
    let refused = io::Error::other(ServerRefused { addr: "h:1".into(), rejected });
    let refusals = Refusals::default();
    refusals.log(&io::Error::other("another cause"));
    assert!(refusals.logged.lock().is_none());
    refusals.log(&refused);
    let first = *refusals.logged.lock();
    assert!(first.is_some());
    tokio::time::advance(REPEAT_EVERY / 2).await;
    refusals.log(&refused);
    assert_eq!(*refusals.logged.lock(), first);
    tokio::time::advance(REPEAT_EVERY).await;
    refusals.log(&refused);
    assert_ne!(*refusals.logged.lock(), first);
}
