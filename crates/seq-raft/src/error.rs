//! Errors of a member's start.

use crate::storage::OpenError;

/// Reason why a member does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("data directory")]
    Storage(#[from] OpenError),
    /// Another member refuses to accept this member.
    #[error("store {by} refuses: {why}")]
    Refused {
        /// Raft id of the refusing member.
        by: u64,
        /// Reason that the refusing member sent.
        why: String,
    },
    /// The group has removed this member.
    #[error("store {by} refuses: {why}")]
    Removed {
        /// Raft id of the refusing member.
        by: u64,
        /// Reason that the refusing member sent.
        why: String,
    },
    /// The peers have formed a group that does not include this member.
    #[error(
        "store {by} belongs to a group without store {id}: start this store with --join, and add it with \
         `seqsvr store add {id}`"
    )]
    NotAMember {
        /// Raft id of a member of that group.
        by: u64,
        /// Raft id of this member.
        id: u64,
    },
    /// The Raft library cannot start.
    #[error("raft: {what}")]
    Raft {
        /// Error text of the Raft library.
        what: String,
    },
}

impl StartError {
    /// Converts an error of the Raft library, of which only the text is kept.
    pub(crate) fn raft(error: &impl std::fmt::Display) -> StartError {
        StartError::Raft { what: error.to_string() }
    }
}
