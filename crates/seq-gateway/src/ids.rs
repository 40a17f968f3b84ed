//! Handlers of requests to `IdService` over gRPC and Connect. For all protocols, ids are taken from an [`IdSource`].

pub(crate) use seq_api::ids::IdRequest;
use seq_api::ids::IdSeries;
use seq_api::service::SequenceService;
use seq_core::Count;
use seq_ids::Id;
use seq_proto::series::SeriesShape;
use seq_proto::v1;

use crate::handlers::{Handlers, RequestContext};

mod quotas;
mod refusal;
mod runs;
mod source;

pub(crate) use refusal::IdRefusal;
pub(crate) use source::{IdContext, IdSource, Ids, MAX_LISTED, parse, parse_after};

impl RequestContext {
    /// Returns the part of this context that a request for ids needs.
    pub(crate) fn of_ids(&self) -> IdContext<'_> {
        IdContext { deadline: self.deadline.at, via: self.via, caller: &self.caller }
    }
}

impl<F: SequenceService> Handlers<F> {
    /// Returns the source of ids.
    pub(crate) fn ids(&self) -> IdSource<'_, F> {
        IdSource { service: &self.service, latency: &self.latency, counts: &self.id_counts }
    }

    pub(crate) async fn next_ids(
        &self,
        context: RequestContext,
        request: v1::NextIdsRequest,
    ) -> Result<v1::NextIdsResponse, IdRefusal> {
        let v1::NextIdsRequest { series, count, lane, after } = request;
        let (source, count) = (self.ids(), Count::new(count.max(1))?);
        let request = IdRequest { series: source.find(&series)?, count, lane, after: after.unwrap_or(0) };
        let Ids { runs, step, epoch, lane } = source.take(context.of_ids(), &request).await?;
        Ok(v1::NextIdsResponse { runs, step, epoch: epoch.0, lane })
    }

    pub(crate) async fn current_id(
        &self,
        context: RequestContext,
        request: v1::CurrentIdRequest,
    ) -> Result<v1::CurrentIdResponse, IdRefusal> {
        let source = self.ids();
        source.current(context.of_ids(), &*source.find(&request.series)?).await
    }

    pub(crate) async fn advance_id(
        &self,
        context: RequestContext,
        request: v1::AdvanceIdRequest,
    ) -> Result<v1::AdvanceIdResponse, IdRefusal> {
        let source = self.ids();
        let series = source.find(&request.series)?;
        let to = Id::new(request.to).ok_or_else(|| IdRefusal::not_an_id(&series, request.to))?;
        let epoch = source.advance(context.of_ids(), &series, to).await?;
        Ok(v1::AdvanceIdResponse { epoch: epoch.0 })
    }

    pub(crate) fn decode_id(
        &self,
        context: &RequestContext,
        request: &v1::DecodeIdRequest,
    ) -> Result<v1::DecodeIdResponse, IdRefusal> {
        let source = self.ids();
        let series = source.find(&request.series)?;
        let id = Id::new(request.id).ok_or_else(|| IdRefusal::not_an_id(&series, request.id))?;
        source.decode(context.of_ids(), &series, id)
    }

    pub(crate) fn list_series(&self, context: &RequestContext) -> Result<v1::ListSeriesResponse, IdRefusal> {
        context.caller.admit_read()?;
        let all = self.service.all_series();
        let series = all.iter().filter(|series| context.caller.has_series(&series.name));
        Ok(v1::ListSeriesResponse { series: series.map(|series| message(series)).collect() })
    }
}

/// Returns the message of a series.
fn message(series: &IdSeries) -> v1::Series {
    let IdSeries { name, shape, named_lanes, ahead_ms, lanes, sections, created_ms, retired } = series;
    let (shape, named_lanes, ahead_ms) = (*shape, *named_lanes, *ahead_ms);
    let shape = Some((&SeriesShape { shape, named_lanes, ahead_ms }).into());
    let lanes = Some(seq_proto::series::lanes(lanes, sections.first));
    v1::Series { name: name.clone(), shape, lanes, created_ms: *created_ms, retired: *retired }
}
