//! The buffer against a twin: a queue of all fetched ids.

use std::collections::VecDeque;

use proptest::prelude::*;
use seq_proto::v1;

use super::*;

const HOLD: Duration = Duration::from_secs(10);

fn ids(first: u64, count: u32) -> Ids {
    let response = v1::NextIdsResponse { runs: vec![v1::IdRun { first, count }], step: 1, epoch: 1, lane: 0 };
    Ids::checked(response, count, 0, &"a:1".into()).unwrap()
}

fn counter() -> Buffer {
    Buffer::new(Limits { hold: HOLD, max_age: None, max_size: 1_000_000 }, None)
}

/// A step of a run.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes some ids, with a pause before each, in microseconds.
    Take { times: u16, pause_us: u32 },
    /// The response to the fetch in flight arrives.
    Respond,
    /// The fetch in flight gets no response; its ids are a gap.
    Lose,
    /// Time passes, in milliseconds.
    Rest(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..2_000_u16, 0..2_000_u32).prop_map(|(times, pause_us)| Step::Take { times, pause_us }),
        4 => Just(Step::Respond),
        1 => Just(Step::Lose),
        1 => (0..5_000_u16).prop_map(Step::Rest),
    ]
}

/// A buffer with its twin.
struct World {
    buffer: Buffer,
    limits: Limits,
    now: Instant,
    /// The last number of the server's counter.
    counter: u64,
    /// The highest id of a response.
    highest: u64,
    in_flight: Option<Fetch>,
    /// All fetched ids that were neither given nor dropped, with the time of their response.
    queue: VecDeque<(u64, Instant)>,
    given: u64,
    last: u64,
    last_size: u32,
    /// Fetches, and ids that were dropped with age.
    fetches: u64,
    dropped: u64,
}

impl World {
    fn new(limits: Limits) -> World {
        World {
            buffer: Buffer::new(limits, None),
            limits,
            now: Instant::now(),
            counter: 0,
            highest: 0,
            in_flight: None,
            queue: VecDeque::new(),
            given: 0,
            last: 0,
            last_size: 0,
            fetches: 0,
            dropped: 0,
        }
    }

    fn take(&mut self) {
        if let Some(max_age) = self.limits.max_age {
            let before = self.queue.len();
            self.queue.retain(|(_, at)| self.now - *at <= max_age);
            self.dropped += (before - self.queue.len()) as u64;
        }
        let expected = self.queue.pop_front().map(|(id, _)| id);
        let (taken, fetch) = match self.buffer.quick() {
            Some(id) => (Taken::Given(id), None),
            None => self.buffer.take(self.now),
        };
        match taken {
            Taken::Given(id) => {
                assert_eq!(Some(id.get()), expected);
                assert!(id.get() > self.last);
                (self.given, self.last) = (self.given + 1, id.get());
            }
            Taken::Wait => assert_eq!(expected, None),
        }
        let Some(Fetch { size, after }) = fetch else { return };
        assert_eq!(self.in_flight.replace(fetch.unwrap()), None, "one fetch in flight");
        assert!(taken == Taken::Wait || self.given >= 2, "no fetch ahead for one id");
        assert!((1..=self.limits.max_size.min((self.last_size * 2).max(1))).contains(&size));
        assert_eq!(after.map_or(0, Id::get), self.highest);
        self.fetches += 1;
        assert_eq!(self.buffer.unused(), self.queue.len() as u64 + self.dropped);
        // With the ids of the fetch.
        let unused = self.queue.len() as u64 + self.dropped + u64::from(size);
        let slack = if self.limits.max_age.is_some() { self.fetches } else { 0 };
        assert!(unused <= 2 + 2 * self.given + slack, "{unused} unused and {} used", self.given);
    }

    fn apply(&mut self, step: Step) {
        match (step, self.in_flight) {
            (Step::Take { times, pause_us }, _) => {
                for _ in 0..times {
                    self.now += Duration::from_micros(pause_us.into());
                    self.take();
                }
            }
            (Step::Respond, Some(Fetch { size, .. })) => {
                // Others take ids as well.
                let first = self.counter + 1 + self.counter % 3;
                self.counter = first + u64::from(size) - 1;
                self.buffer.fetched(ids(first, size), self.now);
                self.queue.extend((first..=self.counter).map(|id| (id, self.now)));
                (self.in_flight, self.last_size, self.highest) = (None, size, self.counter);
            }
            (Step::Lose, Some(Fetch { size, .. })) => {
                self.counter += u64::from(size);
                self.buffer.failed(self.now);
                self.in_flight = None;
            }
            (Step::Respond | Step::Lose, None) => {}
            (Step::Rest(ms), _) => self.now += Duration::from_millis(ms.into()),
        }
    }
}

proptest! {
    #[test]
    fn a_buffer_gives_out_the_ids_of_its_twin(
        steps in prop::collection::vec(step(), 1..60), timed in any::<bool>(), max_size in 1..10_000_u32,
    ) {
        let max_age = timed.then_some(Duration::from_secs(1));
        let hold = if timed { Duration::from_millis(500) } else { HOLD };
        let mut world = World::new(Limits { hold, max_age, max_size });
        steps.into_iter().for_each(|step| world.apply(step));
    }
}

#[test]
fn one_id_wastes_none_and_sizes_double_with_use() {
    let mut buffer = counter();
    let now = Instant::now();
    let (mut first, mut sizes) = (1, Vec::new());
    let mut given = 0;
    for _ in 0..1_400 {
        let (taken, fetch) = buffer.quick().map_or_else(|| buffer.take(now), |id| (Taken::Given(id), None));
        given += u64::from(taken != Taken::Wait);
        if let Some(Fetch { size, .. }) = fetch {
            sizes.push(size);
            buffer.fetched(ids(first, size), now);
            first += u64::from(size);
        }
        if given == 1 && taken != Taken::Wait {
            assert_eq!(buffer.unused(), 0);
        }
    }
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024]);
}

#[test]
fn a_range_lasts_for_the_hold_at_the_present_rate() {
    let mut buffer = counter();
    let (mut now, mut first, mut last_size) = (Instant::now(), 1, 0);
    // 200 ids a second for a minute.
    for _ in 0..12_000 {
        now += Duration::from_millis(5);
        let (_, fetch) = buffer.take(now);
        if let Some(Fetch { size, .. }) = fetch {
            buffer.fetched(ids(first, size), now);
            first += u64::from(size);
            last_size = size;
        }
    }
    assert!((1_900..=2_000).contains(&last_size), "{last_size}");
    // The owner is absent: half of a range is 5 s.
    let mut waits = 0;
    for _ in 0..600 {
        now += Duration::from_millis(5);
        waits += u32::from(buffer.take(now).0 == Taken::Wait);
    }
    assert_eq!(waits, 0);
}

#[test]
fn a_failed_fetch_is_repeated_after_a_pause() {
    let mut buffer = counter();
    let now = Instant::now();
    let fetch = Some(Fetch { size: 1, after: None });
    assert_eq!(buffer.take(now), (Taken::Wait, fetch));
    assert_eq!(buffer.take(now), (Taken::Wait, None));
    buffer.failed(now);
    assert_eq!(buffer.take(now + FIRST_PAUSE / 2), (Taken::Wait, None));
    assert_eq!(buffer.take(now + FIRST_PAUSE), (Taken::Wait, fetch));
}

#[test]
fn old_ids_with_a_time_are_dropped() {
    let limits = Limits { hold: Duration::from_millis(500), max_age: Some(Duration::from_secs(1)), max_size: 10_000 };
    let mut buffer = Buffer::new(limits, Id::new(5));
    let now = Instant::now();
    assert_eq!(buffer.take(now), (Taken::Wait, Some(Fetch { size: 1, after: Id::new(5) })));
    buffer.fetched(ids(6, 1), now);
    let late = now + Duration::from_millis(1_001);
    assert_eq!(buffer.take(late), (Taken::Wait, Some(Fetch { size: 1, after: Id::new(6) })));
    buffer.fetched(ids(7, 1), late);
    assert_eq!(buffer.take(late + Duration::from_secs(1)).0, Taken::Given(Id::new(7).unwrap()));
    assert_eq!(buffer.unused(), 1);
}
