//! Compares the rates of stiff sentences in the comments of each crate with limits.

use crate::report::Finding;
use crate::sentences::{self, Counts, PATTERNS};
use crate::source::Source;

/// Largest allowed number of matches of each pattern, per thousand lines of comments of a crate. The limits are in the
/// order of [`PATTERNS`].
pub(crate) const LIMITS: [usize; PATTERNS.len()] = [5, 5, 2];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for (name, counts) in sentences::of_crates(sources) {
        for (pattern, found, limit) in exceeded(&counts) {
            let message = format!(
                "{found} places of \"{pattern}\" in {} lines of comments, with a limit of {limit} per 1,000: write the nouns \
                 (docs/glossary.md); `cargo xtask words {name} --places` lists the places",
                counts.lines
            );
            findings.push(Finding::new(&name, 0, message));
        }
    }
}

/// Returns each pattern with more matches than allowed, with the number of its matches and its limit per thousand
/// lines. The number of allowed matches is rounded up, so that even a small crate may have one match of each pattern.
fn exceeded(counts: &Counts) -> impl Iterator<Item = (&'static str, usize, usize)> {
    let lines = counts.lines;
    let patterns =
        PATTERNS.into_iter().zip(counts.found).zip(LIMITS).map(|((pattern, found), limit)| (pattern, found, limit));
    patterns.filter(move |(_, found, limit)| *found > (limit * lines).div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&[Source::planted("crates/clean/src/lib.rs", text)], &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_above_a_limit_is_found() {
        let lines = |count: usize| "// Sent.\n".repeat(count);
        assert!(messages(&format!("// What is sent.\n{}", lines(10))).is_empty(), "a small crate may have one");
        let two = format!("// What is sent.\n// What is kept.\n{}", lines(10));
        let found = messages(&two);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/clean: 2 places of \"what is/are/..\" in 12 lines"), "{found:?}");
        assert!(messages(&format!("{two}{}", lines(300))).is_empty(), "the limit is a rate");
        assert_eq!(messages(&format!("// Meanwhile, the one.\n// Besides, the one.\n{}", lines(10))).len(), 2);
    }
}
