//! The records of an import. A record has a number for one user or one key, or an id for one series. The import reads
//! and checks all records before it changes anything.

use std::collections::BTreeMap;
use std::fmt;

use seq_command::exit::{Exit, Failure};
use seq_command::output::note;
use seq_core::limits::MAX_ADVANCE;
use seq_ids::Id;
use sha2::{Digest, Sha256};

use super::keys::{self, KeyBytes, SortedKeys};

/// Maximum number of records of one import. The import keeps all records in memory. A record takes 24 bytes, and a
/// record of a key 10 bytes more and the key.
pub(super) const MAX_RECORDS: usize = 100_000_000;

/// Maximum number of flaws that are shown.
pub(super) const FLAWS_SHOWN: usize = 20;

/// Hint of an import whose records are invalid.
const HINT: &str =
    "nothing was changed; --skip-invalid imports the others, except of users, series and keys with two numbers";

/// The number to which the import must raise a user or key, or the last id to which it must raise a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    /// Uid of the user, index of the series in the order in which the source first names the series, or rank of the
    /// key in the order of the keys' bytes. While the source is read, the place of the key in [`KeyBytes`].
    pub(super) key: u64,
    pub(super) value: u64,
    /// Place of the record in the source, from 1. It is the line in a file, or the position among the keys that Redis
    /// servers return.
    pub(super) place: u64,
}

/// Valid records of a source.
///
/// Invariant: the records are sorted by their keys, and no two have the same key. Each value is an [`Id`] of a series,
/// or a number of a user or key that is at most [`MAX_ADVANCE`].
#[derive(Debug)]
pub(super) struct Records {
    list: Vec<Record>,
    names: Names,
    /// Number of invalid records that were left out.
    skipped: u64,
}

/// The counters that records are about.
#[derive(Debug)]
enum Names {
    Users,
    /// Names of the series, by the keys of their records.
    Series(Vec<String>),
    Keys(SortedKeys),
}

/// The counters that the records of a draft are about.
#[derive(Debug, Default)]
enum DraftNames {
    #[default]
    Users,
    /// Keys of the series, by their names.
    Series(BTreeMap<String, u64>),
    Keys(KeyBytes),
}

/// Records of a source, some of which may be invalid.
#[derive(Debug, Default)]
pub(super) struct Draft {
    list: Vec<Record>,
    names: DraftNames,
    flaws: Flaws,
    /// Whether invalid records are left out.
    skips_invalid: bool,
}

/// Flaws of a source's records, in the order of the source. Only the texts of the first [`FLAWS_SHOWN`] flaws are kept.
#[derive(Debug, Default)]
pub(super) struct Flaws {
    first: Vec<String>,
    count: u64,
    /// Hint of the error; that of an import if absent.
    hint: Option<&'static str>,
}

impl Flaws {
    pub(super) fn add(&mut self, place: impl fmt::Display, flaw: impl fmt::Display) {
        self.count += 1;
        if self.first.len() < FLAWS_SHOWN {
            self.first.push(format!("{place}: {flaw}"));
        }
    }

    /// Removes all flaws, and prints that their records are skipped. Returns the number of flaws.
    pub(super) fn skip(&mut self) -> u64 {
        let flaws = std::mem::take(self);
        flaws.lines().for_each(|flaw| note(format_args!("skipped: {flaw}")));
        flaws.count
    }

    /// Returns an error if there are flaws.
    ///
    /// # Errors
    /// The error lists the first flaws with their places, and states the number of all other flaws.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        let text = self.lines().collect::<Vec<_>>().join("\n");
        Err(Failure::new(Exit::Usage, text).hint(self.hint.unwrap_or(HINT)))
    }

    /// Returns one line for each of the first flaws, and one line with the number of all other flaws.
    fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.count - self.first.len() as u64;
        self.first.iter().cloned().chain((more > 0).then(|| format!("{more} more")))
    }
}

impl Draft {
    /// Creates a draft without records. If `skips_invalid` is true, [`Draft::finish`] leaves out invalid records.
    pub(super) fn new(skips_invalid: bool) -> Draft {
        Draft { skips_invalid, ..Draft::default() }
    }

    /// Makes the draft expect a series and an id in each record, instead of a uid and a number.
    pub(super) fn expect_series(&mut self) {
        self.names = DraftNames::Series(BTreeMap::new());
    }

    /// Makes the draft expect keys, which [`Draft::add_key`] adds, instead of users.
    pub(super) fn expect_keys(&mut self) {
        self.names = DraftNames::Keys(KeyBytes::default());
    }

    /// Replaces the hint of the error that lists invalid records.
    pub(super) fn set_hint(&mut self, hint: &'static str) {
        self.flaws.hint = Some(hint);
    }

    /// Returns whether the records are about series.
    pub(super) fn is_of_series(&self) -> bool {
        matches!(self.names, DraftNames::Series(_))
    }

    /// Returns whether the records are about keys.
    pub(super) fn is_of_keys(&self) -> bool {
        matches!(self.names, DraftNames::Keys(_))
    }

    /// Parses a record and adds it, or adds its flaw. `counter` is the uid or the name of the series, and `value` the
    /// number or the id. `place` is the place of the record in the source, and `at` is this place for messages.
    pub(super) fn add(&mut self, place: u64, at: impl fmt::Display, counter: &str, value: &str) {
        match self.parse(counter, value) {
            Ok((key, value)) => self.list.push(Record { key, value, place }),
            Err(flaw) => self.flaws.add(at, flaw),
        }
    }

    /// Adds a record of a key, or its flaw, as [`Draft::add`] does.
    pub(super) fn add_key(&mut self, place: u64, at: impl fmt::Display, key: &[u8], value: &str) {
        let DraftNames::Keys(keys) = &mut self.names else { unreachable!("the draft is not about keys") };
        match number("value", value, MAX_ADVANCE).and_then(|value| Ok((keys.push(key)?, value))) {
            Ok((key, value)) => self.list.push(Record { key, value, place }),
            Err(flaw) => self.flaws.add(at, flaw),
        }
    }

    /// Parses the key and the value of a record of a user or a series.
    fn parse(&mut self, counter: &str, value: &str) -> Result<(u64, u64), String> {
        let DraftNames::Series(names) = &mut self.names else {
            return Ok((number("uid", counter, u64::MAX)?, number("value", value, MAX_ADVANCE)?));
        };
        let id: Id = value.parse().map_err(|flaw| format!("{flaw}"))?;
        let position = names.len() as u64;
        Ok((*names.entry(counter.to_owned()).or_insert(position), id.get()))
    }

    /// Adds a flaw instead of a record.
    pub(super) fn refuse(&mut self, at: impl fmt::Display, flaw: impl fmt::Display) {
        self.flaws.add(at, flaw);
    }

    /// Returns whether the draft has the maximum number of records.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_RECORDS
    }

    /// Keeps only the last record of each uid or key. It is needed for sources that may return the same uid or key
    /// several times.
    pub(super) fn keep_last(&mut self) {
        if let DraftNames::Keys(keys) = &self.names {
            let order = |one: &Record, other: &Record| keys.order(one.key, other.key);
            self.list.sort_unstable_by(|one, other| order(one, other).then(other.place.cmp(&one.place)));
            self.list.dedup_by(|one, other| order(one, other).is_eq());
            return;
        }
        self.list.sort_unstable_by_key(|record| (record.key, std::cmp::Reverse(record.place)));
        self.list.dedup_by_key(|record| record.key);
    }

    /// Checks the draft and returns its records. If the draft skips invalid records, they are left out. `at` converts
    /// the place of a record to a text for messages.
    ///
    /// # Errors
    /// Two records have the same user, series or key, or records are invalid and not skipped. The error lists the first
    /// flaws with their places, and states the number of all other flaws.
    pub(super) fn finish(mut self, at: impl Fn(u64) -> String) -> Result<Records, Failure> {
        let skipped = if self.skips_invalid { self.flaws.skip() } else { 0 };
        let names = match self.names {
            DraftNames::Users => Names::Users,
            DraftNames::Series(names) => {
                let mut names: Vec<(String, u64)> = names.into_iter().collect();
                names.sort_unstable_by_key(|(_, position)| *position);
                Names::Series(names.into_iter().map(|(name, _)| name).collect())
            }
            DraftNames::Keys(keys) => {
                self.list.sort_unstable_by(|one, other| keys.order(one.key, other.key));
                Names::Keys(keys.rank(self.list.iter_mut().map(|record| &mut record.key)))
            }
        };
        self.list.sort_unstable();
        let records = Records { list: self.list, names, skipped };
        for pair in records.list.windows(2).filter(|pair| pair[0].key == pair[1].key) {
            let (first, second) = (pair[0].place.min(pair[1].place), pair[0].place.max(pair[1].place));
            let counter = match &records.names {
                Names::Users => format!("uid {}", pair[0].key),
                Names::Series(names) => format!("series {}", names[pair[0].key as usize]),
                Names::Keys(keys) => format!("key {}", keys::shown(keys.get(pair[0].key))),
            };
            self.flaws.add(at(second), format!("{counter} is also in {}", at(first)));
        }
        self.flaws.check()?;
        Ok(records)
    }
}

impl Records {
    pub(super) fn list(&self) -> &[Record] {
        &self.list
    }

    /// Returns the name of the series to which a record belongs. Returns `None` if the records are not about series.
    pub(super) fn series_of(&self, record: &Record) -> Option<&str> {
        let Names::Series(names) = &self.names else { return None };
        Some(&names[record.key as usize])
    }

    /// Returns the key to which a record belongs. Returns `None` if the records are not about keys.
    pub(super) fn key_of(&self, record: &Record) -> Option<&[u8]> {
        let Names::Keys(keys) = &self.names else { return None };
        Some(keys.get(record.key))
    }

    /// Returns whether the records are about series.
    pub(super) fn is_of_series(&self) -> bool {
        matches!(self.names, Names::Series(_))
    }

    /// Returns whether the records are about keys.
    pub(super) fn is_of_keys(&self) -> bool {
        matches!(self.names, Names::Keys(_))
    }

    /// Removes the records whose keys `accepts` rejects. `skipped` is the number of these records, by which
    /// [`Records::skipped`] grows.
    pub(super) fn retain(&mut self, accepts: impl Fn(u64) -> bool, skipped: u64) {
        self.list.retain(|record| accepts(record.key));
        self.skipped += skipped;
    }

    /// Returns the number of records that were left out.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of records whose keys are at most `key`.
    pub(super) fn up_to(&self, key: u64) -> usize {
        self.list.partition_point(|record| record.key <= key)
    }
}

/// Digest of records. It depends on the uids, names of series or keys, and on the values, in the order of the records.
/// It does not depend on whether the records came from a file or from Redis.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordsDigest {
    hash: Sha256,
    /// Number of records in the digest.
    count: usize,
}

impl RecordsDigest {
    /// Adds records to the digest, from the index `count` up to the index `end`, exclusive.
    pub(super) fn extend(&mut self, records: &Records, end: usize) {
        for record in records.list.get(self.count..end).unwrap_or_default() {
            match &records.names {
                Names::Users => self.hash.update(record.key.to_le_bytes()),
                // The byte 0 marks the end of the name.
                Names::Series(names) => self.hash.update([names[record.key as usize].as_bytes(), &[0]].concat()),
                // The length marks the end of the key, which may have the byte 0.
                Names::Keys(keys) => {
                    let key = keys.get(record.key);
                    self.hash.update((key.len() as u64).to_le_bytes());
                    self.hash.update(key);
                }
            }
            self.hash.update(record.value.to_le_bytes());
        }
        self.count = self.count.max(end);
    }

    /// Returns the digest in hex.
    pub(super) fn hex(&self) -> String {
        self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Parses a decimal number of at most `most`. `what` names the number in an error.
fn number(what: &str, text: &str, most: u64) -> Result<u64, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{what} {text:?} is not a number"));
    }
    if digits.len() < text.len() {
        return Err(format!("{what} {text} is negative"));
    }
    let above = || format!("{what} {text} is above {most}");
    text.parse().ok().filter(|number| *number <= most).ok_or_else(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: u64) -> String {
        format!("f:{place}")
    }

    fn draft(lines: &[(&str, &str)]) -> Draft {
        let mut draft = Draft::default();
        for (place, (uid, value)) in (2..).zip(lines) {
            draft.add(place, line(place), uid, value);
        }
        draft
    }

    #[test]
    fn records_are_sorted_and_their_digest_is_of_the_content() {
        let hex = |records: &Records, end| {
            let mut digest = RecordsDigest::default();
            (0..=end).for_each(|end| digest.extend(records, end));
            digest.hex()
        };
        let most = ("18446744073709551615", "4611686018427387903");
        let records = draft(&[("7", "5"), ("3", "0"), most]).finish(line).unwrap();
        assert_eq!(records.list().iter().map(|record| record.key).collect::<Vec<_>>(), [3, 7, u64::MAX]);
        assert_eq!([2, 3, 7].map(|uid| records.up_to(uid)), [0, 1, 2]);
        let other = draft(&[("3", "0"), most, ("7", "5")]).finish(line).unwrap();
        assert_eq!(hex(&records, 3), hex(&other, 3));
        let moved = draft(&[("3", "0"), ("7", "6")]).finish(line).unwrap();
        assert_eq!(hex(&records, 1), hex(&moved, 1), "the same as far as they are the same");
        assert_ne!(hex(&records, 2), hex(&moved, 2));
    }

    #[test]
    fn invalid_records_may_be_left_out_except_a_uid_with_two_numbers() {
        let records = |lines: &[(&str, &str)]| {
            let mut draft = draft(lines);
            draft.skips_invalid = true;
            draft.finish(line)
        };
        let kept = records(&[("1", "5"), ("alice", "1"), ("2", "x")]).unwrap();
        assert_eq!((kept.list().len(), kept.skipped()), (1, 2));
        let refused = records(&[("alice", "1"), ("2", "1"), ("2", "3")]).unwrap_err();
        assert_eq!(refused.to_string(), "f:4: uid 2 is also in f:3");
    }

    #[test]
    fn every_flaw_is_named_with_its_place() {
        let lines = [
            ("1", "-5"),
            ("x", "1"),
            ("2", "4611686018427387905"),
            ("3", ""),
            ("1", "1"),
            ("4", "1"),
            ("4", "2"),
            ("5", "1.5"),
        ];
        let error = draft(&lines).finish(line).unwrap_err();
        assert_eq!(error.exit(), Exit::Usage);
        assert_eq!(
            error.to_string(),
            "f:2: value -5 is negative\nf:3: uid \"x\" is not a number\nf:4: value 4611686018427387905 is above 4611686018427387903\n\
             f:5: value \"\" is not a number\nf:9: value \"1.5\" is not a number\nf:8: uid 4 is also in f:7"
        );
    }

    #[test]
    fn a_record_of_a_series_has_a_name_and_an_id() {
        let draft = |lines: &[(&str, &str)]| {
            let mut draft = Draft::default();
            draft.expect_series();
            for (place, (name, id)) in (2..).zip(lines) {
                draft.add(place, line(place), name, id);
            }
            draft.finish(line)
        };
        let hex = |records: &Records| {
            let mut digest = RecordsDigest::default();
            digest.extend(records, records.list().len());
            digest.hex()
        };
        let records = draft(&[("photos", "9223372036854775807"), ("orders", "5")]).unwrap();
        let names: Vec<_> = records.list().iter().map(|record| records.series_of(record).unwrap()).collect();
        assert_eq!(names, ["photos", "orders"]);
        let other = draft(&[("photos", "9223372036854775807"), ("bills", "5")]).unwrap();
        assert_ne!(hex(&records), hex(&other), "the same ids of another series");
        let error = draft(&[("orders", "5"), ("bills", "0"), ("bills", "1e3"), ("orders", "6")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f:3: \"0\" is no id: ids have digits alone, and are 1 to 9223372036854775807\n\
             f:4: \"1e3\" is no id: ids have digits alone, and are 1 to 9223372036854775807\n\
             f:5: series orders is also in f:2"
        );
    }

    #[test]
    fn records_of_keys_are_in_the_order_of_the_bytes() {
        let draft = |lines: &[(&[u8], &str)]| {
            let mut draft = Draft::default();
            draft.expect_keys();
            for (place, (key, value)) in (2..).zip(lines) {
                draft.add_key(place, line(place), key, value);
            }
            draft
        };
        let hex = |records: &Records, end| {
            let mut digest = RecordsDigest::default();
            digest.extend(records, end);
            digest.hex()
        };
        let records = draft(&[(b"conv:b", "5"), (b"conv:\xff", "7"), (b"conv:a", "4611686018427387903")]);
        let records = records.finish(line).unwrap();
        let keys: Vec<_> =
            records.list().iter().map(|record| (records.key_of(record).unwrap(), record.place)).collect();
        assert_eq!(keys, [(&b"conv:a"[..], 4), (b"conv:b", 2), (b"conv:\xff", 3)]);
        assert_eq!(records.list().iter().map(|record| record.key).collect::<Vec<_>>(), [0, 1, 2]);
        // The first two records are the same in both sources, and their digests are not confused by the ends of keys.
        let other =
            draft(&[(b"conv:a", "4611686018427387903"), (b"conv:b", "5"), (b"conv:c", "7")]).finish(line).unwrap();
        assert_eq!(hex(&records, 2), hex(&other, 2));
        assert_ne!(hex(&records, 3), hex(&other, 3));

        let error = draft(&[(b"a b", "-1"), (b"", "1"), (b"a b", "x"), (&[7; 513], "1"), (b"a\n", "1"), (b"a\n", "2")]);
        assert_eq!(
            error.finish(line).unwrap_err().to_string(),
            "f:2: value -1 is negative\nf:3: the key has 0 bytes: a key has 1 to 512\nf:4: value \"x\" is not a number\n\
             f:5: the key has 513 bytes: a key has 1 to 512\nf:7: key \"a\\n\" is also in f:6"
        );
        let mut repeats = draft(&[(b"b", "1"), (b"a", "2"), (b"b", "3")]);
        repeats.keep_last();
        let records = repeats.finish(line).unwrap();
        assert_eq!(records.list().iter().map(|record| record.value).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn many_flaws_are_counted() {
        let lines = vec![("1", "x"); 35];
        let error = draft(&lines).finish(line).unwrap_err().to_string();
        assert!(error.lines().count() == FLAWS_SHOWN + 1 && error.ends_with("\n15 more"), "{error}");
    }

    #[test]
    fn a_source_that_repeats_itself_has_its_last_word() {
        let mut draft = draft(&[("1", "5"), ("2", "9"), ("1", "7")]);
        draft.keep_last();
        let records = draft.finish(line).unwrap();
        assert_eq!(
            records.list().iter().map(|record| (record.key, record.value)).collect::<Vec<_>>(),
            [(1, 7), (2, 9)]
        );
    }
}
