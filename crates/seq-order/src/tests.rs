//! Tests that compare the checker with a quadratic twin, which keeps the whole history and compares every pair of
//! items.

use proptest::prelude::*;

use super::*;
use crate::runs::RunSet;

mod twin;

use twin::twin;

const USERS: u32 = 3;

/// One event of a history; a call is identified by its index among the starts.
#[derive(Clone, Debug)]
enum Event {
    Start(Vec<u32>),
    StartRead(Vec<u32>),
    StartAdvance(u32, u64),
    End(usize, Vec<Outcome>),
    EndRead(usize, Vec<Reading>),
    EndAdvance(usize, Advancing),
}

fn run(events: &[Event]) -> Tally {
    run_as(events, false)
}

fn run_as(events: &[Event], complete: bool) -> Tally {
    let mut checker = Checker::new(USERS as usize);
    if complete {
        checker.complete();
    }
    let mut calls = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let now = Duration::from_micros(at as u64);
        match event {
            Event::Start(users) => calls.push(Some(checker.start(now, users.iter().copied().map(User)))),
            Event::StartRead(users) => calls.push(Some(checker.start_read(now, users.iter().copied().map(User)))),
            Event::StartAdvance(user, to) => calls.push(Some(checker.start_advance(now, User(*user), *to))),
            Event::End(call, outcomes) => {
                checker.end(calls[*call].take().unwrap(), now, outcomes.iter().copied());
            }
            Event::EndRead(call, readings) => {
                checker.end_read(calls[*call].take().unwrap(), now, readings.iter().copied());
            }
            Event::EndAdvance(call, ended) => checker.end_advance(calls[*call].take().unwrap(), now, *ended),
        }
    }
    let tally = checker.tally();
    assert_eq!(checker.details().len() as u64, (tally.violations() - tally.phantoms).min(MAX_DETAILS as u64));
    assert_eq!(checker.phantoms().len() as u64, tally.phantoms + tally.foreign_prevs);
    tally
}

/// A step of a simulated service: the counters move when a call is served, between its start and its end.
#[derive(Clone, Debug)]
enum Step {
    Start { users: Vec<u32>, count: u32 },
    StartRead { user: u32 },
    StartAdvance { user: u32, to: u64 },
    Serve { call: usize },
    End { call: usize, answer: u8 },
    Crash { user: u32, jump: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (prop::collection::vec(0..USERS, 1..4), 1..4u32).prop_map(|(users, count)| Step::Start { users, count }),
        2 => (0..USERS).prop_map(|user| Step::StartRead { user }),
        1 => (0..USERS, 0..90u64).prop_map(|(user, to)| Step::StartAdvance { user, to }),
        8 => any::<prop::sample::Index>().prop_map(|call| Step::Serve { call: call.index(64) }),
        8 => (any::<prop::sample::Index>(), any::<u8>())
            .prop_map(|(call, answer)| Step::End { call: call.index(64), answer }),
        2 => (0..USERS, 0..5u64).prop_map(|(user, jump)| Step::Crash { user, jump }),
    ];
    prop::collection::vec(step, 1..120)
}

/// The request of a simulated call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wish {
    Take(u32),
    Read,
    Advance(u64),
}

/// A call of the simulated service.
struct Made {
    users: Vec<u32>,
    wish: Wish,
    served: Vec<Served>,
    ended: bool,
}

/// The response of a call: the value, the number before it, and whether the value is exact.
#[derive(Clone, Copy)]
struct Served {
    value: u64,
    prev: u64,
    exact: bool,
}

/// Counter of one user: the last number, the `prev` of the next number, and whether the last number was allocated.
#[derive(Clone, Copy)]
struct Counter {
    last: u64,
    prev: u64,
    exact: bool,
}

impl Counter {
    fn serve(&mut self, wish: Wish) -> Served {
        let served = |counter: &Counter, prev| Served { value: counter.last, prev, exact: counter.exact };
        match wish {
            Wish::Take(count) => {
                let prev = self.prev;
                self.last += u64::from(count);
                (self.prev, self.exact) = (self.last, true);
                served(self, prev)
            }
            Wish::Read => served(self, 0),
            Wish::Advance(to) => {
                if to > self.last {
                    *self = Counter { last: to, prev: 0, exact: true };
                }
                served(self, 0)
            }
        }
    }
}

/// Returns the history of a correct service, in which calls overlap, responses are lost and owners crash as `steps`
/// state.
fn lawful(steps: &[Step]) -> Vec<Event> {
    let mut counters = [Counter { last: 0, prev: 0, exact: true }; USERS as usize];
    let mut calls: Vec<Made> = Vec::new();
    let mut events = Vec::new();
    for step in steps {
        match step {
            Step::Start { users, count } => {
                events.push(Event::Start(users.clone()));
                let wish = Wish::Take(*count);
                calls.push(Made { users: users.clone(), wish, served: Vec::new(), ended: false });
            }
            Step::StartRead { user } => {
                events.push(Event::StartRead(vec![*user]));
                calls.push(Made { users: vec![*user], wish: Wish::Read, served: Vec::new(), ended: false });
            }
            Step::StartAdvance { user, to } => {
                events.push(Event::StartAdvance(*user, *to));
                calls.push(Made { users: vec![*user], wish: Wish::Advance(*to), served: Vec::new(), ended: false });
            }
            Step::Serve { call } => {
                let Some(call) = pick(&mut calls, *call) else { continue };
                if !call.ended && call.served.is_empty() {
                    let serve = |user: &u32| counters[*user as usize].serve(call.wish);
                    call.served = call.users.iter().map(serve).collect();
                }
            }
            Step::End { call, answer } => {
                let open = calls.len();
                let index = if open == 0 { continue } else { call % open };
                if !calls[index].ended {
                    calls[index].ended = true;
                    events.push(ended(&calls[index], index, *answer));
                }
            }
            // A new owner starts above every number and does not know the last number.
            Step::Crash { user, jump } => {
                let last = counters[*user as usize].last + jump;
                counters[*user as usize] = Counter { last, prev: 0, exact: last == 0 };
            }
        }
    }
    events
}

fn ended(call: &Made, index: usize, answer: u8) -> Event {
    match call.wish {
        Wish::Take(count) => {
            let outcome = |item: usize| match call.served.get(item) {
                Some(_) if answer.is_multiple_of(8) => Outcome::Maybe { lost: 1 },
                Some(Served { value, prev, .. }) => Outcome::Given { value: *value, prev: *prev, count, lost: 0 },
                None if answer.is_multiple_of(2) => Outcome::Maybe { lost: 1 },
                None => Outcome::Refused,
            };
            Event::End(index, (0..call.users.len()).map(outcome).collect())
        }
        Wish::Read => {
            let reading = match call.served.first() {
                Some(Served { value, exact: true, .. }) => Reading::Exact(*value),
                Some(Served { value, .. }) => Reading::UpperBound(*value),
                None => Reading::Failed,
            };
            Event::EndRead(index, vec![reading])
        }
        Wish::Advance(to) => match call.served.first() {
            Some(served) if served.value > to => Event::EndAdvance(index, Advancing::Past),
            Some(_) if !answer.is_multiple_of(8) => Event::EndAdvance(index, Advancing::Done),
            _ => Event::EndAdvance(index, Advancing::Failed),
        },
    }
}

fn pick<T>(calls: &mut [T], at: usize) -> Option<&mut T> {
    let len = calls.len();
    if len == 0 { None } else { calls.get_mut(at % len) }
}

/// Returns arbitrary histories with small numbers, so that every kind of collision occurs.
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
    let advancing = prop_oneof![Just(Advancing::Done), Just(Advancing::Past), Just(Advancing::Failed)];
    let ends = prop_oneof![
        6 => outcomes.prop_map(Ends::Call),
        3 => readings.prop_map(Ends::Read),
        1 => (0..14u64, advancing).prop_map(|(to, ended)| Ends::Advance(to, ended)),
    ];
    prop::collection::vec((users, ends, any::<prop::sample::Index>()), 1..16).prop_map(|calls| {
        let mut events = Vec::new();
        let mut open = Vec::new();
        for (index, (users, mut ends, choice)) in calls.into_iter().enumerate() {
            ends.truncate(users.len());
            events.push(match &ends {
                Ends::Call(_) => Event::Start(users),
                Ends::Read(_) => Event::StartRead(users),
                Ends::Advance(to, _) => Event::StartAdvance(users[0], *to),
            });
            open.push((index, ends));
            // Some calls end at once, others stay open across later calls.
            while !open.is_empty() && choice.index(3) < open.len() {
                let (call, ends) = open.swap_remove(choice.index(open.len()));
                events.push(ends.of(call));
            }
        }
        // One call in three histories never ends.
        let left = open.len() - usize::from(!open.is_empty() && open.len() % 3 == 0);
        events.extend(open.into_iter().take(left).map(|(call, ends)| ends.of(call)));
        events
    })
}

/// End of a generated call, read or advance.
#[derive(Clone, Debug)]
enum Ends {
    Call(Vec<Outcome>),
    Read(Vec<Reading>),
    Advance(u64, Advancing),
}

impl Ends {
    fn truncate(&mut self, items: usize) {
        match self {
            Ends::Call(outcomes) => outcomes.truncate(items),
            Ends::Read(readings) => readings.truncate(items),
            Ends::Advance(..) => {}
        }
    }

    fn of(self, call: usize) -> Event {
        match self {
            Ends::Call(outcomes) => Event::End(call, outcomes),
            Ends::Read(readings) => Event::EndRead(call, readings),
            Ends::Advance(_, ended) => Event::EndAdvance(call, ended),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_history_is_judged_as_the_twin_does(events in wild(), complete: bool) {
        prop_assert_eq!(run_as(&events, complete), twin(&events, complete));
    }

    #[test]
    fn a_lawful_service_passes(steps in steps()) {
        let events = lawful(&steps);
        let tally = run_as(&events, true);
        prop_assert_eq!(tally.violations(), 0);
        prop_assert_eq!(tally, twin(&events, true));
    }

    #[test]
    fn a_read_that_is_wrongly_called_exact_is_caught(steps in steps(), at in any::<prop::sample::Index>()) {
        let mut events = lawful(&steps);
        let lost = events.iter().any(|event| match event {
            Event::End(_, outcomes) => outcomes.iter().any(|outcome| matches!(outcome, Outcome::Maybe { .. })),
            _ => false,
        });
        let bounds: Vec<usize> = (0..events.len())
            .filter(|at| matches!(&events[*at], Event::EndRead(_, readings) if matches!(readings[0], Reading::UpperBound(_))))
            .collect();
        if let Some(&at) = (!bounds.is_empty()).then(|| &bounds[at.index(bounds.len())])
            && let Event::EndRead(call, readings) = &events[at]
            && let Reading::UpperBound(value) = readings[0]
        {
            // A crash that skipped no number left the last number unchanged; only the owner does not know it.
            let truly = places(&events).iter().any(|place| place.value == value);
            events[at] = Event::EndRead(*call, vec![Reading::Exact(value)]);
            let tally = run_as(&events, true);
            let explained = truly || lost || still_open(&events) || targets(&events).contains(&value);
            prop_assert!(explained || tally.violations() > 0, "{:?}", tally);
            prop_assert_eq!(tally, twin(&events, true));
        }
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
            prop_assert_eq!(tally, twin(&events, false));
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
            prop_assert_eq!(tally, twin(&events, false));
        }
    }
}

/// A completed item of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    event: usize,
    item: usize,
    user: u32,
    value: u64,
    /// The largest value returned before its call started.
    floor: u64,
}

fn places(events: &[Event]) -> Vec<Place> {
    let mut starts = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    for (event, what) in events.iter().enumerate() {
        match what {
            Event::Start(users) | Event::StartRead(users) => starts.push((users.clone(), places.len())),
            Event::StartAdvance(user, _) => starts.push((vec![*user], places.len())),
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
            Event::EndRead(..) | Event::EndAdvance(..) => {}
        }
    }
    places
}

/// Returns whether a call that takes numbers never ended.
fn still_open(events: &[Event]) -> bool {
    let starts = events.iter().filter(|event| matches!(event, Event::Start(_))).count();
    starts > events.iter().filter(|event| matches!(event, Event::End(..))).count()
}

fn targets(events: &[Event]) -> Vec<u64> {
    let target = |event: &Event| if let Event::StartAdvance(_, to) = event { Some(*to) } else { None };
    events.iter().filter_map(target).collect()
}

/// Replaces the outcome of the item at `place` with one number, `value`.
fn plant(events: &mut [Event], place: Place, value: u64) {
    match &mut events[place.event] {
        Event::End(_, outcomes) => outcomes[place.item] = one(value, 0)[0],
        other => unreachable!("a place is the end of a call, not {other:?}"),
    }
}

fn one(value: u64, prev: u64) -> Vec<Outcome> {
    vec![Outcome::Given { value, prev, count: 1, lost: 0 }]
}

/// Checks the history `script` of one user against the twin. `(` starts a call. Every other word ends the oldest open
/// call:
///
/// * `P<V`, an allocation of number V after the `prev` P; `P<V+N`, an allocation of N numbers, of which V is the last;
/// * `?`, an allocation without a response;
/// * `=V` or `~V`, a read of V, exact or as an upper bound;
/// * `!V` or `.V`, an advance to V, done or past.
fn check(script: &str) -> Tally {
    check_as(script, false)
}

fn check_as(script: &str, complete: bool) -> Tally {
    let mut events = Vec::new();
    let (mut started, mut ended) = (0, 0);
    let ends: Vec<&str> = script.split_whitespace().filter(|word| *word != "(").collect();
    for word in script.split_whitespace() {
        let number = |text: &str| -> u64 { text.parse().unwrap_or_else(|_| panic!("{word}")) };
        if word == "(" {
            events.push(match ends[started].split_at(1) {
                ("=" | "~", _) => Event::StartRead(vec![0]),
                ("!" | ".", to) => Event::StartAdvance(0, number(to)),
                _ => Event::Start(vec![0]),
            });
            started += 1;
            continue;
        }
        events.push(match word.split_at(1) {
            ("=", value) => Event::EndRead(ended, vec![Reading::Exact(number(value))]),
            ("~", value) => Event::EndRead(ended, vec![Reading::UpperBound(number(value))]),
            ("!", _) => Event::EndAdvance(ended, Advancing::Done),
            (".", _) => Event::EndAdvance(ended, Advancing::Past),
            ("?", _) => Event::End(ended, vec![Outcome::Maybe { lost: 1 }]),
            _ => {
                let (prev, value) = word.split_once('<').unwrap_or_else(|| panic!("{word}"));
                let (value, count) = value.split_once('+').unwrap_or((value, "1"));
                let (value, prev, count) = (number(value), number(prev), number(count) as u32);
                Event::End(ended, vec![Outcome::Given { value, prev, count, lost: 0 }])
            }
        });
        ended += 1;
    }
    assert_eq!(started, ended);
    assert_eq!(run_as(&events, complete), twin(&events, complete), "{script}");
    run_as(&events, complete)
}

#[test]
fn overlapping_calls_may_be_ordered_either_way() {
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
    // Numbers from before the history are no fault.
    assert_eq!(check("( 9<10").foreign_prevs, 0);
}

#[test]
fn numbers_outside_of_the_range_are_faults_and_move_nothing() {
    let tally =
        run(&[Event::Start(vec![0]), Event::End(0, one(0, 0)), Event::Start(vec![0]), Event::End(1, one(u64::MAX, 7))]);
    assert_eq!((tally.malformed, tally.violations()), (2, 2));
}

#[test]
fn a_read_is_never_below_numbers_returned_or_read_before() {
    assert_eq!(check("( 0<5 ( =5 ( ~7 ( ~7").violations(), 0);
    assert_eq!(check("( 0<5 ( =4").stale_reads, 1);
    assert_eq!(check("( 0<5 ( ~9 ( =5").stale_reads, 1);
    // A read may miss a number that overlaps it.
    assert_eq!(check("( 0<5 ( ( 5<6 =5").violations(), 0);
}

#[test]
fn the_next_number_is_above_the_last_read() {
    assert_eq!(check("( 0<5 ( ~9 ( 5<9").decreases, 1);
    assert_eq!(check("( 0<5 ( ~9 ( 0<10").violations(), 0);
    // The bound was not allocated: no `prev` may name it.
    assert_eq!(check("( 0<5 ( ~9 ( 9<10").foreign_prevs, 1);
    // The direct successor, which a read in between has already returned.
    assert_eq!(check("( 0<1 ( =2 ( 1<2").decreases, 1);
}

#[test]
fn an_exact_read_returns_an_allocated_number() {
    assert_eq!(check("( 0<5 ( =6").foreign_prevs, 1);
    assert_eq!(check("( 0<5 ( ? ( =6").foreign_prevs, 0);
    // The allocation overlaps the read.
    let tally = check("( 0<5 ( ( =6 5<6");
    assert_eq!((tally.foreign_prevs, tally.violations()), (0, 0));
    // Numbers from before the history are no fault.
    assert_eq!(check("( =9 ( 9<10").foreign_prevs, 0);
}

#[test]
fn an_exact_read_is_the_last_number_of_a_call() {
    // Inside the numbers of one call, in either order of the responses.
    assert_eq!(check("( ( 0<5+5 =3").inexact_reads, 1);
    assert_eq!(check("( =3 ( ~3").inexact_reads, 0);
    let events = [
        Event::Start(vec![0]),
        Event::StartRead(vec![0]),
        Event::EndRead(1, vec![Reading::Exact(3)]),
        Event::End(0, vec![Outcome::Given { value: 5, prev: 0, count: 5, lost: 0 }]),
    ];
    assert_eq!((run(&events).inexact_reads, run(&events)), (1, twin(&events, false)));
    assert_eq!(check("( ( 0<5+5 =5").inexact_reads, 0);
    // A `prev` excludes any number between 2 and 9.
    assert_eq!(check("( 0<2 ( ( 2<9 =5").inexact_reads, 1);
    // The same with a lost call, which cannot have got the number.
    assert_eq!(check("( ? ( 0<2 ( ( 2<9 =5").inexact_reads, 1);
}

#[test]
fn a_lost_call_explains_only_numbers_that_it_can_have_got() {
    // The call was sent after the number was named.
    assert_eq!(check("( 0<1 ( =5 ( ?").foreign_prevs, 1);
    // The call was sent after a larger number was returned.
    assert_eq!(check_as("( ( 0<9 ( 3<4 ?", true).phantoms, 1);
    assert_eq!(check("( 0<1 ( ( ( ? =3 =3").foreign_prevs, 0);
    // One lost call explains one number.
    assert_eq!(check("( 0<1 ( ? ( =3 ( ~3 ( =7").foreign_prevs, 1);
}

#[test]
fn in_a_complete_history_every_number_is_explained() {
    assert_eq!(check("( ~40 ( 40<41").violations(), 0);
    assert_eq!(check_as("( ~40 ( 40<41", true).phantoms, 1);
    assert_eq!(check_as("( =40", true).phantoms, 1);
    assert_eq!(check_as("( =0 ( 0<1 ( =1 ( ~40 ( 0<41 ( =41", true).violations(), 0);
}

#[test]
fn numbers_after_an_advance_are_above_it() {
    assert_eq!(check_as("( !7 ( 0<8 ( =8", true).violations(), 0);
    // No call got the target, except perhaps a call without a response.
    assert_eq!(check_as("( !7 ( 7<8", true).phantoms, 1);
    assert_eq!(check_as("( .7 ( =7 ( 7<9", true).phantoms, 1);
    assert_eq!(check_as("( ? ( !7 ( 7<8", true).violations(), 0);
    assert_eq!(check_as("( 0<1 ( !7 ( =7 ( 0<8", true).violations(), 0);
    assert_eq!(check("( !7 ( 0<7").decreases, 1);
    assert_eq!(check("( !7 ( =6").stale_reads, 1);
    // A number that was allocated before the advance is no `prev` after it.
    assert_eq!(check("( 0<1 ( !7 ( 1<8").chain_breaks, 1);
    // The advance was refused, and overlapped the call that took the number.
    assert_eq!(check_as("( ( 0<9 .7 ( 9<10", true).violations(), 0);
    // Done means that the counter is not below the numbers returned before.
    assert_eq!(check("( 0<9 ( !7").stale_reads, 1);
    // The target was named before the advance was sent.
    assert_eq!(check_as("( =7 ( !7", true).phantoms, 1);
}

#[test]
fn a_seamless_history_has_no_gap_and_no_item_without_a_number() {
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
    // An owner that does not know the previous number, and an owner that skips numbers.
    assert_eq!(call(0, one(3, 0)[0]), (1, 0, 1));
    assert_eq!(call(0, one(5, 3)[0]), (2, 0, 2));
    assert_eq!(call(1, one(7, 0)[0]), (3, 0, 3));
    assert_eq!(call(1, Outcome::Refused), (3, 1, 4));
    assert_eq!(call(1, Outcome::Maybe { lost: 1 }), (3, 2, 5));
    let read = checker.start(Duration::ZERO, [User(1)]);
    checker.end_read(read, Duration::ZERO, [Reading::Failed]);
    assert_eq!(checker.tally().unserved, 3);
    let advance = checker.start_advance(Duration::ZERO, User(0), 9);
    checker.end_advance(advance, Duration::ZERO, Advancing::Done);
    // The next numbers follow the target, which is no `prev`.
    for (number, prev) in [(10, 0), (11, 10)] {
        let id = checker.start(Duration::ZERO, [User(0)]);
        checker.end(id, Duration::ZERO, one(number, prev));
    }
    assert_eq!((checker.tally().gaps, checker.tally().foreign_prevs), (3, 0));
    let advance = checker.start_advance(Duration::ZERO, User(0), 20);
    checker.end_advance(advance, Duration::ZERO, Advancing::Done);
    let id = checker.start(Duration::ZERO, [User(0)]);
    checker.end(id, Duration::ZERO, one(21, 20));
    assert_eq!((checker.tally().gaps, checker.tally().foreign_prevs), (3, 1));
}

#[test]
fn a_joined_floor_counts_as_returned() {
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

/// Allocates 3, 6, 9 ... for one user, each with a hole before it.
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
fn runs_that_a_call_in_flight_may_touch_are_kept() {
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
