//! Runs the tests of `tests/turmoil`, in which the real services run on a simulated network. `tests/turmoil` is a
//! separate workspace, because it is built with its own `cfg` flag.

use std::path::Path;

use anyhow::Context;

/// Directory of the workspace. Cargo runs in this directory, so that it reads the `cfg` flag from the cargo settings in
/// it.
const DIR: &str = "tests/turmoil";

/// Checks the format of the workspace's code, and runs its tests. Each test simulates a cluster once for each of a few
/// seeds.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    for args in [&["fmt", "--check"] as &[&str], &["test", "--locked", "--", "--nocapture"]] {
        let status = crate::cargo(&root.join(DIR))
            .args(args)
            // Uses the target directory of the other steps, so that build scripts and procedural macros are not
            // compiled twice.
            .env("CARGO_TARGET_DIR", crate::target_dir(root))
            // The variable RUSTFLAGS would replace the flags in the cargo settings of the workspace.
            .env_remove("RUSTFLAGS")
            .status()
            .context("starting cargo")?;
        anyhow::ensure!(status.success(), "cargo {} in {DIR}: {status}", args.join(" "));
    }
    Ok(())
}
