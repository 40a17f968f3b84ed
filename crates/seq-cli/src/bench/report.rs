//! The report of the command `bench`, which is printed as text or as one JSON object.

use std::time::Duration;

use seq_command::exit::Exit;
use seq_command::output::{Output, grouped};
use seq_core::Uid;
use seq_load::endpoint::Endpoint;
use seq_load::key_distribution::Distribution;
use seq_load::latency::{Percentiles, millis, per_second};
use seq_load::load::{Outcome, Plan};
use seq_load::raises::RaiseWatch;
use seq_load::reply::Reasons;
use seq_load::thresholds::{self, Threshold};
use serde::Serialize;

use crate::order_report::Verdict;

/// The results of a bench.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    endpoint: Endpoint,
    concurrency: usize,
    pipeline: usize,
    batch: usize,
    distribution: Distribution,
    uids: u32,
    seed: u64,
    /// Whether Ctrl-C ended the run early. If so, the figures cover a shorter time than the user requested.
    interrupted: bool,
    seconds: f64,
    calls: u64,
    calls_per_second: f64,
    numbers: u64,
    numbers_per_second: f64,
    failed: u64,
    failed_items: Reasons,
    /// Calls scheduled per second; `None` without `--rate`.
    rate: Option<f64>,
    /// Calls that were scheduled and never sent.
    unsent: u64,
    longest_unanswered_ms: u64,
    latency: Percentiles,
    /// Number of raises of ceilings during the warm-up and the run. It is `None` if no AllocSvr responded.
    ceiling_raises: Option<u64>,
    /// CPU time of the cluster's processes during the warm-up and the run, divided by the allocated numbers. It is
    /// `None` if an AllocSvr did not report its CPU time before and after the run, or if no number was allocated.
    cpu_us_per_number: Option<f64>,
    /// Number of restarts of AllocSvrs during the run. A restart resets an AllocSvr's counts of raises and of CPU time.
    restarts: u64,
    /// Result of the check of the order; absent without `--check`.
    order: Option<Verdict>,
    /// The results of the thresholds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expected: Vec<thresholds::Verdict>,
}

impl Report {
    /// Summarizes a bench.
    pub(crate) fn new(
        endpoint: Endpoint,
        plan: Plan,
        outcome: &Outcome,
        raises: &RaiseWatch,
        interrupted: bool,
    ) -> Report {
        let spent = raises.cpu().filter(|cpu| outcome.all_numbers > 0 && !cpu.is_zero());
        let cpu = spent.map(|cpu| cpu.as_secs_f64() * 1e6 / outcome.all_numbers as f64);
        let seconds = outcome.took.as_secs_f64();
        let rate = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        let uid = |user: seq_order::User| Uid(plan.uid(user));
        Report {
            endpoint,
            concurrency: plan.concurrency,
            pipeline: plan.pipeline,
            batch: plan.batch,
            distribution: plan.distribution,
            uids: plan.uids,
            seed: plan.seed,
            interrupted,
            seconds,
            calls: outcome.latency.calls(),
            calls_per_second: rate(outcome.latency.calls()),
            numbers: outcome.numbers,
            numbers_per_second: rate(outcome.numbers),
            failed: outcome.failed_items.values().sum(),
            failed_items: outcome.failed_items.clone(),
            rate: plan.rate,
            unsent: outcome.unsent,
            longest_unanswered_ms: outcome.silence.longest().as_millis() as u64,
            latency: outcome.latency.percentiles(),
            ceiling_raises: raises.raises(),
            cpu_us_per_number: cpu,
            restarts: raises.restarts(),
            order: outcome.checker.as_ref().map(|checker| Verdict::new(checker, uid, false)),
            expected: Vec::new(),
        }
    }

    /// Compares the figures of the report with the thresholds that the user gave, and adds the results to the report.
    pub(crate) fn check(&mut self, expected: &[Threshold]) -> serde_json::Result<()> {
        let report = serde_json::to_value(&*self)?;
        self.expected = expected.iter().map(|threshold| threshold.check(&report)).collect();
        Ok(())
    }

    /// Prints the report on stdout.
    pub(crate) fn print(&self, output: &Output) -> std::io::Result<()> {
        if output.is_json() {
            return output.json(self);
        }
        let took = Duration::from_secs_f64(self.seconds);
        output.line(format_args!(
            "numbers         {}  in {}  {}{}",
            grouped(self.numbers),
            millis(took),
            per_second(self.numbers, took),
            if self.interrupted { "  (interrupted)" } else { "" }
        ))?;
        output.line(format_args!("calls           {}  {}", grouped(self.calls), per_second(self.calls, took)))?;
        output.line(format_args!("latency         {}", self.latency))?;
        let silence = millis(Duration::from_millis(self.longest_unanswered_ms));
        if let Some(rate) = self.rate {
            let rate = per_second(rate.round() as u64, Duration::from_secs(1));
            output
                .line(format_args!("offered         {rate}; {} calls were due and not sent", grouped(self.unsent)))?;
        }
        let verdict = if self.has_failed() { "  FAIL" } else { "" };
        output
            .line(format_args!("failed          {} items; longest silence {silence}{verdict}", grouped(self.failed)))?;
        for (reason, items) in &self.failed_items {
            output.line(format_args!("  {reason:<24} {}", grouped(*items)))?;
        }
        match self.ceiling_raises {
            Some(raises) => {
                let unsure = match self.restarts {
                    0 => "",
                    _ => " at least, because allocators were restarted",
                };
                output.line(format_args!("ceiling raises  {}, warm-up included{unsure}", grouped(raises)))?;
            }
            None => output.line("ceiling raises  unknown: no allocator responded")?,
        }
        match self.cpu_us_per_number {
            Some(cpu) => output.line(format_args!("server cpu      {cpu:.3} us a number, warm-up included"))?,
            None => output.line(format_args!(
                "server cpu      unknown: {}",
                why_unknown(self.ceiling_raises, self.numbers, self.restarts)
            ))?,
        }
        if let Some(order) = &self.order {
            order.print(output)?;
        }
        self.expected.iter().try_for_each(|verdict| output.line(format_args!("expected        {verdict}")))?;
        if self.numbers == 0 && !self.interrupted {
            output.line("numbers         none was allocated  FAIL")?;
        }
        Ok(())
    }

    /// Returns whether the run fails because calls failed. Failed calls do not matter if Ctrl-C ended the run, or if
    /// the user gave a threshold on `failed`.
    fn has_failed(&self) -> bool {
        let is_judged = self.expected.iter().any(|verdict| verdict.figure() == "failed");
        self.failed > 0 && !is_judged && !self.interrupted
    }

    /// Returns the exit code. It is [`Exit::Ok`] if numbers were allocated, no call failed, every threshold was met,
    /// and no check found the numbers out of order. If Ctrl-C ended the run, it is [`Exit::Interrupted`] unless the
    /// numbers were out of order.
    pub(crate) fn exit(&self) -> Exit {
        let order = self.order.as_ref().is_none_or(Verdict::pass);
        let expected = self.expected.iter().all(thresholds::Verdict::pass);
        match (order, self.interrupted) {
            (false, _) => Exit::Failed,
            (true, true) => Exit::Interrupted,
            (true, false) if expected && self.numbers > 0 && !self.has_failed() => Exit::Ok,
            (true, false) => Exit::Failed,
        }
    }
}

/// Returns the reason why the CPU time per number is unknown.
fn why_unknown(ceiling_raises: Option<u64>, numbers: u64, restarts: u64) -> &'static str {
    match (ceiling_raises, numbers, restarts) {
        (None, ..) => "no allocator responded",
        (_, 0, _) => "no number was allocated",
        (.., 0) => "an allocator did not respond before and after the run",
        _ => "allocators were restarted during the run, which resets their counters",
    }
}

#[cfg(test)]
mod tests {
    use super::why_unknown;

    #[test]
    fn an_unknown_figure_has_its_cause() {
        assert_eq!(why_unknown(None, 0, 0), "no allocator responded");
        assert_eq!(why_unknown(Some(3), 0, 2), "no number was allocated");
        let restarted = "allocators were restarted during the run, which resets their counters";
        assert_eq!(why_unknown(Some(3), 9, 2), restarted);
        assert!(why_unknown(Some(3), 9, 0).contains("did not respond"));
    }
}
