//! The command `bench`: calls through one of the doors, their latency, what they cost the server, and whether the order held.
//!
//! In a closed loop every worker sends its next round when the last one is answered, so the load adapts to the service. With
//! `--rate` calls are due at that rate, and their latency counts from then. All workers share one thread; the client costs
//! about as much as the server.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::{Exit, Failure};
use crate::output::{Output, grouped};
use crate::target::Target;
use crate::traffic::sdk::raise_watch;

pub(crate) mod door;
pub(crate) mod expect;
pub(crate) mod load;
mod pace;
pub(crate) mod pick;
pub(crate) mod report;
mod seconds;

use door::{AnyLane, Door, Ways};
use expect::Expectation;
use load::{End, Load, Outcome, Plan};
use pick::Distribution;
use report::Report;
use seconds::Seconds;

/// The Redis port of a development cluster.
const REDIS: &str = "127.0.0.1:7179";

/// What keys begin with unless `redis.prefix` is set.
const KEY_PREFIX: &str = "seq:";

/// Connections to each node, of the doors that share them.
const CONNECTIONS: usize = 4;

/// How often the progress bar is drawn.
const TICK: Duration = Duration::from_millis(200);

/// Most uids whose order is watched: 24 bytes each, 1.5 GiB.
const MAX_WATCHED: u32 = 1 << 26;

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  seqsvr bench\n  seqsvr bench --door stream --pipeline 64 --batch 100 -o json\n  \
                        seqsvr bench --door resp --concurrency 50 --pipeline 16\n  \
                        seqsvr bench --rate 20000 --expect 'p99_us<=5000' --expect 'failed<=0'\n  \
                        seqsvr bench --seamless    (beside `seqsvr node drain`)")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    target: Target,
    /// The way in.
    #[arg(long, value_enum, default_value_t = Door::Sdk)]
    door: Door,
    /// Address of the Redis port, for --door resp [default: 127.0.0.1:7179]
    #[arg(long, value_name = "HOST:PORT")]
    redis: Option<String>,
    /// What the keys begin with, for --door resp [default: seq:]
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// Workers, each with a round of calls in flight at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    concurrency: u16,
    /// Calls in a worker's round: sent together, answered before the next round.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pipeline: u16,
    /// Calls a second, due whether or not the earlier ones are answered; without it, as fast as answers come.
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Send each call of the SDK as a message of its own, to see what sharing messages is worth.
    #[arg(long)]
    no_coalescing: bool,
    /// Connections to each node, for the gRPC doors; the others have one for each worker [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: Option<u8>,
    /// Uids in one call; 1 sends calls for a single number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = some_seconds, conflicts_with = "calls")]
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
    /// Write one line for each second of the measured part.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// What the run must reach, as 'numbers_per_second>=50000' or 'p99_us<=3000': a figure of `-o json`. Repeat it for more; one
    /// that is missed is exit 1.
    #[arg(long, value_name = "BOUND", value_parser = clap::value_parser!(Expectation))]
    expect: Vec<Expectation>,
    /// Watch that every uid's numbers are unique and ordered; a violation is exit 1.
    #[arg(long)]
    check: bool,
    /// Watch the order, and that no number is missing: nobody else uses these uids, no node crashes, and sections only move
    /// as planned.
    #[arg(long)]
    seamless: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(rate) if (0.01..=1e8).contains(&rate) => Ok(rate),
        _ => Err("not a number of calls a second from 0.01 to 100,000,000".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0 to 86400".to_owned()),
    }
}

fn some_seconds(text: &str) -> Result<f64, String> {
    let some = seconds(text).ok().filter(|seconds| *seconds > 0.0);
    some.ok_or_else(|| "not a number of seconds above 0, up to 86400".to_owned())
}

impl BenchArgs {
    /// Holds the flags against each other: one that would do nothing is a mistake.
    fn check(&self) -> Result<(), Failure> {
        let is_resp = self.door == Door::Resp;
        let shares_connections = !matches!(self.door, Door::Resp | Door::Json);
        let problem = if (self.check || self.seamless) && self.uids > MAX_WATCHED {
            format!("--check watches at most {} uids", grouped(MAX_WATCHED.into()))
        } else if self.first_uid.checked_add(u64::from(self.uids)).is_none() {
            format!("--first-uid {} leaves no room for {} uids", self.first_uid, self.uids)
        } else if self.batch > 1 && matches!(self.door, Door::Grpc | Door::Resp) {
            "--batch needs a door with calls for many uids: sdk, many, stream or json".to_owned()
        } else if self.no_coalescing && self.door != Door::Sdk {
            "--no-coalescing is for --door sdk: the others send each call by itself".to_owned()
        } else if !is_resp && (self.redis.is_some() || self.key_prefix.is_some()) {
            "--redis and --key-prefix are for --door resp".to_owned()
        } else if !shares_connections && self.connections.is_some() {
            "--connections is for the gRPC doors: with resp and json each worker has a connection of its own".to_owned()
        } else {
            return Ok(());
        };
        Err(Failure::new(Exit::Usage, problem))
    }
}

/// Runs it.
pub(crate) async fn run(args: BenchArgs, output: &Output) -> anyhow::Result<Exit> {
    args.check()?;
    let csv = args.csv.as_deref().map(Csv::create).transpose()?;
    let plan = Plan {
        concurrency: usize::from(args.concurrency),
        pipeline: usize::from(args.pipeline),
        batch: usize::from(args.batch),
        warmup: Duration::from_secs_f64(args.warmup_s),
        end: args.calls.map_or(End::After(Duration::from_secs_f64(args.duration_s)), End::Calls),
        rate: args.rate,
        first_uid: args.first_uid,
        uids: args.uids,
        distribution: args.distribution,
        seed: args.seed,
        check: args.check || args.seamless,
        seamless: args.seamless,
    };
    let ways = Ways {
        target: args.target,
        redis: args.redis.unwrap_or_else(|| REDIS.to_owned()),
        prefix: args.key_prefix.unwrap_or_else(|| KEY_PREFIX.to_owned()),
        connections: args.connections.map_or(CONNECTIONS, usize::from),
        deadline: Duration::from_millis(args.deadline_ms),
        batch: plan.batch,
        coalesce: !args.no_coalescing,
    };
    let (mut report, outcome) = measure(args.door, &ways, plan, output).await?;
    report.judge(&args.expect)?;
    report.print(output)?;
    if let Some(csv) = csv {
        csv.write(&outcome.seconds)?;
    }
    Ok(report.exit())
}

/// A file for the seconds of a run. It is opened before the run, so that minutes are not lost to a name that cannot be
/// written.
struct Csv<'a> {
    path: &'a Path,
    file: File,
}

impl Csv<'_> {
    fn create(path: &Path) -> anyhow::Result<Csv<'_>> {
        let file = File::create(path)
            .map_err(|error| Failure::new(Exit::Usage, format!("cannot write {}: {error}", path.display())))?;
        Ok(Csv { path, file })
    }

    fn write(self, seconds: &Seconds) -> anyhow::Result<()> {
        seconds.save(self.file).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Runs a load to its end, or to Ctrl-C, beside its progress bar.
pub(crate) async fn measure(door: Door, ways: &Ways, plan: Plan, output: &Output) -> anyhow::Result<(Report, Outcome)> {
    let lanes = door::open(door, ways, plan.concurrency).await?;
    let mut raises = raise_watch(&ways.target);
    raises.look().await;
    let load = Load::new(lanes, plan)?;
    let interrupted = watch(&load, progress_bar(output, plan)).await;
    raises.look().await;
    let outcome = load.into_outcome();
    Ok((Report::new(door, plan, &outcome, &raises, interrupted), outcome))
}

/// Runs the load beside its progress bar and Ctrl-C, which ends it early. Answers whether it did.
async fn watch(load: &Load<AnyLane>, bar: ProgressBar) -> bool {
    let mut interrupted = false;
    let mut ticks = tokio::time::interval(TICK);
    let (running, ctrl_c) = (load.run(), tokio::signal::ctrl_c());
    tokio::pin!(running, ctrl_c);
    let mut has_begun = false;
    loop {
        tokio::select! {
            () = &mut running => break,
            _ = &mut ctrl_c, if !interrupted => {
                interrupted = true;
                load.stop();
            }
            _ = ticks.tick() => {
                let progress = load.progress();
                // The warm-up is no part of the rate.
                if progress > 0 && !std::mem::replace(&mut has_begun, true) {
                    bar.reset_eta();
                }
                bar.set_position(progress);
            }
        }
    }
    bar.finish_and_clear();
    interrupted
}

fn progress_bar(output: &Output, plan: Plan) -> ProgressBar {
    let target = if output.draws_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let (length, template) = match plan.end {
        End::After(duration) => (duration.as_millis() as u64, "[{wide_bar}] {percent} %  ETA {eta}"),
        End::Calls(calls) => (calls, "[{wide_bar}] {human_pos}/{human_len} calls  {per_sec:0}  ETA {eta}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is well-formed").progress_chars("##-");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}
