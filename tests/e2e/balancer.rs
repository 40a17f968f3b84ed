//! A real load balancer in front of AllocSvrs and proxies: HAProxy, with health checks at `/readyz` each 300 ms, no
//! retry and no second choice of a server. A rolling restart fails no call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seq_proto::v1;
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_testkit::eventually;

use crate::cluster::{Place, Server};
use crate::redis::tool;

/// Ports of the balancer, and ports of each server behind it: gRPC and JSON, Redis, probes.
const ALLOCS: [[u16; 3]; 2] = [[7400, 7479, 7480], [7401, 7478, 7481]];
const PROXIES: [[u16; 3]; 2] = [[7600, 7679, 7680], [7601, 7678, 7681]];

/// Time between two calls of one client.
const PACE: Duration = Duration::from_millis(2);

/// An HAProxy process; ended on drop.
pub(crate) struct Balancer {
    _process: Server,
    socket: std::path::PathBuf,
}

impl Balancer {
    /// Starts HAProxy with these listeners, each a block of its configuration.
    pub(crate) fn start(program: &Path, place: &Place, listeners: &str) -> Balancer {
        let socket = place.path("haproxy.sock");
        let config = place.path("haproxy.cfg");
        let head = format!(
            "global\n  stats socket {}\n  hard-stop-after 1s\n\
             defaults\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n  retries 0\n\n",
            socket.display()
        );
        std::fs::write(&config, head + listeners).unwrap();
        let process = place.server_of(program, "haproxy", &["-db", "-f", &config.display().to_string()]);
        let balancer = Balancer { _process: process, socket };
        eventually("the balancer responds", || balancer.states().map(drop));
        balancer
    }

    /// Returns the states of all servers, such as "grpc/a1 UP"; `None` before HAProxy listens.
    fn states(&self) -> Option<Vec<String>> {
        let mut socket = UnixStream::connect(&self.socket).ok()?;
        socket.write_all(b"show stat\n").ok()?;
        let mut table = String::new();
        socket.read_to_string(&mut table).ok()?;
        let rows = table.lines().filter(|row| !row.starts_with('#')).map(|row| row.split(',').collect::<Vec<_>>());
        let servers = rows.filter(|row| row.len() > 17 && !["FRONTEND", "BACKEND"].contains(&row[1]));
        Some(servers.map(|row| format!("{}/{} {}", row[0], row[1], row[17])).collect())
    }

    fn all_up(&self) {
        let all = |states: &Vec<String>| states.iter().all(|state| state.ends_with(" UP"));
        eventually("all servers are up", || self.states().filter(all));
    }
}

/// Returns a listener over some servers, whose health checks go to their ports for probes.
fn listener(place: &Place, name: &str, port: u16, (mode, http2): (&str, bool), servers: &[(&str, u16, u16)]) -> String {
    let (host, proto) = (place.host, if http2 { " proto h2" } else { "" });
    // Probes use HTTP/1.1 on every node.
    let servers: String = servers
        .iter()
        .map(|(name, port, http)| {
            let check = format!("check port {http} check-proto h1 inter 300ms fall 2 rise 1");
            format!("  server {name} {host}:{port} {check}{proto}\n")
        })
        .collect();
    format!(
        "listen {name}\n  mode {mode}\n  bind {host}:{port}{proto}\n  balance roundrobin\n  \
         option httpchk GET /readyz\n{servers}\n"
    )
}

/// A client that calls until it is stopped; every call requests the next seq of its uid.
struct Caller {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
    failed: Arc<Mutex<Vec<String>>>,
}

impl Caller {
    fn start(name: String, mut call: impl FnMut() -> Result<u64, String> + Send + 'static) -> Caller {
        let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (stopping, failures) = (stop.clone(), failed.clone());
        let thread = std::thread::spawn(move || {
            let (mut calls, mut last) = (0, Some(0));
            while !stopping.load(Relaxed) {
                calls += 1;
                last = match call() {
                    Ok(value) if last.is_none_or(|last| value == last + 1) => Some(value),
                    Ok(value) => {
                        failures.lock().push(format!("{name}: call {calls} got {value} after {last:?}"));
                        Some(value)
                    }
                    Err(error) => {
                        failures.lock().push(format!("{name}: call {calls}: {error}"));
                        None
                    }
                };
                std::thread::park_timeout(PACE);
            }
            calls
        });
        Caller { stop, thread, failed }
    }

    /// Stops the client; returns the number of calls, and the failures.
    fn stop(self) -> (u64, Vec<String>) {
        self.stop.store(true, Relaxed);
        let calls = self.thread.join().unwrap();
        (calls, std::mem::take(&mut *self.failed.lock()))
    }
}

/// A connection of a pool: it is replaced before a call if the server has ended it, as pools do.
struct Kept {
    addr: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Kept {
    fn at(addr: String) -> Kept {
        Kept { addr, stream: None }
    }

    fn open(&mut self) -> Result<&mut BufReader<TcpStream>, String> {
        let is_open = |stream: &BufReader<TcpStream>| {
            let socket = stream.get_ref();
            socket.set_nonblocking(true).unwrap();
            let peeked = socket.peek(&mut [0]);
            socket.set_nonblocking(false).unwrap();
            matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        if !self.stream.as_ref().is_some_and(is_open) {
            let stream = TcpStream::connect(&self.addr).map_err(|error| format!("connect: {error}"))?;
            stream.set_nodelay(true).unwrap();
            self.stream = Some(BufReader::new(stream));
        }
        Ok(self.stream.as_mut().unwrap())
    }

    /// Sends a request, and returns the first line of the response.
    fn send(&mut self, request: &str) -> Result<String, String> {
        let stream = self.open()?;
        stream.get_mut().write_all(request.as_bytes()).map_err(|error| format!("send: {error}"))?;
        self.line()
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.as_mut().unwrap().read_line(&mut line) {
            Ok(0) => Err("ended without a response".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(format!("receive: {error}")),
        }
    }

    fn incr(&mut self, uid: u64) -> Result<u64, String> {
        let key = format!("seq:{uid}");
        let reply = self.send(&format!("*2\r\n$4\r\nINCR\r\n${}\r\n{key}\r\n", key.len()))?;
        reply.strip_prefix(':').and_then(|number| number.parse().ok()).ok_or(reply)
    }

    /// Sends a request over HTTP/1.1. If the response ends the connection, or `keep` is false, the next request opens
    /// another.
    fn next(&mut self, uid: u64, keep: bool) -> Result<u64, String> {
        let status =
            self.send(&format!("POST /api/seq/next/{uid} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"))?;
        let (mut length, mut closes) = (0, !keep);
        loop {
            let header = self.line()?.to_ascii_lowercase();
            match header.split_once(": ") {
                None => break,
                Some(("content-length", value)) => length = value.parse().unwrap(),
                Some(("connection", value)) => closes |= value == "close",
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.as_mut().unwrap().read_exact(&mut body).map_err(|error| format!("body: {error}"))?;
        if closes {
            self.stream = None;
        }
        let body = String::from_utf8_lossy(&body).into_owned();
        if !status.contains(" 200 ") {
            return Err(format!("{status}: {body}"));
        }
        body.trim().parse().map_err(|_| body)
    }
}

/// Creates a gRPC client with one channel.
fn grpc(url: String, uid: u64) -> impl FnMut() -> Result<u64, String> + Send + 'static {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let channel = {
        let _runtime = runtime.enter();
        tonic::transport::Endpoint::from_shared(url).unwrap().connect_lazy()
    };
    let mut client = SequenceServiceClient::new(channel);
    move || {
        let request = v1::NextRequest { uid: Some(uid), count: 1, ..v1::NextRequest::default() };
        let response = runtime.block_on(client.next(request));
        response.map(|response| response.into_inner().value).map_err(|status| format!("{status:?}"))
    }
}

/// Starts the clients of one kind of node behind the balancer: for each protocol, with kept and with new connections.
/// Their uids are in different sections.
fn callers(host: std::net::Ipv4Addr, kind: &str, port: u16, first: u64) -> Vec<Caller> {
    let addr = |offset: u16| format!("{host}:{}", port + offset);
    let (mut callers, mut uid) = (Vec::new(), first);
    let mut caller = |what: &str, call: Box<dyn FnMut() -> Result<u64, String> + Send>| {
        callers.push(Caller::start(format!("{kind}, {what}"), call));
    };
    let mut uid = move || {
        uid += 100_001;
        uid
    };
    for (what, offset) in [("gRPC over TCP", 0), ("gRPC over HTTP/2", 1)] {
        caller(what, Box::new(grpc(format!("http://{}", addr(offset)), uid())));
    }
    for (what, offset, keep) in
        [("JSON over TCP", 0, true), ("JSON over TCP, one call each", 0, false), ("JSON over HTTP", 2, true)]
    {
        let (mut connection, uid) = (Kept::at(addr(offset)), uid());
        caller(what, Box::new(move || connection.next(uid, keep)));
    }
    for keep in [true, false] {
        let (mut connection, uid) = (Kept::at(addr(3)), uid());
        let what = if keep { "Redis" } else { "Redis, one call each" };
        caller(
            what,
            Box::new(move || {
                let reply = connection.incr(uid);
                connection.stream.take_if(|_| !keep);
                reply
            }),
        );
    }
    callers
}

#[test]
fn a_rolling_restart_behind_a_balancer_fails_no_call() {
    let Some(program) = tool("haproxy") else { return };
    let rolls: usize = std::env::var("ROLLS").map_or(1, |rolls| rolls.parse().unwrap());
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let config = place.path("seqsvr.toml").display().to_string();
    std::fs::write(&config, "[shutdown]\ndelay_ms = 1_500\n").unwrap();
    let _stores = ["1", "2", "3"].map(|id| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data])
    });
    let alloc =
        |name: &str| place.server(name, &["alloc", "--set", &set, "--name", name, "--cores", "1", "--config", &config]);
    let proxy = |at: usize| {
        let [grpc, redis, http] = PROXIES[at].map(|port| format!("{}:{port}", place.host));
        let ports = ["--listen", &grpc, "--redis", &redis, "--http", &http];
        let args = [&["proxy", "--set", &set, "--cores", "1", "--config", &config][..], &ports].concat();
        place.server(&format!("p{}", at + 1), &args)
    };
    let mut nodes: Vec<(Server, Server)> = vec![(alloc("a1"), proxy(0)), (alloc("a2"), proxy(1))];

    let mut listeners = String::new();
    for (kind, name, port, ports) in [("alloc", "a", 8100, ALLOCS), ("proxy", "p", 8200, PROXIES)] {
        let names = [format!("{name}1"), format!("{name}2")];
        let servers = |which: usize| [0, 1].map(|at| (&*names[at], ports[at][which], ports[at][2]));
        for (what, offset, mode, which) in [
            ("tcp", 0, ("tcp", false), 0),
            ("h2", 1, ("http", true), 0),
            ("http", 2, ("http", false), 0),
            ("redis", 3, ("tcp", false), 1),
        ] {
            listeners += &listener(&place, &format!("{kind}-{what}"), port + offset, mode, &servers(which));
        }
    }
    let balancer = Balancer::start(&program, &place, &listeners);
    balancer.all_up();
    let since = Instant::now();
    let mut all = callers(place.host, "AllocSvr", 8100, 0);
    all.extend(callers(place.host, "proxy", 8200, 1_000_000));
    for _ in 0..rolls {
        for at in 0..nodes.len() {
            let (allocator, proxied) = &mut nodes[at];
            // Both stop at once: calls through the proxies must not notice the restart of the allocator either.
            proxied.signal(rustix::process::Signal::TERM);
            assert_eq!(allocator.terminate(), Some(0));
            assert_eq!(proxied.wait_exit(), Some(0));
            nodes[at] = (alloc(["a1", "a2"][at]), proxy(at));
            balancer.all_up();
        }
    }
    let ended: Vec<_> = all.into_iter().map(Caller::stop).collect();
    let calls: u64 = ended.iter().map(|(calls, _)| calls).sum();
    let failed: Vec<&String> = ended.iter().flat_map(|(_, failed)| failed).collect();
    println!("{calls} calls, {} failed, {} restarts in {:.1?}", failed.len(), rolls * 4, since.elapsed());
    assert!(
        failed.is_empty() && calls > 1_000,
        "{calls} calls, {} failed: {:#?}",
        failed.len(),
        &failed[..failed.len().min(20)]
    );
}

/// A node without probes exits at once; a probed node continues to serve, until a second signal.
#[test]
fn a_second_signal_ends_the_wait_for_balancers() {
    let place = Place::new();
    let set = place.set_file("three-node.toml").display().to_string();
    let config = place.path("seqsvr.toml").display().to_string();
    std::fs::write(&config, "[shutdown]\ndelay_ms = 600_000\n").unwrap();
    let ports = PROXIES[0].map(|port| format!("{}:{port}", place.host));
    let start = || {
        let [grpc, redis, http] = &ports;
        let args = ["proxy", "--set", &set, "--listen", grpc, "--redis", redis, "--http", http, "--config", &config];
        place.server("p1", &args)
    };
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&ports[2]).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        Some(response)
    };
    let is = |code: &str| get("/readyz").filter(|response| response.starts_with(&format!("HTTP/1.1 {code}")));

    let mut unwatched = start();
    eventually("the port for probes responds", || get("/livez"));
    assert_eq!(unwatched.terminate(), Some(0));

    let _stores = ["1", "2", "3"].map(|id| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data])
    });
    let _alloc = place.server("a1", &["alloc", "--set", &set, "--name", "a1", "--cores", "1"]);
    let mut watched = start();
    for _ in 0..3 {
        eventually("the proxy is ready", || is("200"));
    }
    watched.signal(rustix::process::Signal::TERM);
    let refused = eventually("the proxy is not ready", || is("503"));
    assert!(refused.ends_with("shutting down\n"), "{refused}");
    let mut connection = Kept::at(ports[0].clone());
    assert!(connection.next(5, true).is_ok(), "the proxy continues to serve, also on new connections");
    assert!(get("/metrics").is_some_and(|metrics| metrics.contains("seqsvr_")));
    let health = place.seqsvr(&["health", "--addr", &format!("http://{}", ports[0])]);
    assert!(!health.status.success(), "the health probe fails, too");
    watched.signal(rustix::process::Signal::TERM);
    assert_eq!(watched.wait_exit(), Some(0), "the exit is orderly: {}", watched.log());
}

/// A balancer's header names the address of the client: it counts, and no other sender of such a header is believed.
#[test]
fn a_balancers_header_names_the_client() {
    let Some(program) = tool("haproxy") else { return };
    let place = Place::new();
    let host = place.host;
    let set = place.secure_set_file("three-node.toml").display().to_string();
    let config = place.path("seqsvr.toml").display().to_string();
    std::fs::write(&config, format!("[proxy_protocol]\nfrom = \"192.0.2.0/24, {host}\"\n")).unwrap();
    let _stores = ["1", "2", "3"].map(|id| {
        let data = place.path(&format!("s{id}")).display().to_string();
        place.server(&format!("s{id}"), &["store", "--set", &set, "--id", id, "--data", &data])
    });
    let a1 = place.server("a1", &["alloc", "--set", &set, "--name", "a1", "--cores", "2", "--config", &config]);
    let listener = |name: &str, port: u16, to: u16, how: &str| {
        format!("listen {name}\n  bind {host}:{port}\n  server a1 {host}:{to} check inter 300ms {how}\n\n")
    };
    // The balancer connects from the listed address, or without `source` from 127.0.0.1, like its clients.
    let listed = format!("source {host} send-proxy-v2");
    let listeners = [
        listener("grpc", 8100, 7400, &listed),
        listener("redis", 8101, 7479, &listed),
        listener("stranger", 8102, 7400, "send-proxy-v2"),
        listener("old", 8103, 7400, &format!("source {host} send-proxy")),
        listener("none", 8104, 7400, &format!("source {host}")),
    ];
    let balancer = Balancer::start(&program, &place, &listeners.concat());
    let next = |port: u16| {
        let args = ["next", "42", "--addr", &format!("https://{host}:{port}"), "--timeout", "2s"];
        place.seqsvr_as("client/backend", &args).status.success()
    };
    // Health checks have no client address.
    eventually("numbers come through the balancer", || next(8100).then_some(()));
    assert!(next(8104) && next(7400), "a connection without a header is served");
    for (port, text) in [(8100, "not TLS"), (8101, "INCR seq:1")] {
        let mut client = TcpStream::connect((host, port)).unwrap();
        client.write_all(format!("{text}\r\n").as_bytes()).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
        let own = client.local_addr().unwrap();
        assert_ne!(own.ip(), host, "the client has another address than the balancer");
        // The log has at most one line per minute and port.
        if port == 8100 {
            eventually("the log names the client", || a1.log().contains(&format!("peer={own}")).then_some(()));
        }
    }
    assert!(!next(8102) && !next(8103));
    eventually("the log names the stranger", || {
        a1.log().contains("a PROXY header from an address that proxy_protocol.from does not list").then_some(())
    });
    let states = balancer.states().unwrap();
    assert!(states.contains(&"grpc/a1 UP".to_owned()), "{states:?}");
}
