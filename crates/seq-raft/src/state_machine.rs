//! The trait of a replicated state, with the commands that change the state and the encodings of both.
//!
//! **Invariant:** [`StateMachine::apply`] depends on the state and the command alone. Every member applies the same
//! commands in the same order, so the members' states would differ if this function used a clock, a random number or a
//! setting.

/// Replicated state that only commands change.
///
/// Encoded commands and encoded states are bodies of stored records. The log puts a frame with the record's kind,
/// format, length and checksum around each body, and checks the frame before the body is decoded. So a body that
/// reaches [`StateMachine::decode`] was not damaged by accident, but a hostile member may have made it.
pub trait StateMachine: Clone + Default + Send + Sync + 'static {
    /// Change of the state that a member proposes. A log entry holds one or more commands.
    type Command: Send + Sync;

    /// Result of applying a command. Only the proposer of the command gets it, so it never leaves the process.
    type Output: Send + Sync + 'static;

    /// Newest format in which this state machine reads and writes commands and states. The group's format may be older.
    const FORMAT: u16;

    /// Oldest format in which this state machine reads and writes commands and states; at most
    /// [`StateMachine::FORMAT`].
    const OLDEST_FORMAT: u16;

    /// Format of a group whose format was never raised. All releases must have the same value, because every member
    /// that begins with an empty log assumes this format.
    const FIRST_FORMAT: u16;

    /// Lowest group format in which a command of an older format is void, because such a command may lack data that the
    /// group's rules need. The proposer of a void command encodes it in the group's format and proposes it again. As
    /// long as the group's format is below this value, members apply commands of older formats. All releases must have
    /// the same value, because members with different values would apply different commands.
    const STRICT_FORMAT: u16;

    /// Applies one committed command. A panic in this function stops the process, because the state may be half
    /// changed.
    fn apply(&mut self, command: &Self::Command) -> Self::Output;

    /// Switches to the rules of the newer format `to` for all later commands. A decoded state already follows the rules
    /// of the format from which [`StateMachine::decode`] decoded it.
    fn raise_format(&mut self, to: u16);

    /// Encodes a command in `format`, which is one of the formats that this state machine writes. The result is never
    /// empty.
    fn encode_command(format: u16, command: &Self::Command) -> Vec<u8>;

    /// Decodes a command.
    ///
    /// # Errors
    /// [`Malformed`] when `body` is not a command in `format`.
    fn decode_command(format: u16, body: &[u8]) -> Result<Self::Command, Malformed>;

    /// Encodes the state in `format`, which is one of the formats that this state machine writes. The bytes depend on
    /// the state and the format alone, and are the same in every release, because members compare digests of these
    /// bytes.
    fn encode(&self, format: u16) -> Vec<u8>;

    /// Decodes a state.
    ///
    /// # Errors
    /// [`Malformed`] when `body` is not a state in `format`.
    fn decode(format: u16, body: &[u8]) -> Result<Self, Malformed>;

    /// Returns the Raft ids of all present and former members of the group, in ascending order. The list is part of the
    /// replicated state and of its snapshots, because an id belongs permanently to one data directory and is never
    /// assigned again.
    fn member_ids(&self) -> &[u64];

    /// Returns a number that identifies the group and its history. A restore from a backup changes the number.
    /// Operators' plans for changes of members contain the number, so that a plan from before a restore no longer
    /// applies.
    fn history(&self) -> u64;

    /// Returns the command that adds `id` to [`StateMachine::member_ids`]. Applying this command a second time changes
    /// nothing.
    fn claim_member_id(id: u64) -> Self::Command;
}

/// Error of an encoded command or state that does not match its format, although the checksum of its frame is correct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl From<&'static str> for Malformed {
    fn from(what: &'static str) -> Malformed {
        Malformed(what.to_owned())
    }
}
