//! The command `version`, and the version and revision for other commands.

use serde::Serialize;

use crate::exit::Exit;
use crate::output::Output;

/// Version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Source revision the program was built from, "unknown" outside of a repository.
pub(crate) const REVISION: &str = env!("BUILD_REVISION");

#[derive(Serialize)]
struct Version {
    version: &'static str,
    revision: &'static str,
}

pub(crate) fn run(output: &Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        output.json(&Version { version: VERSION, revision: REVISION })?;
    } else {
        output.line(format_args!("seqsvr {VERSION} ({REVISION})"))?;
    }
    Ok(Exit::Ok)
}
