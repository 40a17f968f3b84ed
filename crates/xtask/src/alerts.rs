//! The alert rules: their metrics are in the catalogue, their runbooks exist, each has a case, and promtool accepts them.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::report::{self, Finding};
use crate::source::{self, Source};
use crate::tidy;

const RULES: &str = "deploy/prometheus/alerts.yaml";
const CASES: &str = "deploy/prometheus/alerts_test.yaml";
const CATALOGUE: &str = "crates/seq-api/src/metrics.rs";

/// The start of the name of every metric.
const PREFIX: &str = "seqsvr_";

/// What a histogram's series have after its name.
const SERIES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Checks the rules, and runs promtool on them where it is installed.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut findings = Vec::new();
    check(&source::read_all(root)?, &mut findings);
    report::conclude("alerts", findings)?;
    for (command, file) in [("check", RULES), ("test", CASES)] {
        match Command::new("promtool").args([command, "rules", file]).current_dir(root).status() {
            Ok(status) => anyhow::ensure!(status.success(), "promtool {command} rules {file}: {status}"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("promtool is not installed (Debian package prometheus): {file} is not tested");
            }
            Err(error) => return Err(error).context("starting promtool"),
        }
    }
    Ok(())
}

fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let text = |path: &str| sources.iter().find(|source| source.path == path).map(|source| &*source.text);
    let (Some(rules), Some(cases), Some(catalogue)) = (text(RULES), text(CASES), text(CATALOGUE)) else {
        findings.push(Finding::new(RULES, 0, format!("this file, {CASES} or {CATALOGUE} is missing")));
        return;
    };
    let known: BTreeSet<&str> = tidy::metric_names(catalogue).collect();
    for (path, text) in [(RULES, rules), (CASES, cases)] {
        for (number, line) in (1..).zip(text.lines()) {
            for name in metrics(line).filter(|name| !is_known(name, &known)) {
                findings.push(Finding::new(path, number, format!("no metric {name} in {CATALOGUE}")));
            }
        }
    }
    for (number, alert, runbook) in alerts(rules) {
        if !values(cases, "alertname:").any(|(_, name)| name == alert) {
            findings.push(Finding::new(CASES, 0, format!("{alert} has no case")));
        }
        let found = runbook
            .and_then(|runbook| runbook.split_once('#'))
            .is_some_and(|(path, anchor)| text(path).is_some_and(|page| tidy::anchors(page).contains(anchor)));
        if !found {
            let message = format!("{alert} has no runbook that is a heading of a page: {}", runbook.unwrap_or("none"));
            findings.push(Finding::new(RULES, number, message));
        }
    }
}

/// The names of metrics in a line.
fn metrics(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with(PREFIX))
}

fn is_known(name: &str, known: &BTreeSet<&str>) -> bool {
    known.contains(name) || SERIES.iter().filter_map(|end| name.strip_suffix(end)).any(|name| known.contains(name))
}

/// The values of a key, with their lines.
fn values<'a>(text: &'a str, key: &'static str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = (1..).zip(text.lines().map(|line| line.trim_start().trim_start_matches("- ")));
    lines.filter_map(move |(number, line)| Some((number, line.strip_prefix(key)?.trim())))
}

/// The alerts with their lines, and the runbook of each.
fn alerts(rules: &str) -> Vec<(usize, &str, Option<&str>)> {
    let runbooks: Vec<_> = values(rules, "runbook:").collect();
    let alerts: Vec<_> = values(rules, "alert:").collect();
    let ends = alerts.iter().skip(1).map(|(number, _)| *number).chain([usize::MAX]);
    let own = |start: usize, end: usize| runbooks.iter().find(|(number, _)| (start..end).contains(number));
    let zipped = alerts.iter().zip(ends);
    zipped.map(|((number, alert), end)| (*number, *alert, own(*number, end).map(|(_, runbook)| *runbook))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "- alert: A\n  expr: rate(seqsvr_a_total[5m]) > 0\n  runbook: docs/a.md#what-to-do\n";
    const CASE: &str = "series: seqsvr_a_total{node=\"a1\"}\nalertname: A\n";

    fn messages(rules: &str, cases: &str) -> Vec<String> {
        let catalogue = "/// Help.\nA = \"seqsvr_a_total\", Counter, Count, [];\n/// Help.\nB = \"seqsvr_b\", Histogram, Count, [];";
        let sources = [(RULES, rules), (CASES, cases), (CATALOGUE, catalogue), ("docs/a.md", "# What to do\n")];
        let mut findings = Vec::new();
        check(&sources.map(|(path, text)| Source::planted(path, text)), &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_rule_with_a_metric_a_case_and_a_runbook_passes() {
        assert_eq!(messages(RULE, CASE), [""; 0]);
        assert_eq!(messages(&RULE.replace("a_total", "b_bucket"), CASE), [""; 0]);
    }

    #[test]
    fn an_unknown_metric_a_missing_case_and_a_missing_runbook_are_found() {
        assert_eq!(
            messages(&RULE.replace("a_total", "c_total"), CASE),
            [format!("no metric seqsvr_c_total in {CATALOGUE}")]
        );
        assert_eq!(messages(RULE, &CASE.replace("a_total", "a_bucket")).len(), 1);
        assert_eq!(messages(RULE, "alertname: AA\n"), ["A has no case"]);
        for runbook in ["docs/a.md#other", "docs/b.md#what-to-do", "docs/a.md", ""] {
            let rules = RULE.replace("docs/a.md#what-to-do", runbook);
            assert!(messages(&rules, CASE)[0].starts_with("A has no runbook"), "{runbook}");
        }
        let two = format!("{}{}", "- alert: A\n  expr: seqsvr_b\n", RULE.replace("alert: A", "alert: B"));
        assert_eq!(
            messages(&two, &format!("{CASE}alertname: B\n")),
            ["A has no runbook that is a heading of a page: none"]
        );
    }
}
