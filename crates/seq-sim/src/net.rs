//! The simulated network. It decides which hosts reach each other, how long each message takes, and which messages are
//! lost or doubled.

use std::rc::Rc;
use std::time::Duration;

use seq_core::high_water::{Mark, Refused};
use seq_core::owner::handover::{Handover, HandoverOffer};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::owner::{OwnershipUpdate, Renewal, Session};
use seq_core::raise_bound::Lowered;
use seq_core::route::RouteUpdate;
use seq_core::section::AnyCopy;
use seq_core::state::Raise;
use seq_core::{Incarnation, Revision, RouteVersion, Seq};

use crate::client::{Call, Reply};
use crate::events::Event;
use crate::faults::MS;
use crate::hosts::{Hosts, set_of_name};
use crate::rng::Rng;
use crate::sets::Between;
use crate::world::World;

/// The destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The process that listens under a name on one of the name's two ports.
    Port(usize, usize),
    /// The process with this index, if the message is a response on a connection that the process opened.
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
        process: u64,
    },
    Renew(Renewal),
    Raise {
        session: Session,
        raises: Vec<Raise>,
        since: RouteVersion,
        /// The raises that the leader of the store lowered, after it had received the request.
        lowered: Lowered,
    },
    /// A request to commit a handover inside the set, or a departure to another set.
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
    /// Refusal of a registration, because the incarnation that it names as its predecessor is not the newest
    /// incarnation of the node. The field is the newest incarnation.
    Follow(Incarnation),
    Renewed(OwnershipUpdate),
    Raised(Vec<Option<Seq>>, OwnershipUpdate),
    Committed(OwnershipUpdate),
    SessionOver(Refused),
    /// Refusal of a registration, because the state of the store is older than the newest response that the process has
    /// received.
    Behind,
    /// The refusal of a commit.
    CommitRefused(RefusedCommit),
    Refused,
}

impl StoreResponse {
    /// Returns the mark of the store, which is its revision and the node's liveness counter, from a response other than
    /// a refusal.
    pub(crate) fn mark(&self) -> Option<Mark> {
        match self {
            StoreResponse::Registered(_, mark) => Some(*mark),
            StoreResponse::Renewed(update) | StoreResponse::Raised(_, update) | StoreResponse::Committed(update) => {
                Some(update.mark)
            }
            _ => None,
        }
    }

    /// Returns the part of a refusal that states the progress of the requesting node in the store; `None` if the
    /// response states none.
    pub(crate) fn refused(&self) -> Option<Refused> {
        match self {
            StoreResponse::SessionOver(refused) => Some(*refused),
            StoreResponse::Behind => Some(Refused::Behind),
            StoreResponse::Follow(newest) => Some(Refused::Incarnation(*newest)),
            _ => None,
        }
    }
}

/// A request of a source to a target.
#[derive(Clone, Debug)]
pub(crate) enum PeerRequest {
    Prepare(HandoverOffer),
    Stage(HandoverOffer, AnyCopy),
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
    /// A response of the store. `rollbacks` is 1 if the store had been put back to an earlier state before it
    /// responded, and otherwise 0.
    StoreResponse {
        rpc: u64,
        attempt: u32,
        rollbacks: u32,
        response: Rc<StoreResponse>,
    },
    /// The report of the death of the process with this number of an AllocSvr.
    Died {
        name: usize,
        number: u64,
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
    /// A request for routes that are newer than `known`. A process sends this request to another process of its set if
    /// its own lease has expired, or to a node of another set as a probe of that set.
    FetchRoutes {
        process: usize,
        id: u64,
        known: RouteVersion,
    },
    /// The response to a request for routes. `update` is `None` if the responding process has no newer routes.
    PeerRoutes {
        id: u64,
        update: Option<Rc<RouteUpdate>>,
    },
    /// A message from a member of another set's store.
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

/// The faults of the network that are in effect.
#[derive(Debug)]
pub(crate) struct Net {
    /// Number of faults that cut the link from the host with the first index to the host with the second index.
    cut: Vec<Vec<u8>>,
    pub(crate) loss: u64,
    pub(crate) duplicates: u64,
    pub(crate) slow_ms: u64,
    pub(crate) ancient: u64,
    pub(crate) responses_lost: u64,
    pub(crate) peer_responses_lost: u64,
    /// For each name and port, number of faults that lose all responses of the store to the process that listens there.
    pub(crate) mute: Vec<[u32; 2]>,
    /// For each name, number of faults that lose the renewals and raises of its processes. The next four fields are
    /// counts of faults that lose only the raises, only the renewals, only the requests to commit, and only the
    /// responses to these requests.
    pub(crate) only_commits: Vec<u32>,
    pub(crate) no_raises: Vec<u32>,
    pub(crate) no_renewals: Vec<u32>,
    pub(crate) no_commits: Vec<u32>,
    pub(crate) no_commit_responses: Vec<u32>,
    /// For each set, number of faults that lose all messages from its processes to processes of other sets.
    pub(crate) silent: Vec<u32>,
    /// For each name, number of faults that make the routes of its processes wrong.
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

    /// Ends all faults of the network; messages in flight stay in flight.
    pub(crate) fn heal(&mut self, hosts: Hosts) {
        *self = Net::new(hosts);
    }

    /// Returns the delay of a message, or `None` if it is lost.
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
    /// Returns the set of an AllocSvr's host, or `None` for other hosts.
    fn set_of_host(&self, host: usize) -> Option<usize> {
        (host < self.hosts.names()).then(|| set_of_name(host))
    }

    /// Returns whether a fault loses all messages of this kind.
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
                self.check.doubled(self.now, self.series.user(call.uid), call.id);
            }
            self.after(delay, Event::Message { to, body: copy });
        }
        if let Some(delay) = self.net.delay(&mut self.rng, &body, from, host) {
            self.after(delay, Event::Message { to, body });
        }
    }
}
