//! The command `export`: the last numbers of a range of users, as CSV or JSON lines that `import` reads.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seq_client::{CallError, Client, Current};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped, note};
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::limits::MAX_ITEMS;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::import::{Format, HEADER};
use crate::item_report::call_failure;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr export --uids 0..1_000_000 --out counters.csv\n  \
                        seqsvr export --uids 0..1000 --format jsonl | jq -r .value\n\n\
                        Users without a number are left out. After a crash of the owner, the number of a user is an upper bound until its \
                        next allocation. Users that get numbers during the export are read at different moments; stop the callers for an \
                        export of a single moment.\n\n\
                        Exit codes: 0 written, 2 users outside the sets, or a file that cannot be written, 3 refused for now, 4 no node \
                        responded, 7 the deadline of a call passed. Without 0 there is no file.")]
pub struct ExportArgs {
    /// Range of the users, without its end.
    #[arg(long, value_name = "A..B", value_parser = uids)]
    uids: Range<u64>,
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

/// The outcome of an export to a file.
#[derive(Serialize)]
struct Written {
    /// Number of users in the range.
    users: u64,
    /// Number of users that have a number.
    written: u64,
}

impl ExportArgs {
    /// Returns whether the numbers are written to stdout.
    pub fn prints_numbers(&self) -> bool {
        self.out.is_none()
    }
}

/// Parses a range of uids, with `_` between digits as in set files.
fn uids(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.replace('_', "").parse::<u64>().ok();
    let range = text.split_once("..").and_then(|(start, end)| Some(number(start)?..number(end)?));
    range.filter(|range| !range.is_empty()).ok_or_else(|| "it must be A..B, with A below B".to_owned())
}

pub async fn run(args: ExportArgs, output: &Output) -> anyhow::Result<Exit> {
    let cannot = |error: io::Error| Failure::new(Exit::Usage, format!("cannot write the export: {error}"));
    // The file has another name until it is complete.
    let file = args.out.as_deref().map(|path| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
        NamedTempFile::new_in(dir).map_err(cannot)
    });
    let file = file.transpose()?;
    let client = args.target.connect(args.timeout).await?;
    check_range(&args.uids, &client.known_uids())?;
    let mut writer: Box<dyn Write + '_> = match &file {
        Some(file) => Box::new(BufWriter::with_capacity(BUFFER, file.as_file())),
        None => Box::new(BufWriter::with_capacity(BUFFER, io::stdout())),
    };
    let written = write(&args, &client, &mut writer, output).await?;
    writer.flush().map_err(cannot)?;
    drop(writer);
    if let (Some(file), Some(path)) = (file, &args.out) {
        file.as_file().sync_all().map_err(cannot)?;
        file.persist(path).map_err(|error| cannot(error.error))?;
    }
    let users = args.uids.end - args.uids.start;
    if output.is_json() {
        output.json(&Written { users, written })?;
    } else {
        note(format_args!("{} of {} users have a number", grouped(written), grouped(users)));
    }
    Ok(Exit::Ok)
}

/// Checks, before anything is written, that the cluster has all users of a range.
fn check_range(uids: &Range<u64>, known: &[Range<u64>]) -> Result<(), Failure> {
    // The known ranges are in order of uid, so each of them may extend the covered part.
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

/// Writes the users in order of uid; returns the number of users that have a number.
async fn write(args: &ExportArgs, client: &Client, to: &mut dyn Write, output: &Output) -> anyhow::Result<u64> {
    let Range { start, end } = args.uids;
    let bar = output.progress_bar(end - start, "{pos}/{len} users  {per_sec:0}  ETA {eta}");
    let mut written = 0;
    if args.format == Format::Csv {
        writeln!(to, "{}", HEADER)?;
    }
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
            match args.format {
                Format::Csv => writeln!(to, "{uid},{value}")?,
                Format::Jsonl => writeln!(to, r#"{{"uid":"{uid}","value":"{value}"}}"#)?,
            }
        }
        bar.inc(uids.len() as u64);
    }
    bar.finish_and_clear();
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
