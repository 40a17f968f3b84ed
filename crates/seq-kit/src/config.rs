//! Configuration in layers: defaults, then files, then environment variables, then flags. If several layers set the
//! same key, the last of these layers applies.
//!
//! A key is a path such as "log.filter". It consists of the name of a section and the name of a field of the section's
//! options struct. These structs define the keys, their defaults and their help ([`crate::options`]). Any other key in
//! a file is an error, which names the key, the file and the line. An environment variable that belongs to no key is
//! only a warning, because other programs set variables too. For each key, the layer that set it last is recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use seq_auth::file::{MAX_BYTES, read_text};
use serde::Serialize;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

pub mod durations;
pub mod fields;
mod sections;

pub use sections::{Options, Section, sample};

use sections::Row;

/// The layer that set a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No layer: the default value.
    Default,
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// A flag of the command line.
    Flag {
        /// Name of the flag, with the dashes.
        flag: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Environment { variable } => write!(f, "${variable}"),
            Origin::Flag { flag } => f.write_str(flag),
        }
    }
}

/// The combined layers that were added so far.
#[derive(Debug)]
pub struct Layers {
    /// The value of every key, by section.
    values: BTreeMap<String, Table>,
    /// The default of every key.
    defaults: BTreeMap<String, Value>,
    /// All keys, each with the layer that set it last.
    origins: BTreeMap<String, Origin>,
    /// Warnings about settings that were ignored and may be a mistake.
    warnings: Vec<ConfigError>,
}

/// A key of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its path, such as "log.filter".
    pub name: String,
    /// Value of the key.
    pub value: Value,
    /// Its value if no layer sets it.
    pub default: Value,
    /// The layer that set it.
    pub origin: Origin,
}

impl Layers {
    /// Creates the layers with the defaults of all keys. Keys that are not in `defaults` are unknown to all later
    /// layers.
    #[must_use]
    pub fn new(defaults: &[Section]) -> Layers {
        let (values, origins) = (BTreeMap::new(), BTreeMap::new());
        let mut layers = Layers { values, defaults: BTreeMap::new(), origins, warnings: Vec::new() };
        for Section { name, rows } in defaults {
            for Row { key, default, .. } in rows {
                layers.origins.insert(join(name, key), Origin::Default);
                layers.defaults.insert(join(name, key), default.clone());
                layers.values.entry((*name).to_owned()).or_default().insert(key.clone(), default.clone());
            }
        }
        layers
    }

    /// Adds a TOML file as the top layer.
    ///
    /// # Errors
    /// [`ConfigError`] if the file cannot be read, is not TOML, or has an unknown key.
    pub fn file(self, path: &Path) -> Result<Layers, ConfigError> {
        let text = read_text(path, MAX_BYTES);
        let text = text.map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        self.text(path, &text)
    }

    /// Adds the text of a TOML file as the top layer. `path` is used in messages only.
    ///
    /// # Errors
    /// The same errors as [`Layers::file`].
    pub fn text(mut self, path: &Path, text: &str) -> Result<Layers, ConfigError> {
        let syntax = |error: &toml::de::Error| ConfigError::Value {
            origin: at(path, text, error.span().map_or(0, |span| span.start)),
            key: None,
            reason: error.message().to_owned(),
        };
        let spans = DeTable::parse(text).map_err(|error| syntax(&error))?;
        let table: Table = toml::from_str(text).map_err(|error| syntax(&error))?;
        let mut keys = Vec::new();
        flatten_spans("", spans.get_ref(), &mut keys);
        for (key, offset) in keys {
            let value = key.split_once('.').and_then(|(section, name)| table.get(section)?.get(name));
            self.set(&key, at(path, text, offset), || value.expect("a known key is in a section").clone())?;
        }
        Ok(self)
    }

    /// Adds environment variables as the top layer. The variable for the key "log.filter" is `<prefix>LOG_FILTER`. A
    /// variable that has the prefix but belongs to no key is ignored with a warning. There is no warning if
    /// `is_foreign` returns true for the name and value of the variable.
    ///
    /// # Errors
    /// No error at present. A value of the wrong type is reported later, by [`Layers::read`].
    pub fn environment(
        mut self,
        prefix: &str,
        is_foreign: impl Fn(&str, &str) -> bool,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Layers, ConfigError> {
        let by_variable: BTreeMap<String, String> = self
            .origins
            .keys()
            .map(|key| (format!("{prefix}{}", key.replace('.', "_").to_uppercase()), key.clone()))
            .collect();
        for (variable, text) in variables {
            let Some(name) = variable.strip_prefix(prefix) else { continue };
            let origin = Origin::Environment { variable: variable.clone() };
            let Some(key) = by_variable.get(&variable) else {
                if !is_foreign(&variable, &text) {
                    let unknown = self.unknown(&name.to_lowercase(), origin);
                    self.warnings.push(unknown);
                }
                continue;
            };
            let value = parse_as(self.value(key), &text);
            self.set(key, origin, || value)?;
        }
        Ok(self)
    }

    /// Adds a flag as the top layer. If `value` is `None`, the flag was not given, and nothing is added.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`]
    ///
    /// # Panics
    /// If the value does not serialise.
    pub fn flag(mut self, flag: &str, key: &str, value: Option<impl Serialize>) -> Result<Layers, ConfigError> {
        if let Some(value) = value {
            let value = || Value::try_from(value).expect("flags are plain values");
            self.set(key, Origin::Flag { flag: flag.to_owned() }, value)?;
        }
        Ok(self)
    }

    /// Replaces the defaults by `defaults`. They apply to the keys that no layer has set.
    ///
    /// # Panics
    /// When the new defaults have a key that the first defaults lack.
    #[must_use]
    pub fn on_defaults(mut self, defaults: &[Section]) -> Layers {
        for Section { name, rows } in defaults {
            for Row { key, default, .. } in rows {
                let key = join(name, key);
                self.defaults.insert(key.clone(), default.clone());
                if self.origins.get(&key) == Some(&Origin::Default) {
                    self.set(&key, Origin::Default, || default.clone()).expect("the key is known");
                }
            }
        }
        self
    }

    /// Reads the options of a section.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if a value has the wrong type or is out of range.
    pub fn read<O: Options>(&self, section: &str) -> Result<O, ConfigError> {
        let table = Value::Table(self.values.get(section).cloned().unwrap_or_default());
        serde_path_to_error::deserialize(table).map_err(|error| {
            let key = join(section, &error.path().to_string());
            let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
            ConfigError::Value { origin, key: Some(key), reason: readable_reason(error.inner().message().trim()) }
        })
    }

    /// Returns every key with its value, its default and its origin, in the alphabetical order of the keys.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        let key = |(name, origin): (&String, &Origin)| Key {
            name: name.clone(),
            value: self.value(name).expect("every key has a value").clone(),
            default: self.defaults[name].clone(),
            origin: origin.clone(),
        };
        self.origins.iter().map(key).collect()
    }

    /// Returns the warnings about settings that were ignored and may be a mistake.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.iter().map(|unknown| format!("{unknown}; it is ignored")).collect()
    }

    fn value(&self, key: &str) -> Option<&Value> {
        let (section, name) = key.split_once('.')?;
        self.values.get(section)?.get(name)
    }

    fn set(&mut self, key: &str, origin: Origin, value: impl FnOnce() -> Value) -> Result<(), ConfigError> {
        let Some(known) = self.origins.get_mut(key) else { return Err(self.unknown(key, origin)) };
        *known = origin;
        let (section, name) = key.split_once('.').expect("every key is in a section");
        self.values.entry(section.to_owned()).or_default().insert(name.to_owned(), value());
        Ok(())
    }

    fn unknown(&self, key: &str, origin: Origin) -> ConfigError {
        let nearest = self.origins.keys().min_by_key(|known| strsim::levenshtein(known, key)).cloned();
        ConfigError::UnknownKey { origin, key: key.to_owned(), nearest }
    }
}

/// An error in a configuration. It states the key, the place at which the key was set, for example a line of a file,
/// and the problem.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The key does not exist.
    #[error("{origin}: {key}: unknown key{}", nearest.as_ref().map(|key| format!("; the nearest is {key}")).unwrap_or_default())]
    UnknownKey {
        /// Place of the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
    },
    /// The value is invalid, or the file is not TOML.
    #[error("{origin}: {}{reason}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    Value {
        /// Place of the value.
        origin: Origin,
        /// Key of the value, if it has one.
        key: Option<String>,
        /// Problem with the value.
        reason: String,
    },
}

/// Returns the text of a deserialiser's error in the terms of a settings file. The result has no names of Rust types,
/// and names only the nearest of the known keys.
#[must_use]
pub fn readable_reason(reason: &str) -> String {
    if let Some(rest) = reason.strip_prefix("invalid type: ").or_else(|| reason.strip_prefix("invalid value: "))
        && let Some((found, expected)) = rest.split_once(", expected ")
    {
        return format!("{} is not {}", found_in_words(found), expected_in_words(expected));
    }
    if let Some(rest) = reason.strip_prefix("unknown field `")
        && let Some((key, known)) = rest.split_once("`, expected ")
    {
        let near = |known: &&str| strsim::normalized_levenshtein(known, key);
        let nearest = quoted(known).max_by(|one, other| near(one).total_cmp(&near(other)));
        return format!(
            "{key}: unknown key{}",
            nearest.map(|key| format!("; the nearest is {key}")).unwrap_or_default()
        );
    }
    if let Some(rest) = reason.strip_prefix("unknown variant `")
        && let Some((value, known)) = rest.split_once("`, expected ")
    {
        return format!("{value:?} is none of {}", quoted(known).collect::<Vec<_>>().join(", "));
    }
    if let Some(key) = reason.strip_prefix("missing field `") {
        return format!("the key {} is missing", key.trim_end_matches('`'));
    }
    // These are the parser's messages for a value that is not a number, not a date and not in quotes. The parser takes
    // a value that begins with "i" or "n" for the number `inf` or `nan`.
    let of_text = [
        "string values must be quoted",
        "invalid boolean",
        "invalid float, expected `inf`",
        "invalid float, expected `nan`",
    ];
    if of_text.iter().any(|message| reason.starts_with(message)) {
        return "a text must be in quotes".to_owned();
    }
    reason.to_owned()
}

/// Returns the words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the value that a deserialiser's error describes, without the name of its type.
fn found_in_words(found: &str) -> String {
    let value = ["integer `", "floating point `", "boolean `", "character `"];
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        _ => match value.iter().find_map(|kind| found.strip_prefix(kind)) {
            Some(value) => value.trim_end_matches('`').to_owned(),
            None => found.strip_prefix("string ").unwrap_or(found).to_owned(),
        },
    }
}

/// Returns what a deserialiser's error states as expected, with the range of a number instead of the name of its type.
fn expected_in_words(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65,535",
        "u32" => "a whole number from 0 to 4,294,967,295",
        "u64" | "usize" => "a whole number from 0",
        "i64" => "a whole number",
        "f64" => "a number",
        "a string" => "a text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    }
}

/// Returns the number of the line that contains the byte at `offset` of a text. Lines are counted from 1.
#[must_use]
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn at(path: &Path, text: &str, offset: usize) -> Origin {
    Origin::File { path: path.to_owned(), line: line_of(text, offset) }
}

fn flatten_spans(prefix: &str, table: &DeTable<'_>, keys: &mut Vec<(String, usize)>) {
    for (name, value) in table {
        let key = join(prefix, name.get_ref());
        match Spanned::get_ref(value) {
            DeValue::Table(inner) => flatten_spans(&key, inner, keys),
            _ => keys.push((key, name.span().start)),
        }
    }
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Converts the text of an environment variable to the value of a key. If the present value of the key is a text, the
/// result is the text itself; otherwise the text is parsed.
fn parse_as(current: Option<&Value>, text: &str) -> Value {
    let plain = || Value::String(text.to_owned());
    if current.is_some_and(Value::is_str) { plain() } else { text.parse().unwrap_or_else(|_| plain()) }
}

#[cfg(test)]
mod tests;
