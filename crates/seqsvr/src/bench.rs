//! The command `bench`: calls in a closed loop, their latency, and whether the order held.
//!
//! Every worker sends its next call when the last one is answered, so the load adapts to the service: latencies are those of
//! a service that is never overrun. All workers share one thread; the client costs about as much as the server.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::{Exit, Failure};
use crate::output::{Output, grouped};
use crate::target::Target;
use crate::traffic::sdk::{Sdk, raise_watch};

mod load;
mod pick;
mod report;

use load::{End, Load, Plan};
use pick::Distribution;
use report::Report;

/// How often the progress bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Most uids whose order is watched: 24 bytes each, 1.5 GiB.
const MAX_WATCHED: u32 = 1 << 26;

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  seqsvr bench\n  seqsvr bench --batch 100 --duration-s 30 -o json\n  \
                        seqsvr bench --seamless    (beside `seqsvr node drain`)")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    target: Target,
    /// Calls in flight at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    concurrency: u16,
    /// Connections to each node.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Uids in one call; 1 sends calls for a single number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds, conflicts_with = "calls")]
    duration_s: f64,
    /// Measure this many calls instead of a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// How long to run before measuring, in seconds.
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    warmup_s: f64,
    /// Deadline of one call, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    deadline_ms: u64,
    /// The first uid asked for.
    #[arg(long, value_name = "UID", default_value_t = 0)]
    first_uid: u64,
    /// How many uids are asked for.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    uids: u32,
    /// How the calls spread over the uids.
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// The same seed asks for the same uids, worker by worker.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Watch that every uid's numbers are unique and ordered; a violation is exit 1.
    #[arg(long)]
    check: bool,
    /// Watch the order, and that no number is missing: nobody else uses these uids, no node crashes, and sections only move
    /// as planned.
    #[arg(long)]
    seamless: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0 to 86400".to_owned()),
    }
}

/// Runs it.
pub(crate) async fn run(args: BenchArgs, output: &Output) -> anyhow::Result<Exit> {
    let usage = |message| anyhow::Error::from(Failure::new(Exit::Usage, message));
    if (args.check || args.seamless) && args.uids > MAX_WATCHED {
        return Err(usage(format!("--check watches at most {} uids", grouped(MAX_WATCHED.into()))));
    }
    if args.first_uid.checked_add(u64::from(args.uids)).is_none() {
        return Err(usage(format!("--first-uid {} leaves no room for {} uids", args.first_uid, args.uids)));
    }
    let plan = Plan {
        concurrency: usize::from(args.concurrency),
        batch: usize::from(args.batch),
        warmup: Duration::from_secs_f64(args.warmup_s),
        end: args.calls.map_or(End::After(Duration::from_secs_f64(args.duration_s)), End::Calls),
        first_uid: args.first_uid,
        uids: args.uids,
        distribution: args.distribution,
        seed: args.seed,
        check: args.check || args.seamless,
        seamless: args.seamless,
    };
    let deadline = Duration::from_millis(args.deadline_ms);
    let sdk = Sdk::connect(&args.target, usize::from(args.connections), deadline).await?;
    let mut raises = raise_watch(&args.target);
    raises.look().await;
    let load = Load::new(sdk, plan);
    let interrupted = watch(&load, progress_bar(output, plan)).await;
    raises.look().await;
    let report = Report::new(plan, load.into_outcome(), &raises);
    report.print(output, interrupted)?;
    Ok(report.exit())
}

/// Runs the load beside its progress bar and Ctrl-C, which ends it early. Answers whether it did.
async fn watch(load: &Load<Sdk>, bar: ProgressBar) -> bool {
    let mut interrupted = false;
    let mut ticks = tokio::time::interval(TICK);
    let (running, ctrl_c) = (load.run(), tokio::signal::ctrl_c());
    tokio::pin!(running, ctrl_c);
    loop {
        tokio::select! {
            () = &mut running => break,
            _ = &mut ctrl_c, if !interrupted => {
                interrupted = true;
                load.stop();
            }
            _ = ticks.tick() => bar.set_position(load.progress()),
        }
    }
    bar.finish_and_clear();
    interrupted
}

fn progress_bar(output: &Output, plan: Plan) -> ProgressBar {
    let target = if output.draws_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let (length, template) = match plan.end {
        End::After(duration) => (duration.as_millis() as u64, "[{bar:40}] {percent} %  ETA {eta}"),
        End::Calls(calls) => (calls, "[{bar:40}] {human_pos}/{human_len} calls  {per_sec}  ETA {eta}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is well-formed").progress_chars("##-");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}
