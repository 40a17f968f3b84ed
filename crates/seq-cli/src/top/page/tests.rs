use std::sync::Arc;

use expect_test::expect;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use seq_observe::alloc_state::AllocState;
use seq_observe::cluster::{Absence, AllocView, SetView, Unreachable};
use seq_observe::verdict::State;
use seq_observe::{BusySection, Cluster, ClusterEvent, Observation};
use seq_proto::v1::{EventSeverity, MigrationPhase, MigrationStatus, NodeSections, SectionFigures, SetEvent};

use super::super::keys::Action;
use super::*;

/// 2026-11-27 03:16:48 UTC.
const NOW: u64 = 1_795_749_408_000;

fn alloc(name: &str, sections: u32, numbers: f64, lease_remaining_ms: u64) -> AllocView {
    AllocView {
        set: "im-a".to_owned(),
        name: name.to_owned(),
        addr: format!("10.3.0.7:{}", 7_000 + sections),
        state: if lease_remaining_ms > 0 { AllocState::Serves } else { AllocState::NoLease },
        incarnation: 3,
        sections,
        lease_remaining_ms,
        lease_ms: 2_000,
        numbers_per_second: Some(numbers),
        raises_per_second: Some(0.2),
        route_version: 12,
        slot_bytes: 14 << 20,
        uptime_ms: 90_061_000,
        version: "0.1.0".to_owned(),
        ..AllocView::default()
    }
}

fn busy(section: u32, owner: &str, numbers: u64, history: &[f64]) -> BusySection {
    let figures = SectionFigures { section, numbers: numbers * 5, writes: 1, raised: 10_000, ms: 5_000 };
    BusySection {
        section,
        uid_start: u64::from(section) * 100_000,
        uid_end: u64::from(section) * 100_000 + 100_000,
        set: "im-a".to_owned(),
        owner: owner.to_owned(),
        figures: seq_observe::activity::FiguresView::new(&figures),
        history: history.to_vec(),
    }
}

fn takeover() -> ClusterEvent {
    let event = SetEvent {
        index: 7,
        at_unix_ms: NOW - 244_000,
        kind: "takeover".to_owned(),
        severity: EventSeverity::Attention.into(),
        node: "a12".to_owned(),
        incarnation: 3,
        sections: 45,
        first_section: 12,
        last_section: 41_990,
        moved_to: vec![NodeSections { node: "a7".to_owned(), sections: 45 }],
        lasted_ms: 2_500,
        most_skipped: Some(10_000),
        ..SetEvent::default()
    };
    ClusterEvent::of_set("im-a", event)
}

/// Returns a set in which an allocator is lost, a migration moves, and a hostile name is a node's.
fn seen() -> Seen {
    let mut cluster = Cluster::default();
    let mut set = SetView::default();
    "im-a".clone_into(&mut set.name);
    (set.sections, set.sections_served, set.state) = (42_950, 42_950, Some(State::Degraded));
    (set.numbers_per_second, set.raises_per_second) = (Some(571_000.0), Some(54.9));
    set.moves = vec![MigrationStatus {
        id: 4_711,
        to: "im-b".to_owned(),
        phase: MigrationPhase::Open.into(),
        sections: 400,
        departed: 216,
        arrived: 212,
        sections_per_second: 20.0,
        pause_max_us: 88_000,
        pause_p99_us: 24_000,
        pause_p50_us: 4_000,
        ..MigrationStatus::default()
    }];
    cluster.sets = vec![set];
    cluster.allocs = vec![alloc("a7", 44, 561.0, 1_500), alloc("a\u{1b}[2J", 3, 7.25, 0)];
    cluster.unreachable = vec![Unreachable {
        addr: "10.3.0.12:7045".to_owned(),
        name: Some("a12".to_owned()),
        set: Some("im-a".to_owned()),
        role: None,
        state: Absence::Silent,
        removed: false,
        silent_ms: None,
        why: "Connection refused".to_owned(),
    }];
    cluster.attention = vec![Attention {
        severity: Severity::Attention,
        set: Some("im-a".to_owned()),
        rule: "silent allocators",
        sentence: "no response of allocator a12 (10.3.0.12:7045)".to_owned(),
        next: Some("start it again, or if it is to stay away, `seqsvr node drain`".to_owned()),
        runbook: "process.md#seqsvrdown",
    }];
    let sections = vec![
        busy(31_140, "a7", 1_420, &[100.0, 700.0, 1_420.0]),
        busy(0, "a4", 1_388, &[1_388.0; 12]),
        busy(7, "a7", 3, &[3.0]),
    ];
    let observation = Observation { unix_ms: NOW, cluster, sections, events: vec![takeover()], missing: vec![] };
    Seen { observation: Arc::new(observation), age: Duration::ZERO, error: None, described: None }
}

fn shown(seen: &Seen, screen: &Screen, width: usize, height: usize) -> String {
    let rows = page(seen, screen, width, height);
    assert!(rows.len() <= height && rows.iter().all(|row| row.text.chars().count() <= width));
    rows.iter().map(|row| format!("{}\n", row.text.trim_end())).collect()
}

fn on(tab: Tab) -> Screen {
    Screen { tab, ..Screen::default() }
}

#[test]
fn sections_at_80_columns() {
    expect![[r#"
        top im-a ▲ degraded 42,950/42,950 571,000 n/s 55 w/s 03:16:48
        ▲ im-a: no response of allocator a12 (10.3.0.12:7045)
          next: start it again, or if it is to stay away, `seqsvr node drain`
        1 nodes  2 SECTIONS  3 migrations  4 events  sort: numbers  filter: -  ? help
            section set      owner     numbers/s  writes/m history
        >    31,140 im-a     a7            1,420        12 ▁▄█
                  0 im-a     a4            1,388        12 ██████████
                  7 im-a     a7              3.0        12 █
        03:12:44 im-a log: a12 (incarnation 3) was silent for 2.5 s: 45 sections (12 to…
    "#]]
    .assert_eq(&shown(&seen(), &on(Tab::Sections), 80, 24));
}

#[test]
fn sections_at_160_columns_have_the_nodes_beside_them() {
    expect![[r#"
        seqsvr top  im-a  ▲ degraded  42,950/42,950 served  571,000 numbers/s  55 writes/s  03:16:48
        ▲ im-a: no response of allocator a12 (10.3.0.12:7045); next: start it again, or if it is to stay away, `seqsvr node drain`
        1 nodes  2 SECTIONS  3 migrations  4 events  sort: numbers  filter: -  ? help
            section set      owner     numbers/s  writes/m history          raised                        │ node       set      state     sections  numbers/s   lease
        >    31,140 im-a     a7            1,420        12 ▁▄█              10,000                        │ a12        im-a     silent           -          -       -
                  0 im-a     a4            1,388        12 ██████████       10,000                        │ a\u{1b}[2J im-a     no lease         3        7.2    none
                  7 im-a     a7              3.0        12 █                10,000                        │ a7         im-a     serves          44        561   1.5 s
        03:12:44 im-a log: a12 (incarnation 3) was silent for 2.5 s: 45 sections (12 to 41,990) were taken over by a7, at most 10,000 numbers skipped for each uid
    "#]].assert_eq(&shown(&seen(), &on(Tab::Sections), 160, 24));
}

#[test]
fn nodes_at_160_columns() {
    expect![[r#"
        seqsvr top  im-a  ▲ degraded  42,950/42,950 served  571,000 numbers/s  55 writes/s  03:16:48
        ▲ im-a: no response of allocator a12 (10.3.0.12:7045); next: start it again, or if it is to stay away, `seqsvr node drain`
        1 NODES  2 sections  3 migrations  4 events  sort: numbers  filter: -  ? help
          node       set      state     sections  numbers/s   lease writes/s        log   routes    memory      up addr
        > a12        im-a     silent           -          -       -        -          -        -         -       - 10.3.0.12:7045 Connection r…
          a\u{1b}[2J im-a     no lease         3        7.2    none      0.2          -      v12    14 MiB   1d01h 10.3.0.7:7003
          a7         im-a     serves          44        561   1.5 s      0.2          -      v12    14 MiB   1d01h 10.3.0.7:7044
    "#]].assert_eq(&shown(&seen(), &on(Tab::Nodes), 160, 24));
}

#[test]
fn migrations_and_events_at_60_columns() {
    let text = [shown(&seen(), &on(Tab::Migrations), 60, 24), shown(&seen(), &on(Tab::Events), 60, 24)].concat();
    expect![[r#"
        top im-a ▲ degraded 42,950/42,950 571,000 n/s 55 w/s 03:16:…
        ▲ im-a: no response of allocator a12 (10.3.0.12:7045)
          next: start it again, or if it is to stay away, `seqsvr n…
        1 nodes  2 sections  3 MIGRATIONS  4 events  sort: numbers …
          migration  from     to       phase               sections
        > 4711       im-a     im-b     open                 212/400
        top im-a ▲ degraded 42,950/42,950 571,000 n/s 55 w/s 03:16:…
        ▲ im-a: no response of allocator a12 (10.3.0.12:7045)
          next: start it again, or if it is to stay away, `seqsvr n…
        1 nodes  2 sections  3 migrations  4 EVENTS  sort: numbers …
          time     set      source   event
        > 03:12:44 im-a     log      a12 (incarnation 3) was silent…
    "#]]
    .assert_eq(&text);
}

#[test]
fn any_size_is_drawn() {
    let mut seen = seen();
    seen.described = Some((31_140, vec!["numbers: 1,420 a second".to_owned(); 9]));
    for tab in Tab::ALL {
        for help in [false, true] {
            let screen = Screen { help, detail: Some(31_140), selected: 2, ..on(tab) };
            for (width, height) in [(0, 0), (1, 1), (10, 3), (40, 5), (40, 12), (500, 200)] {
                shown(&seen, &screen, width, height);
            }
        }
    }
}

#[test]
fn an_old_page_says_so() {
    let mut seen = seen();
    seen.age = Duration::from_secs(12);
    assert!(page(&seen, &on(Tab::Nodes), 160, 9)[0].text.ends_with("(12 s ago)"));
    seen.error = Some("no node responds; h:1: Connection refused".to_owned());
    let first = &page(&seen, &on(Tab::Nodes), 160, 9)[0];
    assert!(first.text.starts_with("✕ 12 s ago: no node responds; h:1"), "{}", first.text);
    assert_eq!(first.look, Look::Fault);
}

#[test]
fn keys_select_filter_and_pause() {
    let seen = seen();
    let mut screen = on(Tab::Sections);
    let press = |screen: &mut Screen, code| screen.press(KeyEvent::new(code, KeyModifiers::NONE), &seen);
    let key = KeyCode::Char;
    assert_eq!(press(&mut screen, KeyCode::End), Action::Draw);
    assert_eq!((screen.selected, press(&mut screen, KeyCode::Enter)), (2, Action::Draw));
    assert_eq!(screen.wanted().detail, Some(7));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(screen.wanted().detail, None, "Enter hides it again");

    for code in [key('/'), key('A'), key('7'), key(' '), key('q'), KeyCode::Backspace] {
        press(&mut screen, code);
    }
    assert_eq!((screen.filter.as_str(), screen.is_typing), ("a7 ", true));
    press(&mut screen, KeyCode::Enter);
    assert_eq!(tables::rows(&seen.observation, &screen), 2, "sections of a7");
    assert!(shown(&seen, &screen, 100, 24).contains("filter: a7"));
    press(&mut screen, KeyCode::Esc);
    assert_eq!(tables::rows(&seen.observation, &screen), 3);

    assert_eq!((press(&mut screen, key(' ')), screen.wanted().paused), (Action::Draw, true));
    assert_eq!((press(&mut screen, key(' ')), screen.wanted().paused), (Action::Draw, false));
    assert_eq!((press(&mut screen, key('s')), screen.wanted().by), (Action::Draw, By::Writes));
    press(&mut screen, key('4'));
    press(&mut screen, KeyCode::Tab);
    assert_eq!(screen.tab, Tab::Nodes);
    assert_eq!(press(&mut screen, key('q')), Action::End);
    assert_eq!(screen.press(KeyEvent::new(key('c'), KeyModifiers::CONTROL), &seen), Action::End);
}
