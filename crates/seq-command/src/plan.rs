//! Plans of changes, with their arguments, confirmations and output.
//!
//! A command first requests a dry run. The store's leader returns the effects of the change, and a fingerprint of its
//! preconditions. The command then sends the change with this fingerprint, and the leader makes the change only if its
//! preconditions still have this fingerprint.
//!
//! **Invariant:** the change that is made is the change that was shown. If the state was changed between the dry run
//! and the request, for example by another operator, no change is made.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Args;
use seq_core::plan::Fingerprint;
use seq_proto::Reason;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::Output;

/// The plan that a change requires.
#[derive(Clone, Copy, Debug, Args)]
pub struct PlanArgs {
    /// Changes nothing; shows the plan of the change and its fingerprint.
    #[arg(long)]
    pub dry_run: bool,
    /// Makes the change without a confirmation, but only if its plan has this fingerprint, which a dry run prints.
    #[arg(long = "plan", value_name = "FINGERPRINT", conflicts_with = "dry_run")]
    pub required: Option<Fingerprint>,
}

/// The plan that a change requires, and its confirmation.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConfirmedPlanArgs {
    /// Skips the confirmation.
    #[arg(long)]
    yes: bool,
    /// The plan that the change requires.
    #[command(flatten)]
    pub plan: PlanArgs,
}

/// The confirmation or the dry run of a change that has no fingerprint.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConfirmArgs {
    /// Skips the confirmation.
    #[arg(long)]
    pub yes: bool,
    /// Changes nothing; shows the effects of the change.
    #[arg(long)]
    pub dry_run: bool,
}

/// The form of the request for a change.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// A dry run.
    Show,
    /// A change that is made only if its plan has this fingerprint. [`Fingerprint::NONE`] allows any plan.
    Make(Fingerprint),
}

impl Mode {
    /// Returns the values of the fields `dry_run` and `plan` for a request.
    pub fn fields(self) -> (bool, u64) {
        match self {
            Mode::Show => (true, Fingerprint::NONE.0),
            Mode::Make(plan) => (false, plan.0),
        }
    }
}

impl PlanArgs {
    /// Checks that the fingerprint `now` of a plan is the required fingerprint, if a fingerprint is required.
    ///
    /// # Errors
    /// `STALE_PLAN` if the fingerprint differs, or an error if the store compares no plans.
    pub fn check(self, now: Fingerprint) -> Result<(), Failure> {
        let Some(required) = self.required else { return Ok(()) };
        if now == Fingerprint::NONE {
            return Err(no_plans());
        }
        required.check(now).map_err(|stale| {
            Failure::new(Exit::StalePlan, format!("{stale} ({})", Reason::StalePlan))
                .reason(Reason::StalePlan.name())
                .hint("nothing was changed: --dry-run shows the present plan")
        })
    }
}

impl ConfirmedPlanArgs {
    /// Returns whether the change is confirmed. `--yes` and `--plan` confirm it; without them, the user is prompted.
    pub fn confirmed(self, what: &str) -> anyhow::Result<bool> {
        Ok(self.yes || self.plan.required.is_some() || confirmed(what)?)
    }

    /// Returns whether a change that cannot be undone is confirmed, as [`ConfirmedPlanArgs::confirmed`] does, but with
    /// a prompt at which the user must type `name`, the name of the changed thing. `thing` is the kind of the thing,
    /// for example `series`.
    pub fn typed(self, thing: &str, name: &str, what: &str) -> anyhow::Result<bool> {
        Ok(self.yes || self.plan.required.is_some() || typed(thing, name, what, "pass --yes")?)
    }
}

impl ConfirmArgs {
    /// Returns `Ok` if the change is to be made, and otherwise the exit code of the command. A dry run prints the
    /// effects and makes no change. Without `--yes`, the user is prompted.
    pub fn proceeds(self, what: &str, output: &Output) -> anyhow::Result<Result<(), Exit>> {
        if !self.dry_run {
            return Ok(if self.yes || confirmed(what)? { Ok(()) } else { Err(Exit::Declined) });
        }
        print_dry_run(what, None, output)?;
        Ok(Err(Exit::Ok))
    }
}

/// Prints the effects of a dry run as the whole result of a command.
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

/// Prints the fingerprint of a plan on a line of its own. It prints nothing for JSON, which has the fingerprint under a
/// key.
pub fn print(plan: Fingerprint, output: &Output) -> io::Result<()> {
    match digits(plan) {
        Some(digits) if !output.is_json() => output.line(format_args!("plan: {digits}")),
        _ => Ok(()),
    }
}

/// Returns the value of the key `plan` of a result; `None` if the store compares no plans.
pub fn digits(plan: Fingerprint) -> Option<String> {
    (plan != Fingerprint::NONE).then(|| plan.to_string())
}

/// Prompts for confirmation.
///
/// # Errors
/// Stdin is not a terminal.
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

/// Prompts for the name of the set, and returns whether it is correct. There is no prompt if the name is `given` by a
/// flag.
///
/// # Errors
/// The given name is not the name of the set; or no name is given, and stdin is not a terminal.
pub fn confirm_set(set: &str, given: Option<&str>, what: &str) -> anyhow::Result<bool> {
    if let Some(given) = given {
        if given == set {
            return Ok(true);
        }
        let message = format!("--confirm {given:?} is not the name of the set, {set:?}");
        return Err(Failure::new(Exit::Usage, message).hint("nothing was changed").into());
    }
    typed("set", set, what, &format!("pass --confirm {set}"))
}

/// Prompts for the name of a thing, and returns whether it is correct.
///
/// # Errors
/// Stdin is not a terminal. The error has `hint`, which names the flag to use instead.
fn typed(thing: &str, name: &str, what: &str, hint: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        let message = format!("this would {what}, and there is no terminal to confirm it on");
        return Err(Failure::new(Exit::Usage, message).hint(hint).into());
    }
    eprint!("to {what}, type the name of the {thing}: ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == name)
}

/// Returns the failure of a command with a plan at a leader whose release compares no plans.
pub fn no_plans() -> Failure {
    Failure::new(Exit::Failed, "the leader of the store runs a release that compares no plans")
        .hint("nothing was changed: upgrade the stores, or repeat the command without --dry-run and --plan")
}
