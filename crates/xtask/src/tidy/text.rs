//! Checks text files: no paths of one machine.

use crate::report::Finding;
use crate::source::Source;

/// Forbidden texts, each with the reason why it is forbidden. The texts are written in two parts, because this file is
/// checked, too.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("../sha", "red"), "a path outside of the repository"),
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        for (number, line) in source.lines() {
            for (word, reason) in FORBIDDEN {
                if line.contains(word) {
                    findings.push(Finding::new(&source.path, number, format!("`{word}` is {reason}")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(source: Source) -> Vec<String> {
        let mut findings = Vec::new();
        check(&[source], &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_forbidden_word_is_found_in_any_file() {
        for (word, _) in FORBIDDEN {
            let found = messages(Source::planted("Dockerfile", &format!("a\nsee {word}x\n")));
            assert_eq!(found.len(), 1);
            assert!(found[0].starts_with("Dockerfile:2: "), "{found:?}");
        }
    }
}
