//! Options structs as sections of a settings file: the keys, their defaults and their help, and a sample file of them.

use std::fmt::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

/// An options struct whose fields are the keys of a section; [`crate::options`] implements it.
pub trait Options: Serialize + DeserializeOwned {
    /// The documentation of each field, in order: the help of its key.
    const HELP: &'static [&'static str];
}

/// Defines an options struct: each field is a settings key, by its serde name, and its documentation is the key's help,
/// so that a key is defined in one place. The crate that uses it depends on serde.
///
/// An attribute of a field that is not its documentation is one `#[serde(...)]` after it.
#[macro_export]
macro_rules! options {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $( $(#[doc = $help:literal])+ $(#[serde $serde:tt])? $field_vis:vis $field:ident: $type:ty, )*
    }) => {
        $(#[$meta])*
        #[derive(::serde::Serialize, ::serde::Deserialize)]
        $vis struct $name {
            $( $(#[doc = $help])+ $(#[serde $serde])? $field_vis $field: $type, )*
        }

        impl $crate::config::Options for $name {
            const HELP: &'static [&'static str] = &[$( concat!($($help, "\n"),+) ),*];
        }
    };
}

/// The keys of one options struct, in the order of its fields, with their defaults.
#[derive(Clone, Debug)]
pub struct Section {
    pub(super) name: &'static str,
    pub(super) rows: Vec<Row>,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) default: Value,
    help: &'static str,
}

impl Section {
    /// Creates the keys of `defaults` in section `name`, which may hold several structs.
    ///
    /// # Panics
    /// When a field serialises to a table or to nothing.
    #[must_use]
    pub fn new<O: Options>(name: &'static str, defaults: &O) -> Section {
        // TOML text has the fields in order, but a table of values does not.
        let text = toml::to_string(defaults).expect("options serialise");
        let rows = text.lines().zip(O::HELP).map(|(line, help)| {
            let (key, value) = line.split_once(" = ").expect("an option is a plain value");
            let default = value.parse().expect("a written value parses");
            Row { key: key.to_owned(), default, help }
        });
        let rows: Vec<Row> = rows.collect();
        assert_eq!(rows.len(), O::HELP.len(), "every field of [{name}] is a key");
        Section { name, rows }
    }
}

/// Returns a settings file with every key at its default, each below its help.
#[must_use]
pub fn sample(sections: &[Section]) -> String {
    let mut text = String::new();
    let mut current = "";
    for Section { name, rows } in sections {
        if *name != current {
            writeln!(text, "\n[{name}]").expect("a String takes every write");
            current = name;
        }
        for Row { key, default, help } in rows {
            let help: String = help.lines().map(|line| format!("#{line}\n")).collect();
            writeln!(text, "{help}{key} = {}", grouped(default)).expect("a String takes every write");
        }
    }
    text
}

/// Returns a value in TOML syntax, with a whole number in groups of three digits.
fn grouped(value: &Value) -> String {
    let Value::Integer(number) = value else { return value.to_string() };
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join("_")
}
