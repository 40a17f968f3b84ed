//! Calls for the ids of a series. They can be sent to any node of the cluster. Deadlines and retries are the same as
//! those of calls for numbers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use seq_channel::CallerChannel;
use seq_core::limits::MAX_COUNT;
use seq_ids::{Id, Parts, Shape};
use seq_proto::series::SeriesShape;
use seq_proto::v1::id_service_client::IdServiceClient;
use seq_proto::{Reason, v1};
use tokio::runtime::Handle;
use tonic::{Code, Request, Response, Status};

use crate::attempts::{Attempts, IdTarget};
use crate::client::Client;
use crate::directory::sections::SetIndex;
use crate::directory::series::KnownSeries;
use crate::discovery;
use crate::error::{CallError, Refused};
use crate::ids::{CurrentId, DecodedId, Ids};

/// The client of the node to which an attempt is sent.
type Node = IdServiceClient<CallerChannel>;

/// A series of ids. Clones share the connections of the client that opened the series. [`Series::lane`] and
/// [`Series::after`] return handles of the same series with other settings.
///
/// ```no_run
/// # async fn example(client: seq_client::Client) -> Result<(), seq_client::CallError> {
/// let tweets = client.series("tweets").await?;
/// let id = tweets.next().await?;
/// for reply in tweets.after(id).take(3).await? {
///     println!("{reply} is above {id}, of {:?}", tweets.decode(reply)?.time);
/// }
/// // The caller names the lanes of some series, for example the shard of a user.
/// let media = client.series("media").await?.lane(1341);
/// println!("{}", media.next().await?);
/// # Ok(())
/// # }
/// ```
///
/// # Retries
/// Any node serves a call. A failed attempt is repeated in the same way as by [`Client`]. If a response is lost, the
/// ids in it are skipped and never allocated again.
///
/// # Cancel safety
/// Dropping the future of a call abandons the call. The call may have consumed ids.
#[derive(Clone, Debug)]
pub struct Series {
    client: Client,
    /// The set that was the first to send the routes of the series' cluster.
    home: SetIndex,
    known: Arc<KnownSeries>,
    shape: SeriesShape,
    lane: Option<u32>,
    /// Number above which all ids of this handle are; 0 if there is no such bound.
    after: u64,
}

impl Client {
    /// Returns the series with the name `name`. Sends a request only if the client does not know the series yet.
    ///
    /// # Errors
    /// [`CallError::Refused`] with `UNKNOWN_SERIES` if the seeds do not know a series of this name. They know a new
    /// series within a second of its creation.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn series(&self, name: &str) -> Result<Series, CallError> {
        if let Some(known) = self.known_series(name) {
            return Ok(known);
        }
        discovery::refresh(self.shared(), self.attempts().deadline()).await;
        self.known_series(name).ok_or_else(|| {
            let text = format!("no series that this client can use is named {name:?}: `seqsvr series list` lists them");
            let reason = Reason::UnknownSeries;
            refusal(reason.name(), reason.code(), text)
        })
    }

    /// Returns the series with the name `name`; `None` if the newest routes do not have it. Sends no request.
    #[must_use]
    pub fn known_series(&self, name: &str) -> Option<Series> {
        let directory = self.shared().routes.load();
        let (home, known) = directory.series().find(|(_, known)| known.record.name == name)?;
        Series::new(self, home, known)
    }

    /// Returns all series in the newest routes, in the order in which they were created. Sends no request.
    #[must_use]
    pub fn all_known_series(&self) -> Vec<Series> {
        let directory = self.shared().routes.load();
        directory.series().filter_map(|(home, known)| Series::new(self, home, known)).collect()
    }
}

impl Series {
    /// Creates the handle of a series; `None` if only later releases know the shape of the series.
    fn new(client: &Client, home: SetIndex, known: &Arc<KnownSeries>) -> Option<Series> {
        let (known, shape) = (known.clone(), known.shape?);
        Some(Series { client: client.clone(), home, known, shape, lane: None, after: 0 })
    }

    /// Returns the record of this series in the routes. Proxies use it.
    #[must_use]
    pub fn record(&self) -> &seq_core::series::Series {
        &self.known.record
    }

    /// Returns the shape of this series and the rules by which its ids are allocated. Proxies use them.
    #[must_use]
    pub fn rules(&self) -> SeriesShape {
        self.shape
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.known.record.name
    }

    /// Returns the shape of the ids.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape.shape
    }

    /// Returns a handle of the same series that allocates ids of the given lane. In a series whose callers name lanes,
    /// calls without a lane are refused. In any other series, calls with a lane are refused.
    #[must_use]
    pub fn lane(&self, lane: u32) -> Series {
        Series { lane: Some(lane), ..self.clone() }
    }

    /// Returns a handle of the same series that allocates only ids greater than `id`.
    #[must_use]
    pub fn after(&self, id: Id) -> Series {
        Series { after: id.get(), ..self.clone() }
    }

    /// Takes the next id.
    ///
    /// # Errors
    /// [`CallError`]. If [`CallError::may_have_applied`] returns `true`, an id may have been consumed, which is then
    /// skipped.
    pub async fn next(&self) -> Result<Id, CallError> {
        self.take(1).await.map(|ids| ids.last_id())
    }

    /// Takes the next `count` ids. `count` is in `1 ..= 1_000_000`, or in `1 ..= 10_000` if the ids of the series
    /// contain a time. All these ids are of the same lane and in ascending order.
    ///
    /// # Errors
    /// [`CallError`]. If [`CallError::may_have_applied`] returns `true`, ids may have been consumed, which are then
    /// skipped.
    pub async fn take(&self, count: u32) -> Result<Ids, CallError> {
        self.take_by(&mut self.client.attempts(), count).await
    }

    /// Takes the next `count` ids as [`Series::take`] does, but with the attempts of `attempts`, which the caller
    /// created.
    pub(crate) async fn take_by(&self, attempts: &mut Attempts<'_>, count: u32) -> Result<Ids, CallError> {
        if !(1..=MAX_COUNT).contains(&count) {
            return Err(CallError::CountOutOfRange { uid: None, count });
        }
        let Series { lane, after, .. } = *self;
        let request = v1::NextIdsRequest {
            series: self.name().to_owned(),
            count,
            lane,
            after: Some(after).filter(|after| *after > 0),
        };
        let next = |mut node: Node, request| async move { node.next(request).await };
        let (response, addr) = self.call(attempts, request, next).await?;
        Ids::checked(response, count, after, &addr)
    }

    /// Reads the last id of a counter. Changes nothing.
    ///
    /// # Errors
    /// [`CallError`]. A series whose ids contain a time is refused with `NOT_A_COUNTER`.
    pub async fn current(&self) -> Result<CurrentId, CallError> {
        let request = v1::CurrentIdRequest { series: self.name().to_owned() };
        let current = |mut node: Node, request| async move { node.current(request).await };
        let (response, addr) = self.call(&mut self.client.attempts(), request, current).await?;
        let v1::CurrentIdResponse { id, exact, epoch } = response;
        let what = "a last id above 2^63-1";
        match (id, Id::new(id)) {
            (1.., None) => Err(CallError::BadAnswer { addr, what }),
            (_, id) => Ok(CurrentId { id, exact, epoch }),
        }
    }

    /// Raises a counter to one of its ids, so that the counter's next id is greater than `id`. This is used to import
    /// counters. It is idempotent. Returns the epoch of the ownership that applied the advance, 1 or above.
    ///
    /// # Errors
    /// [`CallError`]. `ALREADY_PAST` means that the last id of the counter is greater than `id`; see
    /// [`Client::advance`].
    pub async fn advance(&self, id: Id) -> Result<u64, CallError> {
        self.advance_by(&mut self.client.attempts(), id).await
    }

    /// Raises a counter as [`Series::advance`] does, but with the attempts of `attempts`, which the caller created.
    pub(crate) async fn advance_by(&self, attempts: &mut Attempts<'_>, id: Id) -> Result<u64, CallError> {
        let request = v1::AdvanceIdRequest { series: self.name().to_owned(), to: id.get() };
        let advance = |mut node: Node, request| async move { node.advance(request).await };
        let (response, _) = self.call(attempts, request, advance).await?;
        Ok(response.epoch)
    }

    /// Returns the parts of an id. Sends no request.
    ///
    /// # Errors
    /// [`CallError::Refused`] with `NOT_AN_ID` if the number is not an id of the series.
    pub fn decode(&self, id: Id) -> Result<DecodedId, CallError> {
        let Some(Parts { lane, value, timed }) = self.shape().parts(id) else {
            let text = format!("{id} is no id of series {:?}, whose ids are {}", self.name(), self.shape());
            return Err(refusal(Reason::NotAnId.name(), Reason::NotAnId.code(), text));
        };
        let (unix_ms, seq) = timed.unzip();
        let time = unix_ms.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
        Ok(DecodedId { lane, number: value, time, seq })
    }

    /// Returns the id above which all ids of this handle are.
    pub(crate) fn floor(&self) -> Option<Id> {
        Id::new(self.after)
    }

    /// Returns the client that opened the series.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the runtime that drives the client's connections.
    pub(crate) fn runtime(&self) -> &Handle {
        self.client.shared().pool.runtime()
    }

    /// Sends a request to one node of the cluster after another until a node responds. Returns the response and the
    /// address of the node that responded.
    async fn call<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        attempts: &mut Attempts<'_>,
        message: M,
        send: impl Fn(Node, Request<M>) -> F,
    ) -> Result<(R, Arc<str>), CallError> {
        loop {
            let IdTarget { addr, client } = attempts.id_target(self.home)?;
            let request = attempts.request(message.clone());
            match attempts.attempt(send(client, request)).await {
                Ok(response) => return Ok((response, addr)),
                Err(failed) => attempts.prepare_retry(None, &addr, failed).await?,
            }
        }
    }
}

/// Returns a refusal that the client itself creates, without sending a request.
pub(crate) fn refusal(reason: &str, code: Code, message: String) -> CallError {
    CallError::Refused(Box::new(Refused {
        uid: None,
        code,
        reason: reason.to_owned(),
        message,
        retry_after: None,
        bound: None,
        attempts: 0,
        may_have_applied: false,
    }))
}
