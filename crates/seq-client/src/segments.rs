//! Segments of ids: a handle that fetches ranges of ids before they are needed, and then returns ids from a range
//! without a request.

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

/// Default time for which a fetched range of ids lasts. It is longer than any change of owner takes.
const HOLD: Duration = Duration::from_secs(10);

/// Age above which fetched ids that contain a time are dropped.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Limit on the ids that contain a time in one request.
const MAX_TIMED: u32 = 10_000;

/// Settings of [`Segments`].
#[derive(Clone, Debug)]
#[must_use]
pub struct SegmentsBuilder {
    series: Series,
    hold: Duration,
}

/// Ids that are fetched before they are needed, in ranges that grow with the use of the handle.
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
/// The ids of one handle are unique and increasing. The ids of different handles are unique too, but in no order
/// relative to each other. Fetched ids that are never used are skipped. Their number is at most twice the number of
/// used ids, plus 2. A handle from which only one id is taken skips none.
///
/// A range has enough ids for the time [`SegmentsBuilder::hold`] at the present rate of use, and the next range is
/// fetched when half of the present range is used. So a handle that is in use still returns ids for a while if no node
/// responds. If the ids of the series contain a time, unused ids are dropped a second after they were fetched.
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
    /// Aborts the task when the handle is dropped.
    _task: AbortOnDropHandle<()>,
}

/// The ids of a fetch, with the time at which the response arrived.
type Fetched = Result<(Ids, Instant), CallError>;

impl Series {
    /// Returns the settings of a handle that fetches ids of this series before they are needed. If this [`Series`] was
    /// restricted to a lane or to ids above an id, the handle's ids are restricted in the same way. The handle sends no
    /// request before its first id is taken.
    pub fn segments(&self) -> SegmentsBuilder {
        SegmentsBuilder { series: self.clone(), hold: HOLD }
    }
}

impl SegmentsBuilder {
    /// Sets the time for which a range of ids lasts at the present rate of use. The default is 10 s.
    pub fn hold(self, hold: Duration) -> SegmentsBuilder {
        SegmentsBuilder { hold, ..self }
    }

    /// Opens the handle. Sends nothing.
    #[must_use]
    pub fn open(self) -> Segments {
        let SegmentsBuilder { series, hold } = self;
        let limits = match series.shape() {
            Shape::Counter(_) => Limits { hold, max_age: None, max_size: MAX_COUNT },
            // The next range is fetched while half of the present range is left. If a range lasts for half of the
            // maximum age, its ids are used up before they are too old.
            Shape::Timed(_) => Limits { hold: hold.min(MAX_AGE / 2), max_age: Some(MAX_AGE), max_size: MAX_TIMED },
        };
        Segments { buffer: Buffer::new(limits, series.floor()), series, fetch: None }
    }
}

impl Segments {
    /// Takes the next id if an id has been fetched. Returns `None` if none is left. This is so before the first range
    /// has been fetched, and when the fetched ids run out while no node responds.
    #[inline]
    pub fn try_next(&mut self) -> Option<Id> {
        match self.buffer.quick() {
            Some(id) => Some(id),
            None => self.take(),
        }
    }

    /// Takes the next id. Waits only if no fetched id is left.
    ///
    /// # Errors
    /// [`CallError`] of the fetch of a range. A later call of this method starts another fetch.
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
                // The last fetch failed, so the next fetch begins only after a pause.
                None => tokio::time::sleep_until(self.buffer.retry_at().unwrap_or_else(Instant::now)).await,
            }
        }
    }

    /// Returns the number of ids that were fetched but not used, including ids that were dropped because of their age,
    /// but not ids of a fetch in flight.
    #[must_use]
    pub fn unused(&self) -> u64 {
        self.buffer.unused()
    }

    /// Closes the handle. Returns the number of its unused ids, which are skipped.
    pub fn close(self) -> u64 {
        self.unused()
    }

    fn take(&mut self) -> Option<Id> {
        let finished = self.fetch.as_mut().map(|fetch| fetch.result.try_recv());
        match finished {
            None | Some(Err(oneshot::error::TryRecvError::Empty)) => {}
            // If a fetch failed while fetched ids are left, the failure is ignored and the fetch is repeated later. If
            // no id is left, `next` reports the failure.
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
            // The send fails if the handle was closed.
            let _ = sender.send(fetched);
        });
        self.fetch = Some(Fetching { result, _task: AbortOnDropHandle::new(task) });
    }

    /// Adds the result of the fetch that was in flight to the buffer. `fetched` is `None` if the task of the fetch
    /// ended because its runtime ended.
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
