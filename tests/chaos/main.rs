//! Chaos tests: real processes, each in a network namespace, real faults, and the order checker over every call.
//!
//! Each row is one named test. The short rows run with all tests; `CHAOS=all` runs every row except the long rows, and
//! `CHAOS=NAME,NAME` runs the named rows, e.g. after a failure. Rows run one after another, because a fault must not
//! slow down another row.
//!
//! Every row asserts the order of the seqs. Times are printed, not asserted, because the machine may be busy. If the
//! machine cannot make a fault (no root, or a missing tool), the row is ignored with a message; if `CI` is set it
//! fails, because `.ci/run` installs the tools.

use std::process::ExitCode;

use seq_testkit::rows::Suite;

mod cluster;
mod load;
mod machine;
mod memory_groups;
mod net;
mod node;
mod rows;
mod scene;

/// Environment variable with the rows to run: `all`, or names.
const CHOICE: &str = "CHAOS";

fn main() -> ExitCode {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let strict = std::env::var_os("CI").is_some();
    let suite = Suite { target: "chaos", columns: "", variable: CHOICE, choice: &choice, strict, jobs: 1, json: false };
    suite.main(rows::ROWS, std::env::args().skip(1), || {
        if machine::lacks(&[machine::Need::Namespaces]).is_empty() {
            net::sweep();
        }
    })
}
