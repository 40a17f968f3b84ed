//! The command `export`, which writes the last numbers of a range of users, or the last ids of counter series. The
//! output is CSV or lines of JSON, which the command `import` can read.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seq_client::{CallError, Client, Current, Series};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped, note};
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::limits::MAX_ITEMS;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::counter_series;
use crate::import::{Format, HEADER, SERIES_HEADER};
use crate::item_report::call_failure;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr export --uids 0..1_000_000 --out counters.csv\n  \
                        seqsvr export --uids 0..1000 --format jsonl | jq -r .value\n  \
                        seqsvr export --series orders,invoices --out series.csv\n\n\
                        Users without a number and series without an id are left out. After a crash of the owner, the number of a user or a series is an upper bound \
                        until its next allocation. Users and series that get numbers during the export are read at different moments; stop the callers for an \
                        export of a single moment.\n\n\
                        Exit codes: 0 written, 2 users outside the sets, a name of no counter series, or a file that cannot be written, 3 refused for now, 4 no node \
                        responded, 7 the deadline of a call passed. Without 0 there is no file.")]
pub struct ExportArgs {
    #[command(flatten)]
    counters: CounterArgs,
    /// The file to write, which replaces an existing file; without the flag, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    #[command(flatten)]
    target: Target,
    /// Time limit of connecting and of each call.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    timeout: Duration,
}

/// The users or series whose numbers are written.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct CounterArgs {
    /// Range of the users, without its end.
    #[arg(long, value_name = "A..B", value_parser = uids)]
    uids: Option<Range<u64>>,
    /// Counter series; repeat the flag or separate names by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    series: Vec<String>,
    /// All counter series of the cluster that are not retired.
    #[arg(long)]
    all_series: bool,
}

/// The users or series whose last numbers the command writes. All of them exist in the cluster.
enum Counters {
    Users(Range<u64>),
    Series(Vec<Series>),
}

/// Number of users in the requested range, or number of requested series.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Total {
    Users(u64),
    Series(u64),
}

/// The outcome of an export to a file.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    total: Total,
    /// Number of users or series in the output. Users and series that have no number yet are left out.
    written: u64,
}

impl ExportArgs {
    /// Returns whether the numbers are written to stdout.
    pub fn prints_numbers(&self) -> bool {
        self.out.is_none()
    }
}

/// Parses a range of uids such as `0..1_000`, in which digits may be separated by `_` as in set files.
fn uids(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.replace('_', "").parse::<u64>().ok();
    let range = text.split_once("..").and_then(|(start, end)| Some(number(start)?..number(end)?));
    range.filter(|range| !range.is_empty()).ok_or_else(|| "it must be A..B, with A below B".to_owned())
}

pub async fn run(args: ExportArgs, output: &Output) -> anyhow::Result<Exit> {
    let cannot = |error: io::Error| Failure::new(Exit::Usage, format!("cannot write the export: {error}"));
    // The file has a temporary name until it is complete.
    let file = args.out.as_deref().map(|path| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
        NamedTempFile::new_in(dir).map_err(cannot)
    });
    let file = file.transpose()?;
    let client = args.target.connect(args.timeout).await?;
    let counters = args.counters.find(&client).await?;
    let mut writer: Box<dyn Write + '_> = match &file {
        Some(file) => Box::new(BufWriter::with_capacity(BUFFER, file.as_file())),
        None => Box::new(BufWriter::with_capacity(BUFFER, io::stdout())),
    };
    let (header, total) = match &counters {
        Counters::Users(uids) => (HEADER, Total::Users(uids.end - uids.start)),
        Counters::Series(series) => (SERIES_HEADER, Total::Series(series.len() as u64)),
    };
    if args.format == Format::Csv {
        writeln!(writer, "{header}").map_err(cannot)?;
    }
    let written = match &counters {
        Counters::Users(uids) => write_users(uids, args.format, &client, &mut writer, output).await?,
        Counters::Series(series) => write_series(series, args.format, &client, &mut writer).await?,
    };
    writer.flush().map_err(cannot)?;
    drop(writer);
    if let (Some(file), Some(path)) = (file, &args.out) {
        file.as_file().sync_all().map_err(cannot)?;
        file.persist(path).map_err(|error| cannot(error.error))?;
    }
    if output.is_json() {
        output.json(&Written { total, written })?;
        return Ok(Exit::Ok);
    }
    let written = grouped(written);
    match total {
        Total::Users(users) => note(format_args!("{written} of {} users have a number", grouped(users))),
        Total::Series(series) => note(format_args!("{written} of {} series have an id", grouped(series))),
    }
    Ok(Exit::Ok)
}

impl CounterArgs {
    /// Finds the requested users or series in the cluster, before the command writes anything.
    ///
    /// # Errors
    /// A requested user is in no set of the cluster, or a requested series does not exist or is not a counter series.
    async fn find(self, client: &Client) -> Result<Counters, Failure> {
        if let Some(uids) = self.uids {
            check_range(&uids, &client.known_uids())?;
            return Ok(Counters::Users(uids));
        }
        if self.all_series {
            return Ok(Counters::Series(counter_series::all(client)));
        }
        let mut found: Vec<Series> = Vec::new();
        for name in &self.series {
            let series = counter_series::find(client, name).await;
            let series = series.map_err(|flaw| Failure::new(Exit::Usage, flaw).hint("nothing was written"))?;
            // A series whose name is repeated is written only once.
            if found.iter().all(|other| other.name() != name) {
                found.push(series);
            }
        }
        Ok(Counters::Series(found))
    }
}

/// Checks that all users of a range are in the cluster.
fn check_range(uids: &Range<u64>, known: &[Range<u64>]) -> Result<(), Failure> {
    // `reached` is the end of the part that is known to be in the cluster. The ranges are sorted, so one pass suffices.
    let mut reached = uids.start;
    for range in known.iter().filter(|range| !range.is_empty()) {
        if range.contains(&reached) {
            reached = range.end;
        }
    }
    if reached >= uids.end {
        return Ok(());
    }
    let shown = |range: &Range<u64>| format!("{}..{}", grouped(range.start), grouped(range.end));
    let known = known.iter().map(shown).collect::<Vec<_>>().join(" and ");
    let message = format!("uid {reached} of --uids {} is outside the sets", shown(uids));
    Err(Failure::new(Exit::Usage, message).hint(format!("the cluster has uids {known}; nothing was written")))
}

/// Writes the last number of each user in the order of the uids, except users without a number. Returns the number of
/// users written.
async fn write_users(
    uids: &Range<u64>,
    format: Format,
    client: &Client,
    to: &mut dyn Write,
    output: &Output,
) -> anyhow::Result<u64> {
    let Range { start, end } = *uids;
    let bar = output.progress_bar(end - start, "{pos}/{len} users  {per_sec:0}  ETA {eta}");
    let mut written = 0;
    let mut first = start;
    while first < end {
        let uids: Vec<u64> = (first..end).take(MAX_ITEMS).collect();
        first += uids.len() as u64;
        let results: Vec<Result<Current, CallError>> =
            client.current_many(&uids).await.map_err(|error| call_failure(&error, client))?;
        for (uid, result) in uids.iter().zip(results) {
            let Current { value, .. } = result.map_err(|error| call_failure(&error, client))?;
            if value == 0 {
                continue;
            }
            written += 1;
            match format {
                Format::Csv => writeln!(to, "{uid},{value}")?,
                Format::Jsonl => writeln!(to, r#"{{"uid":"{uid}","value":"{value}"}}"#)?,
            }
        }
        bar.inc(uids.len() as u64);
    }
    bar.finish_and_clear();
    Ok(written)
}

/// Writes the last id of each series that has allocated an id. Returns the number of series written.
async fn write_series(series: &[Series], format: Format, client: &Client, to: &mut dyn Write) -> anyhow::Result<u64> {
    let mut written = 0;
    for series in series {
        let current = series.current().await.map_err(|error| call_failure(&error, client))?;
        let Some(id) = current.id.filter(|id| counter_series::is_given_out(series, *id)) else { continue };
        written += 1;
        let name = series.name();
        match format {
            Format::Csv => writeln!(to, "{name},{id}")?,
            Format::Jsonl => writeln!(to, r#"{{"series":"{name}","id":"{id}"}}"#)?,
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_checked_as_a_whole() {
        let known = [0..10, 10..20, 30..40];
        for fits in [0..1, 5..20, 30..40] {
            assert!(check_range(&fits, &known).is_ok(), "{fits:?}");
        }
        for (outside, first) in [(5..21, 20), (20..30, 20), (25..35, 25), (35..50, 40), (50..51, 50)] {
            let refused = check_range(&outside, &known).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("uid {first} of --uids")), "{refused}");
        }
    }

    #[test]
    fn users_are_a_range() {
        assert_eq!(uids("0..1_000"), Ok(0..1_000));
        for wrong in ["", "5", "5..5", "6..5", "a..b", "-1..5"] {
            assert!(uids(wrong).is_err(), "{wrong}");
        }
    }
}
