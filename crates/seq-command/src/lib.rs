//! Parts that the commands of the program share, such as exit codes and errors, output, the set file, credentials,
//! signals, and clients of the store.

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

/// Makes the runtime of a client. It has one thread, because a call then costs half as much CPU time as with several
/// threads.
///
/// # Errors
/// The system does not grant the resources that the runtime needs.
pub fn client_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
