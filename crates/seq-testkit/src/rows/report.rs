//! The report of a run: a table of rows and columns with seconds, or JSON; and the commands that run failed rows again.

use std::time::Duration;

use super::{Row, Suite, Verdict, say};

/// Results of a run.
pub(super) struct Report<'a, R> {
    pub(super) suite: &'a Suite<'a>,
    /// In the order of the rows.
    pub(super) results: Vec<(&'a R, Verdict, Duration)>,
    pub(super) not_chosen: usize,
    pub(super) took: Duration,
}

impl<R: Row> Report<'_, R> {
    pub(super) fn has_failed(&self) -> bool {
        self.count(Verdict::Failed) > 0
    }

    pub(super) fn print(&self) {
        self.table().iter().for_each(say);
        for (row, ..) in self.results.iter().filter(|(_, verdict, _)| *verdict == Verdict::Failed) {
            say(format_args!("repeat with: {}", self.command(*row)));
        }
        say(format_args!(
            "\ntest result: {}. {} passed; {} failed; {} ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
            if self.has_failed() { "FAILED" } else { "ok" },
            self.count(Verdict::Passed),
            self.count(Verdict::Failed),
            self.count(Verdict::Ignored),
            self.not_chosen,
            self.took.as_secs_f64()
        ));
        if self.suite.json {
            println!("{}", self.json());
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.results.iter().filter(|(_, of_row, _)| *of_row == verdict).count()
    }

    /// Returns the command that runs a row again.
    fn command(&self, row: &R) -> String {
        let Suite { target, variable, .. } = self.suite;
        format!("{}{variable}={} cargo test --workspace --test {target}", row.settings(), row.name())
    }

    /// Returns the lines of the table: a line for each row, and a cell with result and seconds for each column.
    pub(super) fn table(&self) -> Vec<String> {
        let (names, columns) = (unique(self.results.iter().map(|(row, ..)| row.name())), self.columns());
        let width = names.iter().map(|name| name.len()).max().unwrap_or_default().max("row".len());
        let heading =
            |column: &&str| if column.is_empty() { "result  seconds".to_owned() } else { (*column).to_owned() };
        let cells: Vec<Vec<String>> = columns
            .iter()
            .map(|column| {
                [heading(column)].into_iter().chain(names.iter().map(|name| self.cell(name, column))).collect()
            })
            .collect();
        let widths: Vec<usize> =
            cells.iter().map(|column| column.iter().map(String::len).max().unwrap_or_default()).collect();
        let line = |(index, name): (usize, &str)| {
            let cells = cells.iter().zip(&widths).map(|(column, width)| format!("  {:width$}", column[index]));
            format!("{name:width$}{}", cells.collect::<String>()).trim_end().to_owned()
        };
        [String::new()].into_iter().chain(["row"].into_iter().chain(names).enumerate().map(line)).collect()
    }

    fn columns(&self) -> Vec<&str> {
        unique(self.results.iter().map(|(row, ..)| row.column()))
    }

    fn cell(&self, name: &str, column: &str) -> String {
        let found = self.results.iter().find(|(row, ..)| row.name() == name && row.column() == column);
        found.map_or_else(String::new, |(_, verdict, took)| match verdict {
            Verdict::Ignored => "-".to_owned(),
            verdict => format!("{:6} {:6.1}", verdict.name(), took.as_secs_f64()),
        })
    }

    /// Returns the results as one JSON object. Names of rows and columns, and commands, have no control characters.
    pub(super) fn json(&self) -> String {
        let row = |(row, verdict, took): &(&R, Verdict, Duration)| {
            let result = verdict.name().to_ascii_lowercase();
            let seconds = took.as_secs_f64();
            let mut fields = format!("\"row\":{:?},\"result\":\"{result}\",\"seconds\":{seconds:.1}", row.name());
            if !row.column().is_empty() {
                fields = format!("{:?}:{:?},{fields}", self.suite.columns, row.column());
            }
            if *verdict == Verdict::Failed {
                fields = format!("{fields},\"repeat\":{:?}", self.command(row));
            }
            format!("{{{fields}}}")
        };
        let rows: Vec<String> = self.results.iter().map(row).collect();
        let (passed, failed, ignored) =
            (self.count(Verdict::Passed), self.count(Verdict::Failed), self.count(Verdict::Ignored));
        let seconds = self.took.as_secs_f64();
        format!(
            "{{\"passed\":{passed},\"failed\":{failed},\"ignored\":{ignored},\"seconds\":{seconds:.1},\"rows\":[{}]}}",
            rows.join(",")
        )
    }
}

/// Returns the texts without repetitions, in their order.
fn unique<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<&'t str> {
    let mut all = Vec::new();
    texts.for_each(|text| {
        if !all.contains(&text) {
            all.push(text);
        }
    });
    all
}
