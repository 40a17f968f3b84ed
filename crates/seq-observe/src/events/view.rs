//! The JSON form of an event of a set, without the fields that do not apply to the kind of the event.

use seq_command::output::{digits, is_zero, optional_digits};
use seq_command::utc;
use seq_proto::v1::SetEvent;
use serde::Serialize;

use super::severity_name;
use super::text::text;

/// An event of a set as JSON.
#[derive(Serialize)]
pub(super) struct EventView<'a> {
    #[serde(serialize_with = "digits")]
    number: u64,
    /// Number of the event's last change, which grows each time a change continues the event.
    #[serde(serialize_with = "digits")]
    change: u64,
    /// Time of the event; `null` if it is unknown.
    time: Option<String>,
    /// Time of its last change; `null` if it is unknown.
    until: Option<String>,
    kind: &'a str,
    severity: &'static str,
    text: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    incarnation: u64,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    store: u64,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    term: u64,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    migration: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    set: &'a str,
    /// Lineage that begins, or whose predecessors are fenced.
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    lineage: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sections: Option<SectionsView>,
    /// Number of sections that the process owned when its death was reported.
    #[serde(skip_serializing_if = "is_zero")]
    owned: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owners: Vec<OwnerView<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    other_owners_sections: u32,
    /// Maximum count of numbers that any uid of the event's sections skipped; left out if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_digits")]
    most_skipped: Option<u64>,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    route_version: u64,
    /// Duration of the event, in milliseconds.
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    lasted_ms: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    series: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    format: u32,
    /// Raft ids of the store's voters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    voters: Vec<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// The sections of an event.
#[derive(Serialize)]
struct SectionsView {
    count: u32,
    first: u32,
    last: u32,
}

/// A next owner.
#[derive(Serialize)]
struct OwnerView<'a> {
    node: &'a str,
    sections: u32,
}

impl EventView<'_> {
    /// Converts an event to its JSON form.
    pub(super) fn new(event: &SetEvent) -> EventView<'_> {
        let SetEvent { sections: count, first_section: first, last_section: last, .. } = *event;
        EventView {
            number: event.index,
            change: event.change,
            time: utc::text_with_ms_if_known(event.at_unix_ms),
            until: utc::text_with_ms_if_known(event.until_unix_ms),
            kind: &event.kind,
            severity: severity_name(event.severity()),
            text: text(event),
            node: &event.node,
            incarnation: event.incarnation,
            store: event.member,
            term: event.term,
            migration: event.migration_id,
            set: &event.set,
            lineage: event.lineage,
            sections: (count > 0).then_some(SectionsView { count, first, last }),
            owned: event.owned,
            owners: event.moved_to.iter().map(|one| OwnerView { node: &one.node, sections: one.sections }).collect(),
            other_owners_sections: event.others,
            most_skipped: event.most_skipped,
            route_version: event.route_version,
            lasted_ms: event.lasted_ms,
            series: &event.series,
            format: event.format,
            voters: event.voters.iter().map(u64::to_string).collect(),
            detail: &event.detail,
        }
    }
}
