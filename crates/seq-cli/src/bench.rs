//! The command `bench`, which measures one endpoint of the service under load. It sends the load, shows a progress bar,
//! and reports the latency, the CPU time of the servers, and whether the numbers were in order.
//!
//! Without `--rate`, each worker sends a round of calls once it has received all responses to its previous round (a
//! closed loop), so that the load adapts to the service. With `--rate`, calls are scheduled at the given rate, and the
//! latency of a call is counted from the scheduled time (an open loop). All workers share one thread. The command uses
//! about as much CPU time as the servers.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped};
use seq_command::security;
use seq_command::signals::{self, Interrupts};
use seq_command::target::{self, Target};
use seq_command::time_limit::{time, time_or_none};
use seq_load::endpoint::{AnyTransport, Endpoint, EndpointOptions};
use seq_load::key_distribution::Distribution;
use seq_load::load::{End, Load, Outcome, Plan};
use seq_load::thresholds::Threshold;
use seq_load::time_series::TimeSeries;

pub(crate) mod report;

use report::Report;

/// The Redis port of a development cluster.
const REDIS: &str = "127.0.0.1:7179";

/// The default of the setting `redis.prefix`.
const KEY_PREFIX: &str = "seq:";

/// Number of connections to each node, if the workers of an endpoint share connections.
const CONNECTIONS: usize = 4;

/// Interval of drawing the progress bar.
const TICK: Duration = Duration::from_millis(200);

/// Maximum number of uids whose order is checked. The check of one uid takes 24 bytes, so the maximum takes 1.5 GiB.
const MAX_WATCHED: u32 = 1 << 26;

/// An endpoint of the service and its protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum EndpointArg {
    /// The Rust SDK, with routes and retries; pending calls share a message.
    #[default]
    Sdk,
    /// Unary gRPC calls, `Next`, directly to the address.
    Grpc,
    /// Unary gRPC calls for --batch uids, `NextMany`.
    Many,
    /// A gRPC stream for each worker, with --pipeline messages of --batch uids in flight.
    Stream,
    /// The Redis protocol: `INCR`, with --pipeline commands in one write.
    Resp,
    /// JSON over HTTP/1.1.
    Json,
    /// Unary gRPC calls for --batch ids of --series, `IdService.Next`, directly to the address.
    Id,
}

/// The distribution of the load over the uids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum DistributionArg {
    /// Every uid is equally likely.
    #[default]
    Uniform,
    /// A few uids take most of the load, as busy groups do: the k-th most frequent uid is sampled 1/k^0.99 as often as
    /// the first.
    Zipf,
    /// Always the first uid.
    Single,
    /// One uid after the other; each worker starts at a different uid.
    Sequential,
}

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  seqsvr bench\n  seqsvr bench --endpoint stream --pipeline 64 --batch 100 -o json\n  \
                        seqsvr bench --endpoint resp --concurrency 50 --pipeline 16\n  \
                        seqsvr bench --endpoint id --series tweets --batch 100
  \
                        seqsvr bench --rate 20000 --expect 'p99_us<=5000' --expect 'failed<=0'\n  \
                        seqsvr bench --seamless    (during `seqsvr node drain`)\n\n\
                        Exit codes: 0 numbers were allocated, no call failed, and every check held; 1 otherwise (with --expect \
                        'failed<=N' that bound decides on failed calls); 2 wrong flags or addresses; 4 no node \
                        responded; 7 the deadline of connecting passed; 130 interrupted, and the order held."
)]
pub struct BenchArgs {
    #[command(flatten)]
    target: Target,
    /// The endpoint to measure.
    #[arg(long, value_enum, default_value_t = EndpointArg::Sdk)]
    endpoint: EndpointArg,
    /// Address of the Redis port, for --endpoint resp; over TLS where --addr has https:// [default: 127.0.0.1:7179]
    #[arg(long, value_name = "HOST:PORT", value_parser = target::host_and_port)]
    redis: Option<String>,
    /// Prefix of the keys, for --endpoint resp [default: seq:]
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// Name of the series, for --endpoint id.
    #[arg(long, value_name = "NAME", required_if_eq("endpoint", "id"))]
    series: Option<String>,
    /// The lane, for --endpoint id and a series whose callers name the lane.
    #[arg(long, value_name = "N", requires = "series")]
    lane: Option<u32>,
    /// Workers, each with a round of calls in flight at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    concurrency: u16,
    /// Calls in a worker's round: sent together, completed before the next round.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pipeline: u16,
    /// Calls per second, scheduled even if earlier calls have not completed; without the flag, each worker sends its
    /// next round as soon as the previous round has completed.
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Sends each call of the SDK as a separate message, to measure the benefit of coalescing.
    #[arg(long)]
    no_coalescing: bool,
    /// Connections to each node, for the gRPC endpoints; the other endpoints have one connection for each worker
    /// [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: Option<u8>,
    /// Uids in one call, or ids; 1 sends calls for one number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    batch: u16,
    /// Duration of the measured part.
    #[arg(long, value_name = "TIME", alias = "duration-s", default_value = "10s", value_parser = time, conflicts_with = "calls")]
    duration: Duration,
    /// Measures this many calls instead of a duration.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// Duration of the warm-up.
    #[arg(long, value_name = "TIME", alias = "warmup-s", default_value = "1s", value_parser = time_or_none)]
    warmup: Duration,
    /// Time limit of one call.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
    /// The first uid.
    #[arg(long, value_name = "UID", default_value_t = 0)]
    first_uid: u64,
    /// Number of uids.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    uids: u32,
    /// Distance between two uids: with the size of a section, one uid in each section.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    uid_stride: u64,
    /// Distribution of the calls over the uids.
    #[arg(long, value_enum, default_value_t = DistributionArg::Uniform)]
    distribution: DistributionArg,
    /// Seed of the distribution: the same seed gives each worker the same uids.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Writes a CSV file with one line for each second of the measured part.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// A threshold on a figure of `-o json`, as 'numbers_per_second>=50000' or 'p99_us<=3000'. Repeat the flag for more
    /// thresholds; a missed threshold is exit 1.
    #[arg(long, value_name = "BOUND", value_parser = clap::value_parser!(Threshold))]
    expect: Vec<Threshold>,
    /// Checks that every uid's numbers are unique and ordered; a violation is exit 1.
    #[arg(long)]
    check: bool,
    /// Checks the order, and that no number is missing. The check requires that no other client uses these uids, no
    /// node crashes, and sections change owner only by handover.
    #[arg(long)]
    seamless: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(rate) if (0.01..=1e8).contains(&rate) => Ok(rate),
        _ => Err("not a number of calls a second from 0.01 to 100,000,000".to_owned()),
    }
}

impl BenchArgs {
    /// Checks that the flags can be combined. A flag that would have no effect is an error.
    fn check(&self) -> Result<(), Failure> {
        let is_resp = self.endpoint == EndpointArg::Resp;
        let is_id = self.endpoint == EndpointArg::Id;
        let shares_connections = !matches!(self.endpoint, EndpointArg::Resp | EndpointArg::Json);
        let problem = if (self.check || self.seamless) && self.uids > MAX_WATCHED {
            format!("--check covers at most {} uids", grouped(MAX_WATCHED.into()))
        } else if self
            .uid_stride
            .checked_mul(self.uids.into())
            .and_then(|all| self.first_uid.checked_add(all))
            .is_none()
        {
            let Self { first_uid, uids, uid_stride, .. } = self;
            format!("--first-uid {first_uid} leaves no room for {uids} uids, one in {uid_stride}")
        } else if self.batch > 1 && matches!(self.endpoint, EndpointArg::Grpc | EndpointArg::Resp) {
            "--batch needs an endpoint with calls for many uids or ids: sdk, many, stream, json or id".to_owned()
        } else if self.no_coalescing && self.endpoint != EndpointArg::Sdk {
            "--no-coalescing is for --endpoint sdk: the others send each call separately".to_owned()
        } else if is_resp && self.seamless {
            "--seamless is not for --endpoint resp: its replies have no previous number; --check covers the order"
                .to_owned()
        } else if is_id && (self.check || self.seamless) {
            "--check and --seamless are for numbers of uids, not for --endpoint id".to_owned()
        } else if !is_id && self.series.is_some() {
            "--series and --lane are for --endpoint id".to_owned()
        } else if !is_resp && (self.redis.is_some() || self.key_prefix.is_some()) {
            "--redis and --key-prefix are for --endpoint resp".to_owned()
        } else if !shares_connections && self.connections.is_some() {
            "--connections is for the gRPC endpoints: with resp and json each worker has its own connection".to_owned()
        } else {
            return Ok(());
        };
        Err(Failure::new(Exit::Usage, problem))
    }
}

/// Runs the command.
pub async fn run(args: BenchArgs, output: &Output) -> anyhow::Result<Exit> {
    args.check()?;
    let csv = args.csv.as_deref().map(Csv::create).transpose()?;
    let plan = Plan {
        concurrency: usize::from(args.concurrency),
        pipeline: usize::from(args.pipeline),
        batch: usize::from(args.batch),
        warmup: args.warmup,
        end: args.calls.map_or(End::After(args.duration), End::Calls),
        rate: args.rate,
        first_uid: args.first_uid,
        uids: args.uids,
        uid_stride: args.uid_stride,
        distribution: args.distribution.into(),
        seed: args.seed,
        check: args.check || args.seamless,
        seamless: args.seamless,
    };
    let options = EndpointOptions {
        addrs: args.target.addrs()?,
        access: security::access()?,
        redis: args.redis.unwrap_or_else(|| REDIS.to_owned()),
        prefix: args.key_prefix.unwrap_or_else(|| KEY_PREFIX.to_owned()),
        connections: args.connections.map_or(CONNECTIONS, usize::from),
        deadline: args.timeout,
        batch: plan.batch,
        series: args.series.unwrap_or_default(),
        lane: args.lane,
        coalesce: !args.no_coalescing,
    };
    let (mut report, outcome) = measure(args.endpoint.into(), &options, plan, output).await?;
    report.check(&args.expect)?;
    report.print(output)?;
    if let Some(csv) = csv {
        csv.write(&outcome.time_series)?;
    }
    Ok(report.exit())
}

/// The CSV file to which the figures of each second are written. It is opened before the run, so that a path that
/// cannot be written is reported before the run.
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

    fn write(self, time_series: &TimeSeries) -> anyhow::Result<()> {
        time_series.save(self.file).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Sends a load to an endpoint and shows a progress bar, until the load is complete or Ctrl-C ends it. Returns the
/// report and the results on which it is based.
pub(crate) async fn measure(
    endpoint: Endpoint,
    options: &EndpointOptions,
    plan: Plan,
    output: &Output,
) -> anyhow::Result<(Report, Outcome)> {
    let transports = target::open(endpoint, options, plan.concurrency).await?;
    let mut raises = target::raise_watch(&options.addrs);
    raises.poll().await;
    let load = Load::new(transports, plan)?;
    let interrupted = watch(&load, plan, output, Interrupts::new()?).await;
    raises.poll().await;
    let outcome = load.into_outcome();
    Ok((Report::new(endpoint, plan, &outcome, &raises, interrupted), outcome))
}

impl From<EndpointArg> for Endpoint {
    fn from(arg: EndpointArg) -> Endpoint {
        match arg {
            EndpointArg::Sdk => Endpoint::Sdk,
            EndpointArg::Grpc => Endpoint::Grpc,
            EndpointArg::Many => Endpoint::Many,
            EndpointArg::Stream => Endpoint::Stream,
            EndpointArg::Resp => Endpoint::Resp,
            EndpointArg::Json => Endpoint::Json,
            EndpointArg::Id => Endpoint::Id,
        }
    }
}

impl From<DistributionArg> for Distribution {
    fn from(arg: DistributionArg) -> Distribution {
        match arg {
            DistributionArg::Uniform => Distribution::Uniform,
            DistributionArg::Zipf => Distribution::Zipf,
            DistributionArg::Single => Distribution::Single,
            DistributionArg::Sequential => Distribution::Sequential,
        }
    }
}

/// Runs the load and shows its progress. The first SIGINT or SIGTERM ends the load early, and the second ends the
/// process. Returns whether a signal ended the load.
async fn watch(load: &Load<AnyTransport>, plan: Plan, output: &Output, mut interrupts: Interrupts) -> bool {
    let mut interrupted = false;
    let mut ticks = tokio::time::interval(TICK);
    let running = load.run();
    tokio::pin!(running);
    // The progress bar begins after the warm-up, so that the rate that it shows does not include the warm-up.
    let mut bar = output.progress_line();
    bar.set_message("warm-up");
    let mut has_begun = false;
    loop {
        tokio::select! {
            () = &mut running => break,
            _ = interrupts.next() => {
                if std::mem::replace(&mut interrupted, true) {
                    signals::exit_at_once();
                }
                load.stop();
            }
            _ = ticks.tick() => {
                let progress = load.progress();
                if progress > 0 && !std::mem::replace(&mut has_begun, true) {
                    bar.finish_and_clear();
                    bar = progress_bar(output, plan);
                }
                if has_begun {
                    bar.set_position(progress);
                } else {
                    bar.tick();
                }
            }
        }
    }
    bar.finish_and_clear();
    interrupted
}

fn progress_bar(output: &Output, plan: Plan) -> ProgressBar {
    match plan.end {
        End::After(duration) => output.progress_bar(duration.as_millis() as u64, "{percent} %  ETA {eta}"),
        End::Calls(calls) => output.progress_bar(calls, "{human_pos}/{human_len} calls  {per_sec:0}  ETA {eta}"),
    }
}
