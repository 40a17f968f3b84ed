use std::fs;
use std::path::Path;

use super::*;
use crate::verdict::{CONDITIONS, REMARKS};

/// Returns the anchor of a heading as renderers of Markdown make it.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn each_rule_has_a_heading_of_the_runbook() {
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runbook");
    let conditions = CONDITIONS.iter().map(|condition| (condition.name, condition.runbook));
    let remarks = REMARKS.iter().map(|remark| (remark.name, remark.runbook));
    let others = RULES.iter().map(|rule| (rule.name, rule.runbook));
    for (name, place) in conditions.chain(remarks).chain(others) {
        let (page, wanted) = place.split_once('#').expect("a page and a heading");
        let text = fs::read_to_string(runbook.join(page)).unwrap_or_else(|error| panic!("{name}: {page}: {error}"));
        let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
        assert!(headings.any(|heading| heading == wanted), "{name}: {page} has no heading #{wanted}");
    }
}
