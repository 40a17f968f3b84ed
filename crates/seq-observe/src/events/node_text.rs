//! The text of an event of a process, computed from the fields that the process recorded.

use std::time::Duration;

use seq_command::output::grouped;
use seq_command::utc;
use seq_proto::v1::NodeEvent;

/// Returns the event in one sentence.
pub(super) fn text(event: &NodeEvent) -> String {
    let NodeEvent { detail, lasted_ms, .. } = event;
    let after = || format!("after {:.1} s", Duration::from_millis(*lasted_ms).as_secs_f64());
    let with = |sentence: &str| if detail.is_empty() { sentence.to_owned() } else { format!("{sentence}: {detail}") };
    match event.kind.as_str() {
        "lease_lost" => format!("the lease is over: {} not served until a renewal succeeds", sections(event.sections)),
        "lease_regained" => format!("there is a lease again, {}", after()),
        "order_violated" => {
            with(&format!("{} of the order of numbers within a minute", counted(event.count, "violation")))
        }
        "quorum_lost" if !detail.is_empty() => detail.clone(),
        "quorum_lost" => "no quorum".to_owned(),
        "quorum_regained" => format!("there is a quorum again, {}", after()),
        "disk_slow" => "a sync of the disk has not ended within a second".to_owned(),
        "disk_responds" => format!("the disk responds again, {}", after()),
        "halted" => with("the process serves nothing until it is started again"),
        "reloaded" if detail.is_empty() => "files were read again: nothing has changed".to_owned(),
        "reloaded" => with("files were read again"),
        "reload_failed" => with("files were not reloaded, and the values in use stay"),
        "certificate_reloaded" => format!("another certificate is in use, valid until {}", end(event)),
        "certificate_expiring" => format!("the certificate is valid until {}: `seqsvr cert rotate`", end(event)),
        "clock_step" => {
            let direction = if event.ahead_ms < 0 { "back" } else { "forward" };
            let by = Duration::from_millis(event.ahead_ms.unsigned_abs());
            format!("the clock of the machine was set {direction} by {:.1} s", by.as_secs_f64())
        }
        "connections_refused" => {
            format!("{} refused within a minute: a limit was reached", counted(event.count, "connection"))
        }
        "denied" => format!("{} denied within a minute", counted(event.count, "request")),
        "handshakes_failed" => format!("{} failed within a minute", counted(event.count, "TLS handshake")),
        "requests_shed" => {
            format!("{} refused within a minute: too many were pending or in memory", counted(event.count, "request"))
        }
        // The event has a kind of a later release.
        _ => detail.clone(),
    }
}

fn sections(count: u32) -> String {
    if count == 1 { "1 section is".to_owned() } else { format!("{} sections are", grouped(count.into())) }
}

fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{} {noun}s", grouped(count)) }
}

/// Returns the end of the certificate's validity.
pub(super) fn end(event: &NodeEvent) -> String {
    utc::text_of_ms(event.not_after.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use seq_core::node_events::NodeEventKind;

    use super::*;

    #[test]
    fn every_kind_has_a_text() {
        let event = |kind: &str| NodeEvent {
            kind: kind.to_owned(),
            count: 1_234,
            sections: 50,
            lasted_ms: 3_500,
            ahead_ms: -2_300,
            not_after: 1_800_000_000,
            detail: "log.filter".to_owned(),
            ..NodeEvent::default()
        };
        let texts: Vec<String> =
            NodeEventKind::NAMES.iter().map(|kind| format!("{kind}: {}\n", text(&event(kind)))).collect();
        expect_test::expect![[r#"
            certificate_expiring: the certificate is valid until 2027-01-15T08:00:00Z: `seqsvr cert rotate`
            certificate_reloaded: another certificate is in use, valid until 2027-01-15T08:00:00Z
            clock_step: the clock of the machine was set back by 2.3 s
            connections_refused: 1,234 connections refused within a minute: a limit was reached
            denied: 1,234 requests denied within a minute
            disk_responds: the disk responds again, after 3.5 s
            disk_slow: a sync of the disk has not ended within a second
            halted: the process serves nothing until it is started again: log.filter
            handshakes_failed: 1,234 TLS handshakes failed within a minute
            lease_lost: the lease is over: 50 sections are not served until a renewal succeeds
            lease_regained: there is a lease again, after 3.5 s
            order_violated: 1,234 violations of the order of numbers within a minute: log.filter
            quorum_lost: log.filter
            quorum_regained: there is a quorum again, after 3.5 s
            reload_failed: files were not reloaded, and the values in use stay: log.filter
            reloaded: files were read again: log.filter
            requests_shed: 1,234 requests refused within a minute: too many were pending or in memory
        "#]]
        .assert_eq(&texts.concat());
    }

    #[test]
    fn a_far_end_of_a_certificate_and_an_unknown_kind_are_shown() {
        let far = NodeEvent { kind: "certificate_reloaded".into(), not_after: u64::MAX, ..NodeEvent::default() };
        assert_eq!(text(&far), "another certificate is in use, valid until 9999-12-31T23:59:59Z");
        assert_eq!(text(&NodeEvent { kind: "later".into(), detail: "d".into(), ..NodeEvent::default() }), "d");
    }
}
