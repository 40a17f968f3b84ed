//! Lines of a set file, by the keys that are written on them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use seq_core::set_spec::{SetSpec, SpecError, SpecProblem};
use seq_kit::config::fields::line_of_key;

use super::{Problem, SetFile};

/// Lines of the keys in a set file, and the positions of list entries in the file. The lists of a spec are sorted, so
/// an entry may have one index in the spec and another in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Line of each key, such as `uids` or `alloc[1].addr`. The index in a key is the position of the list entry in the
    /// file.
    lines: BTreeMap<String, usize>,
    /// Name of a list entry in the file, such as `alloc[1]`, by its name in the sorted spec, such as `alloc[0]`.
    in_file: BTreeMap<String, String>,
    /// Keys of addresses that the file does not contain because they are computed from the node's `addr`. The index in
    /// a key is the position of the list entry in the file.
    followed: BTreeSet<String>,
}

impl Index {
    pub(super) fn new(lines: BTreeMap<String, usize>, followed: BTreeSet<String>) -> Index {
        Index { lines, in_file: BTreeMap::new(), followed }
    }

    /// Records how the list `list` was sorted. The entry with the position `old[i]` in the file has the index `i` in
    /// the spec.
    pub(super) fn reorder(&mut self, list: &str, old: impl Iterator<Item = usize>) {
        self.in_file.extend(old.enumerate().map(|(new, old)| (format!("{list}[{new}]"), format!("{list}[{old}]"))));
    }

    /// Converts a key of the spec to the corresponding key in the file. The two differ if the list entry has another
    /// index in the file than in the spec.
    pub(super) fn in_file(&self, key: &str) -> String {
        let entry = key.split_inclusive(']').next().unwrap_or(key);
        self.in_file.get(entry).map_or_else(|| key.to_owned(), |old| format!("{old}{}", &key[entry.len()..]))
    }

    /// Returns the line to name in a problem with a key of the spec. It is the line of the key, or the line of `addr`
    /// if the value was computed from `addr`. If the file does not contain the key for another reason, it is the line
    /// of the innermost list or table that would contain the key.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let key = self.in_file(key);
        line_of_key(&self.lines, self.followed_addr(&key).as_deref().unwrap_or(&key))
    }

    /// Returns the line that determines the value of a key of the spec. It is the line of the key, or the line of
    /// `addr` if the value was computed from `addr`. Returns `None` if the file contains neither.
    pub(super) fn own_line(&self, key: &str) -> Option<usize> {
        let key = self.in_file(key);
        let written = self.lines.get(&key).copied();
        written.or_else(|| self.lines.get(&self.followed_addr(&key)?).copied())
    }

    /// Returns the key of the `addr` from which the value of `key` was computed. Returns `None` if the file itself
    /// contains the value.
    fn followed_addr(&self, key: &str) -> Option<String> {
        let (entry, _) = key.rsplit_once('.').filter(|_| self.followed.contains(key))?;
        Some(format!("{entry}.addr"))
    }

    /// Converts a problem of the spec to a problem of the file at `path`. `others` are the other sets of the cluster.
    /// If a value that must be unique occurs in another set too, the problem names that set.
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

    /// Describes the key that already has a value which must be unique. `by` is this key, followed by ` of set NAME` if
    /// the key is in the file of another set.
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

    /// Splits a key such as `alloc[0].addr` into the list entry and the field. Returns the list entry with the name of
    /// its node, such as `alloc "a1"`, and the name of the field.
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
