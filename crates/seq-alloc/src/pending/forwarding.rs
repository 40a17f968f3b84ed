//! Forwards pending items to other nodes: watches each request in flight, and keeps the items that remain without a
//! result after its response.

use std::borrow::Cow;
use std::collections::BTreeMap;

use futures::future;
use seq_api::service::{Call, Item, ItemReply};
use seq_core::calls::{Destination, PendingCall, Rest, Watch};
use seq_core::{Refusal, SectionId};
use seq_kit::telemetry::traces::{self, Span};
use tokio::time::Instant;

use super::groups::{PendingGroup, Request};
use super::{ItemResult, of_section, stays_pending, too_many_pending};
use crate::forward::ForwardTarget;
use crate::other_sets::SetPermit;
use crate::pending_item::PendingItem;
use crate::shared::{AwaitsOwner, Shared};
use crate::work::Work;

impl Request<'_> {
    /// Returns the items to send, and the state machine that watches the request while it is in flight. It is the
    /// machine of the first item's section and watches for all items, because all sections of one owner share the
    /// outcome of the request. If the destination is another set, each item to send carries the epoch since which its
    /// section has been in that set.
    fn sent_and_watched(&mut self, to: Destination) -> (Cow<'_, [PendingItem]>, &mut PendingCall) {
        let items = match to {
            Destination::Node(_) => Cow::Borrowed(&self.items[..]),
            Destination::Set(_) => {
                let mut since = |one: &PendingItem| self.machines.of(one.section, one.item.epoch).route_epoch();
                let mut item = |one: &PendingItem| Item { epoch: one.item.epoch.max(since(one)), ..one.item };
                self.items.iter().map(|one| PendingItem { item: item(one), ..*one }).collect()
            }
        };
        let first = &self.items[0];
        (items, self.machines.of(first.section, first.item.epoch))
    }

    /// Removes the items whose replies over the stream are final, and adds their results to `results`. Final replies
    /// are allocated numbers, and refusals after which the item's outcome is unknown. The other items stay and have to
    /// be sent again.
    fn take_given<W: Work>(&mut self, replies: Vec<ItemReply<W::Output>>, results: &mut Vec<ItemResult<W::Output>>) {
        let items = std::mem::take(self.items);
        self.items.extend(items.into_iter().zip(replies).filter_map(|(item, reply)| match reply {
            Some(Ok(output)) => {
                results.push(item.result::<W>(Ok(output)));
                None
            }
            // The item may have been processed, so this node does not repeat it.
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
        self.machines.on_abandoned();
    }
}

impl Shared {
    /// Completes the items of a group. If the group has a destination, forwards its items in one request. Then
    /// completes the items that still have no result, section by section.
    pub(crate) async fn complete_group<W: Work>(
        &self,
        work: &W,
        call: Call,
        mut group: PendingGroup,
    ) -> Vec<ItemResult<W::Output>> {
        let mut results = Vec::with_capacity(group.items.len());
        let mut response = None;
        if let Some(to) = group.to {
            match self.forward(work, call, to, group.request(), &mut results).await {
                Ok(received) if received.iter().all(is_final) => {
                    results.extend(group.items.iter().zip(received).map(|(item, result)| item.result::<W>(result)));
                    return results;
                }
                Ok(received) => response = Some(received),
                Err(None) => {}
                Err(Some(refusal)) => {
                    let refused = |item: &PendingItem| item.result::<W>(Err(of_section(refusal, item.section)));
                    results.extend(group.items.iter().map(refused));
                    return results;
                }
            }
        }
        // Boxed, because the future of the common request must not have the size of this rare one.
        Box::pin(self.complete_rest(work, call, group, response, results)).await
    }

    /// Completes the remaining items of a group, section by section. `response` has their results in the response to
    /// the group's request, if the group was forwarded.
    async fn complete_rest<W: Work>(
        &self,
        work: &W,
        call: Call,
        group: PendingGroup,
        response: Option<Vec<Result<W::Output, Refusal>>>,
        mut results: Vec<ItemResult<W::Output>>,
    ) -> Vec<ItemResult<W::Output>> {
        let mut of_sections: BTreeMap<SectionId, Vec<_>> = BTreeMap::new();
        for (item, result) in group.items.iter().zip(response.into_iter().flatten()) {
            of_sections.entry(item.section).or_default().push(result);
        }
        let mut sections = group.into_sections();
        for (section, response) in of_sections {
            let pending = sections.get_mut(&section).expect("it has the section's items");
            // `complete` evaluates the remaining items again at once, so this decision is not needed.
            let _: Rest = pending.on_response::<W>(response, &mut results);
            self.renew_if_due(&mut pending.machine);
        }
        let rest = sections.into_values().filter(|pending| !pending.items.is_empty());
        let rest = future::join_all(rest.map(|pending| self.complete(work, call, pending))).await;
        results.extend(rest.into_iter().flatten());
        results
    }

    /// Forwards the items of `request` to the node `to`, or, if `to` is another set, to a node of that set. Sends the
    /// items over the stream to the node first. Then sends the items that would have to wait at the node in a separate
    /// request. Moves the items that the stream completed from `request` to `results`, and returns the results of the
    /// items that remain in `request`.
    ///
    /// # Errors
    /// `None` if this node abandoned the request and the items have to be evaluated again. A refusal if the deadline
    /// passed, if the other set does not respond, or if the allowed number of calls is already in flight to the other
    /// set.
    pub(super) async fn forward<W: Work>(
        &self,
        work: &W,
        call: Call,
        to: Destination,
        mut request: Request<'_>,
        results: &mut Vec<ItemResult<W::Output>>,
    ) -> Result<Vec<Result<W::Output, Refusal>>, Option<Refusal>> {
        let (target, _permit) = match self.forward_target(to, request.items[0].section).await {
            Ok(admitted) => admitted,
            Err(refusal) => {
                // The request was not sent.
                request.machines.on_abandoned();
                return Err(Some(refusal));
            }
        };
        let (target, since) = (&target, request.since);
        self.counters.forwarded(request.items.len());
        if let ForwardTarget::Other(set, _) = target {
            set.forwarded(request.items.len());
        }
        let span = self.forwarding(target, &request);
        let (items, first) = request.sent_and_watched(to);
        let at_once = work.there_at_once(self, call, target, &items);
        let response = match self.unless_abandoned(target, at_once, first, since).await {
            Ok(Some(replies)) if replies.iter().all(|reply| reply.as_ref().is_some_and(is_final)) => {
                let items = request.items.drain(..).zip(replies);
                results.extend(items.filter_map(|(item, reply)| Some(item.result::<W>(reply?))));
                return Ok(Vec::new());
            }
            Ok(Some(replies)) if replies.iter().all(Option::is_some) => {
                return Ok(replies.into_iter().flatten().collect());
            }
            Ok(replies) => {
                if let Some(replies) = replies {
                    request.take_given::<W>(replies, results);
                }
                let (items, first) = request.sent_and_watched(to);
                // Boxed, because allocations rarely need a separate request.
                let there = Box::pin(span.scope(work.there(self, call, target, &items)));
                self.unless_abandoned(target, there, first, since).await
            }
            Err(refusal) => Err(refusal),
        };
        response.inspect_err(|_| request.on_abandoned::<W>(to))
    }

    /// Begins the trace span of a request to another node, if the call is traced.
    fn forwarding(&self, target: &ForwardTarget, request: &Request<'_>) -> Span {
        let mut span = traces::child("forward");
        if !span.is_none() {
            span = self.described(span);
            span.set("seqsvr.section", request.items[0].section.0);
            span.set("seqsvr.items", request.items.len());
            match target.destination() {
                Destination::Node(node) => span.set("seqsvr.to_node_id", node.0),
                Destination::Set(set) => span.set("seqsvr.to_set_id", set.0),
            }
        }
        span
    }

    /// Waits for the response to a request in flight. In the meantime `machine`, the state machine of one of the
    /// request's sections, watches the request and may abandon it.
    ///
    /// # Errors
    /// The result of [`Shared::watch`] if the request was abandoned. The request's future was then dropped.
    async fn unless_abandoned<T>(
        &self,
        target: &ForwardTarget,
        response: impl Future<Output = T>,
        machine: &mut PendingCall,
        since: Instant,
    ) -> Result<T, Option<Refusal>> {
        let section = machine.section();
        tokio::select! {
            // A response that has arrived is used even if, at the same time, the request was abandoned or the set went
            // down.
            biased;
            response = response => Ok(response),
            refusal = self.watch(machine, since) => Err(refusal),
            refusal = silent(target, section) => Err(Some(refusal)),
        }
    }

    /// Returns the node to which a request for `section` is sent. If the destination is another set of unknown health,
    /// waits for the first probes of that set. Refuses the request while the set is down.
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

    /// Watches a request in flight, and completes when the request has to be dropped. Returns the refusal for the
    /// request's items, or `None` if the items have to be evaluated again.
    async fn watch(&self, machine: &mut PendingCall, since: Instant) -> Option<Refusal> {
        let mut awaits: Option<AwaitsOwner<'_>> = None;
        let section = machine.section();
        loop {
            let ownership_changed = self.pending.ownership_changed();
            let route = self.ownership.route(section);
            let routed = route.other_set().map(Destination::Set).or(route.owner.map(Destination::Node));
            let watch = machine.watch(since.elapsed(), (routed, route.epoch));
            self.renew_if_due(machine);
            let wait = match watch {
                Watch::Wait(wait) => wait,
                Watch::Abandon(_) => return None,
                Watch::Refuse(_, refusal) => return Some(refusal),
            };
            if wait.awaits_owner && awaits.is_none() {
                awaits = Some(self.pending.await_owner());
            }
            tokio::select! {
                () = ownership_changed => {}
                () = tokio::time::sleep_until(since + wait.until) => {}
            }
        }
    }
}

fn is_final<T>(result: &Result<T, Refusal>) -> bool {
    !result.as_ref().is_err_and(stays_pending)
}

/// Waits until the set to which a request was sent is down. Then returns the refusal for the request's items, which
/// states that the set may have processed them. For a node of this set, never completes.
async fn silent(target: &ForwardTarget, section: SectionId) -> Refusal {
    match target {
        ForwardTarget::Node(_) => std::future::pending().await,
        ForwardTarget::Other(set, _) => set.down().await,
    }
    target.destination().timed_out(section)
}
