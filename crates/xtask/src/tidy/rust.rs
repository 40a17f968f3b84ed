//! Checks Rust files. A file must begin with a module comment and contain no marks of unfinished work. The number of
//! its lines and the width of its comments are limited.

use crate::report::Finding;
use crate::source::Source;

/// Largest number of lines of a file, not counting its unit tests. A longer file usually has more than one purpose.
const MAX_LINES: usize = 900;

/// Files that were longer than [`MAX_LINES`] when this check was added, each with its own limit. A limit may only be
/// lowered, or its entry removed.
const RATCHET: &[(&str, usize)] = &[];

/// Largest number of characters in a line that is a comment. rustfmt wraps code at this width, but does not wrap
/// comments.
const MAX_WIDTH: usize = 120;

/// Marks of unfinished work in comments. Unfinished work should be recorded in an issue instead. Clippy finds the
/// macros that mark unfinished code.
const OPEN_ENDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME")];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is("rs") || source.is("proto")) {
        check_width(source, findings);
    }
    for source in sources.iter().filter(|source| source.is("rs")) {
        check_head(source, findings);
        check_size(source, RATCHET, findings);
        check_open_ends(source, findings);
    }
    check_ratchet(sources, RATCHET, findings);
}

fn check_head(source: &Source, findings: &mut Vec<Finding>) {
    // The unit tests of `foo.rs` in `foo/tests.rs` need no module comment.
    let unit_tests = source.path.contains("/src/") && source.path.ends_with("/tests.rs");
    if !is_generated(source) && !unit_tests && !source.text.starts_with("//! ") {
        findings.push(Finding::new(
            &source.path,
            1,
            "the file does not open with `//!`: state its purpose, its invariant, what it leaves to others",
        ));
    }
}

/// Returns whether a program wrote the file.
fn is_generated(source: &Source) -> bool {
    source.text.starts_with("// @generated")
}

fn check_width(source: &Source, findings: &mut Vec<Finding>) {
    for (number, line) in source.lines().filter(|(_, line)| line.trim_start().starts_with("//")) {
        let width = line.chars().count();
        if width > MAX_WIDTH && !is_generated(source) {
            findings.push(Finding::new(
                &source.path,
                number,
                format!("a comment of {width} columns: wrap at {MAX_WIDTH}"),
            ));
        }
    }
}

fn check_size(source: &Source, ratchet: &[(&str, usize)], findings: &mut Vec<Finding>) {
    if source.is_test() {
        return;
    }
    let allowed = ratchet.iter().find(|(path, _)| *path == source.path).map_or(MAX_LINES, |(_, lines)| *lines);
    let lines = product_lines(source);
    if lines > allowed {
        findings.push(Finding::new(
            &source.path,
            0,
            format!("{lines} lines without tests, {allowed} allowed: move a part into its own file"),
        ));
    }
}

fn check_ratchet(sources: &[Source], ratchet: &[(&str, usize)], findings: &mut Vec<Finding>) {
    for (path, allowed) in ratchet {
        let lines = sources.iter().find(|source| source.path == *path).map_or(0, product_lines);
        if lines < *allowed {
            let to =
                if lines <= MAX_LINES { "remove its entry".to_owned() } else { format!("lower its entry to {lines}") };
            findings.push(Finding::new(
                path,
                0,
                format!("the file has {lines} lines now, its ratchet allows {allowed}: {to}"),
            ));
        }
    }
}

/// Returns the number of lines before the file's unit tests.
fn product_lines(source: &Source) -> usize {
    let lines: Vec<&str> = source.text.lines().collect();
    let tests = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {"));
    tests.unwrap_or(lines.len())
}

fn check_open_ends(source: &Source, findings: &mut Vec<Finding>) {
    for (number, line) in source.lines() {
        if let Some(mark) = OPEN_ENDS.iter().find(|mark| line.contains(*mark)) {
            findings.push(Finding::new(&source.path, number, format!("`{mark}`: finish it, or open an issue instead")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &Source) -> Vec<Finding> {
        let mut findings = Vec::new();
        check(std::slice::from_ref(source), &mut findings);
        findings
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        let findings = found(&Source::planted("crates/x/src/a.rs", "use std::fmt;\n"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("open with `//!`"), "{findings:?}");
        assert_eq!(found(&Source::planted("crates/x/src/a.rs", "//! Says.\n")), []);
        assert_eq!(found(&Source::planted("crates/x/src/a.rs", "// @generated\n")), []);
        assert_eq!(found(&Source::planted("crates/x/src/a/tests.rs", "use super::*;\n")), []);
        assert_eq!(found(&Source::planted("tests/tests.rs", "use std::fmt;\n")).len(), 1);
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let long = format!("//! Long.\n{}", "fn f() {}\n".repeat(MAX_LINES));
        let findings = found(&Source::planted("crates/x/src/a.rs", &long));
        assert!(findings[0].message.starts_with("901 lines"), "{findings:?}");
        assert_eq!(found(&Source::planted("crates/x/src/a/tests.rs", &long)), []);

        let tested = format!("//! Short.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "// line\n".repeat(MAX_LINES));
        assert_eq!(found(&Source::planted("crates/x/src/a.rs", &tested)), []);
    }

    #[test]
    fn a_wide_comment_is_found() {
        let comment = |columns: usize| format!("    // {}", "ä".repeat(columns - 7));
        for path in ["crates/x/src/a.rs", "proto/a.proto"] {
            let of = |line: String| found(&Source::planted(path, &format!("//! Says.\n{line}\n")));
            assert_eq!(of(comment(MAX_WIDTH)), []);
            assert_eq!(of(comment(MAX_WIDTH + 1))[0].message, "a comment of 121 columns: wrap at 120");
            assert_eq!(of(comment(MAX_WIDTH + 1).replace("// ", "f()")), [], "rustfmt wraps code");
        }
    }

    #[test]
    fn an_open_end_is_found() {
        for mark in OPEN_ENDS {
            let findings = found(&Source::planted("crates/x/src/a.rs", &format!("//! Says.\n// {mark} later\n")));
            assert_eq!(findings.len(), 1, "{mark}");
            assert_eq!(findings[0].line, 2);
        }
    }

    #[test]
    fn the_ratchet_lets_a_long_file_be_but_not_grow() {
        let source = Source::planted("a.rs", &"//! x\n".repeat(1_000));
        for (allowed, expected) in [(1_000, None), (999, Some("1000 lines")), (1_001, Some("lower its entry to 1000"))]
        {
            let mut findings = Vec::new();
            check_size(&source, &[("a.rs", allowed)], &mut findings);
            check_ratchet(std::slice::from_ref(&source), &[("a.rs", allowed)], &mut findings);
            match expected {
                None => assert_eq!(findings, []),
                Some(part) => assert!(findings[0].message.contains(part), "{allowed}: {findings:?}"),
            }
        }
    }
}
