//! Carries out pending calls: serves them, forwards them, lets them wait and counts them, as [`seq_core::calls`]
//! decides.
//!
//! All items of a call whose uids are in the same section are processed together, in their order, until each item has
//! its result.

use std::sync::Arc;
use std::time::Duration;

use seq_api::service::{Call, Item};
use seq_core::calls::{
    CallTimeouts, Destination, MAX_PENDING, MAX_PENDING_OF_SET, OwnershipView, PendingCall, Rest, SetRoute, Step, Wait,
};
use seq_core::lease::Clocks;
use seq_core::node_events::Refusals;
use seq_core::{Epoch, NodeId, Refusal, SectionId, SetId};
use seq_kit::telemetry::traces::{self, Span};
use tokio::time::Instant;

use self::groups::{Machines, Request};
use self::permits::Permit;
use crate::ownership::{OwnedSection, Served};
use crate::pending_item::PendingItem;
use crate::shared::Shared;
use crate::work::Work;

mod forwarding;
mod groups;
mod permits;

impl PendingItem {
    /// Returns the item's result together with the number of the item's earlier attempts with unknown outcome.
    fn result<W: Work>(&self, result: Result<W::Output, Refusal>) -> ItemResult<W::Output> {
        let result = match result {
            Ok(output) => Ok(W::after_unknown(output, self.unknown.count())),
            Err(refusal) => Err(self.unknown.refusal(self.section, refusal)),
        };
        (self.index, result)
    }
}

/// Result of an item, with the index of the item in its call.
pub(crate) type ItemResult<T> = (usize, Result<T, Refusal>);

/// Time at which a call became pending. It is read once for all sections of the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) since: Instant,
    /// Clocks of the lease.
    clocks: Clocks,
}

impl Arrived {
    /// Creates the state machine for the items of `call` in one section. `epoch` is the newest epoch that the request
    /// states for the section.
    pub(crate) fn machine(&self, call: &Call, section: SectionId, epoch: Epoch) -> PendingCall {
        let deadline = call.deadline.saturating_duration_since(self.since);
        let machine = PendingCall::new(section, (call.hops, epoch), self.clocks, deadline, CallTimeouts::DEFAULTS);
        machine.with_redirects(call.redirects)
    }
}

/// Items of one section in one call that have no result yet, with their state machine.
#[derive(Debug)]
pub(crate) struct SectionItems {
    machine: PendingCall,
    /// Time at which the items became pending.
    since: Instant,
    /// Items in the order of the call. Invariant: no item is removed before an earlier item of its uid.
    items: Vec<PendingItem>,
}

impl SectionItems {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn refuse<W: Work>(&mut self, refusal: Refusal, results: &mut Vec<ItemResult<W::Output>>) {
        let refusal = of_section(refusal, self.machine.section());
        results.extend(self.items.drain(..).map(|item| item.result::<W>(Err(refusal))));
    }

    /// Takes the results from the response of another node. Items that were refused but may succeed soon stay pending.
    /// Returns what the state machine decides for them.
    fn on_response<W: Work>(
        &mut self,
        response: Vec<Result<W::Output, Refusal>>,
        results: &mut Vec<ItemResult<W::Output>>,
    ) -> Rest {
        let mut transient = None;
        let items = std::mem::take(&mut self.items);
        self.items.extend(items.into_iter().zip(response).filter_map(|(item, result)| match result {
            Err(refusal) if stays_pending(&refusal) => {
                transient = Some(refusal);
                Some(item)
            }
            result => {
                results.push(item.result::<W>(result));
                None
            }
        }));
        self.machine.on_response(self.now(), transient)
    }
}

impl Shared {
    /// Reads the time at which a call becomes pending.
    pub(crate) fn arrived(&self) -> Arrived {
        Arrived { since: Instant::now(), clocks: self.clock.now() }
    }

    /// Creates the pending state of a single item.
    pub(crate) fn pend(&self, call: &Call, item: PendingItem) -> SectionItems {
        let arrived = self.arrived();
        let machine = arrived.machine(call, item.section, item.item.epoch);
        SectionItems { machine, since: arrived.since, items: vec![item] }
    }

    /// Completes the items of one section in their order. While this node serves the section, it completes them itself;
    /// otherwise it forwards them to the section's owner. Returns at the call's deadline at the latest.
    pub(crate) async fn complete<W: Work>(
        &self,
        work: &W,
        call: Call,
        mut pending: SectionItems,
    ) -> Vec<ItemResult<W::Output>> {
        let section = pending.machine.section();
        let mut results = Vec::with_capacity(pending.items.len());
        let mut permit: Option<Permit<'_>> = None;
        // Trace span from the first wait to the end of the call; empty if the call is not traced.
        let mut span = Span::none();
        loop {
            // The future is created before any state is read, so that it completes if the state changes after the
            // reading.
            let ownership_changed = self.pending.ownership_changed();
            let owned = self.ownership.owned().get(section).cloned();
            let section_changed = owned.as_ref().map(|owned| owned.changed.notified());
            let rest = match self.try_here(work, &call, owned.as_ref(), &mut pending, &mut results) {
                Here::Rest(rest) => rest,
                Here::Forward(to) => {
                    let SectionItems { machine, since, items } = &mut pending;
                    let machines = Machines::Each(std::slice::from_mut(machine));
                    let request = Request { items, machines, since: *since };
                    match self.forward(work, call, to, request, &mut results).await {
                        Ok(response) => pending.on_response::<W>(response, &mut results),
                        Err(None) => continue,
                        Err(Some(refusal)) => Rest::Refuse(refusal),
                    }
                }
            };
            self.renew_if_due(&mut pending.machine);
            let wait = match rest {
                Rest::Done => break,
                Rest::Wait(wait) => wait,
                Rest::Refuse(refusal) => {
                    pending.refuse::<W>(refusal, &mut results);
                    break;
                }
            };
            if span.is_none() {
                span = self.waiting(&wait, section);
            }
            let Some(waiting) = permit.take().or_else(|| self.permit()) else {
                self.events.refused(Refusals::Shed);
                pending.refuse::<W>(Refusal::TooManyPending { section, pending: MAX_PENDING }, &mut results);
                break;
            };
            if let Err(refusal) = permit.insert(waiting).set(&wait, section) {
                self.events.refused(Refusals::Shed);
                pending.refuse::<W>(refusal, &mut results);
                break;
            }
            tokio::select! {
                () = async { match section_changed { Some(changed) => changed.await, None => std::future::pending().await } } => {}
                () = ownership_changed => {}
                () = tokio::time::sleep_until(pending.since + wait.until) => {}
                () = self.halt.shutdown().cancelled() => {
                    pending.refuse::<W>(Refusal::ShuttingDown, &mut results);
                    break;
                }
            }
        }
        results
    }

    /// Begins the trace span of a wait, if the call is traced.
    fn waiting(&self, wait: &Wait, section: SectionId) -> Span {
        let mut span = traces::child("wait");
        if !span.is_none() {
            span = self.described(span);
            span.set("seqsvr.section", section.0);
            let cause = match wait {
                Wait { stalled: true, .. } => "ceiling or handover",
                Wait { awaits_owner: true, .. } => "owner",
                _ => "lease or routes",
            };
            span.set("seqsvr.cause", cause);
        }
        span
    }

    /// Lets the state machine decide the next step of the items. If the step is to serve them here, serves them.
    fn try_here<W: Work>(
        &self,
        work: &W,
        call: &Call,
        owned: Option<&Arc<OwnedSection>>,
        pending: &mut SectionItems,
        results: &mut Vec<ItemResult<W::Output>>,
    ) -> Here {
        let section = pending.machine.section();
        let serving = self.serve();
        let served = serving.as_ref().and_then(|serving| serving.get(section));
        let served = served.filter(|served| owned.is_some_and(|owned| served.is(owned)));
        let now = pending.now();
        match self.evaluate(call, &mut pending.machine, now, owned.map(|_| served.is_some())) {
            Step::Serve => {
                let served = served.expect("a lease that holds here comes with its section");
                Here::Rest(self.serve_items(work, call, served, pending, results))
            }
            Step::Forward(to) => Here::Forward(Destination::Node(to)),
            Step::ForwardToSet(to) => Here::Forward(Destination::Set(to)),
            Step::Rest(rest) => Here::Rest(rest),
        }
    }

    fn evaluate(&self, call: &Call, machine: &mut PendingCall, now: Duration, lease_here: Option<bool>) -> Step {
        let view = View { shared: self, section: machine.section(), lease_here };
        if lease_here.is_none() && call.hops > 0 {
            self.counters.wrong_owner();
        }
        let step = machine.evaluate(now, &view);
        self.renew_if_due(machine);
        step
    }

    fn renew_if_due(&self, machine: &mut PendingCall) {
        if machine.take_renewal() {
            self.registration.request_renewal();
        }
    }

    /// Serves the items in their order from a section of this node, up to the first item that has to wait.
    fn serve_items<W: Work>(
        &self,
        work: &W,
        call: &Call,
        served: Served<'_>,
        pending: &mut SectionItems,
        results: &mut Vec<ItemResult<W::Output>>,
    ) -> Rest {
        let mut done = 0;
        let mut blocked = None;
        for item in &pending.items {
            let epoch = match pending.machine.epoch(item.item.epoch, served.epoch(), self.ownership.confirmed()) {
                Ok(epoch) => epoch,
                Err(refusal) => {
                    blocked = Some(refusal);
                    break;
                }
            };
            let admitted = PendingItem { item: Item { epoch, ..item.item }, ..*item };
            let Some(result) = work.here(self, served, &admitted) else {
                blocked = Some(Refusal::CeilingStalled { section: served.owned().id });
                break;
            };
            if result.is_ok() {
                self.counters.given(call.via, W::numbers(item));
            }
            results.push(item.result::<W>(result));
            done += 1;
        }
        pending.items.drain(..done);
        pending.machine.on_served(pending.now(), blocked)
    }

    /// Returns the destination to which items that have just become pending are forwarded; `None` if this node owns
    /// their section, or if the items have to wait.
    pub(crate) fn first_step(&self, call: &Call, machine: &mut PendingCall) -> Option<Destination> {
        if self.ownership.owned().get(machine.section()).is_some() {
            return None;
        }
        match self.evaluate(call, machine, Duration::ZERO, None) {
            Step::Forward(to) => Some(Destination::Node(to)),
            Step::ForwardToSet(to) => Some(Destination::Set(to)),
            Step::Serve | Step::Rest(_) => None,
        }
    }
}

fn too_many_pending(section: SectionId, set: SetId) -> Refusal {
    Refusal::TooManyPendingOfSet { section, set, pending: MAX_PENDING_OF_SET }
}

/// Returns whether items may succeed soon, on this node or another node, although a node refused them with `refusal`.
fn stays_pending(refusal: &Refusal) -> bool {
    refusal.is_transient() || matches!(refusal, Refusal::Moved { .. } | Refusal::SetUnavailable { .. })
}

/// Converts the refusal of a request for several sections to the refusal for one of these sections.
fn of_section(refusal: Refusal, section: SectionId) -> Refusal {
    match refusal {
        Refusal::OwnerTimedOut { owner, .. } => Refusal::OwnerTimedOut { section, owner },
        Refusal::SetTimedOut { set, .. } => Refusal::SetTimedOut { section, set },
        Refusal::DeadlinePassed { .. } => Refusal::DeadlinePassed { section },
        Refusal::SetUnavailable { set, .. } => Refusal::SetUnavailable { section, set },
        Refusal::TooManyPendingOfSet { set, pending, .. } => Refusal::TooManyPendingOfSet { section, set, pending },
        refusal => refusal,
    }
}

/// Next step of items after this node evaluated them.
enum Here {
    Forward(Destination),
    Rest(Rest),
}

/// Ownership of a section, as far as this node knows it.
struct View<'a> {
    shared: &'a Shared,
    section: SectionId,
    lease_here: Option<bool>,
}

impl OwnershipView for View<'_> {
    fn lease_here(&self) -> Option<bool> {
        self.lease_here
    }

    fn other_owner(&self) -> Option<NodeId> {
        self.shared.other_owner(self.section)
    }

    fn is_expected(&self) -> bool {
        self.shared.ownership.machine().expects(self.section)
    }

    fn set_route(&self) -> SetRoute {
        self.shared.ownership.set_route(self.section)
    }
}
