//! Checks the Prometheus rules, the Alertmanager routes and the Grafana dashboards in `deploy/`. Each metric in them
//! must be a metric of the catalogue, which is the list of the program's metrics, or the result of a recording rule.
//! The description of a dashboard's panel begins with the help of a metric in it. Every alert must have a runbook and a
//! test case, and routes must name existing alerts. promtool and amtool must accept the files.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::report::{self, Finding};
use crate::source::{self, Source};
use crate::tidy;

mod descriptions;

const RULES: &str = "deploy/prometheus/rules/";
const CASES: &str = "deploy/prometheus/tests/";
const DASHBOARDS: &str = "deploy/grafana/";
const SCRAPE: &str = "deploy/prometheus/prometheus.yaml";
const ROUTES: &str = "deploy/prometheus/alertmanager.yaml";

const RUNBOOK: &str = "docs/runbook/";

/// Prefix of a dashboard's links to the runbook.
const LINK: &str = "${runbook}/";

/// Prefix of every alert's name.
const ALERT: &str = "Seqsvr";
const CATALOGUE: &str = "crates/seq-api/src/metrics.rs";

/// Prefix of every metric's name.
const PREFIX: &str = "seqsvr_";

/// Prefix of every recorded series' name.
const RECORDED: &str = "seqsvr:";

/// Suffixes of the series of a histogram.
const SERIES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Checks the files, and runs promtool and amtool on them if these tools are installed.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let (mut findings, sources) = (Vec::new(), source::read_all(root)?);
    check(&sources, &mut findings);
    report::conclude("alerts", findings)?;
    let of = |dir: &'static str| -> Vec<&str> { in_dir(&sources, dir).map(|source| &*source.path).collect() };
    for (tool, words, files) in [
        ("promtool", &["check", "rules"][..], of(RULES)),
        ("promtool", &["test", "rules"], of(CASES)),
        ("promtool", &["check", "config"], vec![SCRAPE]),
        ("amtool", &["check-config"], vec![ROUTES]),
    ] {
        match Command::new(tool).args(words).args(&files).current_dir(root).output() {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text);
                anyhow::ensure!(output.status.success(), "{tool} {}: {}\n{text}", words.join(" "), output.status);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let files = files.join(", ");
                eprintln!(
                    "{tool} is not installed (Debian packages prometheus and prometheus-alertmanager): {files} is not tested"
                );
            }
            Err(error) => return Err(error).with_context(|| format!("starting {tool}")),
        }
    }
    Ok(())
}

fn in_dir<'a>(sources: &'a [Source], dir: &'static str) -> impl Iterator<Item = &'a Source> {
    sources.iter().filter(move |source| source.path.starts_with(dir))
}

fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let text = |path: &str| sources.iter().find(|source| source.path == path).map(|source| &*source.text);
    let Some(catalogue) = text(CATALOGUE) else {
        return findings.push(Finding::new(CATALOGUE, 0, "this file is missing".to_owned()));
    };
    let mut known: BTreeSet<&str> = tidy::metric_names(catalogue).collect();
    for rules in in_dir(sources, RULES) {
        known.extend(values(&rules.text, "record:").map(|(_, name)| name));
    }
    for dir in [RULES, CASES, DASHBOARDS] {
        for source in in_dir(sources, dir) {
            for (number, line) in (1..).zip(source.text.lines()) {
                for name in metrics(line).filter(|name| !is_known(name, &known)) {
                    findings.push(Finding::new(&source.path, number, format!("no metric {name} in {CATALOGUE}")));
                }
            }
        }
    }
    let helps = tidy::metric_helps(catalogue);
    let recorded = in_dir(sources, RULES).flat_map(|rules| descriptions::recorded(&rules.text)).collect();
    for dashboard in in_dir(sources, DASHBOARDS) {
        for flaw in descriptions::flaws(&dashboard.text, &helps, &recorded) {
            findings.push(Finding::new(&dashboard.path, 0, flaw));
        }
        for (number, line) in (1..).zip(dashboard.text.lines()) {
            if let Some(flaw) = flaw_of_dashboard(line, |page| text(page).map(tidy::anchors)) {
                findings.push(Finding::new(&dashboard.path, number, flaw));
            }
        }
    }
    let named: BTreeSet<&str> =
        in_dir(sources, RULES).flat_map(|rules| alerts(&rules.text)).map(|(_, alert, _)| alert).collect();
    for (number, line) in (1..).zip(text(ROUTES).unwrap_or_default().lines()) {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with(ALERT));
        for alert in words.filter(|alert| !named.contains(alert)) {
            findings.push(Finding::new(ROUTES, number, format!("no alert {alert} in {RULES}")));
        }
    }
    for rules in in_dir(sources, RULES) {
        let path = rules.path.replace(RULES, CASES);
        let cases = text(&path).unwrap_or_default();
        for (number, alert, runbook) in alerts(&rules.text) {
            // There may also be test cases in which the alert must not fire, but in at least one test case it must
            // fire.
            if !values(cases, "alertname:").any(|(number, name)| name == alert && fires(cases, number)) {
                findings.push(Finding::new(&path, 0, format!("{alert} has no case in which it fires")));
            }
            let found = runbook
                .and_then(|runbook| runbook.split_once('#'))
                .is_some_and(|(path, anchor)| text(path).is_some_and(|page| tidy::anchors(page).contains(anchor)));
            if !found {
                let runbook = runbook.unwrap_or("none");
                let message = format!("{alert} has no runbook that is a heading of a page: {runbook}");
                findings.push(Finding::new(&rules.path, number, message));
            }
        }
    }
}

/// Returns the fault of `line`, a line of a dashboard, or `None` if the line has no fault. A query is a fault if the
/// dashboard's variable `$set` does not filter each of its series, because the curves of several sets would overlap. A
/// link is a fault if the runbook does not have the heading to which the link leads.
fn flaw_of_dashboard<'a>(line: &str, anchors: impl Fn(&str) -> Option<BTreeSet<String>> + 'a) -> Option<String> {
    let line = line.trim();
    if line.starts_with("\"expr\":") && metrics(line).count() > line.matches("set=~\\\"$set\\\"").count() {
        return Some("a series of this query is not filtered by the variable $set".to_owned());
    }
    let (_, link) = line.strip_prefix("\"url\":")?.split_once(LINK)?;
    let link = link.trim_end_matches([',', '"']);
    let (page, anchor) = link.split_once('#').map_or((link, None), |(page, anchor)| (page, Some(anchor)));
    let known = anchors(&format!("{RUNBOOK}{page}"));
    let is_known = known.is_some_and(|known| anchor.is_none_or(|anchor| known.contains(anchor)));
    (!is_known).then(|| format!("the link {link} is to no heading of {RUNBOOK}"))
}

/// Returns whether a test case in the file `cases` expects its alert to fire. Line `number` of the file is the line in
/// which the test case names the alert.
fn fires(cases: &str, number: usize) -> bool {
    cases.lines().nth(number).is_some_and(|line| line.trim() == "exp_alerts:")
}

/// Returns the metric names in a line, including the names of series that a Prometheus rule records.
fn metrics(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    words.filter(|word| word.starts_with(PREFIX) || word.starts_with(RECORDED))
}

fn is_known(name: &str, known: &BTreeSet<&str>) -> bool {
    known.contains(name) || SERIES.iter().filter_map(|end| name.strip_suffix(end)).any(|name| known.contains(name))
}

/// Returns the values of a key, with their lines.
fn values<'a>(text: &'a str, key: &'static str) -> impl Iterator<Item = (usize, &'a str)> {
    let lines = (1..).zip(text.lines().map(|line| line.trim_start().trim_start_matches("- ")));
    lines.filter_map(move |(number, line)| Some((number, line.strip_prefix(key)?.trim())))
}

/// Returns the line, the name and the runbook link of each alert in a file of rules.
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
    const CASE: &str = "series: seqsvr_a_total{node=\"a1\"}\nalertname: A\nexp_alerts:\n";
    const PATHS: [&str; 2] = ["deploy/prometheus/rules/a.yaml", "deploy/prometheus/tests/a.yaml"];

    fn messages(rules: &str, cases: &str) -> Vec<String> {
        let catalogue = "/// Help.\nA = \"seqsvr_a_total\", Counter, Count, [];\n/// Help.\nB = \"seqsvr_b\", Histogram, Count, [];";
        let sources = [(PATHS[0], rules), (PATHS[1], cases), (CATALOGUE, catalogue), ("docs/a.md", "# What to do\n")];
        let mut findings = Vec::new();
        check(&sources.map(|(path, text)| Source::planted(path, text)), &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_rule_with_a_metric_a_case_and_a_runbook_passes() {
        assert_eq!(messages(RULE, CASE), [""; 0]);
        assert_eq!(messages(&RULE.replace("a_total", "b_bucket"), CASE), [""; 0]);
        let recorded =
            format!("- record: seqsvr:a:rate5m\n{}", RULE.replace("rate(seqsvr_a_total[5m])", "seqsvr:a:rate5m"));
        assert_eq!(messages(&recorded, CASE), [""; 0]);
    }

    #[test]
    fn a_dashboard_filters_by_set_and_links_to_headings() {
        let flaw = |line: &str| {
            let page = |page: &str| (page == "docs/runbook/store.md").then(|| tidy::anchors("## SeqsvrNoLeader\n"));
            flaw_of_dashboard(line, page)
        };
        for good in [
            r#"  "expr": "sum(rate(seqsvr_a_total{set=~\"$set\"}[5m]))","#,
            r#"  "url": "${runbook}/store.md#seqsvrnoleader","#,
            r#"  "url": "${runbook}/store.md""#,
            r#"  "title": "seqsvr_a_total""#,
        ] {
            assert_eq!(flaw(good), None, "{good}");
        }
        let unfiltered = r#""expr": "seqsvr_a_total{set=~\"$set\"} / seqsvr_b_total""#;
        assert!(flaw(unfiltered).unwrap().contains("$set"));
        for wrong in ["store.md#nosuch", "other.md"] {
            let flaw = flaw(&format!(r#""url": "${{runbook}}/{wrong}","#)).unwrap();
            assert!(flaw.contains(wrong), "{flaw}");
        }
    }

    #[test]
    fn a_route_of_an_alert_that_there_is_not_is_found() {
        let of = |alert: &str| {
            let route = format!("target_matchers: ['alertname =~ \"SeqsvrA|{alert}\"']\n");
            let rules = RULE.replace("alert: A", "alert: SeqsvrA");
            let sources = [(PATHS[0], &*rules), (ROUTES, &*route), (CATALOGUE, "A = \"seqsvr_a_total\", Counter;")];
            let mut findings = Vec::new();
            check(&sources.map(|(path, text)| Source::planted(path, text)), &mut findings);
            findings.into_iter().map(|finding| finding.message).filter(|message| message.contains("no alert")).collect()
        };
        let (known, unknown): (Vec<String>, Vec<String>) = (of("SeqsvrA"), of("SeqsvrB"));
        assert_eq!((known, unknown), (vec![], vec![format!("no alert SeqsvrB in {RULES}")]));
    }

    #[test]
    fn an_unknown_metric_a_missing_case_and_a_missing_runbook_are_found() {
        assert_eq!(
            messages(&RULE.replace("a_total", "c_total"), CASE),
            [format!("no metric seqsvr_c_total in {CATALOGUE}")]
        );
        assert_eq!(messages(RULE, &CASE.replace("a_total", "a_bucket")).len(), 1);
        for silent in ["alertname: AA\nexp_alerts:\n", "alertname: A\nexp_alerts: []\n", ""] {
            assert_eq!(messages(RULE, silent), ["A has no case in which it fires"]);
        }
        let unrecorded = RULE.replace("rate(seqsvr_a_total[5m])", "seqsvr:a:rate1m");
        assert_eq!(messages(&unrecorded, CASE), [format!("no metric seqsvr:a:rate1m in {CATALOGUE}")]);
        for runbook in ["docs/a.md#other", "docs/b.md#what-to-do", "docs/a.md", ""] {
            let rules = RULE.replace("docs/a.md#what-to-do", runbook);
            assert!(messages(&rules, CASE)[0].starts_with("A has no runbook"), "{runbook}");
        }
        let two = format!("{}{}", "- alert: A\n  expr: seqsvr_b\n", RULE.replace("alert: A", "alert: B"));
        assert_eq!(
            messages(&two, &format!("{CASE}alertname: B\nexp_alerts:\n")),
            ["A has no runbook that is a heading of a page: none"]
        );
    }
}
