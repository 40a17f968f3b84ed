//! Functions that decide whether a finding of the command `doctor` is a warning or a problem. They read nothing but
//! their arguments.

use std::fmt::Display;

use seq_command::output::grouped;
use serde::Serialize;

/// Remaining validity of a certificate, in days, below which the finding is a warning.
const CERTIFICATE_DAYS: u64 = 14;

/// Limits on open files, as in `docs/operations/callers.md`. Below the first a node does not start, and below the
/// second the finding is a warning.
const FILES: [u64; 2] = [512, 4_096];

/// Free disk space in bytes below which the finding is a problem. A store needs this space for its log and a few
/// snapshots.
const LEAST_FREE: u64 = 1 << 30;

/// Mode bits of a directory that allow the group and others to write. A store removes these bits from its data
/// directory when it starts.
const OTHERS_WRITE: u32 = 0o022;

/// Severity of a finding, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    Warning,
    /// A node will not start, or will start but not serve.
    Problem,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "PROBLEM",
        }
    }
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) check: &'static str,
    pub(super) of: String,
    pub(super) text: String,
    /// Place to look at, or command that helps the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, of: impl Display, text: impl Display) -> Finding {
        Finding { level: Level::Ok, check, of: of.to_string(), text: text.to_string(), next: None }
    }

    pub(super) fn warning(check: &'static str, of: impl Display, text: impl Display, next: &str) -> Finding {
        Finding { level: Level::Warning, next: Some(next.to_owned()), ..Finding::ok(check, of, text) }
    }

    pub(super) fn problem(check: &'static str, of: impl Display, text: impl Display, next: &str) -> Finding {
        Finding { level: Level::Problem, next: Some(next.to_owned()), ..Finding::ok(check, of, text) }
    }
}

/// Returns the finding about the limit `most` on open files. `None` means that there is no limit.
pub(super) fn files(most: Option<u64>) -> Finding {
    let (check, of, next) = ("open files", "this machine", "LimitNOFILE of the unit, or `ulimit -Hn`");
    match most {
        Some(most) if most < FILES[0] => Finding::problem(check, of, format!("{most}: no node starts"), next),
        Some(most) if most < FILES[1] => Finding::warning(check, of, format!("{most}: few connections"), next),
        Some(most) => Finding::ok(check, of, grouped(most)),
        None => Finding::ok(check, of, "unlimited"),
    }
}

/// Returns the finding about the certificate of the node `holder`. `left` is the number of days until the certificate
/// expires, or `None` if the node needs no certificate. If the certificate cannot be used, `left` is an error with the
/// reason.
pub(super) fn certificate(holder: &str, left: Result<Option<u64>, String>) -> Finding {
    match left {
        Ok(Some(days)) if days < CERTIFICATE_DAYS => {
            Finding::warning("certificate", holder, format!("{days} days left"), "`seqsvr cert rotate`")
        }
        Ok(Some(days)) => Finding::ok("certificate", holder, format!("{days} days left")),
        Ok(None) => Finding::ok("certificate", holder, "none is needed"),
        Err(why) => Finding::problem(
            "certificate",
            holder,
            why,
            "`seqsvr cert issue --set FILE`; is the clock of this machine right?",
        ),
    }
}

/// Returns the finding about the data directory `dir`. `is_full` states whether the directory contains data. `mode` is
/// its file mode, or `None` if it does not exist yet. `free` and `size` are in bytes, and are the free space and the
/// size of its file system.
pub(super) fn disk(dir: &str, is_full: bool, mode: Option<u32>, free: u64, size: u64) -> Finding {
    let text = format!(
        "{} MiB of {} MiB are free; {}",
        grouped(free >> 20),
        grouped(size >> 20),
        if is_full { "the directory has data" } else { "the directory is empty or does not exist yet" }
    );
    match mode {
        Some(mode) if mode & OTHERS_WRITE != 0 => {
            let what = format!("users other than its owner may write to it (mode {:04o})", mode & 0o7777);
            Finding::warning("disk", dir, what, "nothing: the store corrects the mode at its start")
        }
        _ if free < LEAST_FREE => Finding::problem("disk", dir, text, "more space: a store needs at least 1 GiB"),
        _ if free < size / 10 => Finding::warning("disk", dir, text, "less than a tenth is free"),
        _ => Finding::ok("disk", dir, text),
    }
}

/// Returns the last line of the command's output, which has the numbers of problems and warnings.
pub(super) fn verdict(problems: usize, warnings: usize, checks: &str) -> String {
    match (problems, warnings) {
        (0, 0) => format!("ok: {checks} checks"),
        (0, warnings) => format!("ok, with {}: {checks} checks", number(warnings, "warning")),
        (problems, warnings) => {
            format!("NOT READY: {} and {} in {checks} checks", number(problems, "problem"), number(warnings, "warning"))
        }
    }
}

fn number(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_documents() {
        let levels = |most: [Option<u64>; 4]| most.map(|most| files(most).level);
        let expected = [Level::Problem, Level::Warning, Level::Ok, Level::Ok];
        assert_eq!(levels([Some(511), Some(4_095), Some(4_096), None]), expected);
        let left = [Err("expired".to_owned()), Ok(Some(13)), Ok(Some(14)), Ok(None)];
        assert_eq!(left.map(|left| certificate("store/s1", left).level), expected);
        const GIB: u64 = 1 << 30;
        let disks = [
            disk("d", true, Some(0o40700), GIB - 1, 2 * GIB),
            disk("d", true, Some(0o40700), 9 * GIB, 100 * GIB),
            disk("d", true, Some(0o40700), 10 * GIB, 100 * GIB),
            disk("d", false, None, 90 * GIB, 100 * GIB),
        ];
        assert_eq!(disks.map(|finding| finding.level), expected);
        assert_eq!(disk("d", true, Some(0o40770), 90 * GIB, 100 * GIB).level, Level::Warning);
    }

    #[test]
    fn the_page_ends_in_a_verdict() {
        assert_eq!(verdict(0, 0, "9"), "ok: 9 checks");
        assert_eq!(verdict(0, 2, "9"), "ok, with 2 warnings: 9 checks");
        assert_eq!(verdict(1, 2, "9"), "NOT READY: 1 problem and 2 warnings in 9 checks");
    }
}
