//! Checks that only certain files use facilities of the process, such as its output and its environment. Only commands
//! may print and exit, and only one file may read environment variables. Two more rules are that no file drops a task
//! group while its tasks run, and that `seq-kit` names no metric of seqsvr.
//!
//! Clippy cannot check these rules, because a ban of Clippy applies to a whole crate and its tests, and these rules
//! differ between the files of a crate.

use crate::report::Finding;
use crate::source::Source;

/// Code that only some files may contain.
struct Edge {
    /// Texts by which the code is recognized. Each text is split in two, so that a search for the text does not find
    /// this file.
    marks: &'static [(&'static str, &'static str)],
    /// Beginnings and ends of paths. A file may contain the code if its path begins or ends with any of these texts.
    allowed: &'static [&'static str],
    /// Advice in the finding.
    instead: &'static str,
}

/// Crate with the code that all commands share. It and the next three crates contain the commands of the program:
/// [`NODE`] has the commands that run servers, [`CLI`] has the other commands, and [`PROGRAM`] has the command line.
const COMMAND: &str = "crates/seq-command/";
const NODE: &str = "crates/seq-node/";
const CLI: &str = "crates/seq-cli/";
const PROGRAM: &str = "crates/seqsvr/";

const EDGES: &[Edge] = &[
    Edge {
        marks: &[("print", "!("), ("println", "!("), ("stdout", "()"), ("stderr", "()")],
        // The logger writes to stderr. The abort after a failed sync of a file also writes to stderr itself, because
        // the settings of the logger may suppress its messages.
        allowed: &[COMMAND, NODE, CLI, PROGRAM, "/telemetry.rs", "/storage/abort.rs"],
        instead: "only commands print: return the text, or log it",
    },
    Edge {
        marks: &[("process::", "exit("), ("process::", "abort(")],
        // After a failed sync of a file, the process aborts, because no further code may run, not even a destructor.
        allowed: &[COMMAND, PROGRAM, "/storage/abort.rs"],
        instead: "only the binary ends the process: return an error",
    },
    Edge {
        marks: &[("env::", "var("), ("env::", "var_os("), ("env::", "vars("), ("env::", "vars_os(")],
        allowed: &["crates/seq-command/src/environment.rs"],
        instead: "only crates/seq-command/src/environment.rs reads the environment: pass what is needed",
    },
    Edge {
        marks: &[("TaskGroup::new()", ".spawn(")],
        allowed: &["crates/xtask/"],
        instead: "a group that nothing holds is shut down by nothing: keep it, and await its shutdown",
    },
];

/// Path of the crate that must not depend on this product, and the text, a prefix of metric names, that its code may
/// not contain.
const KIT: (&str, &str) = ("crates/seq-kit/", concat!("seqsvr", "_"));

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| is_product(source)) {
        for (number, line) in code(source) {
            for edge in EDGES.iter().filter(|edge| !edge.allows(&source.path)) {
                if edge.marks.iter().any(|(start, end)| line.contains(&format!("{start}{end}"))) {
                    findings.push(Finding::new(&source.path, number, edge.instead));
                }
            }
            if source.path.starts_with(KIT.0) && line.contains(KIT.1) {
                let message = "the kit knows no product: the name of a metric belongs to the catalogue of seq-api";
                findings.push(Finding::new(&source.path, number, message));
            }
        }
    }
}

impl Edge {
    fn allows(&self, path: &str) -> bool {
        self.allowed.iter().any(|allowed| path.starts_with(allowed) || path.ends_with(allowed))
    }
}

/// Returns whether a file is built into the product.
fn is_product(source: &Source) -> bool {
    let in_source = source.path.starts_with("crates/") && source.path.contains("/src/");
    let serves_tests = ["crates/xtask/", "crates/seq-testkit/"].iter().any(|tools| source.path.starts_with(tools));
    source.is("rs") && in_source && !source.is_test() && !serves_tests
}

/// Returns the lines before the unit tests, without comments.
fn code(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = source.lines().take_while(|(_, line)| *line != "#[cfg(test)]");
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check(&[Source::planted(path, text)], &mut findings);
        findings.len()
    }

    #[test]
    fn code_at_an_edge_is_found_outside_its_place() {
        for edge in EDGES {
            for (start, end) in edge.marks {
                let line = format!("    let _ = std::{start}{end}x);\n");
                assert_eq!(found("crates/x/src/a.rs", &line), 1, "{start}{end}");
                assert_eq!(found("crates/xtask/src/a.rs", &line), 0, "a check of the repository");
                assert_eq!(found("crates/x/tests/a.rs", &line), 0, "a test");
                assert_eq!(found("crates/x/src/a.rs", &format!("#[cfg(test)]\nmod tests {{\n{line}}}\n")), 0);
                assert_eq!(found("crates/x/src/a.rs", &format!("/// {line}")), 0, "a comment");
                let place = edge.allowed[0];
                let place = if place.ends_with('/') { format!("{place}src/a.rs") } else { place.to_owned() };
                assert_eq!(found(&place, &line), 0, "{place}");
            }
        }
    }

    #[test]
    fn a_metric_in_the_kit_is_found() {
        let line = format!("const A: &str = \"{}a_total\";\n", KIT.1);
        assert_eq!(found("crates/seq-kit/src/a.rs", &line), 1);
        assert_eq!(found("crates/seq-api/src/a.rs", &line), 0);
    }
}
