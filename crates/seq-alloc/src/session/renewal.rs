//! Renewal call: its request, its response, and the comparison of this machine's clock with the store's clock.

use seq_core::clock_offset::ClockOffset;
use seq_core::lease::Clocks;
use seq_core::owner::Renewal;
use seq_core::state::CopyPart;
use seq_kit::telemetry::traces::Span;
use seq_proto::v1;

use crate::store_link::{StoreError, StoreLink};

/// Renewal to be sent.
pub(crate) struct RenewalCall {
    pub(super) renewal: Renewal,
    /// Reading of the clocks before the request is sent. The lease that the response grants begins at this time.
    pub(super) sent: Clocks,
    pub(super) span: Span,
}

/// Renewal whose call ended.
pub(crate) struct AnsweredRenewal {
    pub(super) renewal: Renewal,
    pub(super) sent: Clocks,
    pub(super) response: Result<v1::RenewResponse, StoreError>,
    /// Trace span from the request until the lease in the response is adopted.
    pub(super) span: Span,
}

impl RenewalCall {
    pub(crate) async fn send(self, link: &StoreLink) -> AnsweredRenewal {
        let RenewalCall { renewal, sent, mut span } = self;
        let response = span.scope(link.call(request(&renewal))).await;
        span.fail_if(&response);
        AnsweredRenewal { renewal, sent, response, span }
    }
}

/// Returns the milliseconds by which this machine's wall clock is ahead of the store's clock. `store_ms` is the store's
/// clock in the response to a renewal. Returns `None` if the store does not state its clock, or if the response took
/// too long for a precise comparison.
pub(super) fn clock_ahead_ms(store_ms: u64, sent: Clocks, received: Clocks) -> Option<i64> {
    let store = ClockOffset::measure(store_ms, sent.realtime / 1_000_000, received.at_least_since(sent))?;
    store.precise().map(i64::saturating_neg)
}

fn request(renewal: &Renewal) -> v1::RenewRequest {
    v1::RenewRequest {
        node_id: renewal.session.node.0,
        incarnation: renewal.session.incarnation.0,
        renew_seq: renewal.renew_seq.0,
        route_version: renewal.route_version.0,
        released: renewal.released.iter().map(|(section, _)| section.0).collect(),
        released_epochs: renewal.released.iter().map(|(_, epoch)| epoch.0).collect(),
        leaving: renewal.leaving,
        copies: renewal.copies.iter().map(part).collect(),
        taken: renewal.taken.iter().map(|(section, _)| section.0).collect(),
        taken_epochs: renewal.taken.iter().map(|(_, epoch)| epoch.0).collect(),
        reads_lanes: true,
    }
}

fn part(part: &CopyPart) -> v1::CopyPart {
    let CopyPart { section, epoch, highest, length, offset, bytes } = part;
    let (length, offset, part) = (*length, *offset, bytes.clone());
    v1::CopyPart { section: section.0, epoch: epoch.0, highest: highest.0, length, offset, part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_compared_at_the_middle_of_a_renewal() {
        let at = |realtime: u64, raw: u64| Clocks { boottime: raw, raw, realtime: realtime * 1_000_000 };
        let ahead = |ms: u64| clock_ahead_ms(10_000, at(13_600, 0), at(0, ms * 1_000_000));
        assert_eq!(ahead(20), Some(3_610), "whatever the wall clock was set to meanwhile");
        assert_eq!(ahead(1_100), None, "the response took too long");
        assert_eq!(clock_ahead_ms(0, at(13_600, 0), at(13_600, 0)), None, "an older store states none");
    }
}
