//! The command `version`, and the version and revision for other commands.

use std::sync::OnceLock;

use serde::Serialize;

use crate::exit::Exit;
use crate::output::Output;

/// Version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

static REVISION: OnceLock<&str> = OnceLock::new();

/// States the source revision that the program was built from. The program calls it first: a crate that had the
/// revision itself would be built again, with all that depends on it, after each commit.
pub fn built_from(revision: &'static str) {
    let _ = REVISION.set(revision);
}

/// Returns the source revision that the program was built from: a short hash, or "unknown" outside of a repository.
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
