//! The verdict on whether the numbers of a recorded run were in order, as text and as JSON.

use std::io;

use seq_command::output::{Output, digits, grouped};
use seq_core::Uid;
use seq_order::{Checker, Fault, Tally, User, Violation};
use serde::Serialize;

/// The verdict on the order of numbers, with the violations.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    uids_watched: usize,
    decreases: u64,
    duplicates: u64,
    chain_breaks: u64,
    /// Number of missing numbers. It is 0 if the checker allows missing numbers in this run.
    gaps: u64,
    /// Number of refused items. It is 0 if the checker allows refusals in this run.
    unserved: u64,
    malformed: u64,
    foreign_prevs: u64,
    pass: bool,
    violations: Vec<Broken>,
}

/// A violation, with the values that identify it in logs.
#[derive(Debug, Serialize)]
struct Broken {
    fault: &'static str,
    #[serde(serialize_with = "digits")]
    uid: u64,
    #[serde(serialize_with = "digits")]
    value: u64,
    #[serde(serialize_with = "digits")]
    prev: u64,
    #[serde(serialize_with = "digits")]
    floor: u64,
    sent_s: f64,
    answered_s: f64,
}

impl Verdict {
    /// Evaluates the numbers that `checker` has recorded. `uid` converts a user of the checker to the user's uid. If
    /// `exclusive` is true, no other client used these uids. A `prev` that no response contained as a number then
    /// counts as a chain break.
    pub(crate) fn new(checker: &Checker, uid: impl Fn(User) -> Uid, exclusive: bool) -> Verdict {
        let mut tally = checker.tally();
        if exclusive {
            tally.chain_breaks += tally.foreign_prevs;
        }
        let Tally { duplicates, decreases, chain_breaks, gaps, unserved, malformed, foreign_prevs, .. } = tally;
        let broken = |Violation { fault, item }: &Violation| Broken {
            fault: match fault {
                Fault::Duplicate => "duplicate",
                Fault::Decrease => "decrease",
                Fault::ChainBreak => "chain break",
                Fault::Malformed => "malformed",
                Fault::StaleRead => "stale read",
                Fault::InexactRead => "inexact read",
                Fault::Gap => "gap",
            },
            uid: uid(item.user).0,
            value: item.value,
            prev: item.prev,
            floor: item.floor,
            sent_s: item.sent.as_secs_f64(),
            answered_s: item.answered.as_secs_f64(),
        };
        Verdict {
            uids_watched: checker.users_seen(),
            decreases,
            duplicates,
            chain_breaks,
            gaps,
            unserved,
            malformed,
            foreign_prevs,
            pass: tally.violations() == 0,
            violations: checker.details().iter().map(broken).collect(),
        }
    }

    /// Returns whether there was no violation of the order.
    pub(crate) fn pass(&self) -> bool {
        self.pass
    }

    /// Prints a line with the totals, and a line for each of the first violations.
    pub(crate) fn print(&self, output: &Output) -> io::Result<()> {
        let mut more = String::new();
        for (count, what) in [(self.malformed, "malformed"), (self.gaps, "gaps"), (self.unserved, "unserved")] {
            if count > 0 {
                more.push_str(&format!(", {} {what}", grouped(count)));
            }
        }
        output.line(format_args!(
            "order           {} uids watched, {} decreases, {} duplicates, {} chain breaks{more}  {}",
            grouped(self.uids_watched as u64),
            grouped(self.decreases),
            grouped(self.duplicates),
            grouped(self.chain_breaks),
            if self.pass { "PASS" } else { "FAIL" }
        ))?;
        if self.foreign_prevs > 0 {
            let foreign = grouped(self.foreign_prevs);
            output.line(format_args!(
                "  {foreign} previous numbers were not allocated by this run: other clients use these uids, or responses were lost"
            ))?;
        }
        for Broken { fault, uid, value, prev, floor, sent_s, answered_s } in &self.violations {
            output.line(format_args!(
                "  {fault}: uid {uid} was given {value} (previous {prev}), floor {floor}; sent at {sent_s:.6} s, \
                 answered at {answered_s:.6} s"
            ))?;
        }
        Ok(())
    }
}
