//! Conformance suite of the SDKs: one program, the *driver*, for each SDK, and rows that stage servers and faults
//! around it. `docs/conformance.md` has the rows, the protocol of the drivers, and the use of this program.
//!
//! Each row starts a driver, sends it calls, and checks each result and the order of all numbers. The short rows run
//! with all tests, for the Rust SDK; `CONFORMANCE` chooses other rows, and `CONFORMANCE_SDK` other SDKs.
//!
//! Times are printed, not asserted, because the machine may be busy. The exceptions are bounds that are part of a row,
//! e.g. that a call with a short deadline does not take as long as the default deadline.

use std::env::var;
use std::process::ExitCode;

use seq_testkit::rows::Suite;

mod call;
mod cluster;
mod driver;
mod history;
mod load;
mod pages;
#[path = "../e2e/cluster.rs"]
#[allow(dead_code, reason = "the suite uses the processes of the end-to-end tests, not all of their tools")]
mod place;
mod proxy;
mod rows;
mod rust_sdk;
mod sdks;
#[path = "../e2e/two_sets.rs"]
#[allow(dead_code, reason = "the suite uses two sets of the end-to-end tests, not all of their tools")]
mod two_sets;

/// Environment variables: the rows to run (`all`, `none`, or names), the SDKs (`present`, or names), the command of
/// the driver of another SDK, the number of rows that run at the same time, and whether each row runs with a fault in
/// the driver, with which it must fail.
const CHOICE: &str = "CONFORMANCE";
const SDKS: &str = "CONFORMANCE_SDK";
const DRIVER: &str = "CONFORMANCE_DRIVER";
const JOBS: &str = "CONFORMANCE_JOBS";
const FAULTS: &str = "CONFORMANCE_FAULTS";

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == sdks::AS_DRIVER) {
        return rust_sdk::run(args.get(1).map(String::as_str));
    }
    let json = args.windows(2).position(|pair| pair == ["-o", "json"]);
    if let Some(at) = json {
        args.drain(at..at + 2);
    }
    let choice = var(CHOICE).unwrap_or_default();
    let sdks = match var(DRIVER) {
        Ok(command) => Ok(vec![sdks::of_command(&command)]),
        Err(_) if choice == "none" => Ok(Vec::new()),
        Err(_) => sdks::chosen(&var(SDKS).unwrap_or_default()),
    };
    let sdks = match sdks {
        Ok(sdks) => sdks,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let jobs = var(JOBS).ok().map_or(1, |jobs| jobs.parse().expect("CONFORMANCE_JOBS is a number"));
    // A driver need not have every feature, so a row that its driver lacks a feature for is always ignored.
    let (target, columns, json) = ("conformance", "sdk", json.is_some());
    let suite = Suite { target, columns, variable: CHOICE, choice: &choice, strict: false, jobs, json };
    if var(FAULTS).is_ok() {
        return suite.main(&rows::planted(), args, || ());
    }
    let rows: Vec<rows::OfSdk<'_>> = sdks.iter().flat_map(rows::of).collect();
    suite.main(&rows, args, || pages::check(&sdks))
}
