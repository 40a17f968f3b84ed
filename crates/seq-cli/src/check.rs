//! The command `check perf`, which sends a typical load to a cluster and prints PASS or FAIL.

use std::time::Duration;

use seq_command::exit::Exit;
use seq_command::output::{Output, grouped};
use seq_command::security;
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_load::endpoint::{Endpoint, EndpointOptions};
use seq_load::key_distribution::Distribution;
use seq_load::load::{End, Plan};
use seq_load::thresholds::Threshold;

/// The commands that check a cluster.
#[derive(Debug, clap::Subcommand)]
pub enum CheckCommand {
    /// Sends a typical load for a while and reports whether the cluster sustains it.
    #[command(
        after_help = "Examples:\n  seqsvr check perf\n  seqsvr check perf --load large --duration 60s -o json\n\n\
                      The check passes if 99 % of the scheduled calls complete in time, no call fails, p99 and the slowest call \
                      stay below their bounds, and every number is above the previous number of its user. It allocates numbers of \
                      the uids 0 to 99,999, or of as many uids from --first-uid.\n\n\
                      Exit codes: 0 PASS, 1 FAIL, 2 a wrong address, 4 no node responded, 7 the deadline of connecting \
                      passed, 130 interrupted, and the order held."
    )]
    Perf(PerfArgs),
}

/// Arguments of `check perf`.
#[derive(Debug, clap::Args)]
pub struct PerfArgs {
    #[command(flatten)]
    target: Target,
    /// The load profile.
    #[arg(long, value_enum, default_value_t = Load::Small)]
    load: Load,
    /// Duration of the measurement.
    #[arg(long, value_name = "TIME", alias = "duration-s", default_value = "10s", value_parser = time)]
    duration: Duration,
    /// The first uid.
    #[arg(long, value_name = "UID", default_value_t = 0)]
    first_uid: u64,
}

/// A load profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Load {
    /// 1,000 calls a second: a company's internal chat.
    Small,
    /// 10,000 calls a second: an application with a million users a day.
    Medium,
    /// 50,000 calls a second: the design target of one core.
    Large,
}

impl Load {
    fn rate(self) -> u32 {
        match self {
            Load::Small => 1_000,
            Load::Medium => 10_000,
            Load::Large => 50_000,
        }
    }
}

/// Number of uids of the load.
const UIDS: u32 = 100_000;

/// Maximum number of calls in flight. It suffices for the highest load if each call takes 20 ms.
const IN_FLIGHT: usize = 1_024;

/// Highest 99th percentile of the calls' latency with which the check passes, in microseconds. It is shorter than the
/// time for which a display shows one frame, so the sender of a message does not notice it.
const P99_US: u32 = 10_000;

/// Highest latency of any call with which the check passes, in microseconds. It is a tenth of the delay that a person
/// perceives as an interruption.
const SLOWEST_US: u32 = 500_000;

/// Runs the check.
pub async fn run(command: CheckCommand, output: &Output) -> anyhow::Result<Exit> {
    let CheckCommand::Perf(args) = command;
    let rate = args.load.rate();
    let duration = args.duration;
    let plan = Plan {
        concurrency: IN_FLIGHT,
        pipeline: 1,
        batch: 1,
        warmup: Duration::from_secs(1),
        end: End::After(duration),
        rate: Some(rate.into()),
        first_uid: args.first_uid,
        uids: UIDS,
        uid_stride: 1,
        distribution: Distribution::Uniform,
        seed: 1,
        check: true,
        seamless: false,
    };
    let options = EndpointOptions {
        addrs: args.target.addrs()?,
        access: security::access()?,
        redis: String::new(),
        prefix: String::new(),
        series: String::new(),
        lane: None,
        connections: seq_channel::CONNECTIONS,
        deadline: Duration::from_secs(5),
        batch: 1,
        coalesce: true,
    };
    let expected: Vec<Threshold> = [
        format!("calls_per_second>={}", f64::from(rate) * 0.99),
        "failed<=0".to_owned(),
        format!("p99_us<={P99_US}"),
        format!("max_us<={SLOWEST_US}"),
    ]
    .iter()
    .map(|bound| bound.parse().expect("the bounds are well-formed"))
    .collect();
    if !output.is_json() {
        output.line(format_args!("{} calls a second for {duration:?}", grouped(rate.into())))?;
    }
    let (mut report, _) = crate::bench::measure(Endpoint::Sdk, &options, plan, output).await?;
    report.check(&expected)?;
    report.print(output)?;
    let exit = report.exit();
    if !output.is_json() {
        output.line(match exit {
            Exit::Ok => "PASS",
            Exit::Interrupted => "INTERRUPTED",
            _ => "FAIL",
        })?;
    }
    Ok(exit)
}
