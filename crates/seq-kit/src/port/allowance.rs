//! Limits the number of frames that a peer may send on an HTTP/2 connection without a request to which they belong.
//!
//! A frame of the types SETTINGS, PING, WINDOW_UPDATE, PRIORITY or RST_STREAM, or of a type that no specification
//! defines, costs its sender a few bytes. It costs the server a wake-up and often a reply. HTTP/2 does not limit such
//! frames. An honest peer sends them for its requests, for the responses that it receives, and by timers. So each
//! request, each frame of a response and each unit of time adds to an allowance, from which each such frame takes.
//!
//! For each frame of a response, honest peers send the following frames. gRPC for Go sends a WINDOW_UPDATE for the
//! connection and another for the stream. While it estimates the bandwidth, it also sends a PING, preceded by a
//! WINDOW_UPDATE (`handleData` of its http2_client.go). gRPC for Java sends at most one such PING
//! (`FlowControlPinger`). Because of these PINGs, servers of gRPC for Go restart their count of pings after each frame
//! of a response. Envoy admits ten WINDOW_UPDATEs for each frame of DATA by default, and its documentation states that
//! clients with such an estimate need at least two.

use std::time::Duration;

use tokio::time::Instant;

/// Number of frames without a request that a peer may send for each of its requests, and for each frame of a response
/// that it receives.
const EARNED: u32 = 4;

/// Largest allowance, as a number of frames without a request. It is enough for a connection with several hundred
/// requests in flight that has not got a response yet.
pub(super) const MOST: u32 = 1_024;

/// Number of frames without a request that a peer may send for each second. It is more than honest peers need, because
/// they send keepalive pings every few seconds and changed settings less often.
const PER_SECOND: u32 = 32;

/// Bytes of a frame's payload that count as one more frame.
const PAYLOAD: usize = 64;

/// The types of frames that belong to requests or responses: DATA, HEADERS and CONTINUATION.
const OF_REQUESTS: [u8; 3] = [0, HEADERS, 9];
const HEADERS: u8 = 1;

/// Returns whether a frame of the type `kind` belongs to a request or a response, and therefore adds to the peer's
/// allowance for other frames.
pub(super) fn earns(kind: u8) -> bool {
    kind <= HEADERS
}

/// The allowance of a connection.
#[derive(Debug)]
pub(super) struct Allowance {
    left: u32,
    /// Time until which the [`PER_SECOND`] frames of each second have been added to the allowance. The clock is read
    /// only when the allowance is used up.
    counted: Instant,
}

impl Allowance {
    /// Returns a full allowance.
    pub(super) fn new() -> Allowance {
        Allowance { left: MOST, counted: Instant::now() }
    }

    /// Adds [`EARNED`] frames to the allowance, because of a request or of a frame of a response.
    #[inline]
    pub(super) fn earn(&mut self) {
        self.left = (self.left + EARNED).min(MOST);
    }

    /// Takes the cost of a received frame of the type `kind` from the allowance. Returns whether the allowance was
    /// large enough.
    #[inline]
    pub(super) fn receive(&mut self, kind: u8, payload: usize) -> bool {
        if kind == HEADERS {
            self.earn();
        }
        OF_REQUESTS.contains(&kind) || self.spend(1 + (payload / PAYLOAD) as u32)
    }

    fn spend(&mut self, cost: u32) -> bool {
        if self.left < cost {
            let earned = self.counted.elapsed().as_millis() * u128::from(PER_SECOND) / 1_000;
            self.left = u32::try_from(earned).map_or(MOST, |earned| (self.left + earned.min(MOST)).min(MOST));
            self.counted += Duration::from_millis((earned * 1_000 / u128::from(PER_SECOND)) as u64);
        }
        let paid = self.left >= cost;
        self.left = self.left.saturating_sub(cost);
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: u8 = 0;
    const CONTROL: [u8; 8] = [2, 3, 4, 5, 6, 7, 8, 0xfa];

    /// Receives frames until a frame exceeds the allowance, and returns the number of frames before that frame.
    fn until_too_many(allowance: &mut Allowance, kind: u8, payload: usize) -> u32 {
        let mut count = 0;
        while allowance.receive(kind, payload) {
            count += 1;
            assert!(count <= MOST, "frames of type {kind} have no limit");
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_every_other_type_are_limited_and_large_ones_sooner() {
        for kind in CONTROL {
            assert_eq!(until_too_many(&mut Allowance::new(), kind, 8), MOST, "type {kind}");
            assert_eq!(until_too_many(&mut Allowance::new(), kind, 16_384), MOST / 257, "type {kind}");
        }
        let mut allowance = Allowance::new();
        assert!((0..10 * MOST).all(|frame| allowance.receive([DATA, 1, 9][frame as usize % 3], 0)), "requests");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_and_responses_explain_some_each_and_time_does() {
        let mut allowance = Allowance::new();
        until_too_many(&mut allowance, 6, 8);
        allowance.earn();
        assert_eq!(until_too_many(&mut allowance, 8, 4), EARNED);
        assert!(allowance.receive(1, 0));
        assert_eq!(until_too_many(&mut allowance, 8, 4), EARNED);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(until_too_many(&mut allowance, 6, 8), PER_SECOND / 2);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(until_too_many(&mut allowance, 6, 8), MOST, "no more than that is saved");
    }

    /// Simulates an honest peer. It sends four frames for each frame of a long response, and then a keepalive ping each
    /// second on a connection that is idle for a day. The peer never reaches the limit.
    #[tokio::test(start_paused = true)]
    async fn honest_peers_meet_no_limit() {
        let mut allowance = Allowance::new();
        for _ in 0..100_000 {
            allowance.earn();
            assert!((0..EARNED).all(|_| allowance.receive(8, 4)));
        }
        for _ in 0..86_400 {
            assert!(allowance.receive(6, 8));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
}
