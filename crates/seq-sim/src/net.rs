//! The network: which hosts reach each other, how long a message takes, and which ones are lost, doubled or late.

use std::rc::Rc;
use std::time::Duration;

use seq_core::high_water::{Mark, Refused};
use seq_core::owner::handover::{Handover, HandoverOffer};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Renewal, Session};
use seq_core::route::RouteUpdate;
use seq_core::section::SectionCopy;
use seq_core::state::Raise;
use seq_core::{Incarnation, Revision, RouteVersion, Seq};

use crate::client::{Call, Reply};
use crate::events::Event;
use crate::faults::MS;
use crate::hosts::{Hosts, set_of_name};
use crate::rng::Rng;
use crate::sets::Between;
use crate::world::World;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Whatever process listens there: a name of the set file, and a port.
    Port(usize, usize),
    /// This very process: a response on its connection.
    Process(usize),
    /// A member of the store.
    Member(usize),
    /// A caller.
    Client(usize),
}

/// A request of an AllocSvr to the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreRequest {
    Register {
        name: usize,
        port: usize,
        token: u64,
        lease: Duration,
        follows: Incarnation,
        seen: Revision,
    },
    Renew(Renewal),
    Raise {
        session: Session,
        raises: Vec<Raise>,
        since: RouteVersion,
    },
    /// Commits a handover, in this set or to another one.
    Commit {
        handover: Handover,
        since: RouteVersion,
    },
}

/// A response of the store.
#[derive(Clone, Debug)]
pub(crate) enum StoreResponse {
    NotLeader(usize),
    Registered(Session, Mark),
    /// The registration does not follow the newest incarnation, which this is.
    Follow(Incarnation),
    Renewed(OwnershipUpdate),
    Raised(Vec<Option<Seq>>, OwnershipUpdate),
    Committed(OwnershipUpdate),
    SessionOver(Refused),
    /// The registration has seen more than the store has.
    Behind,
    /// A commit was refused.
    CommitRefused(RefusedCommit),
    Refused,
}

impl StoreResponse {
    /// The store's mark, in a response other than a refusal.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match self {
            StoreResponse::Registered(_, mark) => Some(*mark),
            StoreResponse::Renewed(update) | StoreResponse::Raised(_, update) | StoreResponse::Committed(update) => {
                Some(update.mark)
            }
            _ => None,
        }
    }

    /// The process' own record in a refusal.
    pub(crate) fn refused(&self) -> Option<Refused> {
        match self {
            StoreResponse::SessionOver(refused) => Some(*refused),
            StoreResponse::Behind => Some(Refused::Behind),
            StoreResponse::Follow(newest) => Some(Refused::Incarnation(*newest)),
            _ => None,
        }
    }
}

/// What a source asks a target.
#[derive(Clone, Debug)]
pub(crate) enum PeerRequest {
    Prepare(HandoverOffer),
    Stage(HandoverOffer, SectionCopy),
    Activate(HandoverOffer),
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Request {
        process: usize,
        rpc: u64,
        attempt: u32,
        request: Rc<StoreRequest>,
    },
    /// With how often the store had been restored when it responded.
    StoreResponse {
        rpc: u64,
        attempt: u32,
        rollbacks: u32,
        response: Rc<StoreResponse>,
    },
    Peer {
        process: usize,
        id: u64,
        request: Rc<PeerRequest>,
    },
    PeerResponse {
        id: u64,
        accepted: bool,
    },
    /// A process whose lease is over fetches routes newer than a version.
    FetchRoutes {
        process: usize,
        id: u64,
        known: RouteVersion,
    },
    /// `None`: there are no newer ones.
    PeerRoutes {
        id: u64,
        update: Option<Rc<RouteUpdate>>,
    },
    /// A message of a member of another set's store.
    Between {
        from: usize,
        message: Between,
    },
    Call(Call),
    Reply {
        to: u64,
        reply: Reply,
    },
}

/// The weather on the wires.
#[derive(Debug)]
pub(crate) struct Net {
    /// How many faults cut the way from one host to another.
    cut: Vec<Vec<u8>>,
    pub(crate) loss: u64,
    pub(crate) duplicates: u64,
    pub(crate) slow_ms: u64,
    pub(crate) ancient: u64,
    pub(crate) responses_lost: u64,
    pub(crate) peer_responses_lost: u64,
    /// How many faults keep the store's responses from a process, by name and port.
    pub(crate) mute: Vec<[u32; 2]>,
    /// The same for what a name asks the store.
    pub(crate) only_commits: Vec<u32>,
    pub(crate) no_raises: Vec<u32>,
    pub(crate) no_renewals: Vec<u32>,
    pub(crate) no_commits: Vec<u32>,
    pub(crate) no_commit_responses: Vec<u32>,
    /// How many faults keep responses of a set from the other sets' processes.
    pub(crate) silent: Vec<u32>,
    /// How many faults make the routes of a name wrong.
    pub(crate) unsettled: Vec<u32>,
}

impl Net {
    pub(crate) fn new(hosts: Hosts) -> Net {
        let names = vec![0; hosts.names()];
        Net {
            cut: vec![vec![0; hosts.count()]; hosts.count()],
            loss: 0,
            duplicates: 0,
            slow_ms: 0,
            ancient: 0,
            responses_lost: 0,
            peer_responses_lost: 0,
            mute: vec![[0; 2]; hosts.names()],
            only_commits: names.clone(),
            no_raises: names.clone(),
            no_renewals: names.clone(),
            no_commits: names.clone(),
            no_commit_responses: names.clone(),
            silent: vec![0; hosts.sets],
            unsettled: names,
        }
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize, cut: bool) {
        let ways = &mut self.cut[from][to];
        *ways = if cut { *ways + 1 } else { ways.saturating_sub(1) };
    }

    /// Everything heals; messages under way stay under way.
    pub(crate) fn heal(&mut self, hosts: Hosts) {
        *self = Net::new(hosts);
    }

    /// How long a message takes; `None` when it is lost.
    fn delay(&self, rng: &mut Rng, body: &Body, from: usize, to: usize) -> Option<u64> {
        let lost = match body {
            Body::StoreResponse { .. } => self.responses_lost,
            Body::PeerResponse { .. } => self.peer_responses_lost,
            _ => 0,
        };
        if (self.cut[from][to] > 0 && from != to) || rng.chance(self.loss) || rng.chance(lost) {
            return None;
        }
        if rng.chance(self.ancient) {
            return Some(rng.between(500 * MS, 20_000 * MS));
        }
        let usual = rng.between(MS / 10, MS);
        Some(if self.slow_ms > 0 && rng.chance(500) { usual + rng.below(self.slow_ms * MS) } else { usual })
    }
}

impl World {
    /// Returns the set of an AllocSvr's host that a message is of or for.
    fn set_of_host(&self, host: usize) -> Option<usize> {
        (host < self.hosts.names()).then(|| set_of_name(host))
    }

    /// Whether a fault is meant for this kind of message.
    fn is_swallowed(&self, from: usize, to: Address, body: &Body) -> bool {
        if let (Some(from), Some(to)) = (self.set_of_host(from), self.set_of_host(self.host(to)))
            && from != to
            && self.net.silent[from] > 0
        {
            return true;
        }
        match (body, to) {
            (Body::StoreResponse { response, .. }, Address::Process(p)) => {
                let process = &self.procs[p];
                let made = matches!(**response, StoreResponse::Committed(..))
                    && self.net.no_commit_responses[process.name] > 0;
                made || self.net.mute[process.name][process.port] > 0
            }
            (Body::Request { process, request, .. }, _) => {
                let name = self.procs[*process].name;
                match **request {
                    StoreRequest::Renew(_) => self.net.only_commits[name] > 0 || self.net.no_renewals[name] > 0,
                    StoreRequest::Raise { .. } => self.net.only_commits[name] > 0 || self.net.no_raises[name] > 0,
                    StoreRequest::Commit { .. } => self.net.no_commits[name] > 0,
                    StoreRequest::Register { .. } => false,
                }
            }
            _ => false,
        }
    }

    /// Sends a message from a host.
    pub(crate) fn send(&mut self, from: usize, to: Address, body: Body) {
        let host = self.host(to);
        if self.is_swallowed(from, to, &body) {
            return;
        }
        if self.rng.chance(self.net.duplicates)
            && let Some(delay) = self.net.delay(&mut self.rng, &body, from, host)
        {
            let mut copy = body.clone();
            if let Body::Call(call) = &mut copy {
                call.doubled = true;
                self.check.doubled(self.now, call.uid.0, call.id);
            }
            self.after(delay, Event::Message { to, body: copy });
        }
        if let Some(delay) = self.net.delay(&mut self.rng, &body, from, host) {
            self.after(delay, Event::Message { to, body });
        }
    }
}
