//! Code that the commands of the program share. It handles exit codes and errors, output, set files, credentials and
//! signals, and contains clients of a set's store.

pub mod ended_migrations;
pub mod environment;
pub mod exit;
pub mod output;
pub mod panic;
pub mod plan;
pub mod port_kind;
pub mod process;
pub mod security;
pub mod selection;
pub mod set_file;
pub mod signals;
pub mod store_client;
pub mod survey;
pub mod target;
pub mod time_limit;
pub mod utc;
pub mod version;
pub mod whole_file;

/// Creates the async runtime of a client. The runtime has one thread, because a call then costs half as much CPU time
/// as with several threads.
///
/// # Errors
/// The operating system refuses a resource that the runtime needs.
pub fn client_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
