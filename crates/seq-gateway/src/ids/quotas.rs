//! Quotas of tenants for ids. They decide which series a tenant may use, and by which distance its requests may move a
//! lane.
//!
//! A request for ids above a given id moves a lane forward. In a counter this skips numbers, as an advance does, so the
//! distance is limited and charged in the same way as that of an advance. If the ids follow the clock, requests for ids
//! above an id of the last seconds are common. Such a request takes ids that are ahead of the clock away from other
//! callers, but only until the clock has reached these ids. So such a request is not refused. If the tenant's quota
//! does not cover the distance, the request waits until the clock is near enough.

use seq_api::ids::{IdRequest, IdSeries};
use seq_api::service::{AHEAD_WAIT, Call, SequenceService};
use seq_core::layout::TickClock;
use seq_core::{Refusal, Seq};
use seq_kit::wall_clock;
use seq_tenant::Caller;
use tokio::time::Instant;

use super::IdRefusal;

/// Counts a caller's request for a series under its quota, and checks that the caller may use the series.
///
/// # Errors
/// [`IdRefusal::OtherTenantsSeries`], or the refusal of a request that exceeds the caller's rate.
pub(super) fn admit(caller: &Caller, series: &IdSeries) -> Result<(), IdRefusal> {
    caller.admit_read()?;
    match caller.admit_series(&series.name) {
        true => Ok(()),
        false => Err(IdRefusal::OtherTenantsSeries { series: series.name.clone() }),
    }
}

/// Admits a request for ids above a given id under the caller's quota. If the series has a clock, waits until the clock
/// is near enough to that id.
///
/// # Errors
/// [`IdRefusal::AfterTooFar`], the refusal of a request that exceeds the caller's rate of numbers, or
/// [`Refusal::LaneAhead`] if the clock is not near enough at the deadline.
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

/// Returns whether the number `above` is further ahead of the clock than the caller's quota allows.
///
/// # Errors
/// [`IdRefusal::AfterTooFar`] if the number is further ahead of the clock than the series allows.
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

/// Returns the id that a counter makes of a number. If the number is above the last number that has an id, returns the
/// counter's last id. For the number 0, returns 0.
pub(super) fn id_at(series: &IdSeries, number: Seq) -> u64 {
    match number {
        Seq::ZERO => 0,
        number => series.shape.id(0, number.0).map_or_else(|ended| ended.last, seq_ids::Id::get),
    }
}
