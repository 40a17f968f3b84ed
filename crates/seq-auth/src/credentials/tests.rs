//! Handshakes between holders of good certificates, and of others.

use std::fs;
use std::time::{Duration, SystemTime};

use rcgen::ExtendedKeyUsagePurpose;
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::TlsConnector;

use super::*;
use crate::authorities::{Authorities, Trust};
use crate::authority::{Authority, Issued, Request};
use crate::verify::Rejected;

const DAY: Duration = Duration::from_secs(86_400);
const HOST: &str = "node.example.org";

#[expect(clippy::disallowed_methods, reason = "rustls checks the validity by the wall clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// An authority, and a directory for each holder.
struct Place {
    authority: Authority,
    dir: tempfile::TempDir,
}

impl Place {
    fn new(cluster: &str) -> Place {
        let authority = Authority::create(cluster, 100 * DAY, now() - 10 * DAY).unwrap();
        Place { authority, dir: tempfile::tempdir().unwrap() }
    }

    /// Writes the files of a holder, valid for ten days from `from`.
    fn files(&self, short: &str, from: SystemTime) -> Files {
        self.files_of(short, |request| self.authority.issue(request, from).unwrap())
    }

    fn files_of(&self, short: &str, issue: impl FnOnce(&Request) -> Issued) -> Files {
        let identity = Identity::in_cluster(self.authority.cluster(), short).unwrap();
        let request = Request { identity, hosts: vec![HOST.into(), "127.0.0.1".into()], validity: 10 * DAY };
        let issued = issue(&request);
        let files = Files::in_dir(self.dir.path(), short);
        fs::write(&files.bundle, self.authority.bundle()).unwrap();
        fs::write(&files.certificate, format!("{}{}", *issued.key, issued.certificate)).unwrap();
        files
    }

    fn credentials(&self, short: &str) -> Credentials {
        Credentials::load(self.files(short, now())).unwrap()
    }
}

/// Makes a handshake and sends a message each way; returns the peer's identity as seen by the server.
async fn meet(
    server: &Credentials,
    clients: ClientCertificate,
    client: &Credentials,
    host: &str,
) -> Result<Option<Identity>, String> {
    let met = meet_expected(server, clients, (client, &ExpectedServer::any()), host).await;
    met.map(|(peer, _)| peer)
}

/// As [`meet`], with a client that expects a server; also returns whether it resumed a session.
async fn meet_expected(
    server: &Credentials,
    clients: ClientCertificate,
    (client, expected): (&Credentials, &ExpectedServer),
    host: &str,
) -> Result<(Option<Identity>, bool), String> {
    let (near, far) = duplex(16 << 10);
    let serving = async {
        let mut stream = server.accept(clients, far).await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        stream.write_all(&byte).await?;
        stream.flush().await?;
        io::Result::Ok(peer(&stream))
    };
    let dialing = async {
        let mut stream = client.connect(host, expected, near, Some(b"h2")).await?;
        stream.write_all(b"x").await?;
        stream.flush().await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        io::Result::Ok(is_resumed(&stream))
    };
    let (served, dialed) = tokio::join!(serving, dialing);
    match (served, dialed) {
        (Ok(peer), Ok(resumed)) => Ok((peer, resumed)),
        (served, dialed) => Err(format!("server: {:?}; client: {:?}", served.err(), dialed.err())),
    }
}

async fn refused(server: &Credentials, client: &Credentials, host: &str) -> String {
    meet(server, ClientCertificate::Required, client, host).await.expect_err("the handshake fails")
}

#[tokio::test]
async fn holders_of_one_cluster_know_each_other() {
    let place = Place::new("im");
    let (store, operator) = (place.credentials("store/im-a/s1"), place.credentials("operator/alice"));
    for host in [HOST, "127.0.0.1"] {
        let peer = meet(&store, ClientCertificate::Required, &operator, host).await.unwrap();
        assert_eq!(peer, Some("seqsvr://im/operator/alice".parse().unwrap()));
    }
    // The second handshake resumes the session: the client sends no certificate, and its identity is still known.
    let peer = meet(&store, ClientCertificate::Optional, &operator, HOST).await.unwrap();
    assert_eq!(peer, Some("seqsvr://im/operator/alice".parse().unwrap()));
}

/// RFC 5280, section 4.2.1.12. The role in the certificate decides on the requests that its holder may send.
#[tokio::test]
async fn a_certificate_without_usages_is_one_for_clients_and_servers() {
    let place = Place::new("im");
    let of = |short, usages: Vec<ExtendedKeyUsagePurpose>| {
        let files = place.files_of(short, |request| place.authority.issue_for(request, usages, now()).unwrap());
        Credentials::load(files).unwrap()
    };
    let (store, client) = (of("store/im-a/s1", vec![]), of("client/c", vec![]));
    let peer = meet(&store, ClientCertificate::Required, &client, HOST).await.unwrap();
    assert_eq!(peer, Some("seqsvr://im/client/c".parse().unwrap()));
    // A stated usage restricts it.
    let client = of("client/d", vec![ExtendedKeyUsagePurpose::ServerAuth]);
    assert!(refused(&store, &client, HOST).await.contains("InvalidPurpose"));
}

#[tokio::test]
async fn strangers_are_refused_in_the_handshake() {
    let (place, other, impostor) = (Place::new("im"), Place::new("other"), Place::new("im"));
    let store = place.credentials("store/im-a/s1");
    let bundles = [place.authority.bundle(), other.authority.bundle(), impostor.authority.bundle()].concat();

    // One is of another cluster, the other of another authority for a cluster with the same name.
    for stranger in [&other, &impostor] {
        let client = stranger.credentials("client/c");
        let text = refused(&store, &client, HOST).await;
        assert!(text.contains("UnknownIssuer") || text.contains("BadSignature"), "{text}");
        // The server refuses a client that trusts both.
        let files = stranger.files("client/d", now());
        fs::write(&files.bundle, &bundles).unwrap();
        let text = refused(&store, &Credentials::load(files).unwrap(), HOST).await;
        assert!(text.contains("server: Some"), "{text}");
    }
    // The authority is trusted, but the cluster is not the server's own.
    let files = place.files("store/im-a/s2", now());
    fs::write(&files.bundle, &bundles).unwrap();
    let trusts_all = Credentials::load(files.clone()).unwrap();
    let other_files = other.files("client/c", now());
    fs::write(&other_files.bundle, &bundles).unwrap();
    let text = refused(&trusts_all, &Credentials::load(other_files).unwrap(), HOST).await;
    assert!(text.contains("OtherCluster"), "{text}");

    // Dials another host, and a server that is not a node.
    let client = place.credentials("client/c");
    let text = refused(&store, &client, "else.example.org").await;
    assert!(text.contains("NotValidForName"), "{text}");
    let text = refused(&place.credentials("operator/alice"), &client, HOST).await;
    assert!(text.contains("InvalidPurpose") || text.contains("NoServer"), "{text}");
}

#[tokio::test]
async fn a_certificate_counts_between_its_times_and_until_it_is_revoked() {
    let place = Place::new("im");
    let store = place.credentials("store/im-a/s1");
    let early = Credentials::load(place.files("client/early", now() + DAY)).unwrap();
    assert!(refused(&store, &early, HOST).await.contains("NotValidYet"));
    let late = Authority::create("im", 100 * DAY, now() - 50 * DAY).unwrap();
    let late = Place { authority: late, dir: tempfile::tempdir().unwrap() };
    let (store_of_late, expired) = (late.credentials("store/im-a/s1"), late.files("client/late", now() - 20 * DAY));
    let text = refused(&store_of_late, &Credentials::load(expired).unwrap(), HOST).await;
    assert!(text.contains("Expired"), "{text}");

    let client = place.credentials("client/c");
    meet(&store, ClientCertificate::Required, &client, HOST).await.unwrap();
    let list = place.authority.revoke(None, &[client.certificate().serial], now()).unwrap();
    fs::write(&store.files().revocations, list).unwrap();
    assert!(store.reload().unwrap());
    // The session from before the revocation is not resumed either.
    assert!(refused(&store, &client, HOST).await.contains("Revoked"));
    meet(&store, ClientCertificate::Required, &place.credentials("client/d"), HOST).await.unwrap();
}

#[tokio::test]
async fn a_client_without_a_certificate_gets_in_only_where_none_is_needed() {
    let place = Place::new("im");
    let store = place.credentials("store/im-a/s1");
    let mut roots = RootCertStore::empty();
    roots.add(chain(place.authority.bundle()).unwrap().remove(0)).unwrap();
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
    let bare = TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()));
    let dial = async |clients| {
        let (near, far) = duplex(16 << 10);
        let serving = async { store.accept(clients, far).await.map(|stream| peer(&stream)) };
        let (served, _dialed) = tokio::join!(serving, bare.connect(HOST.try_into().unwrap(), near));
        served.map_err(|error| error.to_string())
    };
    assert_eq!(dial(ClientCertificate::Optional).await, Ok(None));
    let text = dial(ClientCertificate::Required).await.unwrap_err();
    assert!(text.contains("peer sent no certificates"), "{text}");
}

#[tokio::test]
async fn files_are_read_again_and_damaged_ones_change_nothing() {
    let place = Place::new("im");
    let (store, client) = (place.credentials("store/im-a/s1"), place.credentials("client/c"));
    assert!(!store.reload().unwrap(), "nothing has changed");
    let first = store.certificate();
    let refused = |change: &dyn Fn(&Files)| {
        let files = store.files();
        let kept = [&files.bundle, &files.certificate].map(|path| (path.clone(), fs::read(path).unwrap()));
        change(files);
        let error = store.reload().unwrap_err().to_string();
        kept.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        let _ = fs::remove_file(&files.revocations);
        assert_eq!(store.certificate(), first);
        error
    };
    let key_of = |files: &Files| {
        let pem = fs::read_to_string(&files.certificate).unwrap();
        pem[..pem.find("-----BEGIN CERT").unwrap()].to_owned()
    };
    let other = place.files("store/im-a/s2", now());
    type Case<'a> = (&'a dyn Fn(&Files), &'a str);
    let cases: [Case<'_>; 9] = [
        (&|_| drop(place.files("store/im-a/s1", now() - 11 * DAY)), "the certificate expired"),
        (&|_| drop(place.files("store/im-a/s1", now() + DAY)), "is the clock of this machine right?"),
        (&|files| fs::remove_file(&files.certificate).unwrap(), "cannot be read"),
        (&|files| fs::write(&files.certificate, "").unwrap(), "no certificate in PEM"),
        (&|files| fs::write(&files.bundle, "-----BEGIN CERTIFICATE-----\n").unwrap(), "no certificate in PEM"),
        (&|files| fs::write(&files.revocations, "x").unwrap(), "no list of revocations"),
        (
            &|files| {
                let list = Place::new("im").authority.revoke(None, &["00".to_owned()], now()).unwrap();
                fs::write(&files.revocations, list).unwrap();
            },
            "no list of revocations",
        ),
        (
            &|files| fs::write(&files.certificate, fs::read(&other.certificate).unwrap()).unwrap(),
            "this process is seqsvr://im/store/im-a/s1",
        ),
        (
            &|files| {
                let own = fs::read_to_string(&files.certificate).unwrap();
                let certificate = &own[own.find("-----BEGIN CERT").unwrap()..];
                fs::write(&files.certificate, format!("{}{certificate}", key_of(&other))).unwrap();
            },
            "KeyMismatch",
        ),
    ];
    for (change, what) in cases {
        let error = refused(change);
        assert!(error.contains(what), "{what}: {error}");
    }
    // The certificate in use may expire; changes of the other files are still read.
    let short = Credentials::load(place.files("store/im-a/s1", now() - 11 * DAY)).unwrap();
    fs::write(&short.files().bundle, [place.authority.bundle(), Place::new("im").authority.bundle()].concat()).unwrap();
    assert!(short.reload().unwrap());
    place.files("store/im-a/s1", now());
    assert!(store.reload().unwrap());
    assert_ne!(store.certificate().serial, first.serial);
    meet(&store, ClientCertificate::Required, &client, HOST).await.unwrap();
}

#[tokio::test]
async fn a_session_is_resumed_until_the_certificate_expires() {
    let place = Place::new("c");
    let server = place.credentials("alloc/a/a1");
    let client = Credentials::load(place.files("client/backend", now() - 10 * DAY + Duration::from_secs(6))).unwrap();
    let resumed = async || {
        let (near, far) = duplex(16 << 10);
        let serving = async {
            let mut stream = server.accept(ClientCertificate::Required, far).await?;
            check_validity(&stream)?;
            stream.write_all(b"x").await?;
            stream.flush().await
        };
        let dialing = async {
            let mut stream = client.connect(HOST, &ExpectedServer::any(), near, Some(b"h2")).await?;
            stream.read_exact(&mut [0]).await?;
            io::Result::Ok(is_resumed(&stream))
        };
        let (served, dialed) = tokio::join!(serving, dialing);
        served.and(dialed)
    };
    assert!(!resumed().await.unwrap(), "the first handshake is full");
    assert!(resumed().await.unwrap());
    let until = now() + Duration::from_secs(60);
    let error = loop {
        match resumed().await {
            Err(error) => break error,
            Ok(resumed) => assert!(resumed && now() < until, "it expires within six seconds"),
        }
    };
    assert!(error.to_string().contains("client/backend has expired"), "{error}");
}

#[tokio::test]
async fn an_open_connection_of_an_allocator_to_a_store_ends_when_its_certificate_expires() {
    let place = Place::new("c");
    let expiring = |short| Credentials::load(place.files(short, now() - 10 * DAY + Duration::from_secs(3))).unwrap();
    let follow = async |server: &Credentials, client: &Credentials| {
        let (near, far) = duplex(16 << 10);
        let serving = async { server.accept(ClientCertificate::Required, far).await.map(|open| server.follow(&open)) };
        let dialing = async { client.connect(HOST, &ExpectedServer::any(), near, Some(b"h2")).await };
        let (served, _dialed) = tokio::join!(serving, dialing);
        served.unwrap()
    };
    let (store, alloc) = (place.credentials("store/a/s1"), place.credentials("alloc/a/a1"));
    let mut renewing = follow(&store, &expiring("alloc/a/a2")).await;
    let mut lasting = [follow(&store, &expiring("store/a/s2")).await, follow(&alloc, &expiring("alloc/a/a3")).await];
    assert!(renewing.check().is_ok());
    let until = now() + Duration::from_secs(60);
    let error = loop {
        match renewing.check() {
            Err(error) => break error,
            Ok(()) => assert!(now() < until, "it expires within three seconds"),
        }
        tokio::task::yield_now().await;
    };
    assert!(error.to_string().contains("alloc/a/a2 has expired"), "{error}");
    assert!(lasting.iter_mut().all(|standing| standing.check().is_ok()));
}

/// Makes a handshake of a client that expects a server; returns whether it resumed a session.
async fn dial(server: &Credentials, client: &Credentials, expected: &ExpectedServer) -> Result<bool, String> {
    let met = meet_expected(server, ClientCertificate::Required, (client, expected), HOST).await;
    met.map(|(_, resumed)| resumed)
}

#[tokio::test]
async fn a_server_of_another_role_or_set_is_refused_in_the_handshake() {
    let place = Place::new("im");
    let client = place.credentials("alloc/im-a/a1");
    let store_of_c = place.credentials("store/im-c/s1");
    assert!(!dial(&store_of_c, &client, &ExpectedServer::store().of_set("im-c")).await.unwrap());
    assert!(!dial(&store_of_c, &client, &ExpectedServer::store()).await.unwrap());
    assert!(!dial(&store_of_c, &client, &ExpectedServer::any().of_set("im-c")).await.unwrap());
    let others = [
        (ExpectedServer::alloc().of_set("im-c"), "role alloc and set \"im-c\""),
        (ExpectedServer::alloc(), "role alloc and any set"),
        (ExpectedServer::store().of_set("im-b"), "role store and set \"im-b\""),
        (ExpectedServer::any().of_set("im-b"), "any role and set \"im-b\""),
    ];
    for (expected, named) in others {
        let text = dial(&store_of_c, &client, &expected).await.unwrap_err();
        assert!(text.contains("OtherServer"), "{text}");
        let rejected = Rejected::OtherServer { identity: store_of_c.certificate().identity, expected };
        let text = rejected.to_string();
        assert!(text.contains(named) && text.contains("seqsvr://im/store/im-c/s1"), "{text}");
    }
    let proxy = place.credentials("proxy/p");
    assert!(dial(&proxy, &client, &ExpectedServer::alloc()).await.unwrap_err().contains("OtherServer"));
    assert!(!dial(&proxy, &client, &ExpectedServer::any()).await.unwrap());
}

#[tokio::test]
async fn a_session_is_resumed_only_under_the_expectation_that_it_was_checked_with() {
    let place = Place::new("im");
    let (client, store) = (place.credentials("alloc/im-a/a1"), place.credentials("store/im-c/s1"));
    let accepting = [ExpectedServer::any(), ExpectedServer::store(), ExpectedServer::store().of_set("im-c")];
    for expected in &accepting {
        assert!(!dial(&store, &client, expected).await.unwrap(), "no session of another expectation: {expected}");
        assert!(dial(&store, &client, expected).await.unwrap(), "{expected}");
    }
    // The client has sessions with this server at this point.
    for expected in [ExpectedServer::alloc(), ExpectedServer::store().of_set("im-b")] {
        for _ in 0..2 {
            let text = dial(&store, &client, &expected).await.unwrap_err();
            assert!(text.contains("OtherServer"), "{expected}: {text}");
        }
    }
    // A caller without its own certificate checks the server as well, and the error states the cause.
    let authorities = Authorities::load(store.files()).unwrap();
    let trusts: [Trust; 2] = [client.into(), authorities.into()];
    for trust in trusts {
        let (near, far) = duplex(16 << 10);
        let serving = async { store.accept(ClientCertificate::Optional, far).await.map(drop) };
        let expected = ExpectedServer::alloc().of_set("im-b");
        let (_, dialed) = tokio::join!(serving, trust.connect(HOST, &expected, near, None));
        let failed = dialed.unwrap_err();
        let identity = store.certificate().identity;
        assert_eq!(crate::rejection(&failed), Some(&Rejected::OtherServer { identity, expected }));
    }
}

#[tokio::test]
async fn expectations_beyond_the_bound_are_checked_without_sessions() {
    let place = Place::new("im");
    let (client, store) = (place.credentials("alloc/im-a/a1"), place.credentials("store/im-c/s1"));
    for number in 0..crate::dialing::MAX_RESUMED_EXPECTATIONS {
        let expected = ExpectedServer::store().of_set(&format!("set-{number}"));
        assert!(dial(&store, &client, &expected).await.unwrap_err().contains("OtherServer"));
    }
    let expected = ExpectedServer::store().of_set("im-c");
    for _ in 0..2 {
        assert!(!dial(&store, &client, &expected).await.unwrap());
    }
    assert!(dial(&store, &client, &ExpectedServer::alloc()).await.unwrap_err().contains("OtherServer"));
}

#[test]
fn an_encrypted_key_is_named() {
    let place = Place::new("prod");
    let files = place.files("store/im-a/s1", now());
    let text = fs::read_to_string(&files.certificate).unwrap();
    fs::write(&files.certificate, text.replace("PRIVATE KEY-----", "OTHER-----")).unwrap();
    let refusal = |files: &Files| Credentials::load(files.clone()).unwrap_err().to_string();
    assert!(refusal(&files).ends_with("no private key in PEM"), "{}", refusal(&files));
    fs::write(&files.certificate, text.replace("PRIVATE KEY-----", "ENCRYPTED PRIVATE KEY-----")).unwrap();
    assert!(refusal(&files).contains("the private key is encrypted; `openssl pkey -in FILE`"), "{}", refusal(&files));
}
