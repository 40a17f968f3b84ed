//! The service of ids of a fake server.

use seq_core::Count;
use seq_proto::v1::id_service_server::IdService;
use seq_proto::{Reason, v1};
use tonic::{Request, Response, Status};

use super::series::FakeSeries;
use super::service::{Service, has_deadline};

impl Service {
    /// Records a request for ids. Then calls `apply` with the series that the request names, and returns the response.
    async fn with_series<M, R>(
        &self,
        method: &'static str,
        request: Request<M>,
        name: impl Fn(&M) -> &str,
        apply: impl FnOnce(&mut FakeSeries, &M) -> Result<R, Status>,
    ) -> Result<Response<R>, Status> {
        let has_deadline = has_deadline(&request);
        let message = request.into_inner();
        self.node.admit(method, &[], &[], None, has_deadline).await?;
        let name = name(&message);
        let applied = self.world.with_series(|all| match all.iter_mut().find(|series| series.name() == name) {
            Some(series) => apply(series, &message),
            None => Err(Reason::UnknownSeries.status(format!("no series is named {name:?}"))),
        });
        applied.map(Response::new)
    }
}

#[tonic::async_trait]
impl IdService for Service {
    async fn next(&self, request: Request<v1::NextIdsRequest>) -> Result<Response<v1::NextIdsResponse>, Status> {
        self.with_series(
            "NextIds",
            request,
            |message| &message.series,
            |series, message| {
                let count =
                    Count::new(message.count.max(1)).map_err(|refusal| seq_proto::status::to_status(&refusal))?;
                series.take(count, message.lane, message.after.unwrap_or(0))
            },
        )
        .await
    }

    async fn current(&self, request: Request<v1::CurrentIdRequest>) -> Result<Response<v1::CurrentIdResponse>, Status> {
        self.with_series(
            "CurrentId",
            request,
            |message| &message.series,
            |series, _| {
                let id = series.current()?;
                Ok(v1::CurrentIdResponse { id, exact: true, epoch: 1 })
            },
        )
        .await
    }

    async fn advance(&self, request: Request<v1::AdvanceIdRequest>) -> Result<Response<v1::AdvanceIdResponse>, Status> {
        self.with_series(
            "AdvanceId",
            request,
            |message| &message.series,
            |series, message| {
                series.advance(message.to)?;
                Ok(v1::AdvanceIdResponse { epoch: 1 })
            },
        )
        .await
    }

    async fn decode(&self, _: Request<v1::DecodeIdRequest>) -> Result<Response<v1::DecodeIdResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_series(&self, _: Request<v1::ListSeriesRequest>) -> Result<Response<v1::ListSeriesResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}
