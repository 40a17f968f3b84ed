//! Quotas of tenants for ids: the series that a tenant may use, and the distance by which its requests move a lane.
//!
//! In a counter, a request above an id skips numbers, as an advance does, and the distance is bounded and charged as
//! that of an advance. Where ids follow the clock, a request above an id of the last seconds is usual, and takes ids
//! in front of the clock from other callers for that time alone. So it is not refused, but waits for the clock as far
//! as the quota does not cover the distance.

use seq_api::ids::IdSeries;
use seq_api::service::{Call, SequenceService};
use seq_core::{Refusal, Seq};
use seq_ids::{Shape, TimedShape};
use seq_kit::wall_clock;
use seq_tenant::Caller;

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

/// Admits a request for ids of a counter above an id, whose numbers are above `above`.
///
/// # Errors
/// [`IdRefusal::AfterTooFar`], or the refusal of numbers beyond the rate.
pub(super) async fn admit_after(
    caller: &Caller,
    service: &impl SequenceService,
    call: Call,
    (series, after, above): (&IdSeries, u64, u64),
) -> Result<(), IdRefusal> {
    match caller.admit_skip(service, call, series.address(0), Seq(above)).await {
        Err(Refusal::AdvanceTooFar { bound, .. }) => {
            let bound = format!("the tenant's max_advance allows numbers above {}", id_at(series, bound));
            Err(IdRefusal::AfterTooFar { series: series.name.clone(), after, bound })
        }
        admitted => Ok(admitted?),
    }
}

/// Returns whether a request of a caller waits for the clock, because its numbers are further in front of it than the
/// caller's quota allows.
///
/// # Errors
/// [`IdRefusal::AfterTooFar`] if they are further in front than the series allows.
pub(super) fn waits_for_clock(
    caller: &Caller,
    series: &IdSeries,
    (after, above): (u64, u64),
) -> Result<bool, IdRefusal> {
    let (most, Shape::Timed(timed)) = (caller.max_in_front(), series.shape) else { return Ok(false) };
    if after == 0 || most == u64::MAX {
        return Ok(false);
    }
    let now_ms = wall_clock::now_ms();
    if above <= last_of_unit(&timed, now_ms).saturating_add(most) {
        return Ok(false);
    }
    if above > last_of_unit(&timed, now_ms.saturating_add(series.ahead_ms.into())) {
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

/// Returns the last number of the unit that a time is in.
fn last_of_unit(timed: &TimedShape, unix_ms: u64) -> u64 {
    let outside = if unix_ms < timed.epoch_ms { 0 } else { Seq::MAX.0 };
    timed.tick(unix_ms).unwrap_or(outside) | ((1 << timed.seq_bits) - 1)
}
