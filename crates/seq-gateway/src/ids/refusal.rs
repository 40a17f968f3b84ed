//! Reasons to refuse a request for ids. A refused request moved no counter.

use seq_api::ids::IdSeries;
use seq_core::Refusal;
use seq_proto::Reason;
use seq_proto::status;
use tonic::Status;

use crate::timeout::{Deadline, Refused};

/// A refusal of a request for ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdRefusal {
    /// No series has the name.
    #[error("no series is named {series:?}: `seqsvr series list` lists them, and a new one is known within a second")]
    UnknownSeries { series: String },
    /// The series is retired.
    #[error("series {series:?} is retired: it gives out no more ids")]
    Retired { series: String },
    /// The ids have ended.
    #[error("the ids of series {series:?} have ended: the last one is {last}")]
    Ended { series: String, last: u64 },
    /// The caller must name a lane.
    #[error("series {series:?} needs a lane, 0 to {}", lanes - 1)]
    LaneRequired { series: String, lanes: u32 },
    /// The caller may not name a lane.
    #[error("the lane {lane} is named, and series {series:?} chooses its lanes itself: leave the lane out")]
    LaneNotAllowed { series: String, lane: u32 },
    /// The series has no such lane.
    #[error("series {series:?} has no lane {lane}: its lanes are 0 to {}", lanes - 1)]
    LaneOutOfRange { series: String, lane: u32, lanes: u32 },
    /// The request takes too many ids of a timed series.
    #[error("count {count} is above {most}, the most that a request takes from a timed series")]
    TooMany { count: u32, most: u32 },
    /// The number is no id of the series.
    #[error("{id} is no id of series {series:?}, whose ids are {shape}")]
    NotAnId { series: String, id: String, shape: String },
    /// The series is no counter.
    #[error("the ids of series {series:?} follow the clock: only a counter is read or advanced")]
    NotACounter { series: String },
    /// The numbers of the lane were refused.
    #[error(transparent)]
    Numbers(#[from] Refusal),
}

impl IdRefusal {
    /// Returns the refusal of a number that is no id of a series.
    pub(crate) fn not_an_id(series: &IdSeries, id: impl ToString) -> IdRefusal {
        IdRefusal::NotAnId { series: series.name.clone(), id: id.to_string(), shape: series.shape.to_string() }
    }

    /// Returns the reason.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            IdRefusal::UnknownSeries { .. } => Reason::UnknownSeries,
            IdRefusal::Retired { .. } => Reason::SeriesRetired,
            IdRefusal::Ended { .. } => Reason::SeriesEnded,
            IdRefusal::LaneRequired { .. } => Reason::LaneRequired,
            IdRefusal::LaneNotAllowed { .. } => Reason::LaneNotAllowed,
            IdRefusal::LaneOutOfRange { .. } => Reason::LaneOutOfRange,
            IdRefusal::TooMany { .. } => Reason::CountOutOfRange,
            IdRefusal::NotAnId { .. } => Reason::NotAnId,
            IdRefusal::NotACounter { .. } => Reason::NotACounter,
            IdRefusal::Numbers(refusal) => Reason::of(refusal),
        }
    }

    /// Returns the status of a refused request.
    pub(crate) fn status(&self) -> Status {
        match self {
            IdRefusal::Numbers(refusal) => status::to_status(refusal),
            refusal => refusal.reason().status(refusal.to_string()),
        }
    }
}

impl Refused for IdRefusal {
    fn status_by(&self, deadline: Deadline) -> Status {
        if let IdRefusal::Numbers(refusal) = self { deadline.status(refusal) } else { self.status() }
    }
}
