//! What TLS costs: the server with it beside the server without, and handshakes with and without the resumption of a
//! session.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use seq_auth::{ClientCertificate, Credentials, ExpectedServer, Files};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;

use crate::cluster::{Cluster, UIDS};
use crate::suite::{Bench, INCR, OURS, REDIS, WIRE};
use crate::table::Goal;
use crate::tool::{self, Figure};

/// The holder that loads come from: that of commands by default.
const HOLDER: &str = "operator/admin";

/// The node whose certificate the server's side of handshakes in memory shows.
const NODE: &str = "alloc/compare/a1";

/// Connections of a row of handshakes in memory.
const IN_MEMORY: u64 = 3_000;

/// Rows of the gRPC endpoints: unary, and a stream of small messages.
const ENDPOINTS: [usize; 2] = [0, 2];

/// Rows of the Redis endpoint: pipelines of 1, 16 and 64.
const PIPELINES: [usize; 3] = [0, 2, 3];

/// How a client of HTTP/2 begins: the preface, and SETTINGS without a setting.
const HTTP2_OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Measures both sides once, in turn.
pub(crate) async fn measure(bench: &mut Bench, dir: &Path) -> anyhow::Result<()> {
    let sides = [dir.join("plaintext"), dir.join("tls")];
    sides.iter().try_for_each(std::fs::create_dir)?;
    let certs = dir.join("certs");
    let plaintext = Cluster::start(&bench.seqsvr, &sides[0], 1, &[]).await?;
    let secure = Cluster::start_secure(&bench.seqsvr, &sides[1], &certs).await?;
    for (name, flags) in ENDPOINTS.map(|index| WIRE[index]) {
        for (side, cluster) in [("plaintext", &plaintext), ("TLS", &secure)] {
            let flags = format!("{flags}{}", cluster.flags());
            let figure = tool::bench(&bench.seqsvr, &cluster.url(0), bench.seconds, UIDS, &flags).await?;
            bench.add(format!("{OURS} {name}, {side}"), figure);
        }
    }
    let pem = Files::in_dir(&certs, HOLDER);
    let [bundle, own] = [&pem.bundle, &pem.certificate].map(|path| path.to_string_lossy().into_owned());
    let tls = ["--tls", "--cacert", &bundle, "--cert", &own, "--key", &own];
    for (case, pipeline, threads, per_second) in PIPELINES.map(|index| REDIS[index]) {
        for (side, cluster, flags) in [("plaintext", &plaintext, &[][..]), ("TLS", &secure, &tls)] {
            let before = cluster.peer.cpu();
            let numbers = per_second * u64::from(bench.seconds);
            let (figure, _) = tool::redis(&cluster.redis[0], flags, &INCR, pipeline, threads, numbers).await?;
            let cpu_us = Some((cluster.peer.cpu() - before) * 1e6 / figure.numbers as f64);
            bench.add(format!("{OURS} RESP, {case}, {side}"), Figure { cpu_us, ..figure });
        }
    }
    for resumes in [false, true] {
        let before = secure.peer.cpu();
        let figure = handshakes(&secure.peer.addrs[0], &pem, resumes, bench.seconds).await?;
        let cpu_us = Some((secure.peer.cpu() - before) * 1e6 / figure.numbers as f64);
        let kind = if resumes { "resumed" } else { "full" };
        bench.add(format!("{OURS} handshakes, {kind}"), Figure { cpu_us, ..figure });
    }
    for resumes in [false, true] {
        let files = [Files::in_dir(&certs, NODE), pem.clone()];
        let figure = tokio::task::spawn_blocking(move || in_memory(files, resumes)).await??;
        let kind = if resumes { "resumed" } else { "full" };
        bench.add(format!("handshakes in memory, {kind}"), figure);
    }
    plaintext.peer.stop().await?;
    secure.peer.stop().await
}

/// Makes handshakes of the same library, certificates and checks over a pipe in memory: the limit of [`handshakes`].
/// The CPU time is that of the server's side, which has a thread of its own.
fn in_memory([server, client]: [Files; 2], resumes: bool) -> anyhow::Result<Figure> {
    let (streams, mut accepting) = tokio::sync::mpsc::channel::<DuplexStream>(1);
    let server = Credentials::load(server)?;
    let serving = std::thread::spawn(move || -> anyhow::Result<u64> {
        current_thread()?.block_on(async {
            let before = thread_cpu_ns()?;
            while let Some(stream) = accepting.recv().await {
                let mut stream = server.accept(ClientCertificate::Required, stream).await?;
                stream.write_u8(0).await?;
                stream.flush().await?;
                // The client ends the connection.
                let _ = stream.read_u8().await;
            }
            Ok(thread_cpu_ns()? - before)
        })
    });
    let numbers = current_thread()?.block_on(async {
        let mut credentials = Credentials::load(client.clone())?;
        for connection in 0..=IN_MEMORY {
            if !resumes {
                credentials = Credentials::load(client.clone())?;
            }
            let (stream, accepted) = tokio::io::duplex(64 * 1024);
            streams.send(accepted).await?;
            let mut stream = credentials.connect("127.0.0.1", &ExpectedServer::any(), stream, None).await?;
            stream.read_u8().await?;
            let resumed = seq_auth::is_resumed(&stream);
            ensure!(resumed == (resumes && connection > 0), "resumed: {resumed}");
        }
        drop(streams);
        anyhow::Ok(IN_MEMORY + 1)
    })?;
    let cpu = serving.join().map_err(|_| anyhow::anyhow!("the server's side panicked"))??;
    let cpu_us = cpu as f64 / 1e3 / numbers as f64;
    Ok(Figure { numbers, per_second: 1e6 / cpu_us, cpu_us: Some(cpu_us), ..Figure::default() })
}

fn current_thread() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Returns the CPU time of the current thread.
fn thread_cpu_ns() -> anyhow::Result<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split_whitespace().next().context("schedstat without a time")?.parse()?)
}

/// Makes connections one after the other, each with a handshake of its kind.
async fn handshakes(addr: &str, files: &Files, resumes: bool, seconds: u32) -> anyhow::Result<Figure> {
    let (host, _) = addr.rsplit_once(':').context("an address has a port")?;
    let mut credentials = Credentials::load(files.clone())?;
    // The first handshake is full in any case, and brings what the next ones resume.
    connect(&credentials, host, addr).await?;
    let (began, time) = (Instant::now(), Duration::from_secs(seconds.into()));
    let mut numbers = 0;
    while began.elapsed() < time {
        if !resumes {
            // Sessions are kept with the credentials.
            credentials = Credentials::load(files.clone())?;
        }
        ensure!(connect(&credentials, host, addr).await? == resumes, "resumed: not {resumes}");
        numbers += 1;
    }
    Ok(Figure { numbers, per_second: numbers as f64 / began.elapsed().as_secs_f64(), ..Figure::default() })
}

/// Connects once; returns whether a session was resumed.
async fn connect(credentials: &Credentials, host: &str, addr: &str) -> anyhow::Result<bool> {
    let stream = TcpStream::connect(addr).await?;
    let mut stream = credentials.connect(host, &ExpectedServer::any(), stream, Some(b"h2")).await?;
    stream.write_all(HTTP2_OPENING).await?;
    stream.flush().await?;
    // The first bytes of the server come behind the tickets of the session.
    stream.read_u8().await?;
    Ok(seq_auth::is_resumed(&stream))
}

/// What TLS may cost. Of the Redis endpoint only the CPU time of the server is compared, because `redis-benchmark`
/// encrypts on the same cores.
pub(crate) fn goals() -> Vec<Goal> {
    let goal = |name: String, rate, cpu| Goal {
        ours: format!("{OURS} {name}, TLS"),
        theirs: format!("{OURS} {name}, plaintext"),
        rate,
        cpu,
        p50: None,
        p99: None,
    };
    let endpoints = ENDPOINTS.map(|index| WIRE[index].0.to_owned()).into_iter().zip([0.85, 0.8]);
    let pipelines = PIPELINES.map(|index| format!("RESP, {}", REDIS[index].0)).into_iter().zip([0.8, 0.8, 0.85]);
    let endpoints = endpoints.map(|(name, rate)| goal(name, Some(rate), None));
    endpoints.chain(pipelines.map(|(name, rate)| goal(name, None, Some(1.0 / rate)))).collect()
}
