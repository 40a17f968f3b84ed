//! Configuration in layers: defaults, then files, then the environment, then flags. A later layer wins key by key.
//!
//! A key is a path such as "log.filter". The defaults define the keys: any other key in a file is an error that names
//! it, its file and its line. An environment variable without a key is a warning: other programs set variables, too.
//! Each key records the layer that set it last.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use figment::providers::Serialized;
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

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
        /// Its name.
        variable: String,
    },
    /// A flag of the command line.
    Flag {
        /// Its name, with the dashes.
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

/// The layers so far.
#[derive(Debug)]
pub struct Layers {
    figment: Figment,
    /// All keys, with the layer that set each last.
    origins: BTreeMap<String, Origin>,
    /// What was ignored, and may be a mistake.
    warnings: Vec<ConfigError>,
}

/// A configuration and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// The configuration.
    pub value: T,
    /// Every key in order.
    pub keys: Vec<Key>,
    /// What was ignored, and may be a mistake.
    pub warnings: Vec<String>,
}

/// One key of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its path, such as "log.filter".
    pub name: String,
    /// Its value; `None` for an optional key without one.
    pub value: Option<toml::Value>,
    /// The layer that set it.
    pub origin: Origin,
}

impl Key {
    /// The value in TOML syntax; empty if there is none.
    #[must_use]
    pub fn text(&self) -> String {
        self.value.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

impl Layers {
    /// The defaults. They define the keys, including optional keys without a value.
    ///
    /// # Panics
    /// When the defaults are not a table.
    #[must_use]
    pub fn new(defaults: &impl Serialize) -> Layers {
        let value = Value::serialize(defaults).expect("defaults serialise");
        let dict = value.into_dict().expect("defaults are a table");
        let mut keys = Vec::new();
        flatten("", &dict, &mut keys);
        let origins = keys.into_iter().map(|(key, _)| (key, Origin::Default)).collect();
        Layers { figment: Figment::from(Serialized::from(dict, Profile::Default)), origins, warnings: Vec::new() }
    }

    /// Adds a TOML file as the top layer.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be read, is not TOML, or has an unknown key.
    pub fn file(self, path: &Path) -> Result<Layers, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        self.text(path, &text)
    }

    /// Adds the text of a TOML file as the top layer; `path` is for messages.
    ///
    /// # Errors
    /// As [`Layers::file`].
    pub fn text(mut self, path: &Path, text: &str) -> Result<Layers, ConfigError> {
        let syntax = |error: &toml::de::Error| ConfigError::Value {
            origin: at(path, text, error.span().map_or(0, |span| span.start)),
            key: None,
            reason: error.message().to_owned(),
        };
        let spans = DeTable::parse(text).map_err(|error| syntax(&error))?;
        let mut keys = Vec::new();
        flatten_spans("", spans.get_ref(), &mut keys);
        for (key, offset) in keys {
            self.set_origin(&key, at(path, text, offset))?;
        }
        let table: toml::Table = toml::from_str(text).map_err(|error| syntax(&error))?;
        let value = Value::serialize(table).expect("a TOML table serialises");
        self.merge(value.into_dict().expect("a table is one"));
        Ok(self)
    }

    /// Adds environment variables as the top layer: key "log.filter" is variable `<prefix>LOG_FILTER`. A variable with
    /// the prefix and no key is ignored, with a warning unless `is_foreign` accepts its name and value.
    ///
    /// # Errors
    /// None at present: [`Layers::load`] reports values of the wrong type.
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
            self.set(key, origin, parse_as(self.figment.find_value(key).ok().as_ref(), &text))?;
        }
        Ok(self)
    }

    /// Adds one flag as the top layer; `None` if it was not given.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`]
    ///
    /// # Panics
    /// When the value does not serialise.
    pub fn flag(mut self, flag: &str, key: &str, value: Option<impl Serialize>) -> Result<Layers, ConfigError> {
        if let Some(value) = value {
            let value = Value::serialize(value).expect("flags are plain values");
            self.set(key, Origin::Flag { flag: flag.to_owned() }, value)?;
        }
        Ok(self)
    }

    /// The current value of a key, if it can be deserialised.
    #[must_use]
    pub fn peek<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.figment.extract_inner(key).ok()
    }

    /// Replaces the defaults: applies to keys that no layer has set.
    ///
    /// # Panics
    /// As [`Layers::new`].
    #[must_use]
    pub fn on_defaults(mut self, defaults: &impl Serialize) -> Layers {
        let value = Value::serialize(defaults).expect("defaults serialise");
        let mut keys = Vec::new();
        flatten("", &value.into_dict().expect("defaults are a table"), &mut keys);
        for (key, value) in keys {
            if self.origins.get(&key) == Some(&Origin::Default) {
                self.merge(figment::util::nest(&key, value).into_dict().expect("a nested value is a table"));
            }
        }
        self
    }

    /// Merges the layers.
    ///
    /// # Errors
    /// [`ConfigError::Value`] when a value has the wrong type or is out of range.
    pub fn load<T: DeserializeOwned>(self) -> Result<Loaded<T>, ConfigError> {
        let value = self.figment.extract().map_err(|error: figment::Error| {
            let key = error.path.join(".");
            let origin = self.origins.get(&key).cloned().unwrap_or(Origin::Default);
            ConfigError::Value { origin, key: Some(key), reason: readable_reason(&error.kind.to_string()) }
        })?;
        let held = |key: &str| self.figment.find_value(key).ok().and_then(|value| toml::Value::try_from(&value).ok());
        let keys = self.origins.iter();
        let keys = keys.map(|(key, origin)| Key { name: key.clone(), value: held(key), origin: origin.clone() });
        Ok(Loaded {
            value,
            keys: keys.collect(),
            warnings: self.warnings.iter().map(|unknown| format!("{unknown}; it is ignored")).collect(),
        })
    }

    fn set(&mut self, key: &str, origin: Origin, value: Value) -> Result<(), ConfigError> {
        self.set_origin(key, origin)?;
        let dict = figment::util::nest(key, value).into_dict().expect("a nested value is a table");
        self.merge(dict);
        Ok(())
    }

    fn set_origin(&mut self, key: &str, origin: Origin) -> Result<(), ConfigError> {
        match self.origins.get_mut(key) {
            Some(known) => *known = origin,
            None => return Err(self.unknown(key, origin)),
        }
        Ok(())
    }

    fn merge(&mut self, dict: Dict) {
        self.figment = std::mem::take(&mut self.figment).merge(Layer(dict));
    }

    fn unknown(&self, key: &str, origin: Origin) -> ConfigError {
        let nearest = self.origins.keys().min_by_key(|known| distance(known, key)).cloned();
        ConfigError::UnknownKey { origin, key: key.to_owned(), nearest }
    }
}

/// An error in a configuration, with its origin, key and reason.
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
    /// A key that does not exist.
    #[error("{origin}: {key}: unknown key{}", nearest.as_ref().map(|key| format!("; the nearest is {key}")).unwrap_or_default())]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
    },
    /// An invalid value, or a file that is not TOML.
    #[error("{origin}: {}{reason}", key.as_ref().map(|key| format!("{key}: ")).unwrap_or_default())]
    Value {
        /// Where it stands.
        origin: Origin,
        /// Its key, where there is one.
        key: Option<String>,
        /// What is wrong with it.
        reason: String,
    },
}

/// A deserialiser's error with the names of Rust types replaced by their ranges.
#[must_use]
pub fn readable_reason(reason: &str) -> String {
    const TYPES: [(&str, &str); 5] = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number from 0"),
        ("usize", "a whole number from 0"),
    ];
    let of = |(name, words): (&str, &str)| {
        Some(format!("{}expected {words}", reason.strip_suffix(name)?.strip_suffix("expected ")?))
    };
    TYPES.into_iter().find_map(of).unwrap_or_else(|| reason.to_owned())
}

/// The line, from 1, of a byte of a text.
#[must_use]
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn at(path: &Path, text: &str, offset: usize) -> Origin {
    Origin::File { path: path.to_owned(), line: line_of(text, offset) }
}

/// The values of a layer for figment. [`Layers::origins`] has their origins.
struct Layer(Dict);

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::default()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.0.clone()))
    }
}

fn flatten(prefix: &str, dict: &Dict, keys: &mut Vec<(String, Value)>) {
    for (name, value) in dict {
        let key = join(prefix, name);
        match value {
            Value::Dict(_, inner) => flatten(&key, inner, keys),
            value => keys.push((key, value.clone())),
        }
    }
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

/// The edit distance of two texts: insertions, deletions and substitutions.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.bytes().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// A variable's text as a value: text if the key holds text, otherwise parsed.
fn parse_as(current: Option<&Value>, text: &str) -> Value {
    match current {
        Some(Value::String(..)) => Value::from(text),
        _ => text.parse().unwrap_or_else(|infallible| match infallible {}),
    }
}

#[cfg(test)]
mod tests;
