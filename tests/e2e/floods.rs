//! Strangers that open connections and never finish them, at every kind of port of a cluster over TLS, and clients that
//! take all connections or send useless frames: newcomers of all kinds are still served.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures::StreamExt;
use seq_auth::{Authorities, Credentials, ExpectedServer, Files, Trust};
use seq_proto::v1::NextManyRequest;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_testkit::TIMEOUT;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tonic::transport::Endpoint;

use crate::cluster::Place;
use crate::tls::Cluster;
use crate::{dev, tenants};

/// Connections that the flood of a port keeps open: more than the port admits.
const HELD: usize = 1_200;

/// Addresses that a flood comes from.
const ADDRESSES: u8 = 20;

/// Newcomers at each port.
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

/// Opens connections without finishing them, and replaces the oldest by new connections until it is aborted.
#[expect(clippy::disallowed_methods, reason = "its owner aborts it")]
fn flood(to: SocketAddr, opened: Arc<AtomicUsize>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut held = VecDeque::new();
        for host in (1..=ADDRESSES).cycle() {
            // A refused connection has the same effect as a dropped connection.
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

/// Connects with or without a certificate, sends a request, and returns whether a response arrives.
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

/// The start of HTTP/2: the preface, and empty settings. The server's settings are a frame of type 4.
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
            // Every fourth newcomer comes from an address of the flood itself. Connections of that address are dropped
            // to admit others, the sooner the faster the flood is, so this newcomer tries until it is served.
            let is_of_flood = newcomer % 4 == 3;
            let from = if is_of_flood { Ipv4Addr::new(127, 91, 0, 1) } else { NEWCOMER };
            let began = Instant::now();
            loop {
                if is_served(from, to, credentials, request, part).await {
                    served += 1;
                    break;
                }
                if !is_of_flood || began.elapsed() >= TIMEOUT {
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
    // The connections send no byte, commands, a wrong password, or the start of HTTP/2.
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
            // TLS reports an end without a close message as an error.
            let _ = stream.read_to_end(&mut Vec::new()).await;
            println!("{name:24} ended after {:.1} s", began.elapsed().as_secs_f64());
        }
    });
    tokio::time::timeout(TIMEOUT, futures::future::join_all(ended)).await.expect("all of them end");
}

/// Limit of open files of the cluster's processes: little more than the minimum.
const FILES: usize = 640;

/// Connections that a client tries at a node: more than callers may hold under this limit.
const TRIED: usize = 320;

/// Opens a connection with a certificate and begins HTTP/2 on it; `None` if the node refuses it.
async fn open(
    from: Ipv4Addr,
    to: SocketAddr,
    credentials: &Credentials,
) -> Option<impl AsyncRead + AsyncWrite + Unpin> {
    let stream = connect(from, to).await.ok()?;
    let mut stream = credentials.connect(&to.ip().to_string(), &ExpectedServer::any(), stream, None).await.ok()?;
    stream.write_all(HTTP2).await.ok()?;
    stream.flush().await.ok()?;
    let length = stream.read(&mut [0; 64]).await.ok()?;
    Some(stream).filter(|_| length > 0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_every_connection_leaves_some_to_nodes_and_operators() {
    allow_files();
    let cluster = tokio::task::block_in_place(|| Cluster::start_with_files(FILES));
    let load = |holder: &str| Credentials::load(Files::in_dir(&cluster.place.path("certs"), holder)).unwrap();
    let (client, alloc, store) = (load("client/backend"), load("alloc/im-a/a2"), load("store/im-a/s2"));
    let operator = load("operator/admin");
    let at = |port: u16| SocketAddr::from((cluster.place.host, port));
    // One port of each node is enough, because all connections of a node are counted together.
    for (name, port, ports) in [
        ("a1", 7404, vec![(7404, &alloc), (7400, &operator)]),
        ("s1", 7307, vec![(7301, &alloc), (7307, &store), (7304, &operator)]),
    ] {
        let opened = futures::stream::iter(0..TRIED).map(|number| {
            let from = Ipv4Addr::new(127, 92, 0, (number % usize::from(ADDRESSES)) as u8 + 1);
            open(from, at(port), &client)
        });
        let held: Vec<_> = opened.buffer_unordered(16).filter_map(std::future::ready).collect().await;
        println!("{name}: a client has {} of {TRIED} connections", held.len());
        assert!((100..TRIED).contains(&held.len()), "{name}: {}", held.len());
        for (port, credentials) in ports {
            assert!(open(NEWCOMER, at(port), &client).await.is_none(), "{name} {port}: no more clients");
            for _ in 0..NEWCOMERS {
                assert!(is_served(NEWCOMER, at(port), credentials, HTTP2, SETTINGS).await, "{name} {port}");
            }
        }
        drop(held);
        let again = async {
            while open(NEWCOMER, at(port), &client).await.is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, again).await.expect("connections that ended make room");
    }
    assert!(cluster.metric(7480, "seqsvr_connections_refused_total{node=\"a1\"}") > 0.0);
}

/// Bytes of frames that a peer attempts to send.
const FRAMES: usize = 8 << 20;

/// Sends frames until the connection ends; returns the number of accepted bytes.
async fn frames(to: SocketAddr, credentials: &Credentials, frame: &[u8]) -> usize {
    let stream = open(NEWCOMER, to, credentials).await.expect("it is accepted");
    let (mut receiving, mut sending) = tokio::io::split(stream);
    let batch = frame.repeat((16_384 / frame.len()).max(1));
    let sent = async {
        let mut sent = 0;
        while sent < FRAMES && sending.write_all(&batch).await.is_ok() {
            sent += batch.len();
        }
        sent
    };
    // Replies are read, so that the server does not wait for a full socket.
    let mut replies = vec![0; 65_536];
    let ended = async { while receiving.read(&mut replies).await.is_ok_and(|length| length > 0) {} };
    tokio::time::timeout(TIMEOUT, futures::future::join(sent, ended)).await.expect("the connection ends").0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_of_no_use_end_the_connection_at_every_port() {
    let cluster = tokio::task::block_in_place(Cluster::start);
    let load = |holder: &str| Credentials::load(Files::in_dir(&cluster.place.path("certs"), holder)).unwrap();
    let (client, alloc, store) = (load("client/backend"), load("alloc/im-a/a2"), load("store/im-a/s2"));
    let operator = load("operator/admin");
    let kinds: [(&str, &[u8]); 6] = [
        ("SETTINGS", b"\0\0\0\x04\0\0\0\0\0"),
        ("SETTINGS, large", &[&b"\0\x3f\xfc\x04\0\0\0\0\0"[..], &[0, 9, 0, 0, 0, 0].repeat(2_730)].concat()),
        ("PING", b"\0\0\x08\x06\0\0\0\0\0pingpong"),
        ("WINDOW_UPDATE", b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01"),
        ("PRIORITY", b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x10"),
        ("unknown", b"\0\0\0\xfa\0\0\0\0\0"),
    ];
    for (node, http, ports) in [
        ("a1", 7480, vec![(7400, &client), (7404, &alloc)]),
        ("s1", 7311, vec![(7301, &alloc), (7307, &store), (7304, &operator)]),
    ] {
        let mut connections = 0.0;
        for (port, credentials) in ports {
            for (kind, frame) in &kinds {
                let sent = frames(SocketAddr::from((cluster.place.host, port)), credentials, frame).await;
                println!("{node} {port} {kind:16} {sent:8} bytes");
                // The sockets of both sides hold more bytes than the node accepted.
                assert!(sent < FRAMES, "{node} {port} {kind}: {sent}");
                connections += 1.0;
            }
        }
        let metric = ["seqsvr_connections_flooded_total{node=\"", node, "\"}"].concat();
        assert_eq!(cluster.metric(http, &metric), connections, "{node}");
    }
}

/// Batches whose responses are read by a client with a small window, and items per batch.
const BATCHES: u64 = 100;
const ITEMS: u64 = 5_000;

/// A gRPC client with the smallest possible windows sends a WINDOW_UPDATE for each half kilobyte of a response and a
/// second frame for the connection, and estimates the bandwidth with a PING per round trip.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_client_with_many_window_updates_and_pings_stays_connected() {
    let place = Place::new();
    let (_server, addr) = tokio::task::block_in_place(|| dev::start(&place));
    let endpoint = Endpoint::from_shared(addr).unwrap();
    for estimates in [false, true] {
        let endpoint =
            endpoint.clone().http2_keep_alive_interval(Duration::from_millis(20)).keep_alive_while_idle(true);
        let endpoint = match estimates {
            true => endpoint.http2_adaptive_window(true),
            false => endpoint.initial_stream_window_size(1_024).initial_connection_window_size(65_535),
        };
        // The client has one connection, and does not connect again.
        let mut client = SequenceServiceClient::new(endpoint.connect().await.unwrap());
        for _ in 0..BATCHES {
            let request = NextManyRequest { uids: (1..=ITEMS).collect(), ..NextManyRequest::default() };
            let response = client.next_many(request).await.unwrap().into_inner();
            assert_eq!((response.values.len() as u64, response.errors.len()), (ITEMS, 0));
        }
    }
}
