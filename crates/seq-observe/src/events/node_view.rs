//! The JSON form of an event of a process. It omits the fields that do not apply to the kind of the event.

use seq_command::output::digits;
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
    time: String,
    until: String,
    kind: &'a str,
    severity: &'static str,
    text: String,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    count: u64,
    #[serde(skip_serializing_if = "is_none_of_32")]
    unserved_sections: u32,
    #[serde(skip_serializing_if = "is_zero", serialize_with = "digits")]
    lasted_ms: u64,
    #[serde(skip_serializing_if = "is_no_step")]
    ahead_ms: i64,
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
            time: utc::text_of_ms(event.at_unix_ms),
            until: utc::text_of_ms(event.until_unix_ms),
            kind: &event.kind,
            severity: severity_name(event.severity()),
            text: node_text::text(event),
            count: event.count,
            unserved_sections: event.sections,
            lasted_ms: event.lasted_ms,
            ahead_ms: event.ahead_ms,
            detail: &event.detail,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_none_of_32(number: &u32) -> bool {
    *number == 0
}

fn is_no_step(ahead_ms: &i64) -> bool {
    *ahead_ms == 0
}
