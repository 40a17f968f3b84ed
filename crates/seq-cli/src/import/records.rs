//! Records of an import: a number for each user, complete and valid before anything is changed.

use std::fmt;

use seq_command::exit::{Exit, Failure};
use seq_command::output::note;
use seq_core::limits::MAX_ADVANCE;
use sha2::{Digest, Sha256};

/// Maximum number of records of one import. They are kept in memory, 24 bytes each.
pub(super) const MAX_RECORDS: usize = 100_000_000;

/// Maximum number of flaws that are shown.
pub(super) const FLAWS_SHOWN: usize = 20;

/// The least number that a user is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) uid: u64,
    pub(super) value: u64,
    /// Place in the source, from 1: the line of a file, or the position among the keys of a server.
    pub(super) place: u64,
}

/// The records of a source. Invariant: they ascend by uid, no uid occurs twice, and no value is above [`MAX_ADVANCE`].
#[derive(Debug)]
pub(super) struct Records {
    list: Vec<Record>,
    /// Number of invalid records that were left out.
    skipped: u64,
}

/// Records of a source, some of which may be invalid.
#[derive(Debug, Default)]
pub(super) struct Draft {
    list: Vec<Record>,
    flaws: Flaws,
    /// Whether invalid records are left out.
    skips_invalid: bool,
}

/// The flaws of a source, in its order. Only the first [`FLAWS_SHOWN`] are kept.
#[derive(Debug, Default)]
struct Flaws {
    first: Vec<String>,
    count: u64,
}

impl Flaws {
    fn add(&mut self, place: impl fmt::Display, flaw: impl fmt::Display) {
        self.count += 1;
        if self.first.len() < FLAWS_SHOWN {
            self.first.push(format!("{place}: {flaw}"));
        }
    }

    /// Returns a line for each flaw, and the number of further flaws.
    fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.count - self.first.len() as u64;
        self.first.iter().cloned().chain((more > 0).then(|| format!("{more} more")))
    }
}

impl Draft {
    /// Returns a draft without records; with `skips_invalid` it leaves out invalid records.
    pub(super) fn new(skips_invalid: bool) -> Draft {
        Draft { skips_invalid, ..Draft::default() }
    }

    /// Adds a record from its text. `at` names its place for a reader.
    pub(super) fn add(&mut self, place: u64, at: impl fmt::Display, uid: &str, value: &str) {
        match (number("uid", uid, u64::MAX), number("value", value, MAX_ADVANCE)) {
            (Ok(uid), Ok(value)) => self.list.push(Record { uid, value, place }),
            (Err(flaw), _) | (Ok(_), Err(flaw)) => self.flaws.add(at, flaw),
        }
    }

    /// Adds a flaw instead of a record.
    pub(super) fn refuse(&mut self, at: impl fmt::Display, flaw: impl fmt::Display) {
        self.flaws.add(at, flaw);
    }

    /// Returns whether the draft has the maximum number of records.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_RECORDS
    }

    /// Keeps only the last record of each uid, for a source that may list a uid more than once.
    pub(super) fn keep_last(&mut self) {
        self.list.sort_unstable_by_key(|record| (record.uid, std::cmp::Reverse(record.place)));
        self.list.dedup_by_key(|record| record.uid);
    }

    /// Returns the records if all of them are valid, or if invalid records may be left out. `at` names a place. A uid
    /// with two numbers is always an error.
    ///
    /// # Errors
    /// There are flaws; the error lists the first flaws with their places, and the number of further flaws.
    pub(super) fn finish(mut self, at: impl Fn(u64) -> String) -> Result<Records, Failure> {
        self.list.sort_unstable();
        let mut skipped = 0;
        if self.skips_invalid {
            let flaws = std::mem::take(&mut self.flaws);
            skipped = flaws.count;
            flaws.lines().for_each(|flaw| note(format_args!("skipped: {flaw}")));
        }
        for pair in self.list.windows(2).filter(|pair| pair[0].uid == pair[1].uid) {
            let (first, second) = (pair[0].place.min(pair[1].place), pair[0].place.max(pair[1].place));
            self.flaws.add(at(second), format!("uid {} is also in {}", pair[0].uid, at(first)));
        }
        if self.flaws.count == 0 {
            return Ok(Records { list: self.list, skipped });
        }
        let text = self.flaws.lines().collect::<Vec<_>>().join("\n");
        let hint = "nothing was changed; --skip-invalid imports the others, except of users with two numbers";
        Err(Failure::new(Exit::Usage, text).hint(hint))
    }
}

impl Records {
    pub(super) fn list(&self) -> &[Record] {
        &self.list
    }

    /// Returns the number of records that were left out.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of records whose uids are at most `uid`.
    pub(super) fn up_to(&self, uid: u64) -> usize {
        self.list.partition_point(|record| record.uid <= uid)
    }
}

/// The digest of uids and values in order. It depends on the content alone, not on its source.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordsDigest {
    hash: Sha256,
    /// Number of records in the digest.
    count: usize,
}

impl RecordsDigest {
    /// Adds the records up to a position.
    pub(super) fn extend(&mut self, list: &[Record], end: usize) {
        for Record { uid, value, .. } in list.get(self.count..end).unwrap_or_default() {
            self.hash.update(uid.to_le_bytes());
            self.hash.update(value.to_le_bytes());
        }
        self.count = self.count.max(end);
    }

    /// Returns the digest in hex.
    pub(super) fn hex(&self) -> String {
        self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Parses a number of plain digits, up to a limit.
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
            (0..=end).for_each(|end| digest.extend(records.list(), end));
            digest.hex()
        };
        let most = ("18446744073709551615", "4611686018427387903");
        let records = draft(&[("7", "5"), ("3", "0"), most]).finish(line).unwrap();
        assert_eq!(records.list().iter().map(|record| record.uid).collect::<Vec<_>>(), [3, 7, u64::MAX]);
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
            records.list().iter().map(|record| (record.uid, record.value)).collect::<Vec<_>>(),
            [(1, 7), (2, 9)]
        );
    }
}
