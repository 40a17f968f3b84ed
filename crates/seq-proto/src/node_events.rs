//! Events of a process on the wire.

use seq_core::node_events::{self, Page};
use seq_core::state::Severity;

use crate::v1::{EventSeverity, ListNodeEventsResponse, NodeEvent};

impl From<Severity> for EventSeverity {
    fn from(severity: Severity) -> EventSeverity {
        match severity {
            Severity::Info => EventSeverity::Info,
            Severity::Attention => EventSeverity::Attention,
            Severity::Fault => EventSeverity::Fault,
        }
    }
}

/// Returns the response of `StatusService.ListNodeEvents` with a page of the event log of `node` of `set`. `instance`
/// is the random number of this run of the process.
#[must_use]
pub fn response(page: Page, (set, node): (&str, &str), instance: u64) -> ListNodeEventsResponse {
    let Page { events, next, more, begun_unix_ms: started_unix_ms } = page;
    let (set, node) = (set.to_owned(), node.to_owned());
    let events = events.into_iter().map(message).collect();
    ListNodeEventsResponse { set, node, instance, started_unix_ms, events, next, more }
}

fn message(event: node_events::NodeEvent) -> NodeEvent {
    let node_events::NodeEvent {
        index,
        change,
        at_unix_ms,
        until_unix_ms,
        kind,
        count,
        sections,
        lasted_ms,
        ahead_ms,
        not_after,
        detail,
    } = event;
    NodeEvent {
        index,
        change,
        at_unix_ms,
        until_unix_ms,
        kind: kind.name().to_owned(),
        severity: EventSeverity::from(kind.severity()).into(),
        count,
        sections,
        lasted_ms,
        ahead_ms,
        not_after,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use seq_core::lease::Clocks;
    use seq_core::node_events::{Fact, NodeEventLog};

    use super::*;

    #[test]
    fn a_page_has_its_process_and_the_fields_of_its_events() {
        let mut log = NodeEventLog::new(Clocks { boottime: 1, raw: 1, realtime: 5_000_000 });
        log.note(Clocks { boottime: 2, raw: 2, realtime: 6_000_000 }, Fact::Halted { cause: "evicted" });
        let response = response(log.page(0, 9), ("im-a", "a1"), 42);
        let event = NodeEvent {
            index: 1,
            change: 1,
            at_unix_ms: 6,
            until_unix_ms: 6,
            kind: "halted".to_owned(),
            severity: EventSeverity::Fault.into(),
            detail: "evicted".to_owned(),
            ..NodeEvent::default()
        };
        let (set, node) = ("im-a".to_owned(), "a1".to_owned());
        let (instance, started_unix_ms, next) = (42, 5, 1);
        let expected =
            ListNodeEventsResponse { set, node, instance, started_unix_ms, events: vec![event], next, more: false };
        assert_eq!(response, expected);
    }
}
