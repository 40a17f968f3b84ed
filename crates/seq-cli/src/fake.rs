//! The command `fake`: a cluster in memory for tests of programs in any language, with faults on request.
//!
//! The nodes are the fake servers of `seq-client`: real protocols on loopback ports, no store, no data. Requests for
//! faults are lines of JSON on stdin, each with a response line on stdout. The cluster ends with stdin, so a test that
//! crashes leaves nothing behind.

use std::io::{self, BufRead};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use seq_client::fake::{FakeCluster, FakeServer};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, digits};
use seq_command::version::{VERSION, revision};
use seq_proto::Reason;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Limits of the arguments: far more than a test needs.
const MAX_SETS: u8 = 16;
const MAX_NODES: u8 = 16;
const MAX_SECTIONS: u64 = 100_000;

/// Limit on the times of a refusal.
const MAX_TIMES: usize = 1_000_000;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  seqsvr fake -o json\n  seqsvr fake --sets 2 --nodes 3 --uids 10000 --section-size 1000\n\n\
                        Faults are lines on stdin, each with a response line on stdout:\n  \
                        {\"fault\":\"refuse\",\"node\":\"a1\",\"reason\":\"UNSERVED\",\"times\":2}\n  \
                        {\"fault\":\"delay\",\"node\":\"a1\",\"ms\":100}\n  \
                        {\"fault\":\"hold\",\"node\":\"a1\",\"on\":true}\n  \
                        {\"fault\":\"stop\",\"node\":\"a1\"}\n  \
                        {\"fault\":\"move\",\"uid\":\"42\",\"to\":\"a2\"}\n  \
                        {\"fault\":\"take_over\",\"uid\":\"42\",\"to\":\"a2\"}\n\n\
                        Exit codes: 0 stdin has ended, 2 an argument is not valid."
)]
pub struct FakeArgs {
    /// Number of sets. The first set is named fake, the others fake-2, fake-3 and so on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_SETS)))]
    sets: u8,
    /// Number of allocators of each set, a1, a2 and so on.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=i64::from(MAX_NODES)))]
    nodes: u8,
    /// Number of uids, from 0 on.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    uids: u64,
    /// Number of uids of a section. The allocators of a set have its sections in turn.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    section_size: u32,
}

/// The line that the command prints when its nodes serve; its fields are those of `dev`.
#[derive(Debug, Serialize)]
struct Ready {
    version: &'static str,
    revision: &'static str,
    pid: u32,
    ready: bool,
    seconds: f64,
    set: String,
    #[serde(serialize_with = "digits")]
    uid_start: u64,
    #[serde(serialize_with = "digits")]
    uid_end: u64,
    section_size: u32,
    allocs: Vec<Node>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_sets: Vec<Set>,
}

#[derive(Debug, Serialize)]
struct Set {
    set: String,
    allocs: Vec<Node>,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    grpc: String,
}

/// A fault that a line of stdin requests. A node is `a1`, or `fake-2/a1` in another set than the first one; without a
/// node, a fault is of all nodes.
#[derive(Debug, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
enum Fault {
    /// The next requests are refused.
    Refuse { node: Option<String>, reason: String, times: Option<usize> },
    /// Each request is delayed; 0 ends it.
    Delay { node: Option<String>, ms: u64 },
    /// Requests get no response until `on` is false.
    Hold { node: Option<String>, on: bool },
    /// A node stops as if its process were killed.
    Stop { node: String },
    /// The section of a uid moves to a node, without a gap.
    Move { uid: String, to: String },
    /// The owner of a uid's section has crashed, and a node takes over: numbers are skipped.
    TakeOver { uid: String, to: String },
}

/// The nodes of all sets, each with its name.
struct Nodes {
    nodes: Vec<(String, FakeServer)>,
    uids: u64,
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
    let cluster = FakeCluster { uids: 0..args.uids, section_size: args.section_size, sets };
    let servers = cluster.start();

    let mut ready = Vec::new();
    let mut nodes = Nodes { nodes: Vec::new(), uids: args.uids };
    for ((set, _), servers) in cluster.sets.iter().zip(servers) {
        let mut allocs = Vec::new();
        for (index, server) in servers.into_iter().enumerate() {
            let name = format!("a{}", index + 1);
            allocs.push(Node { name: name.clone(), grpc: server.url() });
            nodes.nodes.push((if ready.is_empty() { name } else { format!("{set}/{name}") }, server));
        }
        ready.push(Set { set: set.clone(), allocs });
    }
    announce(ready, args, began.elapsed(), output)?;
    for line in io::stdin().lock().lines() {
        let line = line.context("stdin cannot be read")?;
        if !line.trim().is_empty() {
            let response = match nodes.inject(&line) {
                Ok(()) => json!({ "ok": true }),
                Err(error) => json!({ "error": error }),
            };
            output.line(response)?;
        }
    }
    Ok(Exit::Ok)
}

/// Prints that the nodes serve.
fn announce(mut sets: Vec<Set>, args: &FakeArgs, took: Duration, output: &Output) -> anyhow::Result<()> {
    let seconds = took.as_secs_f64();
    if !output.is_json() {
        for Set { set, allocs } in &sets {
            let allocs: Vec<String> = allocs.iter().map(|node| format!("{} {}", node.name, node.grpc)).collect();
            output.line(format_args!("{set}: {}", allocs.join(", ")))?;
        }
        let text = format_args!("uids 0..{}, in memory; ready in {seconds:.2} s, until stdin ends", args.uids);
        return Ok(output.line(text)?);
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
    };
    Ok(output.line(serde_json::to_string(&ready)?)?)
}

impl Nodes {
    /// Carries out the request of a line.
    ///
    /// # Errors
    /// A message, if the line is no request, or names something that does not exist.
    fn inject(&mut self, line: &str) -> Result<(), String> {
        let fault = serde_json::from_str(line)
            .map_err(|error| format!("{line}: {error}; `seqsvr fake --help` has examples"))?;
        match fault {
            Fault::Refuse { node, reason, times } => {
                let known = Reason::parse(&reason.to_ascii_uppercase());
                let reason =
                    known.ok_or_else(|| format!("{reason} is not a reason; `seqsvr explain` lists all reasons"))?;
                let refusal = reason.status("refused on request");
                let times = times.unwrap_or(1).min(MAX_TIMES);
                for server in self.some(node.as_deref())? {
                    server.refuse(std::iter::repeat_n(refusal.clone(), times));
                }
            }
            Fault::Delay { node, ms } => {
                self.some(node.as_deref())?.iter().for_each(|server| server.delay(Duration::from_millis(ms)));
            }
            Fault::Hold { node, on } => self.some(node.as_deref())?.iter().for_each(|server| server.hold(on)),
            Fault::Stop { node } => self.one(&node)?.stop(),
            Fault::Move { uid, to } => self.one(&to)?.take_section_of(self.uid(&uid)?),
            Fault::TakeOver { uid, to } => self.one(&to)?.take_over_section_of(self.uid(&uid)?),
        }
        Ok(())
    }

    fn one(&self, name: &str) -> Result<&FakeServer, String> {
        let names = || self.nodes.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ");
        let wanted = name.strip_prefix("fake/").unwrap_or(name);
        let found = self.nodes.iter().find(|(known, _)| known == wanted);
        found.map(|(_, server)| server).ok_or_else(|| format!("there is no node {name:?}; the nodes are {}", names()))
    }

    /// Returns the named node, or all nodes.
    fn some(&self, name: Option<&str>) -> Result<Vec<&FakeServer>, String> {
        match name {
            Some(name) => Ok(vec![self.one(name)?]),
            None => Ok(self.nodes.iter().map(|(_, server)| server).collect()),
        }
    }

    fn uid(&self, text: &str) -> Result<u64, String> {
        let uid = text.parse().ok().filter(|uid| *uid < self.uids);
        uid.ok_or_else(|| format!("uid {text:?} is not a number in 0..{}", self.uids))
    }
}
