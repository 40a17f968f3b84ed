//! Pending calls: the decisions about a call that cannot be served at once.
//!
//! A section may be at its ceiling, frozen for a handover, on its way to another node, or without an owner for as long
//! as the lease of a dead one runs. A call for it stays pending: it is served here, forwarded to the owner, or to the
//! set that the section is in, or waits, until its deadline. In a handover no call is refused, in this set or to
//! another one.
//!
//! [`PendingCall`] is the machine of the items of one section in one call; the shell serves, sends and waits. Calls
//! live on the threads of their endpoints, so there is a machine for each call and no lock around all of them. Time is
//! the [`Duration`] since the call became pending, on any clock that never goes back; only the epoch rule compares
//! clocks of a lease.
//!
//! **Invariant:** an attempt at an owner whose response does not arrive is counted in the item's result. A call that
//! was forwarded as often as allowed is not forwarded again. Only the first node sends a call to another set, and
//! follows a section that moved at once only on a claim that is strictly newer than what it used; so no call circles.

use core::time::Duration;

use crate::id::{Epoch, NodeId, SectionId, SetId};
use crate::lease::Clocks;
use crate::limits;
use crate::refusal::Refusal;

#[cfg(all(test, not(loom)))]
mod scenarios;

/// Limit on the calls that are pending at one node: with a kilobyte or two each they take as much memory as one large
/// batch, and a node with more of them is not about to catch up.
pub const MAX_PENDING: usize = 16_384;

/// Limit on the calls that are pending for sections of one other set, and on those that are under way to it: an eighth,
/// so that sets which do not respond leave room for the calls of this one.
pub const MAX_PENDING_OF_SET: usize = MAX_PENDING / 8;

/// Intervals of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// First interval after which a waiting call is tried again although nothing changed: an owner that could not be
    /// reached may be back. Doubles with each retry.
    pub first_retry: Duration,
    /// Limit on the interval between retries.
    pub last_retry: Duration,
    /// How long an owner that was replaced may still take to respond: longer than a planned handover takes to complete,
    /// and not much longer, because the callers of a lost host wait for as long.
    pub replaced_owner: Duration,
    /// Time without a response after which newer routes are requested at the shorter interval: longer than a live owner
    /// takes, and short against a lease.
    pub suspect_owner: Duration,
}

impl CallTimeouts {
    /// What fits the default lease.
    pub const DEFAULTS: CallTimeouts = CallTimeouts {
        first_retry: Duration::from_millis(25),
        last_retry: Duration::from_millis(400),
        replaced_owner: Duration::from_millis(250),
        suspect_owner: Duration::from_millis(300),
    };
}

/// What a node knows of a section's ownership when a call is evaluated.
pub trait OwnershipView {
    /// Whether the lease holds, if this node serves the section; `None` if it does not.
    fn lease_here(&self) -> Option<bool>;

    /// Another node that owns the section, by the newest routes known here.
    fn other_owner(&self) -> Option<NodeId>;

    /// Whether a handover of the section to this node is in progress.
    fn is_expected(&self) -> bool;

    /// The set that the section is in, by the newest routes known here.
    fn set_route(&self) -> SetRoute;
}

/// The set that a section is in, as far as a node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetRoute {
    /// The node's set.
    pub own: SetId,
    /// The section's, if it is another one.
    pub other: Option<SetId>,
    /// Newest epoch of the section in the routes. In another set: since which it is there.
    pub epoch: Epoch,
}

/// Where a call is forwarded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// The section's owner in this set.
    Node(NodeId),
    /// Another set; any of its nodes serves the call, or forwards it to the owner.
    Set(SetId),
}

impl Destination {
    /// The refusal of items of unknown outcome.
    #[must_use]
    pub fn timed_out(self, section: SectionId) -> Refusal {
        match self {
            Destination::Node(owner) => Refusal::OwnerTimedOut { section, owner },
            Destination::Set(set) => Refusal::SetTimedOut { section, set },
        }
    }
}

/// What the shell does next with the remaining items of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Serve them in order from the section, under the lease; then [`PendingCall::on_served`].
    Serve,
    /// Send them to their owner in one request, with one hop more, and [`PendingCall::watch`] it; then
    /// [`PendingCall::on_response`].
    Forward(NodeId),
    /// As [`Step::Forward`], to another set, under [`PendingCall::route_epoch`].
    ForwardToSet(SetId),
    /// Nothing now.
    Rest(Rest),
}

/// What becomes of items that are neither served nor forwarded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Rest {
    /// None is left.
    Done,
    /// They wait: [`PendingCall::evaluate`] when the ownership, the lease or the ceiling changes, at the latest at this
    /// time.
    Wait(Wait),
    /// They are refused.
    Refuse(Refusal),
}

/// What becomes of a request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Watch {
    /// It goes on: [`PendingCall::watch`] when the ownership changes, at the latest at this time.
    Wait(Wait),
    /// Drop it and count it with [`UnknownAttempts::add`] for each item; then [`PendingCall::evaluate`].
    Abandon(Destination),
    /// Drop it, count it as above, and refuse the items.
    Refuse(Destination, Refusal),
}

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When it ends, as time since the call became pending.
    pub until: Duration,
    /// Whether the call waits for an ownership update: renewals are sent at their shortest interval meanwhile.
    pub awaits_owner: bool,
    /// Whether it waits for the ceiling of a section that is served here, or for the section's handover.
    pub stalled: bool,
}

/// A request to an owner, or to another set, that is under way.
#[derive(Clone, Copy, Debug)]
struct Forwarded {
    to: Destination,
    sent: Duration,
    /// Since when the section is routed to another node, or another set.
    replaced: Option<Duration>,
    suspected: bool,
}

/// Why a call waits, and when it is tried again at the latest.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    reason: Refusal,
    retry_at: Duration,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// To be tried.
    Ready,
    Forwarded(Forwarded),
    Waiting(Waiting),
}

/// The items of one section in one call, in order: a later item of a uid is never served before an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct PendingCall {
    section: SectionId,
    /// How often servers have forwarded it.
    hops: u32,
    /// The newest epoch of the section in the request.
    epoch: Epoch,
    /// The epoch of the route that sent the last request; `None` before the first.
    used: Option<Epoch>,
    /// The set in the newest refusal of a node because the section moved, and the epoch since which it is there.
    claim: Option<(SetId, Epoch)>,
    /// Clocks of the lease when it had arrived.
    arrived: Clocks,
    /// When it is refused, as time since it became pending.
    deadline: Duration,
    timeouts: CallTimeouts,
    /// Interval to the next retry. Invariant: never above `timeouts.last_retry`.
    retry: Duration,
    state: State,
    /// Whether a renewal is to be sent now: the routes known here proved old, or may be.
    renewal_due: bool,
}

impl PendingCall {
    /// A call that becomes pending now. `arrived` was read after the request was received; `deadline` is the time until
    /// its client stops waiting. Of the items the request names `epoch` as the newest one.
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

    /// The section of its items.
    #[must_use]
    pub fn section(&self) -> SectionId {
        self.section
    }

    /// The epoch of the route that sent the last request: items that are sent to another set carry it, if they carry no
    /// newer one.
    #[must_use]
    pub fn route_epoch(&self) -> Epoch {
        self.used.unwrap_or_default()
    }

    /// Whether a renewal is to be sent now, because of the last decision.
    #[must_use]
    pub fn take_renewal(&mut self) -> bool {
        core::mem::take(&mut self.renewal_due)
    }

    /// Decides what to do now. Called when the call becomes pending, whenever the ownership, the lease or the ceiling
    /// changed, at the end of a wait, and after a request was abandoned.
    ///
    /// # Panics
    /// While a request is under way.
    pub fn evaluate(&mut self, now: Duration, view: &impl OwnershipView) -> Step {
        let mut early = None;
        match self.state {
            State::Forwarded(_) => panic!("a request for section {} is under way", self.section),
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

    /// The section is not served here. `early`: the call waits, and its next retry is not due yet.
    fn elsewhere(&mut self, now: Duration, view: &impl OwnershipView, early: Option<Waiting>) -> Step {
        let section = self.section;
        let SetRoute { own, other, epoch } = view.set_route();
        match self.claim.filter(|(_, since)| *since > epoch).or(other.map(|set| (set, epoch))) {
            // It returned: the routes will name its owner here.
            Some((set, _)) if set == own => {
                self.renewal_due = true;
                return Step::Rest(self.wait(now, Refusal::Unserved { section }, false));
            }
            Some((set, since)) => return self.in_other_set(now, set, since, early),
            None => {}
        }
        let owner = view.other_owner();
        // The node that forwarded the call has other routes than this one: one of the two is old.
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
            // It waits better where it came from: that node may be granted the section at any moment, and would wait
            // for the response of this one.
            Some(_) => Step::Rest(Rest::Refuse(Refusal::NotOwner { section, owner })),
        }
    }

    /// The section is in another set, since this epoch.
    fn in_other_set(&mut self, now: Duration, set: SetId, since: Epoch, early: Option<Waiting>) -> Step {
        let section = self.section;
        if self.hops == 0 {
            // The set has refused this very claim: without a newer one it is asked again after the interval only.
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
        // Another node sent it here, and one of the two has old routes. If it is the other one, it follows.
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

    /// The epoch to serve an item under that names `callers`, the newest one its client has seen.
    ///
    /// `confirmed` is when the newest request was sent whose response the store gave, on the boot clock. A client that
    /// has seen a newer ownership is served only once the store confirmed this one after the call arrived: then the
    /// client's epoch is wrong.
    ///
    /// # Errors
    /// [`Refusal::StaleEpoch`]: the call waits, and a renewal is sent now.
    pub fn epoch(&self, callers: Epoch, mine: Epoch, confirmed: u64) -> Result<Epoch, Refusal> {
        if callers > mine && confirmed <= self.arrived.boottime {
            return Err(Refusal::StaleEpoch { section: self.section, mine, callers });
        }
        Ok(callers.min(mine))
    }

    /// The items that could be served were. `blocked` is why the others could not; `None`: there is none.
    pub fn on_served(&mut self, now: Duration, blocked: Option<Refusal>) -> Rest {
        self.remain(now, blocked, true)
    }

    /// The owner, or the other set, responded. `remaining` is the refusal of the items that stay pending; `None`: none
    /// does. Where the section moved since what sent the request, they wait for nothing.
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

    /// Watches a request under way, by where the newest routes have the section under which epoch. An owner that hands
    /// a section over responds to late calls as well, by way of the next owner; so one that was replaced and does not
    /// respond is gone. A claim that is newer than the routes stands beside them.
    ///
    /// # Panics
    /// Without a request under way.
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

    /// The request under way was dropped, as [`Watch::Abandon`] of another call in the same request asked.
    pub fn on_abandoned(&mut self) {
        self.state = State::Ready;
    }

    /// Waits for this reason, found here or at another node, or refuses with it once the deadline is over.
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

/// Attempts of an item whose outcome is unknown: each may have consumed as many numbers as the item asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAttempts {
    attempts: u32,
    /// Where the last one went.
    to: Destination,
}

impl Default for UnknownAttempts {
    fn default() -> UnknownAttempts {
        UnknownAttempts { attempts: 0, to: Destination::Node(NodeId(0)) }
    }
}

impl UnknownAttempts {
    /// A request to an owner, or to another set, was abandoned.
    pub fn add(&mut self, to: Destination) {
        *self = UnknownAttempts { attempts: self.attempts.saturating_add(1), to };
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.attempts
    }

    /// The refusal of an item after these attempts: with any of them it may not state that no number was consumed.
    #[must_use]
    pub fn refusal(&self, section: SectionId, refusal: Refusal) -> Refusal {
        if self.attempts == 0 { refusal } else { self.to.timed_out(section) }
    }
}
