//! Deadlines of requests: the `grpc-timeout` that the caller states, within the limits of the server.

use std::time::Duration;

use http::HeaderMap;
use seq_core::Refusal;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// The header of a gRPC request that states the caller's timeout.
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Timeout of a request that states no timeout, for example a JSON or Redis request. It is longer than a failover, so
/// that the crash of a node causes a slow request and not an error. By default the store waits 2.5 s for a silent node,
/// and checks about every 50 ms. Its decision, the renewal by which the next owner learns of the decision, and the next
/// attempt of the waiting request take about 0.5 s on a busy machine.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// Longest timeout of a request, even if the request states a longer one. A waiting request holds memory, and an
/// operation for which it waits takes longer only if the operation has failed.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Divisor of a request's timeout: one part in `RESPONSE_SHARE` is reserved for the response. So a request that waits
/// without success gets the reason of its refusal before the transport on either side ends it.
const RESPONSE_SHARE: u32 = 8;

/// Longest time that is reserved for the response, even if the timeout is long. It is a round trip between distant
/// sites.
const RESPONSE_TIME: Duration = Duration::from_millis(100);

/// Deadline until which a request may wait for its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// Whether the caller stated this deadline. If not, the deadline is a limit of the node, and a retry after it is
    /// worthwhile.
    stated: bool,
}

impl Deadline {
    /// Returns the deadline of a gRPC request.
    pub(crate) fn of(metadata: &MetadataMap) -> Deadline {
        let stated = metadata.get(GRPC_TIMEOUT).and_then(|value| parse(value.as_encoded_bytes()));
        stated.map_or_else(Deadline::unstated, Deadline::stated)
    }

    /// Returns the deadline of a request whose caller waits for `time`.
    pub(crate) fn stated(time: Duration) -> Deadline {
        Deadline { at: after(time), stated: time <= MAX_TIMEOUT }
    }

    /// Returns the deadline of a request whose caller states no timeout.
    pub(crate) fn unstated() -> Deadline {
        Deadline { at: after(DEFAULT_TIMEOUT), stated: false }
    }

    /// Returns whether the caller's time has passed, except the part that is reserved for the response.
    fn is_over(self) -> bool {
        self.stated && Instant::now() >= self.at
    }

    /// Returns the status of a refused request, for every protocol. If the deadline that the caller stated has passed,
    /// the status is DEADLINE_EXCEEDED without a retry hint, for any refusal.
    pub(crate) fn status(self, refusal: &Refusal) -> Status {
        if self.is_over() { status::to_late_status(refusal) } else { status::to_status(refusal) }
    }

    /// Returns the error of one item of a batch, in the same way as [`Deadline::status`] for a request.
    pub(crate) fn item(self, index: u32, refusal: &Refusal) -> v1::ItemError {
        if self.is_over() { status::to_late_item(index, refusal) } else { status::to_item(index, refusal) }
    }
}

/// A refusal that has a status.
pub(crate) trait Refused {
    /// Returns the status of a refused request that has this deadline.
    fn status_by(&self, deadline: Deadline) -> Status;
}

impl Refused for Refusal {
    fn status_by(&self, deadline: Deadline) -> Status {
        deadline.status(self)
    }
}

/// Returns the time at which a gRPC request ends by its caller's own timeout, for responses that are late; `None` if
/// the caller states no timeout. The library ends such a request at the same time, but with CANCELLED.
pub(crate) fn end(headers: &HeaderMap) -> Option<Instant> {
    let stated = headers.get(GRPC_TIMEOUT).and_then(|value| parse(value.as_bytes()))?;
    Instant::now().checked_add(stated)
}

/// Returns the time at which a waiting request is refused, if its caller waits for `time`.
pub(crate) fn after(time: Duration) -> Instant {
    let time = time.min(MAX_TIMEOUT);
    Instant::now() + (time - (time / RESPONSE_SHARE).min(RESPONSE_TIME))
}

/// Parses a `TimeoutValue TimeoutUnit` of the gRPC protocol: one to eight digits and a unit. Any other value is
/// ignored, as in gRPC libraries.
fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount = digits.iter().fold(0, |amount, digit| amount * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(amount * 3_600)),
        b'M' => Some(Duration::from_secs(amount * 60)),
        b'S' => Some(Duration::from_secs(amount)),
        b'm' => Some(Duration::from_millis(amount)),
        b'u' => Some(Duration::from_micros(amount)),
        b'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_parsed_and_nonsense_is_ignored() {
        let table: [(&str, Option<Duration>); 12] = [
            ("2H", Some(Duration::from_secs(7_200))),
            ("3M", Some(Duration::from_secs(180))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("5", None),
            ("-5S", None),
            ("123456789S", None),
            ("5 S", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn the_server_bounds_the_stated_timeout() {
        let of = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            Deadline::of(&metadata).at
        };
        let now = Instant::now();
        let (longest, usual) = (of("99999999H"), Deadline::of(&MetadataMap::new()).at);
        assert!(longest >= now + MAX_TIMEOUT - RESPONSE_TIME && longest < Instant::now() + MAX_TIMEOUT);
        assert!(usual >= now + DEFAULT_TIMEOUT - RESPONSE_TIME && usual < longest);
        assert!(of("8m") < usual);
    }
}
