//! What is imported: a number for each user, from a file or from a Redis server, complete and valid before anything is
//! changed.

use std::fmt;

use seq_core::limits::MAX_ADVANCE;
use sha2::{Digest, Sha256};

use crate::exit::{Exit, Failure};

/// Records of one import: they are kept in memory, 24 bytes each.
pub(super) const MAX_RECORDS: usize = 100_000_000;

/// Limit on the flaws that are shown.
const FLAWS_SHOWN: usize = 10;

/// The number that a user is to be at, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) uid: u64,
    pub(super) value: u64,
    /// Place in the source, from 1: the line of a file, the position among the keys of a server.
    pub(super) place: u64,
}

/// The records of a source. Invariant: ascending by uid, each once, no value above [`MAX_ADVANCE`].
#[derive(Debug)]
pub(super) struct Records {
    list: Vec<Record>,
}

/// Records of which some may be wrong.
#[derive(Debug, Default)]
pub(super) struct Draft {
    list: Vec<Record>,
    flaws: Flaws,
}

/// What is wrong with a source, in its order; only the first few are kept.
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
}

impl Draft {
    /// Adds a record as its text has it. `at` names its place for a reader.
    pub(super) fn add(&mut self, place: u64, at: impl fmt::Display, uid: &str, value: &str) {
        match (number("uid", uid, u64::MAX), number("value", value, MAX_ADVANCE)) {
            (Ok(uid), Ok(value)) => self.list.push(Record { uid, value, place }),
            (Err(flaw), _) | (Ok(_), Err(flaw)) => self.flaws.add(at, flaw),
        }
    }

    /// Adds what is no record.
    pub(super) fn refuse(&mut self, at: impl fmt::Display, flaw: impl fmt::Display) {
        self.flaws.add(at, flaw);
    }

    /// Whether there are as many records as an import takes.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_RECORDS
    }

    /// Has the last record of each uid only: for a source that may list one more than once.
    pub(super) fn keep_last(&mut self) {
        self.list.sort_unstable_by_key(|record| (record.uid, std::cmp::Reverse(record.place)));
        self.list.dedup_by_key(|record| record.uid);
    }

    /// The records, if all of them are valid. `at` names a place.
    ///
    /// # Errors
    /// The first flaws, each with its place, and how many more there are.
    pub(super) fn finish(mut self, at: impl Fn(u64) -> String) -> Result<Records, Failure> {
        self.list.sort_unstable();
        for pair in self.list.windows(2).filter(|pair| pair[0].uid == pair[1].uid) {
            let (first, second) = (pair[0].place.min(pair[1].place), pair[0].place.max(pair[1].place));
            self.flaws.add(at(second), format!("uid {} is in {} as well", pair[0].uid, at(first)));
        }
        let Flaws { first, count } = self.flaws;
        if count == 0 {
            return Ok(Records { list: self.list });
        }
        let more = count - first.len() as u64;
        let more = if more > 0 { format!("\n{more} more") } else { String::new() };
        Err(Failure::new(Exit::Usage, format!("{}{more}", first.join("\n"))).hint("nothing was changed"))
    }
}

impl Records {
    pub(super) fn list(&self) -> &[Record] {
        &self.list
    }

    /// SHA-256 of uids and values in order, in hex: the same for one content, wherever it is from.
    pub(super) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for Record { uid, value, .. } in &self.list {
            hash.update(uid.to_le_bytes());
            hash.update(value.to_le_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A number of plain digits, up to a limit.
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
        let records =
            draft(&[("7", "5"), ("3", "0"), ("18446744073709551615", "4611686018427387903")]).finish(line).unwrap();
        assert_eq!(records.list().iter().map(|record| record.uid).collect::<Vec<_>>(), [3, 7, u64::MAX]);
        let other =
            draft(&[("3", "0"), ("18446744073709551615", "4611686018427387903"), ("7", "5")]).finish(line).unwrap();
        assert_eq!(records.digest(), other.digest());
        assert_ne!(records.digest(), draft(&[("3", "0"), ("7", "6")]).finish(line).unwrap().digest());
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
             f:5: value \"\" is not a number\nf:9: value \"1.5\" is not a number\nf:8: uid 4 is in f:7 as well"
        );
    }

    #[test]
    fn many_flaws_are_counted() {
        let lines = vec![("1", "x"); 25];
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
