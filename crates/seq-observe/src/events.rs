//! Events of the sets and nodes of a cluster, in the forms that commands and pages show: a sentence, a row of a table,
//! and JSON. An event is either in the event log of a set, which its store replicates, or in the log of one process.

use std::cmp::Ordering;
use std::iter;

use seq_command::utc;
use seq_proto::v1::{EventSeverity, NodeEvent, SetEvent};
use serde::Serialize;

mod node_text;
mod node_view;
mod text;
mod view;

use node_view::NodeEventView;
use view::EventView;

/// Source of the events in the event log of a set, as it is shown next to the names of nodes.
pub const LOG: &str = "log";

/// An event of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterEvent {
    /// Name of the set; empty for an event of a proxy, which belongs to no set.
    pub set: String,
    /// The event.
    pub recorded: Recorded,
}

/// An event, as its source recorded it.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// An event in the event log of the set.
    Set(SetEvent),
    /// An event in the log of a process.
    Node {
        /// Name of the node.
        node: String,
        /// Random number of the run of the process.
        instance: u64,
        /// The event.
        event: NodeEvent,
    },
}

impl ClusterEvent {
    /// Creates an event of the event log of a set.
    #[must_use]
    pub fn of_set(set: &str, event: SetEvent) -> ClusterEvent {
        ClusterEvent { set: set.to_owned(), recorded: Recorded::Set(event) }
    }

    /// Creates an event of the process of a node, which belongs to a set. `instance` is the random number of the run of
    /// the process.
    #[must_use]
    pub fn of_node((set, node): (&str, &str), instance: u64, event: NodeEvent) -> ClusterEvent {
        ClusterEvent { set: set.to_owned(), recorded: Recorded::Node { node: node.to_owned(), instance, event } }
    }

    /// Returns the name of the node whose process recorded the event, or [`LOG`].
    #[must_use]
    pub fn source(&self) -> &str {
        match &self.recorded {
            Recorded::Set(_) => LOG,
            Recorded::Node { node, .. } => node,
        }
    }

    /// Returns the event if it is in the event log of the set.
    #[must_use]
    pub fn set_event(&self) -> Option<&SetEvent> {
        match &self.recorded {
            Recorded::Set(event) => Some(event),
            Recorded::Node { .. } => None,
        }
    }

    /// Returns a text that no other event of the cluster has, and that stays the same if the event is continued.
    #[must_use]
    pub fn key(&self) -> String {
        match &self.recorded {
            Recorded::Set(event) => format!("{} {}", self.set, event.index),
            Recorded::Node { node, instance, event } => {
                format!("{} {node} {instance:x} {}", self.set, event.index)
            }
        }
    }

    /// Returns the index of the event at its source.
    #[must_use]
    pub fn index(&self) -> u64 {
        match &self.recorded {
            Recorded::Set(event) => event.index,
            Recorded::Node { event, .. } => event.index,
        }
    }

    /// Returns the time of the event, in milliseconds since 1970; 0 if it is unknown.
    #[must_use]
    pub fn at_unix_ms(&self) -> u64 {
        match &self.recorded {
            Recorded::Set(event) => event.at_unix_ms,
            Recorded::Node { event, .. } => event.at_unix_ms,
        }
    }

    /// Returns the time of the last change of the event, in milliseconds since 1970; 0 if it is unknown.
    #[must_use]
    pub fn until_unix_ms(&self) -> u64 {
        match &self.recorded {
            Recorded::Set(event) => event.until_unix_ms,
            Recorded::Node { event, .. } => event.until_unix_ms,
        }
    }

    /// Returns the kind of the event. No kind of a set has the name of a kind of a node.
    #[must_use]
    pub fn kind(&self) -> &str {
        match &self.recorded {
            Recorded::Set(event) => &event.kind,
            Recorded::Node { event, .. } => &event.kind,
        }
    }

    /// Returns the severity of the event.
    #[must_use]
    pub fn severity(&self) -> EventSeverity {
        match &self.recorded {
            Recorded::Set(event) => event.severity(),
            Recorded::Node { event, .. } => event.severity(),
        }
    }

    /// Returns the event in one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.recorded {
            Recorded::Set(event) => text::text(event),
            Recorded::Node { event, .. } => node_text::text(event),
        }
    }

    /// Returns the names of the nodes that the event is about.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let (node, owners) = match &self.recorded {
            Recorded::Set(event) => (&event.node, &*event.moved_to),
            Recorded::Node { node, .. } => (node, &[][..]),
        };
        iter::once(&**node).chain(owners.iter().map(|owner| &*owner.node))
    }

    /// Returns whether the section lies in the range of sections that the event is about.
    #[must_use]
    pub fn is_around(&self, section: u32) -> bool {
        let is_in =
            |event: &SetEvent| event.sections > 0 && (event.first_section..=event.last_section).contains(&section);
        self.set_event().is_some_and(is_in)
    }

    /// Returns the cells of the event's row in a table, which are the number, the time, the source, the kind and the
    /// text of the event.
    #[must_use]
    pub fn row(&self) -> [String; 5] {
        let time = utc::text_if_known(self.at_unix_ms()).unwrap_or_else(|| "-".to_owned());
        [self.index().to_string(), time, self.source().to_owned(), self.kind().to_owned(), self.text()]
    }
}

impl Serialize for ClusterEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Fields that all events have, with the fields of the event.
        #[derive(Serialize)]
        struct Flat<'a, E> {
            of: &'a str,
            source: &'a str,
            #[serde(flatten)]
            event: E,
        }
        let (of, source) = (&*self.set, self.source());
        match &self.recorded {
            Recorded::Set(event) => Flat { of, source, event: EventView::new(event) }.serialize(serializer),
            Recorded::Node { instance, event, .. } => {
                Flat { of, source, event: NodeEventView::new(*instance, event) }.serialize(serializer)
            }
        }
    }
}

/// Sorts events by their times, the oldest first. Events of a set that have the same time are in the order of their
/// indexes.
pub fn sort(events: &mut [ClusterEvent]) {
    events.sort_by(order);
}

/// Compares two events by the order in which [`sort`] sorts them.
pub(crate) fn order(one: &ClusterEvent, other: &ClusterEvent) -> Ordering {
    let place = |event: &ClusterEvent| (event.at_unix_ms(), event.set_event().is_none(), event.index());
    place(one).cmp(&place(other)).then_with(|| (&one.set, one.source()).cmp(&(&other.set, other.source())))
}

/// Returns the name of a severity.
fn severity_name(severity: EventSeverity) -> &'static str {
    match severity {
        EventSeverity::Unspecified | EventSeverity::Info => "info",
        EventSeverity::Attention => "attention",
        EventSeverity::Fault => "fault",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_all_fields_of_the_kind_and_null_for_unknown_times() {
        let lineage = 2 << 32;
        let restored = SetEvent { kind: "restored".into(), index: 7, change: 9, lineage, ..SetEvent::default() };
        let expiring = NodeEvent {
            kind: "certificate_expiring".into(),
            index: 1,
            change: 1,
            until_unix_ms: 1_795_804_800_000,
            not_after: 1_800_000_000,
            ..NodeEvent::default()
        };
        let events = [ClusterEvent::of_set("im-a", restored), ClusterEvent::of_node(("im-a", "a1"), 7, expiring)];
        expect_test::expect![[r#"
            [
              {
                "of": "im-a",
                "source": "log",
                "number": "7",
                "change": "9",
                "time": null,
                "until": null,
                "kind": "restored",
                "severity": "info",
                "text": "the set continues from a backup, in quarantine",
                "lineage": "8589934592"
              },
              {
                "of": "im-a",
                "source": "a1",
                "number": "1",
                "change": "1",
                "instance": "0000000000000007",
                "time": null,
                "until": "2026-11-27T18:40:00.000Z",
                "kind": "certificate_expiring",
                "severity": "info",
                "text": "the certificate is valid until 2027-01-15T08:00:00Z: `seqsvr cert rotate`",
                "not_after": "2027-01-15T08:00:00Z"
              }
            ]"#]]
        .assert_eq(&serde_json::to_string_pretty(&events).expect("events are JSON"));
    }
}
