//! Decides when an AllocSvr registers and when it sends renewals, including retries and the pauses between
//! incarnations.
//!
//! One renewal is in flight at a time. A renewal without a response is repeated with the same number, after a wait. The
//! next renewal follows after the usual interval, sooner if an ownership update is expected, and at once if a peer
//! reports that a handover to this node is committed.
//!
//! [`Owner::renewal`](crate::owner::Owner::renewal) decides the content of a renewal. Times are durations since an
//! arbitrary origin that is the same in all calls. They are not readings of the clocks with which a lease is counted;
//! the caller reads those separately.

use core::time::Duration;

use crate::backoff::Backoff;
use crate::id::Incarnation;
use crate::lease::LeaseTerms;

/// Shortest time between two renewals that are sent because peers reported that handovers to this node are committed.
/// It is about the time that the store takes to commit an entry. Handovers that are reported within this time share the
/// next renewal, and forged reports cannot cause renewals more often.
pub const GRANT_INTERVAL: Duration = Duration::from_millis(5);

/// Longest pause between the end of a short incarnation and the next registration. If two processes register under the
/// same name, they end each other's incarnations. The pause keeps them from filling the store's log. It is long enough
/// for the store to grant sections to one process before the other process registers again.
pub const MAX_SESSION_PAUSE: Duration = Duration::from_secs(5);

/// Duration up to which an incarnation counts as short. After a longer incarnation, the next pause is the shortest
/// pause again.
pub const SHORT_SESSION: Duration = Duration::from_secs(10);

/// Interval at which a node checks whether its lease is over. While the lease is over, the node fetches routes from a
/// peer at the same interval.
pub const PEER_ROUTES_INTERVAL: Duration = Duration::from_millis(200);

/// Intervals of renewals and registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalOptions {
    /// Time between renewals while no update is expected.
    pub renew_interval: Duration,
    /// Interval between renewals while an ownership update is expected. Only a reported grant makes the next renewal
    /// due sooner, see [`GRANT_INTERVAL`].
    pub min_interval: Duration,
    /// Wait after the first failed renewal or registration. The wait doubles with each further failure.
    pub retry_min: Duration,
    /// Longest wait after a failed renewal or registration.
    pub retry_max: Duration,
}

impl RenewalOptions {
    /// Options for a network within a region.
    pub const DEFAULTS: RenewalOptions = RenewalOptions {
        renew_interval: LeaseTerms::DEFAULTS.renew_interval,
        min_interval: Duration::from_millis(50),
        retry_min: Duration::from_millis(20),
        retry_max: Duration::from_millis(250),
    };
}

/// The result of [`Renewals::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Send the renewal now. It is in flight from here on.
    Send,
    /// Poll again at this time, or after the next event.
    Wait(Duration),
    /// Poll again after the next event.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No incarnation.
    Ended,
    /// The next renewal is due after an interval that is counted from when the last renewal was sent. The first renewal
    /// is due at once.
    Paced {
        last_sent: Option<Duration>,
    },
    /// The renewal failed, and is repeated at this time.
    Retry(Duration),
    InFlight {
        sent: Duration,
    },
}

/// The renewals of a process' incarnations, one incarnation after another.
#[derive(Debug)]
pub struct Renewals {
    options: RenewalOptions,
    backoff: Backoff,
    state: State,
    /// Whether the ownership that the node knows has proved outdated since the last renewal was sent.
    stale: bool,
    /// Whether a peer has reported, since the last renewal was sent, that a handover to this node is committed.
    grant: bool,
}

impl Renewals {
    /// Creates the renewals without an incarnation.
    #[must_use]
    pub fn new(options: RenewalOptions) -> Renewals {
        let backoff = Backoff::new(options.retry_min, options.retry_max);
        Renewals { options, backoff, state: State::Ended, stale: false, grant: false }
    }

    /// Begins an incarnation, whose first renewal is due at once.
    pub fn on_registered(&mut self) {
        self.state = State::Paced { last_sent: None };
        self.backoff.reset();
    }

    /// Ends the incarnation.
    pub fn on_session_over(&mut self) {
        self.state = State::Ended;
    }

    /// Makes the next renewal due soon, because the ownership that the node knows proved outdated.
    pub fn on_stale(&mut self) {
        self.stale = true;
    }

    /// Makes the next renewal due as soon as [`GRANT_INTERVAL`] allows, because a peer reported that a handover to this
    /// node is committed. The response to the renewal grants the section.
    pub fn on_grant_reported(&mut self) {
        self.grant = true;
    }

    /// Returns the next action. `expects_update` returns whether the next response of the store is likely to have an
    /// ownership update for which the node waits.
    pub fn poll(&mut self, now: Duration, expects_update: impl FnOnce() -> bool) -> Poll {
        let RenewalOptions { renew_interval, min_interval, .. } = self.options;
        let due = match self.state {
            State::Ended | State::InFlight { .. } => return Poll::Idle,
            State::Retry(at) => at,
            State::Paced { last_sent: None } => now,
            State::Paced { last_sent: Some(sent) } if self.grant => sent + GRANT_INTERVAL,
            // `expects_update` is called only when the least interval has passed, because the awaited state changes
            // quickly.
            State::Paced { last_sent: Some(sent) } if now < sent + min_interval => sent + min_interval,
            State::Paced { last_sent: Some(_) } if self.stale || expects_update() => now,
            State::Paced { last_sent: Some(sent) } => sent + renew_interval,
        };
        if now < due {
            return Poll::Wait(due);
        }
        // The response is read after the store applied the renewal, so it covers everything that was signalled before.
        (self.stale, self.grant) = (false, false);
        self.state = State::InFlight { sent: now };
        Poll::Send
    }

    /// Notes the response to the renewal.
    pub fn on_response(&mut self) {
        if let State::InFlight { sent } = self.state {
            self.state = State::Paced { last_sent: Some(sent) };
            self.backoff.reset();
        }
    }

    /// Notes that the renewal got no usable response. `random` is any 32 bits.
    pub fn on_failed(&mut self, now: Duration, random: u32) {
        if let State::InFlight { .. } = self.state {
            self.state = State::Retry(now + self.backoff.wait(random));
        }
    }
}

/// The registrations of a process.
#[derive(Debug)]
pub struct Registrations {
    retry: Backoff,
    pause: Backoff,
    /// The newest incarnation of this node that is known here. The next registration follows it; 0 if none is known.
    follows: Incarnation,
    began: Duration,
}

impl Registrations {
    /// Creates the registrations before the first incarnation.
    #[must_use]
    pub fn new(options: RenewalOptions) -> Registrations {
        let RenewalOptions { retry_min, retry_max, .. } = options;
        Registrations {
            retry: Backoff::new(retry_min, retry_max),
            pause: Backoff::new(retry_min, MAX_SESSION_PAUSE),
            follows: Incarnation(0),
            began: Duration::ZERO,
        }
    }

    /// Returns the newest known incarnation of this node, which the next registration follows; 0 if none is known.
    #[must_use]
    pub fn follows(&self) -> Incarnation {
        self.follows
    }

    /// Notes that an incarnation began.
    pub fn on_registered(&mut self, now: Duration, incarnation: Incarnation) {
        self.follows = incarnation;
        self.began = now;
        self.retry.reset();
    }

    /// Notes `current`, the newest incarnation of this node that the store knows. Returns whether `current` is newer
    /// than [`Registrations::follows`]. If so, the process registers again at once, and the registration follows
    /// `current`.
    #[must_use]
    pub fn on_newer(&mut self, current: Incarnation) -> bool {
        let newer = current > self.follows;
        if newer {
            self.follows = current;
        }
        newer
    }

    /// Returns the wait before a registration that failed is repeated. `random` is any 32 bits.
    pub fn on_failed(&mut self, random: u32) -> Duration {
        self.retry.wait(random)
    }

    /// Returns the wait between the end of an incarnation and the next registration. `random` is any 32 bits.
    pub fn on_session_over(&mut self, now: Duration, random: u32) -> Duration {
        if now.saturating_sub(self.began) > SHORT_SESSION {
            self.pause.reset();
        }
        self.pause.wait(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn registered() -> Renewals {
        let mut renewals = Renewals::new(RenewalOptions::DEFAULTS);
        assert_eq!(renewals.poll(MS, || true), Poll::Idle);
        renewals.on_registered();
        assert_eq!(renewals.poll(100 * MS, || false), Poll::Send);
        renewals
    }

    #[test]
    fn renewals_follow_each_other_at_the_usual_interval_or_soon_while_an_update_is_expected() {
        let mut renewals = registered();
        assert_eq!(renewals.poll(101 * MS, || true), Poll::Idle, "one is in flight");
        renewals.on_response();
        assert_eq!(renewals.poll(110 * MS, || true), Poll::Wait(150 * MS));
        assert_eq!(renewals.poll(150 * MS, || false), Poll::Wait(500 * MS));
        assert_eq!(renewals.poll(151 * MS, || true), Poll::Send);
        renewals.on_response();
        assert_eq!(renewals.poll(551 * MS, || false), Poll::Send);
    }

    #[test]
    fn a_stale_route_and_a_reported_grant_are_followed_by_one_renewal() {
        let mut renewals = registered();
        renewals.on_stale();
        renewals.on_response();
        assert_eq!(renewals.poll(110 * MS, || false), Poll::Wait(150 * MS));
        renewals.on_grant_reported();
        assert_eq!(renewals.poll(104 * MS, || false), Poll::Wait(105 * MS));
        assert_eq!(renewals.poll(105 * MS, || false), Poll::Send);
        renewals.on_response();
        assert_eq!(renewals.poll(300 * MS, || false), Poll::Wait(505 * MS), "both were served");
    }

    #[test]
    fn a_renewal_that_failed_is_repeated_after_a_wait_that_doubles() {
        let mut renewals = registered();
        renewals.on_failed(600 * MS, 0);
        renewals.on_grant_reported();
        assert_eq!(renewals.poll(600 * MS, || true), Poll::Wait(610 * MS));
        assert_eq!(renewals.poll(610 * MS, || true), Poll::Send);
        renewals.on_failed(700 * MS, 0);
        assert_eq!(renewals.poll(700 * MS, || true), Poll::Wait(720 * MS));
        renewals.on_session_over();
        assert_eq!(renewals.poll(800 * MS, || true), Poll::Idle);
        renewals.on_response();
        assert_eq!(renewals.poll(800 * MS, || true), Poll::Idle, "a late response revives nothing");
    }

    #[test]
    fn short_incarnations_are_paused_longer_and_longer() {
        let mut registrations = Registrations::new(RenewalOptions::DEFAULTS);
        assert!(registrations.on_newer(Incarnation(4)));
        assert!(!registrations.on_newer(Incarnation(4)), "it is followed already");
        assert_eq!(registrations.follows(), Incarnation(4));
        assert_eq!((registrations.on_failed(0), registrations.on_failed(0)), (10 * MS, 20 * MS));
        let mut over = |began: u64, lasted: u64| {
            registrations.on_registered(Duration::from_secs(began), Incarnation(5));
            registrations.on_session_over(Duration::from_secs(began + lasted), 0)
        };
        assert_eq!((over(1, 1), over(2, 1), over(3, 1)), (10 * MS, 20 * MS, 40 * MS));
        assert_eq!(over(10, 11), 10 * MS);
    }
}
