//! Reasons to refuse a request for ids. A refused request has moved no counter.

use seq_api::ids::IdSeries;
use seq_core::{Refusal, limits};
use seq_ids::Shape;
use seq_proto::Reason;
use seq_proto::reason::key;
use seq_proto::status;
use tonic::Status;

use crate::timeout::{Deadline, Refused};

/// Limit on the characters of a request's text that an error repeats.
const MAX_SHOWN: usize = 64;

/// A refusal of a request for ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdRefusal {
    /// No series has the name.
    #[error("no series is named {series:?}: `seqsvr series list` lists them, and a new one is known within a second")]
    UnknownSeries { series: String },
    /// The node has just started, and knows no series yet.
    #[error("the node has no routes yet, so it does not know whether series {series:?} exists: repeat the request")]
    NoRoutes { series: String },
    /// The series is not one of the tenant's.
    #[error("series {series:?} is not one of the tenant's: its `series` in the tenants file lists them")]
    OtherTenantsSeries { series: String },
    /// The series is retired.
    #[error("series {series:?} is retired: it gives out no more ids")]
    Retired { series: String },
    /// The ids have ended.
    #[error("the ids of series {series:?} have ended: the last one is {last}")]
    Ended { series: String, last: u64 },
    /// Fewer ids are left than requested.
    #[error(
        "series {series:?} has no {count} ids left: the last one is {last}, and a request for fewer ids may get some"
    )]
    EndsBefore { series: String, count: u32, last: u64 },
    /// The caller must name a lane.
    #[error("series {series:?} needs a lane, 0 to {}", lanes - 1)]
    LaneRequired { series: String, lanes: u32 },
    /// The caller may not name a lane.
    #[error("the lane {lane} is named, and series {series:?} chooses its lanes itself: leave the lane out")]
    LaneNotAllowed { series: String, lane: u32 },
    /// The series has no such lane.
    #[error("series {series:?} has no lane {lane}: its lanes are 0 to {}", lanes - 1)]
    LaneOutOfRange { series: String, lane: u32, lanes: u32 },
    /// The part of a key that should be the number of a lane is not a number.
    #[error("{lane:?} is no lane of series {series:?}, whose lanes are 0 to {}", lanes - 1)]
    NotALane { series: String, lane: String, lanes: u32 },
    /// The request takes too many ids of a timed series.
    #[error("count {count} is above {most}, the most that a request takes from a timed series")]
    TooMany { count: u32, most: u32 },
    /// The number is no id of the series.
    #[error("{id} is no id of series {series:?}, whose ids are {shape}")]
    NotAnId { series: String, id: String, shape: String },
    /// The counter is past the id, or may be past it.
    #[error("series {series:?} is past the id {id}, and ids never go back")]
    AlreadyPast { series: String, id: u64 },
    /// The counter is too far from the id.
    #[error("the id {id} is too far ahead: one request raises series {series:?} to {bound} at most now")]
    AdvanceTooFar { series: String, id: u64, bound: u64 },
    /// The id above which all ids should be is further ahead than a request may move a lane.
    #[error("the id {after} is further ahead than one request moves series {series:?}: {bound}")]
    AfterTooFar { series: String, after: u64, bound: String },
    /// The series is no counter.
    #[error("the ids of series {series:?} follow the clock: only a counter is read or advanced")]
    NotACounter { series: String },
    /// The numbers of the lane were refused.
    #[error(transparent)]
    Numbers(#[from] Refusal),
}

/// Returns a text from a request, shortened for use in an error.
pub(super) fn excerpt(text: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    if shown.len() < text.len() { shown + "..." } else { shown }
}

impl IdRefusal {
    /// Returns the refusal of a number that is no id of a series.
    pub(crate) fn not_an_id(series: &IdSeries, id: impl ToString) -> IdRefusal {
        IdRefusal::NotAnId { series: series.name.clone(), id: id.to_string(), shape: series.shape.to_string() }
    }

    /// Returns the refusal of a text that is no id of a series.
    pub(crate) fn not_an_id_text(series: &IdSeries, text: &str) -> IdRefusal {
        IdRefusal::not_an_id(series, format!("{:?}", excerpt(text)))
    }

    /// Returns the refusal of a text that is no lane.
    pub(crate) fn not_a_lane(series: &IdSeries, text: &str) -> IdRefusal {
        IdRefusal::NotALane { series: series.name.clone(), lane: excerpt(text), lanes: series.lanes.count }
    }

    /// Returns the refusal of a request for more ids than a lane has left.
    pub(crate) fn ended(series: &IdSeries, lane: u32, count: u32) -> IdRefusal {
        let (series, last) = (series.name.clone(), series.shape.last(lane));
        if count > 1 { IdRefusal::EndsBefore { series, count, last } } else { IdRefusal::Ended { series, last } }
    }

    /// Returns the refusal of a request for ids above an id that is too far ahead.
    pub(crate) fn after_too_far(series: &IdSeries, after: u64) -> IdRefusal {
        let bound = match series.shape {
            Shape::Counter(_) => format!("a counter skips up to {} numbers", limits::MAX_AFTER),
            Shape::Timed(_) => format!("its ids are up to {} ms ahead of the clock", series.ahead_ms),
        };
        IdRefusal::AfterTooFar { series: series.name.clone(), after, bound }
    }

    /// Returns the reason.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            IdRefusal::UnknownSeries { .. } => Reason::UnknownSeries,
            IdRefusal::NoRoutes { .. } => Reason::Unserved,
            IdRefusal::OtherTenantsSeries { .. } => Reason::OtherTenantsSeries,
            IdRefusal::Retired { .. } => Reason::SeriesRetired,
            IdRefusal::Ended { .. } | IdRefusal::EndsBefore { .. } => Reason::SeriesEnded,
            IdRefusal::LaneRequired { .. } => Reason::LaneRequired,
            IdRefusal::LaneNotAllowed { .. } => Reason::LaneNotAllowed,
            IdRefusal::LaneOutOfRange { .. } | IdRefusal::NotALane { .. } => Reason::LaneOutOfRange,
            IdRefusal::TooMany { .. } => Reason::CountOutOfRange,
            IdRefusal::NotAnId { .. } => Reason::NotAnId,
            IdRefusal::AlreadyPast { .. } => Reason::AlreadyPast,
            IdRefusal::AdvanceTooFar { .. } => Reason::AdvanceTooFar,
            IdRefusal::AfterTooFar { .. } => Reason::AfterTooFar,
            IdRefusal::NotACounter { .. } => Reason::NotACounter,
            IdRefusal::Numbers(refusal) => Reason::of(refusal),
        }
    }

    /// Returns the status of a refused request.
    pub(crate) fn status(&self) -> Status {
        match self {
            IdRefusal::Numbers(refusal) => status::to_status(refusal),
            IdRefusal::AdvanceTooFar { bound, .. } => {
                self.reason().status_with(self.to_string(), [(key::BOUND, bound.to_string())])
            }
            refusal => refusal.reason().status(refusal.to_string()),
        }
    }
}

impl Refused for IdRefusal {
    fn status_by(&self, deadline: Deadline) -> Status {
        if let IdRefusal::Numbers(refusal) = self { deadline.status(refusal) } else { self.status() }
    }
}
