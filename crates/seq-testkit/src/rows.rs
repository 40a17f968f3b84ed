//! Harness of a suite whose tests are the rows of a table: each row stages one fault of real processes.
//!
//! Rows run one after another, because a fault must not slow down another row. The short rows run with all tests; a
//! variable of the environment chooses other rows. A failed row prints the command that runs it again, and a table at
//! the end has the result and the seconds of each row.

use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The runs that include a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Runs with all tests.
    Short,
    /// Runs with all rows.
    Full,
    /// Runs only by name, because it measures or takes very long.
    Long,
}

/// A row of the table.
pub trait Row {
    /// Returns the name, by which the row is chosen.
    fn name(&self) -> &str;

    /// Returns a description in one line.
    fn what(&self) -> &str;

    /// Returns the runs that include the row.
    fn tier(&self) -> Tier;

    /// Returns the tools or abilities that the row needs and that are missing. If there are any, the row is ignored.
    fn lacks(&self) -> Vec<String>;

    /// Runs the row; panics if it fails.
    fn run(&self);
}

/// The table, and the choice of its rows.
#[derive(Debug)]
pub struct Suite<'a> {
    /// Name of the test target.
    pub target: &'a str,
    /// Variable of the environment that chooses rows.
    pub variable: &'a str,
    /// Value of the variable: empty for the short rows, `all` for every row except the long rows, or names of rows
    /// with commas between them.
    pub choice: &'a str,
    /// Further settings in front of the command that runs a row again, each followed by a space; empty if there are
    /// none.
    pub settings: &'a str,
    /// Whether a row that lacks something fails. Otherwise it is ignored, with a message.
    pub strict: bool,
}

/// Result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Ignored,
}

impl Suite<'_> {
    /// Runs the chosen rows, as the `main` of a test target without a harness. `args` are the arguments of the process
    /// without its name, as cargo passes them. `before` runs first, if any row is chosen.
    pub fn main<R: Row>(&self, rows: &[R], args: impl IntoIterator<Item = String>, before: impl FnOnce()) -> ExitCode {
        let args: Vec<String> = args.into_iter().collect();
        if args.iter().any(|arg| arg == "--list") {
            rows.iter().for_each(|row| println!("{}: test", row.name()));
            return ExitCode::SUCCESS;
        }
        let chosen = match self.chosen(rows) {
            Ok(chosen) => chosen,
            Err(unknown) => {
                eprintln!("{}: no row is named {unknown:?}; `-- --list` lists them", self.variable);
                return ExitCode::FAILURE;
            }
        };
        let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
        let is_wanted = |row: &&R| filters.is_empty() || filters.iter().any(|filter| row.name().contains(*filter));
        let chosen: Vec<&R> = chosen.into_iter().filter(is_wanted).collect();
        if !chosen.is_empty() {
            before();
        }
        println!("\nrunning {} tests", chosen.len());
        let began = Instant::now();
        let results: Vec<_> = chosen.iter().map(|row| (row.name(), self.run(*row))).collect();
        self.report(&results, rows.len(), began.elapsed())
    }

    fn chosen<'r, R: Row>(&self, rows: &'r [R]) -> Result<Vec<&'r R>, String> {
        match self.choice {
            "" => Ok(rows.iter().filter(|row| row.tier() == Tier::Short).collect()),
            "all" => Ok(rows.iter().filter(|row| row.tier() != Tier::Long).collect()),
            names => names
                .split(',')
                .map(|name| rows.iter().find(|row| row.name() == name).ok_or_else(|| name.to_owned()))
                .collect(),
        }
    }

    fn run(&self, row: &impl Row) -> (Verdict, Duration) {
        let (name, missing) = (row.name(), row.lacks().join(", "));
        if !missing.is_empty() {
            let verdict = if self.strict { Verdict::Failed } else { Verdict::Ignored };
            println!("test {name} ... {}, it lacks {missing}", verdict.name());
            return (verdict, Duration::ZERO);
        }
        println!("test {name}: {}", row.what());
        let _ = io::stdout().flush();
        let began = Instant::now();
        let ran = panic::catch_unwind(AssertUnwindSafe(|| row.run()));
        let (verdict, took) = (if ran.is_ok() { Verdict::Passed } else { Verdict::Failed }, began.elapsed());
        println!("test {name} ... {} ({:.1} s)", verdict.name(), took.as_secs_f64());
        (verdict, took)
    }

    fn report(&self, results: &[(&str, (Verdict, Duration))], rows: usize, took: Duration) -> ExitCode {
        let count = |verdict| results.iter().filter(|(_, (of_row, _))| *of_row == verdict).count();
        let width = results.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        println!("\n{:width$}  result   seconds", "row");
        for (name, (verdict, took)) in results {
            println!("{name:width$}  {:8} {:6.1}", verdict.name(), took.as_secs_f64());
        }
        for (name, _) in results.iter().filter(|(_, (verdict, _))| *verdict == Verdict::Failed) {
            let Suite { target, variable, settings, .. } = self;
            println!("repeat with: {settings}{variable}={name} cargo test --workspace --test {target}");
        }
        let failed = count(Verdict::Failed);
        println!(
            "\ntest result: {}. {} passed; {failed} failed; {} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
            if failed == 0 { "ok" } else { "FAILED" },
            count(Verdict::Passed),
            count(Verdict::Ignored),
            rows - results.len(),
            took.as_secs_f64()
        );
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Passed => "ok",
            Verdict::Failed => "FAILED",
            Verdict::Ignored => "ignored",
        }
    }
}
