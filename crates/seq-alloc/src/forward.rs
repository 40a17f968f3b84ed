//! Calls for sections of other nodes: asked once at the owner, and its answer told as it is.
//!
//! A forwarded call that may have been processed is not repeated here; whether repeating is wise is the caller's to say. The one
//! exception is an owner that was replaced before it responded (`settle`): its attempts are counted in the response.

use std::collections::BTreeMap;

use seq_client::pool;
use seq_core::{Epoch, Layout, NodeId, Reading, Refusal, SectionId, Seq, Target};
use seq_kit::service::{Allocation, Call, Current, Item};
use seq_proto::reason::{Reason, key};
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::{status, v1};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::settle::{MAX_HELD, PendingItem, Settled};
use crate::shared::Shared;

type Owner = SequenceServiceClient<Channel>;

/// Why an owner gave no answer to use.
#[derive(Clone)]
enum Failure {
    /// It certainly did not process the call.
    NotProcessed,
    /// The connection broke, and it may have processed the call.
    Broken,
    /// The time is over, or the response is none; it may have processed the call.
    NoAnswer,
    /// It refused, for this reason.
    Refused(Reason),
    /// It refused an advance, and accepts this number at most.
    TooFar(Seq),
}

impl Shared {
    async fn ask<Q, A>(
        &self,
        call: &Call,
        to: NodeId,
        question: Q,
        method: impl AsyncFnOnce(Owner, Request<Q>) -> Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        let left = call.deadline.saturating_duration_since(Instant::now());
        let channel = self.channel(to).ok_or(Failure::NotProcessed)?;
        if left.is_zero() {
            return Err(Failure::NotProcessed);
        }
        let owner = SequenceServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let mut request = Request::new(question);
        request.set_timeout(left);
        match tokio::time::timeout(left, method(owner, request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) if pool::not_processed(&status) => Err(Failure::NotProcessed),
            Ok(Err(status)) => Err(refused(&status)),
            Err(_) => Err(Failure::NoAnswer),
        }
    }

    pub(crate) fn channel(&self, to: NodeId) -> Option<Channel> {
        let routes = self.routes();
        let addr = &routes.as_ref()?.node(to)?.addr;
        self.peers.here().get(addr).inspect_err(|error| tracing::warn!(owner = to.0, %error, "cannot forward")).ok()
    }

    /// Asks the owner for one item.
    pub(crate) async fn forward_next(&self, call: Call, to: NodeId, item: &PendingItem) -> Result<Allocation, Refusal> {
        self.counters.forwarded(1);
        let Item { uid, count, epoch } = item.ask;
        let question = v1::NextRequest {
            uid: uid.0,
            count: count.get(),
            route_version: None,
            epoch: epoch.0,
            hops: call.hops + 1,
        };
        let answer = self.ask(&call, to, question, async |mut owner, request| owner.next(request).await).await;
        match answer {
            Ok(answer) => {
                let lost = answer.lost.unwrap_or(0);
                given(answer.value, answer.prev, answer.epoch, lost).ok_or(no_answer(item.section, to))
            }
            Err(failure) => Err(self.refusal(failure, to, item)),
        }
    }

    /// Asks the owner for many items, in their order.
    pub(crate) async fn forward_many(&self, call: Call, to: NodeId, items: &[PendingItem]) -> Vec<Settled<Allocation>> {
        self.counters.forwarded(items.len());
        let question = v1::NextManyRequest {
            uids: items.iter().map(|item| item.ask.uid.0).collect(),
            counts: items.iter().map(|item| item.ask.count.get()).collect(),
            route_version: None,
            hops: call.hops + 1,
            known_epochs: items.iter().map(|item| item.ask.epoch.0).collect(),
        };
        match self.ask(&call, to, question, async |mut owner, request| owner.next_many(request).await).await {
            Ok(answer) => {
                let v1::NextManyResponse { values, prevs, epochs, errors, lost, .. } = answer;
                let lost = lost.unwrap_or_default();
                let lost: BTreeMap<_, _> = lost.indexes.into_iter().zip(lost.attempts).collect();
                let lost = |at: usize| lost.get(&(at as u32)).copied().unwrap_or(0);
                self.told(to, items, errors, |at| given(*values.get(at)?, *prevs.get(at)?, *epochs.get(at)?, lost(at)))
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// Has the owner raise one uid.
    pub(crate) async fn forward_advance(
        &self,
        call: Call,
        owner: NodeId,
        item: &PendingItem,
        to: Target,
    ) -> Result<Epoch, Refusal> {
        self.counters.forwarded(1);
        let Item { uid, epoch, .. } = item.ask;
        let (to, hops) = (to.seq().0, call.hops + 1);
        let question = v1::AdvanceRequest { uid: uid.0, to, route_version: None, epoch: epoch.0, hops };
        match self.ask(&call, owner, question, async |mut owner, request| owner.advance(request).await).await {
            Ok(answer) if answer.epoch > 0 => Ok(Epoch(answer.epoch)),
            Ok(_) => Err(no_answer(item.section, owner)),
            Err(Failure::TooFar(bound)) => Err(Refusal::AdvanceTooFar { to, bound }),
            Err(failure) => Err(self.refusal(failure, owner, item)),
        }
    }

    /// Reads one uid's last number at its owner.
    pub(crate) async fn forward_current(&self, call: Call, to: NodeId, item: &PendingItem) -> Result<Current, Refusal> {
        self.counters.forwarded(1);
        let Item { uid, epoch, .. } = item.ask;
        let question = v1::CurrentRequest { uid: uid.0, route_version: None, epoch: epoch.0, hops: call.hops + 1 };
        match self.ask(&call, to, question, async |mut owner, request| owner.current(request).await).await {
            Ok(answer) => read(answer.value, answer.exactness, answer.epoch).ok_or(no_answer(item.section, to)),
            Err(failure) => Err(self.refusal(failure, to, item)),
        }
    }

    /// Reads many uids' last numbers at their owner, in order.
    pub(crate) async fn forward_current_many(
        &self,
        call: Call,
        to: NodeId,
        items: &[PendingItem],
    ) -> Vec<Settled<Current>> {
        self.counters.forwarded(items.len());
        let question = v1::CurrentManyRequest {
            uids: items.iter().map(|item| item.ask.uid.0).collect(),
            route_version: None,
            hops: call.hops + 1,
        };
        match self.ask(&call, to, question, async |mut owner, request| owner.current_many(request).await).await {
            Ok(answer) => {
                let v1::CurrentManyResponse { values, exactness, epochs, errors, .. } = answer;
                self.told(to, items, errors, |at| read(*values.get(at)?, *exactness.get(at)?, *epochs.get(at)?))
            }
            Err(failure) => self.failed(to, items, &failure),
        }
    }

    /// An owner's answer to a batch, item by item. An item without a usable answer counts as unanswered.
    fn told<T>(
        &self,
        to: NodeId,
        items: &[PendingItem],
        errors: Vec<v1::ItemError>,
        value: impl Fn(usize) -> Option<T>,
    ) -> Vec<Settled<T>> {
        let mut reasons: BTreeMap<_, _> = errors.into_iter().map(|error| (error.index, error.reason)).collect();
        let result = |(at, item): (u32, &PendingItem)| match reasons.remove(&at) {
            Some(reason) => Err(self.refusal(failure_of(&reason), to, item)),
            None => value(at as usize).ok_or(no_answer(item.section, to)),
        };
        let results: Vec<_> = (0..).zip(items).map(result).collect();
        items.iter().map(|item| item.index).zip(results).collect()
    }

    /// A batch whose call failed.
    fn failed<T>(&self, to: NodeId, items: &[PendingItem], failure: &Failure) -> Vec<Settled<T>> {
        items.iter().map(|item| (item.index, Err(self.refusal(failure.clone(), to, item)))).collect()
    }

    /// The owner's refusal, as this node tells it.
    fn refusal(&self, failure: Failure, to: NodeId, item: &PendingItem) -> Refusal {
        let section = item.section;
        let reason = match failure {
            Failure::NotProcessed => return Refusal::OwnerUnreachable { section, owner: to },
            Failure::Broken => return Refusal::OwnerConnectionLost { section, owner: to },
            Failure::NoAnswer | Failure::TooFar(_) => return no_answer(section, to),
            Failure::Refused(reason) => reason,
        };
        if matches!(reason, Reason::NotOwner | Reason::Unserved | Reason::StaleEpoch) {
            self.renew_now.notify_one();
        }
        let known = known_refusals(&self.layout, item, to);
        known.into_iter().find(|refusal| Reason::of(refusal) == reason).unwrap_or(no_answer(section, to))
    }
}

/// Decodes an owner's refusal.
fn refused(status: &Status) -> Failure {
    let bound = status::metadata(status, key::BOUND).and_then(|bound| bound.parse().ok());
    match (status::reason(status), bound) {
        (Some(reason), Some(bound)) if reason == Reason::AdvanceTooFar => Failure::TooFar(Seq(bound)),
        (Some(reason), _) => failure_of(&reason),
        (None, _) if pool::is_broken(status) => Failure::Broken,
        (None, _) => Failure::NoAnswer,
    }
}

/// The failure of a refusal with this reason. One that this version does not know counts as no response: numbers may
/// have been consumed.
fn failure_of(reason: &str) -> Failure {
    Reason::parse(reason).map_or(Failure::NoAnswer, Failure::Refused)
}

/// Everything an owner may refuse a forwarded item with. The epoch it holds is not in its answer; all that matters of it
/// is that the caller's is newer.
fn known_refusals(layout: &Layout, item: &PendingItem, to: NodeId) -> [Refusal; 12] {
    let PendingItem { ask, section, .. } = *item;
    let (uids, count) = (layout.uids(), ask.count.get());
    [
        Refusal::NotOwner { section, owner: Some(to) },
        Refusal::Unserved { section },
        Refusal::StaleEpoch { section, mine: Epoch(ask.epoch.0.saturating_sub(1)), callers: ask.epoch },
        Refusal::LeaseExpired { section },
        Refusal::OwnerConnectionLost { section, owner: to },
        Refusal::TooManyHeld { section, held: MAX_HELD },
        Refusal::CeilingStalled { section },
        Refusal::Exhausted { uid: ask.uid, count },
        Refusal::ShuttingDown,
        Refusal::UidOutOfRange { uid: ask.uid, start: uids.start, end: uids.end },
        Refusal::CountOutOfRange { count },
        Refusal::AlreadyPast { uid: ask.uid },
    ]
}

fn no_answer(section: SectionId, to: NodeId) -> Refusal {
    Refusal::OwnerTimedOut { section, owner: to }
}

/// Numbers as an owner answers them; `None` when they cannot be numbers.
fn given(value: u64, prev: u64, epoch: u64, lost: u32) -> Option<Allocation> {
    let sound = value > prev && value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch), lost })
}

/// A reading as an owner answers it; `None` when it cannot be one.
fn read(value: u64, exactness: i32, epoch: u64) -> Option<Current> {
    let exact = match v1::Exactness::try_from(exactness).ok()? {
        v1::Exactness::Exact => true,
        v1::Exactness::UpperBound => false,
        v1::Exactness::Unspecified => return None,
    };
    let sound = value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Current { reading: Reading { value: Seq(value), exact }, epoch: Epoch(epoch) })
}
