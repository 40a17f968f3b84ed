//! Computes the deadlines of requests from the timeouts that callers state, within the limits of the server.

use std::time::Duration;

use http::HeaderMap;
use seq_core::Refusal;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// The header of a gRPC request that states the caller's timeout.
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Timeout of a request that states no timeout, for example a JSON or Redis request. It is longer than the failover
/// after the crash of a node, so that such a crash causes a slow request and not an error. By default the store waits
/// until a node has been silent for 2.5 s, which it checks about every 50 ms. Its decision, the renewal by which the
/// next owner gets to know the decision, and the next attempt of the waiting request take about 0.5 s on a busy
/// machine.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// Longest timeout of a request, even if the request states a longer one. A waiting request holds memory, and if the
/// operation for which it waits takes longer than this, the operation has failed.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Divisor of a request's timeout. One part in `RESPONSE_SHARE` is reserved for the response. So the caller of a
/// request that waits without success gets the reason for which it is refused before the transport on either side ends
/// the request.
const RESPONSE_SHARE: u32 = 8;

/// Longest time that is reserved for the response, even if the timeout is long. It is enough for a round trip between
/// distant sites.
const RESPONSE_TIME: Duration = Duration::from_millis(100);

/// Deadline until which a request may wait for its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// Whether the caller stated this deadline. If it did not, the deadline is a limit of the node, and a retry after
    /// the deadline is worthwhile for the caller.
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

    /// Returns whether the time for which the caller waits has passed, except for the part that is reserved for the
    /// response.
    fn is_over(self) -> bool {
        self.stated && Instant::now() >= self.at
    }

    /// Returns the status of a refused request, for every protocol. If the caller stated this deadline and it has
    /// passed, the status of any refusal has the code DEADLINE_EXCEEDED and no retry hint.
    pub(crate) fn status(self, refusal: &Refusal) -> Status {
        if self.is_over() { status::to_late_status(refusal) } else { status::to_status(refusal) }
    }

    /// Returns the error of one refused item of a batch. It depends on the deadline in the same way as the result of
    /// [`Deadline::status`].
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

/// Returns the time at which the timeout that the caller of a gRPC request stated ends; `None` if the caller states no
/// timeout. The library ends a request that has no response at the same time, but with the code CANCELLED.
pub(crate) fn end(headers: &HeaderMap) -> Option<Instant> {
    let stated = headers.get(GRPC_TIMEOUT).and_then(|value| parse(value.as_bytes()))?;
    Instant::now().checked_add(stated)
}

/// Returns the time at which a waiting request is refused if its caller waits for the time `time` from now on.
pub(crate) fn after(time: Duration) -> Instant {
    let time = time.min(MAX_TIMEOUT);
    Instant::now() + (time - (time / RESPONSE_SHARE).min(RESPONSE_TIME))
}

/// Parses a timeout of the gRPC protocol, `TimeoutValue TimeoutUnit`, which has one to eight digits and a unit. Any
/// other value is ignored, as in gRPC libraries.
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
