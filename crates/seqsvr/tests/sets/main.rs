//! The commands for sets, migrations and sections with stores in this test: output and exit codes.
//!
//! The stores run in this process and only implement `SetAdminService`, so that a test can set every state of a
//! migration.
#![expect(clippy::too_many_lines, reason = "the expected output is part of the test")]

mod define;
mod fake;
mod list;
mod migrate;
mod terminal;
mod watch;
