//! The command `node`, which lists, drains and undrains the allocators of a set.
//!
//! A drain is part of the replicated state of the set, so it continues after the command has ended. If the user repeats
//! the command, it shows the progress of the drain.

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, grouped};
use seq_command::plan::{self, ConfirmedPlanArgs, Mode, PlanArgs};
use seq_command::signals::Interrupts;
use seq_command::store_client::{SetAddress, StoreClient, TimeoutArgs};
use seq_command::time_limit::time;
use seq_core::plan::Fingerprint;
use seq_observe::alloc_state::AllocState;
use seq_proto::v1::{ListNodesResponse, NodeState};
use serde::Serialize;

/// Interval between requests for the progress of a drain.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The commands for the allocators of a set.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Lists the allocators as the store sees them.
    #[command(after_help = "Example:\n  seqsvr node list --set sets/three-node.toml\n\n\
                            Exit codes: 0 listed, 2 a wrong file or address, 3 the store has no majority, 4 no node \
                            responded, 7 not done within --timeout.")]
    List(ListArgs),
    /// Hands over all sections of an allocator while requests are served; it gets no sections until it is undrained.
    Drain(DrainArgs),
    /// Lets a drained allocator own sections again; it gets its share back by planned handovers.
    Undrain(UndrainArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr node drain a2\n  seqsvr node drain a2 --dry-run\n  \
                        seqsvr node drain a2 --plan 9f3c0a77d1e25b48    (as the dry run printed it)\n  \
                        seqsvr node drain a2 --yes -o json    (in scripts)\n\n\
                        If interrupted, the drain continues at the store; repeating the command shows its progress.\n\n\
                        Exit codes: 0 drained, 1 refused (LAST_NODE), 2 no terminal to confirm on, 3 the store has no \
                        majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 declined, 7 still under way after --timeout, 130 interrupted.")]
pub struct DrainArgs {
    /// Name of the allocator.
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    /// Time limit until the allocator owns no section.
    #[arg(long, value_name = "TIME", alias = "timeout-s", default_value = "10m", value_parser = time)]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr node undrain a2\n  seqsvr node undrain a2 --dry-run\n\n\
                        Exit codes: 0 the allocator may own sections, 1 refused, 2 a wrong file or address, 3 the store has no \
                        majority, 4 no node responded, 5 the plan is stale and nothing was changed, 7 not done within --timeout.")]
pub struct UndrainArgs {
    /// Name of the allocator.
    #[arg(value_name = "NODE")]
    node: String,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the command `drain` or `undrain`.
#[derive(Serialize)]
struct Outcome<'a> {
    set: &'a str,
    node: &'a str,
    drained: bool,
    dry_run: bool,
    changed: bool,
    /// Number of sections that the command handed over, or would hand over if there were no `--dry-run`.
    sections: u32,
    seconds: f64,
    /// Fingerprint of the plan of this change. It is absent if there was nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub fn run(command: NodeCommand, output: &Output) -> anyhow::Result<Exit> {
    seq_command::client_runtime()?.block_on(async {
        match command {
            NodeCommand::List(args) => list(&args, output).await,
            NodeCommand::Drain(args) => drain(&args, output).await,
            NodeCommand::Undrain(args) => undrain(&args, output).await,
        }
    })
}

async fn list(args: &ListArgs, output: &Output) -> anyhow::Result<Exit> {
    let list = args.target.client(args.timeout.duration())?.nodes().await?;
    if output.is_json() {
        output.json(&View::new(&list))?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["node", "addr", "sections", "to move", "state"]).right(&[2, 3]);
    for node in &list.nodes {
        let (sections, to_move) = (grouped(node.sections.into()), grouped(node.to_move.into()));
        table.row([node.name.clone(), node.addr.clone(), sections, to_move, state(node).name().to_owned()]);
    }
    output.table(&table)?;
    if list.unowned > 0 {
        output.line(format_args!("{} sections have no owner", grouped(list.unowned.into())))?;
    }
    Ok(Exit::Ok)
}

async fn drain(args: &DrainArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout)?;
    let list = client.nodes().await?;
    let (set, node) = (list.set, args.node.as_str());
    let was_drained = list.nodes.iter().any(|state| state.name == node && state.drained);
    // The dry run is requested first, so that a refusal comes before the prompt for confirmation.
    let foreseen = client.drain(node, true, &[], Mode::Show).await?;
    let (sections, plan) = (foreseen.sections, Fingerprint(foreseen.fingerprint));
    let dry_run = args.confirm.plan.dry_run;
    let outcome = |changed, seconds| Outcome {
        set: &set,
        node,
        drained: true,
        dry_run,
        changed,
        sections,
        seconds,
        plan: plan::digits(plan).filter(|_| !was_drained),
    };
    if was_drained && sections == 0 {
        if output.is_json() {
            output.json(&outcome(false, 0.0))?;
        } else {
            output.line(format_args!("nothing to do: {node} is drained"))?;
        }
        return Ok(Exit::Ok);
    }
    // A drain that is already in progress is only watched.
    if !output.is_json() && (dry_run || !was_drained) {
        output
            .line(format_args!("{} sections of set {set} would be moved away from {node}", grouped(sections.into())))?;
        plan::print(if was_drained { Fingerprint::NONE } else { plan }, output)?;
    }
    if !was_drained {
        args.confirm.plan.check(plan)?;
    }
    if dry_run {
        if output.is_json() {
            output.json(&outcome(false, 0.0))?;
        }
        return Ok(Exit::Ok);
    }
    if !was_drained && !args.confirm.confirmed(&format!("move {sections} sections of set {set} away from {node}"))? {
        return Ok(Exit::Declined);
    }
    client.restart_time();
    let since = Instant::now();
    let changed = client.drain(node, true, &[], Mode::Make(plan)).await?.changed;
    wait_drained(&mut client, node, sections, args.timeout, output).await?;
    let seconds = since.elapsed().as_secs_f64();
    if output.is_json() {
        output.json(&outcome(changed, seconds))?;
    } else {
        output
            .line(format_args!("{node} is drained: {} sections moved in {seconds:.1} s", grouped(sections.into())))?;
    }
    Ok(Exit::Ok)
}

async fn undrain(args: &UndrainArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let list = client.nodes().await?;
    let (node, dry_run) = (args.node.as_str(), args.plan.dry_run);
    let is_drained = list.nodes.iter().any(|state| state.name == node && state.drained);
    let foreseen = client.drain(node, false, &[], Mode::Show).await?;
    let plan = Fingerprint(foreseen.fingerprint);
    if is_drained {
        args.plan.check(plan)?;
    }
    let made = match is_drained && !dry_run {
        true => client.drain(node, false, &[], Mode::Make(plan)).await?,
        false => foreseen,
    };
    if output.is_json() {
        let (set, changed, sections) = (list.set.as_str(), made.changed, made.sections);
        let plan = plan::digits(plan).filter(|_| is_drained);
        output.json(&Outcome { set, node, drained: false, dry_run, changed, sections, seconds: 0.0, plan })?;
    } else if is_drained && dry_run {
        output.line(format_args!("{node} would own sections again"))?;
        plan::print(plan, output)?;
    } else if made.changed {
        output.line(format_args!("{node} may own sections again; it gets its share by planned handovers"))?;
    } else {
        output.line(format_args!("nothing to do: {node} is not drained"))?;
    }
    Ok(Exit::Ok)
}

/// Waits until the AllocSvr `node` owns no section. Draws a progress bar if stderr is a terminal.
pub(crate) async fn wait_drained(
    client: &mut StoreClient,
    node: &str,
    sections: u32,
    timeout: Duration,
    output: &Output,
) -> anyhow::Result<()> {
    let bar = output.progress_bar(sections.into(), "{pos}/{len} sections  {per_sec:0}  ETA {eta}  (Ctrl-C detaches)");
    let mut interrupts = Interrupts::new()?;
    let since = Instant::now();
    loop {
        let list = client.nodes().await?;
        let left = list.nodes.iter().find(|state| state.name == node).map_or(0, |state| state.sections);
        bar.set_position(u64::from(sections.saturating_sub(left)));
        if left == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
        if since.elapsed() > timeout {
            bar.finish_and_clear();
            let message = format!("{node} still owns {left} sections after {timeout:?}");
            let hint = "the drain continues at the store: repeat the command to watch it, or cancel it with `seqsvr node undrain`";
            return Err(Failure::new(Exit::Deadline, message).hint(hint).into());
        }
        tokio::select! {
            _ = interrupts.next() => {
                bar.finish_and_clear();
                let message = format!("detached: the drain of {node} continues at the store");
                let hint = "repeat the command to watch it, or cancel it with `seqsvr node undrain`";
                return Err(Failure::new(Exit::Interrupted, message).hint(hint).into());
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

fn state(node: &NodeState) -> AllocState {
    let NodeState { living, drained, leaving, sections, .. } = *node;
    if living {
        AllocState::of_live(drained, leaving, sections)
    } else {
        AllocState::of_silent(drained, leaving, sections)
    }
}

#[derive(Serialize)]
struct View<'a> {
    set: &'a str,
    unowned: u32,
    nodes: Vec<NodeView<'a>>,
}

#[derive(Serialize)]
struct NodeView<'a> {
    id: u32,
    name: &'a str,
    addr: &'a str,
    incarnation: u64,
    sections: u32,
    to_move: u32,
    state: AllocState,
    drained: bool,
}

impl<'a> View<'a> {
    fn new(list: &'a ListNodesResponse) -> View<'a> {
        let node = |node: &'a NodeState| NodeView {
            id: node.id,
            name: &node.name,
            addr: &node.addr,
            incarnation: node.incarnation,
            sections: node.sections,
            to_move: node.to_move,
            state: state(node),
            drained: node.drained,
        };
        View { set: &list.set, unowned: list.unowned, nodes: list.nodes.iter().map(node).collect() }
    }
}
