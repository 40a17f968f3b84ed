//! Measures `seqsvr status` in staged conditions of real processes: its words, its exit code, the seconds from the
//! cause until the command first prints the condition, the seconds that the command took, and the seconds until it no
//! longer prints the condition.
//!
//! `just status-table` prints the rows as a table, and writes them to a file. **Invariant:** each row is the text that
//! an operator's command printed, with its default timeouts; a condition that is never printed fails the run.

mod one_set;
mod restored;
mod secure;
mod two_sets;

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use seq_testkit::TIMEOUT;

use crate::cluster::Place;

/// Interval between two commands.
const INTERVAL: Duration = Duration::from_millis(20);

/// Stages conditions, and adds their rows.
type Stage = fn(&mut Table);

/// The rows so far.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

/// A condition, as `status` printed it.
struct Row {
    condition: &'static str,
    cause: &'static str,
    look: Look,
    said_after: Duration,
    over_after: Option<Duration>,
}

/// The result of one `status` command.
struct Look {
    code: Option<i32>,
    /// The verdicts, or the error with its hint.
    words: String,
    took: Duration,
}

impl Look {
    fn of(place: &Place, args: &[&str]) -> Look {
        let since = Instant::now();
        let output = place.seqsvr(&[&["status"], args].concat());
        let took = since.elapsed();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        // The verdicts follow the last table.
        let verdicts = stdout.trim_end().rsplit("\n\n").next().unwrap_or_default();
        let words = format!("{verdicts}\n{stderr}").trim().to_owned();
        Look { code: output.status.code(), words, took }
    }

    fn says(&self, code: i32, words: &[&str]) -> bool {
        self.code == Some(code) && words.iter().all(|words| self.words.contains(words))
    }
}

/// A cluster with the arguments of `status` by which an operator watches it.
struct Scene<'a> {
    table: &'a mut Table,
    place: &'a Place,
    args: Vec<String>,
    cause: &'static str,
    since: Instant,
    /// Words of the last row.
    said: Vec<String>,
}

impl<'a> Scene<'a> {
    fn new(table: &'a mut Table, place: &'a Place, args: &[&str]) -> Scene<'a> {
        let args = args.iter().map(ToString::to_string).collect();
        Scene { table, place, args, cause: "", since: Instant::now(), said: Vec::new() }
    }

    /// Records a cause, which begins now.
    fn caused(&mut self, cause: &'static str) {
        (self.cause, self.since) = (cause, Instant::now());
    }

    /// Records that the cause ends now.
    fn ended(&mut self) {
        self.since = Instant::now();
    }

    fn look(&self) -> Look {
        Look::of(self.place, &self.args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Waits until `status` prints these words with this exit code, and adds a row to the table.
    fn says(&mut self, condition: &'static str, code: i32, words: &[&str]) {
        let (look, said_after) = self.wait(|look| look.says(code, words));
        self.row(condition, words, look, said_after);
    }

    /// Works like [`Scene::says`] for a short condition. The table has no row for it if `status` prints `over` first.
    fn may_say(&mut self, condition: &'static str, code: i32, words: &[&str], over: &str) {
        let (look, said_after) = self.wait(|look| look.says(code, words) || look.words.contains(over));
        if look.says(code, words) {
            self.row(condition, words, look, said_after);
        } else {
            println!("({condition}: it was over before `status` could say so)");
        }
    }

    fn row(&mut self, condition: &'static str, words: &[&str], look: Look, said_after: Duration) {
        self.said = words.iter().map(ToString::to_string).collect();
        let Look { code, took, .. } = look;
        println!("{condition} [{}]: {code:?} after {said_after:.1?}, in {took:.2?}\n  {}", self.cause, look.words);
        self.table.rows.push(Row { condition, cause: self.cause, look, said_after, over_after: None });
    }

    /// Waits until `status` prints these words, exits with 0, and no longer prints the words of the last row; adds the
    /// seconds since the end of the cause to that row.
    fn over(&mut self, words: &[&str]) {
        let said = |look: &Look| self.said.iter().all(|words| look.words.contains(words));
        let (_, after) = self.wait(|look| look.says(0, words) && !said(look));
        self.table.rows.last_mut().unwrap().over_after = Some(after);
    }

    /// Waits until the cluster is healthy.
    fn well(&self, words: &[&str]) {
        self.wait(|look| look.says(0, words));
    }

    /// Returns the first result for which a condition holds, and the seconds since the cause.
    fn wait(&self, holds: impl Fn(&Look) -> bool) -> (Look, Duration) {
        let began = Instant::now();
        loop {
            let look = self.look();
            if holds(&look) {
                return (look, self.since.elapsed());
            }
            assert!(began.elapsed() < TIMEOUT, "{}: exit {:?}, {}", self.cause, look.code, look.words);
            std::thread::park_timeout(INTERVAL);
        }
    }
}

impl Table {
    fn markdown(&self) -> String {
        let mut text = "| condition | cause | words | exit | said after, s | command took, s | over after, s |\n\
                        |---|---|---|---|---|---|---|\n"
            .to_owned();
        for Row { condition, cause, look, said_after, over_after } in &self.rows {
            let words = look.words.replace('|', "\\|").replace('\n', "<br>");
            let code = look.code.map_or("-".to_owned(), |code| code.to_string());
            let seconds = |time: &Duration| format!("{:.1}", time.as_secs_f64());
            let over = over_after.as_ref().map_or("".to_owned(), seconds);
            let (said, took) = (seconds(said_after), format!("{:.2}", look.took.as_secs_f64()));
            writeln!(text, "| {condition} | {cause} | {words} | {code} | {said} | {took} | {over} |").unwrap();
        }
        text
    }
}

#[test]
#[ignore = "measures: minutes, as root, with faketime; `just status-table`"]
fn the_words_and_seconds_of_every_condition() {
    let mut table = Table::default();
    let scenes: [(&str, Stage); 5] = [
        ("one", one_set::nodes),
        ("copies", one_set::copies),
        ("secure", secure::certificates),
        ("two", two_sets::two_sets),
        ("restored", restored::histories),
    ];
    let only = std::env::var("STATUS_SCENES").unwrap_or_default();
    for (name, scene) in scenes {
        if only.is_empty() || only.split(',').any(|one| one == name) {
            let since = Instant::now();
            scene(&mut table);
            println!("== {name}: {:.0} s", since.elapsed().as_secs_f64());
        }
    }
    let text = table.markdown();
    println!("\n{text}");
    if let Some(file) = std::env::var_os("STATUS_TABLE") {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file), &text).unwrap();
    }
}
