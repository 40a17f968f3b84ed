//! The command `fake`: a cluster in memory for tests of programs in any language, with faults on request.
//!
//! The nodes have the endpoints of real nodes, on free loopback ports, and the counters of real owners. There is no
//! store, no data and no lease, so a cluster is ready at once, and a takeover takes no time. Requests for faults are
//! lines of JSON on stdin, each with a response line on stdout. The cluster ends with stdin, so a test that crashes
//! leaves nothing behind.

use std::io::{self, BufRead};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use seq_client::fake::FakeCluster;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, digits};
use seq_command::version::{VERSION, revision};
use serde::Serialize;
use serde_json::json;

mod cluster;
mod connections;
mod faults;
mod node;
mod service;

use cluster::{Cluster, KEYSPACE};
use node::Sockets;

use crate::settings::Settings;

/// Limits of the arguments: more than a test needs.
const MAX_SETS: u8 = 16;
const MAX_NODES: u8 = 16;
const MAX_SECTIONS: u64 = 100_000;
const MAX_UIDS: u64 = 1 << 40;
const MAX_SECTION_SIZE: u32 = 1_000_000;

/// Number of threads that serve the nodes.
const THREADS: usize = 2;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr fake -o json\n  seqsvr fake --sets 2 --nodes 3 --uids 10000 --section-size 1000\n\n\
                        Faults are lines on stdin, each with a response line on stdout:\n  \
                        {\"fault\":\"refuse\",\"node\":\"a1\",\"reason\":\"UNSERVED\",\"times\":2}\n  \
                        {\"fault\":\"refuse\",\"uid\":\"42\",\"reason\":\"EXHAUSTED\"}\n  \
                        {\"fault\":\"delay\",\"node\":\"a1\",\"ms\":100}\n  \
                        {\"fault\":\"hold\",\"node\":\"a1\",\"on\":true}\n  \
                        {\"fault\":\"cut\",\"node\":\"a1\"}\n  \
                        {\"fault\":\"cut\",\"node\":\"a1\",\"times\":1}\n  \
                        {\"fault\":\"stop\",\"node\":\"a1\"}\n  \
                        {\"fault\":\"kill\",\"node\":\"a1\"}\n  \
                        {\"fault\":\"start\",\"node\":\"a1\"}\n  \
                        {\"fault\":\"move\",\"uid\":\"42\",\"to\":\"a2\"}\n  \
                        {\"fault\":\"take_over\",\"uid\":\"42\",\"to\":\"a2\"}\n  \
                        {\"fault\":\"clear\"}\n\n\
                        Exit codes: 0 stdin has ended, 1 failed, 2 an argument is not valid."
)]
pub struct FakeArgs {
    /// Number of sets. The first set is named fake, the others fake-2, fake-3 and so on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_SETS)))]
    sets: u8,
    /// Number of allocators of each set, a1, a2 and so on.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_NODES)))]
    nodes: u8,
    /// Number of uids, from 0 on.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u64>::new().range(1..=MAX_UIDS))]
    uids: u64,
    /// Number of uids of a section. The allocators of a set have its sections in turn.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SECTION_SIZE)))]
    section_size: u32,
}

/// The line that the command prints when its nodes serve; its fields are those of `dev`.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    version: &'static str,
    revision: &'static str,
    pid: u32,
    ready: bool,
    seconds: f64,
    set: &'a str,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    allocs: Vec<Alloc<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_sets: Vec<Set<'a>>,
    series: Vec<&'a str>,
    keyspaces: Vec<&'a str>,
    redis_prefix: String,
}

#[derive(Debug, Serialize)]
struct Set<'a> {
    set: &'a str,
    allocs: Vec<Alloc<'a>>,
}

#[derive(Debug, Serialize)]
struct Alloc<'a> {
    name: &'a str,
    /// URL of the port for gRPC and JSON.
    grpc: String,
    /// Address of the Redis port.
    redis: String,
}

pub fn run(args: &FakeArgs, output: &Output) -> anyhow::Result<Exit> {
    let began = Instant::now();
    if args.uids.div_ceil(u64::from(args.section_size)) > MAX_SECTIONS {
        let message =
            format!("{} uids in sections of {} are more than {MAX_SECTIONS} sections", args.uids, args.section_size);
        return Err(Failure::new(Exit::Usage, message).hint("a larger --section-size makes fewer sections").into());
    }
    let set_name = |set: u8| if set == 1 { "fake".to_owned() } else { format!("fake-{set}") };
    let sets: Vec<(String, usize)> = (1..=args.sets).map(|set| (set_name(set), usize::from(args.nodes))).collect();
    let config = FakeCluster { uids: 0..args.uids, section_size: args.section_size, sets };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let mut cluster = runtime.block_on(async {
        let mut sockets = Vec::new();
        for (_, nodes) in &config.sets {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            sockets.push((0..*nodes).map(|_| Sockets::bind(any, any)).collect::<anyhow::Result<_>>()?);
        }
        Cluster::start(&config, sockets)
    })?;
    announce(&cluster, args, began.elapsed(), output)?;
    for line in io::stdin().lock().lines() {
        let line = line.context("stdin cannot be read")?;
        if !line.trim().is_empty() {
            let response = match runtime.block_on(cluster.inject(&line)) {
                Ok(()) => json!({ "ok": true }),
                Err(error) => json!({ "error": error }),
            };
            output.line(response)?;
        }
    }
    runtime.shutdown_background();
    Ok(Exit::Ok)
}

/// Prints that the nodes serve.
fn announce(cluster: &Cluster, args: &FakeArgs, took: Duration, output: &Output) -> anyhow::Result<()> {
    let seconds = took.as_secs_f64();
    let mut sets: Vec<Set<'_>> = cluster.sets.iter().map(|set| Set { set, allocs: Vec::new() }).collect();
    for node in &cluster.nodes {
        let (grpc, redis) = (format!("http://{}", node.grpc), node.redis.to_string());
        sets[node.set].allocs.push(Alloc { name: &node.name, grpc, redis });
    }
    let series: Vec<&str> = cluster.names.series.iter().map(|series| series.name.as_str()).collect();
    if !output.is_json() {
        for Set { set, allocs } in &sets {
            for Alloc { name, grpc, redis } in allocs {
                output.line(format_args!("{set}/{name}  gRPC and JSON {grpc}, Redis {redis}"))?;
            }
        }
        let series = series.join(", ");
        output.line(format_args!("uids 0..{}, series {series}, keyspace {KEYSPACE}, all in memory", args.uids))?;
        return Ok(output.line(format_args!("ready in {seconds:.2} s, until stdin ends"))?);
    }
    let further_sets = sets.split_off(1);
    let Set { set, allocs } = sets.remove(0);
    let ready = Ready {
        version: VERSION,
        revision: revision(),
        pid: std::process::id(),
        ready: true,
        seconds,
        set,
        uid_start: 0,
        uid_end: args.uids,
        section_size: args.section_size,
        allocs,
        further_sets,
        series,
        keyspaces: vec![KEYSPACE],
        redis_prefix: Settings::default().redis.prefix,
    };
    Ok(output.line(serde_json::to_string(&ready)?)?)
}
