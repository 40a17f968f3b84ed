//! Forwarded and pending calls. A process watches each call that it forwarded until the call has a response, and
//! retries each pending call.

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

/// Most pending calls of a process. The limit is so low that it is reached.
const MAX_PENDING: usize = 64;

/// The longest time that may pass between two attempts of a pending call while its process runs, and the longest time
/// for which a forwarded call may wait for an owner that was replaced. It is longer than the retries and timeouts of
/// `seq_core::calls`, and short compared with a caller's deadline.
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

    /// Decides whether a forwarded call goes on waiting, is attempted again, or is refused. Must be called at each
    /// change of the ownership, and whenever the call's timer fires.
    pub(crate) fn watch(&mut self, p: usize, id: u64) {
        let now = self.now;
        let process = &self.procs[p];
        let Some(mut forward) = process.forwards.get(&id).copied() else { return };
        let pending = &mut forward.pending;
        let routes = process.owner.routes();
        let route = routes.and_then(|routes| routes.get(pending.call.section)).unwrap_or_default();
        let routed = route.other_set().map(Destination::Set).or(route.owner.map(Destination::Node));
        // If the call was sent to another set, it stays there even if the routes differ, because the claim that led it
        // there may be newer than the routes.
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

    /// Ends a call in this process, keeps it pending, or refuses it.
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

    /// Retries a pending call or watches a forwarded call when its timer fires, unless the call has ended since.
    pub(crate) fn call_timer(&mut self, p: usize, id: u64) {
        if let Some(pending) = self.procs[p].pending.remove(&id) {
            self.retry(p, pending);
        } else {
            self.watch(p, id);
        }
    }

    /// Retries all pending calls and watches all forwarded calls, because the table, the routes, the lease or a ceiling
    /// changed.
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

    /// Checks that a call was not left alone for longer than [`NEGLECT_BOUND`]. The time in which its process stalled
    /// does not count.
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

    /// Replies to a call. Adds to the reply how many earlier attempts of the call have an unknown outcome.
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

/// Returns whether a call stays pending after another node has refused it. The rule is the same as in `seq-alloc`.
fn stays_pending(refusal: &Refusal) -> bool {
    refusal.is_transient() || matches!(refusal, Refusal::Moved { .. } | Refusal::SetUnavailable { .. })
}
