//! Decides how a node proceeds with a call that it cannot serve at once.
//!
//! A section may be at its ceiling, frozen for a handover, on its way to another node, or without an owner until the
//! lease of a dead owner has ended. A call for such a section is pending, at most until the call's deadline. During
//! this time the node serves the call if it can, forwards the call to the section's owner or to the set that has the
//! section, or lets the call wait. No call is refused because of a handover, whether the target of the handover is a
//! node of this set or of another set.
//!
//! A [`PendingCall`] is a state machine for the items of one call that are in one section. It only decides. The code
//! that uses it serves the items, sends requests and waits. Each call has its own machine, on the thread of the
//! endpoint that received the call, so that calls share no lock. Times are [`Duration`]s since the call became pending,
//! on any clock that never goes back. Only [`PendingCall::epoch`] compares readings of the clocks of a lease.
//!
//! **Invariant:** if an owner does not respond to a forwarded request, the later refusal of an item of that request
//! states that numbers may have been consumed. A call that was forwarded as often as allowed is not forwarded again.
//! A call whose client follows redirects itself is not forwarded to another node of this set.
//! Only the node that first received a call sends it to another set. If that set refuses the call because the section
//! moved, the node sends the call again at once only if the refusal names a newer epoch than the route or claim by
//! which the call was sent. So no call is forwarded in a circle.

use core::time::Duration;

use crate::id::{Epoch, NodeId, SectionId, SetId};
use crate::lease::Clocks;
use crate::limits;
use crate::refusal::Refusal;
use crate::route::Route;

#[cfg(all(test, not(loom)))]
mod by_route;
#[cfg(all(test, not(loom)))]
mod scenarios;

/// Maximum number of calls that are pending at a node. With one or two kilobytes for each call, they take 16 to 32 MB.
/// A node with more pending calls is unlikely to catch up soon.
pub const MAX_PENDING: usize = 16_384;

/// Maximum number of calls that are pending for the sections of one other set, and also the maximum number of calls in
/// flight to that set. It is an eighth of [`MAX_PENDING`], so that a set that does not respond leaves room for calls
/// for this set's own sections.
pub const MAX_PENDING_OF_SET: usize = MAX_PENDING / 8;

/// Intervals of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// Interval before a waiting call is retried for the first time if the ownership, the lease and the ceiling have
    /// not changed. Such a retry can succeed, because an owner that could not be reached may be reachable again. The
    /// interval doubles with each retry.
    pub first_retry: Duration,
    /// Longest interval between retries.
    pub last_retry: Duration,
    /// Time for which the node still waits for an owner's response to a forwarded call after the routes have named
    /// another owner. It is longer than a planned handover takes, but not much longer, because callers wait for this
    /// time if the old owner's host has failed.
    pub replaced_owner: Duration,
    /// Time without a response to a forwarded call after which the node sends renewals at their shortest interval, to
    /// get newer routes. It is longer than a live owner takes to respond, and short compared with a lease.
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

/// The ownership of a call's section, as the node knows it when it evaluates the call.
pub trait OwnershipView {
    /// Returns whether this node's lease holds; `None` if this node does not serve the section.
    fn lease_here(&self) -> Option<bool>;

    /// Returns the owner of the section according to the newest routes known here, if the owner is another node of this
    /// set.
    fn other_owner(&self) -> Option<NodeId>;

    /// Returns whether a handover of the section to this node is in progress.
    fn is_expected(&self) -> bool;

    /// Returns the set that the section is in according to the newest routes known here.
    fn set_route(&self) -> SetRoute;
}

/// The set that a section is in, as far as a node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetRoute {
    /// The node's set.
    pub own: SetId,
    /// The section's set, if it is another set.
    pub other: Option<SetId>,
    /// Epoch of the section in the newest routes. If the section is in another set, the epoch under which it arrived
    /// there.
    pub epoch: Epoch,
}

/// Treatment of a call whose section another node of its set owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    /// The node forwards the call to the owner.
    #[default]
    Forward,
    /// The node refuses the call with [`Refusal::NotOwner`], because the call's client follows redirects itself, as
    /// clients of Redis Cluster do. A call for a section in another set is forwarded to that set nevertheless, because
    /// the client does not know the nodes of that set.
    Refuse,
}

/// Destination of a forwarded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    /// The section's owner in this set.
    Node(NodeId),
    /// Another set. The call goes to any node of that set, which serves the call or forwards it to the section's owner.
    Set(SetId),
}

impl Destination {
    /// Returns the refusal for the items of a request to which this destination did not respond.
    #[must_use]
    pub fn timed_out(self, section: SectionId) -> Refusal {
        match self {
            Destination::Node(owner) => Refusal::OwnerTimedOut { section, owner },
            Destination::Set(set) => Refusal::SetTimedOut { section, set },
        }
    }
}

/// Next action of the caller for the remaining items of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Allocate the numbers for the items from the section, in the order of the items and while the lease holds. Then
    /// call [`PendingCall::on_served`].
    Serve,
    /// Send the items in one request to the named node, which owns the section. The request has one more hop than the
    /// call had. Call [`PendingCall::watch`] while the request is in flight, and [`PendingCall::on_response`] after its
    /// response.
    Forward(NodeId),
    /// Send the items to any node of the named set, and otherwise proceed as with [`Step::Forward`]. The request states
    /// [`PendingCall::route_epoch`] for the items.
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
    /// The items wait. Call [`PendingCall::evaluate`] when the ownership, the lease or the ceiling changes, and at the
    /// latest at [`Wait::until`].
    Wait(Wait),
    /// The items are refused.
    Refuse(Refusal),
}

/// Decision about a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Watch {
    /// The request stays in flight. Call [`PendingCall::watch`] again when the ownership changes, and at the latest at
    /// [`Wait::until`].
    Wait(Wait),
    /// Drop the request, because the routes name another destination, and count it with [`UnknownAttempts::add`] for
    /// each item. Then call [`PendingCall::evaluate`].
    Abandon(Destination),
    /// Drop the request, because the call's deadline has passed, and count it with [`UnknownAttempts::add`] for each
    /// item. Then refuse the items.
    Refuse(Destination, Refusal),
}

/// A wait of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// End of the wait, as time since the call became pending.
    pub until: Duration,
    /// Whether the call waits for an ownership update. Such a wait makes a renewal due when it begins, and during the
    /// wait the node sends renewals at their shortest interval.
    pub awaits_owner: bool,
    /// Whether the call waits until this node, which serves the section, has raised the section's ceiling or handed the
    /// section over.
    pub stalled: bool,
}

/// A request in flight to an owner, or to another set.
#[derive(Clone, Copy, Debug)]
struct Forwarded {
    to: Destination,
    sent: Duration,
    /// Time when the routes first named another destination than `to`; `None` while they name `to`.
    replaced: Option<Duration>,
    suspected: bool,
}

/// The reason why a call waits, and the time when it is retried at the latest.
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

/// State machine for the items of one call that are in one section. The items are served in the order that they have in
/// the call, also if several items have the same uid.
#[derive(Clone, Copy, Debug)]
pub struct PendingCall {
    section: SectionId,
    /// Number of times that servers have forwarded the call.
    hops: u32,
    redirects: Redirects,
    /// The newest epoch of the section in the request.
    epoch: Epoch,
    /// The epoch of the route or claim by which the call was last forwarded; `None` if it was not forwarded yet.
    used: Option<Epoch>,
    /// The set and the epoch in the newest [`Refusal::Moved`] that a node has sent for this call. The section is in
    /// that set since that epoch.
    claim: Option<(SetId, Epoch)>,
    /// Clocks of the lease when the call had arrived.
    arrived: Clocks,
    /// Time at which the call is refused, counted from when it became pending.
    deadline: Duration,
    timeouts: CallTimeouts,
    /// Interval to the next retry. Invariant: never above `timeouts.last_retry`.
    retry: Duration,
    state: State,
    /// Whether the node should send a renewal now, because the routes that it knows are or may be outdated.
    renewal_due: bool,
}

impl PendingCall {
    /// Creates the machine of a call that becomes pending now. `hops` is the number of times that servers have
    /// forwarded the call, and `epoch` is the newest epoch that the request names for the items. `arrived` is a reading
    /// of the clocks from after the request was received. `deadline` is the time from now until the client stops
    /// waiting.
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
        let redirects = Redirects::Forward;
        PendingCall {
            section,
            hops,
            redirects,
            epoch,
            used,
            claim,
            arrived,
            deadline,
            timeouts,
            retry,
            state,
            renewal_due,
        }
    }

    /// Returns the same machine, of a call that is forwarded or refused as `redirects` states.
    #[must_use]
    pub fn with_redirects(self, redirects: Redirects) -> PendingCall {
        PendingCall { redirects, ..self }
    }

    /// Returns the node to which the items of a call that has just become pending are forwarded, if the route of their
    /// section alone decides that. `me` is this node, which does not serve the section. The decision is that of
    /// [`PendingCall::evaluate`], which has to be called if this function returns `None`. All sections of the call that
    /// are forwarded to the same node need only one machine; see [`PendingCall::forwarded`].
    #[inline]
    #[must_use]
    pub fn owner_by_route(&self, route: Route, me: NodeId) -> Option<NodeId> {
        let new = matches!(self.state, State::Ready) && self.claim.is_none();
        let forwarded = self.hops == 0 && self.redirects == Redirects::Forward && !self.deadline.is_zero();
        let owner = route.owner.filter(|owner| *owner != me && route.other_set().is_none());
        owner.filter(|_| new && forwarded)
    }

    /// Returns the machine after the decision [`PendingCall::owner_by_route`] for its section. `used` is the epoch of
    /// the route. The machine stands for all sections that are forwarded to `owner` in the same request, until
    /// [`PendingCall::in_same_request`] makes the machines of the others.
    #[must_use]
    pub fn forwarded(mut self, owner: NodeId, used: Epoch) -> PendingCall {
        self.forward(Duration::ZERO, Destination::Node(owner), used);
        self
    }

    /// Returns the machine of another section of the call, whose items share all requests with the items of this
    /// machine. `epoch` is the newest epoch that the call names for these items, and `used` the epoch of the route by
    /// which they were forwarded.
    #[must_use]
    pub fn in_same_request(&self, section: SectionId, epoch: Epoch, used: Epoch) -> PendingCall {
        PendingCall { section, epoch, used: self.used.and(Some(used)), ..*self }
    }

    /// Returns the section of the call's items.
    #[must_use]
    pub fn section(&self) -> SectionId {
        self.section
    }

    /// Returns the epoch of the route or claim by which the call was last forwarded; 0 if it was not forwarded yet. An
    /// item that is sent to another set carries this epoch, unless the item already has a newer epoch.
    #[must_use]
    pub fn route_epoch(&self) -> Epoch {
        self.used.unwrap_or_default()
    }

    /// Returns whether the node should send a renewal now, because of the decisions made since the last call of this
    /// function.
    #[must_use]
    pub fn take_renewal(&mut self) -> bool {
        core::mem::take(&mut self.renewal_due)
    }

    /// Decides the next action. This function must be called when the call becomes pending, whenever the ownership, the
    /// lease or the ceiling has changed, at the end of a wait, and after a request was abandoned.
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

    /// Decides the next action if this node does not serve the section. `early` is the current wait of the call if the
    /// next retry is not due yet.
    fn elsewhere(&mut self, now: Duration, view: &impl OwnershipView, early: Option<Waiting>) -> Step {
        let section = self.section;
        let SetRoute { own, other, epoch } = view.set_route();
        match self.claim.filter(|(_, since)| *since > epoch).or(other.map(|set| (set, epoch))) {
            // The section returned to this set, and the routes will soon name its owner here.
            Some((set, _)) if set == own => return Step::Rest(self.wait(now, Refusal::Unserved { section }, false)),
            Some((set, since)) => return self.in_other_set(now, set, since, early),
            None => {}
        }
        let owner = view.other_owner();
        // The node that forwarded the call has other routes than this node, so the routes of one of these two nodes are
        // old.
        self.renewal_due |= self.hops > 0;
        match owner {
            None => Step::Rest(self.wait(now, Refusal::Unserved { section }, false)),
            // The handover to this node may end before a redirected client could be back here. The client would be sent
            // to and fro in the meantime, and clients follow few redirects.
            Some(_) if self.redirects == Redirects::Refuse && view.is_expected() => {
                Step::Rest(self.wait(now, Refusal::NotOwner { section, owner }, false))
            }
            Some(_) if self.redirects == Redirects::Refuse => {
                Step::Rest(Rest::Refuse(Refusal::NotOwner { section, owner }))
            }
            // Nothing was sent, so the refusal states that no number was consumed.
            Some(_) if now >= self.deadline => Step::Rest(Rest::Refuse(Refusal::DeadlinePassed { section })),
            Some(to) if self.hops < limits::MAX_HOPS => {
                self.forward(now, Destination::Node(to), epoch);
                Step::Forward(to)
            }
            Some(_) if view.is_expected() => Step::Rest(self.wait(now, Refusal::NotOwner { section, owner }, false)),
            // The call is refused, so that it waits at the node that sent it here. That node may be granted the section
            // at any moment, and could not serve the call before this node has responded.
            Some(_) => Step::Rest(Rest::Refuse(Refusal::NotOwner { section, owner })),
        }
    }

    /// Decides the next action if the section is in the other set `set` since the epoch `since`.
    fn in_other_set(&mut self, now: Duration, set: SetId, since: Epoch, early: Option<Waiting>) -> Step {
        let section = self.section;
        if self.hops == 0 {
            // A request that was sent by this claim or a newer claim was already refused. Without a newer claim, the
            // next request is sent only after the retry interval. Routes name an older claim than was used if the own
            // set continues from a backup.
            if let Some(waiting) = early.filter(|_| self.used >= Some(since)) {
                self.state = State::Waiting(waiting);
                return Step::Rest(Rest::Wait(Wait { until: waiting.retry_at, awaits_owner: true, stalled: false }));
            }
            if now >= self.deadline {
                return Step::Rest(Rest::Refuse(Refusal::DeadlinePassed { section }));
            }
            self.forward(now, Destination::Set(set), since);
            return Step::ForwardToSet(set);
        }
        // Another node sent the call here, and the routes of one of the two nodes are old. If the other node's routes
        // are old, it sends the call to the set that the refusal names.
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

    /// Returns the epoch under which this node serves an item. `callers` is the newest epoch of the section that the
    /// item's client has seen, and `mine` is the epoch of this node's ownership.
    ///
    /// `confirmed` is the time on the boot clock, in nanoseconds, when this node sent its newest request to which the
    /// store has responded. If `callers` is above `mine`, the item is served only if this request was sent after the
    /// call arrived. In that case the store has confirmed this node's ownership after the client saw its epoch, so the
    /// client's epoch is wrong.
    ///
    /// # Errors
    /// [`Refusal::StaleEpoch`]. In this case the call waits, and the node sends a renewal now.
    pub fn epoch(&self, callers: Epoch, mine: Epoch, confirmed: u64) -> Result<Epoch, Refusal> {
        if callers > mine && confirmed <= self.arrived.boottime {
            return Err(Refusal::StaleEpoch { section: self.section, mine, callers });
        }
        Ok(callers.min(mine))
    }

    /// Continues after the node has served the items that it could serve. `blocked` is the reason why the remaining
    /// items were not served; `None` if no item is left.
    pub fn on_served(&mut self, now: Duration, blocked: Option<Refusal>) -> Rest {
        self.remain(now, blocked, true)
    }

    /// Continues after the owner or the other set responded to the forwarded request. `remaining` is the refusal of the
    /// items that stay pending; `None` if no item is left. If `remaining` is a [`Refusal::Moved`] with a newer epoch
    /// than the route or claim by which the request was sent, the items are tried again at once.
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
        self.wait(now, reason, here)
    }

    /// Decides whether the node keeps waiting for the response to the request in flight. `routed` and `epoch` are the
    /// destination and the epoch that the newest routes have for the section. The request's destination is valid if it
    /// is `routed`, or if a claim newer than `epoch` names it. A request whose destination is no longer valid is
    /// abandoned after [`CallTimeouts::replaced_owner`]. An owner that has handed the section over would respond within
    /// this time, because it forwards late calls to the next owner.
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

    /// Continues after the node dropped the request in flight because another call in the same request got
    /// [`Watch::Abandon`].
    pub fn on_abandoned(&mut self) {
        self.state = State::Ready;
    }

    /// Lets the call wait because of `reason`, or refuses it with `reason` once the deadline has passed. `here` is
    /// whether this node serves the section.
    fn wait(&mut self, now: Duration, reason: Refusal, here: bool) -> Rest {
        // Whatever the reason is, another node's section may be assigned to a further node by now, or to this node.
        let awaits_owner = !here || matches!(reason, Refusal::StaleEpoch { .. });
        self.renewal_due |= awaits_owner;
        if now >= self.deadline {
            return Rest::Refuse(reason);
        }
        let retry_at = (now + self.retry).min(self.deadline);
        self.state = State::Waiting(Waiting { reason, retry_at });
        let stalled = here && matches!(reason, Refusal::CeilingStalled { .. });
        Rest::Wait(Wait { until: retry_at, awaits_owner, stalled })
    }
}

/// Count of the attempts to serve one item whose outcome is unknown. Each of these attempts may have consumed as many
/// numbers as the item requests.
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
    /// Counts an abandoned request. `to` is the owner or the other set to which the request was sent.
    pub fn add(&mut self, to: Destination) {
        *self = UnknownAttempts { attempts: self.attempts.saturating_add(1), to };
    }

    /// Returns the number of attempts.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.attempts
    }

    /// Returns the refusal to send for an item. It is `refusal` if no attempt had an unknown outcome. Otherwise it is a
    /// refusal which states that numbers may have been consumed.
    #[must_use]
    pub fn refusal(&self, section: SectionId, refusal: Refusal) -> Refusal {
        if self.attempts == 0 { refusal } else { self.to.timed_out(section) }
    }
}
