//! Results of calls for ids. They are validated when a response is decoded.

use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::SystemTime;
use std::vec;

use seq_ids::Id;
use seq_proto::v1;

use crate::error::{CallError, IDS_OUT_OF_ORDER};

/// Ids that one call allocated, in ascending order. This iterator computes each id when it is requested. No other call
/// gets any of these ids.
#[derive(Clone, Debug)]
pub struct Ids {
    /// The run that the next id is from.
    run: v1::IdRun,
    /// The runs after the present run.
    runs: vec::IntoIter<v1::IdRun>,
    /// Distance between neighbouring ids in a run, 1 or above.
    step: u64,
    /// Number of ids left.
    left: u32,
    last: Id,
    lane: u32,
    epoch: u64,
}

/// The last id of a counter, or an upper bound of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CurrentId {
    /// The last id of the counter, or an upper bound of this id; `None` if the counter never had an id.
    pub id: Option<Id>,
    /// Whether `id` is exactly the last id. If `false`, `id` is an upper bound. This is so after a crash of the
    /// section's owner, until the next id is allocated.
    pub exact: bool,
    /// Epoch of the ownership that responded, 1 or above.
    pub epoch: u64,
}

/// The parts of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodedId {
    /// The lane; 0 for a counter.
    pub lane: u32,
    /// The number of the lane's counter from which the id was made.
    pub number: u64,
    /// Time in the id; `None` for a counter.
    pub time: Option<SystemTime>,
    /// Sequence number within the id's unit of time; `None` for a counter.
    pub seq: Option<u64>,
}

impl Ids {
    /// Creates the ids from a response, after validating it. The response must have `count` ids in ascending order, all
    /// of them greater than `after`.
    pub(crate) fn checked(
        response: v1::NextIdsResponse,
        count: u32,
        after: u64,
        addr: &Arc<str>,
    ) -> Result<Ids, CallError> {
        let v1::NextIdsResponse { runs, step, epoch, lane } = response;
        let (mut left, mut last) = (count, after);
        for run in &runs {
            let end = run.count.checked_sub(1).and_then(|steps| step.checked_mul(steps.into())?.checked_add(run.first));
            match (left.checked_sub(run.count), end) {
                (Some(others), Some(end)) if step > 0 && run.first > last => (left, last) = (others, end),
                _ => return Err(CallError::BadAnswer { addr: addr.clone(), what: IDS_OUT_OF_ORDER }),
            }
        }
        let mut runs = runs.into_iter();
        match (runs.next(), Id::new(last)) {
            (Some(run), Some(last)) if left == 0 => Ok(Ids { run, runs, step, left: count, last, lane, epoch }),
            _ => Err(CallError::BadAnswer { addr: addr.clone(), what: "another number of ids than requested" }),
        }
    }

    /// Returns the last id of the call, even after the iterator has returned it.
    #[must_use]
    pub fn last_id(&self) -> Id {
        self.last
    }

    /// Returns the lane of the ids; 0 for a counter.
    #[must_use]
    pub fn lane(&self) -> u32 {
        self.lane
    }

    /// Returns the epoch of the ownership that allocated the ids, 1 or above.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Iterator for Ids {
    type Item = Id;

    fn next(&mut self) -> Option<Id> {
        while self.run.count == 0 {
            self.run = self.runs.next()?;
        }
        let id = Id::new(self.run.first);
        self.run.count -= 1;
        self.left -= 1;
        // After the last id of a run, this value is not an id and is not used.
        self.run.first = self.run.first.wrapping_add(self.step);
        id
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Ids {}

impl FusedIterator for Ids {}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(runs: &[(u64, u32)], step: u64, count: u32, after: u64) -> Result<Ids, CallError> {
        let runs = runs.iter().map(|(first, count)| v1::IdRun { first: *first, count: *count }).collect();
        Ids::checked(v1::NextIdsResponse { runs, step, epoch: 3, lane: 7 }, count, after, &"a:1".into())
    }

    #[test]
    fn runs_are_expanded_in_order() {
        let given = ids(&[(5, 2), (25, 3)], 10, 5, 4).unwrap();
        assert_eq!((given.len(), given.last_id().get(), given.lane(), given.epoch()), (5, 45, 7, 3));
        assert_eq!(given.map(Id::get).collect::<Vec<_>>(), [5, 15, 25, 35, 45]);
        assert_eq!(ids(&[(Id::MAX, 1)], 1, 1, 0).unwrap().last_id().get(), Id::MAX);
    }

    #[test]
    fn responses_that_do_not_fit_are_refused() {
        let bad = [
            (&[][..], 1, 1, 0),
            (&[(0, 1)], 1, 1, 0),
            (&[(5, 1)], 1, 2, 0),
            (&[(5, 3)], 1, 2, 0),
            (&[(5, 0), (6, 1)], 1, 1, 0),
            (&[(5, 1)], 0, 1, 0),
            (&[(5, 1)], 1, 1, 5),
            (&[(5, 2), (6, 1)], 1, 3, 0),
            (&[(Id::MAX, 2)], 1, 2, 0),
        ];
        for (runs, step, count, after) in bad {
            assert!(matches!(ids(runs, step, count, after), Err(CallError::BadAnswer { .. })), "{runs:?}");
        }
        let out_of_order = |runs: &[(u64, u32)], count| ids(runs, 1, count, 0).unwrap_err().is_out_of_order();
        assert!(out_of_order(&[(5, 1), (5, 1)], 2) && !out_of_order(&[(5, 1)], 2));
        assert!(ids(&[(u64::MAX, 2)], u64::MAX, 2, 0).is_err());
    }
}
