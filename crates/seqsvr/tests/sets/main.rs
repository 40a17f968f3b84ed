//! The commands for sets, migrations and sections against stores of this test: output and exit codes.
//!
//! The stores run in this process and implement `SetAdminService` alone, so that every state of a migration is at hand.
#![expect(clippy::too_many_lines, reason = "the expected output is part of the test")]

mod define;
mod fake;
mod list;
mod migrate;
mod terminal;
mod watch;
