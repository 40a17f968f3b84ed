//! Strangers that open connections and never finish them, at every kind of port of a cluster over TLS: newcomers of all
//! kinds are served meanwhile.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seq_auth::{Authorities, Credentials, ExpectedServer, Files, Trust};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::cluster::TIMEOUT;
use crate::tenants;
use crate::tls::Cluster;

/// Connections that the flood of a port keeps open: more than a port has seats.
const HELD: usize = 1_200;

/// Addresses that a flood comes from.
const ADDRESSES: u8 = 20;

/// Newcomers of each port.
const NEWCOMERS: usize = 8;

/// An address that neither a node nor the flood has.
const NEWCOMER: Ipv4Addr = Ipv4Addr::new(127, 90, 0, 1);

/// The beginning of a ClientHello, which never ends.
const HALF_HANDSHAKE: &[u8] = &[22, 3, 1, 2, 0, 1, 0];

async fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Opens connections and never finishes them, the newest for the oldest, until it is aborted.
#[expect(clippy::disallowed_methods, reason = "its owner aborts it")]
fn flood(to: SocketAddr, opened: Arc<AtomicUsize>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut held = VecDeque::new();
        for host in (1..=ADDRESSES).cycle() {
            // A refused connection is as good as one that was dropped.
            if let Ok(mut stream) = connect(Ipv4Addr::new(127, 91, 0, host), to).await {
                let _ = stream.write_all(HALF_HANDSHAKE).await;
                held.push_back(stream);
                opened.fetch_add(1, Relaxed);
            }
            if held.len() > HELD {
                held.pop_front();
            }
        }
    })
}

/// Makes a new connection with a certificate, or without one, sends a request, and returns whether it was responded to.
async fn is_served(from: Ipv4Addr, to: SocketAddr, credentials: &Credentials, request: &[u8], part: &str) -> bool {
    let served = async {
        let stream = connect(from, to).await?;
        let host = to.ip().to_string();
        let mut stream = credentials.connect(&host, &ExpectedServer::any(), stream, None).await?;
        stream.write_all(request).await?;
        stream.flush().await?;
        let mut response = vec![0; 4_096];
        let length = stream.read(&mut response).await?;
        std::io::Result::Ok(response[..length].windows(part.len()).any(|window| window == part.as_bytes()))
    };
    matches!(tokio::time::timeout(Duration::from_secs(10), served).await, Ok(Ok(true)))
}

fn allow_files() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
}

/// How HTTP/2 begins: the preface, and empty settings. The server's settings are a frame of type 4.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: &str = "\x04\0\0\0\0\0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newcomers_are_served_while_strangers_fill_every_port() {
    allow_files();
    let cluster = tokio::task::block_in_place(Cluster::start);
    let load = |holder: &str| Credentials::load(Files::in_dir(&cluster.place.path("certs"), holder)).unwrap();
    let (caller, alloc, store) = (load("client/backend"), load("alloc/im-a/a2"), load("store/im-a/s2"));
    let operator = load("operator/admin");
    let next = b"POST /api/seq/next/42 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    let live = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    // The port, the newcomer, its request, and a part of the response.
    let ports: [(&str, u16, &Credentials, &[u8], &str); 7] = [
        ("callers of a1", 7400, &caller, next, "200 OK"),
        ("peers of a1", 7404, &alloc, HTTP2, SETTINGS),
        ("probes of a1", 7480, &caller, live, "200 OK"),
        ("peers of s1", 7301, &alloc, HTTP2, SETTINGS),
        ("Raft of s1", 7307, &store, HTTP2, SETTINGS),
        ("operators of s1", 7304, &operator, HTTP2, SETTINGS),
        ("probes of s1", 7311, &operator, live, "200 OK"),
    ];
    println!("port             flood  a second  served of {NEWCOMERS}  longest ms");
    for (name, port, credentials, request, part) in ports {
        let to = SocketAddr::from((cluster.place.host, port));
        let opened = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let flood = flood(to, opened.clone());
        while opened.load(Relaxed) < HELD {
            assert!(started.elapsed() < TIMEOUT, "{name}: the flood does not come up");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (mut served, mut longest) = (0, Duration::ZERO);
        for newcomer in 0..NEWCOMERS {
            // One in four comes from an address of the flood itself. The flood drops connections of that address: the
            // newcomer may have to come again.
            let (from, most) = if newcomer % 4 == 3 { (Ipv4Addr::new(127, 91, 0, 1), 10) } else { (NEWCOMER, 1) };
            let began = Instant::now();
            for _ in 0..most {
                if is_served(from, to, credentials, request, part).await {
                    served += 1;
                    break;
                }
            }
            longest = longest.max(began.elapsed());
        }
        let rate = opened.load(Relaxed) as f64 / started.elapsed().as_secs_f64();
        flood.abort();
        let _ = flood.await;
        println!("{name:16} {:6} {rate:9.0} {served:11} {:11}", opened.load(Relaxed), longest.as_millis());
        assert_eq!(served, NEWCOMERS, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_without_a_credential_end_where_there_are_tenants() {
    let cluster = tokio::task::block_in_place(|| tenants::start(""));
    let anonymous =
        Authorities::load(&Files::in_dir(&cluster.place.path("certs"), "client/backend")).map(Trust::from).unwrap();
    let began = Instant::now();
    // Without a byte, with commands, with a wrong password, and HTTP/2 that goes on.
    let cases: [(&str, u16, &[u8]); 4] = [
        ("Redis, idle", 7479, b""),
        ("Redis, a command", 7479, b"PING\r\n"),
        ("Redis, a wrong password", 7479, b"AUTH guess\r\n"),
        ("HTTP/2", 7400, HTTP2),
    ];
    let ended = cases.map(|(name, port, sent)| {
        let (anonymous, to) = (anonymous.clone(), SocketAddr::from((cluster.place.host, port)));
        async move {
            let stream = connect(NEWCOMER, to).await.unwrap();
            let any = ExpectedServer::any();
            let mut stream = anonymous.connect(&to.ip().to_string(), &any, stream, None).await.unwrap();
            stream.write_all(sent).await.unwrap();
            stream.flush().await.unwrap();
            // An end without a farewell is an error to TLS.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            println!("{name:24} ended after {:.1} s", began.elapsed().as_secs_f64());
        }
    });
    tokio::time::timeout(TIMEOUT, futures::future::join_all(ended)).await.expect("all of them end");
}
