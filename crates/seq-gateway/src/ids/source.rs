//! Source of ids for all protocols. It finds the series and the lane of a request, takes numbers from the lane, and
//! makes ids of the numbers.

use std::sync::Arc;

use seq_api::ids::{IdRequest, IdSeries};
use seq_api::service::{Call, Item, Redirects, SequenceService, Via};
use seq_core::{Epoch, Refusal, RouteVersion, Target};
use seq_ids::{Id, Shape};
use seq_proto::v1;
use seq_tenant::Caller;
use tokio::time::Instant;
use tonic::Code;

use super::refusal::excerpt;
use super::{IdRefusal, quotas, runs};
use crate::id_counts::IdCounts;
use crate::latency::Latency;

/// Limit on the ids in a response that lists ids one by one. A response over gRPC or Connect has runs of ids instead,
/// and may have more ids.
pub(crate) const MAX_LISTED: u32 = 10_000;

/// Limit on the ids that one request takes from a series whose ids contain a time. A request for more ids would move a
/// lane with 1,024 ids per millisecond more than about ten milliseconds ahead of its clock.
const MAX_TIMED: u32 = 10_000;

/// Ids of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    pub(crate) runs: Vec<v1::IdRun>,
    pub(crate) step: u64,
    pub(crate) epoch: Epoch,
    pub(crate) lane: u32,
}

impl Ids {
    /// Returns the last id; 0 without ids.
    fn last(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.first + u64::from(run.count - 1) * self.step)
    }

    /// Returns the ids, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().flat_map(|run| (0..u64::from(run.count)).map(|index| run.first + index * self.step))
    }
}

/// Context of a request for ids, which is the same for all protocols.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdContext<'a> {
    /// Time until which the request may wait for its response.
    pub(crate) deadline: Instant,
    /// Protocol of the request, for the metrics.
    pub(crate) via: Via,
    pub(crate) caller: &'a Caller,
}

impl IdContext<'_> {
    /// Returns the [`Call`], the context with which the service processes the request. The number of hops is 0, because
    /// a request for ids comes directly from a client. Nodes forward only the allocations that the request needs.
    fn call(&self) -> Call {
        Call { deadline: self.deadline, hops: 0, redirects: Redirects::Forward, via: Via::Id }
    }
}

/// The ids of a service.
pub(crate) struct IdSource<'a, F> {
    pub(crate) service: &'a F,
    pub(crate) latency: &'a Latency,
    pub(crate) counts: &'a IdCounts,
}

impl<F: SequenceService> IdSource<'_, F> {
    /// Returns the series with a name.
    ///
    /// # Errors
    /// [`IdRefusal::UnknownSeries`], or [`IdRefusal::NoRoutes`] if this node has no routes yet and therefore knows no
    /// series.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<IdSeries>, IdRefusal> {
        self.service.series(name).ok_or_else(|| match self.service.route_version() {
            RouteVersion(0) => IdRefusal::NoRoutes { series: excerpt(name) },
            _ => IdRefusal::UnknownSeries { series: excerpt(name) },
        })
    }

    /// Takes ids.
    pub(crate) async fn take(&self, context: IdContext<'_>, request: &IdRequest) -> Result<Ids, IdRefusal> {
        let sample = self.latency.sample(Via::Id);
        let taken = self.take_uncounted(context, request).await;
        let series = &*request.series;
        match &taken {
            Ok(ids) => {
                self.counts.add(series, context.via, Code::Ok, request.count.get().into());
                if sample.is_some() {
                    self.counts.record_ahead(series, ids.last());
                }
            }
            Err(refusal) => self.counts.add(series, context.via, refusal.reason().code(), 1),
        }
        taken
    }

    async fn take_uncounted(&self, context: IdContext<'_>, request: &IdRequest) -> Result<Ids, IdRefusal> {
        let IdRequest { series, count, after, .. } = request;
        quotas::admit(context.caller, series)?;
        check(request)?;
        let call = context.call();
        let item = Item { uid: series.address(0), count: *count, epoch: Epoch(0) };
        context.caller.admit_ids(item)?;
        if *after > 0 {
            quotas::admit_after(context.caller, self.service, call, request).await?;
        }
        match self.service.next_in_series(call, request).await {
            Ok((lane, taken)) => runs::ids(series, lane, taken.value, *count, taken.epoch),
            Err(Refusal::Exhausted { uid, .. }) => {
                Err(IdRefusal::ended(series, series.lane_at(uid).unwrap_or(0), count.get()))
            }
            Err(Refusal::AfterTooFar { .. }) => Err(IdRefusal::after_too_far(series, *after)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Reads the last id of a counter. Changes nothing.
    pub(crate) async fn current(
        &self,
        context: IdContext<'_>,
        series: &IdSeries,
    ) -> Result<v1::CurrentIdResponse, IdRefusal> {
        quotas::admit(context.caller, series)?;
        check_counter(series)?;
        let current = self.service.current(context.call(), series.address(0), Epoch(0)).await?;
        let id = quotas::id_at(series, current.reading.value);
        Ok(v1::CurrentIdResponse { id, exact: current.reading.exact, epoch: current.epoch.0 })
    }

    /// Raises a counter to the id `to`, so that the counter's next id is greater than `to`. Returns the epoch of the
    /// ownership that applied the advance.
    pub(crate) async fn advance(&self, context: IdContext<'_>, series: &IdSeries, to: Id) -> Result<Epoch, IdRefusal> {
        quotas::admit(context.caller, series)?;
        check_counter(series)?;
        if series.retired {
            return Err(IdRefusal::Retired { series: series.name.clone() });
        }
        let parts = series.shape.parts(to).ok_or_else(|| IdRefusal::not_an_id(series, to))?;
        let (call, address) = (context.call(), series.address(0));
        let advance = async || {
            let target = Target::new(parts.value)?;
            context.caller.admit_skip(self.service, call, address, target.seq()).await?;
            self.service.advance(call, address, target, Epoch(0)).await
        };
        let advanced = advance().await;
        let (name, id) = (series.name.clone(), to.get());
        match advanced {
            Err(Refusal::AlreadyPast { .. }) => Err(IdRefusal::AlreadyPast { series: name, id }),
            Err(Refusal::AdvanceTooFar { bound, .. }) => {
                Err(IdRefusal::AdvanceTooFar { series: name, id, bound: quotas::id_at(series, bound) })
            }
            advanced => Ok(advanced?),
        }
    }

    /// Returns the parts of an id.
    pub(crate) fn decode(
        &self,
        context: IdContext<'_>,
        series: &IdSeries,
        id: Id,
    ) -> Result<v1::DecodeIdResponse, IdRefusal> {
        quotas::admit(context.caller, series)?;
        let parts = series.shape.parts(id).ok_or_else(|| IdRefusal::not_an_id(series, id))?;
        let (unix_ms, seq) = parts.timed.unzip();
        Ok(v1::DecodeIdResponse { lane: parts.lane, number: parts.value, unix_ms, seq })
    }
}

/// Parses an id. A number with a sign, a fraction or an exponent is refused, because it was rounded or has overflowed.
///
/// # Errors
/// [`IdRefusal::NotAnId`].
pub(crate) fn parse(series: &IdSeries, text: &str) -> Result<Id, IdRefusal> {
    text.parse().map_err(|_| IdRefusal::not_an_id_text(series, text))
}

/// Parses the id above which all ids of a request must be. The text "0" stands for no such bound.
///
/// # Errors
/// [`IdRefusal::NotAnId`].
pub(crate) fn parse_after(series: &IdSeries, text: &str) -> Result<u64, IdRefusal> {
    if text == "0" { Ok(0) } else { parse(series, text).map(Id::get) }
}

/// Checks that a series is a counter, because only counters can be read and advanced.
fn check_counter(series: &IdSeries) -> Result<(), IdRefusal> {
    match series.shape {
        Shape::Counter(_) => Ok(()),
        Shape::Timed(_) => Err(IdRefusal::NotACounter { series: series.name.clone() }),
    }
}

/// Checks that a request is allowed by the rules of its series.
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
