//! The filter of events, by the arguments of the command.

use seq_core::node_events::NodeEventKind;
use seq_core::state::EventKind;
use seq_observe::ClusterEvent;
use seq_proto::v1::{EventSeverity, ListSetEventsRequest};

use super::{FilterArgs, SeverityArg};

/// Returns the names of all kinds of events of sets and nodes, in order of the alphabet.
pub(super) fn kinds() -> Vec<&'static str> {
    let mut kinds = [EventKind::NAMES, NodeEventKind::NAMES].concat();
    kinds.sort_unstable();
    kinds
}

/// Condition for the events that the user requests.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// Kinds of events; empty for all kinds.
    kinds: Vec<String>,
    min_severity: EventSeverity,
    section: Option<u32>,
    node: Option<String>,
}

impl Filter {
    pub(super) fn new(args: &FilterArgs) -> Filter {
        let min_severity = match args.severity {
            SeverityArg::Info => EventSeverity::Info,
            SeverityArg::Attention => EventSeverity::Attention,
            SeverityArg::Fault => EventSeverity::Fault,
        };
        Filter { kinds: args.kinds.clone(), min_severity, section: args.section, node: args.node.clone() }
    }

    /// Returns the request for the events of a set after the change `after`. Returns `None` if no event of a set can
    /// match the filter.
    pub(super) fn page_after(&self, after: u64) -> Option<ListSetEventsRequest> {
        let is_of_set = |kind: &&String| EventKind::NAMES.contains(&kind.as_str());
        let kinds: Vec<String> = self.kinds.iter().filter(is_of_set).cloned().collect();
        let min_severity = self.min_severity.into();
        let request = ListSetEventsRequest { after, limit: 0, kinds, min_severity, section: self.section };
        (self.kinds.is_empty() || !request.kinds.is_empty()).then_some(request)
    }

    /// Returns whether an event of a node can match the filter.
    pub(super) fn wants_nodes(&self) -> bool {
        let is_of_node = |kind: &String| NodeEventKind::NAMES.contains(&kind.as_str());
        self.section.is_none() && (self.kinds.is_empty() || self.kinds.iter().any(is_of_node))
    }

    /// Returns whether an event matches the filter.
    pub(super) fn wants(&self, event: &ClusterEvent) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == event.kind()))
            && event.severity() >= self.min_severity
            && self.section.is_none_or(|section| event.is_around(section))
            && self.node.as_deref().is_none_or(|wanted| event.nodes().any(|node| node == wanted))
    }
}

#[cfg(test)]
mod tests {
    use seq_proto::v1::{NodeEvent, NodeSections, SetEvent};

    use super::*;

    fn filter(kinds: &[&str]) -> Filter {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        Filter { kinds, min_severity: EventSeverity::Info, section: None, node: None }
    }

    #[test]
    fn only_sources_that_can_match_are_requested() {
        let requested = |filter: &Filter| (filter.page_after(7).map(|page| page.kinds), filter.wants_nodes());
        assert_eq!(requested(&filter(&[])), (Some(Vec::new()), true));
        assert_eq!(requested(&filter(&["takeover"])), (Some(vec!["takeover".to_owned()]), false));
        assert_eq!(requested(&filter(&["denied"])), (None, true));
        assert_eq!(requested(&filter(&["denied", "silent"])), (Some(vec!["silent".to_owned()]), true));
        let of_section = Filter { section: Some(3), ..filter(&[]) };
        assert!(!of_section.wants_nodes() && of_section.page_after(0).is_some());
    }

    #[test]
    fn a_node_is_that_of_the_process_or_one_that_an_event_of_the_set_names() {
        let severity = EventSeverity::Attention.into();
        let of_node = |node: &str| {
            let event = NodeEvent { kind: "lease_lost".into(), severity, ..NodeEvent::default() };
            ClusterEvent::of_node(("im-a", node), 7, event)
        };
        let moved_to = vec![NodeSections { node: "a2".into(), sections: 1 }];
        let takeover =
            SetEvent { kind: "takeover".into(), node: "a1".into(), moved_to, severity, ..SetEvent::default() };
        let takeover = ClusterEvent::of_set("im-a", takeover);
        let of = |node: &str| Filter { node: Some(node.to_owned()), ..filter(&[]) };
        for (node, expected) in [("a1", [true, false, true]), ("a2", [false, true, true]), ("a3", [false; 3])] {
            let wanted = [&of_node("a1"), &of_node("a2"), &takeover].map(|event| of(node).wants(event));
            assert_eq!(wanted, expected, "{node}");
        }
        let faults = Filter { min_severity: EventSeverity::Fault, ..filter(&[]) };
        assert!(!faults.wants(&takeover) && !filter(&["silent"]).wants(&takeover));
    }
}
