//! Builds the responses to requests about the activity of sections. Building a response takes milliseconds and must not
//! delay the connections that the current thread serves, so the functions return this work as a closure.

use std::sync::Arc;
use std::time::Instant;

use seq_core::activity::Raised;
use seq_core::{Refusal, SectionId, Seq, Uid, raise};
use seq_kit::report_limits::TooManyReports;
use seq_proto::activity::{Times, section_figures};
use seq_proto::reason::Reason;
use seq_proto::status::to_status;
use seq_proto::v1::describe_section_request::Which;
use seq_proto::v1::{
    CeilingRaise, DescribeSectionRequest, DescribeSectionResponse, ListActivityRequest, ListActivityResponse, SkipCause,
};
use tonic::Status;

use crate::ownership::{OwnedSection, Start};
use crate::shared::Shared;

/// Limit on the raises that the description of a section lists.
const MAX_RAISES: usize = 200;

/// Work that makes a response.
pub(crate) type Report<T> = Box<dyn FnOnce() -> T + Send>;

impl Shared {
    /// Begins the response to a request for the activity of sections over time, or for the busiest sections. The
    /// returned closure completes the response.
    ///
    /// # Errors
    /// The refusal of a request that exceeds this node's limits on reports.
    pub(crate) fn list_activity(
        self: &Arc<Shared>,
        request: ListActivityRequest,
    ) -> Result<Report<ListActivityResponse>, Status> {
        let listing = self.activity.limits.begin_listing().map_err(too_many)?;
        let shared = self.clone();
        Ok(Box::new(move || {
            let response = shared.activity_response(&request);
            drop(listing);
            response
        }))
    }

    fn activity_response(&self, request: &ListActivityRequest) -> ListActivityResponse {
        let activity = &self.activity;
        let times = activity.times(self.clock.now());
        let mut response = ListActivityResponse {
            set: self.config.set.clone(),
            node: self.config.name.clone(),
            clock_ms: times.now_ms(),
            period_ms: activity.pass_ms(),
            ..ListActivityResponse::default()
        };
        let extract = activity.extract(request, &times);
        extract.fill(request, &times, &mut response);
        response
    }

    /// Begins the response to a request for the description of one section. The returned closure completes the
    /// response.
    ///
    /// # Errors
    /// The refusal of a request for a section that this node does not own, or of a request that exceeds this node's
    /// limits on reports.
    pub(crate) fn describe_section(
        self: &Arc<Shared>,
        request: DescribeSectionRequest,
    ) -> Result<Report<DescribeSectionResponse>, Status> {
        let section = match request.which {
            Some(Which::Uid(uid)) => {
                let (layout, uid) = (self.layout(), Uid(uid));
                let located = layout.locate(uid).map(|(section, _)| section);
                // A sparse uid may be the number that is the address of a lane elsewhere.
                layout.bucket_of_uid(uid).map_or(located, Ok).map_err(|refusal| to_status(&refusal))?
            }
            Some(Which::Section(section)) => SectionId(section),
            None => return Err(Reason::UnknownSection.status("the request names no section")),
        };
        let sections = self.layout().sections();
        if section.0 >= sections {
            let text = format!("section {section}: the layout has sections 0..{sections}");
            return Err(Reason::UnknownSection.status(text));
        }
        let owned = self.ownership.owned().get(section).cloned();
        let owned = owned.ok_or_else(|| to_status(&Refusal::NotOwner { section, owner: self.other_owner(section) }))?;
        self.activity.limits.count_detail(Instant::now()).map_err(too_many)?;
        let shared = self.clone();
        Ok(Box::new(move || shared.description(&owned)))
    }

    fn description(&self, owned: &OwnedSection) -> DescribeSectionResponse {
        let (activity, now) = (&self.activity, self.clock.now());
        let times = activity.times(now);
        let tally = owned.tally(0..owned.pages());
        // Read after the slots, so that no slot that was read is above this ceiling.
        let (base, ceiling, step) = (owned.base(), owned.ceiling(), owned.step());
        let highest = base.0 + tally.highest;
        let (figures, raises) = activity.section(owned.id, MAX_RAISES);
        let cause = match owned.start {
            Start::Exact => SkipCause::Unspecified,
            Start::Takeover => SkipCause::Takeover,
            Start::CopyLost => SkipCause::Handover,
        };
        DescribeSectionResponse {
            set: self.config.set.clone(),
            node: self.config.name.clone(),
            clock_ms: times.now_ms(),
            period_ms: activity.pass_ms(),
            section: owned.id.0,
            uids: owned.uids(),
            epoch: owned.epoch.0,
            owned_since_ms: times.shown(activity.ms(owned.began)),
            base: base.0,
            ceiling: ceiling.0,
            highest,
            remaining: ceiling.0.saturating_sub(highest),
            raise_due_at: step.0 / 2,
            touched: tally.touched,
            // A skip in flight is already counted as skipped but is not yet in the sum of the slots.
            numbers: owned.numbers(tally.sum).map_or(0, |numbers| numbers.cast_signed().max(0).cast_unsigned()),
            in_ticks: owned.is_in_ticks(),
            figures: Some(section_figures(owned.id, figures.unwrap_or_default())),
            skipped_by_advances: owned.skipped(),
            skipped_at_begin: if owned.start == Start::Exact || owned.is_in_ticks() {
                0
            } else {
                raise::most_skipped(self.ownership.most_step()).min(base.0)
            },
            skip_cause: cause.into(),
            raises: raises.iter().map(|raised| ceiling_raise(raised, &times)).collect(),
        }
    }
}

fn too_many(error: TooManyReports) -> Status {
    Reason::TooManyReports.status(error.to_string())
}

fn ceiling_raise(raised: &Raised, times: &Times) -> CeilingRaise {
    let Raised { took_us, requested_ms, from: Seq(from), to: Seq(to), .. } = *raised;
    CeilingRaise { requested_ms: times.shown(requested_ms), took_us, from, to }
}
