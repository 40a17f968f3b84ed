//! The command `version`, and the version and revision for other commands.

use std::sync::OnceLock;

use serde::Serialize;

use crate::exit::Exit;
use crate::output::Output;

/// Version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

static REVISION: OnceLock<&str> = OnceLock::new();

/// Sets the source revision from which the program was built. The program's `main` calls it with its own revision. If
/// this crate contained the revision, each commit would cause a new build of this crate and of all crates that depend
/// on it.
pub fn built_from(revision: &'static str) {
    let _ = REVISION.set(revision);
}

/// Returns the source revision from which the program was built. It is the short hash of a commit, or "unknown" if the
/// program was not built in a Git repository.
pub fn revision() -> &'static str {
    REVISION.get().copied().unwrap_or("unknown")
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    revision: &'static str,
}

/// Runs the command `version`.
///
/// # Errors
/// Standard output is closed.
pub fn run(output: &Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        output.json(&Version { version: VERSION, revision: revision() })?;
    } else {
        output.line(format_args!("seqsvr {VERSION} ({})", revision()))?;
    }
    Ok(Exit::Ok)
}
