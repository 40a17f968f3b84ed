//! Checks that no public signature of a crate has a type of the libraries openraft, rkyv or sled. These libraries are
//! fenced, which means that only the crates listed in `FENCED` may use them.
//!
//! The check does not resolve types, but searches the text of every `pub` item up to the body of the item. It searches
//! for paths that begin with the name of a library, for names that the file imports from a library, and for aliases
//! that the crate declares for types of a library. Every `pub` item counts as public, because the compiler refuses a
//! `pub` item that other crates cannot reach.

use std::collections::BTreeSet;

use crate::report::Finding;
use crate::source::Source;

/// Fenced libraries. [`ALIASES`] is the file in which seq-raft declares aliases of their types.
const LIBRARIES: &[&str] = &["openraft", "rkyv", "sled"];
const ALIASES: &str = "crates/seq-raft/src/types.rs";

/// Words that begin an item.
const ITEMS: &[&str] = &["async", "const", "enum", "fn", "static", "struct", "trait", "type", "use"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let product = |source: &&Source| source.path.starts_with("crates/") && source.path.contains("/src/");
    let aliases = sources.iter().find(|source| source.path == ALIASES).map(aliases).unwrap_or_default();
    for source in sources.iter().filter(product).filter(|source| source.is("rs") && !source.is_test()) {
        let mut names = imported(source, LIBRARIES);
        names.extend(imported(source, &["crate::types"]).intersection(&aliases).cloned());
        if source.path == ALIASES {
            names.extend(aliases.iter().cloned());
        }
        for (line, signature) in signatures(&source.text) {
            let path = aliases.iter().map(String::as_str).find(|alias| signature.contains(&format!("types::{alias}")));
            let found = words(&signature).find(|word| LIBRARIES.contains(word) || names.contains(*word)).or(path);
            if let Some(name) = found {
                let message =
                    format!("{name} is a type of a fenced library in a public signature: use a type of our own");
                findings.push(Finding::new(&source.path, line, message));
            }
        }
    }
}

/// Returns the names of the aliases that the file declares for types of fenced libraries.
fn aliases(source: &Source) -> BTreeSet<String> {
    let declared = source.text.lines().filter_map(|line| line.trim().strip_prefix("pub(crate) type "));
    declared.filter_map(|rest| words(rest).next().map(str::to_owned)).chain(["TypeConfig".to_owned()]).collect()
}

/// Returns the names of the types that a file imports by `use` statements that begin with one of `paths`.
fn imported(source: &Source, paths: &[&str]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut statement = String::new();
    for line in source.text.lines() {
        let begins = paths.iter().any(|path| line.starts_with(&format!("use {path}")));
        if begins || !statement.is_empty() {
            statement.push_str(line);
            if line.ends_with(';') {
                // Names of types begin with an upper-case letter, names of modules with a lower-case letter.
                let types = words(&statement).filter(|word| word.starts_with(char::is_uppercase));
                names.extend(types.map(str::to_owned));
                statement.clear();
            }
        }
    }
    names
}

/// Returns the line and the signature of each public item. The signature of an enum or a trait includes its body; other
/// signatures end before the body.
fn signatures(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().take_while(|line| !line.starts_with("mod tests {")).collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
        let first = rest.split_whitespace().next().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        let signature = if !ITEMS.contains(&first) {
            // A field.
            rest.to_owned()
        } else if first == "enum" || first == "trait" {
            let end = |line: &&&str| **line != format!("{}}}", " ".repeat(indent));
            lines[number..]
                .iter()
                .take_while(end)
                .filter(|line| !line.trim_start().starts_with("//"))
                .copied()
                .collect()
        } else {
            let mut signature = String::new();
            for line in &lines[number..] {
                signature.push_str(line);
                signature.push(' ');
                if line.ends_with('{') || line.ends_with(';') || line.ends_with('}') {
                    break;
                }
            }
            private_fields_removed(first, signature)
        };
        found.push((number + 1, signature));
    }
    found
}

/// Returns the signature of a tuple struct without its private fields.
fn private_fields_removed(item: &str, signature: String) -> String {
    match signature.split_once('(') {
        Some((head, fields)) if item == "struct" => {
            let public = fields.split(',').filter(|field| field.trim_start().starts_with("pub "));
            std::iter::once(head).chain(public).collect::<Vec<_>>().join(" ")
        }
        _ => signature,
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let sources = [
            Source::planted(ALIASES, "pub(crate) type LogId = alias::LogIdOf<TypeConfig>;\n"),
            Source::planted("crates/seq-raft/src/x.rs", text),
        ];
        let mut findings = Vec::new();
        check(&sources, &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_type_of_a_library_in_a_public_signature_is_found() {
        assert_eq!(found("pub fn raft() -> openraft::Raft {\n"), [1]);
        assert_eq!(found("use crate::types::LogId;\npub fn last(\n    &self,\n) -> Option<LogId> {\n"), [2]);
        assert_eq!(found("pub fn last() -> crate::types::LogId {\n"), [1]);
        assert_eq!(found("use sled::{Config, Db};\npub struct Log {\n    pub db: Db,\n}\n"), [3]);
        assert_eq!(found("pub struct Log(pub sled::Db);\n"), [1]);
        assert_eq!(found("use crate::types::LogId;\npub enum Error {\n    Log(LogId),\n}\n"), [2]);
    }

    #[test]
    fn private_items_and_bodies_are_free() {
        assert_eq!(found("pub(crate) fn raft() -> openraft::Raft {\n"), [0; 0]);
        assert_eq!(found("pub enum Kind {\n    LogId,\n}\n"), [0; 0], "not the alias");
        assert_eq!(found("pub struct Log(sled::Db);\n"), [0; 0]);
        assert_eq!(found("pub struct Log {\n    db: sled::Db,\n}\n"), [0; 0]);
        assert_eq!(found("pub fn id(&self) -> u64 {\n    openraft::id()\n}\n"), [0; 0]);
    }
}
