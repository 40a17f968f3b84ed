//! Handovers between processes. This module sends the requests of the source, and processes them at the target. It also
//! sends requests to commit handovers to the store, and processes the responses.

use std::rc::Rc;

use seq_core::lease::Clocks;
use seq_core::owner::handover::{Commit, Handover, HandoverOffer, HandoverRequest, OfferRefusal, SMALL_SLOTS};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::section::AnyCopy;
use seq_core::state::{Command, Depart, Destination, SectionRecord, Transfer};
use seq_core::{Epoch, HandoverId, NodeId, SectionId, Seq, SetId};

use crate::bugs::Bug;
use crate::coverage::Situation;
use crate::events::{Event, Step};
use crate::faults::MS;
use crate::hosts::set_id;
use crate::net::{Address, Body, PeerRequest, StoreRequest, StoreResponse};
use crate::session::Purpose;
use crate::world::World;

/// The id of forged handovers.
const FORGED_ATTEMPT: HandoverId = HandoverId(77);

/// The timeout of a request to a target.
const RESPONSE_TIMEOUT: u64 = 500 * MS;

/// Size of each section that is handed over. All of them are large, so that handovers wait for each other.
const LARGE: usize = SMALL_SLOTS + 1;

/// A request in flight to a target.
#[derive(Clone, Debug)]
pub(crate) struct PeerCall {
    handover: Handover,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Prepare,
    Stage,
    Activate,
}

impl World {
    /// Sends a request of a handover.
    pub(crate) fn send_handover(&mut self, p: usize, request: HandoverRequest) {
        match request {
            HandoverRequest::Prepare(handover) => {
                let request = PeerRequest::Prepare(self.offer(p, &handover));
                self.request_of_peer(p, handover, Phase::Prepare, request);
            }
            HandoverRequest::Stage(handover) => {
                let served = self.procs[p].table.get(&handover.section).filter(|owned| owned.epoch == handover.epoch);
                let Some(owned) = served.cloned() else {
                    self.step(p, |owner, effects| owner.on_staged(&handover, false, effects));
                    return;
                };
                let request = PeerRequest::Stage(self.offer(p, &handover), owned.copy(self.bug));
                self.request_of_peer(p, handover, Phase::Stage, request);
            }
            HandoverRequest::Commit(handover) => self.commit(p, handover),
            HandoverRequest::Activate(handover) => {
                let request = PeerRequest::Activate(self.offer(p, &handover));
                self.request_of_peer(p, handover, Phase::Activate, request);
            }
        }
    }

    /// Returns the address of a node in the routes of a process.
    pub(crate) fn address_of(&self, p: usize, node: NodeId) -> Option<Address> {
        let routes = self.procs[p].owner.routes()?;
        parse(&routes.node(node)?.addr)
    }

    fn offer(&self, p: usize, handover: &Handover) -> HandoverOffer {
        let Handover { section, epoch, handover_id, incarnation, departure, .. } = handover;
        let from_set = departure.as_ref().map_or(SetId(0), |_| set_id(self.procs[p].set()));
        let (section, handover_id, incarnation) = (*section, *handover_id, *incarnation);
        HandoverOffer { section, epoch: epoch.next(), handover_id, incarnation, from_set }
    }

    fn request_of_peer(&mut self, p: usize, handover: Handover, phase: Phase, request: PeerRequest) {
        let id = self.fresh();
        let to = match &handover.departure {
            Some(departure) => parse(&departure.addr),
            None => self.address_of(p, handover.to),
        };
        self.procs[p].peer_calls.insert(id, PeerCall { handover, phase });
        if let Some(to) = to {
            let host = self.procs[p].name;
            self.send(host, to, Body::Peer { process: p, id, request: Rc::new(request) });
        }
        self.after(RESPONSE_TIMEOUT, Event::Step(p, Step::PeerTimeout(id)));
    }

    /// Processes the response of the target of a handover to the request `id` of process `p`. A timeout counts as a
    /// refusal.
    pub(crate) fn peer_response(&mut self, p: usize, id: u64, accepted: bool) {
        let Some(PeerCall { handover, phase }) = self.procs[p].peer_calls.remove(&id) else { return };
        match phase {
            Phase::Prepare => self.step(p, |owner, effects| owner.on_prepared(&handover, accepted, LARGE, effects)),
            Phase::Stage => self.step(p, |owner, effects| owner.on_staged(&handover, accepted, effects)),
            // Even without an Activate, the target learns of its new section from its next renewal. The source renews,
            // because the response may name further sections to hand over.
            Phase::Activate => self.renew_now(p),
        }
    }

    /// Processes a request of the source of a handover, process `from`, at the target, process `p`. Sends the response
    /// to the source.
    pub(crate) fn peer_request(&mut self, p: usize, from: usize, id: u64, request: &PeerRequest) {
        let taken = match request {
            PeerRequest::Prepare(offer) => self.step(p, |owner, _| owner.on_prepare(offer)),
            PeerRequest::Stage(offer, copy) => {
                let taken = self.step(p, |owner, _| owner.on_stage(offer, copy.clone()));
                // The simulation keeps staged copies in addition to the state machine, to count stale copies that are
                // ignored, and for planted bugs.
                let known = self.procs[p].owner.owned().any(|owned| owned == (offer.section, offer.epoch));
                let earlier = self.procs[p].staged.get(&offer.section).filter(|staged| staged.0 == offer.epoch);
                if !known && (offer.from_set == SetId(0) || earlier.is_none()) {
                    let staged = (offer.epoch, offer.handover_id, copy.clone());
                    self.procs[p].staged.insert(offer.section, staged);
                }
                taken
            }
            PeerRequest::Activate(offer) => {
                let taken = self.step(p, |owner, effects| owner.on_activate(offer, effects));
                if taken.is_ok() && self.bug == Some(Bug::TrustsActivate) {
                    self.trust(p, offer);
                }
                if taken.is_ok() && offer.handover_id == FORGED_ATTEMPT {
                    self.coverage.saw(Situation::Forged);
                }
                taken
            }
        };
        if matches!(taken, Err(OfferRefusal::UnknownEpoch { .. })) {
            self.renew_now(p);
        }
        if taken.is_err() {
            self.coverage.saw(Situation::OfferRefused);
        }
        let host = self.procs[p].name;
        self.send(host, Address::Process(from), Body::PeerResponse { id, accepted: taken.is_ok() });
    }

    /// Plants [`Bug::TrustsActivate`], by which the target of a handover serves the section on an Activate alone,
    /// without a grant of the store.
    fn trust(&mut self, p: usize, offer: &HandoverOffer) {
        let HandoverOffer { section, epoch, handover_id, .. } = *offer;
        if self.procs[p].owner.owned().any(|owned| owned == (section, epoch)) {
            return;
        }
        let staged = self.procs[p].staged.get(&section).filter(|staged| (staged.0, staged.1) == (epoch, handover_id));
        if let Some((_, _, copy)) = staged.cloned() {
            let record = self.stores[self.procs[p].set()].state.sections.resident(section);
            let ceiling = record.map_or(Seq::ZERO, |record| record.max_seq);
            self.enter(p, section, epoch, ceiling, Some(copy));
        }
    }

    /// Sends a forged Prepare, a forged Stage and a forged Activate of a random section to the process that runs under
    /// a name.
    pub(crate) fn forge(&mut self, name: usize) {
        let Some(p) = self.running(name) else { return };
        let Some(session) = self.procs[p].owner.session() else { return };
        let section = SectionId(self.rng.below(self.layout.sections().into()) as u32);
        let record = self.stores[self.procs[p].set()].state.sections.resident(section);
        let next = record.map_or(Epoch(0), |record| record.epoch).next();
        let epoch = if self.rng.chance(200) { Epoch(u64::MAX) } else { next };
        let offer = HandoverOffer {
            section,
            epoch,
            handover_id: FORGED_ATTEMPT,
            incarnation: session.incarnation,
            from_set: SetId(0),
        };
        let copy = AnyCopy::above(Seq(0), self.layout.counters_of(section));
        let requests = [PeerRequest::Prepare(offer), PeerRequest::Stage(offer, copy), PeerRequest::Activate(offer)];
        for (number, request) in (1..).zip(requests) {
            let id = self.fresh();
            // The process receives its own response, and drops it, because it has no such request in flight.
            let body = Body::Peer { process: p, id, request: Rc::new(request) };
            self.after(number * MS, Event::Message { to: Address::Process(p), body });
        }
    }

    /// Sends the store a request to commit a handover, unless the owner's session has ended.
    pub(crate) fn commit(&mut self, p: usize, handover: Handover) {
        if self.procs[p].owner.session() != Some(handover.session) {
            return;
        }
        let since = self.known_version(p);
        self.request(p, Purpose::Commit(handover.clone()), StoreRequest::Commit { handover, since });
    }

    /// Schedules another request to commit a handover, because it is unknown whether the store applied the last
    /// request. The request is repeated until a response states whether the handover is committed.
    pub(crate) fn commit_unknown(&mut self, p: usize, handover: Handover) {
        let thaws = match self.bug {
            Some(Bug::ThawUnknown) => true,
            Some(Bug::SetsThawUnknown) => handover.departure.is_some(),
            _ => false,
        };
        if thaws {
            return self.committed(p, handover, Clocks::default(), Commit::Refused);
        }
        self.coverage.saw(Situation::CommitRepeated);
        let record = self.stores[self.procs[p].set()].state.sections.get(handover.section);
        if matches!(record, Some(SectionRecord::Departed(one)) if one.handover_id == handover.handover_id) {
            self.coverage.saw(Situation::DepartureUnknown);
        }
        let jitter = self.jitter();
        let wait = self.procs[p].commit_backoff.wait(jitter);
        self.after(wait.as_nanos() as u64, Event::Step(p, Step::CommitAgain(handover)));
    }

    pub(crate) fn commit_response(&mut self, p: usize, handover: Handover, sent: Clocks, response: &StoreResponse) {
        if self.bug == Some(Bug::RefusedExtends) && matches!(response, StoreResponse::CommitRefused(_)) {
            self.extend(p, sent);
        }
        let commit = match response {
            StoreResponse::Committed(update) => Commit::Made(Some(update.clone())),
            StoreResponse::CommitRefused(RefusedCommit::TargetGone { current })
                if self.shows_lost_target(&handover, *current) =>
            {
                return self.stop(
                    p,
                    &format!("the target of a move is in incarnation {current}, behind {}", handover.incarnation),
                );
            }
            StoreResponse::CommitRefused(RefusedCommit::NotOwned) if self.bug == Some(Bug::ThawLost) => Commit::Refused,
            StoreResponse::CommitRefused(meaning) => match meaning.commit() {
                Some(Commit::Unknown) => return self.commit_unknown(p, handover),
                Some(Commit::Inconclusive) if self.bug == Some(Bug::SetsThawInconclusive) => Commit::Refused,
                Some(commit) => commit,
                None => return self.end_session(p, handover.session),
            },
            StoreResponse::SessionOver(_) => return self.end_session(p, handover.session),
            _ => return self.commit_unknown(p, handover),
        };
        self.committed(p, handover, sent, commit);
    }

    fn committed(&mut self, p: usize, handover: Handover, sent: Clocks, commit: Commit) {
        self.procs[p].commit_backoff.reset();
        let made = matches!(commit, Commit::Made(_));
        if made {
            self.coverage.saw(Situation::Moved);
        }
        let taken = self.step(p, |owner, effects| owner.on_committed(&handover, sent, commit, effects));
        self.require_adopted(p, taken);
    }
}

/// Parses an address of the form `name:port`, which nodes register and sets state for their nodes. Returns `None` for
/// any other text.
pub(crate) fn parse(addr: &str) -> Option<Address> {
    let (name, port) = addr.split_once(':')?;
    Some(Address::Port(name.parse().ok()?, port.parse().ok()?))
}

/// Returns the command that commits a handover.
pub(crate) fn commit(handover: &Handover) -> Command {
    let Handover { session, section, epoch, to, incarnation, handover_id, departure } = handover.clone();
    let (from, to_incarnation, incarnation) = (session.node, incarnation, session.incarnation);
    match departure {
        None => Command::Transfer(Transfer { section, epoch, from, incarnation, to, to_incarnation, handover_id }),
        Some(departure) => {
            let (set, lineage, migration) = (departure.set, departure.lineage, departure.migration);
            let to = Destination { set, lineage, node: Some(to), incarnation: to_incarnation };
            Command::Depart(Depart { section, epoch, from, incarnation, to, handover_id, migration })
        }
    }
}
