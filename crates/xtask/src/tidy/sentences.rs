//! Checks the rates of stiff sentences in the comments of each crate against its limits.

use crate::report::Finding;
use crate::sentences::{self, Counts, PATTERNS};
use crate::source::Source;

/// Limits per thousand lines of comments, in the order of [`PATTERNS`].
type Limits = [usize; PATTERNS.len()];

/// Limits of every crate without an entry below.
const CLEAN: Limits = [5, 5, 2];

/// Crates that exceeded the limits when the rule was added, with their rates of that day, rounded up. This is a
/// ratchet: an entry is lowered when sentences of its crate improve, never raised, and removed once its rates are
/// within [`CLEAN`]. So rates can only fall. The table is empty, because all crates are within [`CLEAN`].
const RATCHET: &[(&str, Limits)] = &[];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for (name, counts) in sentences::of_crates(sources) {
        let limits = limits_of(&name);
        for (pattern, found, limit) in exceeded(&counts, limits) {
            let message = format!(
                "{found} places of \"{pattern}\" in {} lines of comments, with a limit of {limit} per 1,000: write the nouns \
                 (docs/glossary.md); `cargo xtask words {name} --places` lists the places",
                counts.lines
            );
            findings.push(Finding::new(&name, 0, message));
        }
    }
}

/// Returns the limits of a crate.
pub(crate) fn limits_of(name: &str) -> Limits {
    limits_in(RATCHET, name)
}

fn limits_in(ratchet: &[(&str, Limits)], name: &str) -> Limits {
    ratchet.iter().find(|(ratcheted, _)| *ratcheted == name).map_or(CLEAN, |(_, limits)| *limits)
}

/// Returns the patterns above their limit, with their matches and the limit. The number of allowed matches is rounded
/// up, so that a small crate may have one of each.
fn exceeded(counts: &Counts, limits: Limits) -> impl Iterator<Item = (&'static str, usize, usize)> {
    let lines = counts.lines;
    let patterns =
        PATTERNS.into_iter().zip(counts.found).zip(limits).map(|((pattern, found), limit)| (pattern, found, limit));
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

    #[test]
    fn an_entry_of_the_ratchet_replaces_the_limits_of_all_crates() {
        let planted = [("crates/stiff", [5, 11, 2])];
        assert_eq!(limits_in(&planted, "crates/stiff"), [5, 11, 2]);
        assert_eq!(limits_in(&planted, "crates/clean"), CLEAN);
        for (name, limits) in RATCHET {
            assert!(limits.iter().zip(CLEAN).any(|(limit, clean)| *limit > clean), "{name}: remove its entry");
        }
        let counts = Counts { lines: 100, found: [1, 2, 1] };
        let above = |limits| exceeded(&counts, limits).map(|(_, found, limit)| (found, limit)).collect::<Vec<_>>();
        assert_eq!(above(CLEAN), [(2, 5)]);
        assert_eq!(above([5, 11, 2]), []);
    }
}
