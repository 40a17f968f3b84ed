use super::*;

fn ownership(epoch: u64, by: Beginning, from: &str, owner: &str, ceiling: u64, at_ms: u64) -> Ownership {
    Ownership { set: "im-a".into(), section: 3, epoch, by, from: from.into(), owner: owner.into(), ceiling, at_ms }
}

fn event(index: u64, by: Beginning, from: &str, to: &str, most: Option<u64>, times_ms: (u64, u64)) -> OwnershipEvent {
    OwnershipEvent {
        set: "im-a".into(),
        index,
        by,
        from: from.into(),
        to: [(to.to_owned(), 1)].into(),
        others: 0,
        sections: 1,
        range: (3, 3),
        most_skipped: most,
        times_ms,
    }
}

fn given(epoch: u64, last: u64, prev: u64) -> Step {
    Step::Given { epoch, last, prev }
}

/// Returns the run of one section and one uid, which takes five numbers with each call. a1 is lost after 10 numbers,
/// then a2 hands the section over to a3, and a3 is lost while an attempt has no response.
fn history() -> History {
    let ownerships = vec![
        ownership(1, Beginning::FirstOwner, "", "a1", 0, 1_000),
        ownership(2, Beginning::Takeover, "a1", "a2", 100, 7_000),
        ownership(3, Beginning::Handover, "a2", "a3", 200, 9_000),
        ownership(4, Beginning::Takeover, "a3", "a2", 300, 15_000),
    ];
    let events = vec![
        event(1, Beginning::FirstOwner, "", "a1", Some(0), (1_000, 1_000)),
        event(4, Beginning::Takeover, "a1", "a2", Some(100), (7_000, 8_000)),
        event(5, Beginning::Handover, "a2", "a3", Some(0), (8_000, 9_000)),
        event(9, Beginning::Takeover, "a3", "a2", Some(200), (15_000, 15_000)),
    ];
    let steps = vec![
        given(1, 5, 0),
        given(1, 10, 5),
        given(2, 105, 0),
        Step::Lost,
        given(2, 115, 110),
        given(3, 120, 115),
        Step::Advanced { epoch: 3, to: 150 },
        given(3, 155, 0),
        Step::Lost,
        given(4, 305, 0),
        Step::Read { epoch: 4, value: 305, exact: true },
    ];
    let uids = vec![UidCalls { uid: 42, section: 3, count: 5, steps }];
    let ceilings = vec![Ceiling { set: "im-a".into(), section: 3, ceiling: 400, raised: 400, responded: 380 }];
    History { uids, ownerships, events, ceilings }
}

/// Returns the discrepancies of the run after a change.
fn after(change: impl FnOnce(&mut History)) -> Vec<Discrepancy> {
    let mut history = history();
    change(&mut history);
    settle(&history).expect_err("the change is found")
}

#[test]
fn every_number_is_given_or_lost_or_skipped_for_one_cause() {
    let account = settle(&history()).unwrap();
    assert_eq!((account.uids, account.given, account.lost, account.last), (1, 35, 10, 305));
    let jump = |numbers, lost, ownership| Jump { uid: 42, numbers, lost, ownership };
    assert_eq!(account.jumps, [jump(90, 0, Some(1)), jump(30, 0, None), jump(140, 5, Some(3))]);
    assert_eq!(account.last, account.given + account.lost + account.jumped());
    assert_eq!((account.events, account.raised, account.responded), (vec![0, 1, 2, 3], 400, 380));
}

#[test]
fn an_error_of_one_number_is_found_wherever_it_is() {
    let steps = history().uids[0].steps.len();
    let off_by_one = |place: usize, down: bool| {
        let mut changed = history();
        let by = |number: &mut u64| *number = if down { *number - 1 } else { *number + 1 };
        match &mut changed.uids[0].steps[place] {
            Step::Given { last, .. } => by(last),
            Step::Advanced { to, .. } => by(to),
            Step::Read { value, .. } => by(value),
            Step::Lost => return None,
        }
        Some(settle(&changed))
    };
    for (place, down) in (0..steps).flat_map(|place| [(place, false), (place, true)]) {
        let Some(settled) = off_by_one(place, down) else { continue };
        // The number of an advance is the caller's own, and no number follows from it.
        let is_advance = matches!(history().uids[0].steps[place], Step::Advanced { .. });
        assert!(settled.is_err() || is_advance, "step {place}, down {down}: {settled:?}");
    }
    let hole = Discrepancy::Hole { uid: 42, epoch: 1, after: 5, before: 6, attempts: 0 };
    assert_eq!(after(|run| run.uids[0].steps[1] = given(1, 11, 6)), [hole]);
    let repeated = Discrepancy::Repeated { uid: 42, number: 9, last: 5 };
    assert_eq!(after(|run| run.uids[0].steps[1] = given(1, 9, 4)), [repeated]);
    let ceiling = Discrepancy::Ceiling { section: 3, ceiling: 400, raised: 399 };
    assert_eq!(after(|run| run.ceilings[0].raised = 399), [ceiling]);
    let skipped = Discrepancy::AboveBound { uid: 42, skipped: 90, event: ("im-a".into(), 4), most: 89 };
    assert_eq!(after(|run| run.events[1].most_skipped = Some(89)), [skipped]);
    let more = after(|run| run.ceilings[0].responded = 401);
    assert!(matches!(more[..], [Discrepancy::Responded(_)]), "{more:?}");
}

#[test]
fn a_missing_event_and_a_second_one_are_found() {
    let missing = after(|run| drop(run.events.remove(1)));
    assert_eq!(missing, [Discrepancy::NoEvent(history().ownerships[1].clone())]);
    let twice = after(|run| run.events.push(OwnershipEvent { index: 12, ..run.events[1].clone() }));
    assert_eq!(twice, [Discrepancy::SeveralEvents(history().ownerships[1].clone(), vec![4, 12])]);
    let same = after(|run| run.events.push(run.events[1].clone()));
    assert!(same.contains(&Discrepancy::SameIndex("im-a".into(), 4)), "{same:?}");
    let of_another = after(|run| run.events.push(event(12, Beginning::Takeover, "a9", "a2", Some(7), (7_000, 8_000))));
    assert!(matches!(of_another[..], [Discrepancy::EventCounts { .. }]), "{of_another:?}");
    let more = after(|run| run.events[1].sections = 2);
    assert!(matches!(more[..], [Discrepancy::EventCounts { .. }]), "{more:?}");
    let late = after(|run| run.events[1].times_ms = (8_000, 8_000));
    assert!(late.contains(&Discrepancy::NoEvent(history().ownerships[1].clone())), "{late:?}");
}

#[test]
fn a_jump_without_an_ownership_is_a_hole() {
    // The takeover of a1 is forgotten, with its event.
    let found = after(|run| {
        run.ownerships.remove(1);
        run.events.remove(1);
    });
    assert_eq!(found, [Discrepancy::Epoch { section: 3, epoch: 2 }]);
    // A handover may not skip numbers.
    let found = after(|run| run.uids[0].steps[5] = given(3, 205, 0));
    assert!(matches!(found[..], [Discrepancy::Hole { before: 200, after: 115, .. }]), "{found:?}");
}

#[test]
fn an_attempt_explains_one_hole_of_its_count() {
    let twice = after(|run| run.uids[0].steps[5] = given(3, 125, 120));
    assert!(matches!(twice[..], [Discrepancy::Hole { attempts: 0, .. }]), "{twice:?}");
    let part = after(|run| run.uids[0].steps[4] = given(2, 114, 109));
    assert!(matches!(part[..], [Discrepancy::Hole { attempts: 1, .. }]), "{part:?}");
    // An attempt may take its numbers late: here in the ownership that follows.
    let mut late = history();
    late.uids[0].steps.splice(9.., [given(4, 310, 305), Step::Read { epoch: 4, value: 310, exact: true }]);
    let account = settle(&late).unwrap();
    assert_eq!((account.lost, account.jumped()), (10, 90 + 30 + 145));
}

#[test]
fn prev_and_the_last_read_are_compared() {
    let prev = after(|run| run.uids[0].steps[2] = given(2, 105, 100));
    assert_eq!(prev, [Discrepancy::Prev { uid: 42, stated: 100, expected: 0 }]);
    let prev = after(|run| run.uids[0].steps[1] = given(1, 10, 0));
    assert_eq!(prev, [Discrepancy::Prev { uid: 42, stated: 0, expected: 5 }]);
    assert_eq!(after(|run| run.uids[0].steps.truncate(10)), [Discrepancy::NotRead(42)]);
    let bound = after(|run| run.uids[0].steps[10] = Step::Read { epoch: 4, value: 310, exact: false });
    assert_eq!(bound, [Discrepancy::Repeated { uid: 42, number: 310, last: 305 }]);
    // A uid that took no number after a takeover is read as the ceiling at which the ownership began.
    let mut idle = history();
    idle.uids[0].steps.splice(9.., [Step::Read { epoch: 4, value: 300, exact: false }]);
    assert_eq!(settle(&idle).unwrap().last, 300);
}

#[test]
fn raises_of_two_sets_add_up_where_a_section_arrives() {
    let mut run = history();
    run.ownerships.push(Ownership { set: "im-b".into(), ..ownership(5, Beginning::Arrival, "", "b1", 400, 20_000) });
    run.events.push(OwnershipEvent {
        set: "im-b".into(),
        ..event(2, Beginning::Arrival, "", "b1", Some(0), (20_000, 20_000))
    });
    run.ceilings.push(Ceiling { set: "im-b".into(), section: 3, ceiling: 450, raised: 50, responded: 50 });
    run.uids[0].steps.push(Step::Read { epoch: 5, value: 305, exact: true });
    assert_eq!(settle(&run).unwrap().raised, 450);
    run.ceilings[0].raised -= 1;
    let found = settle(&run).unwrap_err();
    assert!(
        matches!(found[..], [Discrepancy::Ceiling { raised: 449, .. }, Discrepancy::Arrival { raised: 399, .. }]),
        "{found:?}"
    );
}
