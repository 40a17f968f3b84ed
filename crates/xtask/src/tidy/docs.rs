//! Checks Markdown documents. Rust files that a document names must exist, the steps of `docs/how-to-add.md` must name
//! existing files and texts in these files, and the numbers of the decision records must have no gap.

use std::collections::BTreeSet;

use crate::book;
use crate::report::Finding;
use crate::source::Source;

/// Directory of the decision records.
const ADR_DIR: &str = "docs/adr/";

/// Page with instructions in numbered steps. Each step names a file, and names in that file.
const STEPS: &str = "docs/how-to-add.md";

/// A file name that stands for a pattern.
const PATTERN: &str = "foo/tests.rs";

/// Headings that every decision record has.
const ADR_PARTS: &[&str] = &["## Context", "## Decision", "## Consequences"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is("md")) {
        check_named_files(source, sources, findings);
    }
    if let Some(page) = sources.iter().find(|source| source.path == STEPS) {
        check_steps(page, sources, findings);
    }
    check_adrs(sources, findings);
    check_contents(sources, findings);
}

/// Checks that the contents of the book have each page of `docs`, except for the template of decision records.
fn check_contents(sources: &[Source], findings: &mut Vec<Finding>) {
    let Some(contents) = sources.iter().find(|source| source.path == book::SUMMARY) else { return };
    let is_page = |source: &&Source| source.is("md") && ![book::SUMMARY, book::TEMPLATE].contains(&&*source.path);
    for page in sources.iter().filter(is_page) {
        let Some(name) = page.path.strip_prefix("docs/") else { continue };
        if !contents.text.contains(&format!("]({name})")) {
            findings.push(Finding::new(book::SUMMARY, 0, format!("the page {name} is missing")));
        }
    }
}

/// Checks that each Rust file whose name is in back-ticks in `source` exists. The name may omit leading directories.
fn check_named_files(source: &Source, sources: &[Source], findings: &mut Vec<Finding>) {
    for (number, line) in prose(&source.text) {
        let quoted = line.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| name.ends_with(".rs") && name.contains('/') && *name != PATTERN) {
            let tail = format!("/{name}");
            if !sources.iter().any(|source| source.path == name || source.path.ends_with(&tail)) {
                findings.push(Finding::new(&source.path, number, format!("there is no file `{name}`")));
            }
        }
    }
}

/// Checks the numbered steps of `page`. A step has the form "1. `file`: `name`, `other name`: words". The file must
/// exist, and its text must contain the names.
fn check_steps(page: &Source, sources: &[Source], findings: &mut Vec<Finding>) {
    for (number, line) in prose(&page.text).filter(|(_, line)| line.starts_with(|c: char| c.is_ascii_digit())) {
        let mut say = |text: String| findings.push(Finding::new(&page.path, number, text));
        let parts: Vec<&str> = line.splitn(3, ": ").collect();
        let [file, names, _] = parts[..] else {
            say("a step is \"1. `file`: `name`: words\"".to_owned());
            continue;
        };
        let file = file.split('`').nth(1).unwrap_or_default();
        match sources.iter().find(|source| source.path == file) {
            None => say(format!("there is no file `{file}`")),
            Some(source) => {
                let missing = names.split('`').skip(1).step_by(2).filter(|name| !source.text.contains(name));
                missing.for_each(|name| say(format!("`{file}` has no `{name}`")));
            }
        }
    }
}

/// Returns the lines of a Markdown text that are not in a fenced code block, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns the anchors of the headings of a page, in the form in which links name them. An anchor is the heading in
/// lower case, with `-` in place of spaces and without punctuation.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let slug = |heading: &str| {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
    };
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| slug(line.trim_start_matches('#'))).collect()
}

/// Checks that each decision record is called `NNNN-title.md`, and has its number in the heading and all required
/// parts. Also checks that the numbers, from 0000 of the template on, have no gap.
fn check_adrs(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut expected = 0_u32;
    for source in sources {
        let Some(name) = source.path.strip_prefix(ADR_DIR).filter(|name| *name != "README.md") else { continue };
        let Some(number) =
            name.split('-').next().filter(|number| number.len() == 4).and_then(|n| n.parse::<u32>().ok())
        else {
            findings.push(Finding::new(&source.path, 0, "a decision is called NNNN-title.md"));
            continue;
        };
        if number != expected {
            findings.push(Finding::new(&source.path, 0, format!("the next decision's number is {expected:04}")));
        }
        expected = number + 1;
        if !source.text.starts_with(&format!("# {number:04}")) {
            findings.push(Finding::new(&source.path, 1, format!("the heading does not start with `# {number:04}`")));
        }
        for part in ADR_PARTS.iter().filter(|part| !source.text.lines().any(|line| line == **part)) {
            findings.push(Finding::new(&source.path, 0, format!("the part `{part}` is missing")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_in_the_contents_is_found() {
        let page = |path: &str| Source::planted(path, "# A page\n");
        let contents = Source::planted(book::SUMMARY, "- [one](one.md)\n");
        let found = messages(&[page("docs/one.md"), page("docs/two.md"), page("README.md"), contents]);
        assert_eq!(found, ["docs/SUMMARY.md: the page two.md is missing"]);
    }

    fn messages(sources: &[Source]) -> Vec<String> {
        let mut findings = Vec::new();
        check(sources, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    fn adr(number: u32, title: &str) -> Source {
        let text = format!("# {number:04}. Title\n\n{}\n", ADR_PARTS.join("\n\n"));
        Source::planted(&format!("docs/adr/{title}"), &text)
    }

    #[test]
    fn a_named_file_that_is_gone_is_found() {
        let file = Source::planted("crates/x/src/a.rs", "//! Says.\n");
        let from =
            |name: &str| messages(&[Source::planted("A.md", &format!("See\n`{name}` and `f()`.\n")), file.clone()]);
        assert!(from("x/src/a.rs").is_empty() && from("crates/x/src/a.rs").is_empty() && from("src/a.rs").is_empty());
        assert_eq!(from("x/src/b.rs"), ["A.md:2: there is no file `x/src/b.rs`"]);
    }

    #[test]
    fn a_step_whose_file_or_name_is_gone_is_found() {
        let file = Source::planted("crates/x/src/a.rs", "//! Says.\nfn run() {}\n");
        let from = |step: &str| messages(&[Source::planted(STEPS, &format!("{step}\n")), file.clone()]);
        assert!(from("1. `crates/x/src/a.rs`: `run`, `Says`: it runs: always.").is_empty());
        assert_eq!(
            from("1. `crates/x/src/a.rs`: `run`, `stop`: it stops."),
            ["docs/how-to-add.md:1: `crates/x/src/a.rs` has no `stop`"]
        );
        assert_eq!(from("1. `Justfile`: `run`: it runs."), ["docs/how-to-add.md:1: there is no file `Justfile`"]);
        assert_eq!(from("1. Run it."), ["docs/how-to-add.md:1: a step is \"1. `file`: `name`: words\""]);
    }

    #[test]
    fn decisions_are_numbered_without_a_hole() {
        let good = [adr(0, "0000-template.md"), adr(1, "0001-one.md"), adr(2, "0002-two.md")];
        assert!(messages(&good).is_empty());
        let hole = [adr(0, "0000-template.md"), adr(2, "0002-two.md")];
        assert_eq!(messages(&hole), ["docs/adr/0002-two.md: the next decision's number is 0001"]);
        let twice = [adr(0, "0000-a.md"), adr(0, "0000-b.md")];
        assert_eq!(messages(&twice), ["docs/adr/0000-b.md: the next decision's number is 0001"]);
        let unnamed = [adr(0, "zero.md")];
        assert_eq!(messages(&unnamed), ["docs/adr/zero.md: a decision is called NNNN-title.md"]);
    }

    #[test]
    fn a_decision_without_its_parts_is_found() {
        let bare = Source::planted("docs/adr/0000-bare.md", "# 1. Bare\n");
        assert_eq!(messages(&[bare]).len(), 1 + ADR_PARTS.len());
    }
}
