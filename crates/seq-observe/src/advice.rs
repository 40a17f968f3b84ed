//! Sentences for operators about faults, each with the operator's next step, and the urgency of faults.

use std::fmt;

/// Urgency of a fault or a remark for operators, in descending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Requests for numbers are refused, or numbers may repeat.
    Fault,
    /// A part of the set is lost or will be lost soon, but requests for numbers still succeed.
    Attention,
    /// An operator caused the state on purpose, or the sentence is only for the operator's notes.
    Info,
}

/// A sentence about a set or the cluster, and the next step of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The sentence.
    pub text: String,
    /// The operator's next step, with the command to type if a command exists.
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
