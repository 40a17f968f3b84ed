//! Reads TOML key by key. If it finds a flaw, it records the flaw and continues, so that all errors in a file are
//! found, and can be corrected, at once.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{join, readable_reason};

/// A flaw of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The line, from 1.
    pub line: usize,
    /// The key, such as `step` or `alloc[1].addr`; `None` if the text is not TOML.
    pub key: Option<String>,
    /// The key and the reason.
    pub what: String,
}

/// The flaws of a text, and the lines of its keys.
#[derive(Debug, Default)]
pub struct Reader {
    /// Offset of each line's end.
    line_ends: Vec<usize>,
    flaws: Vec<Flaw>,
    /// Keys without a value, because the value is missing or has the wrong type.
    failed: BTreeSet<String>,
    lines: BTreeMap<String, usize>,
    /// Lines that are not valid TOML. Keys that the parser reads from such lines are only guesses.
    broken: BTreeSet<usize>,
}

impl Reader {
    /// Parses a text. A line that is not valid TOML is recorded as a flaw. The keys on other lines can still be read.
    #[must_use]
    pub fn parse(text: &str) -> (Reader, Fields<'_>) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let line_ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(offset, _)| offset);
        let mut reader = Reader { line_ends: line_ends.collect(), ..Reader::default() };
        for error in errors {
            let line = reader.line_at(error.span().map_or(0, |span| span.start));
            // The first error in a line is the cause of most other errors in the same line, so only the first is
            // recorded.
            if reader.broken.insert(line) {
                let what = readable_reason(&one_line(error.message()));
                reader.flaws.push(Flaw { line, key: None, what });
            }
        }
        (reader, Fields::new(String::new(), 1, table.into_inner()))
    }

    /// Returns whether some lines are not valid TOML, so that keys may be missing for this reason.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Returns whether a key has no value although it should have one.
    #[must_use]
    pub fn has_failed(&self, key: &str) -> bool {
        self.failed.contains(key)
    }

    /// Adds a flaw of a key. The flaw's line is the line of the key, or, if the key was not read, of the nearest list
    /// or table around it.
    pub fn add(&mut self, key: &str, reason: &str) {
        self.failed.insert(key.to_owned());
        let line = self.line(key).unwrap_or(1);
        self.push(line, key, format!("{key}: {reason}"));
    }

    /// Marks a key as having no value, without a flaw of its own, because another flaw states the reason.
    pub fn fail(&mut self, key: String) {
        self.failed.insert(key);
    }

    /// Returns the line of each key, and of each entry of a list, that was read so far.
    #[must_use]
    pub fn lines(&self) -> &BTreeMap<String, usize> {
        &self.lines
    }

    /// Returns the flaws, in the order of their lines.
    #[must_use]
    pub fn into_flaws(mut self) -> Vec<Flaw> {
        self.flaws.sort_by_key(|flaw| flaw.line);
        self.flaws
    }

    fn push(&mut self, line: usize, key: &str, what: String) {
        if !self.broken.contains(&line) {
            self.flaws.push(Flaw { line, key: Some(key.to_owned()), what });
        }
    }

    fn line(&self, key: &str) -> Option<usize> {
        line_of_key(&self.lines, key)
    }

    fn line_at(&self, offset: usize) -> usize {
        self.line_ends.partition_point(|end| *end < offset) + 1
    }
}

/// Returns the line of a key. If the key is not in `lines`, returns the line of the nearest list or table around it.
#[must_use]
pub fn line_of_key(lines: &BTreeMap<String, usize>, key: &str) -> Option<usize> {
    let parents = std::iter::successors(Some(key), |key| key.rfind(['.', '[']).map(|end| &key[..end]));
    parents.into_iter().find_map(|key| lines.get(key).copied())
}

/// The keys of a table that have not been read yet.
#[derive(Debug)]
pub struct Fields<'t> {
    /// Full name of the table, as a key; empty for the whole text.
    path: String,
    line: usize,
    table: DeTable<'t>,
    /// The keys that were requested so far.
    known: Vec<&'static str>,
    /// Whether the text has another value where this table should be. In that case a flaw was already recorded.
    is_hole: bool,
}

impl<'t> Fields<'t> {
    fn new(path: String, line: usize, table: DeTable<'t>) -> Fields<'t> {
        Fields { path, line, table, known: Vec::new(), is_hole: false }
    }

    /// Returns the full name of a key: `alloc[1].addr`.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Reads the value of a key. Returns `None` if the key is missing, or if its value has the wrong type, which is
    /// recorded as a flaw.
    pub fn optional<T: DeserializeOwned>(&mut self, name: &'static str, reader: &mut Reader) -> Option<T> {
        let value = self.take(name, reader)?;
        let offset = value.span().start;
        T::deserialize(ValueDeserializer::from(value)).map_err(|error| self.fail(name, offset, &error, reader)).ok()
    }

    /// Reads the value of a key that must be present. If the key is missing, this is recorded as a flaw.
    pub fn required<T: DeserializeOwned>(&mut self, name: &'static str, reader: &mut Reader) -> Option<T> {
        let value = self.optional(name, reader);
        let key = self.key(name);
        if value.is_none() && !reader.has_failed(&key) {
            reader.fail(key.clone());
            // If some lines are not valid TOML, the missing key may be on one of them, so it is not reported.
            if !reader.is_broken() && !self.is_hole {
                reader.push(self.line, &key, format!("the key {name} is missing"));
            }
        }
        value
    }

    /// Reads a table. Returns `None` if the table is missing, or if another value is in its place, which is recorded as
    /// a flaw.
    pub fn table(&mut self, name: &'static str, reader: &mut Reader) -> Option<Fields<'t>> {
        let value = self.take(name, reader)?;
        let (key, line) = (self.key(name), reader.line_at(value.span().start));
        match value.into_inner() {
            DeValue::Table(table) => Some(Fields::new(key, line, table)),
            _ => {
                reader.add(&key, "it is not a table");
                None
            }
        }
    }

    /// Reads a list of tables. Returns an empty list if the key is missing. An entry that is not a table is recorded as
    /// a flaw, and is returned as a table without keys.
    pub fn tables(&mut self, name: &'static str, reader: &mut Reader) -> Vec<Fields<'t>> {
        let Some(value) = self.take(name, reader) else { return Vec::new() };
        let key = self.key(name);
        let DeValue::Array(entries) = value.into_inner() else {
            reader.add(&key, "it is not a list of tables");
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let (key, line) = (format!("{key}[{index}]"), reader.line_at(entry.span().start));
            reader.lines.insert(key.clone(), line);
            let table = match entry.into_inner() {
                DeValue::Table(table) => Some(table),
                _ => None,
            };
            let is_hole = table.is_none();
            if is_hole {
                reader.add(&key, "it is not a table");
            }
            tables.push(Fields { is_hole, ..Fields::new(key, line, table.unwrap_or_default()) });
        }
        tables
    }

    /// Ends the reading of the table. Each key of the table that was not requested is unknown, and is recorded as a
    /// flaw.
    pub fn end(self, reader: &mut Reader) {
        for name in self.table.keys() {
            let near = |known: &&&str| strsim::normalized_levenshtein(known, name.get_ref());
            let nearest = self.known.iter().max_by(|one, other| near(one).total_cmp(&near(other)));
            let nearest = nearest.map(|key| format!("; the nearest is {key}")).unwrap_or_default();
            let line = reader.line_at(name.span().start);
            let what = format!("{}: unknown key{nearest}", name.get_ref());
            reader.push(line, &join(&self.path, name.get_ref()), what);
        }
    }

    fn take(&mut self, name: &'static str, reader: &mut Reader) -> Option<Spanned<DeValue<'t>>> {
        self.known.push(name);
        let (key, value) = self.table.remove_entry(name)?;
        reader.lines.insert(self.key(name), reader.line_at(key.span().start));
        Some(value)
    }

    fn fail(&self, name: &str, offset: usize, error: &toml::de::Error, reader: &mut Reader) {
        let line = reader.line_at(error.span().map_or(offset, |span| span.start));
        let key = self.key(name);
        reader.fail(key.clone());
        let what = format!("{key}: {}", readable_reason(&one_line(error.message())));
        reader.push(line, &key, what);
    }
}

fn one_line(message: &str) -> String {
    message.trim().replace('\n', ", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text that should have two keys, and a list of tables with one key each. Returns the flaws that were
    /// found.
    fn flaws(text: &str) -> Vec<String> {
        let (mut reader, mut fields) = Reader::parse(text);
        let _: Option<u32> = fields.required("size", &mut reader);
        let _: Option<String> = fields.optional("name", &mut reader);
        for mut entry in fields.tables("node", &mut reader) {
            let _: Option<u8> = entry.required("id", &mut reader);
            entry.end(&mut reader);
        }
        fields.end(&mut reader);
        reader.into_flaws().into_iter().map(|flaw| format!("{}: {}", flaw.line, flaw.what)).collect()
    }

    #[test]
    fn all_flaws_of_a_text_are_found_at_once() {
        assert_eq!(flaws("size = 1\nnode = [{ id = 1 }]\n"), Vec::<String>::new());
        assert_eq!(
            flaws("name = 7\nsise = 3\n[[node]]\nid = 300\n[[node]]\nidd = 1\n"),
            [
                "1: the key size is missing",
                "1: name: 7 is not a text in quotes",
                "2: sise: unknown key; the nearest is size",
                "4: node[0].id: 300 is not a whole number from 0 to 255",
                "5: the key id is missing",
                "6: idd: unknown key; the nearest is id",
            ]
        );
        assert_eq!(
            flaws("size = 1\nnode = [3, { id = -1 }]\n"),
            ["2: node[0]: it is not a table", "2: node[1].id: -1 is not a whole number from 0 to 255"]
        );
        assert_eq!(flaws("size = 1\nnode = 3\n"), ["2: node: it is not a list of tables"]);
        for text in ["im-a", "nobody", "true-north", "folly", "word"] {
            assert_eq!(flaws(&format!("size = 1\nname = {text}\n")), ["2: a text must be in quotes"], "{text}");
        }
    }

    #[test]
    fn lines_that_are_not_toml_hide_no_other_flaw() {
        let flaws = flaws("size = \nname = 7\n\n[[node]\nid = 1\n[[node]]\nid = \"x\"\n");
        assert_eq!(flaws[0], "1: a text must be in quotes");
        assert_eq!(flaws[1], "2: name: 7 is not a text in quotes");
        assert!(flaws[2].starts_with("4: "), "{flaws:?}");
        // The entry that is not TOML does not count.
        assert_eq!(flaws.last().unwrap(), "7: node[0].id: \"x\" is not a whole number from 0 to 255", "{flaws:?}");
    }
}
