use super::*;

/// A row that fails if its name says so.
struct Planned {
    column: &'static str,
    name: &'static str,
    lacks: bool,
}

impl Row for Planned {
    fn name(&self) -> &str {
        self.name
    }

    fn column(&self) -> &str {
        self.column
    }

    fn what(&self) -> &str {
        "a row of a test"
    }

    fn tier(&self) -> Tier {
        if self.name == "long" { Tier::Long } else { Tier::Short }
    }

    fn lacks(&self) -> Vec<String> {
        if self.lacks { vec!["a tool".to_owned()] } else { Vec::new() }
    }

    fn settings(&self) -> String {
        format!("COLUMN={} ", self.column)
    }

    fn run(&self) {
        assert_ne!(self.name, "fails", "as planned");
    }
}

const fn planned(column: &'static str, name: &'static str, lacks: bool) -> Planned {
    Planned { column, name, lacks }
}

const ROWS: [Planned; 5] = [
    planned("go", "passes", false),
    planned("go", "fails", false),
    planned("rust", "passes", true),
    planned("rust", "fails", false),
    planned("rust", "long", false),
];

fn suite(choice: &'static str, jobs: usize) -> Suite<'static> {
    Suite { target: "planned", columns: "language", variable: "PLANNED", choice, strict: false, jobs, json: false }
}

fn report<'a>(suite: &'a Suite<'a>) -> Report<'a, Planned> {
    let rows = suite.chosen(&ROWS).unwrap();
    let results = suite.run_all(&rows).into_iter().map(|(row, verdict, _)| (row, verdict, Duration::ZERO)).collect();
    Report { suite, results, not_chosen: 0, took: Duration::ZERO }
}

#[test]
fn the_table_has_a_line_for_each_row_and_a_cell_for_each_column() {
    for jobs in [1, 3] {
        let suite = suite("", jobs);
        let report = report(&suite);
        assert!(report.has_failed());
        let lines =
            ["", "row     go             rust", "passes  ok        0.0  -", "fails   FAILED    0.0  FAILED    0.0"];
        assert_eq!(report.table(), lines);
    }
}

#[test]
fn the_report_in_json_has_the_command_that_repeats_a_failed_row() {
    let suite = suite("fails,long", 1);
    let repeat =
        |column: &str| format!("\"repeat\":\"COLUMN={column} PLANNED=fails cargo test --workspace --test planned\"");
    let expected = format!(
        "{{\"passed\":1,\"failed\":2,\"ignored\":0,\"seconds\":0.0,\"rows\":[\
         {{\"language\":\"go\",\"row\":\"fails\",\"result\":\"failed\",\"seconds\":0.0,{}}},\
         {{\"language\":\"rust\",\"row\":\"fails\",\"result\":\"failed\",\"seconds\":0.0,{}}},\
         {{\"language\":\"rust\",\"row\":\"long\",\"result\":\"ok\",\"seconds\":0.0}}]}}",
        repeat("go"),
        repeat("rust")
    );
    assert_eq!(report(&suite).json(), expected);
}

#[test]
fn rows_are_chosen_by_their_tier_or_their_name() {
    let chosen = |choice| suite(choice, 1).chosen(&ROWS).map(|rows| rows.len());
    assert_eq!([chosen(""), chosen("all"), chosen("none"), chosen("long")], [Ok(4), Ok(4), Ok(0), Ok(1)]);
    assert_eq!(chosen("passes,other"), Err("other".to_owned()));
}
