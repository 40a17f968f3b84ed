//! Tickets. These are ids that are taken from several counters in rotation, as ticket servers of other systems allocate
//! them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seq_ids::{CounterShape, Id, Shape};
use seq_proto::Reason;
use seq_proto::reason::ClientReason;
use tokio::time::Instant;
use tonic::Code;

use crate::attempts::Attempts;
use crate::error::CallError;
use crate::ids::Ids;
use crate::series::{Series, refusal};

/// Time for which a counter is left out of the rotation after it failed, as long as another counter responds.
const LEFT_OUT: Duration = Duration::from_secs(1);

/// Ids that are taken from several counters in rotation. For example, the counters are in two sets or clusters, so that
/// ids are still available while one set or cluster is down.
///
/// ```no_run
/// # async fn example(client: seq_client::Client) -> Result<(), seq_client::CallError> {
/// use seq_client::Tickets;
///
/// // `seqsvr series create photos.1 --counter --increment 2 --offset 1`, and photos.2 with the offset 2.
/// let tickets = Tickets::over([client.series("photos.1").await?, client.series("photos.2").await?])?;
/// println!("{}", tickets.next().await?);
/// # Ok(())
/// # }
/// ```
///
/// Ids are unique, because no two counters have an id in common. The ids of a call are greater than the ids of every
/// call that ended before it began. If the counter of a call is unavailable, the call continues with the next counter,
/// and the unavailable counter is left out for a second. Retries spend from the retry budget of the set to which they
/// are sent.
#[derive(Debug)]
pub struct Tickets {
    counters: Box<[Counter]>,
    /// Number of calls so far. This number modulo the number of counters is the index of the counter that the next call
    /// tries first.
    turn: AtomicUsize,
    /// The highest id in any response so far.
    last: AtomicU64,
}

#[derive(Debug)]
struct Counter {
    series: Series,
    shape: CounterShape,
    left_out_until: Mutex<Option<Instant>>,
}

impl Tickets {
    /// Creates tickets over several counters.
    ///
    /// # Errors
    /// [`CallError::Refused`]. The reason is `NOT_A_COUNTER` for a series whose ids contain a time, and `LANES_OVERLAP`
    /// if two counters could allocate the same id.
    ///
    /// # Panics
    /// If there is no series.
    pub fn over(series: impl IntoIterator<Item = Series>) -> Result<Tickets, CallError> {
        let mut counters: Vec<Counter> = Vec::new();
        for series in series {
            let Shape::Counter(shape) = series.shape() else {
                let text =
                    format!("the ids of series {:?} follow the clock: tickets are ids of counters", series.name());
                return Err(refusal(Reason::NotACounter.name(), Reason::NotACounter.code(), text));
            };
            if let Some(other) = counters.iter().find(|other| overlap(other.shape, shape)) {
                let (name, other) = (series.name(), other.series.name());
                let text = format!(
                    "series {name:?} and {other:?} have ids in common: give them one increment and different offsets"
                );
                return Err(refusal(ClientReason::LanesOverlap.name(), Code::InvalidArgument, text));
            }
            counters.push(Counter { series, shape, left_out_until: Mutex::default() });
        }
        assert!(!counters.is_empty(), "tickets need a series");
        Ok(Tickets { counters: counters.into(), turn: AtomicUsize::new(0), last: AtomicU64::new(0) })
    }

    /// Takes the next id. It is greater than the ids of all calls that ended before this call began.
    ///
    /// # Errors
    /// [`CallError`] of the last attempt. If [`CallError::may_have_applied`] returns `true`, an id may have been
    /// consumed, which is then skipped.
    ///
    /// # Cancel safety
    /// Dropping the future may consume an id.
    pub async fn next(&self) -> Result<Id, CallError> {
        self.take(1).await.map(|ids| ids.last_id())
    }

    /// Takes the next `count` ids of one counter. `count` is in `1 ..= 1_000_000`. The ids are greater than the ids of
    /// all calls that ended before this call began.
    ///
    /// # Errors
    /// As [`Tickets::next`].
    ///
    /// # Cancel safety
    /// Dropping the future may consume the ids.
    pub async fn take(&self, count: u32) -> Result<Ids, CallError> {
        let order = self.order();
        let deadline = order[0].series.client().attempts().deadline();
        let mut may_have_applied = false;
        for made in 0_u32.. {
            let place = made as usize % order.len();
            let counter = order[place];
            // The time for an attempt is limited, so that after a counter that does not respond there is time left for
            // the other counters.
            let left = deadline.saturating_duration_since(Instant::now()) / (order.len() - place) as u32;
            let attempts = Attempts::new(counter.series.client().shared(), deadline);
            let mut attempts = attempts.once(Instant::now() + left, made / order.len() as u32);
            let error = match self.take_from(counter, &mut attempts, count).await {
                Ok(ids) => {
                    *counter.left_out_until.lock() = None;
                    self.last.fetch_max(ids.last_id().get(), Relaxed);
                    return Ok(ids);
                }
                Err(error) => error,
            };
            may_have_applied |= error.may_have_applied();
            let error = if may_have_applied { error.having_applied() } else { error };
            if !error.is_retryable() {
                return Err(error);
            }
            *counter.left_out_until.lock() = Some(Instant::now() + LEFT_OUT);
            // Within one round, the next counter is tried without a pause.
            let (is_last, hint) = (place + 1 == order.len(), error.retry_after());
            if !attempts.pause(hint.filter(|_| is_last), !is_last).await {
                return Err(error);
            }
        }
        unreachable!("the deadline ends the call")
    }

    /// Returns the counters in the order in which a call tries them. Successive calls begin with successive counters.
    /// Counters that are left out of the rotation come last.
    fn order(&self) -> Vec<&Counter> {
        let (front, back) = self.counters.split_at(self.turn.fetch_add(1, Relaxed) % self.counters.len());
        let now = Instant::now();
        let mut order: Vec<&Counter> = back.iter().chain(front).collect();
        // The sort is stable, so the order of the other counters is unchanged.
        order.sort_by_key(|counter| counter.left_out_until.lock().is_some_and(|until| now < until));
        order
    }

    /// Takes ids of one counter. If the counter is so far behind the other counters that the call is refused, raises
    /// the counter first.
    async fn take_from(&self, counter: &Counter, attempts: &mut Attempts<'_>, count: u32) -> Result<Ids, CallError> {
        let last = Id::new(self.last.load(Relaxed));
        let series = last.map_or_else(|| counter.series.clone(), |last| counter.series.after(last));
        let error = match series.take_by(attempts, count).await {
            Err(error) if is(&error, Reason::AfterTooFar) => error,
            taken => return taken,
        };
        let Some(to) = last.and_then(|last| at_most(counter.shape, last)) else { return Err(error) };
        match series.advance_by(attempts, to).await {
            Err(error) if !is(&error, Reason::AlreadyPast) => Err(error),
            _ => series.take_by(attempts, count).await,
        }
    }
}

fn is(error: &CallError, reason: Reason) -> bool {
    matches!(error, CallError::Refused(refused) if *refused.reason == reason)
}

/// Returns whether two counters with these shapes would have an id in common if their ids had no upper limit.
fn overlap(one: CounterShape, other: CounterShape) -> bool {
    let (mut a, mut b) = (one.increment, other.increment);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    one.offset % a == other.offset % a
}

/// Returns the highest id of a counter that is not greater than `id`; `None` if the first id of the counter is greater
/// than `id`.
fn at_most(shape: CounterShape, id: Id) -> Option<Id> {
    let CounterShape { offset, increment, max_id } = shape;
    let above = id.get().min(max_id).checked_sub(offset)?;
    Id::new(offset + above / increment * increment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(offset: u64, increment: u64) -> CounterShape {
        CounterShape { offset, increment, max_id: 1_000 }
    }

    #[test]
    fn counters_overlap_if_an_id_could_be_of_both() {
        for one in 1..=6 {
            for other in 1..=6 {
                for (a, b) in (1..=one).flat_map(|a| (1..=other).map(move |b| (a, b))) {
                    let ids = |offset, increment| (offset..200).step_by(increment);
                    let common = ids(a, one).any(|id| ids(b, other).any(|each| each == id));
                    assert_eq!(overlap(shape(a as u64, one as u64), shape(b as u64, other as u64)), common);
                }
            }
        }
    }

    #[test]
    fn a_counter_is_raised_to_its_own_id() {
        let raised = |id| at_most(shape(2, 10), Id::new(id).unwrap()).map(Id::get);
        assert_eq!([1, 2, 11, 12, 40, 5_000].map(raised), [None, Some(2), Some(2), Some(12), Some(32), Some(992)]);
    }
}
