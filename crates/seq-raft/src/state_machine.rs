//! What is replicated: a state, commands that change it, and how both are written.
//!
//! **Invariant:** [`StateMachine::apply`] is a function of state and command alone. Every member applies the same
//! commands in the same order, so a clock, a random number or a setting in it would make members differ.

/// A state that changes by commands alone.
///
/// Encodings are bodies of records: the log puts a frame with kind, format, length and checksum around each, so a body
/// that is decoded is the one that was encoded, or comes from a hostile member.
pub trait StateMachine: Clone + Default + Send + Sync + 'static {
    /// What is proposed; an entry of the log holds one or more.
    type Command: Send + Sync;

    /// What applying a command returns to its proposer. It never leaves the process.
    type Output: Send + Sync + 'static;

    /// The newest format that is read and written. The group's own may be older.
    const FORMAT: u16;

    /// The oldest format that is read and written; up to [`StateMachine::FORMAT`].
    const OLDEST_FORMAT: u16;

    /// The format of a group that has never raised its own. It stays what it is in all releases: members that begin
    /// with an empty log must agree on it.
    const FIRST_FORMAT: u16;

    /// From the raise to this format on, a command that is written in an older format than the group's is void, and its
    /// proposer writes it anew: it may lack what the rules of the newer format need. Members of releases below this
    /// format apply such a command, so it stays what it is in all releases.
    const STRICT_FORMAT: u16;

    /// Applies one committed command. A panic stops the process: the state may be half changed.
    fn apply(&mut self, command: &Self::Command) -> Self::Output;

    /// Takes the rules of a newer format, which the commands that follow are applied by. [`StateMachine::decode`] takes
    /// those of the format that it is given.
    fn raise_format(&mut self, to: u16);

    /// Encodes a command in a format that this machine writes. No body is empty.
    fn encode_command(format: u16, command: &Self::Command) -> Vec<u8>;

    /// Decodes a command.
    ///
    /// # Errors
    /// [`Malformed`] when the body is not a command of that format.
    fn decode_command(format: u16, body: &[u8]) -> Result<Self::Command, Malformed>;

    /// Encodes the state in a format that this machine writes. The bytes are a function of state and format alone, in
    /// every release: members compare their digests.
    fn encode(&self, format: u16) -> Vec<u8>;

    /// Decodes a state.
    ///
    /// # Errors
    /// [`Malformed`] when the body is not a state of that format.
    fn decode(format: u16, body: &[u8]) -> Result<Self, Malformed>;

    /// The ids that members of the group ever had, ascending. An id belongs to one disk for good, so the list is part
    /// of the state and of its snapshots.
    fn member_ids(&self) -> &[u64];

    /// A number that differs between groups, and between the histories of one group before and after a restore: plans
    /// of operators rest on it.
    fn history(&self) -> u64;

    /// The command that adds an id to [`StateMachine::member_ids`]; it may be repeated.
    fn claim_member_id(id: u64) -> Self::Command;
}

/// A body that is not of its format, although its checksum holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

impl From<&'static str> for Malformed {
    fn from(what: &'static str) -> Malformed {
        Malformed(what.to_owned())
    }
}
