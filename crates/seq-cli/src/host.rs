//! The command `host`, which prepares all nodes on one machine for the stop of that machine. It applies to all sets
//! that have nodes there.
//!
//! `host drain` makes the changes that `node drain` and `store lead` make for single nodes. If it is interrupted, the
//! user can repeat it to complete the drain.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped};
use seq_command::plan::{self, ConfirmedPlanArgs, Mode, PlanArgs};
use seq_command::store_client::{Addrs, StoreClient, TimeoutArgs};
use seq_command::target::load_set;
use seq_command::time_limit::time;
use seq_core::plan::{Fingerprint, Preconditions};
use serde::Serialize;

use crate::node::wait_drained;

mod steps;

use steps::{AllocPlan, SetPlan, host_of, hosts};

/// The commands for the nodes of one host.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Hands over all sections of a host's allocators, and the leadership of its stores, so that its processes can
    /// stop.
    Drain(DrainArgs),
    /// Lets the host's allocators own sections again.
    Undrain(UndrainArgs),
}

/// The sets that may have nodes on the host.
#[derive(Debug, Args)]
struct Sets {
    /// A set file; repeat the flag for each set that has nodes on the host.
    #[arg(long = "set", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    addrs: Addrs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr host drain 10.0.0.3 --set im-a.toml --set im-b.toml\n  \
                        seqsvr host drain 10.0.0.3 --set im-a.toml --dry-run\n\n\
                        The command makes the changes of `node drain` and `store lead`, so repeating it completes an interrupted drain. \
                        It is refused before any change if a store would have no majority without the host (NO_MAJORITY), or if no \
                        other allocator could own the sections (LAST_NODE).\n\n\
                        Exit codes: 0 drained, 1 refused (LAST_NODE), 2 no node is on the host, a wrong file, or no terminal to \
                        confirm on, 3 a store has no majority, or would have none, 4 no node responded, 5 the plan is stale, 6 declined, 7 still in \
                        progress after --timeout, 130 interrupted.")]
pub struct DrainArgs {
    /// The host, as in the addresses of its nodes.
    #[arg(value_name = "HOST")]
    host: String,
    #[command(flatten)]
    sets: Sets,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    /// Time limit until an allocator owns no section.
    #[arg(long, value_name = "TIME", alias = "timeout-s", default_value = "10m", value_parser = time)]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  seqsvr host undrain 10.0.0.3 --set im-a.toml --set im-b.toml\n\n\
                        Exit codes: 0 the allocators may own sections, 1 refused, 2 no node is on the host, or a wrong file, 3 a store has no \
                        majority, 4 no node responded, 5 the plan is stale and nothing was changed, 7 not done within \
                        --timeout.")]
pub struct UndrainArgs {
    /// The host, as in the addresses of its nodes.
    #[arg(value_name = "HOST")]
    host: String,
    #[command(flatten)]
    sets: Sets,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the drain of a host.
#[derive(Serialize)]
struct Outcome<'a> {
    host: &'a str,
    dry_run: bool,
    changed: bool,
    /// The changes in each set.
    sets: &'a [SetPlan],
    seconds: f64,
    /// Fingerprint of the plan for all sets. It is absent if there was nothing to do, or if a store's release has no
    /// fingerprints.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

/// An AllocSvr that was drained until the command ended its drain. It may own sections again.
#[derive(Serialize)]
struct Undrained {
    set: String,
    node: String,
}

pub fn run(command: HostCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            HostCommand::Drain(args) => drain(&args, output).await,
            HostCommand::Undrain(args) => undrain(&args, output).await,
        }
    })
}

impl Sets {
    /// Returns a client for the store of each set.
    fn clients(&self, timeout: Duration) -> anyhow::Result<Vec<StoreClient>> {
        if self.files.is_empty() {
            seq_command::target::use_scheme_of(&self.addrs.addrs)?;
            return Ok(vec![StoreClient::new(None, &self.addrs, timeout)]);
        }
        let files = self.files.iter().map(|file| load_set(file));
        files.map(|set| Ok(StoreClient::new(Some(&set?), &self.addrs, timeout))).collect()
    }
}

async fn drain(args: &DrainArgs, output: &Output) -> anyhow::Result<Exit> {
    let (host, dry_run) = (args.host.as_str(), args.confirm.plan.dry_run);
    let mut clients = args.sets.clients(args.timeout)?;
    let mut plans = plans(host, &mut clients).await?;
    let is_done = plans.iter().all(SetPlan::is_done);
    let mut fingerprints = Vec::new();
    for (client, plan) in clients.iter_mut().zip(&mut plans) {
        fingerprints.extend(foresee(client, plan, args.confirm.plan).await?);
    }
    let plan = of_all("host drain", &fingerprints);
    let outcome =
        |changed, seconds| Outcome { host, dry_run, changed, sets: &plans, seconds, plan: plan::digits(plan) };
    if !output.is_json() {
        for plan in &plans {
            output.line(format_args!("{}: {}", plan.set, plan.steps()))?;
        }
        plan::print(plan, output)?;
    }
    if !fingerprints.is_empty() {
        args.confirm.plan.check(plan)?;
    }
    if is_done || dry_run {
        if output.is_json() {
            output.json(&outcome(false, 0.0))?;
        }
        return Ok(Exit::Ok);
    }
    if !args.confirm.confirmed(&format!("drain host {host}"))? {
        return Ok(Exit::Declined);
    }
    let since = Instant::now();
    for (client, plan) in clients.iter_mut().zip(&plans) {
        carry_out(client, plan, args.timeout, output).await?;
    }
    let seconds = since.elapsed().as_secs_f64();
    if output.is_json() {
        output.json(&outcome(true, seconds))?;
    } else {
        output.line(format_args!("host {host} is drained in {seconds:.1} s: its processes can stop"))?;
    }
    Ok(Exit::Ok)
}

/// Plans the changes in every set, before any set is changed.
async fn plans(host: &str, clients: &mut [StoreClient]) -> anyhow::Result<Vec<SetPlan>> {
    let (mut plans, mut known) = (Vec::new(), BTreeSet::new());
    for client in clients {
        let (members, nodes) = (client.list().await?, client.nodes().await?);
        known.extend(hosts(&members, &nodes).into_iter().map(str::to_owned));
        plans.push(SetPlan::new(host, &members, &nodes)?);
    }
    check_host(host, &known)?;
    Ok(plans)
}

/// Requests a dry run of each change in one set, stores the fingerprints in `plan`, and returns them. An AllocSvr whose
/// drain is already in progress needs no change, because the command only watches its drain.
async fn foresee(client: &mut StoreClient, plan: &mut SetPlan, args: PlanArgs) -> anyhow::Result<Vec<Fingerprint>> {
    let mut fingerprints = Vec::new();
    let names = plan.names();
    for alloc in plan.allocs.iter_mut().filter(|alloc| !alloc.is_drained) {
        alloc.plan = Fingerprint(client.drain(&alloc.name, true, &names, Mode::Show).await?.fingerprint);
        fingerprints.push(alloc.plan);
    }
    if let Some(leader) = plan.leader
        && client.can_show(args).await?
    {
        plan.leader_plan = Fingerprint(client.transfer(leader, Mode::Show).await?.fingerprint);
        fingerprints.push(plan.leader_plan);
    }
    Ok(fingerprints)
}

/// Computes one fingerprint of the whole change from the fingerprints of its steps. Returns [`Fingerprint::NONE`] if
/// there are no steps, or if a store's release has no fingerprints.
fn of_all(change: &str, steps: &[Fingerprint]) -> Fingerprint {
    if steps.is_empty() || steps.contains(&Fingerprint::NONE) {
        return Fingerprint::NONE;
    }
    Preconditions::of(change).numbers(steps.iter().map(|step| step.0)).fingerprint()
}

async fn carry_out(client: &mut StoreClient, plan: &SetPlan, timeout: Duration, output: &Output) -> anyhow::Result<()> {
    client.restart_time();
    let names = plan.names();
    // All drains are started before the first is awaited. Otherwise sections would be handed over from one allocator of
    // the host to another allocator of the same host.
    for AllocPlan { name, plan, .. } in &plan.allocs {
        client.drain(name, true, &names, Mode::Make(*plan)).await?;
    }
    for AllocPlan { name, sections, .. } in &plan.allocs {
        wait_drained(client, name, *sections, timeout, output).await?;
        if !output.is_json() {
            output.line(format_args!("{name} is drained: {} sections moved", grouped((*sections).into())))?;
        }
    }
    if let Some(leader) = plan.leader {
        let leader = client.transfer(leader, Mode::Make(plan.leader_plan)).await?.leader;
        if !output.is_json() {
            output.line(format_args!("store {leader} leads set {}", plan.set))?;
        }
    }
    Ok(())
}

async fn undrain(args: &UndrainArgs, output: &Output) -> anyhow::Result<Exit> {
    let (host, dry_run) = (args.host.as_str(), args.plan.dry_run);
    let (mut undrained, mut steps, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut clients = args.sets.clients(args.timeout.duration())?;
    for (index, client) in clients.iter_mut().enumerate() {
        let (members, nodes) = (client.list().await?, client.nodes().await?);
        known.extend(hosts(&members, &nodes).into_iter().map(str::to_owned));
        for node in nodes.nodes.iter().filter(|node| host_of(&node.addr) == host && node.drained) {
            let foreseen = client.drain(&node.name, false, &[], Mode::Show).await?;
            steps.push((index, Fingerprint(foreseen.fingerprint)));
            undrained.push(Undrained { set: nodes.set.clone(), node: node.name.clone() });
        }
    }
    check_host(host, &known)?;
    let fingerprints: Vec<Fingerprint> = steps.iter().map(|(_, step)| *step).collect();
    let plan = of_all("host undrain", &fingerprints);
    if !steps.is_empty() {
        args.plan.check(plan)?;
    }
    for ((index, step), Undrained { node, .. }) in steps.iter().zip(&undrained).filter(|_| !dry_run) {
        clients[*index].drain(node, false, &[], Mode::Make(*step)).await?;
    }
    if output.is_json() {
        let mut result = serde_json::json!({ "host": host, "dry_run": dry_run, "undrained": undrained });
        if let Some(digits) = plan::digits(plan) {
            result["plan"] = digits.into();
        }
        output.json(&result)?;
        return Ok(Exit::Ok);
    }
    if undrained.is_empty() {
        output.line(format_args!("nothing to do: no allocator of host {host} is drained"))?;
    }
    let verb = if dry_run { "would" } else { "may" };
    for Undrained { set, node } in &undrained {
        output.line(format_args!("{node} of set {set} {verb} own sections again"))?;
    }
    if dry_run {
        plan::print(plan, output)?;
    }
    Ok(Exit::Ok)
}

/// Returns an error if no node of any set is on the host.
fn check_host(host: &str, known: &BTreeSet<String>) -> anyhow::Result<()> {
    if known.contains(host) {
        return Ok(());
    }
    let known = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(Failure::new(Exit::Usage, format!("no node is on host {host:?}; the nodes are on {known}")).into())
}
