//! The SDKs under test: the Rust SDK, whose driver is this program, and each SDK with a script that starts its driver.
//!
//! The script of the SDK `NAME` is `clients/NAME/driver`; `clients/NAME/driver-KIND` is that of the SDK `NAME-KIND`.
//! With the argument `--ready` it prepares the driver, e.g. builds it, or prints the missing tools of this machine
//! and fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::driver::{ROOT, Sdk, UNNAMED, quoted};
use crate::rust_sdk::Fault;

/// Argument with which this program is the driver of the Rust SDK.
pub(crate) const AS_DRIVER: &str = "--driver";

/// Name of the SDK that this program drives itself.
const RUST: &str = "rust";

/// Choice of every SDK whose driver this machine can run.
const PRESENT: &str = "present";

/// Returns the chosen SDKs. `choice` is empty for the Rust SDK, `present`, or names with commas or spaces between
/// them. SDKs that are left out are named on stderr.
///
/// # Errors
/// A message, if a named SDK is unknown or cannot run.
pub(crate) fn chosen(choice: &str) -> Result<Vec<Sdk>, String> {
    let known = known();
    let names: Vec<&str> = choice.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    match names[..] {
        [] => Ok(vec![rust()]),
        [PRESENT] => Ok([rust()].into_iter().chain(known.iter().filter_map(ready_or_said)).collect()),
        _ => names
            .iter()
            .map(|name| match known.iter().find(|(known, _)| known == name) {
                _ if *name == RUST => Ok(rust()),
                Some((name, script)) => ready(name, script),
                None => Err(format!("there is no SDK {name:?}; the SDKs are {}", all_names(&known))),
            })
            .collect(),
    }
}

/// Returns an SDK that has this command as its driver.
pub(crate) fn of_command(command: &str) -> Sdk {
    let settings = format!("CONFORMANCE_DRIVER={} ", quoted(command));
    Sdk::new(UNNAMED.to_owned(), command.to_owned(), settings)
}

/// Returns the Rust SDK.
pub(crate) fn rust() -> Sdk {
    Sdk::new(RUST.to_owned(), own_command(), String::new())
}

/// Returns the Rust SDK with a fault in its driver.
pub(crate) fn with_fault(fault: Fault) -> Sdk {
    let (name, settings) = (fault.name(), "CONFORMANCE_FAULTS=1 ".to_owned());
    Sdk::new(name.clone(), format!("{} {name}", own_command()), settings)
}

fn own_command() -> String {
    let this = std::env::current_exe().expect("this program has a path");
    format!("{} {AS_DRIVER}", quoted(&this.display().to_string()))
}

fn all_names(known: &[(String, PathBuf)]) -> String {
    let names: Vec<&str> = [RUST].into_iter().chain(known.iter().map(|(name, _)| &**name)).collect();
    names.join(", ")
}

/// Returns name and script of each SDK except the Rust SDK, in the order of the names.
fn known() -> Vec<(String, PathBuf)> {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let mut known = Vec::new();
    for client in entries(format!("{ROOT}/clients").into()).filter(|client| client.is_dir()) {
        let language = client.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for script in entries(client) {
            let kind = script.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("driver"));
            if let Some(kind) = kind
                && (kind.is_empty() || kind.starts_with('-'))
                && script.is_file()
            {
                known.push((format!("{language}{kind}"), script));
            }
        }
    }
    known.sort_unstable();
    known
}

/// Prepares the driver of an SDK.
fn ready(name: &str, script: &Path) -> Result<Sdk, String> {
    let script = fs::canonicalize(script).map_err(|error| format!("{}: {error}", script.display()))?;
    let prepared = Command::new(&script).arg("--ready").stdin(Stdio::null()).stdout(Stdio::null()).output();
    let prepared = prepared.map_err(|error| format!("{}: {error}", script.display()))?;
    if !prepared.status.success() {
        return Err(format!(
            "the driver of {name} cannot run: {}",
            String::from_utf8_lossy(&prepared.stderr).trim_end()
        ));
    }
    let settings = format!("CONFORMANCE_SDK={name} ");
    Ok(Sdk::new(name.to_owned(), quoted(&script.display().to_string()), settings))
}

fn ready_or_said((name, script): &(String, PathBuf)) -> Option<Sdk> {
    ready(name, script).inspect_err(|lacks| eprintln!("LEFT OUT: {lacks}")).ok()
}
