//! The sequence service of a fake server, with fault injection.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};

use parking_lot::Mutex;
use seq_core::{Epoch, Refusal, RouteVersion, Uid};
use seq_proto::v1::next_stream_response::Outcome;
use seq_proto::v1::sequence_service_server::SequenceService;
use seq_proto::{Reason, convert, status, v1};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};
use tonic_types::StatusExt;

use super::world::World;

/// Limit on the requests that a server records. It is larger than the number of requests that any test checks.
const MAX_SEEN: usize = 4_096;

/// Limit on the messages in flight on one stream. A real server has the same limit.
pub(super) const MAX_HELD: usize = 512;

/// A request as a fake server received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The method, e.g. `NextMany`.
    pub method: &'static str,
    /// The requested uids.
    pub uids: Vec<u64>,
    /// The requested keys.
    pub keys: Vec<Vec<u8>>,
    /// Newest epochs of the items' sections that the caller knows, one for each item.
    pub epochs: Vec<u64>,
    /// Version of the caller's routes, if it keeps routes.
    pub route_version: Option<u64>,
    /// Whether the request carried a timeout.
    pub has_deadline: bool,
}

/// A fault of a response with numbers, which no sound server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// The last number of the first item is 0.
    Numbers,
    /// The response to a batch, or on a stream, lacks the last number of the last item.
    Lists,
    /// The response on a stream has the tag of no message.
    Tag,
}

/// Counts of the requests for numbers or reads that a fake server has received since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of requests. Each message of a stream is a request.
    pub requests: u64,
    /// Number of uids in all these requests.
    pub items: u64,
}

/// The faults of one server, and the requests it received.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) faults: Mutex<Faults>,
    pub(super) held: watch::Sender<bool>,
    pub(super) seen: Mutex<VecDeque<Seen>>,
    pub(super) received: watch::Sender<Received>,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) refusals: VecDeque<Status>,
    /// Refusal of one request in so many, if the refusals of single requests are used up.
    pub(super) one_in: Option<(u64, Status)>,
    pub(super) uids: HashMap<u64, VecDeque<Refusal>>,
    pub(super) keys: HashMap<Vec<u8>, VecDeque<Refusal>>,
    /// Fault of the next response to which it applies.
    pub(super) corruption: Option<Corruption>,
    pub(super) delay: Duration,
    pub(super) no_routes: bool,
    pub(super) no_streams: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Service {
    /// Index of the server's set.
    pub(super) set: usize,
    pub(super) world: Arc<World>,
    pub(super) node: Arc<Node>,
}

impl Node {
    /// Records a request for uids or ids, then injects the configured faults.
    pub(super) async fn admit(
        &self,
        method: &'static str,
        uids: &[u64],
        epochs: &[u64],
        route_version: Option<u64>,
        has_deadline: bool,
    ) -> Result<(), Status> {
        let (uids, epochs) = (uids.to_vec(), epochs.to_vec());
        self.record(Seen { method, uids, keys: Vec::new(), epochs, route_version, has_deadline }).await
    }

    /// Records a request, then injects the configured faults.
    pub(super) async fn record(&self, request: Seen) -> Result<(), Status> {
        let items = request.uids.len() + request.keys.len();
        // The faults are read before the request is visible in `seen`, because a test that has seen the request may
        // already set other faults for the next request.
        let (refusal, delay) = {
            let mut faults = self.faults.lock();
            let refusal = faults.refusals.pop_front().or_else(|| {
                let (every, status) = faults.one_in.as_ref()?;
                self.received.borrow().requests.is_multiple_of(*every).then(|| status.clone())
            });
            (refusal, faults.delay)
        };
        {
            let mut seen = self.seen.lock();
            if seen.len() == MAX_SEEN {
                seen.pop_front();
            }
            seen.push_back(request);
        }
        self.received.send_modify(|received| {
            received.requests += 1;
            received.items += items as u64;
        });
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // The sender is in this node, so the wait ends only when the test releases the request.
        let _ = self.held.subscribe().wait_for(|held| !held).await;
        refusal.map_or(Ok(()), Err)
    }

    fn check(&self, uid: u64) -> Result<(), Refusal> {
        let mut faults = self.faults.lock();
        faults.uids.get_mut(&uid).and_then(VecDeque::pop_front).map_or(Ok(()), Err)
    }

    pub(super) fn check_key(&self, key: &[u8]) -> Result<(), Refusal> {
        let mut faults = self.faults.lock();
        faults.keys.get_mut(key).and_then(VecDeque::pop_front).map_or(Ok(()), Err)
    }

    /// Returns whether the server implements streams.
    pub(super) fn has_streams(&self) -> bool {
        !self.faults.lock().no_streams
    }

    /// Returns whether a response gets the fault `which`. A fault is used up by one response.
    pub(super) fn corrupts(&self, which: Corruption) -> bool {
        self.faults.lock().corruption.take_if(|planted| *planted == which).is_some()
    }

    fn has_routes(&self) -> bool {
        !self.faults.lock().no_routes
    }
}

impl Service {
    pub(super) fn routes(&self, version: Option<u64>) -> Option<v1::Routes> {
        let version = version.filter(|_| self.node.has_routes())?;
        self.world.routes_since(self.set, RouteVersion(version)).as_ref().map(v1::Routes::from)
    }
}

impl Service {
    async fn next_many_response(
        &self,
        request: v1::NextManyRequest,
        has_deadline: bool,
        method: &'static str,
    ) -> Result<v1::NextManyResponse, Status> {
        let v1::NextManyRequest { uids, counts, route_version, hops, known_epochs } = request;
        self.node.admit(method, &uids, &known_epochs, route_version, has_deadline).await?;
        let checked = convert::check_hops(hops).and_then(|()| convert::Items::new(&uids, &counts, &known_epochs));
        let items = checked.map_err(|refusal| status::to_status(&refusal))?;
        let mut response = v1::NextManyResponse { routes: self.routes(route_version), ..Default::default() };
        for ((uid, count, epoch), index) in items.iter().zip(0..) {
            let next = || {
                let count = count?;
                self.node.check(uid.0)?;
                self.world.next(self.set, uid, count, epoch)
            };
            let (value, prev, epoch) = next().unwrap_or_else(|refusal| {
                response.errors.push(status::to_item(index, &refusal));
                Default::default()
            });
            response.values.push(value.0);
            response.prevs.push(prev.0);
            response.epochs.push(epoch.0);
        }
        if self.node.corrupts(Corruption::Numbers) {
            response.values[0] = 0;
        }
        if self.node.corrupts(Corruption::Lists) {
            response.values.pop();
        }
        Ok(response)
    }
}

/// Converts the refusal of a whole message to the refusal of one item, for a response on a stream.
pub(super) fn refusal(status: &Status) -> v1::ItemError {
    let details = status.get_error_details();
    let retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
    v1::ItemError {
        index: 0,
        code: status.code() as u32,
        reason: status::reason(status).unwrap_or_default(),
        message: status.message().to_owned(),
        retry_after_ms: retry_after.map_or(0, |after| after.as_millis() as u32),
        ..v1::ItemError::default()
    }
}

/// Replaces the refusals of items that a real server would keep pending until their deadline, in a response to a
/// message with `now_only`.
pub(super) fn refuse_waits(response: &mut v1::NextManyResponse) {
    let waits = |item: &&mut v1::ItemError| item.reason == Reason::Unserved || item.reason == Reason::StaleEpoch;
    response.errors.iter_mut().filter(waits).for_each(|item| *item = status::would_wait(item.index));
}

pub(super) fn has_deadline<M>(request: &Request<M>) -> bool {
    request.metadata().contains_key("grpc-timeout")
}

#[tonic::async_trait]
impl SequenceService for Service {
    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::NextRequest { uid, count, route_version, epoch, hops, above: _ } = request.into_inner();
        let uid = convert::uid(uid, hops).map_err(|refusal| status::to_status(&refusal))?.0;
        self.node.admit("Next", &[uid], &[epoch], route_version, has_deadline).await?;
        let next = || {
            convert::check_hops(hops)?;
            let count = convert::count(count)?;
            self.node.check(uid)?;
            self.world.next(self.set, Uid(uid), count, Epoch(epoch))
        };
        let (value, prev, epoch) = next().map_err(|refusal| status::to_status(&refusal))?;
        let routes = self.routes(route_version);
        let value = if self.node.corrupts(Corruption::Numbers) { 0 } else { value.0 };
        Ok(Response::new(v1::NextResponse { value, prev: prev.0, epoch: epoch.0, routes, lost: None }))
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        let has_deadline = has_deadline(&request);
        self.next_many_response(request.into_inner(), has_deadline, "NextMany").await.map(Response::new)
    }

    type NextStreamStream = Pin<Box<dyn Stream<Item = Result<v1::NextStreamResponse, Status>> + Send>>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Self::NextStreamStream>, Status> {
        if !self.node.has_streams() {
            return Err(Status::unimplemented(""));
        }
        let service = self.clone();
        // Messages are handled concurrently, as in a real server, so a held message does not block the others.
        let responses = request.into_inner().map(move |message| {
            let service = service.clone();
            async move {
                let v1::NextStreamRequest { tag, request, timeout_ms, now_only } = message?;
                let response =
                    service.next_many_response(request.unwrap_or_default(), timeout_ms > 0, "NextStream").await;
                let outcome = match response {
                    Ok(mut response) => {
                        if now_only {
                            refuse_waits(&mut response);
                        }
                        Outcome::Response(response)
                    }
                    Err(status) => Outcome::Refusal(refusal(&status)),
                };
                let tag = if service.node.corrupts(Corruption::Tag) { u64::MAX } else { tag };
                Ok(v1::NextStreamResponse { tag, outcome: Some(outcome) })
            }
        });
        Ok(Response::new(Box::pin(responses.buffer_unordered(MAX_HELD))))
    }

    async fn current(&self, request: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::CurrentRequest { uid, route_version, epoch, hops } = request.into_inner();
        let uid = convert::uid(uid, hops).map_err(|refusal| status::to_status(&refusal))?.0;
        self.node.admit("Current", &[uid], &[epoch], route_version, has_deadline).await?;
        let current = || {
            convert::check_hops(hops)?;
            self.node.check(uid)?;
            self.world.current(self.set, Uid(uid), Epoch(epoch))
        };
        let (reading, epoch) = current().map_err(|refusal| status::to_status(&refusal))?;
        let routes = self.routes(route_version);
        let exactness = exactness(reading.exact).into();
        Ok(Response::new(v1::CurrentResponse { value: reading.value.0, exactness, epoch: epoch.0, routes }))
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::CurrentManyRequest { uids, route_version, hops, known_epochs } = request.into_inner();
        self.node.admit("CurrentMany", &uids, &known_epochs, route_version, has_deadline).await?;
        let checked = convert::check_hops(hops).and_then(|()| convert::Items::new(&uids, &[], &known_epochs));
        let items = checked.map_err(|refusal| status::to_status(&refusal))?;
        let mut response = v1::CurrentManyResponse { routes: self.routes(route_version), ..Default::default() };
        for ((uid, _, epoch), index) in items.iter().zip(0..) {
            match self.node.check(uid.0).and_then(|()| self.world.current(self.set, uid, epoch)) {
                Ok((reading, epoch)) => {
                    response.values.push(reading.value.0);
                    response.exactness.push(exactness(reading.exact).into());
                    response.epochs.push(epoch.0);
                }
                Err(refusal) => {
                    response.errors.push(status::to_item(index, &refusal));
                    response.values.push(0);
                    response.exactness.push(v1::Exactness::Unspecified.into());
                    response.epochs.push(0);
                }
            }
        }
        Ok(Response::new(response))
    }

    async fn advance(&self, request: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        let has_deadline = has_deadline(&request);
        let v1::AdvanceRequest { uid, to, route_version, epoch, hops } = request.into_inner();
        let uid = convert::uid(uid, hops).map_err(|refusal| status::to_status(&refusal))?.0;
        self.node.admit("Advance", &[uid], &[epoch], route_version, has_deadline).await?;
        let advance = || {
            convert::check_hops(hops)?;
            let to = convert::to(to, hops)?;
            self.node.check(uid)?;
            self.world.advance(self.set, Uid(uid), to, Epoch(epoch))
        };
        let epoch = advance().map_err(|refusal| status::to_status(&refusal))?;
        Ok(Response::new(v1::AdvanceResponse { epoch: epoch.0, routes: self.routes(route_version) }))
    }

    async fn get_routes(
        &self,
        request: Request<v1::GetRoutesRequest>,
    ) -> Result<Response<v1::GetRoutesResponse>, Status> {
        let routes = self.routes(Some(request.into_inner().known_version));
        Ok(Response::new(v1::GetRoutesResponse { routes }))
    }
}

pub(super) fn exactness(exact: bool) -> v1::Exactness {
    if exact { v1::Exactness::Exact } else { v1::Exactness::UpperBound }
}
