//! Pages of a small cluster, as text.

use std::sync::Arc;

use expect_test::{Expect, expect};
use seq_observe::activity::FiguresView;
use seq_observe::advice::Severity;
use seq_observe::alloc_state::AllocState;
use seq_observe::attention::Attention;
use seq_observe::cluster::{AllocView, SetView};
use seq_observe::events::Recorded;
use seq_observe::{BusySection, Cluster, ClusterEvent};
use seq_proto::v1::{
    CeilingRaise, EventSeverity, MigrationPhase, MigrationStatus, NodeSections, SectionFigures, SectionRange, SetEvent,
};

use super::*;
use crate::route::Filter;

fn alloc(name: &str, state: AllocState) -> AllocView {
    AllocView {
        set: "im-a".to_owned(),
        name: name.to_owned(),
        addr: format!("{name}:7100"),
        state,
        incarnation: 3,
        sections: 45,
        lease_ms: 2_000,
        lease_remaining_ms: if state == AllocState::NoLease { 0 } else { 1_500 },
        lease_ended_ms: if state == AllocState::NoLease { 4_000 } else { 0 },
        allocations: 1_000_000,
        numbers_per_second: Some(561.0),
        raises_per_second: Some(0.5),
        forwarded: 12,
        slot_bytes: 14_000_000,
        uptime_ms: 90_000,
        version: "0.1.0".to_owned(),
        ..AllocView::default()
    }
}

fn observation() -> Observation {
    let mut set = SetView::default();
    set.name = "im-a".to_owned();
    set.state = Some(State::Degraded);
    (set.uid_end, set.section_size, set.sections, set.sections_served) = (9_000_000, 100_000, 90, 90);
    (set.numbers_per_second, set.raises_per_second) = (Some(561.0), Some(0.5));
    set.moves.push(MigrationStatus {
        id: 4_711,
        from: "im-a".to_owned(),
        to: "im-<b>".to_owned(),
        phase: MigrationPhase::Open.into(),
        sections: 40,
        departed: 12,
        arrived: 10,
        in_flight: 2,
        sections_per_second: 5.0,
        runs: vec![SectionRange { first_section: 50, sections: 40 }],
        stuck: "the target does not respond".to_owned(),
        ..MigrationStatus::default()
    });
    let mut cluster = Cluster::default();
    cluster.sets.push(set);
    cluster.allocs = vec![alloc("a1", AllocState::Serves), alloc("a2", AllocState::NoLease)];
    cluster.attention.push(Attention {
        severity: Severity::Attention,
        set: Some("im-a".to_owned()),
        rule: "silent allocators",
        sentence: "a3 does not respond".to_owned(),
        next: Some("start it again, or `seqsvr node drain a3`".to_owned()),
        runbook: "process.md#seqsvrdown",
    });
    let event = SetEvent {
        index: 7,
        change: 7,
        at_unix_ms: 1_795_804_800_000,
        kind: "takeover".to_owned(),
        node: "a3".to_owned(),
        incarnation: 2,
        sections: 45,
        first_section: 3,
        last_section: 88,
        moved_to: vec![NodeSections { node: "a1".to_owned(), sections: 45 }],
        most_skipped: Some(10_000),
        lasted_ms: 2_500,
        severity: EventSeverity::Attention.into(),
        ..SetEvent::default()
    };
    Observation {
        unix_ms: 1_795_804_802_000,
        cluster,
        sections: Vec::new(),
        events: vec![ClusterEvent::of_set("im-a", event)],
        missing: vec!["activity of a2 of im-a: no response".to_owned()],
    }
}

/// Renders the regions of a page as text: each row in a line, its cells apart by bars.
fn check(page: &Page, expect: Expect) {
    let mut text = format!("= {}\n", page.title);
    for block in &page.blocks {
        match block {
            Block::Heading(heading) => text += &format!("== {heading}\n"),
            Block::Text(line) => text += &format!("{line}\n"),
            Block::Command { text: before, command } => text += &format!("{before} {command}\n"),
            Block::Region(region) => {
                if region.rows.is_empty() && !region.empty.is_empty() {
                    text += &format!("({})\n", region.empty);
                }
                for row in &region.rows {
                    let cells: Vec<String> = row.cells.iter().map(|cell| cell.text.clone()).collect();
                    text += &format!("{}\n", cells.join(" | ").trim_end());
                }
            }
            Block::Form(_) | Block::Staircase(_) | Block::Map(..) | Block::Document(_) => {}
        }
    }
    expect.assert_eq(&text);
}

fn seen(observation: Observation) -> Seen {
    let mut seen = Seen::default();
    seen.last = Some((tokio::time::Instant::now(), Arc::new(observation)));
    seen
}

#[test]
fn the_overview_begins_with_what_needs_attention() {
    let observation = observation();
    check(
        &overview::page(&observation, &Seen::default()),
        expect![[r#"
            = Overview
            == Needs attention
            ▲ im-a: a3 does not respond | start it again, or | seqsvr node drain a3 |  | runbook
            == Sets
            561 |  numbers/s
            0.5 |  section writes/s
            1,122 |  numbers per write
            0.0 s |  least lease left
            im-a | ▲ degraded | 0..9,000,000 | 90/90 | 561 |  | 0.5 | 0.0 s |  | 1 of 2 serve ▮✕
            == Last events
            2026-11-27T18:40:00Z | im-a | log | takeover | ▲ a3 (incarnation 2) was silent for 2.5 s: 45 sections (3 to 88) were taken over by a1, at most 10,000 numbers skipped for each uid
            ○ not known: activity of a2 of im-a: no response
        "#]],
    );
}

#[test]
fn nodes_without_a_lease_come_first() {
    check(
        &nodes::page(&observation(), ""),
        expect![[r#"
        = Nodes
        == No response
        (● every node responds)
        == Allocators
        a2 | im-a | ✕ no lease | 45 | 561 | 0.5 | ✕ ended 4.0 s ago | 12 | 0 | 14,000 kB | 1m30s | 0.1.0 | - | a2:7100
        a1 | im-a | ● serves | 45 | 561 | 0.5 | ▓▓▓▓▓▓░░ 1.5 s | 12 | 0 | 14,000 kB | 1m30s | 0.1.0 | - | a1:7100
        == Stores
        (no store)
    "#]],
    );
    let other = nodes::page(&observation(), "im-b");
    let rows = other.blocks.iter().filter_map(|block| match block {
        Block::Region(region) => Some(region.rows.len()),
        _ => None,
    });
    assert_eq!(rows.sum::<usize>(), 0, "the set has no nodes");
}

#[test]
fn a_migration_that_does_not_move_states_why() {
    check(
        &sets::page(&observation(), &Seen::default()),
        expect![[r#"
            = Sets and migrations
            == Needs attention
            ▲ im-a: a3 does not respond | start it again, or | seqsvr node drain a3 |  | runbook
            == Sets
            im-a | ▲ degraded | 0..9,000,000 | 90 | 0 | 0 | on | 561 |  | 0.5 | 0 | 0
            == Migrations
            4711 | im-a | im-<b> | open | ▓▓▓▓▓░░░░░░░░░░░░░░░ | 10/40 | 2 | 5.0/s  ETA 6 s | stuck: the target does not respond | 50..90 | seqsvr migration pause 4711
            Migrations that ended: seqsvr migration list
        "#]],
    );
}

#[test]
fn events_pass_a_filter() {
    let observation = observation();
    let rows = |filter: Filter| {
        let page = events::page(&observation, &filter);
        let region = page.blocks.iter().find_map(|block| match block {
            Block::Region(region) if region.id == "events" => Some(region.rows.len()),
            _ => None,
        });
        region.expect("the page has the region")
    };
    let filter = |set: &str, kind: &str, node: &str, section: &str| Filter {
        set: set.to_owned(),
        kind: kind.to_owned(),
        node: node.to_owned(),
        section: section.to_owned(),
    };
    assert_eq!(rows(Filter::default()), 1);
    assert_eq!(rows(filter("im-a", "takeover", "a1", "45")), 1, "a1 is the next owner");
    for other in
        [filter("im-b", "", "", ""), filter("", "drained", "", ""), filter("", "", "a9", ""), filter("", "", "", "89")]
    {
        assert_eq!(rows(other.clone()), 0, "{other:?}");
    }
    assert_eq!(rows(filter("", "", "", "<script>")), 0);
}

#[test]
fn names_of_nodes_are_escaped() {
    let mut observation = observation();
    observation.cluster.allocs[0].name = "<script>alert(1)</script>".to_owned();
    observation.cluster.sets[0].name = "\" onload=\"x".to_owned();
    let seen = seen(observation);
    let (_, observation) = seen.last.as_ref().expect("observed");
    for page in [
        overview::page(observation, &seen),
        nodes::page(observation, ""),
        sets::page(observation, &seen),
        map::page(observation),
    ] {
        let frame = crate::html::Frame {
            state: state(&seen),
            age: crate::model::Age::of(&seen),
            console: "0f",
            identity: "operator/<i>",
            path: "/",
            live: "/live".into(),
        };
        let html = crate::html::page(&page, &frame).into_string();
        assert!(!html.contains("<script>alert") && !html.contains("\" onload") && !html.contains("<i>"), "{html}");
    }
}

#[test]
fn the_header_states_what_failed() {
    let text =
        |seen: &Seen| -> Vec<String> { state(seen).rows[0].cells.iter().map(|cell| cell.text.clone()).collect() };
    assert_eq!(text(&Seen::default()), ["✕ no node responds"]);
    let mut seen = seen(observation());
    assert_eq!(text(&seen), ["▲ degraded", "90 of 90 sections served", "1 point needs attention"]);
    seen.error = Some("no node responds".to_owned());
    assert_eq!(text(&seen)[0], "✕ no node responds");
}

/// Returns the texts of a region.
fn texts(page: &Page, id: &str) -> Vec<String> {
    let region = page.blocks.iter().find_map(|block| match block {
        Block::Region(region) if region.id == id => Some(region),
        _ => None,
    });
    let rows = &region.unwrap_or_else(|| panic!("the page has {id}")).rows;
    rows.iter().flat_map(|row| &row.cells).map(|cell| cell.text.clone()).collect()
}

#[test]
fn a_table_that_is_cut_states_it() {
    let mut observation = observation();
    assert_eq!(texts(&nodes::page(&observation, ""), "allocs-cut"), Vec::<String>::new());
    observation.cluster.allocs = (0..1_000).map(|place| alloc(&format!("a{place}"), AllocState::Serves)).collect();
    let of = |set: &str| texts(&nodes::page(&observation, set), "allocs-cut");
    assert_eq!(of(""), ["250 of 1,000 are shown: choose a set, or seqsvr status"]);
    assert_eq!(of("im-a"), ["250 of 1,000 are shown: seqsvr status has all"]);

    let event = observation.events.iter().find_map(|event| match &event.recorded {
        Recorded::Set(event) => Some(event.clone()),
        Recorded::Node { .. } => None,
    });
    let event = event.expect("the set has an event");
    let event = |index| ClusterEvent::of_set("im-a", SetEvent { index, ..event.clone() });
    observation.events = (1..=300).map(event).collect();
    let page = events::page(&observation, &Filter::default());
    let text = "200 of 300 are shown: choose a set or a kind, or seqsvr events list";
    assert_eq!(texts(&page, "events-cut"), [text]);
    let history = |observation: &Observation| {
        let blocks = section::history(observation, "im-a", 45).into();
        texts(&Page { title: String::new(), blocks }, "events-cut")
    };
    assert_eq!(history(&observation), ["50 of 300 are shown: seqsvr events list --section 45"]);
    observation.events.truncate(50);
    assert_eq!(history(&observation), Vec::<String>::new());

    let raises = |count: usize| {
        let blocks = section::raises(&vec![CeilingRaise::default(); count], 45).into();
        texts(&Page { title: String::new(), blocks }, "raises-cut")
    };
    assert_eq!(raises(20), Vec::<String>::new());
    assert_eq!(raises(21), ["20 of 21 are shown: seqsvr section show 45 -o json has all"]);
}

#[test]
fn the_bar_of_a_lease_is_relative_to_the_lease_of_its_node() {
    let lease = |lease_ms| {
        let mut observation = observation();
        observation.cluster.allocs = vec![AllocView { lease_ms, ..alloc("a1", AllocState::Serves) }];
        texts(&nodes::page(&observation, ""), "allocs")[6].clone()
    };
    assert_eq!([lease(2_000), lease(6_000), lease(0)], ["▓▓▓▓▓▓░░ 1.5 s", "▓▓░░░░░░ 1.5 s", "1.5 s"]);
}

/// Returns a console of a cluster without nodes.
fn console() -> Console {
    let pool = seq_channel::Pool::with_dial(1, seq_channel::Dial::tcp());
    let timeout = std::time::Duration::from_secs(20);
    let (model, _) = crate::model::Model::new(seq_observe::Observer::new(pool.clone(), Vec::new(), true, timeout));
    Console {
        id: String::new(),
        model,
        heat: crate::heat::Heat::new(pool.clone(), timeout),
        pool,
        timeout,
        identity: String::new(),
        access: crate::access::Access::new(([127, 0, 0, 1], 7150).into(), false),
        streams: Arc::new(tokio::sync::Semaphore::new(1)),
    }
}

#[tokio::test]
async fn a_table_of_sections_that_is_cut_states_it() {
    let busy = |section| BusySection {
        section,
        uid_start: 0,
        uid_end: 100_000,
        set: "im-a".to_owned(),
        owner: "a1".to_owned(),
        figures: FiguresView::new(&SectionFigures::default()),
        history: Vec::new(),
    };
    let mut observation = observation();
    observation.cluster.sets[0].uid_end = 100_000_000;
    observation.sections = (0..200).map(busy).collect();
    let page = sections::page(&console(), &observation, false).await;
    assert_eq!(texts(&page, "sections-cut"), ["200 of 1,000 are shown: the section map has all"]);
    observation.sections.pop();
    let page = sections::page(&console(), &observation, false).await;
    assert_eq!(texts(&page, "sections-cut"), Vec::<String>::new(), "the other sections are at rest");
}

#[tokio::test]
async fn allocators_that_do_not_report_their_writes_are_named() {
    let console = console();
    let mut observation = observation();
    // A port on which nothing listens, because the listener is dropped at once.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr();
    let addr = closed.expect("an address").to_string();
    observation.cluster.allocs = vec![AllocView { addr, ..alloc("a1", AllocState::Serves) }];
    let missing = texts(&sections::page(&console, &observation, true).await, "missing");
    assert_eq!(missing.len(), 2, "{missing:?}");
    assert!(missing[0].starts_with("○ not known: activity of a2") && missing[1].contains("writes of a1 of im-a"));
    let by_numbers = texts(&sections::page(&console, &observation, false).await, "missing");
    assert_eq!(by_numbers.len(), 1, "they are of the observation: {by_numbers:?}");
}
