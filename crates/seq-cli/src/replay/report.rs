//! The report of the command `replay`, which is printed as text or as one JSON object.

use std::time::Duration;

use seq_command::exit::Exit;
use seq_command::output::{Output, grouped};
use seq_load::latency::{Percentiles, millis, per_second};
use seq_load::raises::RaiseWatch;
use seq_load::replay::drive::State;
use seq_load::replay::trace::Trace;
use seq_load::reply::Reasons;
use serde::Serialize;

use crate::order_report::Verdict;

/// The results of a replay.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether Ctrl-C ended the replay early.
    interrupted: bool,
    messages: u64,
    allocations: u64,
    #[serde(flatten)]
    verdict: Verdict,
    calls: u64,
    retried: u64,
    unknown_calls: u64,
    failed_items: Reasons,
    ceiling_raises: Option<u64>,
    allocations_per_raise: Option<f64>,
    restarts: u64,
    seconds: f64,
    allocations_per_second: f64,
    longest_unanswered_ms: u64,
    latency: Percentiles,
    gave_up: Option<String>,
}

impl Report {
    /// Creates the report from the results of a replay. If `exclusive` is true, a `prev` that no response contained as
    /// a number is a chain break.
    pub(crate) fn new(
        trace: &Trace,
        state: &State,
        raises: &RaiseWatch,
        took: Duration,
        exclusive: bool,
        interrupted: bool,
    ) -> Report {
        let allocations = state.checker.tally().allocations;
        let per_raise = |raises: u64| allocations as f64 / raises as f64;
        Report {
            interrupted,
            messages: state.messages,
            allocations,
            verdict: Verdict::new(&state.checker, |user| trace.uid(user), exclusive),
            calls: state.latency.calls(),
            retried: state.retried,
            unknown_calls: state.unknown_calls,
            failed_items: state.reasons.clone(),
            ceiling_raises: raises.raises(),
            allocations_per_raise: raises.raises().filter(|raises| *raises > 0).map(per_raise),
            restarts: raises.restarts(),
            seconds: took.as_secs_f64(),
            allocations_per_second: allocations as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE),
            longest_unanswered_ms: state.silence.longest().as_millis() as u64,
            latency: state.latency.percentiles(),
            gave_up: state.gave_up.as_ref().map(|gave_up| {
                let after = millis(gave_up.after);
                format!(
                    "uid {} got no number for {after}: {}: {}",
                    gave_up.uid, gave_up.failure.reason, gave_up.failure.message
                )
            }),
        }
    }

    /// Prints the report on stdout.
    pub(crate) fn print(&self, output: &Output) -> std::io::Result<()> {
        if output.is_json() {
            return output.json(self);
        }
        let took = Duration::from_secs_f64(self.seconds);
        output.line(format_args!(
            "messages        {}{}",
            grouped(self.messages),
            if self.interrupted { "  (interrupted)" } else { "" }
        ))?;
        output.line(format_args!(
            "numbers         {}  in {}  {}",
            grouped(self.allocations),
            millis(took),
            per_second(self.allocations, took)
        ))?;
        output.line(format_args!("calls           {}  {}", grouped(self.calls), self.latency))?;
        output.line(format_args!(
            "retried         {} calls, {} of all without a full reply; longest silence {}",
            grouped(self.retried),
            grouped(self.unknown_calls),
            millis(Duration::from_millis(self.longest_unanswered_ms))
        ))?;
        for (reason, items) in &self.failed_items {
            output.line(format_args!("  {reason:<24} {} items", grouped(*items)))?;
        }
        let raises = match (self.ceiling_raises, self.allocations_per_raise) {
            (None, _) => "unknown: no allocator responded".to_owned(),
            (Some(raises), None) => grouped(raises),
            (Some(raises), Some(each)) => format!("{}  {} numbers each", grouped(raises), grouped(each as u64)),
        };
        // Raises between the last request to a node and a restart of the node may be missing.
        let unsure = if self.restarts > 0 { "  (or more: allocators restarted)" } else { "" };
        output.line(format_args!("ceiling raises  {raises}{unsure}"))?;
        self.verdict.print(output)?;
        match &self.gave_up {
            Some(why) => output.line(format_args!("gave up         {why}")),
            None => Ok(()),
        }
    }

    /// Returns [`Exit::Failed`] if the order was violated or the replay gave up on a message. Otherwise returns
    /// [`Exit::Interrupted`] if Ctrl-C ended the replay, and else [`Exit::Ok`].
    pub(crate) fn exit(&self) -> Exit {
        match (self.verdict.pass() && self.gave_up.is_none(), self.interrupted) {
            (false, _) => Exit::Failed,
            (true, true) => Exit::Interrupted,
            (true, false) => Exit::Ok,
        }
    }
}
