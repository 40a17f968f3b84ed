//! Sentences for operators about faults of a cluster. Each sentence has an urgency, and usually the operator's next
//! step.

use std::fmt;

/// Urgency of a fault or a remark for operators. The variants are in descending order of urgency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Requests for numbers are refused, or numbers may repeat.
    Fault,
    /// A part of the set is lost or will soon be lost, but requests for numbers still succeed.
    Attention,
    /// An operator caused the state on purpose, or the sentence states a fact that the operator should write down.
    Info,
}

impl Severity {
    /// Returns the character that marks a text with the severity, so that a reader needs no colours.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Severity::Fault => "✕",
            Severity::Attention => "▲",
            Severity::Info => "○",
        }
    }
}

/// A sentence about a set or the cluster, and the operator's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The sentence.
    pub text: String,
    /// Operator's next step, including the command to type if there is a command for it.
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
