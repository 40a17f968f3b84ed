//! Runs the simulated worlds of `tests/turmoil`, a workspace of its own: it is built with a cfg that nothing else is.

use std::path::Path;

use anyhow::Context;

/// Where it lies. Cargo reads the cfg from a file there, so it is started there.
const DIR: &str = "tests/turmoil";

/// Checks the format and runs each world for as many seeds as the gate has time for.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    for args in [&["fmt", "--check"] as &[&str], &["test", "--locked", "--", "--nocapture"]] {
        let status = crate::cargo(&root.join(DIR))
            .args(args)
            // The host's build scripts and macros are those of the other steps.
            .env("CARGO_TARGET_DIR", crate::target_dir(root))
            // Flags from outside would replace those of the file.
            .env_remove("RUSTFLAGS")
            .status()
            .context("starting cargo")?;
        anyhow::ensure!(status.success(), "cargo {} in {DIR}: {status}", args.join(" "));
    }
    Ok(())
}
