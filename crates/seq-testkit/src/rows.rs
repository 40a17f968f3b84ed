//! Harness of a suite whose tests are the rows of a table: each row stages one fault of real processes. A table may
//! have columns, e.g. the programs under test; then each row is in it once for each column.
//!
//! Rows run one after another, because a fault must not slow down another row, unless the suite has several jobs. The
//! short rows run with all tests; a variable of the environment chooses other rows. A failed row prints the command
//! that runs it again, and a table at the end has the result and the seconds of each row.

mod report;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use report::Report;

/// Whether stdout has only the report in JSON, so that all other text goes to stderr.
static IS_JSON: AtomicBool = AtomicBool::new(false);

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

/// A row of the table, in one column.
pub trait Row: Sync {
    /// Returns the name, by which the row is chosen.
    fn name(&self) -> &str;

    /// Returns the column; empty if the table has no columns.
    fn column(&self) -> &str {
        ""
    }

    /// Returns a description in one line.
    fn what(&self) -> &str;

    /// Returns the runs that include the row.
    fn tier(&self) -> Tier;

    /// Returns the tools or abilities that the row needs and that are missing. If there are any, the row is ignored.
    fn lacks(&self) -> Vec<String>;

    /// Returns settings in front of the command that runs the row again, each followed by a space.
    fn settings(&self) -> String {
        String::new()
    }

    /// Runs the row; panics if it fails.
    fn run(&self);
}

/// The table, and the choice of its rows.
#[derive(Debug)]
pub struct Suite<'a> {
    /// Name of the test target.
    pub target: &'a str,
    /// Subject of the columns, the key of a row's column in JSON.
    pub columns: &'a str,
    /// Variable of the environment that chooses rows.
    pub variable: &'a str,
    /// Value of the variable: empty for the short rows, `all` for every row except the long rows, `none`, or names of
    /// rows with commas between them.
    pub choice: &'a str,
    /// Whether a row that lacks something fails. Otherwise it is ignored, with a message.
    pub strict: bool,
    /// Number of rows that run at the same time, 1 or above.
    pub jobs: usize,
    /// Whether stdout gets one JSON object at the end, and no text.
    pub json: bool,
}

/// Result of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Ignored,
}

/// Prints a line about the row that runs in this thread.
pub fn note(line: impl fmt::Display) {
    let thread = std::thread::current();
    say(format_args!("test {}: {line}", thread.name().unwrap_or("?")));
}

/// Prints a line, to stderr if stdout has only the report.
fn say(line: impl fmt::Display) {
    if IS_JSON.load(Ordering::Relaxed) {
        eprintln!("{line}");
    } else {
        println!("{line}");
        let _ = io::stdout().flush();
    }
}

/// Returns the name of a row with its column, which is also the name of its thread.
fn label(row: &impl Row) -> String {
    if row.column().is_empty() { row.name().to_owned() } else { format!("{}/{}", row.column(), row.name()) }
}

impl Suite<'_> {
    /// Runs the chosen rows, as the `main` of a test target without a harness. `args` are the arguments of the process
    /// without its name, as cargo passes them. `before` runs first, if any row is chosen.
    pub fn main<R: Row>(&self, rows: &[R], args: impl IntoIterator<Item = String>, before: impl FnOnce()) -> ExitCode {
        let args: Vec<String> = args.into_iter().collect();
        if args.iter().any(|arg| arg == "--list") {
            rows.iter().for_each(|row| println!("{}: test", label(row)));
            return ExitCode::SUCCESS;
        }
        IS_JSON.store(self.json, Ordering::Relaxed);
        let chosen = match self.chosen(rows) {
            Ok(chosen) => chosen,
            Err(unknown) => {
                eprintln!("{}: no row is named {unknown:?}; `-- --list` lists them", self.variable);
                return ExitCode::FAILURE;
            }
        };
        let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
        let is_wanted = |row: &&R| filters.is_empty() || filters.iter().any(|filter| label(*row).contains(*filter));
        let chosen: Vec<&R> = chosen.into_iter().filter(is_wanted).collect();
        if !chosen.is_empty() {
            before();
        }
        say(format_args!("\nrunning {} tests", chosen.len()));
        let began = Instant::now();
        let results = self.run_all(&chosen);
        let report = Report { suite: self, results, not_chosen: rows.len() - chosen.len(), took: began.elapsed() };
        report.print();
        if report.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn chosen<'r, R: Row>(&self, rows: &'r [R]) -> Result<Vec<&'r R>, String> {
        match self.choice {
            "" => Ok(rows.iter().filter(|row| row.tier() == Tier::Short).collect()),
            "all" => Ok(rows.iter().filter(|row| row.tier() != Tier::Long).collect()),
            "none" => Ok(Vec::new()),
            names => {
                let names: Vec<&str> = names.split(',').collect();
                match names.iter().find(|name| !rows.iter().any(|row| row.name() == **name)) {
                    Some(unknown) => Err((*unknown).to_owned()),
                    None => Ok(rows.iter().filter(|row| names.contains(&row.name())).collect()),
                }
            }
        }
    }

    /// Runs the rows, in their order, on as many threads as the suite has jobs.
    fn run_all<'r, R: Row>(&self, rows: &[&'r R]) -> Vec<(&'r R, Verdict, Duration)> {
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(row) = rows.get(index) else { break };
                let (verdict, took) = self.run(*row);
                results.lock().push((index, verdict, took));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs {
                scope.spawn(work);
            }
            work();
        });
        let mut results = results.into_inner();
        results.sort_unstable_by_key(|(index, ..)| *index);
        results.into_iter().map(|(index, verdict, took)| (rows[index], verdict, took)).collect()
    }

    /// Runs a row in a thread of its own, whose name is in the messages of its panics.
    fn run(&self, row: &impl Row) -> (Verdict, Duration) {
        let (name, missing) = (label(row), row.lacks().join(", "));
        if !missing.is_empty() {
            let verdict = if self.strict { Verdict::Failed } else { Verdict::Ignored };
            say(format_args!("test {name} ... {}, it lacks {missing}", verdict.name()));
            return (verdict, Duration::ZERO);
        }
        say(format_args!("test {name}: {}", row.what()));
        let began = Instant::now();
        let ran = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(name.clone());
            thread.spawn_scoped(scope, || row.run()).expect("a thread").join()
        });
        let (verdict, took) = (if ran.is_ok() { Verdict::Passed } else { Verdict::Failed }, began.elapsed());
        say(format_args!("test {name} ... {} ({:.1} s)", verdict.name(), took.as_secs_f64()));
        (verdict, took)
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

#[cfg(test)]
mod tests;
