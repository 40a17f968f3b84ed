//! Handlers of requests for numbers, for all protocols. A handler validates the request, calls the `SequenceService`,
//! and builds the response.

use std::sync::Arc;

use prost::Message;
use seq_api::service::{Call, Item, Redirects, SequenceService, Via};
use seq_core::{Epoch, Refusal, RouteVersion, Seq};
use seq_kit::connection::Peer;
use seq_kit::http::Checks;
use seq_kit::tasks::TaskGroup;
use seq_proto::convert::{self, Items};
use seq_proto::{Reason, v1};
use seq_tenant::{Caller, Session, Tenants, Token};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::batch_response;
use crate::id_counts::IdCounts;
use crate::latency::Latency;
use crate::memory::Memory;
use crate::routes::RoutesCache;
use crate::timeout::Deadline;

/// The handlers of one endpoint, with the state that they share.
pub(crate) struct Handlers<F> {
    pub(crate) service: F,
    pub(crate) latency: Latency,
    pub(crate) id_counts: Arc<IdCounts>,
    /// Cancelled when the endpoint shuts down.
    pub(crate) closing: CancellationToken,
    /// Whether a GET request may allocate numbers.
    pub(crate) allocate_on_get: bool,
    /// The tenants to which callers belong; `None` if every caller may use every uid.
    tenants: Option<Tenants>,
    ready: Checks,
    routes: RoutesCache,
}

/// Context of a request, in addition to its message.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// Time until which the request may wait for its response.
    pub(crate) deadline: Deadline,
    /// Protocol over which the request arrived. It is used for the metrics if no other node forwarded the request.
    pub(crate) via: Via,
    pub(crate) caller: Caller,
    pub(crate) memory: Memory,
}

impl RequestContext {
    pub(crate) fn call(&self, hops: u32) -> Result<Call, Refusal> {
        convert::check_hops(hops)?;
        let via = if hops == 0 { self.via } else { Via::Forwarded };
        Ok(Call { deadline: self.deadline.at, hops, redirects: Redirects::Forward, via })
    }
}

impl<F: SequenceService> Handlers<F> {
    pub(crate) fn new(
        service: F,
        set: &str,
        group: &TaskGroup,
        allocate_on_get: bool,
        tenants: Option<Tenants>,
        ready: Checks,
    ) -> Handlers<F> {
        let (latency, routes) = (Latency::new(set), RoutesCache::default());
        let (id_counts, closing) = (IdCounts::start(set, group), group.token());
        Handlers { service, latency, id_counts, closing, allocate_on_get, tenants, ready, routes }
    }

    /// Returns whether a load balancer may send requests to this node. Records the call as a probe.
    pub(crate) fn is_ready(&self) -> bool {
        !self.closing.is_cancelled() && self.ready.probe()
    }

    /// Returns whether each HTTP/1.1 connection is closed after its next response. This is so while the node leaves. If
    /// the connection were closed at another time, a request on it could be lost.
    pub(crate) fn ends_connections(&self) -> bool {
        self.ready.departure().ends_connections()
    }

    /// Returns the sender of a request. `peer` is the peer of the request's connection, and `authorization` the value
    /// of the request's header of this name.
    ///
    /// # Errors
    /// The sender belongs to no tenant, or its tenant has too many connections.
    pub(crate) fn caller(&self, peer: Option<&Peer>, authorization: Option<&[u8]>) -> Result<Caller, Status> {
        match &self.tenants {
            None => Ok(Caller::Unlimited),
            Some(tenants) => tenants.caller(peer, token(authorization)?),
        }
    }

    /// Returns the sender of all messages of a stream, as [`Handlers::caller`] does for one request.
    ///
    /// # Errors
    /// The errors of [`Handlers::caller`].
    pub(crate) fn session(&self, peer: Option<&Peer>, authorization: Option<&[u8]>) -> Result<Session, Status> {
        match &self.tenants {
            None => Ok(Session::unlimited()),
            Some(tenants) => tenants.session(peer, token(authorization)?),
        }
    }

    /// Returns the routes that are newer than the version `known` of the caller's routes; `None` if there are none.
    pub(crate) fn newer_routes(&self, known: Option<u64>) -> Option<v1::Routes> {
        self.routes.newer(&self.service, known)
    }

    pub(crate) async fn next(
        &self,
        context: RequestContext,
        request: v1::NextRequest,
    ) -> Result<v1::NextResponse, Refusal> {
        let call = context.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let uid = convert::uid(request.uid, request.hops)?;
        let item = Item { uid, count: convert::count(request.count)?, epoch: Epoch(request.epoch) };
        let item = context.caller.admit_one(item)?;
        let allocation = match request.above {
            // The uid of such a request is the address of a lane. Only nodes send requests with these addresses.
            Some(above) if request.hops > 0 => self.service.next_in_lane(call, item, Seq(above).min(Seq::MAX)).await?,
            _ => self.service.next(call, item).await?,
        };
        Ok(v1::NextResponse {
            value: allocation.value.0,
            prev: allocation.prev.0,
            epoch: allocation.epoch.0,
            routes: self.newer_routes(request.route_version),
            lost: Some(allocation.lost).filter(|lost| *lost > 0),
        })
    }

    pub(crate) async fn next_many(
        &self,
        context: RequestContext,
        request: v1::NextManyRequest,
    ) -> Result<v1::NextManyResponse, Refusal> {
        let call = context.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let items = Items::new(&request.uids, &request.counts, &request.known_epochs)?;
        context.memory.add_items(request.uids.len())?;
        let mut items: Vec<_> =
            items.iter().map(|(uid, count, epoch)| Ok(Item { uid, count: count?, epoch })).collect();
        context.caller.admit(&mut items);
        let results = self.service.next_many(call, &items).await;
        Ok(batch_response::encode(
            results.into_iter().map(Some),
            Some(context.deadline),
            self.newer_routes(request.route_version),
        ))
    }

    pub(crate) async fn current(
        &self,
        context: RequestContext,
        request: v1::CurrentRequest,
    ) -> Result<v1::CurrentResponse, Refusal> {
        let call = context.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let uid = convert::uid(request.uid, request.hops)?;
        context.caller.admit_read()?;
        context.caller.admit_uid(uid)?;
        let current = self.service.current(call, uid, Epoch(request.epoch)).await?;
        Ok(v1::CurrentResponse {
            value: current.reading.value.0,
            exactness: exactness(current.reading.exact).into(),
            epoch: current.epoch.0,
            routes: self.newer_routes(request.route_version),
        })
    }

    pub(crate) async fn current_many(
        &self,
        context: RequestContext,
        request: v1::CurrentManyRequest,
    ) -> Result<v1::CurrentManyResponse, Refusal> {
        let call = context.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let items = Items::new(&request.uids, &[], &request.known_epochs)?;
        context.memory.add_items(request.uids.len())?;
        context.caller.admit_read()?;
        let admitted: Vec<_> =
            items.iter().map(|(uid, _, epoch)| context.caller.admit_uid(uid).map(|()| (uid, epoch))).collect();
        let uids = admitted.iter().flatten().copied().collect();
        let mut read = self.service.current_many(call, uids).await.into_iter();
        let results = admitted.into_iter().map(|uid| uid.and_then(|_| read.next().expect("a result for each uid")));
        let mut response = v1::CurrentManyResponse {
            values: Vec::with_capacity(request.uids.len()),
            exactness: Vec::with_capacity(request.uids.len()),
            epochs: Vec::with_capacity(request.uids.len()),
            errors: Vec::new(),
            routes: self.newer_routes(request.route_version),
        };
        for (index, result) in (0..).zip(results) {
            let (value, exactness, epoch) = match result {
                Ok(current) => (current.reading.value.0, exactness(current.reading.exact), current.epoch.0),
                Err(refusal) => {
                    response.errors.push(context.deadline.item(index, &refusal));
                    (0, v1::Exactness::Unspecified, 0)
                }
            };
            response.values.push(value);
            response.exactness.push(exactness.into());
            response.epochs.push(epoch);
        }
        Ok(response)
    }

    pub(crate) async fn advance(
        &self,
        context: RequestContext,
        request: v1::AdvanceRequest,
    ) -> Result<v1::AdvanceResponse, Refusal> {
        let call = context.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let uid = convert::uid(request.uid, request.hops)?;
        let to = convert::to(request.to, request.hops)?;
        context.caller.admit_advance(&self.service, call, uid, to).await?;
        let epoch = self.service.advance(call, uid, to, Epoch(request.epoch)).await?;
        Ok(v1::AdvanceResponse { epoch: epoch.0, routes: self.newer_routes(request.route_version) })
    }

    pub(crate) fn get_routes(
        &self,
        context: &RequestContext,
        request: v1::GetRoutesRequest,
    ) -> Result<v1::GetRoutesResponse, Refusal> {
        let known = RouteVersion(request.known_version);
        let response = v1::GetRoutesResponse { routes: self.newer_routes(Some(known.0)) };
        context.memory.add_response(response.encoded_len())?;
        Ok(response)
    }
}

/// Returns the token in the value of the header `authorization`; `None` without the header.
fn token(authorization: Option<&[u8]>) -> Result<Option<Token<'_>>, Status> {
    let Some(header) = authorization else { return Ok(None) };
    let token = std::str::from_utf8(header).ok().and_then(Token::bearer);
    token.map(Some).ok_or_else(|| Reason::UnknownToken.status("authorization: not \"Bearer TOKEN\""))
}

pub(crate) fn exactness(exact: bool) -> v1::Exactness {
    if exact { v1::Exactness::Exact } else { v1::Exactness::UpperBound }
}
