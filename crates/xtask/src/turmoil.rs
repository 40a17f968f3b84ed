//! Runs the simulated worlds of `tests/turmoil`, which is a separate workspace because it is built with its own `cfg`
//! flag.

use std::path::Path;

use anyhow::Context;

/// Directory of the workspace. Cargo runs in it, so that cargo reads the `cfg` from the settings file there.
const DIR: &str = "tests/turmoil";

/// Checks the format and runs each world for the number of seeds that the gate allows.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    for args in [&["fmt", "--check"] as &[&str], &["test", "--locked", "--", "--nocapture"]] {
        let status = crate::cargo(&root.join(DIR))
            .args(args)
            // Shares build scripts and macros of the host with the other steps.
            .env("CARGO_TARGET_DIR", crate::target_dir(root))
            // RUSTFLAGS would replace the flags of the settings file.
            .env_remove("RUSTFLAGS")
            .status()
            .context("starting cargo")?;
        anyhow::ensure!(status.success(), "cargo {} in {DIR}: {status}", args.join(" "));
    }
    Ok(())
}
