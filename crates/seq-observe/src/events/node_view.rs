//! The JSON form of an event of a process, without the fields that do not apply to the kind of the event.

use seq_command::output::{digits, is_zero};
use seq_command::utc;
use seq_proto::v1::NodeEvent;
use serde::Serialize;

use super::{node_text, severity_name};

/// An event of a process as JSON.
#[derive(Serialize)]
pub(super) struct NodeEventView<'a> {
    #[serde(serialize_with = "digits")]
    number: u64,
    /// Number of the event's last change, which grows each time the event counts further refusals.
    #[serde(serialize_with = "digits")]
    change: u64,
    /// Run of the process, in hexadecimal digits. Numbers begin anew with each run.
    instance: String,
    /// Time of the event; `null` if it is unknown.
    time: Option<String>,
    /// Time of its last change; `null` if it is unknown.
    until: Option<String>,
    kind: &'a str,
    severity: &'static str,
    text: String,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    unserved_sections: u32,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    lasted_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    ahead_ms: i64,
    /// End of the certificate's validity.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

impl NodeEventView<'_> {
    /// Converts an event of the run `instance` of a process to its JSON form.
    pub(super) fn new(instance: u64, event: &NodeEvent) -> NodeEventView<'_> {
        NodeEventView {
            number: event.index,
            change: event.change,
            instance: format!("{instance:016x}"),
            time: utc::text_with_ms_if_known(event.at_unix_ms),
            until: utc::text_with_ms_if_known(event.until_unix_ms),
            kind: &event.kind,
            severity: severity_name(event.severity()),
            text: node_text::text(event),
            count: event.count,
            unserved_sections: event.sections,
            lasted_ms: event.lasted_ms,
            ahead_ms: event.ahead_ms,
            not_after: (event.not_after > 0).then(|| node_text::end(event)),
            detail: &event.detail,
        }
    }
}
