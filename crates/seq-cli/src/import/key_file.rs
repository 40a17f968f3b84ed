//! Reads keys from a file, which may be compressed with gzip: the records of an import, or the list of an export.
//!
//! A key is any bytes, so a CSV field may have line ends within quotes, and nothing is trimmed from a key. JSON has
//! keys that are no UTF-8 as base64.

use std::borrow::Cow;
use std::io::{self, BufRead, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use seq_command::exit::{Exit, Failure};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::file::{Format, open};
use super::keys;
use super::records::{Draft, MAX_RECORDS, Records};

/// The first line of a CSV file of keys.
pub(crate) const KEY_HEADER: &str = "key,value";

/// Maximum length of a record, in bytes. A key in JSON takes up to six times its bytes.
const MAX_RECORD_BYTES: usize = 4_096;

/// The form of the records in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Records of an import, of keys and values.
    Records(Format),
    /// Records of a list, of which only the keys are read.
    List(Format),
    /// Lines, each of which is a key.
    Lines,
}

/// A line of JSON about a key. Unknown keys are ignored.
#[derive(Deserialize)]
struct KeyLine<'a> {
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    raw_key: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

/// The keys of a list, each once, in the order of their bytes.
#[derive(Debug)]
pub(crate) struct KeyList(Records);

impl KeyList {
    pub(crate) fn len(&self) -> usize {
        self.0.list().len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.list().iter().filter_map(|record| self.0.key_of(record))
    }
}

/// A key with the text of its value, which is empty in a list.
type KeyAndValue = (Vec<u8>, String);

/// Reads all records of the file at `path`, and adds them to `draft`.
///
/// # Errors
/// The file cannot be read, or some of its records are flawed.
pub(super) fn read(path: &Path, format: Format, draft: Draft) -> Result<Records, Failure> {
    read_as(path, Form::Records(format), draft)
}

/// Reads the keys in the file at `path`, in the order of their bytes. A file whose name does not end in .csv or .jsonl
/// has a key on each line.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_list(path: &Path) -> Result<KeyList, Failure> {
    let mut draft = Draft::default();
    draft.set_hint("nothing was written");
    read_as(path, Format::of(path).map_or(Form::Lines, Form::List), draft).map(KeyList)
}

fn read_as(path: &Path, form: Form, mut draft: Draft) -> Result<Records, Failure> {
    let name = path.display();
    let cannot = |error: io::Error| Failure::new(Exit::Usage, format!("{name}: cannot be read: {error}"));
    let mut lines = open(path).map_err(cannot)?;
    draft.expect_keys();
    let (mut record, mut next) = (Vec::new(), 1);
    loop {
        let number = next;
        let at = format_args!("{name}:{number}");
        record.clear();
        match read_record(&mut lines, form, &mut record).map_err(cannot)? {
            0 => break,
            lines => next += lines,
        }
        if record.len() > MAX_RECORD_BYTES {
            let what = format!("{at}: the record is longer than {MAX_RECORD_BYTES} bytes");
            return Err(
                Failure::new(Exit::Usage, what).hint("a quote in a field of CSV is doubled, and the field quoted")
            );
        }
        let bytes = record.strip_suffix(b"\n").map_or(&*record, |line| line.strip_suffix(b"\r").unwrap_or(line));
        if number == 1 && matches!(form, Form::Records(Format::Csv) | Form::List(Format::Csv)) {
            check_header(bytes, form).map_err(|flaw| Failure::new(Exit::Usage, format!("{at}: {flaw}")))?;
            continue;
        }
        if bytes.is_empty() {
            continue;
        }
        if draft.is_full() {
            return Err(Failure::new(Exit::Usage, format!("{at}: a file has {MAX_RECORDS} keys at most")));
        }
        match parse(bytes, form) {
            Ok((key, _)) if !matches!(form, Form::Records(_)) => draft.add_key(number, at, &key, "0"),
            Ok((key, value)) => draft.add_key(number, at, &key, &value),
            Err(flaw) => draft.refuse(at, flaw),
        }
    }
    if next == 1 {
        return Err(Failure::new(Exit::Usage, format!("{name} is empty")));
    }
    if !matches!(form, Form::Records(_)) {
        draft.keep_last();
    }
    draft.finish(|line| format!("{name}:{line}"))
}

/// Reads the next record with its line end; a longer record than [`MAX_RECORD_BYTES`] only in part. Returns the number
/// of lines that were read, which is 0 at the end of the file.
fn read_record(lines: &mut impl BufRead, form: Form, record: &mut Vec<u8>) -> io::Result<u64> {
    let is_csv = matches!(form, Form::Records(Format::Csv) | Form::List(Format::Csv));
    let mut count = 0;
    loop {
        let left = MAX_RECORD_BYTES + 1 - record.len();
        if lines.by_ref().take(left as u64).read_until(b'\n', record)? == 0 {
            return Ok(count);
        }
        count += 1;
        // A record of CSV goes on in the next line while a quote is open.
        let quotes = record.iter().filter(|byte| **byte == b'"').count();
        if !is_csv || quotes.is_multiple_of(2) || record.len() > MAX_RECORD_BYTES {
            return Ok(count);
        }
    }
}

/// Checks the header of a file of CSV.
///
/// # Errors
/// A text that describes another header.
fn check_header(line: &[u8], form: Form) -> Result<(), String> {
    let text = String::from_utf8_lossy(line);
    let header = fields(text.trim_start_matches('\u{feff}').as_bytes()).unwrap_or_default();
    let header: Vec<String> = header.iter().map(|field| String::from_utf8_lossy(field).trim().to_owned()).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    match (form, &*header) {
        (Form::Records(_), ["key", "value"]) => Ok(()),
        (Form::Records(_), _) => Err(format!("{text:?} is not the header {KEY_HEADER:?}")),
        (_, ["key", ..]) => Ok(()),
        _ => Err(format!("{text:?} is not a header that begins with \"key\"")),
    }
}

/// Returns the key and the value of a record.
///
/// # Errors
/// A text that describes a malformed record.
fn parse(record: &[u8], form: Form) -> Result<KeyAndValue, String> {
    match form {
        Form::Lines => Ok((record.to_vec(), String::new())),
        Form::Records(Format::Csv) => match fields(record).as_deref() {
            Some([key, value]) => Ok((key.clone(), String::from_utf8_lossy(value).trim().to_owned())),
            _ => Err(format!("{} is not a key and a value", keys::shown(record))),
        },
        Form::List(Format::Csv) => match fields(record).as_deref() {
            Some([key, ..]) => Ok((key.clone(), String::new())),
            _ => Err(format!("{} does not begin with a key", keys::shown(record))),
        },
        // Arrays are refused, because the parser would accept an array of the fields in their order.
        Form::Records(Format::Jsonl) | Form::List(Format::Jsonl) if !record.trim_ascii_start().starts_with(b"{") => {
            Err(format!("{} is not an object with key and value", keys::shown(record)))
        }
        Form::Records(Format::Jsonl) => match object(record)? {
            (key, Some(value)) => Ok((key, value)),
            (_, None) => Err("missing field `value`".to_owned()),
        },
        Form::List(Format::Jsonl) => Ok((object(record)?.0, String::new())),
    }
}

/// Returns the key and the value of a line of JSON.
///
/// # Errors
/// A text that describes a malformed line.
fn object(line: &[u8]) -> Result<(Vec<u8>, Option<String>), String> {
    let KeyLine { key, raw_key, value } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let key = match (key, raw_key) {
        (Some(key), None) => key.into_owned().into_bytes(),
        (None, Some(raw)) => {
            STANDARD.decode(&*raw).map_err(|error| format!("raw_key {raw:?} is not base64: {error}"))?
        }
        (None, None) => return Err("missing field `key`, or `raw_key` with base64".to_owned()),
        (Some(_), Some(_)) => return Err("the key is `key` or `raw_key`, and not both".to_owned()),
    };
    Ok((key, value.map(|value| value.get().trim_matches('"').to_owned())))
}

/// Splits a record of CSV into its fields, which may be quoted (RFC 4180). Returns `None` if the record is malformed.
fn fields(record: &[u8]) -> Option<Vec<Vec<u8>>> {
    let quotes = record.iter().filter(|byte| **byte == b'"').count();
    if quotes == 0 {
        return Some(record.split(|byte| *byte == b',').map(<[u8]>::to_vec).collect());
    }
    if !quotes.is_multiple_of(2) {
        return None;
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).buffer_capacity(record.len()).from_reader(record);
    let mut records = reader.byte_records();
    let first = records.next()?.ok()?;
    records.next().is_none().then(|| first.iter().map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<(Vec<u8>, u64)>;

    fn at<T>(name: &str, text: &[u8], read: impl Fn(&Path) -> Result<T, Failure>) -> Result<T, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let place = format!("{}/", dir.path().display());
        read(&path).map_err(|failure| failure.to_string().replace(&place, ""))
    }

    fn rows(text: &[u8], format: Format) -> Result<Rows, String> {
        let records = at("f", text, |path| read(path, format, Draft::default()))?;
        Ok(records.list().iter().map(|record| (records.key_of(record).unwrap().to_vec(), record.value)).collect())
    }

    #[test]
    fn csv_has_keys_of_any_bytes() {
        let csv = b"key,value\r\nconv:b,2\r\n\r\n a b ,1\n\"x,\"\"y\"\"\nz\r\n\", 3\n\xff\x00,4\n\"conv:a\",\"5\"";
        let expected: Rows = vec![
            (b" a b ".to_vec(), 1),
            (b"conv:a".to_vec(), 5),
            (b"conv:b".to_vec(), 2),
            (b"x,\"y\"\nz\r\n".to_vec(), 3),
            (b"\xff\x00".to_vec(), 4),
        ];
        assert_eq!(rows(csv, Format::Csv), Ok(expected));
        let longest = [b"\xef\xbb\xbfkey,value\n\"".as_slice(), &[b'"'; 1_024], b"\",9\n"].concat();
        assert_eq!(rows(&longest, Format::Csv), Ok(vec![(vec![b'"'; 512], 9)]));
    }

    #[test]
    fn json_has_keys_as_text_or_base64() {
        let json = br#"{"key":"a\n\u0001\u00e4","value":"7","note":"x"}
{"raw_key":"/wA=","value":8}"#;
        let expected = vec![("a\n\u{1}ä".as_bytes().to_vec(), 7), (b"\xff\x00".to_vec(), 8)];
        assert_eq!(rows(json, Format::Jsonl), Ok(expected));
        let longest = format!("{{\"key\":\"{}\",\"value\":9}}", "\\u0001".repeat(512));
        assert_eq!(rows(longest.as_bytes(), Format::Jsonl), Ok(vec![(vec![1; 512], 9)]));
    }

    #[test]
    fn wrong_files_are_refused_with_their_lines() {
        let csv = |text: &str| rows(text.as_bytes(), Format::Csv).unwrap_err();
        assert_eq!(csv(""), "f is empty");
        assert_eq!(csv("conv:1,2\n"), "f:1: \"conv:1,2\" is not the header \"key,value\"");
        assert_eq!(csv("key,value\nconv:1\n"), "f:2: \"conv:1\" is not a key and a value");
        assert_eq!(csv("key,value\na,b,1\n"), "f:2: \"a,b,1\" is not a key and a value");
        assert_eq!(csv("key,value\n\"a\nb\",x\nc,-1\n"), "f:2: value \"x\" is not a number\nf:4: value -1 is negative");
        assert_eq!(csv("key,value\n\"a,1\nb,2\n"), r#"f:2: "\"a,1\nb,2" is not a key and a value"#);
        assert_eq!(csv("key,value\n,1\n"), "f:2: the key has 0 bytes: a key has 1 to 512");
        assert_eq!(csv("key,value\na,1\n\"a\",1\n"), "f:3: key \"a\" is also in f:2");
        assert_eq!(
            csv(&format!("key,value\n\"{}\n", "a\n".repeat(3_000))),
            "f:2: the record is longer than 4096 bytes"
        );
        assert_eq!(csv(&format!("key,value\n{}\n", "a".repeat(5_000))), "f:2: the record is longer than 4096 bytes");
        let json = |text: &str| rows(text.as_bytes(), Format::Jsonl).unwrap_err();
        assert_eq!(json("{\"value\":1}"), "f:1: missing field `key`, or `raw_key` with base64");
        assert_eq!(json("{\"key\":\"a\"}"), "f:1: missing field `value`");
        assert_eq!(
            json("{\"key\":\"a\",\"raw_key\":\"YQ==\",\"value\":1}"),
            "f:1: the key is `key` or `raw_key`, and not both"
        );
        assert!(json("{\"raw_key\":\"Y\",\"value\":1}").starts_with("f:1: raw_key \"Y\" is not base64: "));
        assert_eq!(json("[\"a\",1]"), "f:1: \"[\\\"a\\\",1]\" is not an object with key and value");
    }

    #[test]
    fn a_list_has_its_keys_once() {
        let list = |name: &str, text: &[u8]| {
            at(name, text, |path| Ok(read_list(path)?.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()))
        };
        let keys: Vec<Vec<u8>> = vec![b"a b".to_vec(), b"c,d".to_vec(), b"\xff".to_vec()];
        assert_eq!(list("keys.txt", b"c,d\r\n\xff\n\na b\nc,d"), Ok(keys.clone()));
        assert_eq!(list("keys.csv", b"key,value\n\"c,d\",7\n\xff,x\na b\n"), Ok(keys.clone()));
        assert_eq!(
            list("keys.jsonl", b"{\"key\":\"a b\"}\n{\"raw_key\":\"/w==\",\"value\":1}\n{\"key\":\"c,d\"}"),
            Ok(keys)
        );
        assert_eq!(
            list("keys.csv", b"a\nb\n"),
            Err("keys.csv:1: \"a\" is not a header that begins with \"key\"".to_owned())
        );
        assert_eq!(list("keys", &[b'x'; 513]), Err("keys:1: the key has 513 bytes: a key has 1 to 512".to_owned()));
    }
}
