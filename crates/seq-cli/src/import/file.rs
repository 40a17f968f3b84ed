//! Reads the records of an import from a file, which may be compressed with gzip. The file is CSV with the header
//! `uid,value` or `series,id`, or it consists of JSON objects with these keys, one per line. If `--series` names a
//! series, each line of the file is only an id.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use seq_command::exit::{Exit, Failure};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::records::{Draft, MAX_RECORDS, Records};

/// The magic bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first line of a CSV file of users.
pub(crate) const HEADER: &str = "uid,value";

/// The first line of a CSV file of series.
pub(crate) const SERIES_HEADER: &str = "series,id";

/// Maximum length of a line, in bytes. The longest possible record is shorter, even with additional spaces.
const MAX_LINE_BYTES: u64 = 1_024;

/// The format of a file of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines of a user and a number behind the header `uid,value`, of a key and a number behind `key,value`, or of a
    /// series and an id behind `series,id`.
    Csv,
    /// A JSON object on each line, with `uid` and `value`, `key` or base64 `raw_key` and `value`, or `series` and `id`;
    /// numbers may be strings of digits.
    Jsonl,
}

impl Format {
    /// Returns the format of a file by its name.
    pub(super) fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?;
        match name.strip_suffix(".gz").unwrap_or(name).rsplit_once('.')?.1 {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            _ => None,
        }
    }
}

/// A line of JSON about a user. Unknown keys are ignored.
#[derive(Deserialize)]
struct UserLine<'a> {
    #[serde(borrow)]
    uid: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// A line of JSON about a series. Unknown keys are ignored.
#[derive(Deserialize)]
struct SeriesLine<'a> {
    #[serde(borrow)]
    series: &'a RawValue,
    #[serde(borrow)]
    id: &'a RawValue,
}

/// Reads all records of the file at `path`, and adds them to `draft`. If `series` is given, every line of the file is
/// an id of this series.
///
/// # Errors
/// The file cannot be read, or some of its lines are flawed.
pub(super) fn read(path: &Path, format: Format, series: Option<&str>, mut draft: Draft) -> Result<Records, Failure> {
    let name = path.display();
    let cannot = |error: io::Error| Failure::new(Exit::Usage, format!("{name}: cannot be read: {error}"));
    let mut lines = open(path).map_err(cannot)?;
    let (mut text, mut number) = (Vec::new(), 0);
    if series.is_some() {
        draft.expect_series();
    }
    // The keys of the first JSON object determine whether the file is about users or series.
    let mut is_decided = format == Format::Csv;
    loop {
        text.clear();
        if lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut text).map_err(cannot)? == 0 {
            break;
        }
        number += 1;
        let at = format_args!("{name}:{number}");
        if text.len() as u64 == MAX_LINE_BYTES {
            return Err(Failure::new(Exit::Usage, format!("{at}: the line is longer than {MAX_LINE_BYTES} bytes")));
        }
        let line = String::from_utf8_lossy(&text);
        let line = line.trim();
        let line = if number == 1 { line.trim_start_matches('\u{feff}') } else { line };
        if format == Format::Csv && number == 1 {
            let header = fields(line).unwrap_or_default();
            match (&*header.iter().map(String::as_str).collect::<Vec<_>>(), series) {
                (["value" | "id"], Some(_)) | (["uid", "value"], None) => continue,
                (["series", "id"], None) => {
                    draft.expect_series();
                    continue;
                }
                (_, Some(_)) => {}
                (_, None) => {
                    let flaw = format!("{at}: {line:?} is not the header {HEADER:?} or {SERIES_HEADER:?}");
                    return Err(Failure::new(Exit::Usage, flaw)
                        .hint("--series NAME takes a file with the ids of one series alone"));
                }
            }
        }
        if draft.is_full() {
            return Err(Failure::new(Exit::Usage, format!("{at}: an import has {MAX_RECORDS} records at most")));
        }
        let keys = if draft.is_of_series() { ("a series", "an id") } else { ("a uid", "a value") };
        match format {
            _ if line.is_empty() => {}
            Format::Csv => match (fields(line).as_deref(), series) {
                (Some([id]), Some(series)) => draft.add(number, at, series, id),
                (_, Some(series)) => draft.refuse(at, format_args!("{line:?} is not an id of series {series} alone")),
                (Some([counter, value]), None) => draft.add(number, at, counter, value),
                (_, None) => draft.refuse(at, format_args!("{line:?} is not {} and {}", keys.0, keys.1)),
            },
            // Arrays are refused, because the parser would accept an array of the fields in their order, which is not
            // part of the format.
            Format::Jsonl if !line.starts_with('{') => {
                draft.refuse(at, format_args!("{line:?} is not an object with uid and value, or series and id"));
            }
            Format::Jsonl => {
                if !is_decided && serde_json::from_str::<SeriesLine<'_>>(line).is_ok() {
                    draft.expect_series();
                }
                is_decided = true;
                match object(line, draft.is_of_series()) {
                    Ok((counter, value)) => draft.add(number, at, counter, value),
                    Err(error) => draft.refuse(at, error),
                }
            }
        }
    }
    if number == 0 {
        return Err(Failure::new(Exit::Usage, format!("{name} is empty")));
    }
    draft.finish(|line| format!("{name}:{line}"))
}

/// Returns the uid or the name of the series, and the value, from a line of JSON. Removes the quotes around strings.
/// Does not replace escape sequences in strings, because uids, ids and names of series contain no characters that need
/// them.
fn object(line: &str, is_of_series: bool) -> serde_json::Result<(&str, &str)> {
    let (counter, value) = if is_of_series {
        let SeriesLine { series, id } = serde_json::from_str(line)?;
        (series, id)
    } else {
        let UserLine { uid, value } = serde_json::from_str(line)?;
        (uid, value)
    };
    Ok((counter.get().trim_matches('"'), value.get().trim_matches('"')))
}

/// Splits a line of CSV into its fields, which may be quoted (RFC 4180). Returns `None` if the line is malformed. A
/// quoted field must end on the same line, because no field of a record contains a line end.
fn fields(line: &str) -> Option<Vec<String>> {
    if !line.contains('"') {
        return Some(line.split(',').map(|field| field.trim().to_owned()).collect());
    }
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).buffer_capacity(line.len()).from_reader(line.as_bytes());
    let record = reader.records().next()?.ok()?;
    Some(record.iter().map(|field| field.trim().to_owned()).collect())
}

/// Opens a file for reading, and decompresses its content if it is in gzip format. The path `-` stands for standard
/// input.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file: Box<dyn Read> = if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let is_gzip = reader.fill_buf()?.starts_with(&GZIP);
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(reader))) } else { Box::new(reader) })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_text(text: &[u8], format: Format) -> Result<Vec<(u64, u64)>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, text).unwrap();
        let place = format!("{}/", dir.path().display());
        let records =
            read(&path, format, None, Draft::default()).map_err(|failure| failure.to_string().replace(&place, ""))?;
        Ok(records.list().iter().map(|record| (record.key, record.value)).collect())
    }

    #[test]
    fn csv_and_json_lines_plain_and_gzip() {
        let csv = b"uid,value\r\n2,20\r\n\r\n1, 10\n";
        let records = Ok(vec![(1, 10), (2, 20)]);
        assert_eq!(read_text(csv, Format::Csv), records);
        // MySQL and pandas write this form of RFC 4180.
        let quoted = b"\xef\xbb\xbf\"uid\",\"value\"\r\n\"2\",20\r\n\"1\", 10\n";
        assert_eq!(read_text(quoted, Format::Csv), records);
        let json = br#"{"uid":"2","value":20,"note":"x"}
{"value":"10","uid":1}"#;
        assert_eq!(read_text(json, Format::Jsonl), records);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(csv).unwrap();
        assert_eq!(read_text(&gzip.finish().unwrap(), Format::Csv), records);
        let formats = ["a.csv", "a.csv.gz", "a.jsonl", "a.x", "csv"].map(|name| Format::of(Path::new(name)));
        assert_eq!(formats, [Some(Format::Csv), Some(Format::Csv), Some(Format::Jsonl), None, None]);
    }

    #[test]
    fn wrong_files_are_refused_with_their_lines() {
        let csv = |text: &str| read_text(text.as_bytes(), Format::Csv).unwrap_err();
        assert_eq!(csv(""), "f is empty");
        assert_eq!(csv("id,seq\n1,2\n"), "f:1: \"id,seq\" is not the header \"uid,value\" or \"series,id\"");
        assert_eq!(csv("uid,value\n1;2\n"), "f:2: \"1;2\" is not a uid and a value");
        assert_eq!(csv("uid,value\n1,2,3\n"), "f:2: \"1,2,3\" is not a uid and a value");
        assert_eq!(csv("uid,value\n\"1,2\n3,4\n"), "f:2: \"\\\"1,2\" is not a uid and a value");
        assert_eq!(csv("uid,value\n\"1\",\"2\"\"\"\n"), "f:2: value \"2\\\"\" is not a number");
        assert_eq!(csv("uid,value\n1,2\n3,-4\n"), "f:3: value -4 is negative");
        assert_eq!(csv(&format!("uid,value\n{}", "1".repeat(2_000))), "f:2: the line is longer than 1024 bytes");
        let json = |text: &str| read_text(text.as_bytes(), Format::Jsonl).unwrap_err();
        assert!(json("{\"uid\":1}\n").starts_with("f:1: missing field `value`"), "{}", json("{\"uid\":1}\n"));
        assert_eq!(json("[1,500]\n"), "f:1: \"[1,500]\" is not an object with uid and value, or series and id");
        assert_eq!(json("{\"uid\":1,\"value\":1.5}"), "f:1: value \"1.5\" is not a number");
        let cut = &flate2_of(b"uid,value\n1,2\n")[..20];
        assert!(read_text(cut, Format::Csv).unwrap_err().starts_with("f: cannot be read: "));
    }

    #[test]
    fn a_file_names_its_series_or_has_the_ids_of_one() {
        let read_series = |text: &str, format: Format, series: Option<&str>| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("f");
            std::fs::write(&path, text).unwrap();
            let place = format!("{}/", dir.path().display());
            let records = read(&path, format, series, Draft::default())
                .map_err(|failure| failure.to_string().replace(&place, ""))?;
            let row = |record| (records.series_of(record).unwrap().to_owned(), record.value);
            Ok::<Vec<(String, u64)>, String>(records.list().iter().map(row).collect())
        };
        let rows = Ok(vec![("orders".to_owned(), 7), ("photos".to_owned(), 101)]);
        assert_eq!(read_series("series,id\norders,7\n\"photos\", 101\n", Format::Csv, None), rows);
        let json = "{\"series\":\"orders\",\"id\":7}\n{\"id\":\"101\",\"series\":\"photos\"}\n";
        assert_eq!(read_series(json, Format::Jsonl, None), rows);
        for bare in ["7\n", "7", "value\n7\n", "\u{feff}id\r\n\"7\"\r\n"] {
            assert_eq!(read_series(bare, Format::Csv, Some("orders")), Ok(vec![("orders".to_owned(), 7)]), "{bare:?}");
        }
        let csv = |text, series| read_series(text, Format::Csv, series).unwrap_err();
        assert_eq!(csv("series,id\norders\n", None), "f:2: \"orders\" is not a series and an id");
        assert_eq!(csv("7\n9\n", Some("orders")), "f:2: series orders is also in f:1");
        assert_eq!(csv("orders,7\n", Some("orders")), "f:1: \"orders,7\" is not an id of series orders alone");
        let mixed = read_series("{\"series\":\"a\",\"id\":7}\n{\"uid\":1,\"value\":7}\n", Format::Jsonl, None);
        assert!(mixed.unwrap_err().starts_with("f:2: missing field `series`"));
    }

    fn flate2_of(text: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }
}
