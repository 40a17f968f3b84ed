//! Forwarded and pending calls of a process. A process watches each call that it forwarded until the response arrives,
//! and retries each pending call until it can be served or refused.

use std::time::Duration;

use seq_core::calls::{Destination, Rest, Wait, Watch};
use seq_core::{NodeId, Refusal, limits};

use crate::bugs::Bug;
use crate::client::{Call, Origin, Reply};
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::SECOND;
use crate::net::{Address, Body};
use crate::serving::{Forward, Pending};
use crate::world::World;

/// Largest number of pending calls of a process. It is so small that processes of the simulation reach it.
const MAX_PENDING: usize = 64;

/// The longest time that may pass between two attempts of a pending call while its process runs. It is also the longest
/// time for which a process may wait for the response to a call that it forwarded to an owner, after this owner was
/// replaced. The limit is longer than the intervals and timeouts in `seq_core::calls`, and shorter than a caller's
/// deadline.
const NEGLECT_BOUND: u64 = SECOND;

impl World {
    /// Sends a call to the owner of its section.
    pub(crate) fn forward(&mut self, p: usize, mut pending: Pending, to: NodeId) {
        let section = pending.call.section;
        let Some(address) = self.address_of(p, to) else {
            let refusal = Refusal::OwnerUnreachable { section, owner: to };
            let rest = pending.machine.on_response(pending.now(self.now), Some(refusal));
            return self.rest(p, pending, rest);
        };
        let hops = pending.call.hops + 1;
        self.coverage.saw(if hops == 1 { Situation::Forwarded } else { Situation::ForwardedTwice });
        if hops > limits::MAX_HOPS {
            self.check.broken(
                self.now,
                "a call is forwarded twice at most",
                format!("hop {hops} of {:?}", pending.call),
            );
        }
        let id = self.fresh();
        let call = Call { hops, origin: Origin::Process(p, id), ..pending.call };
        self.send(self.procs[p].name, address, Body::Call(call));
        self.procs[p].forwards.insert(id, Forward { pending, to: Destination::Node(to), replaced: None });
        self.watch(p, id);
    }

    /// Decides whether process `p` continues to wait for the response to a call that it forwarded, tries the call
    /// again, or refuses the call. Must be called whenever the routes of the process change or the timer of the call
    /// fires.
    pub(crate) fn watch(&mut self, p: usize, id: u64) {
        let now = self.now;
        let process = &self.procs[p];
        let Some(mut forward) = process.forwards.get(&id).copied() else { return };
        let pending = &mut forward.pending;
        let routes = process.owner.routes();
        let route = routes.and_then(|routes| routes.get(pending.call.section)).unwrap_or_default();
        let routed = route.other_set().map(Destination::Set).or(route.owner.map(Destination::Node));
        // A call that was sent to another set stays there even if the routes name another place, because the claim by
        // which it was sent may be newer than the routes.
        let stands = routed == Some(forward.to) || matches!(forward.to, Destination::Set(_));
        forward.replaced = if stands { None } else { forward.replaced.or(Some(now)) };
        let watch = pending.machine.watch(pending.now(now), (routed, route.epoch));
        match watch {
            Watch::Wait(wait) => {
                pending.wait = Some(wait);
                self.timer(p, id, pending.since, wait);
                self.renew_if_due(p, pending);
                self.procs[p].forwards.insert(id, forward);
            }
            Watch::Abandon(to) => {
                let mut pending = self.abandoned(p, id, to);
                self.renew_if_due(p, &mut pending);
                self.attempt(p, pending);
            }
            Watch::Refuse(to, refusal) => {
                let pending = self.abandoned(p, id, to);
                self.rest(p, pending, Rest::Refuse(refusal));
            }
        }
    }

    pub(crate) fn abandoned(&mut self, p: usize, id: u64, to: Destination) -> Pending {
        let Forward { mut pending, replaced, .. } = self.procs[p].forwards.remove(&id).expect("it was watched");
        self.not_neglected(p, replaced, "a call waits for an owner that was replaced");
        self.note_repeat(&pending.call);
        pending.machine.on_abandoned();
        pending.unknown.add(to);
        pending
    }

    /// Carries out `rest`, by which a call has ended in process `p`, is refused, or becomes pending.
    pub(crate) fn rest(&mut self, p: usize, mut pending: Pending, rest: Rest) {
        self.renew_if_due(p, &mut pending);
        let section = pending.call.section;
        match rest {
            Rest::Done => {}
            Rest::Refuse(refusal) => self.refuse(p, pending, refusal),
            Rest::Wait(_) if self.procs[p].pending.len() >= MAX_PENDING => {
                self.refuse(p, pending, Refusal::TooManyPending { section, pending: MAX_PENDING });
            }
            Rest::Wait(wait) => {
                self.coverage.saw(Situation::Held);
                (pending.waited, pending.tried) = (true, self.now);
                pending.wait = Some(wait);
                let id = self.fresh();
                self.timer(p, id, pending.since, wait);
                self.procs[p].pending.insert(id, pending);
            }
        }
    }

    fn timer(&mut self, p: usize, id: u64, since: u64, wait: Wait) {
        let at = since + wait.until.as_nanos() as u64;
        self.after(at.saturating_sub(self.now), Event::Step(p, Step::CallTimer(id)));
    }

    fn renew_if_due(&mut self, p: usize, pending: &mut Pending) {
        if pending.machine.take_renewal() {
            self.renew_now(p);
        }
    }

    /// Processes the expiry of a call's timer, unless the call has ended. Retries the call if it is pending, or watches
    /// it if it was forwarded.
    pub(crate) fn call_timer(&mut self, p: usize, id: u64) {
        if let Some(pending) = self.procs[p].pending.remove(&id) {
            self.retry(p, pending);
        } else {
            self.watch(p, id);
        }
    }

    /// Retries all pending calls and watches all forwarded calls of process `p`, after its table of owned sections, its
    /// routes, its lease or a ceiling has changed.
    pub(crate) fn wake_now(&mut self, p: usize) {
        self.procs[p].woken = false;
        let forwards: Vec<u64> = self.procs[p].forwards.keys().copied().collect();
        for id in forwards {
            self.watch(p, id);
        }
        for (_, pending) in std::mem::take(&mut self.procs[p].pending) {
            self.retry(p, pending);
        }
    }

    fn retry(&mut self, p: usize, pending: Pending) {
        self.not_neglected(p, Some(pending.tried), "a pending call is not tried");
        self.attempt(p, pending);
    }

    /// Checks that the time from `since` until now is not longer than [`NEGLECT_BOUND`]. Time before the end of the
    /// process' last stall does not count. `what` describes how a call would have been neglected.
    fn not_neglected(&mut self, p: usize, since: Option<u64>, what: &'static str) {
        let Some(since) = since.map(|since| since.max(self.procs[p].stalled_until)) else { return };
        if self.now.saturating_sub(since) > NEGLECT_BOUND {
            let waited = Duration::from_nanos(self.now - since);
            self.check.broken(self.now, "no pending call is neglected", format!("process {p}: {what} for {waited:?}"));
        }
    }

    /// Processes the response to a forwarded call.
    pub(crate) fn forwarded(&mut self, p: usize, id: u64, reply: Reply) {
        let Some(Forward { mut pending, to, replaced }) = self.procs[p].forwards.remove(&id) else { return };
        self.not_neglected(p, replaced, "a call waited for an owner that was replaced");
        let reply = self.of_destination(p, &pending, to, reply);
        match reply {
            Reply::Refused { refusal: Refusal::Moved { since, .. }, lost: 0 }
                if self.bug == Some(Bug::FollowsAgain) && since == pending.machine.route_epoch() =>
            {
                pending.machine.on_abandoned();
                self.attempt(p, pending);
            }
            Reply::Refused { refusal, lost: 0 } if stays_pending(&refusal) => {
                let rest = pending.machine.on_response(pending.now(self.now), Some(refusal));
                self.rest(p, pending, rest);
            }
            reply => self.reply(p, pending, reply),
        }
    }

    pub(crate) fn refuse(&mut self, p: usize, pending: Pending, refusal: Refusal) {
        let refusal = pending.unknown.refusal(pending.call.section, refusal);
        self.reply(p, pending, Reply::Refused { refusal, lost: 0 });
    }

    /// Sends the reply to a call. Adds to the count in the reply the number of earlier attempts of the call whose
    /// outcome is unknown.
    pub(crate) fn reply(&mut self, p: usize, pending: Pending, mut reply: Reply) {
        if let Reply::Given { lost, .. } | Reply::Refused { lost, .. } = &mut reply
            && self.bug != Some(Bug::UncountedRepeat)
        {
            *lost += pending.unknown.count();
        }
        if pending.waited && !matches!(reply, Reply::Refused { .. }) {
            self.coverage.saw(Situation::HeldAnswered);
        }
        if self.tries_again(p, &pending.call, &reply) {
            return;
        }
        let host = self.procs[p].name;
        let (to, id) = match pending.call.origin {
            Origin::Client(client) => (Address::Client(client), pending.call.id),
            Origin::Process(process, id) => (Address::Process(process), id),
        };
        self.send(host, to, Body::Reply { to: id, reply });
    }
}

/// Returns whether a call stays pending after the node to which it was forwarded has refused it. `seq-alloc` has the
/// same rule.
fn stays_pending(refusal: &Refusal) -> bool {
    refusal.is_transient() || matches!(refusal, Refusal::Moved { .. } | Refusal::SetUnavailable { .. })
}
