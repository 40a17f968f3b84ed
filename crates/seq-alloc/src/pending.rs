//! Pending calls: the shell around [`seq_core::calls`], which decides. It serves, forwards, waits and counts.
//!
//! The items of one section in one call are driven together, in their order, until each has its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use seq_api::service::{Call, Item, ItemReply};
use seq_core::calls::{
    CallTimeouts, Destination, MAX_PENDING, MAX_PENDING_OF_SET, OwnershipView, PendingCall, Rest, SetRoute, Step,
    UnknownAttempts, Wait, Watch,
};
use seq_core::lease::Clocks;
use seq_core::{Epoch, NodeId, Refusal, SectionId, SetId, SlotIndex};
use tokio::time::Instant;

use crate::forward::ForwardTarget;
use crate::other_sets::SetPermit;
use crate::ownership::{OwnedSection, Served};
use crate::shared::Shared;
use crate::work::Work;

/// An item without a result, and its index in the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingItem {
    pub(crate) index: usize,
    pub(crate) item: Item,
    pub(crate) section: SectionId,
    pub(crate) slot: SlotIndex,
    pub(crate) unknown: UnknownAttempts,
}

impl PendingItem {
    /// The result, with the attempts before it.
    fn result<W: Work>(&self, result: Result<W::Output, Refusal>) -> ItemResult<W::Output> {
        let result = match result {
            Ok(output) => Ok(W::after_unknown(output, self.unknown.count())),
            Err(refusal) => Err(self.unknown.refusal(self.section, refusal)),
        };
        (self.index, result)
    }
}

/// An item's result, with its index in the call.
pub(crate) type ItemResult<T> = (usize, Result<T, Refusal>);

/// When a call became pending, read once for all its sections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    since: Instant,
    /// Clocks of the lease.
    clocks: Clocks,
}

/// The items of one section in one call that have no result yet.
#[derive(Debug)]
pub(crate) struct SectionItems {
    machine: PendingCall,
    /// When they became pending.
    since: Instant,
    /// In the order of the call. Invariant: none is taken out before an earlier one of its uid.
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

    /// The items as they are sent: to another set they carry the epoch since which the section is there.
    fn to_send(&self, to: Destination) -> impl Iterator<Item = PendingItem> {
        let since = match to {
            Destination::Node(_) => Epoch(0),
            Destination::Set(_) => self.machine.route_epoch(),
        };
        let item = move |item: &PendingItem| Item { epoch: item.item.epoch.max(since), ..item.item };
        self.items.iter().map(move |pending| PendingItem { item: item(pending), ..*pending })
    }

    /// Takes the results of a response in; the rest of the items stays.
    fn on_response<W: Work>(
        &mut self,
        response: impl IntoIterator<Item = ItemResult<W::Output>>,
        results: &mut Vec<ItemResult<W::Output>>,
    ) -> Rest {
        let mut transient = None;
        let mut remaining = Vec::new();
        for ((index, result), item) in response.into_iter().zip(&self.items) {
            match result {
                Err(refusal) if stays_pending(&refusal) => {
                    transient = Some(refusal);
                    remaining.push(index);
                }
                result => results.push(item.result::<W>(result)),
            }
        }
        self.items.retain(|item| remaining.contains(&item.index));
        self.machine.on_response(self.now(), transient)
    }

    /// Takes the results of a first response in: numbers, and items of unknown outcome. The others are to be requested again.
    fn take_given<W: Work>(
        &mut self,
        replies: impl Iterator<Item = ItemReply<W::Output>>,
        results: &mut Vec<ItemResult<W::Output>>,
    ) {
        let items = std::mem::take(&mut self.items);
        self.items.extend(items.into_iter().zip(replies).filter_map(|(item, reply)| match reply {
            Some(Ok(output)) => {
                results.push(item.result::<W>(Ok(output)));
                None
            }
            // It may have been processed, so it is not repeated here.
            Some(Err(
                refusal @ (Refusal::OwnerTimedOut { .. }
                | Refusal::OwnerConnectionLost { .. }
                | Refusal::SetTimedOut { .. }),
            )) => {
                results.push(item.result::<W>(Err(refusal)));
                None
            }
            _ => Some(item),
        }));
    }

    fn on_abandoned<W: Work>(&mut self, to: Destination) {
        if W::CONSUMES {
            self.items.iter_mut().for_each(|item| item.unknown.add(to));
        }
        self.machine.on_abandoned();
    }
}

impl Shared {
    /// The time at which a call becomes pending.
    pub(crate) fn arrived(&self) -> Arrived {
        Arrived { since: Instant::now(), clocks: self.clock.now() }
    }

    /// Items of one section of a call that becomes pending.
    pub(crate) fn pend(
        &self,
        call: &Call,
        arrived: Arrived,
        section: SectionId,
        items: Vec<PendingItem>,
    ) -> SectionItems {
        let Arrived { since, clocks } = arrived;
        let deadline = call.deadline.saturating_duration_since(since);
        let epoch = items.iter().map(|item| item.item.epoch).max().unwrap_or_default();
        let machine = PendingCall::new(section, (call.hops, epoch), clocks, deadline, CallTimeouts::DEFAULTS);
        SectionItems { machine, since, items }
    }

    /// Completes the items of one section in their order: served here while this node serves the section, else by its
    /// owner. Waits up to the call's deadline.
    pub(crate) async fn complete<W: Work>(
        &self,
        work: &W,
        call: Call,
        mut pending: SectionItems,
    ) -> Vec<ItemResult<W::Output>> {
        let section = pending.machine.section();
        let mut results = Vec::with_capacity(pending.items.len());
        let mut permit: Option<Permit<'_>> = None;
        loop {
            // Created before any state is read: a notification from here on is not missed.
            let ownership_changed = self.ownership_changed.notified();
            let owned = self.ownership.owned().get(section).cloned();
            let section_changed = owned.as_ref().map(|owned| owned.changed.notified());
            let rest = match self.try_here(work, &call, owned.as_ref(), &mut pending, &mut results) {
                Here::Rest(rest) => rest,
                Here::Forward(to) => {
                    let sections = std::slice::from_mut(&mut pending);
                    match self.forward(work, call, to, sections, &mut results).await {
                        Ok(response) => pending.on_response::<W>(response, &mut results),
                        Err(None) => continue,
                        Err(Some(refusal)) => Rest::Refuse(refusal),
                    }
                }
            };
            self.renew_if_due(&mut pending);
            let wait = match rest {
                Rest::Done => break,
                Rest::Wait(wait) => wait,
                Rest::Refuse(refusal) => {
                    pending.refuse::<W>(refusal, &mut results);
                    break;
                }
            };
            let Some(waiting) = permit.take().or_else(|| self.permit()) else {
                pending.refuse::<W>(Refusal::TooManyPending { section, pending: MAX_PENDING }, &mut results);
                break;
            };
            if let Err(refusal) = permit.insert(waiting).set(&wait, section) {
                pending.refuse::<W>(refusal, &mut results);
                break;
            }
            tokio::select! {
                () = async { match section_changed { Some(changed) => changed.await, None => std::future::pending().await } } => {}
                () = ownership_changed => {}
                () = tokio::time::sleep_until(pending.since + wait.until) => {}
                () = self.shutdown.cancelled() => {
                    pending.refuse::<W>(Refusal::ShuttingDown, &mut results);
                    break;
                }
            }
        }
        results
    }

    /// Evaluates the items, and serves what can be served here.
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
        match self.evaluate(call, pending, owned.map(|_| served.is_some())) {
            Step::Serve => {
                let served = served.expect("a lease that holds here comes with its section");
                Here::Rest(self.serve_items(work, call, served, pending, results))
            }
            Step::Forward(to) => Here::Forward(Destination::Node(to)),
            Step::ForwardToSet(to) => Here::Forward(Destination::Set(to)),
            Step::Rest(rest) => Here::Rest(rest),
        }
    }

    fn evaluate(&self, call: &Call, pending: &mut SectionItems, lease_here: Option<bool>) -> Step {
        let view = View { shared: self, section: pending.machine.section(), lease_here };
        if lease_here.is_none() && call.hops > 0 {
            self.counters.wrong_owner();
        }
        let now = pending.now();
        let step = pending.machine.evaluate(now, &view);
        self.renew_if_due(pending);
        step
    }

    fn renew_if_due(&self, pending: &mut SectionItems) {
        if pending.machine.take_renewal() {
            self.renew_now.notify_one();
        }
    }

    /// Serves what it can from a section, up to the first item that must wait.
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

    /// Forwards all items of these sections to their owner, or their set: in one message of the stream to the node, then
    /// in a request of their own if some of them would wait there. Returns the results of the items that are left; numbers
    /// that the node gave before are in `results`.
    ///
    /// # Errors
    /// `None`: the request was abandoned; evaluate again. A refusal: the deadline is over, or the set does not respond or
    /// has too many calls.
    async fn forward<W: Work>(
        &self,
        work: &W,
        call: Call,
        to: Destination,
        sections: &mut [SectionItems],
        results: &mut Vec<ItemResult<W::Output>>,
    ) -> Result<Vec<ItemResult<W::Output>>, Option<Refusal>> {
        let of = |sections: &[SectionItems]| -> Vec<PendingItem> {
            sections.iter().flat_map(|section| section.to_send(to)).collect()
        };
        let (target, _permit) = match self.forward_target(to, sections[0].machine.section()).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                // Nothing was sent.
                sections.iter_mut().for_each(|section| section.machine.on_abandoned());
                return Err(Some(refusal));
            }
        };
        let target = &target;
        let mut items = of(sections);
        self.counters.forwarded(items.len());
        if let ForwardTarget::Other(set, _) = target {
            set.forwarded(items.len());
        }
        let at_once = self.unless_abandoned(target, work.there_at_once(self, call, target, &items), sections).await;
        let response = match at_once {
            Ok(Some(replies)) if replies.iter().all(Option::is_some) => {
                let indexes = items.iter().map(|item| item.index);
                return Ok(indexes.zip(replies.into_iter().flatten()).collect());
            }
            Ok(replies) => {
                if let Some(replies) = replies {
                    let mut replies = replies.into_iter();
                    for section in &mut *sections {
                        let count = section.items.len();
                        section.take_given::<W>(replies.by_ref().take(count), results);
                    }
                    items = of(sections);
                }
                self.unless_abandoned(target, work.there(self, call, target, &items), sections).await
            }
            Err(refusal) => Err(refusal),
        };
        let refusal = match response {
            Ok(response) => return Ok(response),
            Err(refusal) => refusal,
        };
        sections.iter_mut().for_each(|section| section.on_abandoned::<W>(to));
        Err(refusal)
    }

    /// Waits for the response to a request under way. One request carries sections of one owner, which share its fate; so
    /// the first of them with items in it stands for all.
    ///
    /// # Errors
    /// As [`Shared::watch`]: the request was dropped.
    async fn unless_abandoned<T>(
        &self,
        target: &ForwardTarget,
        response: impl Future<Output = T>,
        sections: &mut [SectionItems],
    ) -> Result<T, Option<Refusal>> {
        let first = sections.iter_mut().find(|section| !section.items.is_empty()).expect("a request has items");
        let section = first.machine.section();
        tokio::select! {
            // A response that has arrived counts, whatever happened meanwhile.
            biased;
            response = response => Ok(response),
            refusal = self.watch(first) => Err(refusal),
            refusal = silent(target, section) => Err(Some(refusal)),
        }
    }

    /// The node that a request goes to. Of another set it waits for the first probe, and refuses while the set is down.
    async fn forward_target(
        &self,
        to: Destination,
        section: SectionId,
    ) -> Result<(ForwardTarget, Option<SetPermit>), Refusal> {
        let set = match to {
            Destination::Node(node) => return Ok((ForwardTarget::Node(node), None)),
            Destination::Set(set) => set,
        };
        let unavailable = Refusal::SetUnavailable { section, set };
        let other = self.other_set(set).ok_or(unavailable)?;
        let permit = other.admit().ok_or(too_many_pending(section, set))?;
        if !other.responds().await {
            return Err(unavailable);
        }
        let addr = other.addr_for(section).ok_or(unavailable)?;
        Ok((ForwardTarget::Other(other, addr), Some(permit)))
    }

    /// Watches a request under way until it is to be dropped.
    async fn watch(&self, pending: &mut SectionItems) -> Option<Refusal> {
        let mut awaits: Option<AwaitsOwner<'_>> = None;
        let section = pending.machine.section();
        loop {
            let ownership_changed = self.ownership_changed.notified();
            let route = self.routes().as_ref().and_then(|routes| routes.get(section)).unwrap_or_default();
            let routed = route.other_set().map(Destination::Set).or(route.owner.map(Destination::Node));
            let now = pending.now();
            let watch = pending.machine.watch(now, (routed, route.epoch));
            self.renew_if_due(pending);
            let wait = match watch {
                Watch::Wait(wait) => wait,
                Watch::Abandon(_) => return None,
                Watch::Refuse(_, refusal) => return Some(refusal),
            };
            if wait.awaits_owner && awaits.is_none() {
                awaits = Some(AwaitsOwner::begin(&self.pending));
            }
            tokio::select! {
                () = ownership_changed => {}
                () = tokio::time::sleep_until(pending.since + wait.until) => {}
            }
        }
    }

    /// Forwards the items of several sections to the owner or set that they share in one request, and completes section by section
    /// what remains.
    pub(crate) async fn forward_then_complete<W: Work>(
        &self,
        work: &W,
        call: Call,
        to: Destination,
        mut sections: Vec<SectionItems>,
    ) -> Vec<ItemResult<W::Output>> {
        let mut results = Vec::new();
        match self.forward(work, call, to, &mut sections, &mut results).await {
            Ok(response) => {
                let mut response = response.into_iter();
                for pending in &mut sections {
                    let of_section: Vec<_> = response.by_ref().take(pending.items.len()).collect();
                    // What waits is evaluated at once by `complete`.
                    let _: Rest = pending.on_response::<W>(of_section, &mut results);
                    self.renew_if_due(pending);
                }
            }
            Err(None) => {}
            Err(Some(refusal)) => sections.iter_mut().for_each(|pending| pending.refuse::<W>(refusal, &mut results)),
        }
        sections.retain(|pending| !pending.items.is_empty());
        let rest = sections.into_iter().map(|pending| self.complete(work, call, pending));
        results.extend(futures::future::join_all(rest).await.into_iter().flatten());
        results
    }

    /// What a section that is not served here does first: where it is forwarded; `None`: it waits.
    pub(crate) fn first_step(&self, call: &Call, pending: &mut SectionItems) -> Option<Destination> {
        if self.ownership.owned().get(pending.machine.section()).is_some() {
            return None;
        }
        match self.evaluate(call, pending, None) {
            Step::Forward(to) => Some(Destination::Node(to)),
            Step::ForwardToSet(to) => Some(Destination::Set(to)),
            Step::Serve | Step::Rest(_) => None,
        }
    }

    /// A permit to wait; `None` when as many calls as allowed are pending.
    fn permit(&self) -> Option<Permit<'_>> {
        if self.pending.calls.fetch_add(1, Relaxed) >= MAX_PENDING {
            self.pending.calls.fetch_sub(1, Relaxed);
            return None;
        }
        Some(Permit { shared: self, of_set: None, awaits: None, stalled_since: None })
    }
}

/// The refusal of items whose set does not respond any more, once it does not. They may have been processed.
async fn silent(target: &ForwardTarget, section: SectionId) -> Refusal {
    match target {
        ForwardTarget::Node(_) => std::future::pending().await,
        ForwardTarget::Other(set, _) => set.down().await,
    }
    target.destination().timed_out(section)
}

fn too_many_pending(section: SectionId, set: SetId) -> Refusal {
    Refusal::TooManyPendingOfSet { section, set, pending: MAX_PENDING_OF_SET }
}

/// Whether items that another node refused with this may succeed soon, here or at another node.
fn stays_pending(refusal: &Refusal) -> bool {
    refusal.is_transient() || matches!(refusal, Refusal::Moved { .. } | Refusal::SetUnavailable { .. })
}

/// The refusal of a request of several sections, for one of them.
fn of_section(refusal: Refusal, section: SectionId) -> Refusal {
    match refusal {
        Refusal::OwnerTimedOut { owner, .. } => Refusal::OwnerTimedOut { section, owner },
        Refusal::SetTimedOut { set, .. } => Refusal::SetTimedOut { section, set },
        Refusal::SetUnavailable { set, .. } => Refusal::SetUnavailable { section, set },
        Refusal::TooManyPendingOfSet { set, pending, .. } => Refusal::TooManyPendingOfSet { section, set, pending },
        refusal => refusal,
    }
}

/// What a node did with items here, and what is next.
enum Here {
    Forward(Destination),
    Rest(Rest),
}

/// What this node knows of a section's ownership.
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
        self.shared.set_route(self.section)
    }
}

/// How many calls are pending at this node.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    calls: AtomicUsize,
    /// Those that wait for an ownership update.
    awaiting_owner: AtomicUsize,
}

impl PendingCalls {
    /// Whether a call waits for an ownership update.
    pub(crate) fn await_owner(&self) -> bool {
        self.awaiting_owner.load(Relaxed) > 0
    }
}

/// One call that waits for an ownership update.
struct AwaitsOwner<'a>(&'a PendingCalls);

impl AwaitsOwner<'_> {
    fn begin(calls: &PendingCalls) -> AwaitsOwner<'_> {
        calls.awaiting_owner.fetch_add(1, Relaxed);
        AwaitsOwner(calls)
    }
}

impl Drop for AwaitsOwner<'_> {
    fn drop(&mut self) {
        self.0.awaiting_owner.fetch_sub(1, Relaxed);
    }
}

/// The permit of one pending call.
struct Permit<'a> {
    shared: &'a Shared,
    /// Its place among the calls for sections of another set.
    of_set: Option<(SetId, SetPermit)>,
    awaits: Option<AwaitsOwner<'a>>,
    /// Since when it waits at a ceiling.
    stalled_since: Option<Instant>,
}

impl Permit<'_> {
    /// Counts the call as one that waits so.
    ///
    /// # Errors
    /// [`Refusal::TooManyPendingOfSet`].
    fn set(&mut self, wait: &Wait, section: SectionId) -> Result<(), Refusal> {
        let other = self.shared.set_route(section).other;
        if self.of_set.as_ref().map(|(set, _)| *set) != other {
            self.of_set = None;
            if let Some((id, set)) = other.and_then(|id| Some((id, self.shared.other_set(id)?))) {
                let permit = set.admit_pending().ok_or(too_many_pending(section, id))?;
                self.of_set = Some((id, permit));
            }
        }
        if wait.stalled {
            self.stalled_since.get_or_insert_with(Instant::now);
        }
        if !wait.awaits_owner {
            self.awaits = None;
        } else if self.awaits.is_none() {
            self.awaits = Some(AwaitsOwner::begin(&self.shared.pending));
        }
        Ok(())
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.shared.pending.calls.fetch_sub(1, Relaxed);
        if let Some(since) = self.stalled_since {
            self.shared.counters.stalled(since.elapsed());
        }
    }
}
