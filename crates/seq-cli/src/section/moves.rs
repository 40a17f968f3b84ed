//! The command `section move`, which hands sections over to an AllocSvr that the operator names.
//!
//! A move is part of the replicated state of the set, so it continues after the command has ended. If the user repeats
//! the command, it shows the progress of the move.

use std::time::{Duration, Instant};

use clap::{ArgGroup, Args};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, Table, grouped};
use seq_command::plan::{self, ConfirmedPlanArgs, Mode};
use seq_command::signals::Interrupts;
use seq_command::store_client::{SetAddress, StoreClient};
use seq_command::time_limit::time;
use seq_core::limits;
use seq_core::plan::Fingerprint;
use seq_proto::v1::MovedSection;
use serde::Serialize;

/// Interval between requests for the progress of a move.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("where").required(true).args(["to", "balanced"]),
          after_help = "Examples:\n  seqsvr section move 3 7 --to a2 --dry-run\n  \
                        seqsvr section move 3 7 --to a2 --wait\n  \
                        seqsvr section move 3 --to a2 --yes --wait -o json    (in scripts)\n  \
                        seqsvr section move 3 7 --balanced    (lets balancing place them again)\n\n\
                        The sections stay at the allocator for as long as it can own them. If it fails or is drained, \
                        other allocators own them, and the sections return when it does. Requests are served throughout, \
                        and no number is skipped. `seqsvr section list` shows the moved sections.\n\n\
                        Exit codes: 0 the move is recorded, with --wait the allocator owns the sections, 1 refused (UNFIT_TARGET, \
                        NOT_RESIDENT, OLD_FORMAT), 2 a wrong section, file or address, or no terminal to confirm on, 3 \
                        the store has no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 6 \
                        declined, 7 still under way after --timeout, 130 interrupted.")]
pub struct MoveArgs {
    /// Indexes of the sections, all in the set.
    #[arg(value_name = "SECTION", required = true, num_args = 1..=limits::MAX_MOVED)]
    sections: Vec<u32>,
    /// Name of the allocator that is to own them.
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    /// Ends earlier moves of the sections, so that balancing places them again.
    #[arg(long)]
    balanced: bool,
    /// Watches until the allocator owns all of them.
    #[arg(long, conflicts_with = "balanced")]
    wait: bool,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    confirm: ConfirmedPlanArgs,
    /// Time limit, with --wait until the allocator owns all sections.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    timeout: Duration,
}

/// The outcome of the command.
#[derive(Serialize)]
struct Outcome<'a> {
    set: &'a str,
    /// Name of the AllocSvr to which the sections are moved. It is absent with `--balanced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    dry_run: bool,
    changed: bool,
    /// The sections, with their owners before the move.
    sections: Vec<SectionOutcome<'a>>,
    /// Number of the named sections that `to` does not own yet when the command ends.
    to_move: usize,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

#[derive(Serialize)]
struct SectionOutcome<'a> {
    section: u32,
    owner: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    moved_to: &'a str,
}

impl MoveArgs {
    fn node(&self) -> &str {
        self.to.as_deref().unwrap_or_default()
    }

    /// Returns the number of the sections in `sections` that the AllocSvr `--to` does not own.
    fn elsewhere(&self, sections: &[MovedSection]) -> usize {
        let is_elsewhere = |section: &&MovedSection| self.to.as_ref().is_some_and(|to| section.owner != *to);
        sections.iter().filter(is_elsewhere).count()
    }
}

pub(super) async fn run(args: &MoveArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout)?;
    let set = client.nodes().await?.set;
    // The dry run is requested first, so that a refusal comes before the prompt for confirmation.
    let foreseen = client.move_sections(&args.sections, args.node(), Mode::Show).await?;
    let plan = Fingerprint(foreseen.fingerprint);
    let is_made = foreseen.sections.iter().all(|section| section.moved_to == args.node());
    let dry_run = args.confirm.plan.dry_run;
    if !output.is_json() && !is_made {
        output.table(&table(&foreseen.sections, args.node()))?;
        plan::print(plan, output)?;
    }
    if !is_made {
        args.confirm.plan.check(plan)?;
    }
    let (mut changed, mut to_move, since) = (false, args.elsewhere(&foreseen.sections), Instant::now());
    if !dry_run && !is_made {
        let count = foreseen.sections.len();
        let what = match &args.to {
            Some(to) => format!("move {count} sections of set {set} to {to}"),
            None => format!("have {count} sections of set {set} balanced again"),
        };
        if !args.confirm.confirmed(&what)? {
            return Ok(Exit::Declined);
        }
        client.restart_time();
        changed = client.move_sections(&args.sections, args.node(), Mode::Make(plan)).await?.changed;
    }
    if args.wait && !dry_run && to_move > 0 {
        wait(args, &mut client, to_move, output).await?;
        to_move = 0;
    }
    let seconds = since.elapsed().as_secs_f64();
    if output.is_json() {
        let section = |one: &'_ MovedSection| (one.section, one.owner.clone(), one.moved_to.clone());
        let before: Vec<_> = foreseen.sections.iter().map(section).collect();
        let sections =
            before.iter().map(|(section, owner, moved_to)| SectionOutcome { section: *section, owner, moved_to });
        output.json(&Outcome {
            set: &set,
            to: args.to.as_deref(),
            dry_run,
            changed,
            sections: sections.collect(),
            to_move,
            seconds,
            plan: plan::digits(plan).filter(|_| !is_made),
        })?;
    } else if !dry_run {
        output.line(summary(args, is_made, to_move, seconds))?;
    } else if is_made {
        output.line("nothing to do: all of them are moved there")?;
    }
    Ok(Exit::Ok)
}

fn summary(args: &MoveArgs, is_made: bool, to_move: usize, seconds: f64) -> String {
    let count = grouped(args.sections.len() as u64);
    match &args.to {
        None if is_made => "nothing to do: balancing places all of them".to_owned(),
        None => format!("balancing places {count} sections again"),
        Some(to) if to_move == 0 && is_made && !args.wait => format!("nothing to do: {to} owns all of them"),
        Some(to) if to_move == 0 => format!("{to} owns all {count} sections after {seconds:.1} s"),
        Some(to) => format!(
            "{} sections are handed over to {to}: --wait, or `seqsvr section list`, shows it",
            grouped(to_move as u64)
        ),
    }
}

fn table(sections: &[MovedSection], to: &str) -> Table {
    let mut table = Table::new(&["section", "owner", "moved before", "to"]);
    let or = |name: &str, other: &str| if name.is_empty() { other.to_owned() } else { name.to_owned() };
    for section in sections {
        let number = grouped(section.section.into());
        table.row([number, or(&section.owner, "-"), or(&section.moved_to, "-"), or(to, "balanced")]);
    }
    table
}

/// Waits until the AllocSvr `--to` owns all named sections. Draws a progress bar if stderr is a terminal.
async fn wait(args: &MoveArgs, client: &mut StoreClient, to_move: usize, output: &Output) -> anyhow::Result<()> {
    let bar = output.progress_bar(to_move as u64, "{pos}/{len} sections  ETA {eta}  (Ctrl-C detaches)");
    let mut interrupts = Interrupts::new()?;
    let since = Instant::now();
    let hint = "the move continues at the store: repeat the command to watch it, or end it with --balanced";
    loop {
        let sections = client.move_sections(&args.sections, args.node(), Mode::Show).await?.sections;
        let left = args.elsewhere(&sections);
        bar.set_position(to_move.saturating_sub(left) as u64);
        if left == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
        if since.elapsed() > args.timeout {
            bar.finish_and_clear();
            let message = format!("{} does not own {left} of the sections after {:?}", args.node(), args.timeout);
            return Err(Failure::new(Exit::Deadline, message).hint(hint).into());
        }
        tokio::select! {
            _ = interrupts.next() => {
                bar.finish_and_clear();
                return Err(Failure::new(Exit::Interrupted, "detached: the move continues at the store").hint(hint).into());
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}
