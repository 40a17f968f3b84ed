//! MULTI to EXEC: queues commands in encoded form and executes them as one batch.
//!
//! A sequence has no state that a transaction could protect: allocated numbers stay allocated, and other clients may
//! allocate from the same sequence at the same time. So EXEC is a batch whose replies are sent together. If a command
//! is refused when it is queued, all commands are discarded before a number changes.

use seq_core::limits;

use crate::resp::parse::MAX_COMMAND_BYTES;

/// Most commands of a transaction: as many as a forwarded request may have items.
pub(super) const MAX_QUEUED: usize = limits::MAX_ITEMS;

/// Most bytes of a transaction: as many as one command may have. A connection holds at most twice as many.
pub(super) const MAX_QUEUED_BYTES: usize = MAX_COMMAND_BYTES;

/// The commands since MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The encoded commands, concatenated.
    bytes: Vec<u8>,
    commands: usize,
    /// Whether a command was refused; EXEC then discards all of them.
    failed: bool,
}

impl Transaction {
    /// Queues a command. Returns `false` if a limit is exceeded, which fails the transaction.
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

    /// Fails the transaction because a command was refused. Drops the queued commands.
    pub(super) fn fail(&mut self) {
        *self = Transaction { failed: true, ..Transaction::default() };
    }

    /// Returns the commands to execute, and their number; `None` if the transaction has failed.
    pub(super) fn into_commands(self) -> Option<(Vec<u8>, usize)> {
        (!self.failed).then_some((self.bytes, self.commands))
    }
}
