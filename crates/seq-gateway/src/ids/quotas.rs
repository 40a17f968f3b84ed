//! Quotas of tenants for ids: the series that a tenant may use, and the distance by which its requests move a lane.
//!
//! In a counter, a request above an id skips numbers, as an advance does, and the distance is bounded and charged as
//! that of an advance. Where ids follow the clock, a request above an id of the last seconds is usual, and takes ids
//! in front of the clock from other callers for that time alone. So it is not refused, but waits for the clock as far
//! as the quota does not cover the distance.

use seq_api::ids::{IdRequest, IdSeries};
use seq_api::service::{AHEAD_WAIT, Call, SequenceService};
use seq_core::layout::TickClock;
use seq_core::{Refusal, Seq};
use seq_kit::wall_clock;
use seq_tenant::Caller;
use tokio::time::Instant;

use super::IdRefusal;

/// Counts a request of a caller for a series.
///
/// # Errors
/// [`IdRefusal::OtherTenantsSeries`], or the refusal of a request beyond the rate.
pub(super) fn admit(caller: &Caller, series: &IdSeries) -> Result<(), IdRefusal> {
    caller.admit_read()?;
    match caller.admit_series(&series.name) {
        true => Ok(()),
        false => Err(IdRefusal::OtherTenantsSeries { series: series.name.clone() }),
    }
}

/// Admits a request for ids above an id. With a clock, the request waits until the clock is near enough.
///
/// # Errors
/// [`IdRefusal::AfterTooFar`], the refusal of numbers beyond the rate, or [`Refusal::LaneAhead`] at the deadline.
pub(super) async fn admit_after(
    caller: &Caller,
    service: &impl SequenceService,
    call: Call,
    request: &IdRequest,
) -> Result<(), IdRefusal> {
    let IdRequest { series, count, lane, after } = request;
    let lane = lane.unwrap_or(0);
    let above = request.above(lane).map_err(|_| IdRefusal::ended(series, lane, count.get()))?;
    let Some(clock) = series.lanes.clock else {
        return match caller.admit_skip(service, call, series.address(0), above).await {
            Err(Refusal::AdvanceTooFar { bound, .. }) => {
                let bound = format!("the tenant's max_advance allows numbers above {}", id_at(series, bound));
                Err(IdRefusal::AfterTooFar { series: series.name.clone(), after: *after, bound })
            }
            admitted => Ok(admitted?),
        };
    };
    while is_too_far_in_front(caller, (series, &clock), (*after, above))? {
        if Instant::now() + AHEAD_WAIT >= call.deadline {
            return Err(Refusal::LaneAhead { section: series.sections.first }.into());
        }
        tokio::time::sleep(AHEAD_WAIT).await;
    }
    Ok(())
}

/// Returns whether numbers are further in front of the clock than the quota of a caller allows.
///
/// # Errors
/// [`IdRefusal::AfterTooFar`] if they are further in front than the series allows.
fn is_too_far_in_front(
    caller: &Caller,
    (series, clock): (&IdSeries, &TickClock),
    (after, above): (u64, Seq),
) -> Result<bool, IdRefusal> {
    let most = caller.max_in_front();
    if most == u64::MAX {
        return Ok(false);
    }
    let now_ms = wall_clock::now_ms();
    if above.0 <= clock.last_tick(now_ms).0.saturating_add(most) {
        return Ok(false);
    }
    if above > clock.last_tick(now_ms.saturating_add(series.ahead_ms.into())) {
        return Err(IdRefusal::after_too_far(series, after));
    }
    Ok(true)
}

/// Returns the id of a number of a counter; the last id for a number above it, and 0 for number 0.
pub(super) fn id_at(series: &IdSeries, number: Seq) -> u64 {
    match number {
        Seq::ZERO => 0,
        number => series.shape.id(0, number.0).map_or_else(|ended| ended.last, seq_ids::Id::get),
    }
}
