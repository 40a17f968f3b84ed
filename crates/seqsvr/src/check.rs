//! The command `check perf`: whether a cluster carries a load of a usual size, answered with PASS or FAIL.

use std::time::Duration;

use crate::bench::door::{Door, Ways};
use crate::bench::expect::Expectation;
use crate::bench::load::{End, Plan};
use crate::bench::pick::Distribution;
use crate::exit::Exit;
use crate::output::{Output, grouped};
use crate::target::Target;

/// What is checked.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CheckCommand {
    /// Sends a load of a usual size for a while, and says whether the cluster carries it.
    #[command(
        after_help = "Examples:\n  seqsvr check perf\n  seqsvr check perf --load large --duration-s 60 -o json\n\n\
                      It passes when 99 % of the calls that are due are answered in time, none fails, p99 and the slowest call \
                      stay below their bounds, and every number is above the last one of its user. It takes numbers of the uids \
                      0 ..= 99,999, or those from --first-uid."
    )]
    Perf(PerfArgs),
}

/// Arguments of `check perf`.
#[derive(Debug, clap::Args)]
pub(crate) struct PerfArgs {
    #[command(flatten)]
    target: Target,
    /// How much is sent.
    #[arg(long, value_enum, default_value_t = Load::Small)]
    load: Load,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    duration_s: u32,
    /// The first uid asked for.
    #[arg(long, value_name = "UID", default_value_t = 0)]
    first_uid: u64,
}

/// A usual size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Load {
    /// 1,000 calls a second: a company's internal chat.
    Small,
    /// 10,000 calls a second: an application with a million users a day.
    Medium,
    /// 50,000 calls a second: what one core is planned for.
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

/// Users that take part.
const UIDS: u32 = 100_000;

/// Calls in flight at most: what the largest load has under way when a call takes 20 ms.
const IN_FLIGHT: usize = 1_024;

/// Half of a frame on a screen; whoever sends a message does not notice it.
const P99_US: u32 = 10_000;

/// A tenth of what a person takes for an interruption.
const SLOWEST_US: u32 = 500_000;

/// Runs it.
pub(crate) async fn run(command: CheckCommand, output: &Output) -> anyhow::Result<Exit> {
    let CheckCommand::Perf(args) = command;
    let rate = args.load.rate();
    let duration = Duration::from_secs(args.duration_s.into());
    let plan = Plan {
        concurrency: IN_FLIGHT,
        pipeline: 1,
        batch: 1,
        warmup: Duration::from_secs(1),
        end: End::After(duration),
        rate: Some(rate.into()),
        first_uid: args.first_uid,
        uids: UIDS,
        distribution: Distribution::Uniform,
        seed: 1,
        check: true,
        seamless: false,
    };
    let ways = Ways {
        target: args.target,
        redis: String::new(),
        prefix: String::new(),
        connections: seq_client::pool::CONNECTIONS,
        deadline: Duration::from_secs(5),
        batch: 1,
        coalesce: true,
    };
    let expected: Vec<Expectation> = [
        format!("calls_per_second>={}", f64::from(rate) * 0.99),
        "failed<=0".to_owned(),
        format!("p99_us<={P99_US}"),
        format!("max_us<={SLOWEST_US}"),
    ]
    .iter()
    .map(|bound| bound.parse().expect("the bounds are well-formed"))
    .collect();
    if !output.is_json() {
        output.line(format_args!("{} calls a second for {} s", grouped(rate.into()), args.duration_s))?;
    }
    let (mut report, _) = crate::bench::measure(Door::Sdk, &ways, plan, output).await?;
    report.judge(&expected)?;
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
