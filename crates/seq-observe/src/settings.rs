//! Requests the settings of running nodes, and compares the settings of nodes of the same kind.

mod differences;
mod survey;

pub use differences::{Difference, Report, ValueOfNode, differences};
pub use seq_proto::settings::OWN;
pub use survey::{Surveyed, config_of, survey};

/// The text in place of a value that a node withholds.
pub const WITHHELD: &str = "(set)";

/// Parses the value of a setting as TOML, for output as JSON. If the text is not valid TOML because the node withheld
/// or shortened the value, returns the text as a string.
#[must_use]
pub fn typed(text: &str) -> toml::Value {
    text.parse().unwrap_or_else(|_| toml::Value::String(text.to_owned()))
}
