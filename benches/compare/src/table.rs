//! Medians of the runs, and the ratios checked by the goals.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::tool::Figure;

/// One measured case with its runs.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) runs: Vec<Figure>,
}

/// The required ratios of one row to another.
#[derive(Debug)]
pub(crate) struct Goal {
    pub(crate) ours: String,
    pub(crate) theirs: String,
    /// Minimum ratio of numbers per second.
    pub(crate) rate: Option<f64>,
    /// Maximum ratio of CPU time per number.
    pub(crate) cpu: Option<f64>,
    /// Maximum ratio of median latency.
    pub(crate) p50: Option<f64>,
    /// Maximum ratio of the latency of the slowest percent.
    pub(crate) p99: Option<f64>,
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl Row {
    fn rate(&self) -> Option<f64> {
        median(self.runs.iter().map(|run| run.per_second))
    }

    fn cpu(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.cpu_us))
    }

    fn instructions(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.instructions))
    }

    fn p50(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.p50_us).map(|us| us as f64))
    }

    fn p99(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.p99_us).map(|us| us as f64))
    }
}

/// All rows, as a Markdown table.
pub(crate) fn rows(rows: &[Row]) -> String {
    let mut table = table(["what", "numbers/s", "server CPU us", "p50 us", "p99 us", "instructions", "runs"]);
    for row in rows {
        let whole = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        let cpu = row.cpu().map_or("-".to_owned(), |cpu| format!("{cpu:.3}"));
        let runs = row.runs.len().to_string();
        let instructions = whole(row.instructions());
        let rate = rate(row.rate().filter(|rate| *rate > 0.0));
        table.add_row([row.name.clone(), rate, cpu, whole(row.p50()), whole(row.p99()), instructions, runs]);
    }
    table.to_string()
}

/// The goals whose two rows were measured, as a Markdown table; and whether all are met.
pub(crate) fn goals(rows: &[Row], goals: &[Goal]) -> (String, bool) {
    let mut table = table(["ours", "beside", "figure", "goal", "measured", ""]);
    let mut all = true;
    let find = |name: &str| rows.iter().find(|row| row.name == name && !row.runs.is_empty());
    for goal in goals {
        let (Some(ours), Some(theirs)) = (find(&goal.ours), find(&goal.theirs)) else { continue };
        let kinds = [
            ("numbers/s", goal.rate, true, ours.rate().zip(theirs.rate())),
            ("server CPU", goal.cpu, false, ours.cpu().zip(theirs.cpu())),
            ("p50", goal.p50, false, ours.p50().zip(theirs.p50())),
            ("p99", goal.p99, false, ours.p99().zip(theirs.p99())),
        ];
        for (figure, bound, at_least, pair) in kinds {
            let (Some(bound), Some((ours, theirs))) = (bound, pair) else { continue };
            let ratio = ours / theirs;
            let met = if at_least { ratio >= bound } else { ratio <= bound };
            all &= met;
            let sign = if at_least { ">=" } else { "<=" };
            let verdict = if met { "PASS" } else { "FAIL" };
            let (bound, ratio) = (format!("{sign} {bound:.2}x"), format!("{ratio:.2}x"));
            table.add_row([&goal.ours, &goal.theirs, figure, &bound, &ratio, verdict]);
        }
    }
    (table.to_string(), all)
}

/// The rows of two builds of the server beside each other: medians of the ratios within each run, as a Markdown table.
pub(crate) fn ratios(rows: &[Row], ours: &str, baseline: &str) -> String {
    let mut table = table(["what", "numbers/s", "server CPU", "p50", "p99", "instructions", "runs"]);
    for row in rows {
        let Some(what) = row.name.strip_prefix(ours) else { continue };
        let Some(other) = rows.iter().find(|other| other.name.strip_prefix(baseline) == Some(what)) else { continue };
        let ratio = |value: fn(&Figure) -> Option<f64>| {
            let pairs = row.runs.iter().zip(&other.runs);
            let ratio = median(pairs.filter_map(|(ours, theirs)| Some(value(ours)? / value(theirs)?)));
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x"))
        };
        table.add_row([
            what.trim_start().to_owned(),
            ratio(|run| Some(run.per_second).filter(|rate| *rate > 0.0)),
            ratio(|run| run.cpu_us),
            ratio(|run| run.p50_us.map(|us| us as f64)),
            ratio(|run| run.p99_us.map(|us| us as f64)),
            ratio(|run| run.instructions),
            row.runs.len().min(other.runs.len()).to_string(),
        ]);
    }
    table.to_string()
}

/// An empty Markdown table.
fn table<const COLUMNS: usize>(head: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(head);
    table
}

fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate @ 1e6..) => format!("{:.2} M", rate / 1e6),
        Some(rate @ 1e4..) => format!("{:.1} k", rate / 1e3),
        Some(rate) => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, rates: &[f64], cpu: f64) -> Row {
        let run = |rate: &f64| Figure { per_second: *rate, cpu_us: Some(cpu), ..Figure::default() };
        Row { name: name.to_owned(), runs: rates.iter().map(run).collect() }
    }

    #[test]
    fn medians_are_checked_against_the_goals() {
        let rows = [row("ours", &[90.0, 10.0, 95.0], 1.2), row("theirs", &[100.0, 100.0, 900.0], 1.0)];
        let goal = |rate, cpu| {
            let (ours, theirs) = ("ours".into(), "theirs".into());
            [Goal { ours, theirs, rate: Some(rate), cpu: Some(cpu), p50: None, p99: None }]
        };
        assert!(goals(&rows, &goal(0.9, 1.2)).1);
        let (text, met) = goals(&rows, &goal(0.91, 1.2));
        assert!(!met && text.contains("0.90x") && text.contains("FAIL") && text.contains("PASS"), "{text}");
        assert!(!goals(&rows, &goal(0.9, 1.1)).1);
    }

    #[test]
    fn builds_are_compared_run_by_run() {
        let rows = [
            row("bare unary", &[1.0], 1.0),
            row("seqsvr unary", &[50.0, 220.0, 90.0], 1.2),
            row("baseline unary", &[100.0, 200.0, 100.0], 1.0),
            row("seqsvr RESP", &[1.0], 1.0),
        ];
        let text = ratios(&rows, "seqsvr", "baseline");
        assert!(text.contains("0.90x") && text.contains("1.20x") && !text.contains("RESP"), "{text}");
    }
}
