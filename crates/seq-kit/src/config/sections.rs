//! Defines how options structs are sections of a settings file, with the keys, their defaults and their help. Also
//! makes a sample file with all keys.

use std::fmt::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

/// An options struct, whose fields are the keys of a section. The macro [`crate::options`] implements this trait.
pub trait Options: Serialize + DeserializeOwned {
    /// The documentation of each field, in the order of the fields. It is the help of the key that the field defines.
    const HELP: &'static [&'static str];
}

/// Defines an options struct. Each field is a settings key, whose name is the serde name of the field and whose help is
/// the documentation of the field. So everything about a key is defined in one place. A crate that uses this macro must
/// depend on serde.
///
/// A field may have one more attribute after its documentation, `#[serde(...)]`.
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

/// The keys of one options struct with their defaults, in the order of its fields.
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
    /// Creates the keys of an options struct in the section `name`, with their defaults from `defaults`. The keys of
    /// several structs may belong to the same section.
    ///
    /// # Panics
    /// If a field serialises to a table or to nothing.
    #[must_use]
    pub fn new<O: Options>(name: &'static str, defaults: &O) -> Section {
        // The TOML text has the fields in order, but a table of values does not.
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

/// Returns the text of a settings file that has every key with its default. Above each key is the key's help.
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

/// Returns a value in TOML syntax. The digits of a whole number are grouped by three.
fn grouped(value: &Value) -> String {
    let Value::Integer(number) = value else { return value.to_string() };
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join("_")
}
