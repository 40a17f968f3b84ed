//! The command `section balance`, which pauses or resumes balancing in a set, or shows whether balancing is paused.

use clap::{ArgGroup, Args};
use seq_command::exit::Exit;
use seq_command::output::{Output, grouped};
use seq_command::plan::{self, Mode, PlanArgs};
use seq_command::store_client::{SetAddress, TimeoutArgs};
use seq_command::utc;
use seq_core::plan::Fingerprint;
use seq_observe::cluster::Pause;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").args(["pause", "resume"]),
          after_help = "Examples:\n  seqsvr section balance --pause\n  seqsvr section balance --resume\n  seqsvr section balance\n\n\
                        While balancing is paused, other allocators still get the sections of failed and drained ones, and \
                        `seqsvr section move` works. The pause outlasts changes of the store's leader: `seqsvr status` \
                        shows it until it is ended with --resume.\n\n\
                        Exit codes: 0 shown or changed, 1 refused (OLD_FORMAT), 2 a wrong file or address, 3 the store \
                        has no majority, 4 no node responded, 5 the plan is stale and nothing was changed, 7 not done \
                        within --timeout.")]
pub struct BalanceArgs {
    /// Pauses handovers that only even the load, until they are resumed.
    #[arg(long)]
    pause: bool,
    /// Ends a pause.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    target: SetAddress,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

/// The outcome of the command.
#[derive(Serialize)]
struct Outcome<'a> {
    set: &'a str,
    /// Whether balancing is paused at the end of the command.
    paused: bool,
    /// Name of the operator that paused balancing. It is absent if balancing was paused neither before nor after the
    /// command.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_at: Option<String>,
    /// Number of sections that balancing is about to hand over, or will hand over once it is resumed.
    sections: u32,
    dry_run: bool,
    changed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

pub(super) async fn run(args: &BalanceArgs, output: &Output) -> anyhow::Result<Exit> {
    let mut client = args.target.client(args.timeout.duration())?;
    let set = client.nodes().await?.set;
    let changes = args.pause || args.resume;
    let mut shown = client.pause_balancing(args.pause, Mode::Show).await?;
    let (was_paused, plan) = (shown.before.is_some(), Fingerprint(shown.fingerprint));
    let is_made = !changes || was_paused == args.pause;
    let dry_run = args.plan.dry_run;
    if !is_made {
        args.plan.check(plan)?;
        if !dry_run {
            let made = client.pause_balancing(args.pause, Mode::Make(plan)).await?;
            shown.changed = made.changed;
            if args.pause {
                // The state is requested again, because the output must describe the new pause.
                shown.before = client.pause_balancing(true, Mode::Show).await?.before;
            }
        }
    }
    let sections = grouped(shown.sections.into());
    if output.is_json() {
        output.json(&Outcome {
            set: &set,
            paused: if is_made || dry_run { was_paused } else { args.pause },
            paused_by: shown.before.as_ref().map(|pause| pause.principal.as_str()),
            paused_at: shown.before.as_ref().map(|pause| utc::text_of_ms(pause.since_unix_ms)),
            sections: shown.sections,
            dry_run,
            changed: shown.changed,
            plan: plan::digits(plan).filter(|_| !is_made),
        })?;
        return Ok(Exit::Ok);
    }
    let by = shown.before.as_ref().map(|pause| Pause::new(pause).to_string()).unwrap_or_default();
    match (is_made, args.pause, dry_run) {
        (true, ..) if was_paused => {
            output.line(format_args!("balancing of set {set} is {by}; {sections} sections wait"))?;
        }
        (true, ..) => {
            output.line(format_args!("balancing of set {set} is not paused; {sections} sections are to move"))?
        }
        (false, true, true) => {
            output.line(format_args!("balancing of set {set} would be paused; {sections} sections are to move"))?;
        }
        (false, false, true) => {
            output
                .line(format_args!("balancing of set {set}, {by}, would be resumed; {sections} sections would move"))?;
        }
        (false, true, false) => {
            output.line(format_args!("balancing of set {set} is {by}, until `seqsvr section balance --resume`"))?;
        }
        (false, false, false) => {
            output.line(format_args!("balancing of set {set}, {by}, is resumed; {sections} sections are to move"))?;
        }
    }
    plan::print(if is_made || !dry_run { Fingerprint::NONE } else { plan }, output)?;
    Ok(Exit::Ok)
}
