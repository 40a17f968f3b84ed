//! MULTI to EXEC: commands are kept as they came and answered as one batch.
//!
//! A sequence has no state that a transaction could protect: numbers that were taken stay taken, and others may take of the same
//! sequence meanwhile. So EXEC is a batch whose replies come together. What is wrong with a command when it is queued discards
//! all of them, before a number moves.

use seq_core::limits;

use crate::resp::parse::MAX_COMMAND_BYTES;

/// Most commands of a transaction: as many as a call to another node may carry items.
pub(super) const MAX_QUEUED: usize = limits::MAX_ITEMS;

/// Most bytes of a transaction: as many as one command may have, so that a connection holds twice that at worst.
pub(super) const MAX_QUEUED_BYTES: usize = MAX_COMMAND_BYTES;

/// The commands since MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// As they came, one behind the other.
    bytes: Vec<u8>,
    commands: usize,
    /// Whether one of them was refused: EXEC discards them all.
    failed: bool,
}

impl Transaction {
    /// Queues a command; false when there are too many, and then the transaction has failed.
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

    /// Notes that a command was refused. What was queued is forgotten.
    pub(super) fn fail(&mut self) {
        *self = Transaction { failed: true, ..Transaction::default() };
    }

    /// The commands to execute, and how many they are; `None` when the transaction has failed.
    pub(super) fn into_commands(self) -> Option<(Vec<u8>, usize)> {
        (!self.failed).then_some((self.bytes, self.commands))
    }
}
