//! Only the binary prints and ends the process. The exceptions stand here, each with its reason.

use crate::report::Finding;
use crate::source::Source;

/// Crates that are programs.
const PROGRAMS: &[&str] = &["crates/seqsvr/", "crates/xtask/"];

/// Files of other crates that may.
const EXCEPTIONS: &[&str] = &[
    // After a failed write or sync nothing may be acknowledged, so the process ends in place.
    "crates/seq-raft/src/storage/abort.rs",
    // After a panic no thread of the process may go on.
    "crates/seq-kit/src/panic.rs",
    // The second signal ends a shutdown that hangs.
    "crates/seq-kit/src/signals.rs",
];

const ENDS: &[&str] = &["process::abort(", "process::exit("];
const PRINTS: &[&str] = &["println!(", "print!(", "writeln!(io::stderr", "writeln!(std::io::stderr"];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let product = |source: &&Source| {
        let is_program = PROGRAMS.iter().any(|program| source.path.starts_with(program));
        source.is("rs") && source.path.starts_with("crates/") && source.path.contains("/src/") && !is_program
    };
    let excepted = |source: &&Source| !source.is_test() && !EXCEPTIONS.contains(&source.path.as_str());
    for source in sources.iter().filter(product).filter(excepted) {
        for (number, line) in source.lines().take_while(|(_, line)| !line.starts_with("mod tests {")) {
            let code = line.split("//").next().unwrap_or_default();
            if ENDS.iter().any(|call| code.contains(call)) {
                findings.push(Finding::new(&source.path, number, "only the binary ends the process: return an error"));
            } else if PRINTS.iter().any(|call| code.contains(call)) {
                findings.push(Finding::new(&source.path, number, "only the binary prints: log it, or return it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_binary_and_the_named_files_print_and_end_the_process() {
        let found = |path: &str| {
            let text = "fn stop() {\n    std::process::abort();\n    eprintln!(\"gone\");\n}\n#[cfg(test)]\nmod tests {\n    println!();\n";
            let mut findings = Vec::new();
            check(&[Source::planted(path, text)], &mut findings);
            findings.into_iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(found("crates/seq-core/src/x.rs"), [2, 3]);
        assert_eq!(found("crates/seqsvr/src/x.rs"), [0; 0]);
        assert_eq!(found("crates/seq-core/src/x/tests.rs"), [0; 0]);
        assert_eq!(found("crates/seq-raft/src/storage/abort.rs"), [0; 0]);
    }
}
