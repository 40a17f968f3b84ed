//! Tests with peers that use up handshakes: silent peers, noisy peers, and peers with a long chain.

use std::fs;
use std::time::Duration;

use metrics::Counter;
use seq_auth::authority::{Authority, Request};
use seq_auth::{ExpectedServer, Files, Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::connection::Connection;
use crate::unfinished::Unfinished;

const DAY: Duration = Duration::from_secs(86_400);

#[expect(clippy::disallowed_methods, reason = "rustls checks the validity by the wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// An authority and a directory for the files of its holders.
struct Place {
    authority: Authority,
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let authority = Authority::create("main", 100 * DAY, now() - DAY).unwrap();
        Place { authority, dir: tempfile::tempdir().unwrap() }
    }

    /// Returns the credentials of a holder that presents `more` certificates after its own.
    fn credentials(&self, short: &str, more: usize) -> Credentials {
        let identity = Identity::in_cluster("main", short).unwrap();
        let request = Request { identity, hosts: vec!["127.0.0.1".into()], validity: 10 * DAY };
        let issued = self.authority.issue(&request, now()).unwrap();
        let files = Files::in_dir(self.dir.path(), short);
        fs::write(&files.bundle, self.authority.bundle()).unwrap();
        let chain = issued.certificate.repeat(1 + more);
        fs::write(&files.certificate, format!("{}{chain}", *issued.key)).unwrap();
        Credentials::load(files).unwrap()
    }

    fn tls(&self) -> Tls {
        Tls::new(self.credentials("store/dev/s1", 0), ClientCertificate::Required, RefusalLog::none())
    }
}

/// Returns a socket on loopback, as its server side and its client side.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (near, far) = tokio::join!(listener.accept(), TcpStream::connect(addr));
    (near.unwrap().0, far.unwrap())
}

/// Makes a handshake with a client that presents `more` certificates after its own.
async fn meet(more: usize) -> io::Result<()> {
    let place = Place::new();
    let (client, tls) = (place.credentials("client/backend", more), place.tls());
    let (near, far) = sockets().await;
    let mut server = Connection::of_socket(near, Some(&tls), None);
    let dialing = async {
        // TLS 1.3: a client's handshake is complete before the server has seen its certificate.
        let mut stream = client.connect("127.0.0.1", &ExpectedServer::any(), far, None).await?;
        stream.read_exact(&mut [0]).await
    };
    let serving = async {
        let opened = server.open().await;
        drop(server);
        opened
    };
    tokio::join!(serving, dialing).0
}

#[tokio::test]
async fn a_revocation_ends_the_open_connections_of_its_holder_alone() {
    let place = Place::new();
    let server = place.credentials("store/dev/s1", 0);
    let tls = Tls::new(server.clone(), ClientCertificate::Required, RefusalLog::none());
    let mut open = Vec::new();
    for holder in ["client/stays", "client/goes"] {
        let (client, (near, far)) = (place.credentials(holder, 0), sockets().await);
        let mut accepted = Connection::of_socket(near, Some(&tls), None);
        let any = ExpectedServer::any();
        let (opened, dialed) = tokio::join!(accepted.open(), client.connect("127.0.0.1", &any, far, None));
        opened.unwrap();
        open.push((client, accepted, dialed.unwrap()));
    }
    let mut send = async |index: usize| {
        let (_, accepted, dialed) = &mut open[index];
        dialed.write_all(b"x").await.unwrap();
        dialed.flush().await.unwrap();
        accepted.read_u8().await
    };
    assert!(send(0).await.is_ok() && send(1).await.is_ok());
    let serial = place.credentials("client/other", 0).certificate().serial;
    let mut revoked = vec![serial];
    for (is_revoked, holder) in [(false, "client/other"), (true, "client/goes")] {
        if is_revoked {
            revoked.push(open_serial(&place, holder));
        }
        let list = place.authority.revoke(None, &revoked, now()).unwrap();
        fs::write(&server.files().revocations, list).unwrap();
        assert!(server.reload().unwrap());
        assert!(send(0).await.is_ok());
        let sent = send(1).await;
        assert_eq!(sent.as_ref().err().map(io::Error::kind), is_revoked.then_some(io::ErrorKind::PermissionDenied));
    }
}

/// Returns the serial of the certificate that a holder has now.
fn open_serial(place: &Place, holder: &str) -> String {
    Credentials::load(Files::in_dir(place.dir.path(), holder)).unwrap().certificate().serial
}

#[tokio::test]
async fn a_newer_handshake_takes_the_seat_of_the_oldest_until_one_is_complete() {
    let (place, mut far) = (Place::new(), Vec::new());
    let (tls, port) = (place.tls(), Unfinished::new(8, [], Counter::noop()));
    let mut open = Vec::new();
    for _ in 0..9 {
        let (near, client) = sockets().await;
        open.push(Connection::of_socket(near, Some(&tls), Some(&port)));
        far.push(client);
    }
    let error = open[0].open().await.unwrap_err();
    assert!(error.to_string().contains("a newer connection"), "{error}");

    // A connection that has proved its identity has no seat, and stays.
    let (client, any) = (place.credentials("client/backend", 0), ExpectedServer::any());
    let dialing = client.connect("127.0.0.1", &any, far.pop().unwrap(), None);
    let (opened, dialed) = tokio::join!(open[8].open(), dialing);
    opened.unwrap();
    for _ in 0..9 {
        let (near, client) = sockets().await;
        open.push(Connection::of_socket(near, Some(&tls), Some(&port)));
        far.push(client);
    }
    let mut dialed = dialed.unwrap();
    dialed.write_all(b"x").await.unwrap();
    dialed.flush().await.unwrap();
    assert_eq!(open[8].read_u8().await.unwrap(), b'x');
}

#[tokio::test(start_paused = true)]
async fn a_plain_connection_without_a_request_ends() {
    let port = Unfinished::new(8, [], Counter::noop());
    let (near, _far) = sockets().await;
    let mut server = Connection::of_socket(near, None, Some(&port));
    assert_eq!(server.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);

    // A request finishes the connection, unless the port requires a proof.
    for needs_proof in [false, true] {
        let port = Unfinished::new(8, [], Counter::noop());
        let port = if needs_proof { port.until_proved() } else { port };
        let (near, _far) = sockets().await;
        let mut server = Connection::of_socket(near, None, Some(&port));
        server.peer().requested();
        let idle = tokio::time::timeout(2 * FINISH_TIMEOUT, server.read_u8()).await;
        assert_eq!(idle.is_ok(), needs_proof);
        let (near, _far) = sockets().await;
        let mut server = Connection::of_socket(near, None, Some(&port));
        server.peer().proved();
        tokio::time::timeout(2 * FINISH_TIMEOUT, server.read_u8()).await.expect_err("it may be idle");
    }
}

#[tokio::test]
async fn garbage_ends_a_handshake_at_once() {
    let tls = Place::new().tls();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0; 64], &[0xff; 64]] {
        let (near, mut far) = sockets().await;
        let mut server = Connection::of_socket(near, Some(&tls), None);
        far.write_all(garbage).await.unwrap();
        let error = server.open().await.unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_ends_by_the_timeout_whatever_reads_it() {
    let tls = Place::new().tls();
    // Nothing at all, and the beginning of a record that never ends.
    for beginning in [&b""[..], &[22, 3, 1, 2, 0, 1, 0]] {
        let (near, mut far) = sockets().await;
        let mut server = Connection::of_socket(near, Some(&tls), None);
        far.write_all(beginning).await.unwrap();
        assert_eq!(server.open().await.unwrap_err().kind(), io::ErrorKind::TimedOut);

        drop(server);
        let (near, _far) = sockets().await;
        let mut server = Connection::of_socket(near, Some(&tls), None);
        assert_eq!(server.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(server);
        let (near, _far) = sockets().await;
        let mut server = Connection::of_socket(near, Some(&tls), None);
        assert_eq!(server.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}

#[tokio::test]
async fn a_chain_of_more_than_64_kib_ends_the_handshake() {
    meet(0).await.unwrap();
    // A certificate has about 500 bytes.
    meet(60).await.expect("a chain within the limit of a message");
    let error = meet(400).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}
