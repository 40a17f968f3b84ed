//! Sentences for operators, with the next step and the urgency.

use std::fmt;

/// How much a fault or a remark needs the attention of an operator, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Users are refused, or numbers may repeat.
    Fault,
    /// A part is lost or about to be, and users get numbers.
    Attention,
    /// An operator did it, or it is for the notes.
    Info,
}

/// A sentence about a set or the cluster, and the next step of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The sentence.
    pub text: String,
    /// The next step, with the command to type where there is one.
    pub next: Option<String>,
}

impl Advice {
    pub(crate) fn new(text: String) -> Advice {
        Advice { text, next: None }
    }

    pub(crate) fn next(self, next: impl Into<String>) -> Advice {
        Advice { next: Some(next.into()), ..self }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.next.iter().try_for_each(|next| write!(f, "; next: {next}"))
    }
}
