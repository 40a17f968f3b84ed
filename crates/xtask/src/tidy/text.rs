//! Checks text files: no paths of one machine, no trailing white space, one line break at the end.

use crate::report::Finding;
use crate::source::Source;

/// Forbidden texts with their reasons. Written in parts, because this file is checked as well.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("../sha", "red"), "a path outside of the repository"),
];

/// Extensions of files whose white space is checked; other files may be data.
const CLEAN: &[&str] = &["rs", "toml", "proto", "md", "sh", "yml", "yaml"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources {
        for (number, line) in source.lines() {
            for (word, reason) in FORBIDDEN {
                if line.contains(word) {
                    findings.push(Finding::new(&source.path, number, format!("`{word}` is {reason}")));
                }
            }
        }
        if CLEAN.iter().any(|extension| source.is(extension)) {
            check_clean(source, findings);
        }
    }
}

fn check_clean(source: &Source, findings: &mut Vec<Finding>) {
    for (number, line) in source.lines() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(&source.path, number, "the line ends in white space"));
        }
    }
    if !source.text.is_empty() && (!source.text.ends_with('\n') || source.text.ends_with("\n\n")) {
        findings.push(Finding::new(&source.path, 0, "the file does not end in exactly one line break"));
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

    #[test]
    fn unclean_ends_are_found() {
        assert_eq!(messages(Source::planted("a.md", "text \n")), ["a.md:1: the line ends in white space"]);
        assert_eq!(
            messages(Source::planted("a.md", "text")),
            ["a.md: the file does not end in exactly one line break"]
        );
        assert_eq!(messages(Source::planted("a.md", "text\n\n")).len(), 1);
        assert!(messages(Source::planted("a.md", "text\n")).is_empty());
        assert!(messages(Source::planted("a.csv", "text")).is_empty(), "data is left alone");
    }
}
