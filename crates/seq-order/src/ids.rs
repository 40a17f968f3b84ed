//! Offline checker of the promises about ids of a series. It receives all calls that got a response, after the last
//! call has ended.
//!
//! Ids must be unique, and the ids of a call must ascend. If a counter or a single lane makes the ids, each id must
//! also be above every id that had arrived before the request for the id was sent. The time in an id must be the time
//! of the call that got the id, within the limits of [`IdTime`].

use std::fmt;
use std::time::Instant;

/// A call for ids, with its response.
#[derive(Clone, Debug)]
pub struct IdCall {
    /// Time before the request was sent.
    pub sent: Instant,
    /// Time after the response arrived.
    pub received: Instant,
    /// Wall-clock times just before the request was sent and just after the response arrived, in milliseconds since
    /// 1970. The times in the ids are compared with them.
    pub clock_ms: (u64, u64),
    /// The ids of the response, in its order.
    pub ids: Vec<u64>,
}

/// The promises for a series, in addition to uniqueness.
#[derive(Clone, Copy, Debug)]
pub struct IdPromises {
    /// Whether each id must be above every id that had arrived before the request for the id was sent.
    pub is_ordered: bool,
    /// Position of the time in an id; `None` for a counter.
    pub time: Option<IdTime>,
}

/// Position of the time in an id, and the limits of the difference between that time and the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct IdTime {
    /// Time 0 of the ids in milliseconds since 1970.
    pub epoch_ms: u64,
    /// Number of bits below the time. The time is in milliseconds.
    pub bits_below: u32,
    /// Largest time in milliseconds by which the time in an id may be before the start of the id's call; 0 if all
    /// clocks are right.
    pub behind_ms: u64,
    /// Largest time in milliseconds by which the time in an id may be after the end of the id's call.
    pub ahead_ms: u64,
}

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdViolation {
    /// An id was given out twice.
    Twice(u64),
    /// An id is 0 or above 2^63-1.
    OutOfRange(u64),
    /// An id is not above the id before it in the same response.
    Descends(u64),
    /// The id is not above an id that had arrived before the request was sent.
    Late {
        /// The id.
        id: u64,
        /// The highest id that had arrived before the request was sent.
        highest: u64,
    },
    /// The time in an id is before the start or after the end of the id's call, by more than [`IdTime`] allows.
    OutOfTime {
        /// The id.
        id: u64,
        /// Its time in milliseconds since 1970.
        time_ms: u64,
        /// Start and end of its call in milliseconds since 1970.
        clock_ms: (u64, u64),
    },
}

impl fmt::Display for IdViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdViolation::Twice(id) => write!(f, "id {id} was given out twice"),
            IdViolation::OutOfRange(id) => write!(f, "id {id} is not in 1..=2^63-1"),
            IdViolation::Descends(id) => write!(f, "id {id} is not above the id before it in the same response"),
            IdViolation::Late { id, highest } => {
                write!(f, "id {id} was requested after id {highest} had arrived, and is not above it")
            }
            IdViolation::OutOfTime { id, time_ms, clock_ms: (sent, received) } => {
                write!(f, "id {id} has the time {time_ms} ms, and its call was at {sent}..={received} ms")
            }
        }
    }
}

/// Checks `calls`, which are all calls of a series that got a response, against the promises. Returns the number of ids
/// in all calls.
///
/// # Errors
/// The first broken promise.
pub fn check_ids(promises: IdPromises, calls: &[IdCall]) -> Result<usize, IdViolation> {
    for call in calls {
        check_call(promises.time, call)?;
    }
    let mut all: Vec<u64> = calls.iter().flat_map(|call| call.ids.iter().copied()).collect();
    all.sort_unstable();
    if let Some(two) = all.windows(2).find(|two| two[0] == two[1]) {
        return Err(IdViolation::Twice(two[0]));
    }
    if promises.is_ordered {
        check_order(calls)?;
    }
    Ok(all.len())
}

fn check_call(time: Option<IdTime>, call: &IdCall) -> Result<(), IdViolation> {
    let mut before = 0;
    for &id in &call.ids {
        if id == 0 || id > crate::MAX_SEQ {
            return Err(IdViolation::OutOfRange(id));
        }
        if id <= before {
            return Err(IdViolation::Descends(id));
        }
        before = id;
        let Some(IdTime { epoch_ms, bits_below, behind_ms, ahead_ms }) = time else { continue };
        let (time_ms, (sent, received)) = (epoch_ms + (id >> bits_below), call.clock_ms);
        if time_ms + behind_ms < sent || time_ms > received + ahead_ms {
            return Err(IdViolation::OutOfTime { id, time_ms, clock_ms: call.clock_ms });
        }
    }
    Ok(())
}

/// Checks that the first id of each call is above the highest id that had arrived before the call's request was sent.
fn check_order(calls: &[IdCall]) -> Result<(), IdViolation> {
    let with_ids = || calls.iter().filter(|call| !call.ids.is_empty());
    let (mut by_end, mut by_begin): (Vec<&IdCall>, Vec<&IdCall>) = (with_ids().collect(), with_ids().collect());
    by_end.sort_unstable_by_key(|call| call.received);
    by_begin.sort_unstable_by_key(|call| call.sent);
    let (mut ended, mut highest) = (by_end.into_iter().peekable(), 0);
    for call in by_begin {
        while let Some(earlier) = ended.next_if(|earlier| earlier.received < call.sent) {
            highest = highest.max(earlier.ids[earlier.ids.len() - 1]);
        }
        if call.ids[0] <= highest {
            return Err(IdViolation::Late { id: call.ids[0], highest });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const COUNTER: IdPromises = IdPromises { is_ordered: true, time: None };
    const UNORDERED: IdPromises = IdPromises { is_ordered: false, time: None };

    /// Returns a call between two times in milliseconds.
    fn call(start: Instant, (sent, received): (u64, u64), ids: &[u64]) -> IdCall {
        let at = |ms| start + Duration::from_millis(ms);
        IdCall { sent: at(sent), received: at(received), clock_ms: (1_000 + sent, 1_000 + received), ids: ids.to_vec() }
    }

    #[test]
    fn ids_are_unique_positive_and_ascend() {
        let start = Instant::now();
        let check = |calls: &[IdCall]| check_ids(UNORDERED, calls);
        assert_eq!(check(&[]), Ok(0));
        assert_eq!(check(&[call(start, (0, 9), &[4, 9]), call(start, (1, 2), &[1, 5])]), Ok(4));
        let twice = [call(start, (0, 9), &[4, 9]), call(start, (20, 22), &[9])];
        assert_eq!(check(&twice), Err(IdViolation::Twice(9)));
        assert_eq!(check(&[call(start, (0, 9), &[4, 4])]), Err(IdViolation::Descends(4)));
        assert_eq!(check(&[call(start, (0, 9), &[0])]), Err(IdViolation::OutOfRange(0)));
        assert_eq!(check(&[call(start, (0, 9), &[1 << 63])]), Err(IdViolation::OutOfRange(1 << 63)));
    }

    #[test]
    fn only_calls_that_do_not_overlap_are_ordered() {
        let start = Instant::now();
        let overlap = [call(start, (0, 5), &[7]), call(start, (5, 6), &[3])];
        assert_eq!(check_ids(COUNTER, &overlap), Ok(2));
        let apart = [call(start, (0, 5), &[7]), call(start, (2, 3), &[2]), call(start, (6, 8), &[3])];
        assert_eq!(check_ids(COUNTER, &apart), Err(IdViolation::Late { id: 3, highest: 7 }));
        assert_eq!(check_ids(UNORDERED, &apart), Ok(3));
    }

    #[test]
    fn the_time_of_an_id_is_that_of_its_call() {
        let start = Instant::now();
        let time = IdTime { epoch_ms: 1_000, bits_below: 4, behind_ms: 2, ahead_ms: 10 };
        let promises = IdPromises { is_ordered: false, time: Some(time) };
        let check = |ms: u64| check_ids(promises, &[call(start, (50, 60), &[ms << 4])]);
        assert_eq!([check(48), check(55), check(70)], [Ok(1); 3]);
        let wrong = |ms: u64| IdViolation::OutOfTime { id: ms << 4, time_ms: 1_000 + ms, clock_ms: (1_050, 1_060) };
        assert_eq!([check(47), check(71)], [Err(wrong(47)), Err(wrong(71))]);
    }
}
