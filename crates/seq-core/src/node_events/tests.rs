use alloc::format;
use alloc::vec;

use super::*;
use crate::state::Severity;

/// Wall clock at the start, in nanoseconds since 1970.
const START: u64 = 1_800_000_000 * NANOS;

/// Returns readings of clocks that run alike, `ms` milliseconds after the start.
fn at(ms: u64) -> Clocks {
    let ran = ms * NANOS_PER_MS;
    Clocks { boottime: 7 * NANOS + ran, raw: 7 * NANOS + ran, realtime: START + ran }
}

fn log() -> NodeEventLog {
    NodeEventLog::new(at(0))
}

fn kinds(log: &NodeEventLog) -> Vec<&'static str> {
    log.kept.iter().map(|event| event.kind.name()).collect()
}

fn denied(log: &mut NodeEventLog, ms: u64, count: u64) {
    log.note(at(ms), Fact::Refused { refusals: Refusals::Denied, count });
}

#[test]
fn a_lease_is_lost_only_after_it_held_and_its_return_has_the_duration() {
    let mut log = log();
    let lease = |holds| Fact::Lease { holds, expired: 0, sections: 50 };
    for (ms, holds) in
        [(0, false), (10, true), (20, true), (1_000, false), (2_000, false), (4_500, true), (5_000, true)]
    {
        log.note(at(ms), lease(holds));
    }
    assert_eq!(kinds(&log), ["lease_lost", "lease_regained"]);
    let [lost, regained] = &*log.page(0, 10).events else { panic!() };
    assert_eq!((lost.sections, lost.lasted_ms, lost.at_unix_ms), (50, 0, START / NANOS_PER_MS + 1_000));
    assert_eq!((regained.sections, regained.lasted_ms), (0, 3_500));
    assert_eq!((lost.index, regained.index, lost.kind.severity()), (1, 2, Severity::Attention));
}

#[test]
fn a_lease_that_expired_while_the_process_was_suspended_was_lost_since_it_expired() {
    let mut log = log();
    let lease = |holds, expired| Fact::Lease { holds, expired, sections: 50 };
    log.note(at(10), lease(true, 0));
    log.note(at(9_000), lease(false, 7_000 * NANOS_PER_MS));
    log.note(at(9_001), lease(true, 0));
    assert_eq!(log.page(0, 10).events[1].lasted_ms, 7_001);
}

#[test]
fn a_quorum_and_a_disk_are_lost_and_regained() {
    let mut log = log();
    let quorum = |holds| Fact::Quorum { holds, status: "no\nmessage" };
    for (ms, fact) in [
        (1, quorum(false)),
        (2, quorum(true)),
        (3, quorum(false)),
        (4, Fact::Disk { responds: false }),
        (9, Fact::Disk { responds: true }),
        (10, quorum(true)),
    ] {
        log.note(at(ms), fact);
    }
    assert_eq!(kinds(&log), ["quorum_lost", "disk_slow", "disk_responds", "quorum_regained"]);
    assert_eq!(log.kept[0].detail, "no message", "control characters are not kept");
    assert_eq!((log.kept[2].lasted_ms, log.kept[3].lasted_ms), (5, 7));
}

#[test]
fn refusals_are_one_event_a_minute_with_a_count() {
    let mut log = log();
    denied(&mut log, 0, 1);
    denied(&mut log, 10, 0);
    let first = log.page(0, 10);
    assert_eq!((first.events.len(), first.events[0].count, first.next), (1, 1, 1));
    for second in 1..60 {
        denied(&mut log, second * 1_000, 1_000);
    }
    // Another kind has a minute of its own.
    log.note(at(59_000), Fact::Refused { refusals: Refusals::Handshakes, count: 2 });
    assert_eq!(kinds(&log), ["denied", "handshakes_failed"]);
    let page = log.page(first.next, 10);
    let counts: Vec<(u64, u64)> = page.events.iter().map(|event| (event.index, event.count)).collect();
    assert_eq!(counts, [(1, 59_001), (2, 2)], "the first event is sent again, with its new count");
    assert_eq!(page.events[0].until_unix_ms - page.events[0].at_unix_ms, 59_000);
    assert!(log.page(page.next, 10).events.is_empty());
    denied(&mut log, 60_000, 5);
    assert_eq!((log.kept.len(), log.kept[2].count), (3, 5));
}

#[test]
fn a_flood_of_refusals_pushes_out_no_other_event() {
    let mut log = log();
    log.note(at(0), Fact::Lease { holds: true, expired: 0, sections: 1 });
    log.note(at(1), Fact::Lease { holds: false, expired: 0, sections: 1 });
    for minute in 0..10_000 {
        denied(&mut log, minute * 60_000, 1);
        log.note(at(minute * 60_000), Fact::Refused { refusals: Refusals::Handshakes, count: 9 });
    }
    assert_eq!((log.kept.len(), kinds(&log)[0]), (MAX_NODE_EVENTS, "lease_lost"));
    assert!(log.kept.iter().zip(log.kept.iter().skip(1)).all(|(one, next)| one.index < next.index));
    assert_eq!(log.kept.back().unwrap().index, 20_001);
}

#[test]
fn a_count_whose_event_is_gone_adds_no_second_event_in_the_minute() {
    let mut log = log();
    denied(&mut log, 0, 1);
    log.kept.clear();
    denied(&mut log, 59_999, 1);
    assert!(log.kept.is_empty());
    denied(&mut log, 60_000, 1);
    assert_eq!(kinds(&log), ["denied"]);
}

#[test]
fn a_step_of_the_wall_clock_is_an_event_and_its_slew_or_a_suspension_is_none() {
    let mut log = log();
    let set = |clocks: Clocks, ahead_ms: i64| {
        let realtime = clocks.realtime.checked_add_signed(ahead_ms * NANOS_PER_MS as i64).unwrap();
        Clocks { realtime, ..clocks }
    };
    // An hour between two readings, in which the rate was corrected by 0.05 %.
    log.note(set(at(3_600_000), 1_800), Fact::Time);
    log.note(set(at(3_601_000), 2_700), Fact::Time);
    // The machine slept for an hour: its raw clock stopped, the other clocks did not.
    let slept = at(7_200_000);
    log.note(Clocks { raw: slept.raw - 3_600 * NANOS, ..set(slept, 2_700) }, Fact::Time);
    assert!(log.kept.is_empty(), "{:?}", log.kept);
    log.note(set(at(7_201_000), 5_000), Fact::Time);
    log.note(set(at(7_202_000), 5_000), Fact::Time);
    log.note(set(at(7_203_000), -55_000), Fact::Time);
    let steps: Vec<i64> = log.kept.iter().map(|event| event.ahead_ms).collect();
    assert_eq!((kinds(&log), steps), (vec!["clock_step", "clock_step"], vec![2_300, -60_000]));
}

#[test]
fn a_certificate_is_reported_once_when_it_is_new_and_once_when_it_is_close_to_its_end() {
    let mut log = log();
    let now = START / NANOS;
    let seen = |not_after, is_new| Fact::Certificate { not_after, is_new };
    log.note(at(0), seen(now + CERTIFICATE_WARNING_SECONDS + 10, false));
    log.note(at(5_000), seen(now + CERTIFICATE_WARNING_SECONDS + 10, false));
    assert!(log.kept.is_empty());
    log.note(at(12_000), seen(now + CERTIFICATE_WARNING_SECONDS + 10, false));
    log.note(at(14_000), seen(now + CERTIFICATE_WARNING_SECONDS + 10, false));
    log.note(at(16_000), seen(now + 100 * 86_400, true));
    log.note(at(18_000), seen(now + 50, true));
    assert_eq!(
        kinds(&log),
        ["certificate_expiring", "certificate_reloaded", "certificate_reloaded", "certificate_expiring"]
    );
    assert_eq!(log.kept[3].not_after, now + 50);
}

#[test]
fn pages_are_bounded_and_continue_where_the_last_ended() {
    let mut log = log();
    for number in 0..7 {
        log.note(at(number), Fact::Reloaded { changes: &format!("change {number}") });
    }
    let (mut after, mut read) = (0, Vec::new());
    loop {
        let page = log.page(after, 3);
        assert!(page.events.len() <= 3);
        read.extend(page.events.iter().map(|event| event.index));
        after = page.next;
        if !page.more {
            break;
        }
    }
    assert_eq!((read, after), ((1..=7).collect(), 7));
    assert_eq!(log.page(0, 3).begun_unix_ms, START / NANOS_PER_MS);
    // A number of another process is higher than all of this one: the answer names the newest.
    assert_eq!(log.page(99, 3).next, 7);
}

#[test]
fn details_are_cut_between_two_characters() {
    let mut log = log();
    log.note(at(0), Fact::Halted { cause: &"\u{e9}".repeat(MAX_DETAIL_BYTES) });
    let detail = &log.kept[0].detail;
    assert!(detail.len() == MAX_DETAIL_BYTES && detail.chars().all(|one| one == '\u{e9}'), "{detail}");
    assert_eq!(log.kept[0].kind.severity(), Severity::Fault);
}
