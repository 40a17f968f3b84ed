//! Request handlers of `IdService`, for all protocols: they find the series and the lane, take numbers from it, and
//! make ids of the numbers.

use std::sync::Arc;
use std::time::Duration;

use seq_api::ids::IdSeries;
use seq_api::service::{Call, Item, SequenceService, Via};
use seq_core::{Count, Epoch, Refusal, Seq, Target};
use seq_ids::{Id, Shape};
use seq_proto::series::SeriesShape;
use seq_proto::v1;
use tokio::time::Instant;

use crate::handlers::{Handlers, RequestContext};

mod refusal;
mod runs;

pub(crate) use refusal::IdRefusal;

/// Most ids of a timed series in one request: with more, a lane of 1,024 ids a millisecond would be ten milliseconds
/// ahead of its clock.
const MAX_TIMED: u32 = 10_000;

/// Lanes that a request tries before it waits, because the first ones are too far ahead of the clock.
const TRIED_LANES: usize = 4;

/// Wait for the clock when lanes are too far ahead of it: the unit of most clocks.
const AHEAD_WAIT: Duration = Duration::from_millis(1);

/// A request for ids.
#[derive(Clone, Debug)]
pub(crate) struct IdRequest {
    pub(crate) series: Arc<IdSeries>,
    pub(crate) count: Count,
    /// The lane that the caller names.
    pub(crate) lane: Option<u32>,
    /// All ids are above this one.
    pub(crate) after: u64,
}

/// Ids of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) runs: Vec<v1::IdRun>,
    pub(crate) step: u64,
    pub(crate) epoch: Epoch,
    pub(crate) lane: u32,
}

impl Ids {
    /// Returns the ids, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|index| run.first + index * self.step))
    }
}

impl<F: SequenceService> Handlers<F> {
    pub(crate) async fn next_ids(
        &self,
        context: RequestContext,
        request: v1::NextIdsRequest,
    ) -> Result<v1::NextIdsResponse, IdRefusal> {
        let v1::NextIdsRequest { series, count, lane, after } = request;
        let count = Count::new(count.max(1))?;
        let request = IdRequest { series: self.find_series(&series)?, count, lane, after: after.unwrap_or(0) };
        let Ids { runs, step, epoch, lane } = self.take_ids(&context, &request).await?;
        Ok(v1::NextIdsResponse { runs, step, epoch: epoch.0, lane })
    }

    pub(crate) async fn current_id(
        &self,
        context: RequestContext,
        request: v1::CurrentIdRequest,
    ) -> Result<v1::CurrentIdResponse, IdRefusal> {
        let series = self.find_series(&request.series)?;
        let Shape::Counter(_) = series.shape else {
            return Err(IdRefusal::NotACounter { series: series.name.clone() });
        };
        context.caller.admit_read()?;
        let current = self.service.current(call(&context), series.address(0), Epoch(0)).await?;
        let id = match current.reading.value {
            Seq::ZERO => 0,
            value => series.shape.id(0, value.0).map_or_else(|ended| ended.last, Id::get),
        };
        Ok(v1::CurrentIdResponse { id, exact: current.reading.exact, epoch: current.epoch.0 })
    }

    pub(crate) async fn advance_id(
        &self,
        context: RequestContext,
        request: v1::AdvanceIdRequest,
    ) -> Result<v1::AdvanceIdResponse, IdRefusal> {
        let series = self.find_series(&request.series)?;
        let Shape::Counter(_) = series.shape else {
            return Err(IdRefusal::NotACounter { series: series.name.clone() });
        };
        if series.retired {
            return Err(IdRefusal::Retired { series: series.name.clone() });
        }
        let parts = Id::new(request.to).and_then(|id| series.shape.parts(id));
        let parts = parts.ok_or_else(|| IdRefusal::not_an_id(&series, request.to))?;
        let (call, to) = (call(&context), Target::new(parts.value)?);
        context.caller.admit_advance(&self.service, call, series.address(0), to).await?;
        let epoch = self.service.advance(call, series.address(0), to, Epoch(0)).await?;
        Ok(v1::AdvanceIdResponse { epoch: epoch.0 })
    }

    pub(crate) fn decode_id(
        &self,
        context: &RequestContext,
        request: &v1::DecodeIdRequest,
    ) -> Result<v1::DecodeIdResponse, IdRefusal> {
        context.caller.admit_read()?;
        let series = self.find_series(&request.series)?;
        let parts = Id::new(request.id).and_then(|id| series.shape.parts(id));
        let parts = parts.ok_or_else(|| IdRefusal::not_an_id(&series, request.id))?;
        let (unix_ms, seq) = parts.timed.unzip();
        Ok(v1::DecodeIdResponse { lane: parts.lane, number: parts.value, unix_ms, seq })
    }

    pub(crate) fn list_series(&self, context: &RequestContext) -> Result<v1::ListSeriesResponse, IdRefusal> {
        context.caller.admit_read()?;
        Ok(v1::ListSeriesResponse { series: self.service.all_series().iter().map(|series| message(series)).collect() })
    }

    /// Returns the series of a request.
    ///
    /// # Errors
    /// [`IdRefusal::UnknownSeries`].
    pub(crate) fn find_series(&self, name: &str) -> Result<Arc<IdSeries>, IdRefusal> {
        self.service.series(name).ok_or_else(|| IdRefusal::UnknownSeries { series: name.to_owned() })
    }

    /// Takes ids. If no more ids of a lane are near enough to the clock, other lanes are tried if the node chooses, and
    /// then the request waits.
    pub(crate) async fn take_ids(&self, context: &RequestContext, request: &IdRequest) -> Result<Ids, IdRefusal> {
        let IdRequest { series, count, lane, after } = request;
        check(request)?;
        let call = call(context);
        let _sample = self.latency.sample(call.via);
        let item = Item { uid: series.address(0), count: *count, epoch: Epoch(0) };
        // The quota of a tenant counts ids; its uids say nothing of series.
        context.caller.admit_ids(item)?;
        let mut tried = 0_usize;
        loop {
            tried += 1;
            let lane = match lane {
                Some(lane) => *lane,
                None => self.service.choose_lane(series).unwrap_or(0),
            };
            let above = above(series, lane, *after)?;
            let item = Item { uid: series.address(lane), ..item };
            match self.service.next_in_lane(call, item, Seq(above)).await {
                Ok(taken) => return runs::ids(series, lane, taken.value, *count, taken.epoch),
                Err(Refusal::LaneAhead { .. }) if request.lane.is_none() && !tried.is_multiple_of(TRIED_LANES) => {}
                Err(Refusal::LaneAhead { .. }) if Instant::now() + AHEAD_WAIT < call.deadline => {
                    tokio::time::sleep(AHEAD_WAIT).await;
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
    }
}

/// Checks a request against its series.
fn check(request: &IdRequest) -> Result<(), IdRefusal> {
    let IdRequest { series, count, lane, after } = request;
    let name = || series.name.clone();
    if series.retired {
        return Err(IdRefusal::Retired { series: name() });
    }
    if *after > Id::MAX {
        return Err(IdRefusal::not_an_id(series, *after));
    }
    if matches!(series.shape, Shape::Timed(_)) && count.get() > MAX_TIMED {
        return Err(IdRefusal::TooMany { count: count.get(), most: MAX_TIMED });
    }
    match lane {
        None if series.named_lanes => Err(IdRefusal::LaneRequired { series: name(), lanes: series.lanes.count }),
        Some(lane) if !series.named_lanes => Err(IdRefusal::LaneNotAllowed { series: name(), lane: *lane }),
        Some(lane) if *lane >= series.lanes.count => {
            Err(IdRefusal::LaneOutOfRange { series: name(), lane: *lane, lanes: series.lanes.count })
        }
        _ => Ok(()),
    }
}

/// Returns the number that all numbers of a lane must be above, so that their ids are above `after`.
fn above(series: &IdSeries, lane: u32, after: u64) -> Result<u64, IdRefusal> {
    let floor = series.shape.floor(lane, after);
    floor
        .map(|first| first.saturating_sub(1))
        .map_err(|ended| IdRefusal::Ended { series: series.name.clone(), last: ended.last })
}

/// Returns the call of a request for ids, which is never forwarded by its caller.
fn call(context: &RequestContext) -> Call {
    Call { deadline: context.deadline.at, hops: 0, via: Via::Id }
}

/// Returns the message of a series.
fn message(series: &IdSeries) -> v1::Series {
    let IdSeries { name, shape, named_lanes, ahead_ms, lanes, sections, created_ms, retired } = series;
    let (shape, named_lanes, ahead_ms) = (*shape, *named_lanes, *ahead_ms);
    let shape = Some((&SeriesShape { shape, named_lanes, ahead_ms }).into());
    let lanes = Some(seq_proto::series::lanes(lanes, sections.first));
    v1::Series { name: name.clone(), shape, lanes, created_ms: *created_ms, retired: *retired }
}
