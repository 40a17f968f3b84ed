//! How a command ends: the exit codes, and errors that carry one.

use std::fmt;
use std::process::ExitCode;

use crate::output::{Color, heading, note};

/// The outcome of a command, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// Not done, or a check did not hold.
    Failed = 1,
    /// The command line or a file is wrong; nothing was changed.
    Usage = 2,
    /// Something answered and is not well.
    Unhealthy = 3,
    /// Nothing answered.
    CannotConnect = 4,
    /// Some of what was asked for was done, and some was not.
    Partial = 5,
    /// The user declined.
    Declined = 6,
    /// The time was over; the work may go on at the server.
    Deadline = 7,
    /// A server's configuration is wrong; no socket was opened. Another code than [`Exit::Usage`], so that a supervisor
    /// can tell "do not start it again".
    Config = 64,
    /// A member of a store was removed from it, and its id is used up: it must not be started again.
    Removed = 65,
    /// Another process took over the name of this AllocSvr and serves in its place.
    Evicted = 66,
    /// Ctrl-C ended a measurement early, as a shell reports a process that SIGINT ended.
    Interrupted = 130,
}

impl Exit {
    /// Every outcome, as the documentation lists them.
    #[cfg(test)]
    const ALL: [Exit; 12] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::Unhealthy,
        Exit::CannotConnect,
        Exit::Partial,
        Exit::Declined,
        Exit::Deadline,
        Exit::Config,
        Exit::Removed,
        Exit::Evicted,
        Exit::Interrupted,
    ];
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that knows its exit code and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a hint. The message is a fragment that starts in lower case.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None }
    }

    /// The same with another exit code.
    pub(crate) fn ending(mut self, exit: Exit) -> Failure {
        self.exit = exit;
        self
    }

    /// Adds what the user can do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Prints an error with its causes on one line, its hint on the next, and answers the exit code.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    // Only stdout fails with an I/O error that nothing was said about.
    let stdout = error.downcast_ref::<std::io::Error>();
    if stdout.is_some_and(|stdout| stdout.kind() == std::io::ErrorKind::BrokenPipe) {
        // The reader has seen enough, as `head` has.
        return Exit::Ok;
    }
    report_error(&format_args!("{error:#}"));
    let Some(failure) = error.downcast_ref::<Failure>() else { return Exit::Failed };
    if let Some(hint) = &failure.hint {
        note(format_args!("{} {hint}", heading("hint:", Color::Green)));
    }
    failure.exit
}

/// Prints an error beside others, in the style of those that the command line's own checks print.
pub(crate) fn report_error(error: &dyn fmt::Display) {
    note(format_args!("{} {error}", heading("error:", Color::Red)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented() {
        let docs = include_str!("../../../docs/operations.md");
        let help = crate::cli::EXIT_CODES.replace('\n', " ");
        for exit in Exit::ALL {
            let code = exit as u8;
            assert!(docs.contains(&format!("\n| {code} |")), "{exit:?}, {code}, is not in docs/operations.md");
            let is_listed = help.split([' ', ',']).any(|word| word == code.to_string());
            assert!(is_listed, "{exit:?}, {code}, is not in the help");
        }
    }
}
