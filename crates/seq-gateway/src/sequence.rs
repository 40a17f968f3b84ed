//! `SequenceService` over a `Frontend`: check, ask, answer.

use std::sync::Arc;

use seq_core::{Count, Epoch, RouteVersion, Target, Uid};
use seq_kit::frontend::{Ask, Call, Frontend, Via};
use seq_proto::convert::{self, Items};
use seq_proto::{status, v1};
use tonic::{Request, Response, Status, Streaming};

use crate::latency::Latency;
use crate::many;
use crate::routes::RoutesCache;
use crate::stream::Answers;
use crate::timeout;

/// What all calls of one door share.
pub(crate) struct Sequence<F> {
    pub(crate) frontend: F,
    pub(crate) latency: Latency,
    routes: RoutesCache,
}

/// The service of one door.
pub(crate) struct Service<F>(Arc<Sequence<F>>);

impl<F: Frontend> Service<F> {
    pub(crate) fn new(frontend: F, set: &str) -> Service<F> {
        Service(Arc::new(Sequence { frontend, latency: Latency::new(set), routes: RoutesCache::default() }))
    }
}

impl<F: Frontend> Sequence<F> {
    /// What the caller does not know yet of who owns what.
    pub(crate) fn newer_routes(&self, known: Option<u64>) -> Option<v1::Routes> {
        self.routes.newer(&self.frontend, known)
    }
}

/// Reads when the call ends and how it got here.
fn call<T>(request: &Request<T>, hops: u32) -> Result<Call, Status> {
    convert::check_hops(hops).map_err(|refusal| status::to_status(&refusal))?;
    let via = if hops == 0 { Via::Grpc } else { Via::Forwarded };
    Ok(Call { deadline: timeout::deadline(request.metadata()), hops, via })
}

#[tonic::async_trait]
impl<F: Frontend> v1::sequence_service_server::SequenceService for Service<F> {
    async fn next(&self, request: Request<v1::NextRequest>) -> Result<Response<v1::NextResponse>, Status> {
        let shared = &*self.0;
        let call = call(&request, request.get_ref().hops)?;
        let _sample = shared.latency.sample(call.via);
        let request = request.into_inner();
        let count = Count::new(request.count).map_err(|refusal| status::to_status(&refusal))?;
        let ask = Ask { uid: Uid(request.uid), count, epoch: Epoch(request.epoch) };
        let given = shared.frontend.next(call, ask).await.map_err(|refusal| status::to_status(&refusal))?;
        Ok(Response::new(v1::NextResponse {
            value: given.value.0,
            prev: given.prev.0,
            epoch: given.epoch.0,
            routes: shared.newer_routes(request.route_version),
        }))
    }

    async fn next_many(&self, request: Request<v1::NextManyRequest>) -> Result<Response<v1::NextManyResponse>, Status> {
        let shared = &*self.0;
        let call = call(&request, request.get_ref().hops)?;
        let _sample = shared.latency.sample(call.via);
        let request = request.into_inner();
        let items = Items::new(&request.uids, &request.counts, &request.known_epochs)
            .map_err(|refusal| status::to_status(&refusal))?;
        let asks: Vec<_> = items.iter().map(|(uid, count, epoch)| Ok(Ask { uid, count: count?, epoch })).collect();
        let results = shared.frontend.next_many(call, &asks).await;
        Ok(Response::new(many::response(results.into_iter(), shared.newer_routes(request.route_version))))
    }

    type NextStreamStream = Answers<F>;

    async fn next_stream(
        &self,
        request: Request<Streaming<v1::NextStreamRequest>>,
    ) -> Result<Response<Answers<F>>, Status> {
        Ok(Response::new(Answers::new(self.0.clone(), request.into_inner())))
    }

    async fn current(&self, request: Request<v1::CurrentRequest>) -> Result<Response<v1::CurrentResponse>, Status> {
        let shared = &*self.0;
        let call = call(&request, request.get_ref().hops)?;
        let _sample = shared.latency.sample(call.via);
        let request = request.into_inner();
        let current = shared
            .frontend
            .current(call, Uid(request.uid), Epoch(request.epoch))
            .await
            .map_err(|refusal| status::to_status(&refusal))?;
        Ok(Response::new(v1::CurrentResponse {
            value: current.reading.value.0,
            exactness: exactness(current.reading.exact).into(),
            epoch: current.epoch.0,
            routes: shared.newer_routes(request.route_version),
        }))
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let shared = &*self.0;
        let call = call(&request, request.get_ref().hops)?;
        let _sample = shared.latency.sample(call.via);
        let request = request.into_inner();
        convert::check_items(&request.uids).map_err(|refusal| status::to_status(&refusal))?;
        let uids = request.uids.into_iter().map(Uid).collect();
        let results = shared.frontend.current_many(call, uids).await;
        let mut answer = v1::CurrentManyResponse {
            values: Vec::with_capacity(results.len()),
            exactness: Vec::with_capacity(results.len()),
            epochs: Vec::with_capacity(results.len()),
            errors: Vec::new(),
            routes: shared.newer_routes(request.route_version),
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
        Ok(Response::new(answer))
    }

    async fn advance(&self, request: Request<v1::AdvanceRequest>) -> Result<Response<v1::AdvanceResponse>, Status> {
        let shared = &*self.0;
        let call = call(&request, request.get_ref().hops)?;
        let _sample = shared.latency.sample(call.via);
        let request = request.into_inner();
        let to = Target::new(request.to).map_err(|refusal| status::to_status(&refusal))?;
        let epoch = shared
            .frontend
            .advance(call, Uid(request.uid), to, Epoch(request.epoch))
            .await
            .map_err(|refusal| status::to_status(&refusal))?;
        let routes = shared.newer_routes(request.route_version);
        Ok(Response::new(v1::AdvanceResponse { epoch: epoch.0, routes }))
    }

    async fn get_routes(
        &self,
        request: Request<v1::GetRoutesRequest>,
    ) -> Result<Response<v1::GetRoutesResponse>, Status> {
        let known = RouteVersion(request.into_inner().known_version);
        Ok(Response::new(v1::GetRoutesResponse { routes: self.0.newer_routes(Some(known.0)) }))
    }
}

fn exactness(exact: bool) -> v1::Exactness {
    if exact { v1::Exactness::Exact } else { v1::Exactness::UpperBound }
}
