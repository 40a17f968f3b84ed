//! The build script, which sets the source revision for `seqsvr version` and the build metric.

use std::path::Path;
use std::process::Command;

fn main() {
    // The variable has not the prefix of settings, because cargo passes it to the programs that it runs.
    println!("cargo::rustc-env=BUILD_REVISION={}", revision().unwrap_or_else(|| "unknown".to_owned()));
    let git = Path::new("../../.git");
    for file in ["HEAD", "logs/HEAD"] {
        // A path that does not exist would make every build run this script again.
        if git.join(file).exists() {
            println!("cargo::rerun-if-changed={}", git.join(file).display());
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// Returns the short hash of the checked-out commit; `None` outside a repository or without git.
fn revision() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=7", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let hash = text.trim();
    (output.status.success() && !hash.is_empty()).then(|| hash.to_owned())
}
