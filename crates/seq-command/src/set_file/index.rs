//! The lines on which the keys of a spec are written in the set file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use seq_core::set_spec::{SetSpec, SpecError, SpecProblem};
use seq_kit::config::fields::line_of_key;

use super::{Problem, SetFile};

/// The lines of the keys of a set file, and the indexes of list entries in the file. The lists of a spec are sorted, so
/// an entry may have different indexes in the spec and in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Line of each key, such as `uids` or `alloc[1].addr`, with the index of the entry in the file.
    lines: BTreeMap<String, usize>,
    /// The entry in the file, such as `alloc[1]`, for each list entry of the spec.
    in_file: BTreeMap<String, String>,
    /// Keys of addresses that the file lacks because they are computed from `addr`, with the index of the entry in the
    /// file.
    followed: BTreeSet<String>,
}

impl Index {
    pub(super) fn new(lines: BTreeMap<String, usize>, followed: BTreeSet<String>) -> Index {
        Index { lines, in_file: BTreeMap::new(), followed }
    }

    /// Records how the entries of a list were sorted. The entry with index `old[i]` in the file has index `i` in the
    /// spec.
    pub(super) fn reorder(&mut self, list: &str, old: impl Iterator<Item = usize>) {
        self.in_file.extend(old.enumerate().map(|(new, old)| (format!("{list}[{new}]"), format!("{list}[{old}]"))));
    }

    /// Converts a key of the spec to the key in the file, which may have another index.
    pub(super) fn in_file(&self, key: &str) -> String {
        let entry = key.split_inclusive(']').next().unwrap_or(key);
        self.in_file.get(entry).map_or_else(|| key.to_owned(), |old| format!("{old}{}", &key[entry.len()..]))
    }

    /// Returns the line of a key of the spec. If the value was computed from `addr`, it is the line of `addr`. If the
    /// file lacks the key for another reason, it is the line of the innermost list or table that would contain the key.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let key = self.in_file(key);
        line_of_key(&self.lines, self.followed_addr(&key).as_deref().unwrap_or(&key))
    }

    /// Returns the line that determines the value of a key of the spec. It is the line of the key, or the line of
    /// `addr` if the value was computed from `addr`; `None` if the file lacks both.
    pub(super) fn own_line(&self, key: &str) -> Option<usize> {
        let key = self.in_file(key);
        let written = self.lines.get(&key).copied();
        written.or_else(|| self.lines.get(&self.followed_addr(&key)?).copied())
    }

    /// Returns the key of the `addr` from which the value of `key` was computed; `None` if it was not computed.
    fn followed_addr(&self, key: &str) -> Option<String> {
        let (entry, _) = key.rsplit_once('.').filter(|_| self.followed.contains(key))?;
        Some(format!("{entry}.addr"))
    }

    /// Converts a problem of the spec to a problem of its file. `others` are the sets with which the spec may have
    /// values in common.
    pub(super) fn problem(&self, path: &Path, spec: &SetSpec, error: &SpecError, others: &[&SetFile]) -> Problem {
        let place = match self.entry_of(spec, &error.key) {
            Some((entry, field)) => format!("{entry}: {field}"),
            None => error.key.clone(),
        };
        let reason = match &error.problem {
            SpecProblem::Taken { value, by } => format!("{value:?} is taken by {}", self.holder(spec, by, others)),
            problem => problem.to_string(),
        };
        let (path, line) = (path.to_owned(), self.line(&error.key));
        Problem { path, line, key: Some(self.in_file(&error.key)), what: format!("{place}: {reason}") }
    }

    /// Describes the key that already has a value that must be unique. `by` is the key, followed by ` of set NAME` if
    /// it is a key of another set's file.
    fn holder(&self, spec: &SetSpec, by: &str, others: &[&SetFile]) -> String {
        let (key, other) = match by.split_once(" of set ") {
            Some((key, name)) => (key, others.iter().find(|set| set.spec.name == name)),
            None => (by, None),
        };
        let (index, spec) = other.map_or((self, spec), |set| (&set.index, &set.spec));
        let Some((entry, field)) = index.entry_of(spec, key) else { return by.to_owned() };
        let line = index.line(key).map_or_else(String::new, |line| line.to_string());
        match other {
            Some(set) => format!("{field} of {entry} of set {} ({}:{line})", spec.name, set.path.display()),
            None => format!("{field} of {entry} (line {line})"),
        }
    }

    /// Splits the key of a field in a list entry. Returns the entry with the name of its node, such as `alloc "a1"`,
    /// and the field.
    fn entry_of(&self, spec: &SetSpec, key: &str) -> Option<(String, String)> {
        let (entry, field) = key.split_once("].")?;
        let (list, index) = entry.split_once('[')?;
        let index: usize = index.parse().ok()?;
        let name = match list {
            "store" => &spec.stores.get(index)?.name,
            _ => &spec.allocs.get(index)?.name,
        };
        let follows = if self.followed.contains(&self.in_file(key)) { " (it follows addr)" } else { "" };
        let entry = if name.is_empty() { self.in_file(&format!("{entry}]")) } else { format!("{list} {name:?}") };
        Some((entry, format!("{field}{follows}")))
    }
}
