//! The checker against a twin that keeps everything and compares everything with everything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const USERS: u32 = 3;

/// One event of a history; a call is known by its index among the starts.
#[derive(Clone, Debug)]
enum Event {
    Start(Vec<u32>),
    End(usize, Vec<Outcome>),
}

/// An answered item as the twin remembers it.
#[derive(Clone, Copy, Debug)]
struct Item {
    user: u32,
    first: u64,
    last: u64,
    prev: u64,
    holds: bool,
}

/// The definitions of the promise, word for word; quadratic.
fn twin(events: &[Event]) -> Tally {
    let mut tally = Tally::default();
    let mut calls: Vec<(Vec<u32>, usize)> = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events {
        match event {
            Event::Start(users) => calls.push((users.clone(), items.len())),
            Event::End(call, outcomes) => {
                let (users, answered) = &calls[*call];
                for (&user, outcome) in users.iter().zip(outcomes) {
                    match *outcome {
                        Outcome::Refused => {}
                        Outcome::Maybe { lost: attempts } => *lost.entry(user).or_default() += u64::from(attempts),
                        Outcome::Given { value, prev, count, lost: attempts } => {
                            *lost.entry(user).or_default() += u64::from(attempts);
                            tally.allocations += u64::from(count);
                            if value.0 < u64::from(count) || value > Seq::MAX {
                                tally.malformed += 1;
                                continue;
                            }
                            let (first, last) = (value.0 - u64::from(count) + 1, value.0);
                            let item = judge(
                                Item { user, first, last, prev: prev.0, holds: true },
                                &items,
                                *answered,
                                &mut tally,
                            );
                            items.push(item);
                        }
                    }
                }
            }
        }
    }
    tally.foreign_prevs = foreign(&items, &lost);
    tally
}

fn judge(mut item: Item, items: &[Item], answered_before: usize, tally: &mut Tally) -> Item {
    let Item { user, first, last, prev, .. } = item;
    let mine = || items.iter().filter(move |other| other.user == user);
    let floor = items[..answered_before].iter().filter(|other| other.user == user).map(|other| other.last).max();
    let decrease = floor.is_some_and(|floor| first <= floor);
    let duplicate = mine().any(|other| first <= other.last && other.first <= last);
    let closed = |other: &Item| other.holds && other.prev != 0;
    let in_gap = |from: u64, to: u64, lower: u64, upper: u64| from < upper && to > lower;
    let mut fits = !mine().any(|other| closed(other) && in_gap(first, last, other.prev, other.first));
    if prev != 0 {
        fits &= prev < first && floor.is_none_or(|floor| prev >= floor);
        fits &= !mine().any(|other| in_gap(other.first, other.last, prev, first));
        fits &= !mine().any(|other| closed(other) && in_gap(other.prev, other.prev, prev, first));
        fits &= !mine().any(|other| closed(other) && in_gap(prev, prev, other.prev, other.first));
    }
    tally.decreases += u64::from(decrease);
    tally.duplicates += u64::from(duplicate);
    tally.chain_breaks += u64::from(!fits && !decrease && !duplicate);
    item.holds = fits && !decrease && !duplicate;
    item
}

fn foreign(items: &[Item], lost: &BTreeMap<u32, u64>) -> u64 {
    (0..USERS)
        .map(|user| {
            let mine = || items.iter().filter(move |item| item.user == user);
            let given = |number: u64| mine().any(|item| (item.first..=item.last).contains(&number));
            let lowest = mine().map(|item| item.first).min().unwrap_or(0);
            let mut orphans: Vec<u64> = mine()
                .filter(|item| item.holds && item.prev > lowest && !given(item.prev))
                .map(|item| item.prev)
                .collect();
            orphans.sort_unstable();
            orphans.dedup();
            (orphans.len() as u64).saturating_sub(lost.get(&user).copied().unwrap_or(0))
        })
        .sum()
}

fn run(events: &[Event]) -> Tally {
    let mut checker = Checker::new(USERS as usize);
    let mut calls = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let now = Duration::from_micros(at as u64);
        match event {
            Event::Start(users) => calls.push(Some(checker.start(now, users.iter().copied().map(User)))),
            Event::End(call, outcomes) => {
                checker.end(calls[*call].take().unwrap(), now, outcomes.iter().copied());
            }
        }
    }
    assert_eq!(checker.details().len() as u64, checker.tally().violations().min(MAX_DETAILS as u64));
    checker.tally()
}

/// A step of a made-up service: the counters move at a call's serving, somewhere between its start and its end.
#[derive(Clone, Debug)]
enum Step {
    Start { users: Vec<u32>, count: u32 },
    Serve { call: usize },
    End { call: usize, answer: u8 },
    Crash { user: u32, jump: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (prop::collection::vec(0..USERS, 1..4), 1..4u32).prop_map(|(users, count)| Step::Start { users, count }),
        4 => any::<prop::sample::Index>().prop_map(|call| Step::Serve { call: call.index(64) }),
        4 => (any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(call, answer)| Step::End { call: call.index(64), answer }),
        1 => (0..USERS, 0..5u64).prop_map(|(user, jump)| Step::Crash { user, jump }),
    ];
    prop::collection::vec(step, 1..120)
}

/// The history of a service that keeps its promises under any overlap, loss and crash.
fn lawful(steps: &[Step]) -> Vec<Event> {
    struct Call {
        users: Vec<u32>,
        count: u32,
        served: Vec<(u64, u64)>,
        ended: bool,
    }
    let mut last = [0u64; USERS as usize];
    let mut known = [0u64; USERS as usize];
    let mut calls: Vec<Call> = Vec::new();
    let mut events = Vec::new();
    for step in steps {
        match step {
            Step::Start { users, count } => {
                events.push(Event::Start(users.clone()));
                calls.push(Call { users: users.clone(), count: *count, served: Vec::new(), ended: false });
            }
            Step::Serve { call } => {
                let Some(call) = pick(&mut calls, *call) else { continue };
                if call.ended || !call.served.is_empty() {
                    continue;
                }
                for &user in &call.users {
                    let user = user as usize;
                    last[user] += u64::from(call.count);
                    call.served.push((last[user], known[user]));
                    known[user] = last[user];
                }
            }
            Step::End { call, answer } => {
                let open = calls.len();
                let index = if open == 0 { continue } else { call % open };
                let call = &mut calls[index];
                if call.ended {
                    continue;
                }
                call.ended = true;
                let outcome = |item: usize| match call.served.get(item) {
                    Some(_) if answer % 8 == 0 => Outcome::Maybe { lost: 1 },
                    Some(&(value, prev)) => {
                        Outcome::Given { value: Seq(value), prev: Seq(prev), count: call.count, lost: 0 }
                    }
                    None if answer % 2 == 0 => Outcome::Maybe { lost: 1 },
                    None => Outcome::Refused,
                };
                events.push(Event::End(index, (0..call.users.len()).map(outcome).collect()));
            }
            // A new owner starts above everything and does not know the last number.
            Step::Crash { user, jump } => {
                last[*user as usize] += jump;
                known[*user as usize] = 0;
            }
        }
    }
    events
}

fn pick<T>(calls: &mut [T], at: usize) -> Option<&mut T> {
    let len = calls.len();
    if len == 0 { None } else { calls.get_mut(at % len) }
}

/// Small numbers, so that every kind of collision happens by itself.
fn wild() -> impl Strategy<Value = Vec<Event>> {
    let outcome = prop_oneof![
        8 => (0..14u64, 0..14u64, 1..4u32, 0..2u32).prop_map(|(value, prev, count, lost)| Outcome::Given {
            value: Seq(value), prev: Seq(prev), count, lost
        }),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::Maybe { lost: 1 }),
    ];
    let item = (0..USERS, outcome);
    let call = (prop::collection::vec(item, 1..4), any::<prop::sample::Index>());
    prop::collection::vec(call, 1..16).prop_map(|calls| {
        let mut events = Vec::new();
        let mut open: Vec<(usize, Vec<Outcome>)> = Vec::new();
        for (index, (items, choice)) in calls.into_iter().enumerate() {
            let (users, outcomes) = items.into_iter().unzip();
            events.push(Event::Start(users));
            open.push((index, outcomes));
            // Some calls end at once, some stay open across later ones.
            while !open.is_empty() && choice.index(3) < open.len() {
                let (call, outcomes) = open.swap_remove(choice.index(open.len()));
                events.push(Event::End(call, outcomes));
            }
        }
        events.extend(open.into_iter().map(|(call, outcomes)| Event::End(call, outcomes)));
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_history_is_judged_as_the_twin_does(events in wild()) {
        prop_assert_eq!(run(&events), twin(&events));
    }

    #[test]
    fn a_lawful_service_passes(steps in steps()) {
        let events = lawful(&steps);
        let tally = run(&events);
        prop_assert_eq!(tally.violations(), 0);
        prop_assert_eq!(tally, twin(&events));
    }

    #[test]
    fn a_planted_duplicate_is_caught(steps in steps(), at in any::<prop::sample::Index>(), again in any::<prop::sample::Index>()) {
        let mut events = lawful(&steps);
        let places = places(&events);
        prop_assume!(!places.is_empty());
        let first = places[at.index(places.len())];
        let others: Vec<_> = places.into_iter().filter(|place| place.user == first.user && *place != first).collect();
        if !others.is_empty() {
            plant(&mut events, others[again.index(others.len())], first.value);
            let tally = run(&events);
            prop_assert!(tally.duplicates >= 1, "{:?}", tally);
            prop_assert_eq!(tally, twin(&events));
        }
    }

    #[test]
    fn a_planted_decrease_is_caught(steps in steps(), at in any::<prop::sample::Index>(), below in any::<prop::sample::Index>()) {
        let mut events = lawful(&steps);
        let places: Vec<_> = places(&events).into_iter().filter(|place| place.floor > 0).collect();
        if !places.is_empty() {
            let place = places[at.index(places.len())];
            plant(&mut events, place, 1 + below.index(place.floor as usize) as u64);
            let tally = run(&events);
            prop_assert!(tally.decreases >= 1, "{:?}", tally);
            prop_assert_eq!(tally, twin(&events));
        }
    }
}

/// An answered item of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    event: usize,
    item: usize,
    user: u32,
    value: u64,
    /// The largest value answered before its call started.
    floor: u64,
}

fn places(events: &[Event]) -> Vec<Place> {
    let mut starts = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    for (event, what) in events.iter().enumerate() {
        match what {
            Event::Start(users) => starts.push((users.clone(), places.len())),
            Event::End(call, outcomes) => {
                let (users, before) = &starts[*call];
                for (item, outcome) in outcomes.iter().enumerate() {
                    if let Outcome::Given { value, .. } = outcome {
                        let user = users[item];
                        let earlier = places[..*before].iter().filter(|place| place.user == user);
                        let floor = earlier.map(|place| place.value).max().unwrap_or(0);
                        places.push(Place { event, item, user, value: value.0, floor });
                    }
                }
            }
        }
    }
    places
}

/// Makes an item answer another number.
fn plant(events: &mut [Event], place: Place, value: u64) {
    match &mut events[place.event] {
        Event::End(_, outcomes) => outcomes[place.item] = one(value, 0)[0],
        Event::Start(_) => unreachable!("a place is an answer"),
    }
}

fn one(value: u64, prev: u64) -> Vec<Outcome> {
    vec![Outcome::Given { value: Seq(value), prev: Seq(prev), count: 1, lost: 0 }]
}

/// The history `script` of one user: `(` starts a call, a number ends the oldest open one with that value.
fn check(script: &str) -> Tally {
    let mut events = Vec::new();
    let (mut started, mut ended) = (0, 0);
    for word in script.split_whitespace() {
        match word.split_once('<') {
            _ if word == "(" => {
                events.push(Event::Start(vec![0]));
                started += 1;
            }
            Some((prev, value)) => {
                events.push(Event::End(ended, one(value.parse().unwrap(), prev.parse().unwrap())));
                ended += 1;
            }
            None if word == "?" => {
                events.push(Event::End(ended, vec![Outcome::Maybe { lost: 1 }]));
                ended += 1;
            }
            None => panic!("{word}"),
        }
    }
    assert_eq!(started, ended);
    assert_eq!(run(&events), twin(&events), "{script}");
    run(&events)
}

#[test]
fn overlapping_calls_may_be_answered_in_either_order() {
    assert_eq!(check("( ( 1<2 0<1 ( 2<3").violations(), 0);
}

#[test]
fn a_decrease_is_one_only_without_overlap() {
    assert_eq!(check("( 0<5 ( ( 0<7 0<6").violations(), 0);
    let tally = check("( 0<7 ( 0<6");
    assert_eq!((tally.decreases, tally.duplicates), (1, 0));
}

#[test]
fn a_duplicate_is_caught_with_and_without_overlap() {
    let tally = check("( ( 0<5 0<5");
    assert_eq!((tally.decreases, tally.duplicates), (0, 1));
    let tally = check("( 0<5 ( 0<6 ( 0<5");
    assert_eq!((tally.decreases, tally.duplicates), (1, 1));
}

#[test]
fn a_prev_below_the_floor_breaks_the_chain() {
    assert_eq!(check("( 0<1 ( 1<2 ( 1<3").chain_breaks, 1);
}

#[test]
fn a_number_inside_a_gap_breaks_the_chain() {
    assert_eq!(check("( 0<1 ( ( 1<4 0<3").chain_breaks, 1);
}

#[test]
fn a_lost_call_explains_one_foreign_prev() {
    assert_eq!(check("( 0<1 ( ? ( 2<3").foreign_prevs, 0);
    assert_eq!(check("( 0<1 ( 2<3").foreign_prevs, 1);
    assert_eq!(check("( 0<1 ( ? ( 2<3 ( 4<5").foreign_prevs, 1);
    // What came before the history is nobody's fault.
    assert_eq!(check("( 9<10").foreign_prevs, 0);
}

#[test]
fn numbers_outside_of_the_range_are_faults_and_move_nothing() {
    let tally =
        run(&[Event::Start(vec![0]), Event::End(0, one(0, 0)), Event::Start(vec![0]), Event::End(1, one(u64::MAX, 7))]);
    assert_eq!((tally.malformed, tally.violations()), (2, 2));
}

#[test]
fn a_joined_floor_counts_as_answered() {
    let mut checker = Checker::new(1);
    checker.join_floor(User(0), Seq(10));
    let mut call = |value, prev| {
        let id = checker.start(Duration::ZERO, [User(0)]);
        checker.end(id, Duration::ZERO, one(value, prev));
        checker.tally()
    };
    assert_eq!(call(11, 10).violations(), 0);
    assert_eq!(call(10, 0).decreases, 1);
    assert_eq!(checker.floor(User(0)), Seq(11));
}

/// Gives one user the numbers 3, 6, 9 ..., each with a hole before it.
fn holes(checker: &mut Checker, thirds: std::ops::Range<u64>) {
    for third in thirds {
        let id = checker.start(Duration::ZERO, [User(0)]);
        checker.end(id, Duration::ZERO, one(third * 3, 0));
    }
}

#[test]
fn holes_are_folded_away_and_faults_still_found() {
    let mut checker = Checker::new(1);
    holes(&mut checker, 1..20_000);
    assert!(checker.cold[0].older.len() <= MAX_RUNS, "{}", checker.cold[0].older.len());
    let id = checker.start(Duration::ZERO, [User(0)]);
    checker.end(id, Duration::ZERO, one(3, 0));
    assert_eq!(checker.tally().decreases, 1);
}

#[test]
fn what_a_call_in_flight_may_still_meet_is_kept() {
    let mut checker = Checker::new(1);
    let [unseen, seen] = [(); 2].map(|()| checker.start(Duration::ZERO, [User(0)]));
    holes(&mut checker, 1..5_000);
    let late = checker.start(Duration::ZERO, [User(0)]);
    holes(&mut checker, 5_000..10_000);
    checker.end(unseen, Duration::ZERO, one(2, 0));
    assert_eq!(checker.tally().violations(), 0);
    checker.end(seen, Duration::ZERO, one(3, 0));
    assert_eq!((checker.tally().duplicates, checker.tally().decreases), (1, 0));
    checker.end(late, Duration::ZERO, vec![Outcome::Refused]);
    assert!(checker.cold[0].older.len() > 9_000);
    holes(&mut checker, 10_000..30_000);
    assert!(checker.cold[0].older.len() <= MAX_RUNS, "{}", checker.cold[0].older.len());
}

#[test]
fn runs_that_touch_are_one() {
    let mut set = RunSet::default();
    assert!(!set.insert(Run { first: 5, last: 6 }) && !set.insert(Run { first: 1, last: 2 }));
    assert!(!set.insert(Run { first: 3, last: 4 }));
    assert_eq!((set.len(), set.lowest()), (1, Some(1)));
    assert!(set.insert(Run { first: 6, last: 7 }) && set.contains(7) && !set.contains(8));
}
