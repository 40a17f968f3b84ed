//! Builds the fuzz targets under libFuzzer and runs each for some seconds.
//!
//! The coverage that libFuzzer needs is a pass of the stable compiler; neither a nightly one nor cargo-fuzz is needed. There
//! is no `unsafe` in the repository, so the address sanitizer would find little for its price.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;

/// The targets: binaries of `tests/fuzz/`.
const TARGETS: &[&str] = &["wire", "messages", "json", "resp", "record"];

/// Instruments every crate for libFuzzer. Lints are capped, because its macro makes an `unsafe` symbol.
const RUSTFLAGS: &str = "--cfg fuzzing --cap-lints warn -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Longest input: the largest message a port accepts is larger, but adds nothing that a short one does not have.
const MAX_LEN: usize = 4096;

/// How long to fuzz.
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// For each target.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Only this target.
    #[arg(long)]
    target: Option<String>,
}

/// Runs every target, or the one that was asked for.
pub(crate) fn run(root: &Path, args: &FuzzArgs) -> anyhow::Result<()> {
    if let Some(target) = &args.target {
        anyhow::ensure!(TARGETS.contains(&target.as_str()), "no target `{target}`: there are {}", TARGETS.join(", "));
    }
    let bin_dir = build(root)?;
    for target in TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|wanted| wanted == **target)) {
        fuzz(root, &bin_dir.join(target), target, args.seconds)?;
    }
    Ok(())
}

/// Runs every target as long as the gate has time for.
pub(crate) fn run_briefly(root: &Path) -> anyhow::Result<()> {
    run(root, &FuzzArgs { seconds: 5, target: None })
}

/// Builds for the host named as a target, so that build scripts and macros stay as they are. Answers where the binaries lie.
fn build(root: &Path) -> anyhow::Result<std::path::PathBuf> {
    let host = host()?;
    let status = crate::cargo(root)
        .args(["build", "--locked", "--package", "seq-fuzz", "--bins", "--target", &host])
        .env("RUSTFLAGS", RUSTFLAGS)
        .status()
        .context("starting cargo")?;
    anyhow::ensure!(status.success(), "building the fuzz targets: {status}");
    Ok(crate::target_dir(root).join(host).join("debug"))
}

fn fuzz(root: &Path, binary: &Path, target: &str, seconds: u32) -> anyhow::Result<()> {
    let work = crate::target_dir(root).join("fuzz").join(target);
    let (corpus, found) = (work.join("corpus"), work.join("found/"));
    for dir in [&corpus, &found] {
        std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    eprintln!("{target}:");
    let status = Command::new(binary)
        .arg(&corpus)
        .args([format!("-max_total_time={seconds}"), format!("-max_len={MAX_LEN}")])
        .args(["-verbosity=0", "-print_funcs=0", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}", found.display()))
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", binary.display()))?;
    anyhow::ensure!(
        status.success(),
        "target {target}: {status}; repeat it with: {} {}FILE, the newest one there",
        binary.display(),
        found.display()
    );
    Ok(())
}

/// The triple that the compiler runs on.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("starting rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.to_owned())
}
