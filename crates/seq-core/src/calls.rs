//! Pending calls: the decisions about a call that cannot be served at once.
//!
//! A section may be at its ceiling, frozen for a handover, on its way to another node, or without an owner until the
//! lease of a dead owner has ended. A call for such a section stays pending: until its deadline it is served here,
//! forwarded to the owner or to the set that the section is in, or it waits. A handover refuses no call, whether it is
//! to a node of this set or of another set.
//!
//! [`PendingCall`] is the machine of the items of one section in one call; the shell serves, sends and waits. Calls
//! live on the threads of their endpoints, so there is a machine for each call and no lock around all of them. Time is
//! the [`Duration`] since the call became pending, on any clock that never goes back; only the epoch rule compares
//! clocks of a lease.
//!
//! **Invariant:** an attempt at an owner whose response does not arrive is counted in the item's result. A call that
//! was forwarded as often as allowed is not forwarded again. Only the first node sends a call to another set, and it
//! follows a section that moved at once only on a claim that is strictly newer than the claim or route that it used, so
//! no call circles.

use core::time::Duration;

use crate::id::{Epoch, NodeId, SectionId, SetId};
use crate::lease::Clocks;
use crate::limits;
use crate::refusal::Refusal;

#[cfg(all(test, not(loom)))]
mod scenarios;

/// Limit on the calls that are pending at a node: with a kilobyte or two each they take as much memory as a large
/// batch, and a node with more pending calls is not about to catch up.
pub const MAX_PENDING: usize = 16_384;

/// Limit on the calls that are pending for sections of one other set, and on the calls in flight to it: an eighth of
/// all, so that sets which do not respond leave room for the calls of this set.
pub const MAX_PENDING_OF_SET: usize = MAX_PENDING / 8;

/// Intervals of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// First interval after which a waiting call is tried again although nothing changed, because an owner that could
    /// not be reached may be back. Doubles with each retry.
    pub first_retry: Duration,
    /// Limit on the interval between retries.
    pub last_retry: Duration,
    /// Time that an owner which was replaced has to respond: longer than a planned handover takes to complete, but not
    /// much longer, because the callers of a lost host wait for as long.
    pub replaced_owner: Duration,
    /// Time without a response after which newer routes are requested at the shorter interval: longer than a live owner
    /// takes, and short compared with a lease.
    pub suspect_owner: Duration,
}

impl CallTimeouts {
    /// Timeouts that fit the default lease.
    pub const DEFAULTS: CallTimeouts = CallTimeouts {
        first_retry: Duration::from_millis(25),
        last_retry: Duration::from_millis(400),
        replaced_owner: Duration::from_millis(250),
        suspect_owner: Duration::from_millis(300),
    };
}

/// Ownership of a section as a node knows it when a call is evaluated.
pub trait OwnershipView {
    /// Returns whether the lease holds, if this node serves the section; `None` if it does not.
    fn lease_here(&self) -> Option<bool>;

    /// Returns another node that owns the section, by the newest routes known here.
    fn other_owner(&self) -> Option<NodeId>;

    /// Returns whether a handover of the section to this node is in progress.
    fn is_expected(&self) -> bool;

    /// Returns the set that the section is in, by the newest routes known here.
    fn set_route(&self) -> SetRoute;
}

/// The set that a section is in, as far as a node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetRoute {
    /// The node's set.
    pub own: SetId,
    /// The section's set, if it is another set.
    pub other: Option<SetId>,
    /// Newest epoch of the section in the routes. For a section in another set, the epoch since which it is there.
    pub epoch: Epoch,
}

/// Destination of a forwarded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// The section's owner in this set.
    Node(NodeId),
    /// Another set; any of its nodes serves the call, or forwards it to the owner.
    Set(SetId),
}

impl Destination {
    /// Returns the refusal of items of unknown outcome.
    #[must_use]
    pub fn timed_out(self, section: SectionId) -> Refusal {
        match self {
            Destination::Node(owner) => Refusal::OwnerTimedOut { section, owner },
            Destination::Set(set) => Refusal::SetTimedOut { section, set },
        }
    }
}

/// Next action of the shell for the remaining items of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Serve the items in order from the section, under the lease; then call [`PendingCall::on_served`].
    Serve,
    /// Send the items to their owner in one request, with one hop more, and [`PendingCall::watch`] it; then call
    /// [`PendingCall::on_response`].
    Forward(NodeId),
    /// Like [`Step::Forward`], but to another set; the forwarded call carries [`PendingCall::route_epoch`].
    ForwardToSet(SetId),
    /// Neither serve nor forward now.
    Rest(Rest),
}

/// Outcome for items that are neither served nor forwarded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// No item is left.
    Done,
    /// The items wait. [`PendingCall::evaluate`] is called when the ownership, the lease or the ceiling changes, and at
    /// the latest at this time.
    Wait(Wait),
    /// The items are refused.
    Refuse(Refusal),
}

/// Decision about a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Watch {
    /// The request goes on. [`PendingCall::watch`] is called when the ownership changes, and at the latest at this
    /// time.
    Wait(Wait),
    /// Drop the request and count it with [`UnknownAttempts::add`] for each item; then call [`PendingCall::evaluate`].
    Abandon(Destination),
    /// Drop the request, count it with [`UnknownAttempts::add`] for each item, and refuse the items.
    Refuse(Destination, Refusal),
}

/// A wait of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// End of the wait, as time since the call became pending.
    pub until: Duration,
    /// Whether the call waits for an ownership update. While it waits, renewals are sent at their shortest interval.
    pub awaits_owner: bool,
    /// Whether it waits for the ceiling of a section that is served here, or for the section's handover.
    pub stalled: bool,
}

/// A request in flight to an owner, or to another set.
#[derive(Clone, Copy, Debug)]
struct Forwarded {
    to: Destination,
    sent: Duration,
    /// Time since which the section is routed to another node, or another set.
    replaced: Option<Duration>,
    suspected: bool,
}

/// The reason why a call waits, and the latest time of the next try.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    reason: Refusal,
    retry_at: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The call is to be tried.
    Ready,
    Forwarded(Forwarded),
    Waiting(Waiting),
}

/// The items of one section in one call, in order: a later item of a uid is never served before an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct PendingCall {
    section: SectionId,
    /// Number of times that servers have forwarded it.
    hops: u32,
    /// The newest epoch of the section in the request.
    epoch: Epoch,
    /// The epoch of the route that sent the last request; `None` before the first.
    used: Option<Epoch>,
    /// The set in the newest refusal of a node because the section moved, and the epoch since which it is there.
    claim: Option<(SetId, Epoch)>,
    /// Clocks of the lease when the call had arrived.
    arrived: Clocks,
    /// Time at which the call is refused, since it became pending.
    deadline: Duration,
    timeouts: CallTimeouts,
    /// Interval to the next retry. Invariant: never above `timeouts.last_retry`.
    retry: Duration,
    state: State,
    /// Whether a renewal is to be sent now: the routes known here proved old, or may be.
    renewal_due: bool,
}

impl PendingCall {
    /// Creates a call that becomes pending now. `arrived` was read after the request was received; `deadline` is the
    /// time until its client stops waiting. `epoch` is the newest epoch that the request names for the items.
    #[must_use]
    pub fn new(
        section: SectionId,
        (hops, epoch): (u32, Epoch),
        arrived: Clocks,
        deadline: Duration,
        timeouts: CallTimeouts,
    ) -> PendingCall {
        let (used, retry) = (None, timeouts.first_retry);
        let (claim, state, renewal_due) = (None, State::Ready, false);
        PendingCall { section, hops, epoch, used, claim, arrived, deadline, timeouts, retry, state, renewal_due }
    }

    /// Returns the section of its items.
    #[must_use]
    pub fn section(&self) -> SectionId {
        self.section
    }

    /// Returns the epoch of the route that sent the last request. Items that are sent to another set carry it, if they
    /// carry no newer epoch.
    #[must_use]
    pub fn route_epoch(&self) -> Epoch {
        self.used.unwrap_or_default()
    }

    /// Returns whether a renewal is to be sent now, because of the last decision.
    #[must_use]
    pub fn take_renewal(&mut self) -> bool {
        core::mem::take(&mut self.renewal_due)
    }

    /// Decides the next action. Called when the call becomes pending, whenever the ownership, the lease or the ceiling
    /// changed, at the end of a wait, and after a request was abandoned.
    ///
    /// # Panics
    /// While a request is in flight.
    pub fn evaluate(&mut self, now: Duration, view: &impl OwnershipView) -> Step {
        let mut early = None;
        match self.state {
            State::Forwarded(_) => panic!("a request for section {} is in flight", self.section),
            State::Waiting(waiting) if now >= self.deadline => return Step::Rest(Rest::Refuse(waiting.reason)),
            State::Waiting(waiting) if now >= waiting.retry_at => {
                self.retry = (self.retry * 2).min(self.timeouts.last_retry);
            }
            State::Waiting(waiting) => early = Some(waiting),
            State::Ready => {}
        }
        self.state = State::Ready;
        match view.lease_here() {
            Some(true) => Step::Serve,
            Some(false) => Step::Rest(self.wait(now, Refusal::LeaseExpired { section: self.section }, true)),
            None => self.elsewhere(now, view, early),
        }
    }

    /// Decides the next action for a section that is not served here. With `early`, the call waits, and its next retry
    /// is not due yet.
    fn elsewhere(&mut self, now: Duration, view: &impl OwnershipView, early: Option<Waiting>) -> Step {
        let section = self.section;
        let SetRoute { own, other, epoch } = view.set_route();
        match self.claim.filter(|(_, since)| *since > epoch).or(other.map(|set| (set, epoch))) {
            // The section returned to this set: the routes will name its owner here.
            Some((set, _)) if set == own => {
                self.renewal_due = true;
                return Step::Rest(self.wait(now, Refusal::Unserved { section }, false));
            }
            Some((set, since)) => return self.in_other_set(now, set, since, early),
            None => {}
        }
        let owner = view.other_owner();
        // The node that forwarded the call has other routes than this node, so the routes of one of the two are old.
        self.renewal_due |= owner.is_none() || self.hops > 0;
        match owner {
            None => Step::Rest(self.wait(now, Refusal::Unserved { section }, false)),
            // Nothing was sent, so the refusal states that no number was consumed.
            Some(_) if now >= self.deadline => Step::Rest(Rest::Refuse(Refusal::DeadlinePassed { section })),
            Some(to) if self.hops < limits::MAX_HOPS => {
                self.forward(now, Destination::Node(to), epoch);
                Step::Forward(to)
            }
            Some(_) if view.is_expected() => Step::Rest(self.wait(now, Refusal::NotOwner { section, owner }, false)),
            // The call waits better at the node that sent it here: that node may be granted the section at any moment,
            // and would have to wait for the response of this node.
            Some(_) => Step::Rest(Rest::Refuse(Refusal::NotOwner { section, owner })),
        }
    }

    /// Decides the next action for a section that is in another set since this epoch.
    fn in_other_set(&mut self, now: Duration, set: SetId, since: Epoch, early: Option<Waiting>) -> Step {
        let section = self.section;
        if self.hops == 0 {
            // The set has refused exactly this claim: without a newer claim it gets another request only after the
            // interval.
            if let Some(waiting) = early.filter(|_| self.used == Some(since)) {
                self.state = State::Waiting(waiting);
                return Step::Rest(Rest::Wait(Wait { until: waiting.retry_at, awaits_owner: true, stalled: false }));
            }
            if now >= self.deadline {
                return Step::Rest(Rest::Refuse(Refusal::DeadlinePassed { section }));
            }
            self.forward(now, Destination::Set(set), since);
            return Step::ForwardToSet(set);
        }
        // Another node sent the call here, and the routes of one of the two are old. If that node's routes are old, it
        // follows the refusal.
        self.renewal_due = true;
        if since >= self.epoch {
            return Step::Rest(Rest::Refuse(Refusal::Moved { section, set, since }));
        }
        let refusal = Refusal::StaleEpoch { section, mine: since, callers: self.epoch };
        Step::Rest(self.wait(now, refusal, false))
    }

    fn forward(&mut self, now: Duration, to: Destination, used: Epoch) {
        self.used = Some(used);
        self.state = State::Forwarded(Forwarded { to, sent: now, replaced: None, suspected: false });
    }

    /// Returns the epoch under which to serve an item that names `callers`, the newest epoch that its client has seen.
    ///
    /// `confirmed` is the time, on the clock since boot, at which this node sent the newest request to which the store
    /// has responded. If the client names an epoch above `mine`, the item is served only if that request was sent after
    /// the call arrived: then the store has confirmed this node's ownership since, and the client's epoch is wrong.
    ///
    /// # Errors
    /// [`Refusal::StaleEpoch`]: the call waits, and a renewal is sent now.
    pub fn epoch(&self, callers: Epoch, mine: Epoch, confirmed: u64) -> Result<Epoch, Refusal> {
        if callers > mine && confirmed <= self.arrived.boottime {
            return Err(Refusal::StaleEpoch { section: self.section, mine, callers });
        }
        Ok(callers.min(mine))
    }

    /// Continues after all items that could be served were served. `blocked` is the reason why the others could not;
    /// `None`: no item is left.
    pub fn on_served(&mut self, now: Duration, blocked: Option<Refusal>) -> Rest {
        self.remain(now, blocked, true)
    }

    /// Continues after the owner, or the other set, responded. `remaining` is the refusal of the items that stay
    /// pending; `None`: no item is left. If the section moved since the route or claim that sent the request, the items
    /// are tried again at once.
    pub fn on_response(&mut self, now: Duration, remaining: Option<Refusal>) -> Rest {
        if let Some(Refusal::Moved { set, since, .. }) = remaining
            && Some(since) > self.used
            && now < self.deadline
        {
            self.claim = Some((set, since));
            (self.state, self.renewal_due) = (State::Ready, true);
            return Rest::Wait(Wait { until: now, awaits_owner: true, stalled: false });
        }
        self.remain(now, remaining, false)
    }

    fn remain(&mut self, now: Duration, reason: Option<Refusal>, here: bool) -> Rest {
        self.state = State::Ready;
        let Some(reason) = reason else { return Rest::Done };
        self.renewal_due |= matches!(
            reason,
            Refusal::NotOwner { .. } | Refusal::Unserved { .. } | Refusal::StaleEpoch { .. } | Refusal::Moved { .. }
        );
        self.wait(now, reason, here)
    }

    /// Watches a request in flight, by the destination and the epoch that the newest routes have for the section. An
    /// owner that hands a section over responds to late calls as well, through the next owner, so an owner that was
    /// replaced and does not respond is gone. A claim that is newer than the routes counts in addition to them.
    ///
    /// # Panics
    /// Without a request in flight.
    pub fn watch(&mut self, now: Duration, (routed, epoch): (Option<Destination>, Epoch)) -> Watch {
        let State::Forwarded(mut request) = self.state else { panic!("no request for section {}", self.section) };
        let to = request.to;
        if now >= self.deadline {
            self.state = State::Ready;
            return Watch::Refuse(to, to.timed_out(self.section));
        }
        let claimed = self.claim.filter(|(_, since)| *since > epoch).map(|(set, _)| Destination::Set(set));
        let stands = [routed, claimed].contains(&Some(to));
        request.replaced = if stands { None } else { request.replaced.or(Some(now)) };
        let abandoned_at = request.replaced.map(|since| since + self.timeouts.replaced_owner);
        if abandoned_at.is_some_and(|at| now >= at) {
            self.on_abandoned();
            return Watch::Abandon(to);
        }
        let suspect_at = request.sent + self.timeouts.suspect_owner;
        self.renewal_due |= !request.suspected && now >= suspect_at;
        request.suspected |= now >= suspect_at;
        self.state = State::Forwarded(request);
        let timers = [abandoned_at, (!request.suspected).then_some(suspect_at)];
        let until = timers.into_iter().flatten().fold(self.deadline, Duration::min);
        Watch::Wait(Wait { until, awaits_owner: request.suspected, stalled: false })
    }

    /// Continues after the request in flight was dropped, because [`Watch::Abandon`] of another call in the same
    /// request required it.
    pub fn on_abandoned(&mut self) {
        self.state = State::Ready;
    }

    /// Waits for this reason, found here or at another node, or refuses with it once the deadline has passed.
    fn wait(&mut self, now: Duration, reason: Refusal, here: bool) -> Rest {
        if now >= self.deadline {
            return Rest::Refuse(reason);
        }
        let retry_at = (now + self.retry).min(self.deadline);
        self.state = State::Waiting(Waiting { reason, retry_at });
        let stalled = here && matches!(reason, Refusal::CeilingStalled { .. });
        let awaits_owner = !here || matches!(reason, Refusal::StaleEpoch { .. });
        Rest::Wait(Wait { until: retry_at, awaits_owner, stalled })
    }
}

/// Attempts of an item whose outcome is unknown: each attempt may have consumed as many numbers as the item requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAttempts {
    attempts: u32,
    /// Destination of the last attempt.
    to: Destination,
}

impl Default for UnknownAttempts {
    fn default() -> UnknownAttempts {
        UnknownAttempts { attempts: 0, to: Destination::Node(NodeId(0)) }
    }
}

impl UnknownAttempts {
    /// Counts a request to an owner, or to another set, that was abandoned.
    pub fn add(&mut self, to: Destination) {
        *self = UnknownAttempts { attempts: self.attempts.saturating_add(1), to };
    }

    /// Returns the number of attempts.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.attempts
    }

    /// Returns the refusal of an item after these attempts: after any attempt it may not state that no number was
    /// consumed.
    #[must_use]
    pub fn refusal(&self, section: SectionId, refusal: Refusal) -> Refusal {
        if self.attempts == 0 { refusal } else { self.to.timed_out(section) }
    }
}
