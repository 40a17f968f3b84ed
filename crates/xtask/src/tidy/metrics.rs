//! Checks the metrics. The table in docs/operations/watching.md must have the same rows as the catalogue in the code,
//! and the code must record every metric.

use std::collections::BTreeMap;

use crate::report::Finding;
use crate::source::Source;

const CATALOGUE: &str = "crates/seq-api/src/metrics.rs";
const TABLE: &str = "docs/operations/watching.md";

/// Prefix of a metric's row.
const ROW: &str = "| `seqsvr_";

/// Text of code that records a metric by a literal name instead of a constant. The text is written in two parts,
/// because this file is checked, too.
const LITERAL: &str = concat!("!(", "\"seqsvr_");

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let [catalogue, table] =
        [CATALOGUE, TABLE].map(|path| sources.iter().find(|source| source.path == path).map(|source| &source.text));
    let (Some(catalogue), Some(table)) = (catalogue, table) else {
        findings.push(Finding::new(TABLE, 0, format!("this table, or its source {CATALOGUE}, is missing")));
        return;
    };
    for constant in constants(catalogue).filter(|constant| !is_recorded(constant, sources)) {
        findings.push(Finding::new(CATALOGUE, 0, format!("{constant} is never recorded: record it or remove it")));
    }
    for source in sources.iter().filter(|source| source.is("rs")) {
        for (number, _) in source.lines().filter(|(_, line)| line.contains(LITERAL)) {
            let message = format!("a metric is recorded by its constant in {CATALOGUE}, not by a name of its own");
            findings.push(Finding::new(&source.path, number, message));
        }
    }
    let expected: Vec<String> = entries(catalogue).map(|entry| entry.row()).collect();
    let stated: Vec<(usize, &str)> = (1..).zip(table.lines()).filter(|(_, line)| line.starts_with(ROW)).collect();
    for row in expected.iter().filter(|row| !stated.iter().any(|(_, line)| line == row)) {
        findings.push(Finding::new(TABLE, 0, format!("the catalogue has this row, the table does not: {row}")));
    }
    for (number, line) in stated.iter().filter(|(_, line)| !expected.iter().any(|row| row == line)) {
        findings.push(Finding::new(TABLE, *number, format!("no such metric in {CATALOGUE}: {line}")));
    }
}

/// An entry of the catalogue.
struct Entry<'a> {
    name: &'a str,
    kind: String,
    /// Names of the labels, separated by commas.
    labels: String,
    help: String,
}

impl Entry<'_> {
    /// Returns the row that the table must have.
    fn row(&self) -> String {
        let Entry { name, kind, labels, help } = self;
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        format!("| `{name}{labels}` | {kind} | {help} |")
    }
}

/// Returns the entries of the catalogue. An entry consists of lines `/// help`, followed by a line
/// `NAME = "name", Kind, Unit, ["label", ...]...;`.
fn entries(catalogue: &str) -> impl Iterator<Item = Entry<'_>> {
    let lines: Vec<&str> = catalogue.lines().map(str::trim).collect();
    (0..lines.len()).filter_map(move |at| {
        let (_, rest) = lines[at].split_once(" = \"")?;
        let above = lines[..at].iter().rev().map_while(|line| line.strip_prefix("/// "));
        let help: Vec<&str> = above.collect::<Vec<_>>().into_iter().rev().collect();
        let help = Some(help.join(" ")).filter(|help| !help.is_empty())?;
        let (name, rest) = rest.split_once("\", ").filter(|(name, _)| name.starts_with("seqsvr_"))?;
        let kind = rest.split(',').next()?.to_lowercase();
        let labels = rest.split_once('[')?.1.split_once(']')?.0.replace(['"', ' '], "");
        Some(Entry { name, kind, labels, help })
    })
}

/// Returns the help of each metric, by its name.
pub(crate) fn helps(catalogue: &str) -> BTreeMap<String, String> {
    entries(catalogue).map(|entry| (entry.name.to_owned(), entry.help)).collect()
}

/// Returns the names of the metrics.
pub(crate) fn names(catalogue: &str) -> impl Iterator<Item = &str> {
    let names = catalogue.lines().filter_map(|line| line.split_once(" = \"")?.1.split_once("\", "));
    names.map(|(name, _)| name).filter(|name| name.starts_with("seqsvr_"))
}

/// Returns the names of the metrics' constants.
fn constants(catalogue: &str) -> impl Iterator<Item = &str> {
    catalogue.lines().filter_map(|line| line.trim().split_once(" = \"seqsvr_").map(|(constant, _)| constant))
}

fn is_recorded(constant: &str, sources: &[Source]) -> bool {
    let others = sources.iter().filter(|source| source.is("rs") && !source.is_test() && source.path != CATALOGUE);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words = others.flat_map(|source| source.text.split(|c| !is_name(c)));
    words.any(|word| word == constant)
        || sources.iter().any(|source| source.path == CATALOGUE && source.text.contains(&format!("!({constant}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = r#"
    /// Numbers allocated.
    A = "seqsvr_a_total", Counter, Count, ["set", "via"];
    /// Time of it, on
    /// two lines.
    B = "seqsvr_b_seconds", Histogram, Seconds, [], LATENCY;
    "#;

    fn messages(table: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let user = Source::planted("crates/x/src/a.rs", "counter!(A); histogram!(B);");
        check(&[Source::planted(CATALOGUE, CODE), Source::planted(TABLE, table), user], &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn each_metric_has_its_help() {
        let helps = helps(CODE);
        let of = |name: &str| helps.get(name).map(String::as_str);
        assert_eq!(of("seqsvr_a_total"), Some("Numbers allocated."));
        assert_eq!((of("seqsvr_b_seconds"), helps.len()), (Some("Time of it, on two lines."), 2));
    }

    #[test]
    fn a_metric_that_nobody_records_is_found() {
        let recorded = |text: &str| is_recorded("A", &[Source::planted("crates/x/src/a.rs", text)]);
        assert!(recorded("counter!(metrics::A, 1)"));
        assert!(!recorded("counter!(A_TOTAL, 1)"));
        assert_eq!(constants(CODE).collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn a_metric_past_the_catalogue_is_found() {
        let own = Source::planted("crates/x/src/a.rs", &format!("counter{LITERAL}own_total\").increment(1);"));
        let mut findings = Vec::new();
        check(&[Source::planted(CATALOGUE, ""), Source::planted(TABLE, ""), own], &mut findings);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].path.as_str(), findings[0].line), ("crates/x/src/a.rs", 1));
    }

    #[test]
    fn a_missing_a_stale_and_a_changed_row_are_found() {
        let a = "| `seqsvr_a_total{set,via}` | counter | Numbers allocated. |\n";
        let b = "| `seqsvr_b_seconds` | histogram | Time of it, on two lines. |\n";
        assert!(messages(&format!("{a}{b}")).is_empty());
        assert!(messages(a)[0].contains("the table does not: | `seqsvr_b_seconds`"), "{:?}", messages(a));
        let stale = format!("{a}{b}| `seqsvr_c` | gauge | Gone. |\n");
        assert!(messages(&stale)[0].contains("no such metric"), "{:?}", messages(&stale));
        assert_eq!(messages(&format!("{}{b}", a.replace("allocated", "taken"))).len(), 2);
    }
}
