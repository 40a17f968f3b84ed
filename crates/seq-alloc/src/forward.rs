//! Calls for sections of other nodes: asked once at the owner, and its answer told as it is.
//!
//! A forwarded call is never repeated here. Whether repeating is wise is the caller's to say: an owner that did not answer
//! may have given numbers out.

use std::time::Instant;

use seq_client::pool::{self, Pool};
use seq_core::{Count, Epoch, Layout, NodeId, Reading, Refusal, SectionId, Seq, Uid};
use seq_kit::frontend::{Allocation, Ask, Call, Current};
use seq_proto::v1::sequence_service_client::SequenceServiceClient;
use seq_proto::{status, v1};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::settle::{Item, Settled};
use crate::shared::Shared;

/// The way to other owners.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pool: Pool,
}

type Owner = SequenceServiceClient<Channel>;

/// Why an owner gave no answer to use.
enum Failure {
    /// The call certainly did not reach it.
    NotSent,
    /// It may have got the call.
    NoAnswer,
    /// It refused, for this reason.
    Refused(String),
}

impl Forwarder {
    pub(crate) fn new(pool: Pool) -> Forwarder {
        Forwarder { pool }
    }
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
        let channel = self.channel(to).ok_or(Failure::NotSent)?;
        if left.is_zero() {
            return Err(Failure::NotSent);
        }
        let owner = SequenceServiceClient::new(channel).max_decoding_message_size(seq_core::limits::MAX_RESPONSE_BYTES);
        let mut request = Request::new(question);
        request.set_timeout(left);
        match tokio::time::timeout(left, method(owner, request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) if pool::never_sent(&status) => Err(Failure::NotSent),
            Ok(Err(status)) => Err(status::reason(&status).map_or(Failure::NoAnswer, Failure::Refused)),
            Err(_) => Err(Failure::NoAnswer),
        }
    }

    fn channel(&self, to: NodeId) -> Option<Channel> {
        let routes = self.routes();
        let addr = &routes.as_ref()?.node(to)?.addr;
        self.forwarder.pool.get(addr).inspect_err(|error| tracing::warn!(owner = to.0, %error, "cannot forward")).ok()
    }

    /// Asks the owner for one item.
    pub(crate) async fn forward_next(&self, call: Call, to: NodeId, item: &Item) -> Result<Allocation, Refusal> {
        self.counters.forwarded(1);
        let Ask { uid, count, epoch } = item.ask;
        let question = v1::NextRequest {
            uid: uid.0,
            count: count.get(),
            route_version: None,
            epoch: epoch.0,
            hops: call.hops + 1,
        };
        let answer = self.ask(&call, to, question, async |mut owner, request| owner.next(request).await).await;
        match answer {
            Ok(answer) => given(answer.value, answer.prev, answer.epoch).ok_or(no_answer(item.section, to)),
            Err(failure) => Err(self.refusal(failure, to, item)),
        }
    }

    /// Asks the owner for many items, in their order.
    pub(crate) async fn forward_many(&self, call: Call, to: NodeId, items: Vec<Item>) -> Vec<Settled> {
        self.counters.forwarded(items.len());
        let question = v1::NextManyRequest {
            uids: items.iter().map(|item| item.ask.uid.0).collect(),
            counts: items.iter().map(|item| item.ask.count.get()).collect(),
            route_version: None,
            hops: call.hops + 1,
        };
        let answer = self
            .ask(&call, to, question, async |mut owner, request| owner.next_many(request).await)
            .await
            .and_then(|answer| {
                let lengths = [answer.values.len(), answer.prevs.len(), answer.epochs.len()];
                if lengths == [items.len(); 3] { Ok(answer) } else { Err(Failure::NoAnswer) }
            });
        let settled: Vec<Settled> = match answer {
            Ok(answer) => {
                let mut reasons = reasons(answer.errors, items.len());
                let of = |(place, item): (usize, &Item)| match reasons[place].take() {
                    Some(reason) => Err(self.refusal(Failure::Refused(reason), to, item)),
                    None => given(answer.values[place], answer.prevs[place], answer.epochs[place])
                        .ok_or(no_answer(item.section, to)),
                };
                let results: Vec<_> = items.iter().enumerate().map(of).collect();
                items.iter().map(|item| item.index).zip(results).collect()
            }
            Err(failure) => {
                items.iter().map(|item| (item.index, Err(self.refusal(failure.again(), to, item)))).collect()
            }
        };
        for (_, result) in &settled {
            if let Err(refusal) = result {
                self.counters.refused(call.via, refusal, 1);
            }
        }
        settled
    }

    /// Reads one uid's last number at its owner.
    pub(crate) async fn forward_current(
        &self,
        call: Call,
        to: NodeId,
        section: SectionId,
        uid: Uid,
        epoch: Epoch,
    ) -> Result<Current, Refusal> {
        self.counters.forwarded(1);
        let question = v1::CurrentRequest { uid: uid.0, route_version: None, epoch: epoch.0, hops: call.hops + 1 };
        let answer = self.ask(&call, to, question, async |mut owner, request| owner.current(request).await).await;
        match answer {
            Ok(answer) => read(answer.value, answer.exactness, answer.epoch).ok_or(no_answer(section, to)),
            Err(failure) => Err(self.refused_read(failure, to, section, uid, epoch)),
        }
    }

    /// Reads many uids' last numbers at their owner, in order.
    pub(crate) async fn forward_current_many(
        &self,
        call: Call,
        to: NodeId,
        uids: &[(SectionId, Uid)],
    ) -> Vec<Result<Current, Refusal>> {
        self.counters.forwarded(uids.len());
        let question = v1::CurrentManyRequest {
            uids: uids.iter().map(|(_, uid)| uid.0).collect(),
            route_version: None,
            hops: call.hops + 1,
        };
        let answer = self
            .ask(&call, to, question, async |mut owner, request| owner.current_many(request).await)
            .await
            .and_then(|answer| {
                let lengths = [answer.values.len(), answer.exactness.len(), answer.epochs.len()];
                if lengths == [uids.len(); 3] { Ok(answer) } else { Err(Failure::NoAnswer) }
            });
        match answer {
            Ok(answer) => {
                let mut reasons = reasons(answer.errors, uids.len());
                let of = |(place, &(section, uid)): (usize, &(SectionId, Uid))| match reasons[place].take() {
                    Some(reason) => Err(self.refused_read(Failure::Refused(reason), to, section, uid, Epoch(0))),
                    None => read(answer.values[place], answer.exactness[place], answer.epochs[place])
                        .ok_or(no_answer(section, to)),
                };
                uids.iter().enumerate().map(of).collect()
            }
            Err(failure) => uids
                .iter()
                .map(|&(section, uid)| Err(self.refused_read(failure.again(), to, section, uid, Epoch(0))))
                .collect(),
        }
    }

    fn refused_read(&self, failure: Failure, to: NodeId, section: SectionId, uid: Uid, epoch: Epoch) -> Refusal {
        let Ok((_, slot)) = self.layout.locate(uid) else { return no_answer(section, to) };
        let ask = Ask { uid, count: Count::ONE, epoch };
        self.refusal(failure, to, &Item { index: 0, ask, section, slot })
    }

    /// The owner's refusal, as this node tells it.
    fn refusal(&self, failure: Failure, to: NodeId, item: &Item) -> Refusal {
        let section = item.section;
        let reason = match failure {
            Failure::NotSent => return Refusal::OwnerUnreachable { section, owner: to },
            Failure::NoAnswer => return no_answer(section, to),
            Failure::Refused(reason) => reason,
        };
        if matches!(reason.as_str(), "NOT_OWNER" | "UNSERVED" | "STALE_EPOCH") {
            self.renew_now.notify_one();
        }
        let known = known_refusals(&self.layout, item, to);
        // A reason this version does not know is told as the widest one: numbers may have been consumed.
        known.into_iter().find(|refusal| status::verdict(refusal).reason == reason).unwrap_or(no_answer(section, to))
    }
}

impl Failure {
    /// The same failure for the next item of a batch.
    fn again(&self) -> Failure {
        match self {
            Failure::NotSent => Failure::NotSent,
            Failure::NoAnswer => Failure::NoAnswer,
            Failure::Refused(reason) => Failure::Refused(reason.clone()),
        }
    }
}

/// Everything an owner may refuse a forwarded item with. The epoch it holds is not in its answer; all that matters of it
/// is that the caller's is newer.
fn known_refusals(layout: &Layout, item: &Item, to: NodeId) -> [Refusal; 8] {
    let Item { ask, section, .. } = *item;
    let (uids, count) = (layout.uids(), ask.count.get());
    [
        Refusal::NotOwner { section, owner: Some(to) },
        Refusal::Unserved { section },
        Refusal::StaleEpoch { section, mine: Epoch(ask.epoch.0.saturating_sub(1)), callers: ask.epoch },
        Refusal::CeilingStalled { section },
        Refusal::Exhausted { uid: ask.uid, count },
        Refusal::ShuttingDown,
        Refusal::UidOutOfRange { uid: ask.uid, start: uids.start, end: uids.end },
        Refusal::CountOutOfRange { count },
    ]
}

fn no_answer(section: SectionId, to: NodeId) -> Refusal {
    Refusal::OwnerTimedOut { section, owner: to }
}

/// The reason of each refused item, by its place.
fn reasons(errors: Vec<v1::ItemError>, items: usize) -> Vec<Option<String>> {
    let mut reasons = vec![None; items];
    for error in errors {
        if let Some(entry) = reasons.get_mut(error.index as usize) {
            *entry = Some(error.reason);
        }
    }
    reasons
}

/// Numbers as an owner answers them; `None` when they cannot be numbers.
fn given(value: u64, prev: u64, epoch: u64) -> Option<Allocation> {
    let sound = value > prev && value <= Seq::MAX.0 && epoch > 0;
    sound.then_some(Allocation { value: Seq(value), prev: Seq(prev), epoch: Epoch(epoch) })
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
