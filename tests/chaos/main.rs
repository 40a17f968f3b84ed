//! Chaos tests: real processes, each in a network namespace, real faults, and the order checker over every call.
//!
//! Each row is one named test. The short rows run with all tests; `CHAOS=all` runs every row except the long rows, and
//! `CHAOS=NAME,NAME` runs the named rows, e.g. after a failure. Rows run one after another, because a fault must not
//! slow down another row.
//!
//! Every row asserts the order of the seqs. Times are printed, not asserted, because the machine may be busy. If the
//! machine cannot make a fault (no root, or a missing tool), the row is ignored with a message; if `CI` is set it
//! fails, because `.ci/run` installs the tools.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::Instant;

mod cluster;
mod load;
mod machine;
mod memory_groups;
mod net;
mod node;
mod rows;
mod scene;

use rows::{ROWS, Row, Tier};

/// Environment variable with the rows to run: `all`, or names.
const CHOICE: &str = "CHAOS";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        ROWS.iter().for_each(|row| println!("{}: test", row.name));
        return ExitCode::SUCCESS;
    }
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let chosen: Vec<&Row> = match choose(&choice) {
        Ok(rows) => rows,
        Err(unknown) => {
            eprintln!("{CHOICE}: no row is named {unknown:?}; `-- --list` lists them");
            return ExitCode::FAILURE;
        }
    };
    let rows: Vec<&Row> = chosen
        .into_iter()
        .filter(|row| filters.is_empty() || filters.iter().any(|filter| row.name.contains(*filter)))
        .collect();
    if !rows.is_empty() && machine::lacks(&[machine::Need::Namespaces]).is_empty() {
        net::sweep();
    }
    println!("\nrunning {} tests", rows.len());
    let began = Instant::now();
    let (mut passed, mut failed, mut ignored) = (0, Vec::new(), 0);
    for row in &rows {
        match run(row) {
            Outcome::Passed => passed += 1,
            Outcome::Failed => failed.push(row.name),
            Outcome::Ignored => ignored += 1,
        }
    }
    for name in &failed {
        println!("repeat with: {CHOICE}={name} cargo test --workspace --test chaos");
    }
    println!(
        "\ntest result: {}. {passed} passed; {} failed; {ignored} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        failed.len(),
        ROWS.len() - rows.len(),
        began.elapsed().as_secs_f64()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

enum Outcome {
    Passed,
    Failed,
    Ignored,
}

fn choose(choice: &str) -> Result<Vec<&'static Row>, String> {
    match choice {
        "" => Ok(ROWS.iter().filter(|row| row.tier == Tier::Short).collect()),
        "all" => Ok(ROWS.iter().filter(|row| row.tier != Tier::Long).collect()),
        names => names
            .split(',')
            .map(|name| ROWS.iter().find(|row| row.name == name).ok_or_else(|| name.to_owned()))
            .collect(),
    }
}

fn run(row: &Row) -> Outcome {
    let lacks = machine::lacks(row.needs);
    if !lacks.is_empty() {
        let missing = lacks.join(", ");
        if std::env::var_os("CI").is_some() {
            println!("test {} ... FAILED, this machine lacks {missing}", row.name);
            return Outcome::Failed;
        }
        println!("test {} ... ignored, this machine lacks {missing}", row.name);
        return Outcome::Ignored;
    }
    println!("test {}: {}", row.name, row.what);
    let _ = io::stdout().flush();
    let began = Instant::now();
    let ran = panic::catch_unwind(AssertUnwindSafe(row.run));
    let verdict = if ran.is_ok() { "ok" } else { "FAILED" };
    println!("test {} ... {verdict} ({:.1} s)", row.name, began.elapsed().as_secs_f64());
    if ran.is_ok() { Outcome::Passed } else { Outcome::Failed }
}
