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
    EndRead(usize, Vec<Reading>),
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

/// What one user's read answered; a stale one is no witness of anything.
#[derive(Clone, Copy, Debug)]
struct Read {
    user: u32,
    value: u64,
    exact: bool,
    holds: bool,
}

/// The definitions of the promise, word for word; quadratic.
fn twin(events: &[Event]) -> Tally {
    let mut tally = Tally::default();
    let mut calls: Vec<(Vec<u32>, (usize, usize))> = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    let mut reads: Vec<Read> = Vec::new();
    let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
    for event in events {
        match event {
            Event::Start(users) => calls.push((users.clone(), (items.len(), reads.len()))),
            Event::End(call, outcomes) => {
                let (users, answered) = &calls[*call];
                let known = &reads[..answered.1];
                for (&user, outcome) in users.iter().zip(outcomes) {
                    match *outcome {
                        Outcome::Refused => {}
                        Outcome::Maybe { lost: attempts } => *lost.entry(user).or_default() += u64::from(attempts),
                        Outcome::Given { value, prev, count, lost: attempts } => {
                            *lost.entry(user).or_default() += u64::from(attempts);
                            tally.allocations += u64::from(count);
                            if value < u64::from(count) || value > MAX_SEQ {
                                tally.malformed += 1;
                                continue;
                            }
                            let (first, last) = (value - u64::from(count) + 1, value);
                            let item = judge(
                                Item { user, first, last, prev, holds: true },
                                &items,
                                floor(user, &items[..answered.0], known),
                                &mut tally,
                            );
                            items.push(item);
                        }
                    }
                }
            }
            Event::EndRead(call, readings) => {
                let (users, answered) = &calls[*call];
                for (&user, reading) in users.iter().zip(readings) {
                    let (value, exact) = match *reading {
                        Reading::Exact(value) => (value, true),
                        Reading::UpperBound(value) => (value, false),
                        Reading::Failed => continue,
                    };
                    let holds = floor(user, &items[..answered.0], &reads[..answered.1]).is_none_or(|it| value >= it);
                    tally.stale_reads += u64::from(!holds);
                    reads.push(Read { user, value, exact, holds });
                }
            }
        }
    }
    tally.foreign_prevs = foreign(&items, &reads, &lost);
    tally
}

/// The largest number answered or read before.
fn floor(user: u32, items: &[Item], reads: &[Read]) -> Option<u64> {
    let answered = items.iter().filter(|item| item.user == user).map(|item| item.last);
    answered.chain(reads.iter().filter(|read| read.user == user).map(|read| read.value)).max()
}

fn judge(mut item: Item, items: &[Item], floor: Option<u64>, tally: &mut Tally) -> Item {
    let Item { user, first, last, prev, .. } = item;
    let mine = || items.iter().filter(move |other| other.user == user);
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

fn foreign(items: &[Item], reads: &[Read], lost: &BTreeMap<u32, u64>) -> u64 {
    (0..USERS)
        .map(|user| {
            let mine = || items.iter().filter(move |item| item.user == user);
            let given = |number: u64| mine().any(|item| (item.first..=item.last).contains(&number));
            let lowest = mine().map(|item| item.first).min().unwrap_or(u64::MAX);
            let read = reads.iter().filter(|read| read.user == user && read.exact && read.holds).map(|read| read.value);
            let named = mine().filter(|item| item.holds).map(|item| item.prev).chain(read);
            let mut orphans: Vec<u64> = named.filter(|number| *number > lowest && !given(*number)).collect();
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
            Event::EndRead(call, readings) => {
                checker.end_read(calls[*call].take().unwrap(), now, readings.iter().copied());
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
    StartRead { user: u32 },
    Serve { call: usize },
    End { call: usize, answer: u8 },
    Crash { user: u32, jump: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (prop::collection::vec(0..USERS, 1..4), 1..4u32).prop_map(|(users, count)| Step::Start { users, count }),
        1 => (0..USERS).prop_map(|user| Step::StartRead { user }),
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
            Step::StartRead { user } => {
                events.push(Event::Start(vec![*user]));
                calls.push(Call { users: vec![*user], count: 0, served: Vec::new(), ended: false });
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
                    // A read moves nothing, and does not make known what is not.
                    if call.count > 0 {
                        known[user] = last[user];
                    }
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
                    Some(&(value, prev)) => Outcome::Given { value, prev, count: call.count, lost: 0 },
                    None if answer % 2 == 0 => Outcome::Maybe { lost: 1 },
                    None => Outcome::Refused,
                };
                if call.count == 0 {
                    let reading = match call.served.first() {
                        Some(&(last, known)) if last == known => Reading::Exact(last),
                        Some(&(last, _)) => Reading::UpperBound(last),
                        None => Reading::Failed,
                    };
                    events.push(Event::EndRead(index, vec![reading]));
                    continue;
                }
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
            value, prev, count, lost
        }),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::Maybe { lost: 1 }),
    ];
    let reading = prop_oneof![(0..14u64).prop_map(Reading::Exact), (0..14u64).prop_map(Reading::UpperBound)];
    let users = prop::collection::vec(0..USERS, 1..4);
    let (outcomes, readings) = (prop::collection::vec(outcome, 3), prop::collection::vec(reading, 3));
    let ends = prop_oneof![4 => outcomes.prop_map(Ends::Call), 1 => readings.prop_map(Ends::Read)];
    prop::collection::vec((users, ends, any::<prop::sample::Index>()), 1..16).prop_map(|calls| {
        let mut events = Vec::new();
        let mut open = Vec::new();
        for (index, (users, mut ends, choice)) in calls.into_iter().enumerate() {
            ends.truncate(users.len());
            events.push(Event::Start(users));
            open.push((index, ends));
            // Some calls end at once, some stay open across later ones.
            while !open.is_empty() && choice.index(3) < open.len() {
                let (call, ends) = open.swap_remove(choice.index(open.len()));
                events.push(ends.of(call));
            }
        }
        events.extend(open.into_iter().map(|(call, ends)| ends.of(call)));
        events
    })
}

/// How a made-up call or read ends.
#[derive(Clone, Debug)]
enum Ends {
    Call(Vec<Outcome>),
    Read(Vec<Reading>),
}

impl Ends {
    fn truncate(&mut self, items: usize) {
        match self {
            Ends::Call(outcomes) => outcomes.truncate(items),
            Ends::Read(readings) => readings.truncate(items),
        }
    }

    fn of(self, call: usize) -> Event {
        match self {
            Ends::Call(outcomes) => Event::End(call, outcomes),
            Ends::Read(readings) => Event::EndRead(call, readings),
        }
    }
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
                        places.push(Place { event, item, user, value: *value, floor });
                    }
                }
            }
            Event::EndRead(..) => {}
        }
    }
    places
}

/// Makes an item answer another number.
fn plant(events: &mut [Event], place: Place, value: u64) {
    match &mut events[place.event] {
        Event::End(_, outcomes) => outcomes[place.item] = one(value, 0)[0],
        Event::Start(_) | Event::EndRead(..) => unreachable!("a place is an answer"),
    }
}

fn one(value: u64, prev: u64) -> Vec<Outcome> {
    vec![Outcome::Given { value, prev, count: 1, lost: 0 }]
}

/// The history `script` of one user: `(` starts a call, a number ends the oldest open one with that value,
/// `=` and `~` end it as a read, exact or as an upper bound.
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
            _ if word.starts_with(['=', '~']) => {
                let value = word[1..].parse().unwrap();
                let reading = if word.starts_with('=') { Reading::Exact(value) } else { Reading::UpperBound(value) };
                events.push(Event::EndRead(ended, vec![reading]));
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
fn a_read_is_never_below_what_was_answered_or_read_before() {
    assert_eq!(check("( 0<5 ( =5 ( ~7 ( ~7").violations(), 0);
    assert_eq!(check("( 0<5 ( =4").stale_reads, 1);
    assert_eq!(check("( 0<5 ( ~9 ( =5").stale_reads, 1);
    // It may miss a number that overlaps it.
    assert_eq!(check("( 0<5 ( ( 5<6 =5").violations(), 0);
}

#[test]
fn what_was_read_is_below_the_next_number() {
    assert_eq!(check("( 0<5 ( ~9 ( 5<9").decreases, 1);
    assert_eq!(check("( 0<5 ( ~9 ( 0<10").violations(), 0);
    // The bound was nobody's number, so nothing follows it.
    assert_eq!(check("( 0<5 ( ~9 ( 9<10").foreign_prevs, 1);
    // The next numbers of a user, but a read between says that they were gone.
    assert_eq!(check("( 0<1 ( =2 ( 1<2").decreases, 1);
}

#[test]
fn an_exact_read_is_somebodys_number() {
    assert_eq!(check("( 0<5 ( =6").foreign_prevs, 1);
    assert_eq!(check("( 0<5 ( ? ( =6").foreign_prevs, 0);
    // Its answer overlaps the read.
    let tally = check("( 0<5 ( ( =6 5<6");
    assert_eq!((tally.foreign_prevs, tally.violations()), (0, 0));
    // What came before the history is nobody's fault.
    assert_eq!(check("( =9 ( 9<10").foreign_prevs, 0);
}

#[test]
fn a_seamless_history_has_no_gap_and_nobody_without_a_number() {
    let mut checker = Checker::new(2);
    checker.seamless();
    let mut call = |user, outcome| {
        let id = checker.start(Duration::ZERO, [User(user)]);
        checker.end(id, Duration::ZERO, [outcome]);
        let tally = checker.tally();
        (tally.gaps, tally.unserved, tally.violations())
    };
    assert_eq!(call(0, one(1, 0)[0]), (0, 0, 0));
    assert_eq!(call(0, one(2, 1)[0]), (0, 0, 0));
    // An owner that does not know the one before, and one that leaves numbers out.
    assert_eq!(call(0, one(3, 0)[0]), (1, 0, 1));
    assert_eq!(call(0, one(5, 3)[0]), (2, 0, 2));
    assert_eq!(call(1, one(7, 0)[0]), (3, 0, 3));
    assert_eq!(call(1, Outcome::Refused), (3, 1, 4));
    assert_eq!(call(1, Outcome::Maybe { lost: 1 }), (3, 2, 5));
    let read = checker.start(Duration::ZERO, [User(1)]);
    checker.end_read(read, Duration::ZERO, [Reading::Failed]);
    assert_eq!(checker.tally().unserved, 3);
}

#[test]
fn a_joined_floor_counts_as_answered() {
    let mut checker = Checker::new(1);
    checker.join_floor(User(0), 10);
    let mut call = |value, prev| {
        let id = checker.start(Duration::ZERO, [User(0)]);
        checker.end(id, Duration::ZERO, one(value, prev));
        checker.tally()
    };
    assert_eq!(call(11, 10).violations(), 0);
    assert_eq!(call(10, 0).decreases, 1);
    assert_eq!(checker.floor(User(0)), 11);
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
