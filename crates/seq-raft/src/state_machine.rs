//! The replicated state, the commands that change it, and the encodings of both.
//!
//! **Invariant:** [`StateMachine::apply`] is a function of state and command alone. Every member applies the same
//! commands in the same order, so the members' states would differ if this function used a clock, a random number or a
//! setting.

/// A state that only commands change.
///
/// Encoded commands and states are bodies of records. The log puts a frame with kind, format, length and checksum
/// around each body. So a body that is decoded is unchanged, or it comes from a hostile member.
pub trait StateMachine: Clone + Default + Send + Sync + 'static {
    /// A proposed change of the state; an entry of the log holds one or more.
    type Command: Send + Sync;

    /// Result of applying a command, for its proposer. It never leaves the process.
    type Output: Send + Sync + 'static;

    /// Newest format that this machine reads and writes. The group's format may be older.
    const FORMAT: u16;

    /// Oldest format that this machine reads and writes; at most [`StateMachine::FORMAT`].
    const OLDEST_FORMAT: u16;

    /// Format of a group whose format was never raised. This value must not change in any release, because members that
    /// begin with an empty log must agree on it.
    const FIRST_FORMAT: u16;

    /// Lowest format of the group in which a command of an older format is void, because the command may lack data that
    /// the newer rules need. The proposer of a void command encodes it again. While the group has a format below this
    /// value, members apply commands of older formats. All releases must agree on this rule, so this value must not
    /// change in any release.
    const STRICT_FORMAT: u16;

    /// Applies one committed command. A panic stops the process, because the state may be half changed.
    fn apply(&mut self, command: &Self::Command) -> Self::Output;

    /// Adopts the rules of a newer format for the commands that follow. [`StateMachine::decode`] adopts the rules of
    /// its `format` argument.
    fn raise_format(&mut self, to: u16);

    /// Encodes a command in a format that this machine writes. The body is never empty.
    fn encode_command(format: u16, command: &Self::Command) -> Vec<u8>;

    /// Decodes a command.
    ///
    /// # Errors
    /// [`Malformed`] when the body is not a command of that format.
    fn decode_command(format: u16, body: &[u8]) -> Result<Self::Command, Malformed>;

    /// Encodes the state in a format that this machine writes. The bytes depend on the state and the format alone, and
    /// are the same in every release, because members compare digests of these bytes.
    fn encode(&self, format: u16) -> Vec<u8>;

    /// Decodes a state.
    ///
    /// # Errors
    /// [`Malformed`] when the body is not a state of that format.
    fn decode(format: u16, body: &[u8]) -> Result<Self, Malformed>;

    /// Returns the ids that members of the group have or ever had, ascending. The list is part of the state and of its
    /// snapshots, because an id belongs permanently to one data directory.
    fn member_ids(&self) -> &[u64];

    /// Returns a number that identifies the group and its history. A restore changes the number. Plans of operators
    /// depend on it.
    fn history(&self) -> u64;

    /// Returns the command that adds an id to [`StateMachine::member_ids`]; it may be repeated.
    fn claim_member_id(id: u64) -> Self::Command;
}

/// Error of a body that does not match its format, although its checksum holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl From<&'static str> for Malformed {
    fn from(what: &'static str) -> Malformed {
        Malformed(what.to_owned())
    }
}
