//! Checks the descriptions of a dashboard's panels. A description begins with the help of a metric of the panel's
//! queries, so that both stay the same text. Words about the panel may follow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{RECORDED, SERIES, metrics, values};

/// Recording rules: each recorded series with the names in its expression.
pub(super) type Recorded = BTreeMap<String, BTreeSet<String>>;

/// Returns the recording rules in a file of rules. The expression of a rule is the line after its name.
pub(super) fn recorded(rules: &str) -> Recorded {
    let lines: Vec<&str> = rules.lines().collect();
    let expression = |number: usize| lines.get(number).copied().unwrap_or_default();
    let names = |number: usize| metrics(expression(number)).map(str::to_owned).collect();
    values(rules, "record:").map(|(number, name)| (name.to_owned(), names(number))).collect()
}

/// Returns the faults of a dashboard. `helps` has the help of each metric.
pub(super) fn flaws(dashboard: &str, helps: &BTreeMap<String, String>, recorded: &Recorded) -> Vec<String> {
    let dashboard: Value = match serde_json::from_str(dashboard) {
        Ok(dashboard) => dashboard,
        Err(error) => return vec![format!("it is no JSON: {error}")],
    };
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    panels.filter_map(|panel| flaw(panel, helps, recorded)).collect()
}

/// Returns the fault of a panel. A panel without a metric of the catalogue may have any description.
fn flaw(panel: &Value, helps: &BTreeMap<String, String>, recorded: &Recorded) -> Option<String> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    let queries = targets.filter_map(|target| target["expr"].as_str());
    let mut used = BTreeSet::new();
    queries.flat_map(metrics).for_each(|name| add(name, recorded, &mut used));
    let helps: Vec<&str> = used.iter().filter_map(|name| help(name, helps)).collect();
    let (title, description) = (&panel["title"], panel["description"].as_str().unwrap_or_default());
    let is_stale = !helps.is_empty() && !helps.iter().any(|help| description.starts_with(help));
    is_stale.then(|| format!("the description of {title} begins with none of these helps: {}", helps.join(" | ")))
}

/// Adds the metrics of a name to `used`: the name itself, or those from which it is recorded.
fn add(name: &str, recorded: &Recorded, used: &mut BTreeSet<String>) {
    if used.insert(name.to_owned()) && name.starts_with(RECORDED) {
        recorded.get(name).into_iter().flatten().for_each(|name| add(name, recorded, used));
    }
}

/// Returns the help of a metric, or of the histogram of a series.
fn help<'a>(name: &str, helps: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let of_histogram = SERIES.iter().filter_map(|end| helps.get(name.strip_suffix(end)?));
    helps.get(name).or_else(|| of_histogram.into_iter().next()).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "- record: seqsvr:a:rate\n  expr: rate(seqsvr_a_total[5m])\n- record: seqsvr:a:mean\n  expr: seqsvr:a:rate / 2\n";

    fn found(description: &str, expression: &str) -> Vec<String> {
        let helps = [("seqsvr_a_total", "Numbers."), ("seqsvr_b_seconds", "Time of it.")];
        let helps = helps.map(|(name, help)| (name.to_owned(), help.to_owned())).into();
        let panel = serde_json::json!({
            "title": "A", "description": description, "targets": [{ "expr": expression }]
        });
        flaws(&serde_json::json!({ "panels": [panel] }).to_string(), &helps, &recorded(RULES))
    }

    #[test]
    fn a_description_begins_with_the_help_of_a_metric_of_its_query() {
        for query in ["rate(seqsvr_a_total[5m])", "seqsvr:a:rate{set=\"x\"}", "seqsvr:a:mean", "seqsvr_a_total / up"] {
            assert_eq!(found("Numbers. Here each second.", query), [""; 0], "{query}");
            assert_eq!(found("Numbers allocated.", query).len(), 1, "{query}");
        }
        assert_eq!(found("Time of it.", "sum(seqsvr_b_seconds_bucket)"), [""; 0]);
        assert_eq!(found("Own words.", "rate(process_cpu_seconds_total[5m])"), [""; 0]);
        let stale = found("Duration of it.", "seqsvr_b_seconds_count");
        assert_eq!(stale, ["the description of \"A\" begins with none of these helps: Time of it."]);
        assert!(flaws("{", &BTreeMap::new(), &Recorded::new())[0].starts_with("it is no JSON"));
    }
}
