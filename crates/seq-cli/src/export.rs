//! The command `export`, which writes the last numbers of a range of users or of a list of keys, or the last ids of
//! counter series. The output is CSV or lines of JSON, which the command `import` can read.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use seq_client::{CallError, Client, Current, Keyspace, Series};
use seq_command::exit::{Exit, Failure};
use seq_command::output::{Output, grouped, note};
use seq_command::target::Target;
use seq_command::time_limit::time;
use seq_core::limits::MAX_ITEMS;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::counter_series;
use crate::import::{Format, HEADER, KEY_HEADER, KeyList, SERIES_HEADER, batches, read_list};
use crate::item_report::call_failure;
use crate::keyspace;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 16;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  seqsvr export --uids 0..1_000_000 --out counters.csv\n  \
                        seqsvr export --uids 0..1000 --format jsonl | jq -r .value\n  \
                        seqsvr export --series orders,invoices --out series.csv\n  \
                        seqsvr export --keyspace main --keys conversations.txt --out keys.csv\n\n\
                        Keys are not stored, so the cluster cannot list them: --keys takes a file with the keys to read, plain or gzip. It is CSV if its name \
                        ends in .csv, with a header that begins with `key`, and lines of JSON with `key`, or `raw_key` in base64, if it ends in .jsonl; any other \
                        file, and `-` for standard input, has a key on each line. A key that occurs twice is written once. In JSON, a key that is no UTF-8 is written \
                        as `raw_key` in base64.\n\n\
                        Users and keys without a number and series without an id are left out. After a crash of the owner, the number of a user, a key or a series is an upper bound \
                        until its next allocation; so the keys that never had a number are written too, with the bound of their bucket. Users, keys and series that get numbers during the export are read at different moments; stop the callers for an \
                        export of a single moment.\n\n\
                        Exit codes: 0 written, 2 users outside the sets, a name of no counter series, a list with a key that is none, or a file that cannot be written, 1 there is no such keyspace, 3 refused for now, 4 no node \
                        responded, 7 the deadline of a call passed. Without 0 there is no file.")]
pub struct ExportArgs {
    #[command(flatten)]
    counters: CounterArgs,
    /// The keyspace of the keys [default: the only one]
    #[arg(long, value_name = "NAME", requires = "keys")]
    keyspace: Option<String>,
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

/// The users, keys or series whose numbers are written.
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
    /// A file with the keys of a keyspace, because the cluster does not store keys.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// The users, keys or series whose last numbers the command writes. All of them exist in the cluster.
enum Counters {
    Users(Range<u64>),
    Series(Vec<Series>),
    Keys(Keyspace, KeyList),
}

/// Number of users in the requested range, of keys in the list, or of requested series.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Total {
    Users(u64),
    Series(u64),
    Keys(u64),
}

/// The outcome of an export to a file.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    total: Total,
    /// Number of users, keys or series in the output. Users, keys and series without a number are left out.
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
    let counters = args.counters.find(&client, args.keyspace.as_deref()).await?;
    let mut writer: Box<dyn Write + '_> = match &file {
        Some(file) => Box::new(BufWriter::with_capacity(BUFFER, file.as_file())),
        None => Box::new(BufWriter::with_capacity(BUFFER, io::stdout())),
    };
    let (header, total) = match &counters {
        Counters::Users(uids) => (HEADER, Total::Users(uids.end - uids.start)),
        Counters::Series(series) => (SERIES_HEADER, Total::Series(series.len() as u64)),
        Counters::Keys(_, keys) => (KEY_HEADER, Total::Keys(keys.len() as u64)),
    };
    if args.format == Format::Csv {
        writeln!(writer, "{header}").map_err(cannot)?;
    }
    let written = match &counters {
        Counters::Users(uids) => write_users(uids, args.format, &client, &mut writer, output).await?,
        Counters::Series(series) => write_series(series, args.format, &client, &mut writer).await?,
        Counters::Keys(keyspace, keys) => write_keys(keyspace, keys, args.format, &client, &mut writer, output).await?,
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
        Total::Keys(keys) => note(format_args!("{written} of {} keys have a number", grouped(keys))),
    }
    Ok(Exit::Ok)
}

impl CounterArgs {
    /// Finds the requested users, keys or series in the cluster, before the command writes anything.
    ///
    /// # Errors
    /// A requested user is in no set of the cluster, a requested series does not exist or is not a counter series, the
    /// keyspace does not exist, or the file with the keys cannot be read.
    async fn find(self, client: &Client, keyspace: Option<&str>) -> anyhow::Result<Counters> {
        if let Some(path) = self.keys {
            return Ok(Counters::Keys(keyspace::open(client, keyspace).await?, read_list(&path)?));
        }
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

/// Writes the last number of each key in the order of their bytes, except keys without a number. Returns the number of
/// keys written.
async fn write_keys(
    keyspace: &Keyspace,
    keys: &KeyList,
    format: Format,
    client: &Client,
    to: &mut dyn Write,
    output: &Output,
) -> anyhow::Result<u64> {
    let keys: Vec<&[u8]> = keys.iter().collect();
    let bar = output.progress_bar(keys.len() as u64, "{pos}/{len} keys  {per_sec:0}  ETA {eta}");
    let mut written = 0;
    for batch in batches(&keys) {
        let results = keyspace.current_many(batch).await.map_err(|error| call_failure(&error, client))?;
        for (key, result) in batch.iter().zip(results) {
            let Current { value, .. } = result.map_err(|error| call_failure(&error, client))?;
            if value == 0 {
                continue;
            }
            written += 1;
            match format {
                Format::Csv => to.write_all(&csv_row(key, value))?,
                Format::Jsonl => writeln!(to, "{}", json_row(key, value))?,
            }
        }
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(written)
}

/// Returns a line of CSV with a key and its number. The key is quoted if it has a comma, a quote or a line end (RFC
/// 4180).
fn csv_row(key: &[u8], value: u64) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 24);
    if key.iter().any(|byte| b",\"\r\n".contains(byte)) {
        row.push(b'"');
        for byte in key {
            row.extend_from_slice(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) });
        }
        row.push(b'"');
    } else {
        row.extend_from_slice(key);
    }
    row.extend_from_slice(format!(",{value}\n").as_bytes());
    row
}

/// Returns a line of JSON with a key and its number. The key is base64 if it is no UTF-8.
fn json_row(key: &[u8], value: u64) -> String {
    match std::str::from_utf8(key) {
        Ok(key) => format!(r#"{{"key":{},"value":"{value}"}}"#, serde_json::Value::from(key)),
        Err(_) => format!(r#"{{"raw_key":"{}","value":"{value}"}}"#, STANDARD.encode(key)),
    }
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
    fn rows_have_any_key() {
        let csv = |key: &[u8]| csv_row(key, 7);
        assert_eq!([csv(b" a\xff"), csv(b"a,b")], [b" a\xff,7\n".to_vec(), b"\"a,b\",7\n".to_vec()]);
        assert_eq!([csv(b"\""), csv(b"a\nb")], [b"\"\"\"\",7\n".to_vec(), b"\"a\nb\",7\n".to_vec()]);
        assert_eq!(json_row("a\n\"ä".as_bytes(), 7), r#"{"key":"a\n\"ä","value":"7"}"#);
        assert_eq!(json_row(b"\xff\0", 7), r#"{"raw_key":"/wA=","value":"7"}"#);
    }

    #[test]
    fn users_are_a_range() {
        assert_eq!(uids("0..1_000"), Ok(0..1_000));
        for wrong in ["", "5", "5..5", "6..5", "a..b", "-1..5"] {
            assert!(uids(wrong).is_err(), "{wrong}");
        }
    }
}
