//! Handovers between the processes of two sets, and inside one: what the source sends, and what the target responds.

use seq_core::SetId;
use seq_core::owner::handover::{Commit, Handover, HandoverOffer, HandoverRequest};
use seq_core::owner::refused_commit::RefusedCommit;
use seq_core::state::{Command, CommandRefusal, Depart, Destination, SectionRecord, Transfer};

use super::process::{Message, Offer, Response, Sent, TIMEOUT};
use super::store::Request;
use super::{Event, World, set_id};
use crate::bugs::Bug;
use crate::coverage::Situation;

impl World {
    pub(super) fn send_handover(&mut self, p: usize, request: HandoverRequest) {
        match request {
            HandoverRequest::Prepare(handover) => self.send_offer(p, handover, false, Offer::Prepare),
            HandoverRequest::Stage(handover) => {
                let served = self.procs[p].table.get(&handover.section).filter(|owned| owned.epoch == handover.epoch);
                let Some(owned) = served else {
                    self.step(p, |owner, effects| owner.on_staged(&handover, false, effects));
                    return;
                };
                let copy = owned.section.freeze();
                self.send_offer(p, handover, true, Offer::Stage(copy));
            }
            HandoverRequest::Commit(handover) => self.commit(p, handover),
            HandoverRequest::Activate(handover) => {
                let (id, Some(to)) = (self.fresh(), self.target(p, &handover)) else { return };
                let offer = offer(self.procs[p].set, &handover);
                self.send(|| Event::Message(to, Message::Offer { from: p, id, offer, step: Offer::Activate }));
            }
        }
    }

    /// The process at an address: its port is the number of the process.
    fn target(&self, p: usize, handover: &Handover) -> Option<usize> {
        let addr = match &handover.departure {
            Some(departure) => departure.addr.clone(),
            None => self.procs[p].owner.routes()?.node(handover.to)?.addr.clone(),
        };
        addr.split_once(':')?.1.parse().ok().filter(|to| *to < self.procs.len())
    }

    fn send_offer(&mut self, p: usize, handover: Handover, stages: bool, step: Offer) {
        let (id, to) = (self.fresh(), self.target(p, &handover));
        let offer = offer(self.procs[p].set, &handover);
        self.procs[p].offers.insert(id, (handover, stages, self.now + TIMEOUT));
        if let Some(to) = to {
            self.send(|| Event::Message(to, Message::Offer { from: p, id, offer, step: step.clone() }));
        }
    }

    /// As a target: whether an offer is taken.
    pub(super) fn offer(&mut self, p: usize, offer: &HandoverOffer, step: Offer) -> bool {
        match step {
            Offer::Prepare => self.step(p, |owner, _| owner.on_prepare(offer)).is_ok(),
            Offer::Stage(copy) => {
                let taken = self.step(p, |owner, _| owner.on_stage(offer, copy.clone())).is_ok();
                if taken && offer.from_set != SetId(0) {
                    self.procs[p].staged.entry((offer.section, offer.epoch)).or_insert(copy);
                }
                taken
            }
            Offer::Activate => self.step(p, |owner, effects| owner.on_activate(offer, effects)).is_ok(),
        }
    }

    /// As a source: the target responded, or did not in time.
    pub(super) fn offered(&mut self, p: usize, id: u64, accepted: bool) {
        let Some((handover, stages, _)) = self.procs[p].offers.remove(&id) else { return };
        self.step(p, |owner, effects| {
            if stages {
                owner.on_staged(&handover, accepted, effects);
            } else {
                owner.on_prepared(&handover, accepted, effects);
            }
        });
    }

    fn commit(&mut self, p: usize, handover: Handover) {
        let (rpc, sent, since) = (self.fresh(), self.clock(), self.procs[p].owner.known_version());
        self.procs[p].commits.push(Sent { what: handover.clone(), rpc, sent, due: self.now + TIMEOUT });
        self.send_to_store(p, rpc, Request::Commit(handover, since));
    }

    /// No response: the commit is requested until there is one.
    pub(super) fn commit_timed_out(&mut self, p: usize, at: usize) {
        let Sent { what, sent, .. } = self.procs[p].commits.remove(at);
        self.coverage.saw(Situation::CommitRepeated);
        let record = self.sets[self.procs[p].set].state.sections.get(what.section);
        if matches!(record, Some(SectionRecord::Departed(one)) if one.handover_id == what.handover_id) {
            self.coverage.saw(Situation::DepartureUnknown);
        }
        let thaws = self.bug == Some(Bug::SetsThawUnknown) && what.departure.is_some();
        let commit = if thaws { Commit::Refused } else { Commit::Unknown };
        let taken = self.step(p, |owner, effects| owner.on_committed(&what, sent, commit, effects));
        self.require_adopted(taken);
    }
}

fn offer(set: usize, handover: &Handover) -> HandoverOffer {
    let Handover { section, epoch, handover_id, incarnation, departure, .. } = handover;
    let from_set = departure.as_ref().map_or(SetId(0), |_| set_id(set));
    let (section, handover_id, incarnation) = (*section, *handover_id, *incarnation);
    HandoverOffer { section, epoch: epoch.next(), handover_id, incarnation, from_set }
}

/// The command that a handover needs.
pub(super) fn command(handover: &Handover) -> Command {
    let Handover { session, section, epoch, to, incarnation, handover_id, departure } = handover.clone();
    let (from, to_incarnation) = (session.node, incarnation);
    match departure {
        None => Command::Transfer(Transfer {
            section,
            epoch,
            from,
            incarnation: session.incarnation,
            to,
            to_incarnation,
            handover_id,
        }),
        Some(departure) => {
            let (set, lineage, migration) = (departure.set, departure.lineage, departure.migration);
            let to = Destination { set, lineage, node: Some(to), incarnation: to_incarnation };
            Command::Depart(Depart {
                section,
                epoch,
                from,
                incarnation: session.incarnation,
                to,
                handover_id,
                migration,
            })
        }
    }
}

/// Returns the response to a refused commit.
pub(super) fn refused(refusal: &CommandRefusal, handover: &Handover) -> Response {
    RefusedCommit::of(refusal, handover.target_here()).commit().map_or(Response::SessionOver, Response::CommitRefused)
}
