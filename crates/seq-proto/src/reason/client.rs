//! The reasons of those failed calls that the client itself reports, because no server of this service refused the
//! call.
//!
//! **Invariant:** no name in this file is also the name of a [`Reason`](super::Reason), because reports have the names
//! of both kinds in the same field.

use std::fmt;

use super::Outcome;

/// Reason why a call failed although the service did not refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientReason {
    /// The uid is in no set that the seeds know.
    UidOutside,
    /// Every connection failed before a response.
    Unreachable,
    /// The connection broke before a response.
    ConnectionLost,
    /// The deadline passed before a response.
    DeadlineExceeded,
    /// Another server or a proxy refused the request.
    RefusedByOthers,
    /// Two series of tickets could give out one id.
    LanesOverlap,
    /// The response does not match the request.
    BadAnswer,
    /// An error of another kind.
    Other,
}

impl ClientReason {
    /// Every reason.
    pub const ALL: [ClientReason; 8] = [
        ClientReason::UidOutside,
        ClientReason::Unreachable,
        ClientReason::ConnectionLost,
        ClientReason::DeadlineExceeded,
        ClientReason::RefusedByOthers,
        ClientReason::LanesOverlap,
        ClientReason::BadAnswer,
        ClientReason::Other,
    ];

    /// Returns the name in reports, in capitals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ClientReason::UidOutside => "UID_OUTSIDE",
            ClientReason::Unreachable => "UNREACHABLE",
            ClientReason::ConnectionLost => "CONNECTION_LOST",
            ClientReason::DeadlineExceeded => "DEADLINE_EXCEEDED",
            ClientReason::RefusedByOthers => "REFUSED_BY_OTHERS",
            ClientReason::LanesOverlap => "LANES_OVERLAP",
            ClientReason::BadAnswer => "BAD_ANSWER",
            ClientReason::Other => "OTHER",
        }
    }

    /// Returns the reason of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<ClientReason> {
        ClientReason::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// Returns whether the same call can succeed later.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, ClientReason::Unreachable | ClientReason::ConnectionLost | ClientReason::DeadlineExceeded)
    }

    /// Returns whether the request may have taken effect.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            ClientReason::UidOutside | ClientReason::LanesOverlap => Outcome::Unchanged,
            _ => Outcome::Unknown,
        }
    }

    /// Returns the description, as in the reference.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            ClientReason::UidOutside => "The uid is in no set that the given nodes know; nothing was sent.",
            ClientReason::Unreachable => "Every connection failed before a response arrived.",
            ClientReason::ConnectionLost => "The connection broke before a response arrived.",
            ClientReason::DeadlineExceeded => "The deadline passed before a response arrived.",
            ClientReason::RefusedByOthers => {
                "The refusal is not the sequence service's own: another server or a proxy sent it."
            }
            ClientReason::LanesOverlap => {
                "Two series of tickets could give out one id: give them one increment and different offsets."
            }
            ClientReason::BadAnswer => {
                "The response does not match the request: the server implements another protocol, or has a bug."
            }
            ClientReason::Other => "The client reported an error of another kind; its message describes it.",
        }
    }
}

impl fmt::Display for ClientReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
