//! The events of a world, in the order of virtual time.

use std::rc::Rc;

use seq_core::SetId;
use seq_core::owner::handover::Handover;
use seq_core::state::Answer;

use crate::client::Reply;
use crate::leader::InHand;
use crate::net::{Address, Body, StoreRequest, StoreResponse};
use crate::process::Owned;
use crate::serving::{Checked, Pending};
use crate::session::{AfterRaise, Rpc};
use crate::store::{Entry, Requester};

/// What a process does by itself.
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
    Forwarded(u64, Reply),
    FetchRoutes,
    /// A round of probes of another set is over, or the next one is due.
    ProbeTimeout(SetId, u64),
    PollSet(SetId),
    /// A call has waited long enough for another set to respond.
    AwaitedSet(u64),
    Wake,
    /// The time of a pending or a forwarded call.
    CallTimer(u64),
    Leaving(u64),
    /// Refreshes the clock that a planted bug serves by.
    Tick,
}

/// What happens in the store.
#[derive(Debug)]
pub(crate) enum StoreStep {
    /// An entry of a set's log is applied.
    Apply(usize, Box<Entry>),
    Answer(Requester, Rc<StoreRequest>, Box<Answer>),
    Look(usize, u64),
    LookOn(usize, u64, InHand),
}

/// Something that happens.
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
    /// A process of a name is started, unless one runs.
    Start(usize),
    /// The next step of a merge.
    Merge,
    /// An operator closes a set.
    Close(usize),
    Heal,
    Probe,
    End,
}

/// A queued event.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) at: u64,
    pub(crate) number: u64,
    pub(crate) event: Event,
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
