//! Transactions, that is, the commands from MULTI to EXEC. The commands are queued in encoded form and executed as one
//! batch.
//!
//! The numbers of a uid have no state that a transaction could protect: allocated numbers stay allocated, and other
//! clients may allocate numbers of the same uid at the same time. So EXEC only executes the commands as one batch whose
//! replies are sent together. If a command is refused when it is queued, all commands of the transaction are discarded,
//! and no number has changed.

use seq_core::limits;

use crate::resp::parse::MAX_COMMAND_BYTES;

/// Limit on the commands of a transaction. It equals the number of items that a forwarded request may have.
pub(super) const MAX_QUEUED: usize = limits::MAX_ITEMS;

/// Limit on the bytes of a transaction. It equals the limit on the bytes of one command. A connection holds at most
/// twice as many bytes, for a transaction and a command.
pub(super) const MAX_QUEUED_BYTES: usize = MAX_COMMAND_BYTES;

/// The commands since MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The encoded commands, concatenated.
    bytes: Vec<u8>,
    commands: usize,
    /// Whether a command was refused. If so, EXEC discards all commands.
    failed: bool,
}

impl Transaction {
    /// Queues a command. If this would exceed a limit, marks the transaction as failed and returns `false`.
    pub(super) fn push(&mut self, command: &[u8]) -> bool {
        let fits = self.commands < MAX_QUEUED && self.bytes.len() + command.len() <= MAX_QUEUED_BYTES;
        if !fits {
            self.fail();
        } else if !self.failed {
            self.bytes.extend_from_slice(command);
            self.commands += 1;
        }
        fits
    }

    /// Returns the number of queued bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Marks the transaction as failed, because a command was refused, and drops the queued commands.
    pub(super) fn fail(&mut self) {
        *self = Transaction { failed: true, ..Transaction::default() };
    }

    /// Returns the commands to execute and their number; `None` if the transaction has failed.
    pub(super) fn into_commands(self) -> Option<(Vec<u8>, usize)> {
        (!self.failed).then_some((self.bytes, self.commands))
    }
}
