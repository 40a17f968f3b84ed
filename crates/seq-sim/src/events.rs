//! The events of a world, in the order of virtual time.

use std::rc::Rc;

use seq_core::SetId;
use seq_core::owner::handover::Handover;
use seq_core::state::Answer;

use crate::client::{Call, Reply};
use crate::leader::InHand;
use crate::net::{Address, Body, StoreRequest, StoreResponse};
use crate::numbers::Owned;
use crate::serving::{Checked, Pending};
use crate::session::{AfterRaise, Rpc};
use crate::store::{Entry, Requester};

/// An action that a process takes by itself.
#[derive(Debug)]
pub(crate) enum Step {
    Register,
    Renew,
    RequestTimeout(u64, u32),
    Settle(Box<Rpc>, Rc<StoreResponse>),
    RaiseAgain,
    AfterRaise(Box<AfterRaise>),
    PeerTimeout(u64),
    CommitAgain(Handover),
    Look(Box<Checked>),
    Take(Box<Pending>, Rc<Owned>),
    TakeUnleased(Box<Pending>, Rc<Owned>),
    /// Another attempt of a call whose lane was too far ahead of the clock.
    CallAgain(Box<Call>),
    Forwarded(u64, Reply),
    FetchRoutes,
    /// The timeout of a round of probes of another set, with the number of the round.
    ProbeTimeout(SetId, u64),
    PollSet(SetId),
    /// The timeout of a call that waits for another set to respond.
    AwaitedSet(u64),
    Wake,
    /// The timer of a pending or a forwarded call.
    CallTimer(u64),
    Leaving(u64),
    /// An eviction of counters of keys.
    Evict,
    /// A refresh of the cached clock by which calls are served if [`Bug::CachedClock`](crate::Bug::CachedClock) is
    /// planted.
    Tick,
}

/// An event in a store.
#[derive(Debug)]
pub(crate) enum StoreStep {
    /// The application of an entry of a set's log.
    Apply(usize, Box<Entry>),
    Answer(Requester, Rc<StoreRequest>, Box<Answer>),
    Look(usize, u64),
    LookOn(usize, u64, InHand),
}

/// An event of a world.
#[derive(Debug)]
pub(crate) enum Event {
    Message {
        to: Address,
        body: Body,
    },
    Step(usize, Step),
    Resume(usize),
    Store(StoreStep),
    NextCall(usize),
    CallTimeout(usize, u64),
    FaultBegins(usize),
    FaultEnds(usize),
    /// A report of the death of the process with this number, which its parent sends to a member of the store by the
    /// member's place in the store; `None` for the leader.
    ReportDeath {
        name: usize,
        number: u64,
        to: Option<usize>,
    },
    /// The end of a process that got a signal earlier.
    Kill(usize),
    /// The start of a process of the AllocSvr with this name, unless a process already listens on the usual port of
    /// this AllocSvr.
    Start(usize),
    /// A jump of all wall clocks forward. The jump is needed because after a restore the ceilings of timed lanes are so
    /// far ahead of the clock that the lanes would not be served before the end of the world.
    TimePasses,
    /// The time of the operator's next attempt to create a series.
    CreateSeries,
    /// The next step of a merge.
    Merge,
    /// An operator's command that closes a set.
    Close(usize),
    Heal,
    Probe,
    End,
}

/// An event in the queue of a world. Events with the same time happen in the order of their numbers.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) at: u64,
    pub(crate) number: u64,
    /// Boxed, because the queue moves its elements many times.
    pub(crate) event: Box<Event>,
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
