//! The suites: the servers compared with each other, and the flags.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::cluster::{Cluster, UIDS};
use crate::etcd::{self, Work};
use crate::ids;
use crate::mariadb;
use crate::peer::{Peer, find, free_port};
use crate::table::{Goal, Row};
use crate::tls;
use crate::tool::{self, Figure};

/// First word of the rows of the server.
pub(crate) const OURS: &str = "seqsvr";

/// First word of the rows of the other build.
pub(crate) const BASELINE: &str = "baseline";

/// A group of servers measured in turn, ours and theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// The gRPC endpoints and the bare wire.
    Wire,
    /// The SDK with and without coalescing.
    Sdk,
    /// The Redis endpoint, of one node and of one in three that forwards two thirds, and Redis.
    Redis,
    /// Unary calls at the owner, and at a node that forwards all of them.
    Forward,
    /// Counters in PostgreSQL.
    Postgres,
    /// MariaDB as a ticket server, as two of them, and as the table of Leaf's segments.
    Mariadb,
    /// etcd, one and three members.
    Etcd,
    /// Three members of a store on this machine, syncing each entry.
    Store,
    /// The server with TLS and without it.
    Tls,
    /// Ids of series beside numbers of uids, and generators in process.
    Ids,
    /// Instructions of the allocator for each number, counted by valgrind: on a machine whose speed drifts they show a
    /// change of some percent.
    Instructions,
}

/// The state of a run.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) seqsvr: PathBuf,
    /// Another build of the server, measured in turn with it under the load of the same client.
    pub(crate) baseline: Option<PathBuf>,
    /// This program, to start the bare wire.
    pub(crate) me: PathBuf,
    pub(crate) seconds: u32,
    /// Number of the run, from 1.
    pub(crate) run: u32,
    pub(crate) rows: Vec<Row>,
}

/// The gRPC endpoints: name of the row and flags, the same for both sides. Connections and the requests in flight on
/// each dominate the cost of a unary call.
pub(crate) const WIRE: [(&str, &str); 4] = [
    ("unary", "--endpoint grpc --connections 4 --concurrency 64"),
    ("unary, 100 uids", "--endpoint many --batch 100 --connections 4 --concurrency 64"),
    ("stream, 1 uid a message", "--endpoint stream --connections 8 --concurrency 8 --pipeline 512"),
    ("stream, 100 uids a message", "--endpoint stream --connections 8 --concurrency 8 --pipeline 16 --batch 100"),
];

/// Name of the row, flags and number of calls of a count of instructions: some seconds each under valgrind.
const INSTRUCTIONS: [(&str, &str, u64); 5] = [
    ("unary", "--endpoint grpc --connections 4 --concurrency 16", 3_000),
    ("unary, 100 uids", "--endpoint many --batch 100 --connections 4 --concurrency 16", 3_000),
    ("stream, 1 uid a message", "--endpoint stream --connections 4 --concurrency 4 --pipeline 128", 100_000),
    (
        "stream, 100 uids a message",
        "--endpoint stream --connections 4 --concurrency 4 --pipeline 16 --batch 100",
        10_000,
    ),
    ("SDK, calls share messages", "--endpoint sdk --concurrency 64", 40_000),
];

/// Name of the row, pipeline depth and threads of redis-benchmark, and the number of commands for each second of a run.
/// Without a pipeline one thread of the client is the limit of every server here.
pub(crate) const REDIS: [(&str, u32, u32, u64); 4] = [
    ("pipeline 1", 1, 1, 60_000),
    ("pipeline 1, two client threads", 1, 2, 60_000),
    ("pipeline 16", 16, 1, 600_000),
    ("pipeline 64", 64, 1, 1_200_000),
];

/// The command of these rows.
pub(crate) const INCR: [&str; 2] = ["INCR", "seq:__rand_int__"];

/// Allocators of the clusters that forward.
const NODES: usize = 3;

impl Bench {
    pub(crate) fn add(&mut self, name: String, figure: Figure) {
        match figure.instructions {
            Some(instructions) => eprintln!("  {name}: {instructions:.1} instructions"),
            None => eprintln!("  {name}: {:.0}/s, {:.3} us", figure.per_second, figure.cpu_us.unwrap_or(f64::NAN)),
        }
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.runs.push(figure),
            None => self.rows.push(Row { name, runs: vec![figure] }),
        }
    }

    /// Measures a suite once.
    pub(crate) async fn run(&mut self, suite: Suite) -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        match suite {
            Suite::Wire => self.wire(dir.path()).await,
            Suite::Sdk => self.sdk(dir.path()).await,
            Suite::Redis => self.redis(dir.path()).await,
            Suite::Forward => self.forward(dir.path()).await,
            Suite::Postgres => self.postgres(dir.path()).await,
            Suite::Mariadb => mariadb::measure(self, dir.path()).await,
            Suite::Etcd => self.etcd(dir.path()).await,
            Suite::Store => self.store().await,
            Suite::Tls => tls::measure(self, dir.path()).await,
            Suite::Ids => ids::measure(self, dir.path()).await,
            Suite::Instructions => self.instructions(dir.path()).await,
        }
    }

    /// Returns the builds of the server, by the first word of their rows. Each run has the other order, because the
    /// second place is warmer or colder than the first one.
    fn builds(&self) -> Vec<(&'static str, PathBuf)> {
        let baseline = self.baseline.clone().map(|file| (BASELINE, file));
        let mut builds: Vec<_> = [(OURS, self.seqsvr.clone())].into_iter().chain(baseline).collect();
        if self.run.is_multiple_of(2) {
            builds.reverse();
        }
        builds
    }

    /// Starts a cluster of so many allocators of each build, by the first word of its rows.
    async fn ours(&self, dir: &Path, allocs: usize) -> anyhow::Result<Vec<(&'static str, Cluster)>> {
        let mut all = Vec::new();
        for (build, seqsvr) in self.builds() {
            let dir = dir.join(format!("{build}-{allocs}"));
            std::fs::create_dir(&dir)?;
            all.push((build, Cluster::start(&seqsvr, &dir, allocs, &[]).await.context(build)?));
        }
        Ok(all)
    }

    async fn wire(&mut self, dir: &Path) -> anyhow::Result<()> {
        let addr = format!("127.0.0.1:{}", free_port()?);
        let mut bare = Peer::new(dir);
        bare.start(&self.me, &["echo", "--addr", &addr], &addr).await?;
        let ours = self.ours(dir, 1).await?;
        for (name, flags) in WIRE {
            let sides = ours.iter().map(|(build, cluster)| (*build, &cluster.peer));
            for (side, peer) in [("bare", &bare)].into_iter().chain(sides) {
                let figure = tool::bench(&self.seqsvr, &peer.addrs[0], self.seconds, UIDS, flags).await?;
                self.add(format!("{side} {name}"), figure);
            }
        }
        for (build, Cluster { peer, .. }) in ours {
            let flags = "--endpoint json --concurrency 64";
            let json = tool::bench(&self.seqsvr, &peer.addrs[0], self.seconds, UIDS, flags).await?;
            self.add(format!("{build} JSON over HTTP/1.1"), json);
            peer.stop().await?;
        }
        bare.stop().await
    }

    async fn sdk(&mut self, dir: &Path) -> anyhow::Result<()> {
        let ours = self.ours(dir, 1).await?;
        for (name, flags) in [("SDK, one call a message", " --no-coalescing"), ("SDK, calls share messages", "")] {
            let flags = format!("--endpoint sdk --concurrency 256{flags}");
            for (build, Cluster { peer, .. }) in &ours {
                let figure = tool::bench(&self.seqsvr, &peer.addrs[0], self.seconds, UIDS, &flags).await?;
                self.add(format!("{build} {name}"), figure);
            }
        }
        for (_, cluster) in ours {
            cluster.peer.stop().await?;
        }
        Ok(())
    }

    async fn redis(&mut self, dir: &Path) -> anyhow::Result<()> {
        let server = find("redis-server")?;
        let mut peers = Vec::new();
        for (name, durable) in [
            ("Redis", &["--appendonly", "no"][..]),
            ("Redis always", &["--appendonly", "yes", "--appendfsync", "always"]),
        ] {
            let (port, dir) = (free_port()?.to_string(), dir.join(name));
            std::fs::create_dir(&dir)?;
            let dir_text = dir.to_string_lossy().into_owned();
            let mut peer = Peer::new(&dir);
            let args =
                [&["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &dir_text][..], durable].concat();
            peer.start(&server, &args, &format!("127.0.0.1:{port}")).await?;
            peers.push((name.to_owned(), port, peer));
        }
        for (allocs, place) in [(1, ""), (NODES, " at one of 3 nodes")] {
            for (build, Cluster { peer, redis, .. }) in self.ours(dir, allocs).await? {
                peers.push((format!("{build} RESP{place}"), redis[0].clone(), peer));
            }
        }
        for (case, pipeline, threads, per_second) in REDIS {
            for (name, port, peer) in &peers {
                let before = peer.cpu();
                let numbers = per_second * u64::from(self.seconds);
                let (figure, output) = tool::redis(port, &[], &INCR, pipeline, threads, numbers).await?;
                let cpu_us = Some((peer.cpu() - before) * 1e6 / figure.numbers as f64);
                eprintln!("  {name}, {case}: {output}");
                self.add(format!("{name}, {case}"), Figure { cpu_us, ..figure });
            }
        }
        for (_, _, peer) in peers {
            peer.stop().await?;
        }
        Ok(())
    }

    /// Unary calls at the owner of their uids, and at a node that forwards them there.
    async fn forward(&mut self, dir: &Path) -> anyhow::Result<()> {
        let ours = self.ours(dir, NODES).await?;
        for (build, cluster) in &ours {
            let (nodes, uids) = (&cluster.peer, cluster.owned_and_forwarded().await?);
            for (what, flags) in &WIRE[..2] {
                for (place, uids) in ["the owner", "another node"].into_iter().zip(uids.clone()) {
                    let before: Vec<f64> = (0..NODES).map(|node| nodes.cpu_of(node)).collect();
                    let figure = tool::bench(&self.seqsvr, &nodes.addrs[0], self.seconds, uids, flags).await?;
                    // Of the warm-up as well: it makes each a little too much, at both places.
                    let cpu_us = |node: usize| (nodes.cpu_of(node) - before[node]) * 1e6 / figure.numbers as f64;
                    let each: Vec<f64> = (0..NODES).map(cpu_us).collect();
                    eprintln!("  {build} {what}, at {place}: CPU of each node {each:.2?} us");
                    self.add(
                        format!("{build} {what}, at {place}"),
                        Figure { cpu_us: Some(each.iter().sum()), ..figure },
                    );
                }
            }
        }
        for (_, cluster) in ours {
            cluster.peer.stop().await?;
        }
        Ok(())
    }

    async fn postgres(&mut self, dir: &Path) -> anyhow::Result<()> {
        let (port, data) = (free_port()?.to_string(), dir.join("data").to_string_lossy().into_owned());
        let mut peer = Peer::new(dir);
        // PostgreSQL does not run as root.
        let initdb = find("initdb")?.to_string_lossy().into_owned();
        let postgres = find("postgres")?.to_string_lossy().into_owned();
        tool::output(&find("chown")?, &["postgres", &dir.to_string_lossy()]).await?;
        let runuser = find("runuser")?;
        tool::output(&runuser, &["-u", "postgres", "--", &initdb, "-D", &data, "-U", "postgres", "-A", "trust"])
            .await?;
        let args = ["-u", "postgres", "--", &postgres, "-D", &data, "-p", &port, "-k", "", "-h", "127.0.0.1"];
        peer.start(&runuser, &args, &format!("127.0.0.1:{port}")).await?;
        let psql = find("psql")?;
        let tables = "CREATE SEQUENCE one; CREATE SEQUENCE hundred CACHE 100; CREATE TABLE seq (uid bigint PRIMARY KEY, cur bigint)";
        tool::output(&psql, &["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-c", tables]).await?;
        let upsert = "\\set uid random(1, 1000000)\nINSERT INTO seq VALUES (:uid, 1) ON CONFLICT (uid) DO UPDATE SET cur = seq.cur + 1 RETURNING cur;\n";
        for (name, script, flags) in [
            ("PostgreSQL nextval", "SELECT nextval('one');\n", &[][..]),
            ("PostgreSQL nextval, a connection each", "SELECT nextval('one');\n", &["-C"]),
            ("PostgreSQL nextval, cache 100", "SELECT nextval('hundred');\n", &[]),
            ("PostgreSQL, one row a user", upsert, &[]),
        ] {
            let file = dir.join("script.sql");
            std::fs::write(&file, script)?;
            let before = peer.cpu();
            let figure = tool::pgbench(&port, &file, flags, 16, self.seconds).await?;
            let cpu_us = Some((peer.cpu() - before) * 1e6 / figure.numbers as f64);
            self.add(name.to_owned(), Figure { cpu_us, ..figure });
        }
        peer.stop().await
    }

    /// The store's example prints one line for each case: proposers, raises in a call, calls/s, raises/s, p50 and
    /// p99 in ms.
    async fn store(&mut self) -> anyhow::Result<()> {
        for (build, seqsvr) in self.builds() {
            let propose = seqsvr.with_file_name("examples").join("propose");
            let missing = || format!("{} is not there: cargo build -p seq-store --example propose", propose.display());
            anyhow::ensure!(propose.is_file(), missing());
            let output = tool::output(&propose, &[&self.seconds.to_string()]).await?;
            for line in output.lines() {
                let fields: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
                let [proposers, raises, _, per_second, p50, p99] = fields[..] else { continue };
                let [p50_us, p99_us] = [p50, p99].map(|millis| Some((millis * 1e3) as u64));
                let numbers = (per_second * f64::from(self.seconds)) as u64;
                let name = format!("{build} store, {proposers} x {raises} raises");
                self.add(name, Figure { numbers, per_second, p50_us, p99_us, ..Figure::default() });
            }
        }
        Ok(())
    }

    /// A fixed number of calls: the allocator takes a hundred times as long as otherwise.
    async fn instructions(&mut self, dir: &Path) -> anyhow::Result<()> {
        let (valgrind, control) = (find("valgrind")?, find("callgrind_control")?);
        for (build, seqsvr) in self.builds() {
            for (index, (name, flags, calls)) in INSTRUCTIONS.into_iter().enumerate() {
                let dir = dir.join(format!("{build}-{index}"));
                std::fs::create_dir(&dir)?;
                let out = format!("--callgrind-out-file={}", dir.join("callgrind").display());
                let under = [&*valgrind.to_string_lossy(), "--tool=callgrind", &out];
                let Cluster { peer, .. } = Cluster::start(&seqsvr, &dir, 1, &under).await.context(build)?;
                let pid = peer.pid().context("the allocator ended")?.to_string();
                tool::output(&control, &["--zero", &pid]).await?;
                let numbers = tool::bench_calls(&self.seqsvr, &peer.addrs[0], calls, UIDS, flags).await?;
                tool::output(&control, &["--dump", &pid]).await?;
                peer.stop().await?;
                let instructions = Some(tool::instructions(&dir)? as f64 / numbers as f64);
                self.add(format!("{build} {name}, counted"), Figure { numbers, instructions, ..Figure::default() });
            }
        }
        Ok(())
    }

    async fn etcd(&mut self, dir: &Path) -> anyhow::Result<()> {
        let time = Duration::from_secs(self.seconds.into());
        for (members, works) in [
            (1, &[("compare and increment", Work::Increment, 50)][..]),
            (3, &[("compare and increment", Work::Increment, 50), ("put", Work::Put, 200)]),
        ] {
            let dir = dir.join(members.to_string());
            std::fs::create_dir(&dir)?;
            let peer = etcd_members(&dir, members).await?;
            for (name, work, clients) in works {
                let before = peer.cpu();
                let figure = etcd::measure(&peer.addrs, *work, *clients, time).await?;
                let cpu_us = Some((peer.cpu() - before) * 1e6 / figure.numbers as f64);
                self.add(format!("etcd {name}, members: {members}"), Figure { cpu_us, ..figure });
            }
            peer.stop().await?;
        }
        Ok(())
    }
}

async fn etcd_members(dir: &Path, members: usize) -> anyhow::Result<Peer> {
    let ports: Vec<(u16, u16)> =
        (0..members).map(|_| Ok((free_port()?, free_port()?))).collect::<anyhow::Result<_>>()?;
    let cluster: Vec<String> =
        ports.iter().enumerate().map(|(index, (_, peers))| format!("e{index}=http://127.0.0.1:{peers}")).collect();
    let cluster = cluster.join(",");
    let program = find("etcd")?;
    let mut peer = Peer::new(dir);
    for (index, (clients, peers)) in ports.iter().enumerate() {
        let (name, data) = (format!("e{index}"), dir.join(format!("e{index}")).to_string_lossy().into_owned());
        let (clients, peers) = (format!("http://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
        let args = [
            "--name",
            &name,
            "--data-dir",
            &data,
            "--listen-client-urls",
            &clients,
            "--advertise-client-urls",
            &clients,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &cluster,
        ];
        peer.start(&program, &args, clients.trim_start_matches("http://")).await?;
    }
    let endpoints = peer.addrs.join(",");
    tool::output(&find("etcdctl")?, &["--endpoints", &endpoints, "endpoint", "health"]).await?;
    Ok(peer)
}

/// The goals, each a comparison of two rows.
pub(crate) fn goals() -> Vec<Goal> {
    let goal = |ours: &str, theirs: &str, rate, cpu, p50| {
        let (ours, theirs) = (ours.into(), theirs.into());
        Goal { ours, theirs, rate, cpu, p50, p99: None }
    };
    let mut goals = vec![
        goal("seqsvr unary", "bare unary", Some(0.9), Some(1.1), None),
        goal("seqsvr stream, 1 uid a message", "bare stream, 1 uid a message", Some(0.75), None, None),
        goal("seqsvr stream, 100 uids a message", "bare stream, 100 uids a message", Some(0.5), None, None),
        goal("seqsvr unary, 100 uids", "bare unary, 100 uids", Some(0.5), None, None),
        goal("seqsvr store, 256 x 64 raises", "etcd put, members: 3", Some(20.0), None, None),
        goal("seqsvr SDK, calls share messages", "seqsvr SDK, one call a message", Some(10.0), None, Some(1.0)),
    ];
    let ratios = [(1.0, 1.2, 0.9), (1.1, 1.2, 0.9), (1.6, 3.0, 0.55), (3.0, 5.0, 0.35)];
    for ((case, ..), (plain, always, cpu)) in REDIS.into_iter().zip(ratios) {
        let ours = format!("seqsvr RESP, {case}");
        goals.push(goal(&ours, &format!("Redis, {case}"), Some(plain), Some(cpu), None));
        goals.push(goal(&ours, &format!("Redis always, {case}"), Some(always), None, None));
    }
    // A node that forwards two thirds, beside one that owns everything.
    for (case, one, redis) in [("pipeline 1", 0.8, 0.8), ("pipeline 16", 0.7, 1.2), ("pipeline 64", 0.65, 1.8)] {
        let ours = format!("seqsvr RESP at one of 3 nodes, {case}");
        let alone = goal(&ours, &format!("seqsvr RESP, {case}"), Some(one), None, None);
        goals.push(Goal { p99: Some(2.0), ..alone });
        goals.push(goal(&ours, &format!("Redis, {case}"), Some(redis), None, None));
    }
    let unary = goal("seqsvr unary, at another node", "seqsvr unary, at the owner", Some(0.75), None, None);
    goals.push(Goal { p99: Some(2.0), ..unary });
    goals.extend(tls::goals());
    goals.extend(ids::goals());
    goals
}
