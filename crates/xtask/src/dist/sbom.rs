//! The list of the binary's components, in the CycloneDX format.
//!
//! **Invariant:** the list depends only on the sources. The output of cargo-cyclonedx also contains a random number,
//! the current time and the path of the checkout. This module removes the number, and replaces the time and the path.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;

use super::{TARGET, text_of, version};

/// Version of cargo-cyclonedx that makes the lists.
const CARGO_CYCLONEDX: &str = "0.5.9";

/// File name, without extension, of the lists that cargo-cyclonedx writes, one next to the Cargo.toml of each crate. No
/// other file in the repository has this name.
const FILE: &str = "seqsvr-list";

#[derive(Args)]
pub(crate) struct SbomArgs {
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = "target/seqsvr.cdx.json")]
    out: std::path::PathBuf,
}

/// Writes the list for the sources in the checkout, to the file that the arguments name.
pub(crate) fn run(root: &Path, args: &SbomArgs) -> anyhow::Result<()> {
    let epoch = super::epoch(root)?;
    write(root, &epoch, &std::path::absolute(&args.out)?)?;
    println!("{}", args.out.display());
    Ok(())
}

/// Returns the file name of a version's list.
pub(super) fn name(version: &str) -> String {
    format!("seqsvr-{version}-{TARGET}.cdx.json")
}

/// Writes the list to the file `to`. The time in the list is `epoch`, in seconds since 1970.
pub(super) fn write(root: &Path, epoch: &str, to: &Path) -> anyhow::Result<()> {
    let metadata = cargo_metadata::MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec()?;
    let written = list(root);
    // cargo-cyclonedx writes a list for each crate of the workspace, next to the crate's Cargo.toml.
    let mut text = None;
    for package in &metadata.packages {
        let Some(dir) = package.manifest_path.parent() else { continue };
        let file = dir.join(format!("{FILE}.json"));
        if package.name == super::PACKAGE && written.is_ok() {
            text = Some(fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?);
        }
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("cannot remove {file}"))?;
        }
    }
    written?;
    let list = reproducible(&text.with_context(|| format!("no crate {}", super::PACKAGE))?, root, epoch)?;
    ensure!(list["metadata"]["component"]["version"] == version(root)?, "the list is of another version");
    let text = serde_json::to_string_pretty(&list)? + "\n";
    fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

/// Runs cargo-cyclonedx, which writes a list for each crate of the workspace, next to the crate's Cargo.toml.
fn list(root: &Path) -> anyhow::Result<()> {
    let mut cargo = crate::cargo(root);
    cargo.args([
        "cyclonedx",
        "--manifest-path",
        "crates/seqsvr/Cargo.toml",
        "--format",
        "json",
        "--spec-version",
        "1.5",
    ]);
    cargo.args(["--target", TARGET, "--override-filename", FILE]);
    text_of(&mut cargo)
        .map(drop)
        .with_context(|| format!("is it installed? cargo install --locked cargo-cyclonedx@{CARGO_CYCLONEDX}"))
}

/// Parses `text`, the output of cargo-cyclonedx. Returns the list with the random number removed, and with a fixed time
/// and path.
fn reproducible(text: &str, root: &Path, epoch: &str) -> anyhow::Result<Value> {
    // References to the crates of the workspace contain the path of the checkout, e.g.
    // `path+file:///srv/seqsvr/crates/seq-kit#0.1.0`.
    let root = format!("file://{}/", root.display());
    let mut list: Value = serde_json::from_str(&text.replace(&root, "file:///seqsvr/"))?;
    let fields = list.as_object_mut().context("the list is no object")?;
    fields.remove("serialNumber");
    list["metadata"]["timestamp"] = super::rfc3339(epoch)?.into();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_run_nor_the_checkout_is_in_the_list() {
        let list = |number: u32, root: &str| {
            let text = format!(
                r#"{{"serialNumber":"urn:uuid:{number}","metadata":{{"timestamp":"2026-01-0{number}T00:00:00Z"}},
                    "components":[{{"bom-ref":"path+file://{root}/crates/seq-kit#0.1.0"}}]}}"#
            );
            reproducible(&text, Path::new(root), "0").unwrap()
        };
        let one = list(1, "/srv/seqsvr");
        assert_eq!(one, list(2, "/build"));
        assert_eq!(one["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(one["components"][0]["bom-ref"], "path+file:///seqsvr/crates/seq-kit#0.1.0");
    }
}
