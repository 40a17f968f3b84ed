//! What a bench says at its end: to people on a screen, to programs as one object.

use std::time::Duration;

use seq_core::Uid;
use serde::Serialize;

use super::load::{Outcome, Plan};
use crate::exit::Exit;
use crate::output::{Output, grouped};
use crate::traffic::raises::RaiseWatch;
use crate::traffic::verdict::Verdict;
use crate::traffic::{Percentiles, Reasons, millis, per_second};

/// The sums of a bench.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    concurrency: usize,
    batch: usize,
    uids: u32,
    seed: u64,
    seconds: f64,
    calls: u64,
    calls_per_second: f64,
    numbers: u64,
    numbers_per_second: f64,
    failed_items: Reasons,
    longest_unanswered_ms: u64,
    latency: Percentiles,
    /// Warm-up included.
    ceiling_raises: Option<u64>,
    /// Absent without `--check`.
    order: Option<Verdict>,
}

impl Report {
    /// Sums a bench up.
    pub(crate) fn new(plan: Plan, outcome: Outcome, raises: &RaiseWatch) -> Report {
        let seconds = outcome.took.as_secs_f64();
        let rate = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        let uid = |user: seq_order::User| Uid(plan.first_uid + u64::from(user.0));
        Report {
            concurrency: plan.concurrency,
            batch: plan.batch,
            uids: plan.uids,
            seed: plan.seed,
            seconds,
            calls: outcome.latency.calls(),
            calls_per_second: rate(outcome.latency.calls()),
            numbers: outcome.numbers,
            numbers_per_second: rate(outcome.numbers),
            failed_items: outcome.failed_items,
            longest_unanswered_ms: outcome.longest_silence.as_millis() as u64,
            latency: outcome.latency.percentiles(),
            ceiling_raises: raises.raises(),
            order: outcome.checker.map(|checker| Verdict::new(&checker, uid, false)),
        }
    }

    /// Prints it on stdout.
    pub(crate) fn print(&self, output: &Output, interrupted: bool) -> std::io::Result<()> {
        if output.is_json() {
            return output.json(self);
        }
        let took = Duration::from_secs_f64(self.seconds);
        output.line(format_args!(
            "numbers         {}  in {}  {}{}",
            grouped(self.numbers),
            millis(took),
            per_second(self.numbers, took),
            if interrupted { "  (interrupted)" } else { "" }
        ))?;
        output.line(format_args!("calls           {}  {}", grouped(self.calls), per_second(self.calls, took)))?;
        output.line(format_args!("latency         {}", self.latency))?;
        let silence = millis(Duration::from_millis(self.longest_unanswered_ms));
        let failed: u64 = self.failed_items.values().sum();
        output.line(format_args!("failed          {} items; longest silence {silence}", grouped(failed)))?;
        for (reason, items) in &self.failed_items {
            output.line(format_args!("  {reason:<24} {}", grouped(*items)))?;
        }
        match self.ceiling_raises {
            Some(raises) => output.line(format_args!("ceiling raises  {}, warm-up included", grouped(raises)))?,
            None => output.line("ceiling raises  unknown: no allocator answered")?,
        }
        match &self.order {
            Some(order) => order.print(output),
            None => Ok(()),
        }
    }

    /// Ok when numbers came and, if watched, the order held.
    pub(crate) fn exit(&self) -> Exit {
        let order = self.order.as_ref().is_none_or(Verdict::pass);
        if order && self.numbers > 0 { Exit::Ok } else { Exit::Failed }
    }
}
