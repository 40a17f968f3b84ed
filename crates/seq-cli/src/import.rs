//! The command `import`, which takes over numbers from another system. It raises users or keys to their numbers in a
//! file or a Redis server, or raises counter series to their last ids in a file.
//!
//! **Invariant:** an import only raises numbers. Before it raises the first number, it checks all records. Every user
//! must be in a set of the cluster, and every series must be a counter series that can have the id in its record. It
//! does not change a number that is at least as high as the number in the record. So an import can be repeated, for
//! example first while the former system still serves, and again after it has stopped.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt, stream};
use seq_client::{CallError, Client};
use seq_command::exit::{Exit, Failure, report_error};
use seq_command::output::{Output, grouped, note};
use seq_command::plan::confirmed;
use seq_command::signals::Interrupts;
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::limits::MAX_ITEMS;
use seq_load::outcome::Chain;
use seq_proto::Reason;
use serde::Serialize;

use crate::item_report::call_failure;

mod contents;
mod counters;
mod file;
mod key_file;
mod keys;
mod progress;
mod records;
mod redis;
mod source;

use contents::{Contents, Facts};
use counters::Counters;
pub(crate) use file::{Format, HEADER, SERIES_HEADER};
pub(crate) use key_file::{KEY_HEADER, KeyList, read_list};
pub(crate) use keys::batches;
use progress::Progress;
use records::{FLAWS_SHOWN, Record, Records};
use source::Source;

/// Interval between writes of the progress to its file.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr import --from counters.csv --dry-run\n  \
                        seqsvr import --from redis://10.0.0.9:6379 --match 'seq:*' --rate 20000 --progress import.json\n  \
                        zcat counters.jsonl.gz | seqsvr import --from - --format jsonl --yes\n  \
                        seqsvr import --from redis://10.0.0.9:6379 --match 'conv:*' --keyspace main\n  \
                        seqsvr import --from keys.csv --keyspace main    (of key,value)\n  \
                        seqsvr import --from series.csv --dry-run    (of series,id)\n  \
                        psql -At -c 'SELECT last_value FROM orders_id_seq' | seqsvr import --from - --series orders --yes\n\n\
                        A CSV file has the header uid,value, or series,id with the last ids of counter series; a line of JSON has these \
                        keys. With --series, a file has an id on each line, below a header of value or id if any. With --keyspace, a CSV file has the header \
                        key,value, and a key is any bytes: nothing is trimmed, and a field with a comma, a quote or a line end is quoted; a line of JSON has \
                        `key`, or `raw_key` in base64. A source is read completely or refused: a \
                        replica, a cluster without a master for each slot, a cluster that changes during the read, and a pattern without \
                        a key are refused. Keys that expire during the read are counted. The next number of a user or key is above the value, and the next id of a series above the id. \
                        No number is lowered, so an import can be repeated: once while the former system serves, and again after it has \
                        stopped. The ceiling of the section of a user or key rises with it, and after a crash of the owner all users or keys of the \
                        section continue at the ceiling.\n\n\
                        Exit codes: 0 every user, key or series is at its value or above, 1 there is no such keyspace (UNKNOWN_KEYSPACE), 2 wrong records, a user outside the sets, a name \
                        of no counter series, or no terminal to confirm on; nothing was changed, 3 refused for now, 4 a server did not respond, 6 declined, 7 the deadline of a \
                        call passed, 8 some were refused (ADVANCE_TOO_FAR), 130 interrupted. After 3, 4, 7 and 130 the same command \
                        continues, with --progress where it was.")]
pub struct ImportArgs {
    /// A file of CSV or JSON lines, plain or gzip, or `-` for standard input; or redis://host:port (rediss:// for TLS),
    /// with an optional user:password@ before the host and /db behind the port. Any node of a cluster will do; all its
    /// masters are read. If there is a password, prefer the variable, because other users see a command line.
    #[arg(long, value_name = "SOURCE", env = "SEQSVR_IMPORT_FROM", hide_env_values = true)]
    from: String,
    #[command(flatten)]
    tls: redis::TlsArgs,
    /// The counter series of the ids in a file, which then has an id on each line.
    #[arg(long, value_name = "NAME")]
    series: Option<String>,
    /// The keyspace of the keys in a Redis server or a file. Keys of a Redis server stay whole, with their prefix.
    #[arg(long, value_name = "NAME", conflicts_with = "series")]
    keyspace: Option<String>,
    /// The keys of a Redis server, as a prefix and `*`; the rest of each key is the user [default without --keyspace:
    /// seq:*]
    #[arg(long = "match", value_name = "PATTERN", value_parser = redis::prefix)]
    prefix: Option<String>,
    /// Format of a file whose name does not end in .csv or .jsonl.
    #[arg(long, value_enum)]
    format: Option<Format>,
    #[command(flatten)]
    target: Target,
    /// Changes nothing; shows the number of users, keys or series that would be raised.
    #[arg(long)]
    dry_run: bool,
    /// Skips the confirmation.
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Leaves out keys, lines and series that are not counters, and lists the first of them.
    #[arg(long)]
    skip_invalid: bool,
    /// A file with the progress of the import, from which a repeated command continues.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    progress: Option<PathBuf>,
    /// Limit on the users, keys or series raised per second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Number of calls in flight at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    concurrency: u16,
    /// Time limit of connecting and of each call.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    timeout: Duration,
}

/// Result of the comparison of the records with the present numbers of their users, keys or series.
#[derive(Debug)]
struct Survey {
    /// Records with a higher number than their user, key or series has at present, in the order of their keys.
    below: Vec<Record>,
    /// Sum of the differences between these records and the present numbers.
    distance: u128,
}

/// Number of users, keys or series that have a record in the source.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Total {
    Users(u64),
    Series(u64),
    Keys(u64),
}

/// The outcome of an import.
#[derive(Debug, Serialize)]
struct Report {
    source: Facts,
    #[serde(flatten)]
    total: Total,
    /// Number of users, keys or series that an earlier run of the import finished, according to the progress file.
    resumed: u64,
    /// Number of users, keys or series that the command raised, or would raise if there were no `--dry-run`.
    raised: u64,
    /// Number of users, keys or series that were not raised, because their present number was at least as high as the
    /// number in the record.
    kept: u64,
    refused: u64,
    dry_run: bool,
    interrupted: bool,
    seconds: f64,
}

impl Total {
    fn of(records: &Records) -> Total {
        let count = records.list().len() as u64;
        match records {
            records if records.is_of_series() => Total::Series(count),
            records if records.is_of_keys() => Total::Keys(count),
            _ => Total::Users(count),
        }
    }
}

pub async fn run(args: ImportArgs, output: &Output) -> anyhow::Result<Exit> {
    let source = Source::new(&args)?;
    let Contents { mut records, mut facts } = read(&source, &args, output).await?;
    note(facts.line());
    let client = args.target.connect(args.timeout).await?;
    let keyspace = args.keyspace.as_deref();
    let counters = Counters::of(&mut records, &source, &client, keyspace, args.skip_invalid).await?;
    facts.skipped = records.skipped();
    let identity = match keyspace {
        Some(name) => format!("{} to keyspace {name}", source.identity()),
        None => source.identity(),
    };
    let progress = args.progress.as_deref().map(|path| Progress::open(path, &identity, &records));
    let mut progress = progress.transpose()?;
    if progress.as_ref().is_some_and(Progress::moved_on) {
        let what = if keyspace.is_some() { "key" } else { "user" };
        note(format_args!(
            "the numbers of the source have changed since this progress was written, so every {what} is checked again"
        ));
    }
    let after = progress.as_ref().and_then(Progress::after);
    let left = &records.list()[after.map_or(0, |done| records.up_to(done))..];
    let Survey { below, distance } = survey(&args, &client, &counters, &records, left, output).await?;
    let mut report = Report {
        source: facts,
        total: Total::of(&records),
        resumed: (records.list().len() - left.len()) as u64,
        raised: 0,
        kept: (left.len() - below.len()) as u64,
        refused: 0,
        dry_run: args.dry_run,
        interrupted: false,
        seconds: 0.0,
    };
    let plan = format!("raise {} {} by {distance} numbers", grouped(below.len() as u64), counters.noun());
    if args.dry_run || below.is_empty() {
        report.raised = if args.dry_run { below.len() as u64 } else { 0 };
        print(&report, output)?;
        return Ok(Exit::Ok);
    }
    if !args.yes && !confirmed(&plan)? {
        return Ok(Exit::Declined);
    }
    let since = Instant::now();
    let end = apply(&args, &client, &counters, (&records, &below), progress.as_mut(), &mut report, output).await;
    report.seconds = since.elapsed().as_secs_f64();
    print(&report, output)?;
    end
}

async fn read(source: &Source, args: &ImportArgs, output: &Output) -> Result<Contents, Failure> {
    let line = output.progress_line();
    line.set_message(format!("reading {}", source.identity()));
    line.enable_steady_tick(Duration::from_millis(250));
    let contents = source.read(args.skip_invalid, &line).await;
    line.finish_and_clear();
    contents
}

/// Requests the present numbers of the users, keys or series of the records `left`, which are some of `all`, and
/// compares the records with these numbers.
///
/// # Errors
/// A user is in no set of the cluster, or a present number cannot be read.
async fn survey(
    args: &ImportArgs,
    client: &Client,
    counters: &Counters,
    all: &Records,
    left: &[Record],
    output: &Output,
) -> anyhow::Result<Survey> {
    let template = format!("{{pos}}/{{len}} {} read  {{per_sec:0}}  ETA {{eta}}", counters.noun());
    let bar = output.progress_bar(left.len() as u64, &template);
    let (mut survey, mut outside) = (Survey { below: Vec::new(), distance: 0 }, 0);
    for part in left.chunks(MAX_ITEMS) {
        let results = counters.current(client, all, part, args.concurrency.into()).await;
        for (record, result) in part.iter().zip(results.map_err(|error| call_failure(&error, client))?) {
            match result {
                Ok(current) if current < record.value => {
                    survey.distance += u128::from(counters.distance(record, current));
                    survey.below.push(*record);
                }
                Ok(_) => {}
                Err(error @ CallError::UidOutside { .. }) => {
                    outside += 1;
                    if outside <= FLAWS_SHOWN {
                        bar.suspend(|| report_error(&Chain(&error)));
                    }
                }
                Err(error) => return Err(call_failure(&error, client).into()),
            }
        }
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    if outside > 0 {
        let message = format!("{} users are outside the sets", grouped(outside as u64));
        return Err(Failure::new(Exit::Usage, message).hint("nothing was changed").into());
    }
    Ok(survey)
}

/// Raises the users, keys or series of the records `below`, which are some of `all`, in their order, with several calls
/// in flight. Ctrl-C ends it early.
async fn apply(
    args: &ImportArgs,
    client: &Client,
    counters: &Counters,
    (all, below): (&Records, &[Record]),
    mut progress: Option<&mut Progress<'_>>,
    report: &mut Report,
    output: &Output,
) -> anyhow::Result<Exit> {
    let template = format!(
        "{{pos}}/{{len}} {}  {{per_sec:0}}  ETA {{eta}}  (Ctrl-C stops; repeat the command to continue)",
        counters.noun()
    );
    let bar = output.progress_bar(below.len() as u64, &template);
    let mut interrupts = Interrupts::new()?;
    let begin = tokio::time::Instant::now();
    let due = |index: usize| args.rate.map(|rate| begin + Duration::from_secs_f64(index as f64 / f64::from(rate)));
    let raise = |(index, record): (usize, &Record)| {
        let (due, record) = (due(index), *record);
        async move {
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
            (record.key, counters.advance(client, all, &record).await)
        }
    };
    // The results arrive in the order of the records, so all records before a finished record are finished too.
    let mut raised = stream::iter(below.iter().enumerate()).map(raise).buffered(usize::from(args.concurrency));
    let (mut written, mut last) = (Instant::now(), None);
    let end = loop {
        let (key, result) = tokio::select! {
            _ = interrupts.next() => {
                report.interrupted = true;
                break Ok(Exit::Interrupted);
            }
            next = raised.next() => match next {
                Some(done) => done,
                None => break Ok(if report.refused > 0 { Exit::Partial } else { Exit::Ok }),
            },
        };
        match result {
            Ok(_) => report.raised += 1,
            Err(CallError::Refused(refused)) if *refused.reason == *Reason::AlreadyPast.name() => report.kept += 1,
            Err(error) if !error.is_retryable() => {
                report.refused += 1;
                if report.refused <= FLAWS_SHOWN as u64 {
                    bar.suspend(|| report_error(&call_failure(&error, client)));
                }
            }
            Err(error) => break Err(call_failure(&error, client).hint(next_step(&error)).into()),
        }
        bar.inc(1);
        if report.refused > 0 {
            // A refused record does not count as finished, and neither do later records, so the next run begins with
            // the first refused record.
            continue;
        }
        last = Some(key);
        if let Some(progress) = progress.as_deref_mut().filter(|_| written.elapsed() >= PROGRESS_INTERVAL) {
            progress.advance(key)?;
            written = Instant::now();
        }
    };
    bar.finish_and_clear();
    if let (Some(progress), Some(last)) = (progress, last) {
        progress.advance(last)?;
    }
    end
}

/// Returns the hint of an import that ends with an error after which it can be continued.
fn next_step(error: &CallError) -> &'static str {
    match error {
        CallError::Refused(refused) if *refused.reason == *Reason::KeysExhausted.name() => {
            "raise `alloc.max_keys` of the nodes or add nodes, and repeat the command to continue"
        }
        _ => "repeat the command to continue",
    }
}

fn print(report: &Report, output: &Output) -> anyhow::Result<()> {
    if output.is_json() {
        return Ok(output.json(report)?);
    }
    let Report { resumed, raised, kept, refused, dry_run, interrupted, seconds, .. } = *report;
    let total = match report.total {
        Total::Users(users) => format!("{} users", grouped(users)),
        Total::Series(series) => format!("{} series", grouped(series)),
        Total::Keys(keys) => format!("{} keys", grouped(keys)),
    };
    let would = if dry_run { "would be raised" } else { "raised" };
    let mut line = format!("{total}: {} {would}, {} at their value or above", grouped(raised), grouped(kept));
    for (count, what) in [(resumed, "done before"), (refused, "refused")] {
        if count > 0 {
            line.push_str(&format!(", {} {what}", grouped(count)));
        }
    }
    if !dry_run {
        line.push_str(&format!("; {seconds:.1} s"));
    }
    output.line(line)?;
    if interrupted {
        note("interrupted: repeat the command to continue");
    }
    Ok(())
}
