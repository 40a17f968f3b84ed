//! Checks the field `event` of log lines. Its value must be the name of a kind of event, from the list of the kinds, so
//! that logs and events can be joined.

use crate::report::Finding;
use crate::source::Source;

/// A value that is written by hand.
const BY_HAND: &str = concat!("event", " = \"");

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is("rs") && source.path.starts_with("crates/")) {
        for (number, _) in source.lines().filter(|(_, line)| line.contains(BY_HAND)) {
            findings.push(Finding::new(
                &source.path,
                number,
                "the field `event` of a log line is the name of an `EventKind` or a `NodeEventKind`",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_written_by_hand_is_found() {
        let by_hand = format!("tracing::info!(set, {BY_HAND}takeover\", \"owners assigned\")");
        let of_kind = "tracing::info!(set, event = EventKind::Takeover.name(), \"owners assigned\")";
        let found = |path: &str, line: &str| {
            let mut findings = Vec::new();
            check(&[Source::planted(path, line)], &mut findings);
            findings.len()
        };
        assert_eq!([found("crates/x/src/lib.rs", &by_hand), found("crates/x/src/lib.rs", of_kind)], [1, 0]);
        assert_eq!(found("tests/e2e/x.rs", &by_hand), 0);
    }
}
