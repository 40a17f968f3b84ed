//! Calls that cannot be answered at once: held until their section can be served, here or elsewhere, or their time is over.
//!
//! A section may be at its ceiling, frozen for a move, on its way to another node, or without an owner for as long as a dead
//! one's lease runs. In a planned move nobody is refused: whoever comes late is held here, then sent on. How many calls are
//! held is bounded, and each of them to its deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use seq_core::lease::Clocks;
use seq_core::{Epoch, NodeId, Refusal, SectionId, SlotIndex, Target, limits};
use seq_kit::service::{Allocation, Call, Current, Item};
use tokio::time::Instant;

use crate::ownership::{OwnedSection, Served};
use crate::shared::Shared;

/// Most calls that one node holds at a time: with a kilobyte or two each they take what one large batch takes, and a node
/// that holds more is not about to catch up.
pub(crate) const MAX_HELD: usize = 16_384;

/// How soon a call is tried again although nothing was heard: an owner that could not be reached may be back. Doubles up to
/// [`LAST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// The longest wait between two tries.
const LAST_RETRY: Duration = Duration::from_millis(400);

/// How long an owner that was replaced may still take to answer: longer than it takes to hear of its own replacement in a
/// planned move, and not much longer, because a lost host's callers wait for as long.
const LAST_WORD: Duration = Duration::from_millis(250);

/// After how long without an answer an owner may be gone, so that news of another one are asked for often: longer than one
/// that lives takes, and short against a lease.
const SILENCE: Duration = Duration::from_millis(300);

/// An ask that waits, with its place in the call's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingItem {
    pub(crate) index: usize,
    pub(crate) ask: Item,
    pub(crate) section: SectionId,
    pub(crate) slot: SlotIndex,
    pub(crate) lost: Lost,
}

/// Attempts of an item whose outcome is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    attempts: u32,
    /// The last owner that was given up.
    at: NodeId,
}

impl Default for Lost {
    fn default() -> Lost {
        Lost { attempts: 0, at: NodeId(0) }
    }
}

impl PendingItem {
    /// The item after an attempt at an owner that was replaced before it responded.
    pub(crate) fn given_up<W: Work>(mut self, at: NodeId) -> PendingItem {
        if W::CONSUMES {
            self.lost = Lost { attempts: self.lost.attempts + 1, at };
        }
        self
    }

    /// Its result, with what is known of earlier attempts: a refusal may no longer say that nothing moved.
    fn settled<W: Work>(&self, result: Result<W::Answer, Refusal>) -> Settled<W::Answer> {
        let Lost { attempts, at: owner } = self.lost;
        let result = match result {
            result if attempts == 0 => result,
            Ok(answer) => Ok(W::after_lost(answer, attempts)),
            Err(_) => Err(Refusal::OwnerTimedOut { section: self.section, owner }),
        };
        (self.index, result)
    }
}

/// An item's answer, with its place.
pub(crate) type Settled<T> = (usize, Result<T, Refusal>);

/// What is done with an item: [`Take`], [`Read`] or [`Advance`].
pub(crate) trait Work: Send + Sync {
    type Answer: Send;

    /// Whether an attempt without a response may have consumed numbers.
    const CONSUMES: bool = false;

    /// How many numbers an item that was done took.
    fn numbers(item: &PendingItem) -> u64;

    /// The answer after attempts whose outcome is not known.
    fn after_lost(answer: Self::Answer, _attempts: u32) -> Self::Answer {
        answer
    }

    /// Does it from a section that is served here. `None`: not now; why is for [`Shared::settle`] to find out.
    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Self::Answer, Refusal>>;

    /// Has the owner do it, for items in order.
    fn there(
        &self,
        shared: &Shared,
        call: Call,
        to: NodeId,
        items: &[PendingItem],
    ) -> impl Future<Output = Vec<Settled<Self::Answer>>> + Send;
}

/// Takes numbers.
pub(crate) struct Take;

/// Reads the last number.
pub(crate) struct Read;

/// Takes all numbers up to one.
pub(crate) struct Advance {
    to: Target,
    /// Whether it was logged as a far one.
    logged: AtomicBool,
}

impl Advance {
    pub(crate) fn new(to: Target) -> Advance {
        Advance { to, logged: AtomicBool::new(false) }
    }
}

impl Work for Take {
    type Answer = Allocation;

    const CONSUMES: bool = true;

    fn numbers(item: &PendingItem) -> u64 {
        item.ask.count.get().into()
    }

    fn after_lost(answer: Allocation, attempts: u32) -> Allocation {
        Allocation { lost: answer.lost.saturating_add(attempts), ..answer }
    }

    #[inline]
    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Allocation, Refusal>> {
        shared.take(served, &item.ask, item.slot)
    }

    async fn there(&self, shared: &Shared, call: Call, to: NodeId, items: &[PendingItem]) -> Vec<Settled<Allocation>> {
        match items {
            [item] => vec![(item.index, shared.forward_next(call, to, item).await)],
            items => shared.forward_many(call, to, items).await,
        }
    }
}

impl Work for Read {
    type Answer = Current;

    fn numbers(_: &PendingItem) -> u64 {
        0
    }

    fn here(&self, _: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Current, Refusal>> {
        if item.ask.epoch > served.epoch() {
            return None;
        }
        let reading = served.current(item.slot)?;
        Some(Ok(Current { reading, epoch: served.epoch() }))
    }

    async fn there(&self, shared: &Shared, call: Call, to: NodeId, items: &[PendingItem]) -> Vec<Settled<Current>> {
        match items {
            [item] => vec![(item.index, shared.forward_current(call, to, item).await)],
            items => shared.forward_current_many(call, to, items).await,
        }
    }
}

impl Work for Advance {
    type Answer = Epoch;

    /// None: what is passed over is not given out.
    fn numbers(_: &PendingItem) -> u64 {
        0
    }

    fn here(&self, shared: &Shared, served: Served<'_>, item: &PendingItem) -> Option<Result<Epoch, Refusal>> {
        let owned = served.owned();
        let far = shared.is_far(owned, self.to);
        let answer = shared.advance(served, item, self.to);
        if far && !matches!(answer, Some(Err(_))) && !self.logged.swap(true, Relaxed) {
            let (uid, section, to) = (item.ask.uid.0, owned.id.0, self.to.seq().0);
            tracing::warn!(uid, section, to, ceiling = owned.ceiling().0, "an advance far above the ceiling");
        }
        answer
    }

    async fn there(&self, shared: &Shared, call: Call, to: NodeId, items: &[PendingItem]) -> Vec<Settled<Epoch>> {
        let mut settled = Vec::with_capacity(items.len());
        for item in items {
            settled.push((item.index, shared.forward_advance(call, to, item, self.to).await));
        }
        settled
    }
}

impl Shared {
    /// Answers items of one section in their order: from here while the section is served here, else from its owner,
    /// waiting as long as the call may.
    ///
    /// Order matters: a later item of the same uid must not be answered before an earlier one that waits.
    pub(crate) async fn settle<W: Work>(
        &self,
        work: &W,
        call: Call,
        items: Vec<PendingItem>,
    ) -> Vec<Settled<W::Answer>> {
        let Some(section) = items.first().map(|item| item.section) else { return Vec::new() };
        let arrived = self.clock.now();
        let mut settled = Vec::with_capacity(items.len());
        let mut rest = items;
        let mut held: Option<Held<'_>> = None;
        let mut retry = FIRST_RETRY;
        loop {
            // Made before anything is looked at: what is signalled from here on is not missed.
            let update = self.ownership_changed.notified();
            let owned = self.ownership.owned().get(section).cloned();
            let changed = owned.as_ref().map(|owned| owned.changed.notified());
            let why = match &owned {
                Some(owned) => self.try_here(work, &call, owned, arrived, &mut rest, &mut settled),
                None => self.try_elsewhere(work, call, section, &mut rest, &mut settled).await,
            };
            let Some(why) = why else { break };
            if self.is_astray(&call, section, why) {
                settled.extend(rest.iter().map(|item| item.settled::<W>(Err(why))));
                break;
            }
            let Ok(waiting) = held.take().map_or_else(|| self.hold(section), Ok) else {
                let refusal = Refusal::TooManyHeld { section, held: MAX_HELD };
                settled.extend(rest.iter().map(|item| item.settled::<W>(Err(refusal))));
                break;
            };
            held.insert(waiting).waits_for(why);
            let refusal = tokio::select! {
                () = async { match changed { Some(changed) => changed.await, None => std::future::pending().await } } => None,
                () = update => None,
                () = tokio::time::sleep_until((Instant::now() + retry).min(call.deadline)) => {
                    retry = (retry * 2).min(LAST_RETRY);
                    (Instant::now() >= call.deadline).then_some(why)
                }
                () = self.shutdown.cancelled() => Some(Refusal::ShuttingDown),
            };
            if let Some(refusal) = refusal {
                settled.extend(rest.iter().map(|item| item.settled::<W>(Err(refusal))));
                break;
            }
        }
        settled
    }

    /// Answers what it can from a section that is served here; why the rest must wait, or `None` when there is no rest.
    fn try_here<W: Work>(
        &self,
        work: &W,
        call: &Call,
        owned: &Arc<OwnedSection>,
        arrived: Clocks,
        rest: &mut Vec<PendingItem>,
        settled: &mut Vec<Settled<W::Answer>>,
    ) -> Option<Refusal> {
        let section = owned.id;
        let serving = self.serve();
        let served = serving.as_ref().and_then(|serving| serving.get(section)).filter(|served| served.is(owned));
        let Some(served) = served else { return Some(Refusal::LeaseExpired { section }) };
        let mut done = 0;
        let mut why = None;
        for item in rest.iter() {
            let mut item = *item;
            if item.ask.epoch > owned.epoch {
                if !self.confirmed_since(arrived) {
                    self.renew_now.notify_one();
                    why = Some(Refusal::StaleEpoch { section, mine: owned.epoch, callers: item.ask.epoch });
                    break;
                }
                // The store said after the call came that this ownership is the newest: the caller's word is wrong.
                item.ask.epoch = owned.epoch;
            }
            let Some(result) = work.here(self, served, &item) else {
                why = Some(Refusal::CeilingStalled { section });
                break;
            };
            if result.is_ok() {
                self.counters.given(call.via, W::numbers(&item));
            }
            settled.push(item.settled::<W>(result));
            done += 1;
        }
        rest.drain(..done);
        why
    }

    /// Has the owner answer what it can; why the rest must wait, or `None` when there is no rest.
    async fn try_elsewhere<W: Work>(
        &self,
        work: &W,
        call: Call,
        section: SectionId,
        rest: &mut Vec<PendingItem>,
        settled: &mut Vec<Settled<W::Answer>>,
    ) -> Option<Refusal> {
        let owner = self.owners().elsewhere(&call, section);
        let to = match owner {
            Ok(to) => to,
            Err(refusal) => return Some(refusal),
        };
        let Some(answers) = self.asked(work, call, section, to, rest).await else {
            rest.iter_mut().for_each(|item| *item = item.given_up::<W>(to));
            return Some(Refusal::OwnerTimedOut { section, owner: to });
        };
        let mut why = None;
        let mut left = Vec::new();
        for ((index, result), item) in answers.into_iter().zip(rest.iter()) {
            match result {
                Err(refusal) if passes(&refusal) => {
                    why = Some(refusal);
                    left.push(index);
                }
                result => settled.push(item.settled::<W>(result)),
            }
        }
        rest.retain(|item| left.contains(&item.index));
        why
    }

    /// Asks an owner; `None` when it stays silent although its section went to another one. An owner that hands a section
    /// over answers late calls as well, by way of the new one, so silence means that it is gone.
    pub(crate) async fn asked<W: Work>(
        &self,
        work: &W,
        call: Call,
        section: SectionId,
        to: NodeId,
        items: &[PendingItem],
    ) -> Option<Vec<Settled<W::Answer>>> {
        let replaced = async {
            loop {
                let update = self.ownership_changed.notified();
                let owner = self.routes().as_ref().and_then(|routes| routes.get(section)).and_then(|route| route.owner);
                if owner != Some(to) {
                    return tokio::time::sleep(LAST_WORD).await;
                }
                update.await;
            }
        };
        let silent = async {
            tokio::time::sleep(SILENCE).await;
            let _seeking = Seeking::begin(&self.holds);
            self.renew_now.notify_one();
            std::future::pending().await
        };
        tokio::select! {
            answers = work.there(self, call, to, items) => Some(answers),
            () = replaced => None,
            () = silent => None,
        }
    }

    /// Whether a call waits better where it came from: it was forwarded as often as one may be, and its section is not on its
    /// way here. The node that sent it may be given the section at any moment, and would wait for this one's response.
    fn is_astray(&self, call: &Call, section: SectionId, why: Refusal) -> bool {
        let forwarded = matches!(why, Refusal::NotOwner { .. }) && call.hops >= limits::MAX_HOPS;
        forwarded && !self.ownership.machine().expects(section)
    }

    fn hold(&self, section: SectionId) -> Result<Held<'_>, Refusal> {
        if self.holds.calls.fetch_add(1, Relaxed) >= MAX_HELD {
            self.holds.calls.fetch_sub(1, Relaxed);
            return Err(Refusal::TooManyHeld { section, held: MAX_HELD });
        }
        Ok(Held { shared: self, seeks: None, stalled_since: None })
    }
}

/// Whether an owner's refusal says that nothing moved and that another try, here or elsewhere, may succeed soon.
pub(crate) fn passes(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NotOwner { .. }
            | Refusal::Unserved { .. }
            | Refusal::OwnerUnreachable { .. }
            | Refusal::StaleEpoch { .. }
            | Refusal::LeaseExpired { .. }
            | Refusal::ShuttingDown
    )
}

/// How many calls are held.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    calls: AtomicUsize,
    /// Those that wait for somebody to own their section.
    seeking: AtomicUsize,
}

impl Holds {
    /// Whether a call waits for news of an owner.
    pub(crate) fn seek(&self) -> bool {
        self.seeking.load(Relaxed) > 0
    }
}

/// One call that waits for news of an owner.
struct Seeking<'a>(&'a Holds);

impl Seeking<'_> {
    fn begin(holds: &Holds) -> Seeking<'_> {
        holds.seeking.fetch_add(1, Relaxed);
        Seeking(holds)
    }
}

impl Drop for Seeking<'_> {
    fn drop(&mut self) {
        self.0.seeking.fetch_sub(1, Relaxed);
    }
}

/// One held call.
struct Held<'a> {
    shared: &'a Shared,
    seeks: Option<Seeking<'a>>,
    /// Since when it waits at a ceiling.
    stalled_since: Option<Instant>,
}

impl Held<'_> {
    /// Notes what the call waits for now.
    fn waits_for(&mut self, why: Refusal) {
        if matches!(why, Refusal::CeilingStalled { .. }) {
            self.stalled_since.get_or_insert_with(Instant::now);
        }
        let here = matches!(why, Refusal::CeilingStalled { .. } | Refusal::LeaseExpired { .. });
        if here {
            self.seeks = None;
        } else if self.seeks.is_none() {
            self.seeks = Some(Seeking::begin(&self.shared.holds));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.shared.holds.calls.fetch_sub(1, Relaxed);
        if let Some(since) = self.stalled_since {
            self.shared.counters.stalled(since.elapsed());
        }
    }
}
