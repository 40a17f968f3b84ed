//! Plans of changes. This module has the arguments by which a command requests or requires a plan, the prompts for
//! confirmation, and the output of plans.
//!
//! A command first requests a dry run of the change. The leader of the store returns the effects of the change, and a
//! fingerprint of the state on which the plan rests. The command then requests the change with this fingerprint. The
//! leader makes the change only if the state still has this fingerprint.
//!
//! **Invariant:** the leader makes only the change that the user saw. If the state has changed between the dry run and
//! the request, for example because of another operator, the leader makes no change.

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

/// The arguments of a change that has no fingerprint, by which the user confirms the change or requests a dry run.
#[derive(Clone, Copy, Debug, Args)]
pub struct ConfirmArgs {
    /// Skips the confirmation.
    #[arg(long)]
    pub yes: bool,
    /// Changes nothing; shows the effects of the change.
    #[arg(long)]
    pub dry_run: bool,
}

/// Choice between a dry run and the change itself.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// A dry run.
    Show,
    /// The change, which the leader makes only if the plan still has this fingerprint. [`Fingerprint::NONE`] allows any
    /// plan.
    Make(Fingerprint),
}

impl Mode {
    /// Returns the values of a request's fields `dry_run` and `plan`, in this order.
    pub fn fields(self) -> (bool, u64) {
        match self {
            Mode::Show => (true, Fingerprint::NONE.0),
            Mode::Make(plan) => (false, plan.0),
        }
    }
}

impl PlanArgs {
    /// Checks that the plan's present fingerprint `now` equals the fingerprint that the user requires, if any.
    ///
    /// # Errors
    /// `STALE_PLAN` if the fingerprints differ, or another error if the store's release has no fingerprints.
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
    /// Returns whether the user confirms the change, which `what` describes. `--yes` and `--plan` confirm it; without
    /// them, the user is prompted.
    pub fn confirmed(self, what: &str) -> anyhow::Result<bool> {
        Ok(self.yes || self.plan.required.is_some() || confirmed(what)?)
    }

    /// Returns whether the user confirms a change that cannot be undone, as [`ConfirmedPlanArgs::confirmed`] does. But
    /// at the prompt the user must type `name`, the name of the object that the change affects. `thing` is the kind of
    /// the object, for example `series`.
    pub fn typed(self, thing: &str, name: &str, what: &str) -> anyhow::Result<bool> {
        Ok(self.yes || self.plan.required.is_some() || typed(thing, name, what, "pass --yes")?)
    }
}

impl ConfirmArgs {
    /// Returns `Ok` if the command is to make the change that `what` describes, and otherwise the command's exit code.
    /// For a dry run it prints the effects and returns the exit code. Without `--yes`, it prompts the user for
    /// confirmation.
    pub fn proceeds(self, what: &str, output: &Output) -> anyhow::Result<Result<(), Exit>> {
        if !self.dry_run {
            return Ok(if self.yes || confirmed(what)? { Ok(()) } else { Err(Exit::Declined) });
        }
        print_dry_run(what, None, output)?;
        Ok(Err(Exit::Ok))
    }
}

/// Prints the effects that a change would have, which `what` describes, and the fingerprint of its plan. They are the
/// whole output of a command that only makes a dry run.
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

/// Prints the fingerprint of a plan on a line of its own. It prints nothing if the command prints JSON, because the
/// JSON object has a key for the fingerprint.
pub fn print(plan: Fingerprint, output: &Output) -> io::Result<()> {
    match digits(plan) {
        Some(digits) if !output.is_json() => output.line(format_args!("plan: {digits}")),
        _ => Ok(()),
    }
}

/// Returns the fingerprint in the form of the key `plan` in JSON. Returns `None` if the store's release has no
/// fingerprints.
pub fn digits(plan: Fingerprint) -> Option<String> {
    (plan != Fingerprint::NONE).then(|| plan.to_string())
}

/// Prompts the user to confirm the change that `what` describes, and returns whether the user does.
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

/// Prompts the user to type the name of the set to which a change applies, and returns whether the typed name is
/// correct. If a flag already gave the name, `given` has it, and there is no prompt.
///
/// # Errors
/// `given` is not the name of the set; or there is no given name, and stdin is not a terminal.
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

/// Prompts the user to type `name`, the name of the object that a change affects, and returns whether the typed name is
/// correct. `thing` is the kind of the object.
///
/// # Errors
/// Stdin is not a terminal. The error contains `hint`, which names the flag that replaces the prompt.
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

/// Returns the failure of a command that requests or requires a plan, if the release of the store's leader has no
/// fingerprints of plans.
pub fn no_plans() -> Failure {
    Failure::new(Exit::Failed, "the leader of the store runs a release that compares no plans")
        .hint("nothing was changed: upgrade the stores, or repeat the command without --dry-run and --plan")
}
