//! Checks the reasons of refusals: each name is written once, in the enum; other product code uses the variant.

use std::collections::BTreeSet;

use crate::report::Finding;
use crate::source::Source;

const REASONS: &str = "crates/seq-proto/src/reason.rs";

/// First line of a file's tests, which may use names to pin the encoding.
const TESTS: &str = "#[cfg(test)]";

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let Some(names) = sources.iter().find(|source| source.path == REASONS).map(|source| names(&source.text)) else {
        findings.push(Finding::new(REASONS, 0, "the reasons of refusals are missing"));
        return;
    };
    let product = sources.iter().filter(|source| source.is("rs") && !source.is_test() && source.path != REASONS);
    for source in product {
        for (number, line) in source.lines().take_while(|(_, line)| line.trim() != TESTS) {
            for name in literals(line).filter(|literal| names.contains(literal)) {
                let message = format!("{name} is the name of a reason: use its variant in {REASONS}");
                findings.push(Finding::new(&source.path, number, message));
            }
        }
    }
}

/// Returns the names in the enum: `Variant = "NAME", ...`.
fn names(reasons: &str) -> BTreeSet<&str> {
    let code = reasons.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.filter_map(|line| line.split_once(" = \"")?.1.split_once("\", [")).map(|(name, _)| name).collect()
}

/// Returns the string literals of a line.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_of_a_reason_is_found() {
        let reasons = Source::planted(REASONS, "    NotOwner = \"NOT_OWNER\", [Unavailable], Owner, Unchanged;\n");
        let messages = |path: &str, text: &str| {
            let mut findings = Vec::new();
            check(&[reasons.clone(), Source::planted(path, text)], &mut findings);
            findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let found = messages("crates/x/src/a.rs", "fn f() {\n    g(b, \"NOT_OWNER\")\n}\n");
        assert_eq!(
            found,
            [format!("crates/x/src/a.rs:2: NOT_OWNER is the name of a reason: use its variant in {REASONS}")]
        );
        assert!(
            messages("crates/x/src/a.rs", "f(\"OWNER\");\n#[cfg(test)]\nmod tests { f(\"NOT_OWNER\") }\n").is_empty()
        );
        assert!(messages("crates/x/src/a/tests.rs", "f(\"NOT_OWNER\")").is_empty());
        assert_eq!(check_alone().len(), 1);
    }

    fn check_alone() -> Vec<Finding> {
        let mut findings = Vec::new();
        check(&[], &mut findings);
        findings
    }
}
