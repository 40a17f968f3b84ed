//! Reader of a recorded trace of messages. Each line of the trace has the second, the group and the sender of a
//! message.
//!
//! A trace is a CSV file, plain or compressed by gzip. The file has the header `second,group,sender`, and each further
//! line has three whole numbers. The lines are in the order of their seconds. The members of a group are all senders of
//! the group's messages in the whole file. Every error names the file and, except if the file cannot be opened, the
//! line.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use csv::StringRecord;
use seq_core::Uid;
use seq_core::limits::MAX_ITEMS;
use seq_order::User;

/// Largest number of messages of a trace. All messages are kept in memory. Each message takes 16 bytes, or 40 bytes
/// while the trace is read.
const MAX_MESSAGES: usize = 50_000_000;

/// The columns of a trace.
const HEADER: [&str; 3] = ["second", "group", "sender"];

/// The magic bytes of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A trace, ready to be replayed.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// The messages in time order.
    pub messages: Vec<Message>,
    /// The members of each group, ascending.
    pub groups: Vec<Vec<User>>,
    /// The uid of each [`User`], ascending.
    pub uids: Vec<Uid>,
}

/// A message, for which every member of its group gets a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Seconds since the start of the trace.
    pub second: u64,
    /// Index into [`Trace::groups`].
    pub group: u32,
}

/// The error of a file that is not a trace.
#[derive(Debug, thiserror::Error)]
#[error("{}{}", file.display(), line.map_or(String::new(), |line| format!(":{line}")))]
pub struct TraceError {
    file: PathBuf,
    /// Line from 1; the header is line 1. `None` if the file cannot be opened.
    line: Option<u64>,
    source: Flaw,
}

/// A flaw of a line or of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flaw {
    #[error("cannot be read")]
    Read(#[source] io::Error),
    #[error("cannot be read as CSV")]
    Csv(#[source] csv::Error),
    #[error("the header must be \"second,group,sender\", not {found:?}")]
    Header { found: String },
    #[error("the line has {columns} columns, not 3")]
    Columns { columns: usize },
    #[error("{column} must be a whole number of at most 64 bits, not {text:?}")]
    Number { column: &'static str, text: String },
    #[error("second {second} comes after second {previous}: lines must ascend by time")]
    Order { second: u64, previous: u64 },
    #[error("group {group} has more than {MAX_ITEMS} members, the limit of a call")]
    GroupTooLarge { group: u64 },
    #[error("more than {MAX_MESSAGES} messages")]
    TooLong,
    #[error("no message in the file")]
    Empty,
}

impl Trace {
    /// Reads a trace from a file, or from standard input if the path is `-`.
    ///
    /// # Errors
    /// [`TraceError`] with the first flaw.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let is_stdin = path == Path::new("-");
        let file = if is_stdin { PathBuf::from("standard input") } else { path.to_owned() };
        let fail = |line, source| TraceError { file: file.clone(), line, source };
        let read = |input: &mut dyn BufRead| {
            let packed = input.fill_buf().map_err(|error| fail(None, Flaw::Read(error)))?.starts_with(&GZIP);
            let trace =
                if packed { Trace::read(flate2::bufread::MultiGzDecoder::new(input)) } else { Trace::read(input) };
            trace.map_err(|(line, flaw)| fail(Some(line), flaw))
        };
        if is_stdin {
            return read(&mut io::stdin().lock());
        }
        read(&mut BufReader::new(File::open(path).map_err(|error| fail(None, Flaw::Read(error)))?))
    }

    /// Returns the count of numbers that a replay of the whole trace allocates, one for every member of every message.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> u64 {
        self.messages.iter().map(|message| self.members(message).len() as u64).sum()
    }

    /// Returns the users that get a number for a message.
    pub fn members(&self, message: &Message) -> &[User] {
        &self.groups[message.group as usize]
    }

    /// Returns the uid of a user.
    pub fn uid(&self, user: User) -> Uid {
        self.uids[user.0 as usize]
    }

    /// Returns every user with its uid.
    pub fn users(&self) -> impl Iterator<Item = (User, Uid)> {
        self.uids.iter().enumerate().map(|(index, uid)| (User(index as u32), *uid))
    }

    fn read(input: impl Read) -> Result<Trace, (u64, Flaw)> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input);
        let mut record = StringRecord::new();
        let mut next = |record: &mut StringRecord| {
            let more =
                reader.read_record(record).map_err(|error| (line_of(&error, reader.position().line()), flaw(error)))?;
            Ok(more.then(|| record.position().map_or(0, csv::Position::line)))
        };
        if next(&mut record)?.is_none() || !record.iter().eq(HEADER) {
            return Err((1, Flaw::Header { found: record.iter().collect::<Vec<_>>().join(",") }));
        }
        let mut rows = Rows::default();
        let mut line = 1;
        while let Some(at) = next(&mut record)? {
            line = at;
            rows.push(&record).map_err(|flaw| (line, flaw))?;
        }
        if rows.messages.is_empty() { Err((line, Flaw::Empty)) } else { Ok(rows.finish()) }
    }
}

/// Messages, groups and users read so far. Groups and users have indexes by the order in which they first appear in the
/// file.
#[derive(Debug, Default)]
struct Rows {
    messages: Vec<Message>,
    groups: HashMap<u64, u32>,
    users: HashMap<u64, u32>,
    /// Members of each group, as values of `users`. The position of a group is its value in `groups`.
    members: Vec<HashSet<u32>>,
}

impl Rows {
    fn push(&mut self, record: &StringRecord) -> Result<(), Flaw> {
        if record.len() != HEADER.len() {
            return Err(Flaw::Columns { columns: record.len() });
        }
        let number = |at: usize| {
            record[at].parse::<u64>().map_err(|_| Flaw::Number { column: HEADER[at], text: record[at].to_owned() })
        };
        let (second, group, sender) = (number(0)?, number(1)?, number(2)?);
        if let Some(last) = self.messages.last().filter(|last| last.second > second) {
            return Err(Flaw::Order { second, previous: last.second });
        }
        if self.messages.len() == MAX_MESSAGES {
            return Err(Flaw::TooLong);
        }
        // The numbers of groups and of users are at most the number of messages, so they fit in 32 bits.
        let fresh = self.groups.len() as u32;
        let index = *self.groups.entry(group).or_insert(fresh);
        if index == fresh {
            self.members.push(HashSet::new());
        }
        let fresh = self.users.len() as u32;
        let user = *self.users.entry(sender).or_insert(fresh);
        let members = &mut self.members[index as usize];
        members.insert(user);
        if members.len() > MAX_ITEMS {
            return Err(Flaw::GroupTooLarge { group });
        }
        self.messages.push(Message { second, group: index });
        Ok(())
    }

    /// Creates the trace. Gives the users new indexes in the order of their uids, so that users with neighbouring uids
    /// are neighbours in memory.
    fn finish(self) -> Trace {
        let mut users: Vec<(u64, u32)> = self.users.into_iter().collect();
        users.sort_unstable();
        let mut by_uid = vec![User(0); users.len()];
        for (index, (_, appeared)) in users.iter().enumerate() {
            by_uid[*appeared as usize] = User(index as u32);
        }
        let groups = self.members.into_iter().map(|members| {
            let mut members: Vec<User> = members.into_iter().map(|user| by_uid[user as usize]).collect();
            members.sort_unstable();
            members
        });
        Trace {
            messages: self.messages,
            groups: groups.collect(),
            uids: users.into_iter().map(|(uid, _)| Uid(uid)).collect(),
        }
    }
}

fn line_of(error: &csv::Error, reached: u64) -> u64 {
    error.position().map_or(reached, csv::Position::line)
}

fn flaw(error: csv::Error) -> Flaw {
    match error.kind() {
        csv::ErrorKind::Io(_) => match error.into_kind() {
            csv::ErrorKind::Io(error) => Flaw::Read(error),
            _ => unreachable!("it was an I/O error"),
        },
        _ => Flaw::Csv(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &[u8], expected: Expect) {
        let actual = match Trace::read(text) {
            Ok(trace) => format!("{trace:?}"),
            Err((line, flaw)) => format!("{line}: {flaw}"),
        };
        expected.assert_eq(&actual);
    }

    #[test]
    fn members_are_all_senders_of_a_group() {
        let trace = Trace::read(&b"second,group,sender\n0,7,30\n1,8,10\n1,7,20\n5,7,30\n"[..]).unwrap();
        assert_eq!(trace.uids, [Uid(10), Uid(20), Uid(30)]);
        assert_eq!(trace.groups, [vec![User(1), User(2)], vec![User(0)]]);
        assert_eq!(trace.messages.iter().map(|message| message.group).collect::<Vec<_>>(), [0, 1, 0, 0]);
        assert_eq!(trace.numbers(), 7);
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        check(b"", expect![[r#"1: the header must be "second,group,sender", not """#]]);
        check(b"second,sender\n", expect![[r#"1: the header must be "second,group,sender", not "second,sender""#]]);
        check(b"second,group,sender\n", expect!["1: no message in the file"]);
        check(b"second,group,sender\n1,2\n", expect!["2: the line has 2 columns, not 3"]);
        check(
            b"second,group,sender\n1,2,3\n1,2,-3\n",
            expect![[r#"3: sender must be a whole number of at most 64 bits, not "-3""#]],
        );
        check(
            b"second,group,sender\n1,2,3\n0,2,3\n",
            expect!["3: second 0 comes after second 1: lines must ascend by time"],
        );
        check(b"second,group,sender\n1,2,3\n1,\xff,3\n", expect!["3: cannot be read as CSV"]);
    }

    #[test]
    fn gzip_is_detected_and_a_truncated_file_is_an_error() {
        let text = b"second,group,sender\n0,1,1\n2,1,2\n";
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(text).unwrap();
        let packed = packer.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv.gz");
        let open = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Trace::open(&path)
        };
        assert_eq!(open(&packed).unwrap(), open(text).unwrap());
        let error = open(&packed[..packed.len() - 9]).unwrap_err();
        assert!(matches!(error.source, Flaw::Read(_)), "{error:?}");
        assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn the_slice_of_a_real_trace_matches_its_readme() {
        let trace =
            Trace::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/irc_messages_slice.csv").as_ref());
        let trace = trace.unwrap();
        assert_eq!((trace.messages.len(), trace.uids.len(), trace.groups.len()), (2_800, 370, 12));
        assert_eq!(trace.numbers(), 126_822);
    }

    #[test]
    fn a_group_larger_than_a_call_is_refused() {
        let mut text = String::from("second,group,sender\n");
        for sender in 0..=MAX_ITEMS {
            text += &format!("0,4,{sender}\n");
        }
        check(text.as_bytes(), expect!["10002: group 4 has more than 10000 members, the limit of a call"]);
    }
}
