//! Segments: a handle that fetches ranges of ids ahead and gives out their ids without a request.

use std::time::Duration;

use seq_core::limits::MAX_COUNT;
use seq_ids::{Id, Shape};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::error::CallError;
use crate::ids::Ids;
use crate::series::Series;
use buffer::{Buffer, Fetch, Limits, Taken};

mod buffer;

/// Default time for which a fetched range lasts: longer than any change of owner.
const HOLD: Duration = Duration::from_secs(10);

/// Age above which ids with a time are dropped.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Most ids with a time in one request.
const MAX_TIMED: u32 = 10_000;

/// Settings of [`Segments`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SegmentsBuilder {
    series: Series,
    hold: Duration,
}

/// Ids that are fetched ahead, in ranges that grow with their use.
///
/// ```no_run
/// # async fn example(client: seq_client::Client) -> Result<(), seq_client::CallError> {
/// let mut orders = client.series("orders").await?.segments().open();
/// println!("{}", orders.next().await?);
/// if let Some(id) = orders.try_next() {
///     println!("{id} without a request");
/// }
/// # Ok(())
/// # }
/// ```
///
/// The ids of one handle are unique and increase. Ids of different handles are unique, and in no order. Fetched ids
/// that are not used are a gap: at most 2 and twice the used ids, so a handle that gives out one id wastes none.
///
/// A range lasts for [`SegmentsBuilder::hold`] at the present rate, and the next range is fetched when half of it is
/// used, so a handle in use gives out ids while no node responds. Ids with a time are dropped when they were fetched
/// more than a second ago.
#[derive(Debug)]
pub struct Segments {
    series: Series,
    buffer: Buffer,
    fetch: Option<Fetching>,
}

/// A fetch in flight.
#[derive(Debug)]
struct Fetching {
    result: oneshot::Receiver<Fetched>,
    /// Ends the task when the handle is dropped.
    _task: AbortOnDropHandle<()>,
}

/// The ids of a fetch with the time of the response.
type Fetched = Result<(Ids, Instant), CallError>;

impl Series {
    /// Returns the settings of a handle that fetches ids ahead, of the lane and above the id of this series. It sends
    /// no request before its first id is taken.
    pub fn segments(&self) -> SegmentsBuilder {
        SegmentsBuilder { series: self.clone(), hold: HOLD }
    }
}

impl SegmentsBuilder {
    /// Sets the time for which a range lasts at the present rate, 10 s by default.
    pub fn hold(self, hold: Duration) -> SegmentsBuilder {
        SegmentsBuilder { hold, ..self }
    }

    /// Opens the handle. Sends nothing.
    #[must_use]
    pub fn open(self) -> Segments {
        let SegmentsBuilder { series, hold } = self;
        let limits = match series.shape() {
            Shape::Counter(_) => Limits { hold, max_age: None, max_size: MAX_COUNT },
            // A range is fetched while half of the range before is left, and is used before it is dropped.
            Shape::Timed(_) => Limits { hold: hold.min(MAX_AGE / 2), max_age: Some(MAX_AGE), max_size: MAX_TIMED },
        };
        Segments { buffer: Buffer::new(limits, series.floor()), series, fetch: None }
    }
}

impl Segments {
    /// Takes the next id, if one is fetched; `None` while the first ids of the handle, or of a pause in which no node
    /// responds, are being fetched.
    #[inline]
    pub fn try_next(&mut self) -> Option<Id> {
        match self.buffer.quick() {
            Some(id) => Some(id),
            None => self.take(),
        }
    }

    /// Takes the next id. Waits only while none is fetched.
    ///
    /// # Errors
    /// [`CallError`] of the fetch. A later call fetches again.
    ///
    /// # Cancel safety
    /// Dropping the future loses no id.
    pub async fn next(&mut self) -> Result<Id, CallError> {
        loop {
            if let Some(id) = self.try_next() {
                return Ok(id);
            }
            match &mut self.fetch {
                Some(fetch) => {
                    let fetched = (&mut fetch.result).await;
                    self.collect(fetched.ok())?;
                }
                // A fetch has failed a moment ago.
                None => tokio::time::sleep_until(self.buffer.retry_at().unwrap_or_else(Instant::now)).await,
            }
        }
    }

    /// Returns the number of ids that were fetched and not used, with the ids that were dropped with age, and without
    /// the ids of a fetch in flight.
    #[must_use]
    pub fn unused(&self) -> u64 {
        self.buffer.unused()
    }

    /// Closes the handle. Returns the number of its unused ids, which become a gap.
    pub fn close(self) -> u64 {
        self.unused()
    }

    fn take(&mut self) -> Option<Id> {
        let finished = self.fetch.as_mut().map(|fetch| fetch.result.try_recv());
        match finished {
            None | Some(Err(oneshot::error::TryRecvError::Empty)) => {}
            // A failed fetch is repeated while ids are left, and reported by `next` otherwise.
            Some(result) => drop(self.collect(result.ok())),
        }
        let (taken, fetch) = self.buffer.take(Instant::now());
        if let Some(fetch) = fetch {
            self.begin(fetch);
        }
        match taken {
            Taken::Given(id) => Some(id),
            Taken::Wait => None,
        }
    }

    fn begin(&mut self, Fetch { size, after }: Fetch) {
        let series = after.map_or_else(|| self.series.clone(), |after| self.series.after(after));
        let (sender, result) = oneshot::channel();
        let task = self.series.runtime().spawn(async move {
            let fetched = series.take(size).await.map(|ids| (ids, Instant::now()));
            // The handle may be closed.
            let _ = sender.send(fetched);
        });
        self.fetch = Some(Fetching { result, _task: AbortOnDropHandle::new(task) });
    }

    /// Adds the result of the fetch in flight to the buffer; `None` for a task that ended with its runtime.
    fn collect(&mut self, fetched: Option<Fetched>) -> Result<(), CallError> {
        self.fetch = None;
        match fetched {
            Some(Ok((ids, at))) => {
                self.buffer.fetched(ids, at);
                Ok(())
            }
            Some(Err(error)) => {
                self.buffer.failed(Instant::now());
                Err(error)
            }
            None => {
                self.buffer.failed(Instant::now());
                Err(CallError::DeadlineExceeded { attempts: 1, may_have_applied: true })
            }
        }
    }
}
