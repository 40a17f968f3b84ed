//! The command `unsafe`: what can lose data or lower a guard. Each command says before what it costs, and is confirmed
//! by the name of the set.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::Subcommand;

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::recover::{self, RecoverArgs};

/// Commands that are confirmed by the name of the set.
#[derive(Debug, Subcommand)]
pub(crate) enum UnsafeCommand {
    /// Makes a backup from what is left of a set that lost the majority of its stores for good.
    Recover(RecoverArgs),
}

pub(crate) fn run(command: &UnsafeCommand, output: &Output) -> anyhow::Result<Exit> {
    match command {
        UnsafeCommand::Recover(args) => recover::run(args, output),
    }
}

/// Prompts for the name of the set, unless it is `given`. An error where it is another one, or where stdin is no
/// terminal.
pub(crate) fn confirm_set(set: &str, given: Option<&str>, what: &str) -> anyhow::Result<bool> {
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
