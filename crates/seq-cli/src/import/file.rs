//! Records in a file: CSV with the header `uid,value`, or JSON lines with these keys; plain or gzip.

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

/// The first line of a CSV file.
pub(crate) const HEADER: &str = "uid,value";

/// Maximum length of a line in bytes: the longest record, and room for spaces.
const MAX_LINE_BYTES: u64 = 1_024;

/// The format of a file of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines of a user and a number behind the header `uid,value`.
    Csv,
    /// A JSON object on each line, with `uid` and `value` as numbers or strings of digits.
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

/// A line of JSON. Unknown keys are ignored.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    uid: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// Reads a whole file into a draft.
///
/// # Errors
/// The file cannot be read, or lines of it are flawed.
pub(super) fn read(path: &Path, format: Format, mut draft: Draft) -> Result<Records, Failure> {
    let name = path.display();
    let cannot = |error: io::Error| Failure::new(Exit::Usage, format!("{name}: cannot be read: {error}"));
    let mut lines = open(path).map_err(cannot)?;
    let (mut text, mut number) = (Vec::new(), 0);
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
        if format == Format::Csv && number == 1 {
            if fields(line.trim_start_matches('\u{feff}')).as_deref() != Some(&["uid".to_owned(), "value".to_owned()]) {
                return Err(Failure::new(Exit::Usage, format!("{at}: {line:?} is not the header {HEADER:?}")));
            }
            continue;
        }
        if draft.is_full() {
            return Err(Failure::new(Exit::Usage, format!("{at}: an import has {MAX_RECORDS} users at most")));
        }
        match format {
            _ if line.is_empty() => {}
            Format::Csv => match fields(line).as_deref() {
                Some([uid, value]) => draft.add(number, at, uid, value),
                _ => draft.refuse(at, format_args!("{line:?} is not a uid and a value")),
            },
            // The parser would read an array as the fields in their order, which is not part of the format.
            Format::Jsonl if !line.starts_with('{') => {
                draft.refuse(at, format_args!("{line:?} is not an object with uid and value"));
            }
            Format::Jsonl => match serde_json::from_str::<Line<'_>>(line) {
                Ok(Line { uid, value }) => {
                    let digits = |raw: &RawValue| raw.get().trim_matches('"').to_owned();
                    draft.add(number, at, &digits(uid), &digits(value));
                }
                Err(error) => draft.refuse(at, error),
            },
        }
    }
    if number == 0 {
        return Err(Failure::new(Exit::Usage, format!("{name} is empty")));
    }
    draft.finish(|line| format!("{name}:{line}"))
}

/// Splits a line of CSV, in which fields may be quoted (RFC 4180); `None` if the line is malformed. No record has a
/// field of several lines, so a quote that is left open is a flaw of its line.
fn fields(line: &str) -> Option<Vec<String>> {
    if !line.contains('"') {
        return Some(line.split(',').map(|field| field.trim().to_owned()).collect());
    }
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).buffer_capacity(line.len()).from_reader(line.as_bytes());
    let record = reader.records().next()?.ok()?;
    Some(record.iter().map(|field| field.trim().to_owned()).collect())
}

/// Opens a file to read; `-` is standard input.
fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
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
            read(&path, format, Draft::default()).map_err(|failure| failure.to_string().replace(&place, ""))?;
        Ok(records.list().iter().map(|record| (record.uid, record.value)).collect())
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
        assert_eq!(csv("id,seq\n1,2\n"), "f:1: \"id,seq\" is not the header \"uid,value\"");
        assert_eq!(csv("uid,value\n1;2\n"), "f:2: \"1;2\" is not a uid and a value");
        assert_eq!(csv("uid,value\n1,2,3\n"), "f:2: \"1,2,3\" is not a uid and a value");
        assert_eq!(csv("uid,value\n\"1,2\n3,4\n"), "f:2: \"\\\"1,2\" is not a uid and a value");
        assert_eq!(csv("uid,value\n\"1\",\"2\"\"\"\n"), "f:2: value \"2\\\"\" is not a number");
        assert_eq!(csv("uid,value\n1,2\n3,-4\n"), "f:3: value -4 is negative");
        assert_eq!(csv(&format!("uid,value\n{}", "1".repeat(2_000))), "f:2: the line is longer than 1024 bytes");
        let json = |text: &str| read_text(text.as_bytes(), Format::Jsonl).unwrap_err();
        assert!(json("{\"uid\":1}\n").starts_with("f:1: missing field `value`"), "{}", json("{\"uid\":1}\n"));
        assert_eq!(json("[1,500]\n"), "f:1: \"[1,500]\" is not an object with uid and value");
        assert_eq!(json("{\"uid\":1,\"value\":1.5}"), "f:1: value \"1.5\" is not a number");
        let cut = &flate2_of(b"uid,value\n1,2\n")[..20];
        assert!(read_text(cut, Format::Csv).unwrap_err().starts_with("f: cannot be read: "));
    }

    fn flate2_of(text: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        gzip.finish().unwrap()
    }
}
