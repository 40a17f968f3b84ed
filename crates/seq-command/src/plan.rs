//! Plans of changes, as commands take and print them.
//!
//! A command requests a dry run first: the store's leader returns what would be done, and a fingerprint of what that
//! rests on. The change is sent with the same fingerprint, and made only if it is still that one.
//!
//! **Invariant:** a change that was shown is the one that is made, or none is: between the dry run and the change
//! another operator may have made one.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use seq_core::plan::Fingerprint;
use seq_proto::Reason;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Which plan a change needs.
#[derive(Clone, Copy, Debug, Args)]
pub struct PlanArgs {
    /// Changes nothing; shows what would be done, and the fingerprint of that plan.
    #[arg(long)]
    pub dry_run: bool,
    /// Makes the change only if its plan has this fingerprint, as a dry run prints it; without a confirmation.
    #[arg(long = "plan", value_name = "FINGERPRINT", conflicts_with = "dry_run")]
    pub required: Option<Fingerprint>,
}

/// Which plan a change needs, and whether it is confirmed.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConfirmedPlanArgs {
    /// Skips the confirmation.
    #[arg(long)]
    yes: bool,
    /// The plan that the change needs.
    #[command(flatten)]
    pub plan: PlanArgs,
}

/// Whether a change without a fingerprint is confirmed, or only shown.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConfirmArgs {
    /// Skips the confirmation.
    #[arg(long)]
    pub yes: bool,
    /// Changes nothing; shows what would be done.
    #[arg(long)]
    pub dry_run: bool,
}

/// How a change is requested.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// As a dry run.
    Show,
    /// To be made, if its plan is this one, or whatever the plan is with [`Fingerprint::NONE`].
    Make(Fingerprint),
}

impl Mode {
    /// The fields `dry_run` and `plan` of a request.
    pub fn fields(self) -> (bool, u64) {
        match self {
            Mode::Show => (true, Fingerprint::NONE.0),
            Mode::Make(plan) => (false, plan.0),
        }
    }
}

impl PlanArgs {
    /// Refuses a plan that is not the required one.
    ///
    /// # Errors
    /// `STALE_PLAN`.
    pub fn check(self, now: Fingerprint) -> Result<(), Failure> {
        let Some(required) = self.required else { return Ok(()) };
        if now == Fingerprint::NONE {
            return Err(no_plans());
        }
        required.check(now).map_err(|stale| {
            Failure::new(Exit::StalePlan, format!("{stale} ({})", Reason::StalePlan))
                .reason(Reason::StalePlan.name())
                .hint("nothing was changed: --dry-run shows the plan as it would be now")
        })
    }
}

impl ConfirmedPlanArgs {
    /// Whether the change is confirmed: by `--yes`, by the plan that it requires, or at a prompt.
    pub fn confirmed(self, what: &str) -> anyhow::Result<bool> {
        Ok(self.yes || self.plan.required.is_some() || confirmed(what)?)
    }
}

impl ConfirmArgs {
    /// Whether the change is made: prints what a dry run would do, prompts without `--yes`.
    pub fn proceeds(self, what: &str, output: &Output) -> anyhow::Result<Result<(), Exit>> {
        if !self.dry_run {
            return Ok(if self.yes || confirmed(what)? { Ok(()) } else { Err(Exit::Declined) });
        }
        print_dry_run(what, None, output)?;
        Ok(Err(Exit::Ok))
    }
}

/// Prints what a change would do, as the whole result of a command.
pub fn print_dry_run(what: &str, plan: Option<Fingerprint>, output: &Output) -> io::Result<()> {
    #[derive(Serialize)]
    struct DryRun<'a> {
        dry_run: bool,
        would: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
    }
    if output.is_json() {
        return output.json(&DryRun { dry_run: true, would: what, plan: plan.and_then(digits) });
    }
    output.line(format_args!("this would {what}"))?;
    plan.map_or(Ok(()), |plan| print(plan, output))
}

/// Prints the fingerprint of a plan below what the plan does. JSON has it as a key.
pub fn print(plan: Fingerprint, output: &Output) -> io::Result<()> {
    match digits(plan) {
        Some(digits) if !output.is_json() => output.line(format_args!("plan: {digits}")),
        _ => Ok(()),
    }
}

/// The key `plan` of a result; none where the store compares no plans.
pub fn digits(plan: Fingerprint) -> Option<String> {
    (plan != Fingerprint::NONE).then(|| plan.to_string())
}

/// Prompts for confirmation; an error where stdin is no terminal.
pub fn confirmed(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let message = format!("this would {what}, and there is no terminal to confirm it on");
        return Err(Failure::new(Exit::Usage, message).hint("pass --yes").into());
    }
    eprint!("{what}? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Prompts for the name of the set, unless it is `given`. An error where it is another one, or where stdin is no
/// terminal.
pub fn confirm_set(set: &str, given: Option<&str>, what: &str) -> anyhow::Result<bool> {
    if let Some(given) = given {
        if given == set {
            return Ok(true);
        }
        let message = format!("--confirm {given:?} is not the name of the set, {set:?}");
        return Err(Failure::new(Exit::Usage, message).hint("nothing was changed").into());
    }
    if !io::stdin().is_terminal() {
        let message = format!("this would {what}, and there is no terminal to confirm it on");
        return Err(Failure::new(Exit::Usage, message).hint(format!("pass --confirm {set}")).into());
    }
    eprint!("to {what}, type the name of the set: ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == set)
}

/// Returns the failure where the release of the leader compares no plans.
pub fn no_plans() -> Failure {
    Failure::new(Exit::Failed, "the leader of the store runs a release that compares no plans")
        .hint("nothing was changed: upgrade the stores, or repeat the command without --dry-run and --plan")
}
