//! Conformance suite of the SDKs: one program, the *driver*, for each SDK, and rows that stage servers and faults around
//! it. `README.md` in this directory has the protocol of the drivers.
//!
//! Each row starts a driver, sends it calls, and checks each result and the order of all numbers. The short rows run
//! with all tests, with the driver of the Rust SDK; `CONFORMANCE` chooses other rows, and `CONFORMANCE_DRIVER` is the
//! command of another driver. `tests/conformance/run` runs the rows with each driver that this machine can run.
//!
//! Times are printed, not asserted, because the machine may be busy. The exceptions are bounds that are part of a row,
//! e.g. that a call with a short deadline does not take as long as the default deadline.

use std::process::ExitCode;

use seq_testkit::rows::Suite;

mod call;
mod cluster;
mod driver;
mod history;
mod load;
#[path = "../e2e/cluster.rs"]
#[allow(dead_code, reason = "the suite uses the processes of the end-to-end tests, not all of their tools")]
mod place;
mod proxy;
mod rows;
mod rust_sdk;

use driver::Sdk;

/// Environment variables: the rows to run (`all`, or names), and the command of the driver.
const CHOICE: &str = "CONFORMANCE";
const DRIVER: &str = "CONFORMANCE_DRIVER";

/// Argument with which this program is the driver of the Rust SDK.
const AS_DRIVER: &str = "--driver";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|arg| arg == AS_DRIVER) {
        return rust_sdk::run();
    }
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let (command, settings) = match std::env::var(DRIVER) {
        Ok(command) => (command.clone(), format!("{DRIVER}='{}' ", command.replace('\'', "'\\''"))),
        Err(_) => {
            let this = std::env::current_exe().expect("this program has a path");
            (format!("'{}' {AS_DRIVER}", this.display()), String::new())
        }
    };
    let sdk = Sdk::new(command);
    let rows: Vec<rows::OfSdk<'_>> = rows::ROWS.iter().map(|row| rows::OfSdk { row, sdk: &sdk }).collect();
    // A driver need not have every feature, so a row that its driver lacks a feature for is always ignored.
    let suite = Suite { target: "conformance", variable: CHOICE, choice: &choice, settings: &settings, strict: false };
    suite.main(&rows, args, || println!("\nthe driver of {}: {}", sdk.hello().sdk, sdk.command()))
}
