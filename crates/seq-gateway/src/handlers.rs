//! The calls of `SequenceService` over a `Frontend`, whatever protocol they came in by: check, ask, answer.

use seq_core::{Epoch, Refusal, RouteVersion, Target, Uid};
use seq_kit::frontend::{Ask, Call, Frontend, Via};
use seq_proto::convert::{self, Items};
use seq_proto::{status, v1};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::latency::Latency;
use crate::many;
use crate::routes::RoutesCache;

/// What all calls of one door share.
pub(crate) struct Sequence<F> {
    pub(crate) frontend: F,
    pub(crate) latency: Latency,
    /// Cancelled when the door closes.
    pub(crate) closing: CancellationToken,
    /// Whether a GET takes numbers, too.
    pub(crate) get_takes: bool,
    routes: RoutesCache,
}

/// How a call came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Until when it may be held.
    pub(crate) deadline: Instant,
    /// The way that callers take.
    pub(crate) via: Via,
}

impl Arrival {
    fn call(self, hops: u32) -> Result<Call, Refusal> {
        convert::check_hops(hops)?;
        let via = if hops == 0 { self.via } else { Via::Forwarded };
        Ok(Call { deadline: self.deadline, hops, via })
    }
}

impl<F: Frontend> Sequence<F> {
    pub(crate) fn new(frontend: F, set: &str, closing: CancellationToken, get_takes: bool) -> Sequence<F> {
        Sequence { frontend, latency: Latency::new(set), closing, get_takes, routes: RoutesCache::default() }
    }

    /// What the caller does not know yet of who owns what.
    pub(crate) fn newer_routes(&self, known: Option<u64>) -> Option<v1::Routes> {
        self.routes.newer(&self.frontend, known)
    }

    pub(crate) async fn next(&self, arrival: Arrival, request: v1::NextRequest) -> Result<v1::NextResponse, Refusal> {
        let call = arrival.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let ask = Ask { uid: Uid(request.uid), count: convert::count(request.count)?, epoch: Epoch(request.epoch) };
        let given = self.frontend.next(call, ask).await?;
        Ok(v1::NextResponse {
            value: given.value.0,
            prev: given.prev.0,
            epoch: given.epoch.0,
            routes: self.newer_routes(request.route_version),
            lost: Some(given.lost).filter(|lost| *lost > 0),
        })
    }

    pub(crate) async fn next_many(
        &self,
        arrival: Arrival,
        request: v1::NextManyRequest,
    ) -> Result<v1::NextManyResponse, Refusal> {
        let call = arrival.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let items = Items::new(&request.uids, &request.counts, &request.known_epochs)?;
        let asks: Vec<_> = items.iter().map(|(uid, count, epoch)| Ok(Ask { uid, count: count?, epoch })).collect();
        let results = self.frontend.next_many(call, &asks).await;
        Ok(many::response(results.into_iter().map(Some), self.newer_routes(request.route_version)))
    }

    pub(crate) async fn current(
        &self,
        arrival: Arrival,
        request: v1::CurrentRequest,
    ) -> Result<v1::CurrentResponse, Refusal> {
        let call = arrival.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let current = self.frontend.current(call, Uid(request.uid), Epoch(request.epoch)).await?;
        Ok(v1::CurrentResponse {
            value: current.reading.value.0,
            exactness: exactness(current.reading.exact).into(),
            epoch: current.epoch.0,
            routes: self.newer_routes(request.route_version),
        })
    }

    pub(crate) async fn current_many(
        &self,
        arrival: Arrival,
        request: v1::CurrentManyRequest,
    ) -> Result<v1::CurrentManyResponse, Refusal> {
        let call = arrival.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        convert::check_items(&request.uids)?;
        let uids = request.uids.into_iter().map(Uid).collect();
        let results = self.frontend.current_many(call, uids).await;
        let mut answer = v1::CurrentManyResponse {
            values: Vec::with_capacity(results.len()),
            exactness: Vec::with_capacity(results.len()),
            epochs: Vec::with_capacity(results.len()),
            errors: Vec::new(),
            routes: self.newer_routes(request.route_version),
        };
        for (index, result) in (0..).zip(results) {
            let (value, exactness, epoch) = match result {
                Ok(current) => (current.reading.value.0, exactness(current.reading.exact), current.epoch.0),
                Err(refusal) => {
                    answer.errors.push(status::to_item(index, &refusal));
                    (0, v1::Exactness::Unspecified, 0)
                }
            };
            answer.values.push(value);
            answer.exactness.push(exactness.into());
            answer.epochs.push(epoch);
        }
        Ok(answer)
    }

    pub(crate) async fn advance(
        &self,
        arrival: Arrival,
        request: v1::AdvanceRequest,
    ) -> Result<v1::AdvanceResponse, Refusal> {
        let call = arrival.call(request.hops)?;
        let _sample = self.latency.sample(call.via);
        let to = Target::new(request.to)?;
        let epoch = self.frontend.advance(call, Uid(request.uid), to, Epoch(request.epoch)).await?;
        Ok(v1::AdvanceResponse { epoch: epoch.0, routes: self.newer_routes(request.route_version) })
    }

    pub(crate) fn get_routes(&self, request: v1::GetRoutesRequest) -> v1::GetRoutesResponse {
        let known = RouteVersion(request.known_version);
        v1::GetRoutesResponse { routes: self.newer_routes(Some(known.0)) }
    }
}

fn exactness(exact: bool) -> v1::Exactness {
    if exact { v1::Exactness::Exact } else { v1::Exactness::UpperBound }
}
