//! The text of an event of a set. It is computed from the fields that the store recorded, so that a release can improve
//! the text without changing the recorded events.

use std::time::Duration;

use seq_command::output::grouped;
use seq_proto::v1::SetEvent;

/// Maximum number of next owners that a text names.
const OWNERS_SHOWN: usize = 3;

/// Returns the event in one sentence.
pub(super) fn text(event: &SetEvent) -> String {
    let SetEvent { node, incarnation, .. } = event;
    let other = || if event.set.is_empty() { format!("{:016x}", event.set_id) } else { event.set.clone() };
    match event.kind.as_str() {
        "leader" => format!("store {} leads in term {}", event.member, event.term),
        "registered" => format!("{node} registered, incarnation {incarnation}"),
        "leaving" => format!("{node} is about to exit"),
        "silent" => format!("{node} has not renewed for {}", seconds(event.lasted_ms)),
        "died" if event.owned > 0 => {
            format!(
                "{node} (incarnation {incarnation}) died, as its parent reported: it owned {} sections",
                grouped(event.owned.into())
            )
        }
        "died" => format!("{node} (incarnation {incarnation}) ended, and owned no section"),
        "drained" => format!("{node} is drained: it is to own no section"),
        "undrained" => format!("{node} may own sections again"),
        "first_owners" => format!("{} got the first owner: {}", sections(event), owners(event)),
        "release" => {
            format!("{} of allocators that stopped were given to {}{}", sections(event), owners(event), skipped(event))
        }
        "takeover" if event.lasted_ms > 0 => format!(
            "{node} (incarnation {incarnation}) was silent for {}: {} were taken over by {}{}",
            seconds(event.lasted_ms),
            sections(event),
            owners(event),
            skipped(event)
        ),
        "takeover" => format!(
            "{node} (incarnation {incarnation}) died, started anew or was lost: {} were taken over by {}{}",
            sections(event),
            owners(event),
            skipped(event)
        ),
        "handover" => format!("{node} handed {} over to {}", sections(event), owners(event)),
        "arrival" => format!("{} came from another set, to {}{}", sections(event), owners(event), skipped(event)),
        "restored_owners" => {
            format!("{} continue after the restore at {}, above all earlier numbers", sections(event), owners(event))
        }
        "unknown_owners" => format!("{} got owners: {}", sections(event), owners(event)),
        "departure" => format!("{} departed to set {}{}", sections(event), other(), migration(event)),
        "migration_started" => format!("migration {} to set {} has started", event.migration_id, other()),
        "migration_paced" => format!("the pace of migration {} was changed", event.migration_id),
        "migration_paused" => format!("migration {} is paused", event.migration_id),
        "migration_rolled_back" => format!("migration {} is rolled back", event.migration_id),
        "migration_completed" => format!("migration {} is completed", event.migration_id),
        "migration_stuck" => format!("migration {} does not advance: {}", event.migration_id, event.detail),
        "members" => format!("the voters of the store are {}", listed(&event.voters)),
        "set_defined" => format!("set {} was defined", other()),
        "closing" => "the set takes no more sections, and is to be closed".to_owned(),
        "closed" => "the set is closed permanently".to_owned(),
        "restored" => "the set continues from a backup, in quarantine".to_owned(),
        "quarantine_ended" => "the quarantine of the restored set ended".to_owned(),
        "fenced" => format!("set {} was restored: nothing of its earlier lineages is accepted", other()),
        "entries_lost" => format!("committed entries of the store are gone, as {node} has seen: restore the set"),
        "terms" => format!("sections of a silent allocator are given away after {}", seconds(event.lasted_ms)),
        "format" => format!("the format of the store is {}", event.format),
        "keyspace_created" => format!("keyspace {} was created", event.series),
        "series_created" => format!("series {} was created", event.series),
        "series_retired" => format!("series {} was retired", event.series),
        "balancing_paused" => "balancing is paused".to_owned(),
        "balancing_resumed" => "balancing continues".to_owned(),
        // The event has a kind of a later release.
        _ => String::new(),
    }
}

/// Returns a text with the number of the event's sections and with the first and the last of them.
fn sections(event: &SetEvent) -> String {
    let SetEvent { sections, first_section, last_section, .. } = event;
    if *sections == 1 {
        return format!("section {first_section}");
    }
    let count = grouped((*sections).into());
    format!("{count} sections ({} to {})", grouped((*first_section).into()), grouped((*last_section).into()))
}

/// Returns a text with the next owners.
fn owners(event: &SetEvent) -> String {
    let shown = event.moved_to.iter().take(OWNERS_SHOWN);
    let text = match event.moved_to.as_slice() {
        [only] => only.node.clone(),
        _ => shown.map(|one| format!("{} {}", one.node, grouped(one.sections.into()))).collect::<Vec<_>>().join(", "),
    };
    let further = event.moved_to.len().saturating_sub(OWNERS_SHOWN);
    match (further, event.others) {
        (0, 0) => text,
        (further, 0) => format!("{text} and {further} more"),
        (further, _) => format!("{text} and more than {further} more"),
    }
}

fn listed(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn skipped(event: &SetEvent) -> String {
    match event.most_skipped {
        Some(0) => ", no number skipped".to_owned(),
        Some(most) => format!(", at most {} numbers skipped for each uid", grouped(most)),
        None => String::new(),
    }
}

fn migration(event: &SetEvent) -> String {
    if event.migration_id == 0 { String::new() } else { format!(" by migration {}", event.migration_id) }
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", Duration::from_millis(ms).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use seq_core::state::EventKind;
    use seq_proto::v1::NodeSections;

    use super::*;

    fn event(kind: &str) -> SetEvent {
        let moved_to = vec![NodeSections { node: "a2".into(), sections: 45 }];
        SetEvent {
            kind: kind.into(),
            node: "a1".into(),
            incarnation: 3,
            sections: 45,
            first_section: 12,
            last_section: 41_990,
            moved_to,
            most_skipped: Some(10_000),
            lasted_ms: 2_500,
            set: "im-b".into(),
            series: "tweets".into(),
            migration_id: 7,
            member: 1,
            term: 2,
            format: 11,
            voters: vec![1, 2, 4],
            detail: "no response".into(),
            owned: 1_200,
            ..SetEvent::default()
        }
    }

    #[test]
    fn every_kind_has_a_text() {
        let texts: Vec<String> =
            EventKind::NAMES.iter().map(|kind| format!("{kind}: {}\n", text(&event(kind)))).collect();
        expect_test::expect![[r#"
            arrival: 45 sections (12 to 41,990) came from another set, to a2, at most 10,000 numbers skipped for each uid
            balancing_paused: balancing is paused
            balancing_resumed: balancing continues
            closed: the set is closed permanently
            closing: the set takes no more sections, and is to be closed
            departure: 45 sections (12 to 41,990) departed to set im-b by migration 7
            died: a1 (incarnation 3) died, as its parent reported: it owned 1,200 sections
            drained: a1 is drained: it is to own no section
            entries_lost: committed entries of the store are gone, as a1 has seen: restore the set
            fenced: set im-b was restored: nothing of its earlier lineages is accepted
            first_owners: 45 sections (12 to 41,990) got the first owner: a2
            format: the format of the store is 11
            handover: a1 handed 45 sections (12 to 41,990) over to a2
            keyspace_created: keyspace tweets was created
            leader: store 1 leads in term 2
            leaving: a1 is about to exit
            members: the voters of the store are 1, 2, 4
            migration_completed: migration 7 is completed
            migration_paced: the pace of migration 7 was changed
            migration_paused: migration 7 is paused
            migration_rolled_back: migration 7 is rolled back
            migration_started: migration 7 to set im-b has started
            migration_stuck: migration 7 does not advance: no response
            quarantine_ended: the quarantine of the restored set ended
            registered: a1 registered, incarnation 3
            release: 45 sections (12 to 41,990) of allocators that stopped were given to a2, at most 10,000 numbers skipped for each uid
            restored: the set continues from a backup, in quarantine
            restored_owners: 45 sections (12 to 41,990) continue after the restore at a2, above all earlier numbers
            series_created: series tweets was created
            series_retired: series tweets was retired
            set_defined: set im-b was defined
            silent: a1 has not renewed for 2.5 s
            takeover: a1 (incarnation 3) was silent for 2.5 s: 45 sections (12 to 41,990) were taken over by a2, at most 10,000 numbers skipped for each uid
            terms: sections of a silent allocator are given away after 2.5 s
            undrained: a1 may own sections again
            unknown_owners: 45 sections (12 to 41,990) got owners: a2
        "#]].assert_eq(&texts.concat());
    }

    #[test]
    fn owners_beyond_the_third_are_counted() {
        let moved_to: Vec<NodeSections> =
            (0..16).map(|node| NodeSections { node: format!("a{node}"), sections: 1_000 }).collect();
        let one = SetEvent { moved_to, others: 0, ..event("handover") };
        assert_eq!(owners(&one), "a0 1,000, a1 1,000, a2 1,000 and 13 more");
        assert_eq!(owners(&SetEvent { others: 5, ..one }), "a0 1,000, a1 1,000, a2 1,000 and more than 13 more");
    }
}
