//! The command `replay`, which sends the requests for a recorded trace of messages to the service, and checks every
//! response.
//!
//! For each message, it sends one call that allocates a number for every member of the message's group. It checks the
//! order of the numbers over the whole run, and with `--floors` over several runs. The exit code is 1 if the order was
//! violated. Ctrl-C ends the run early. The command then prints the report, and the exit code is 130 if the numbers
//! were in order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use seq_command::exit::{Exit, Failure};
use seq_command::output::Output;
use seq_command::security;
use seq_command::signals::{self, Interrupts};
use seq_command::target::{self, Target};
use seq_command::time_limit::time;
use seq_core::Seq;
use seq_core::limits::MAX_ITEMS;
use seq_load::endpoint::{AnyTransport, Endpoint, EndpointOptions};
use seq_load::raises::RaiseWatch;
use seq_load::replay::drive::{Drive, ReplayOptions};
use seq_load::replay::high_water::{self, HighWaterMarks, Replacement};
use seq_load::replay::trace::Trace;
use seq_order::Checker;

mod report;

use report::Report;

/// Interval at which the command draws the progress bar and requests the counts of ceiling raises from the nodes.
const TICK: Duration = Duration::from_millis(250);

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  seqsvr replay messages.csv.gz\n  seqsvr replay messages.csv --limit 1000 -o json\n  \
                        zstdcat messages.csv.zst | seqsvr replay -\n\n\
                        Exit codes: 0 every message was sent and the order held, 1 otherwise, 2 a wrong file or address, 4 no \
                        node responded, 7 the deadline of connecting passed, 130 interrupted, and the order held."
)]
pub struct ReplayArgs {
    /// The trace, as CSV with the header second,group,sender, plain or gzip; - for standard input.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// Number of messages in flight at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: u16,
    /// Connections to each node.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    connections: u8,
    /// Time limit of one call, after which items without a number are retried.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    timeout: Duration,
    /// Time for which a message is retried before the replay gives up, long enough for a restart of the cluster.
    #[arg(long, value_name = "TIME", alias = "timeout-s", default_value = "60s", value_parser = time)]
    patience: Duration,
    /// Speed of the replay: max, or a factor of the recorded time, as 10 for ten times as fast.
    #[arg(long, value_name = "FACTOR", default_value = "max", value_parser = speed)]
    speed: Speed,
    /// Sends only the first N messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// File of high-water marks that joins several runs: the largest number of every uid is read from the file, if it
    /// exists, and written to it at the end.
    #[arg(long, value_name = "FILE")]
    floors: Option<PathBuf>,
    /// States that no other client uses these uids, so a previous number that this run did not allocate is a violation.
    #[arg(long)]
    exclusive: bool,
}

/// Speed of the replay, as a multiple of the recorded speed. `None` means as fast as responses arrive.
#[derive(Clone, Copy, Debug)]
struct Speed(Option<f64>);

fn speed(text: &str) -> Result<Speed, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        _ if text == "max" => Ok(Speed(None)),
        Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(Speed(Some(factor))),
        _ => Err("it must be \"max\" or a factor above 0".to_owned()),
    }
}

/// Runs the command.
pub async fn run(args: ReplayArgs, output: &Output) -> anyhow::Result<Exit> {
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, format!("{error:#}"));
    let trace = Trace::open(&args.file).map_err(|error| usage(error.into()))?;
    let floors = match &args.floors {
        Some(file) => high_water::load(file).map_err(|error| usage(error.into()))?,
        None => HighWaterMarks::new(),
    };
    // The file is opened before the run, so that a path that cannot be written causes an error before the run.
    let replacement =
        args.floors.as_deref().map(|file| Replacement::create(file).map_err(|error| cannot_write(file, error)));
    let replacement = replacement.transpose().map_err(usage)?;
    let limit = args.limit.unwrap_or(u64::MAX).min(trace.messages.len() as u64);
    let options = ReplayOptions { speed: args.speed.0, limit: limit as usize, timeout: args.patience };
    let mut checker = Checker::new(trace.uids.len());
    for (user, uid) in trace.users() {
        if let Some(floor) = floors.get(&uid) {
            checker.join_floor(user, floor.0);
        }
    }

    let endpoint = EndpointOptions {
        addrs: args.target.addrs()?,
        access: security::access()?,
        redis: String::new(),
        prefix: String::new(),
        series: String::new(),
        lane: None,
        connections: usize::from(args.connections),
        deadline: args.timeout,
        // A message is one call, and no group has more members than a call may have items.
        batch: MAX_ITEMS,
        coalesce: true,
    };
    let transports = target::open(Endpoint::Sdk, &endpoint, usize::from(args.concurrency)).await?;
    let mut raises = target::raise_watch(&endpoint.addrs);
    raises.poll().await;
    let drive = Drive::new(&trace, transports, options, checker);
    let bar = output.progress_bar(limit, "{human_pos}/{human_len} messages  {per_sec:0}  ETA {eta}");
    let interrupted = watch(&drive, &mut raises, bar, Interrupts::new()?).await;
    raises.poll().await;
    let seconds = drive.elapsed();
    let state = drive.into_state();

    if let (Some(file), Some(replacement)) = (&args.floors, replacement) {
        replacement.save(&joined(floors, &trace, &state.checker)).map_err(|error| cannot_write(file, error))?;
    }
    let report = Report::new(&trace, &state, &raises, seconds, args.exclusive, interrupted);
    report.print(output)?;
    Ok(report.exit())
}

fn cannot_write(file: &Path, error: std::io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("cannot write {}", file.display()))
}

/// Runs the replay, draws its progress bar and counts the raises of ceilings. The first SIGINT or SIGTERM ends the
/// replay early, and the second ends the process. Returns whether a signal ended the replay.
async fn watch(
    drive: &Drive<'_, AnyTransport>,
    raises: &mut RaiseWatch,
    bar: ProgressBar,
    mut interrupts: Interrupts,
) -> bool {
    let mut interrupted = false;
    let mut ticks = tokio::time::interval(TICK);
    let replay = drive.run();
    tokio::pin!(replay);
    loop {
        tokio::select! {
            () = &mut replay => break,
            _ = interrupts.next() => {
                if std::mem::replace(&mut interrupted, true) {
                    signals::exit_at_once();
                }
                drive.stop();
            }
            _ = ticks.tick() => {
                bar.set_position(drive.messages_done());
                tokio::select! {
                    () = &mut replay => break,
                    () = raises.poll() => {}
                }
            }
        }
    }
    bar.finish_and_clear();
    interrupted
}

/// Returns the high-water marks of all uids after a run. A uid that the run used has the mark from the run, and all
/// other uids keep their marks in `floors`.
fn joined(mut floors: HighWaterMarks, trace: &Trace, checker: &Checker) -> HighWaterMarks {
    floors.extend(trace.users().map(|(user, uid)| (uid, Seq(checker.floor(user)))).filter(|(_, floor)| floor.0 > 0));
    floors
}
