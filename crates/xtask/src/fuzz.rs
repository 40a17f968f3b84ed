//! Builds the fuzz targets with libFuzzer, and runs each target for some seconds. A run starts with the inputs of the
//! corpus in the repository.
//!
//! The stable compiler can instrument code for coverage, so neither a nightly compiler nor cargo-fuzz is needed. The
//! repository has no `unsafe` code, so the address sanitizer, which slows the targets down, is not used.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;

/// Fuzz targets: binaries of `tests/fuzz/`.
const TARGETS: &[&str] =
    &["apply", "control", "handover", "inter_set", "raft", "wire", "messages", "json", "resp", "record"];

/// Committed corpus, which has a directory for each target.
const CORPUS: &str = "tests/fuzz/corpus";
const DICTIONARY: &str = "tests/fuzz/fuzz.dict";

/// Compiler flags that instrument every crate for libFuzzer. Lints are at most warnings, because the macro of libFuzzer
/// expands to an `unsafe` symbol, which the workspace's lints forbid.
const RUSTFLAGS: &str = "--cfg fuzzing --cap-lints warn -Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Largest length of an input in bytes. The ports of the service accept longer messages, but longer messages only have
/// more rows of the same form. libFuzzer begins with short inputs.
const MAX_LEN: usize = 64 * 1024;

/// Largest number of characters at the end of libFuzzer's report that are shown if a target fails.
const MAX_SHOWN: usize = 8 * 1024;

/// Duration and targets.
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Seconds per target.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Run only this target.
    #[arg(long)]
    target: Option<String>,
}

/// Runs every target, or the given target.
pub(crate) fn run(root: &Path, args: &FuzzArgs) -> anyhow::Result<()> {
    if let Some(target) = &args.target {
        anyhow::ensure!(TARGETS.contains(&target.as_str()), "no target `{target}`: there are {}", TARGETS.join(", "));
    }
    let bin_dir = build(root)?;
    for target in TARGETS.iter().filter(|target| args.target.as_deref().is_none_or(|name| name == **target)) {
        let Sums { executions, edges, inputs } = fuzz(root, &bin_dir.join(target), target, args.seconds)?;
        eprintln!("{target:<9} {executions:>11} executions, {edges:>6} edges covered, {inputs:>5} inputs kept");
    }
    Ok(())
}

/// Statistics of a run, from libFuzzer's report.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    executions: u64,
    edges: u64,
    inputs: u64,
}

/// Parses the last status line of libFuzzer: `#N DONE cov: E ft: F corp: I/BYTES ...`.
fn sums(report: &str) -> Sums {
    let line = report.lines().rfind(|line| line.starts_with('#') && line.contains(" cov: ")).unwrap_or_default();
    let after = |word: &str| -> u64 {
        let rest = line.split_once(word).map_or("", |(_, rest)| rest.trim_start());
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
    };
    Sums { executions: after("#"), edges: after(" cov: "), inputs: after(" corp: ") }
}

/// Runs every target for the time that the gate allows.
pub(crate) fn run_briefly(root: &Path) -> anyhow::Result<()> {
    run(root, &FuzzArgs { seconds: 5, target: None })
}

/// Builds the fuzz targets. Passes the host platform to cargo as an explicit `--target`, because cargo then does not
/// instrument build scripts and procedural macros. Returns the directory of the binaries.
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

fn fuzz(root: &Path, binary: &Path, target: &str, seconds: u32) -> anyhow::Result<Sums> {
    let work = crate::target_dir(root).join("fuzz").join(target);
    let (corpus, found) = (work.join("corpus"), work.join("found/"));
    for dir in [&corpus, &found] {
        std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    // libFuzzer writes new inputs to the first directory. It only reads the second directory, the corpus in the
    // repository.
    let output = Command::new(binary)
        .args([&corpus, &root.join(CORPUS).join(target)])
        .args([format!("-max_total_time={seconds}"), format!("-max_len={MAX_LEN}")])
        .arg(format!("-dict={}", root.join(DICTIONARY).display()))
        .args(["-print_funcs=0", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}", found.display()))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", binary.display()))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let shown: String = report.chars().skip(report.chars().count().saturating_sub(MAX_SHOWN)).collect();
        anyhow::bail!(
            "{shown}\ntarget {target}: {}; repeat it with: {} {}FILE, the newest one there",
            output.status,
            binary.display(),
            found.display()
        );
    }
    Ok(sums(&report))
}

/// Returns the host triple of the compiler.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("starting rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc -vV names no host")?;
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_report_has_the_sums() {
        let report = "#2\tINITED cov: 5 ft: 6 corp: 1/9b exec/s: 0 rss: 30Mb\n#4711\tDONE   cov: 321 ft: 99 corp: 12/3Kb lim: 9\n\
                      Done 4711 runs in 5 second(s)\nstat::number_of_executed_units: 4711\n";
        assert_eq!(sums(report), Sums { executions: 4_711, edges: 321, inputs: 12 });
        assert_eq!(sums("nothing of the kind"), Sums::default());
    }
}
