//! Exit codes, and errors that have an exit code.

use std::fmt;
use std::process::ExitCode;

use seq_load::outcome::without_os_error;
use seq_proto::Reason;
use serde::Serialize;

use crate::output::{Color, Output, heading, note};

/// A problem in a set file or in the settings, as JSON. The file and the line of a problem in the settings are only in
/// `text`.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemView {
    /// Path of the set file. It is `None` for settings, whose `text` names their file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Key of the value with the problem, such as `alloc[1].addr`. The index in the key is the position of the list
    /// entry in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The description of the problem, without file, line and key.
    pub what: String,
    /// The whole message, as plain output prints it.
    pub text: String,
}

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Ok = 0,
    /// The command failed, or a check did not hold.
    Failed = 1,
    /// The command line or a file is wrong; nothing was changed.
    Usage = 2,
    /// A node responded, but is unhealthy.
    Unhealthy = 3,
    /// No node responded.
    CannotConnect = 4,
    /// The state on which a plan rests has changed since the plan was made, so the command changed nothing.
    StalePlan = 5,
    /// The user declined.
    Declined = 6,
    /// The deadline of the command passed. The server may still complete the change.
    Deadline = 7,
    /// Some items succeeded, and some failed.
    Partial = 8,
    /// The configuration of a server is wrong, so the server opened no socket. The code differs from [`Exit::Usage`] so
    /// that a supervisor can be configured not to restart the server.
    Config = 64,
    /// The member of the store was removed and its id is retired, so its process must not be started again.
    Removed = 65,
    /// Another process registered under the name of this AllocSvr and serves in its place.
    Evicted = 66,
    /// Ctrl-C ended a measurement early. A shell reports the same code for a program that SIGINT ended.
    Interrupted = 130,
}

impl Exit {
    /// All exit codes, in the order of the documentation.
    pub const ALL: [Exit; 13] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::Unhealthy,
        Exit::CannotConnect,
        Exit::StalePlan,
        Exit::Declined,
        Exit::Deadline,
        Exit::Partial,
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

/// An error of a command, with an exit code and a hint. If a server refused a request, the error also has the reason of
/// the refusal.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    reason: Option<String>,
    /// All problems of the wrong files.
    problems: Vec<ProblemView>,
    /// Whether the result that the command printed as JSON already states the error.
    in_result: bool,
}

impl Failure {
    /// Creates a failure without a hint. `message` is a fragment of a sentence that starts in lower case.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), hint: None, reason: None, problems: Vec::new(), in_result: false }
    }

    /// Returns the exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns whether the failure is a refusal with this reason.
    pub fn is(&self, reason: Reason) -> bool {
        self.reason.as_deref() == Some(reason.name())
    }

    /// Replaces the exit code.
    pub fn ending(mut self, exit: Exit) -> Failure {
        self.exit = exit;
        self
    }

    /// Marks the failure as stated in the result that the command has printed. No separate JSON object is then printed
    /// for the failure.
    pub fn in_result(mut self) -> Failure {
        self.in_result = true;
        self
    }

    /// Sets the reason of a refusal, in capitals as in `docs/reference/reasons.md`. The message of the failure must
    /// contain the reason too.
    pub fn reason(mut self, reason: impl Into<String>) -> Failure {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the list of problems for output as JSON. The message of the failure contains the same problems as text.
    pub fn problems(mut self, problems: Vec<ProblemView>) -> Failure {
        self.problems = problems;
        self
    }

    /// Adds a hint, which names the next step that the user can take.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
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

/// Prints an error with its causes on one line of stderr, and its hint on the next line. If the command prints JSON,
/// the function also prints the error as one JSON object. Returns the exit code.
pub fn report(error: &anyhow::Error, output: &Output) -> Exit {
    // An I/O error that is no cause of another error is a failure to write to stdout.
    let stdout = error.downcast_ref::<std::io::Error>();
    if stdout.is_some_and(|stdout| stdout.kind() == std::io::ErrorKind::BrokenPipe) {
        // The reader of the pipe has exited early, which is no error, because `head` does so.
        return Exit::Ok;
    }
    if stdout.is_none() {
        print_json(error, output);
    }
    report_error(&without_os_error(&format!("{error:#}")));
    let Some(failure) = error.downcast_ref::<Failure>() else { return Exit::Failed };
    if let Some(hint) = &failure.hint {
        note(format_args!("{} {hint}", heading("hint:", Color::Green)));
    }
    failure.exit
}

/// The JSON object of an error.
#[derive(Serialize)]
struct ErrorView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Problems in set files or settings. It is empty for all other errors.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: &'a [ProblemView],
    exit: u8,
}

/// Prints the error of a command as one JSON object with the key `error`, if the command prints JSON. The object
/// follows the result of the command, if the command has printed a result. It is omitted if this result already states
/// the error.
pub fn print_json(error: &anyhow::Error, output: &Output) {
    #[derive(Serialize)]
    struct Refused<'a> {
        error: ErrorView<'a>,
    }
    let failure = error.downcast_ref::<Failure>();
    if !output.is_json() || failure.is_some_and(|failure| failure.in_result) {
        return;
    }
    let error = ErrorView {
        reason: failure.and_then(|failure| failure.reason.as_deref()),
        message: without_os_error(&format!("{error:#}")),
        hint: failure.and_then(|failure| failure.hint.as_deref()),
        problems: failure.map_or(&[], |failure| &failure.problems),
        exit: failure.map_or(Exit::Failed, Failure::exit) as u8,
    };
    // The result is ignored, because even if stdout is closed, the error on stderr and the exit code must follow.
    let _ = output.json(&Refused { error });
}

/// Prints an error in the style of clap's errors.
pub fn report_error(error: &dyn fmt::Display) {
    note(format_args!("{} {error}", heading("error:", Color::Red)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented() {
        let docs = include_str!("../../../docs/operations/nodes.md");
        for exit in Exit::ALL {
            let code = exit as u8;
            assert!(docs.contains(&format!("\n| {code} |")), "{exit:?}, {code}, is not in docs/operations/nodes.md");
        }
    }
}
