//! Settings of running nodes, as the nodes report them, and settings in which nodes of a kind differ.

mod differences;
mod survey;

pub use differences::{Difference, Report, ValueOfNode, differences};
pub use survey::{Surveyed, config_of, survey};

/// The text in place of a value that a node withholds.
pub const WITHHELD: &str = "(set)";

/// Begin of the keys in which nodes differ by nature.
pub const OWN: &str = "node.";

/// Returns a value as JSON shows it, in the type of its key. A text that is withheld or was cut is a string.
#[must_use]
pub fn typed(text: &str) -> toml::Value {
    text.parse().unwrap_or_else(|_| toml::Value::String(text.to_owned()))
}
