//! Decides which sections an AllocSvr serves, and makes the AllocSvr's steps of handovers.
//!
//! [`Owner`] is a state machine. It only decides. Its caller keeps the sections, sends the requests, and carries out
//! the effects in the given order. When a response of the store arrives, its ownership update is adopted before the
//! lease is extended. So sections that now have another owner leave before the extended lease could apply to them.
//!
//! A section *enters* when the AllocSvr begins to serve it, and *leaves* when the AllocSvr stops serving it. A section
//! that has left never enters again under the same ownership. If a handover fails permanently, the section that was
//! frozen for the handover is thawed, and continues under the same ownership. Handovers are in [`handover`].

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::arbiter::PlannedHandover;
use crate::high_water::Mark;
use crate::id::{Epoch, HandoverId, Incarnation, NodeId, RenewSeq, RouteVersion, SectionId, Seq};
use crate::layout::Layout;
use crate::lease::{Clocks, LeaseTerms};
use crate::limits;
use crate::route::{Adopted, RouteTable, RouteUpdate};
use crate::section::AnyCopy;
use crate::state::{CopyPart, Renew};

mod effects;
pub mod handover;
pub mod refused_commit;
mod release;
#[cfg(all(test, not(loom)))]
mod scenarios;
mod update;

pub use effects::{CopyLoss, Effect, Effects, LeaseEffect, TableEffect};
use handover::{Incoming, Outgoing};
pub use release::GrantedCopy;
use release::Releases;

/// An incarnation of an AllocSvr, as the store knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The node's id, which is the same in every incarnation.
    pub node: NodeId,
    /// Number of the incarnation.
    pub incarnation: Incarnation,
}

/// The part of a store's response that states a node's sections and the changed routes. The store reads it from its
/// state after it has applied the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnershipUpdate {
    /// Routes newer than the version that the request named; `None` if there are none.
    pub routes: Option<RouteUpdate>,
    /// The sections in `routes` that the requesting incarnation owns.
    pub grants: Vec<Grant>,
    /// Sections that the node should hand over.
    pub handovers: Vec<PlannedHandover>,
    /// Whether the node is draining, and no other node is a candidate for its sections.
    pub no_other_candidate: bool,
    /// Kept copies from which granted sections start, as many as fit into one response. The store repeats a copy in its
    /// responses until a renewal of the node notes that the section has started from the copy.
    pub copies: Vec<GrantedCopy>,
    /// Progress of the store when it read this update from its state.
    pub mark: Mark,
}

/// A section that an incarnation owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership.
    pub epoch: Epoch,
    /// The committed ceiling.
    pub ceiling: Seq,
    /// The handover attempt that began the ownership; 0 if it began without a handover.
    pub handover_id: HandoverId,
    /// Whether the ownership starts from a copy that the store keeps.
    pub copied: bool,
}

/// A renewal that the node sends to the store. Raises and transfers also extend the lease, and their responses also
/// have an [`OwnershipUpdate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The incarnation.
    pub session: Session,
    /// Number of the renewal.
    pub renew_seq: RenewSeq,
    /// Version of the routes that the node knows.
    pub route_version: RouteVersion,
    /// Parts of the copies of sections that the node has frozen and is about to release.
    pub copies: Vec<CopyPart>,
    /// Ownerships that the node gives up.
    pub released: Vec<(SectionId, Epoch)>,
    /// Ownerships that have started from their kept copies.
    pub taken: Vec<(SectionId, Epoch)>,
    /// Whether other nodes should take all sections of this node, because its process is about to exit or callers do
    /// not reach it.
    pub leaving: bool,
}

impl Renewal {
    /// Returns the renewal as a command of the store's log.
    #[must_use]
    pub fn command(&self) -> Renew {
        Renew {
            node: self.session.node,
            incarnation: self.session.incarnation,
            renew_seq: self.renew_seq,
            copies: self.copies.clone(),
            released: self.released.clone(),
            taken: self.taken.clone(),
            leaving: self.leaving,
        }
    }
}

/// Reason why an ownership update cannot be adopted. No part of the update was adopted, and the lease was not extended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The store's set is not the set for which this node is configured.
    #[error(
        "the store holds set {set} with uids {:?} in sections of {}, and the set file says otherwise",
        layout.uids(), layout.section_size()
    )]
    OtherSet {
        /// Name of the store's set.
        set: String,
        /// Layout of the store's set.
        layout: Layout,
    },
    /// The update has the changes since a version of the route table that the node does not have. The node's next
    /// request asks for the whole table.
    #[error("the routes at version {version} build on version {base}, which is not held here")]
    Gap {
        /// The version of the update.
        version: RouteVersion,
        /// The version that the update changes.
        base: RouteVersion,
    },
}

/// State machine for the sections that an AllocSvr owns. Each AllocSvr process has one.
#[derive(Debug)]
pub struct Owner {
    set: String,
    /// The layout of the newest routes; before the first routes, the layout of the set file.
    layout: Layout,
    terms: LeaseTerms,
    session: Option<Session>,
    /// Number of this incarnation's last renewal to which the store has responded.
    renewed: RenewSeq,
    routes: Option<Arc<RouteTable>>,
    /// Whether the next request must ask for the whole table.
    whole: bool,
    /// For each section, the newest epoch under which the section ever entered at this node. Invariant: a section
    /// enters only under an epoch above its entry here. The vector has at least as many entries as the layout has
    /// sections.
    held: Vec<Epoch>,
    /// The served sections, each with the epoch of its ownership. In the known routes, each of these sections either
    /// has this node and the same epoch, or has an older epoch. Invariant: empty without an incarnation.
    owned: BTreeMap<SectionId, Epoch>,
    /// Ownerships that the node gave up, and that are not yet released in the store.
    released: BTreeMap<SectionId, Epoch>,
    /// Ownerships whose raises fail, each with the time of the first failure.
    failing: BTreeMap<SectionId, (Epoch, Clocks)>,
    leaving: bool,
    /// Whether the store knows that this incarnation is about to exit, so that no further section is assigned to it.
    leaving_noted: bool,
    /// Whether callers do not reach this node. If so, other nodes should take its sections, and this node serves the
    /// sections until then.
    withdrawn: bool,
    outgoing: Outgoing,
    incoming: Incoming,
    releases: Releases,
}

impl Owner {
    /// Creates a machine that owns nothing.
    #[must_use]
    pub fn new(set: &str, layout: Layout, terms: LeaseTerms) -> Owner {
        Owner {
            set: set.into(),
            terms,
            session: None,
            renewed: RenewSeq(0),
            routes: None,
            whole: false,
            held: alloc::vec![Epoch(0); layout.sections() as usize],
            layout,
            owned: BTreeMap::new(),
            released: BTreeMap::new(),
            failing: BTreeMap::new(),
            leaving: false,
            leaving_noted: false,
            withdrawn: false,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            releases: Releases::default(),
        }
    }

    /// Sets the random secret from which the numbers of handover attempts are drawn. Without a secret, the number of
    /// the next attempt could be guessed, and a forged request could stage a copy for an attempt that the store will
    /// commit.
    #[must_use]
    pub fn with_secret(mut self, secret: u64) -> Owner {
        self.outgoing = Outgoing::with_secret(secret);
        self
    }

    /// Returns the current incarnation; `None` between two incarnations.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.session
    }

    /// Returns the layout of the newest routes; before the first routes, the layout of the set file.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the newest routes known.
    #[must_use]
    pub fn routes(&self) -> Option<&Arc<RouteTable>> {
        self.routes.as_ref()
    }

    /// Returns the served sections, with their ownerships.
    pub fn owned(&self) -> impl Iterator<Item = (SectionId, Epoch)> {
        self.owned.iter().map(|(section, epoch)| (*section, *epoch))
    }

    /// Returns the version of the routes that a request should name.
    #[must_use]
    pub fn known_version(&self) -> RouteVersion {
        let version = self.routes.as_ref().map_or(RouteVersion(0), |routes| routes.version());
        if self.whole { RouteVersion(0) } else { version }
    }

    /// Returns whether this node has handed over or given up all its sections, and the store has applied this. A node
    /// that is about to exit counts as empty only after the store knows that the node exits, because until then another
    /// node may hand a section to it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let none_comes = !self.leaving || self.leaving_noted || self.session.is_none();
        self.owned.is_empty() && self.released.is_empty() && !self.releases.awaits_copies() && none_comes
    }

    /// Returns whether the next response of the store is likely to have a change for which this node waits. The change
    /// may be the next sections to hand over, or the first sections of a node that has none. If the node has no
    /// sections, the call searches the routes for a section that the node may get.
    #[must_use]
    pub fn expects_update(&self) -> bool {
        let withdraws = self.withdrawn && !self.owned.is_empty();
        if self.handovers_in_progress() > 0 || self.leaving || withdraws || self.releases.expects_update() {
            return true;
        }
        let (Some(session), Some(routes)) = (self.session, &self.routes) else { return true };
        let may_come = |id| {
            let route = routes.get(SectionId(id)).unwrap_or_default();
            // A section of another set arrives with a handover, or is assigned later.
            route.other_set().is_none() && route.owner.is_none_or(|owner| owner == session.node)
        };
        self.owned.is_empty() && (0..self.layout.sections()).any(may_come)
    }

    /// Prepares for the exit of the process. From now on, the node's renewals request that other nodes take all its
    /// sections.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Sets whether the node is withdrawn because callers do not reach it. The renewals of a withdrawn node request
    /// that other nodes take all its sections, if there is another candidate. The node serves its sections until it has
    /// handed them over.
    pub fn withdraw(&mut self, withdrawn: bool) {
        self.withdrawn = withdrawn;
    }

    /// Returns whether the node is withdrawn. The withdrawal ends when the store reports that there is no other
    /// candidate for its sections.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Returns whether the process is about to exit.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Begins an incarnation that the store registered. The first request of the incarnation asks for the whole route
    /// table instead of changes. The set may have been restored in the meantime, and a restored set numbers its nodes
    /// anew, so changes would not fit the routes that this node has.
    ///
    /// # Panics
    /// When the previous incarnation is not over.
    pub fn on_registered(&mut self, session: Session) {
        assert_eq!(self.session, None, "two incarnations at a time");
        self.session = Some(session);
        self.leaving_noted = false;
        self.whole = self.routes.is_some();
        self.renewed = RenewSeq(0);
    }

    /// Returns the renewal to send now; `None` without an incarnation. Until the store has responded to a renewal, each
    /// call returns the same renewal, except that ownerships which the node gave up in the meantime are added. If the
    /// node gave up more ownerships than one request may have, the next renewals have the rest.
    #[must_use]
    pub fn renewal(&self) -> Option<Renewal> {
        let session = self.session?;
        let (copies, complete) = self.releases.parts();
        let given_up = self.released.iter().map(|(section, epoch)| (*section, *epoch));
        Some(Renewal {
            session,
            renew_seq: RenewSeq(self.renewed.0 + 1),
            route_version: self.known_version(),
            copies,
            released: complete.into_iter().chain(given_up).take(limits::MAX_RAISES).collect(),
            taken: self.releases.taken(),
            leaving: self.leaving || self.withdrawn,
        })
    }

    /// Adopts the response to a renewal that was sent at `sent`.
    ///
    /// # Errors
    /// [`AdoptError`] if the update cannot be adopted. In this case the renewal is not repeated, and the lease is not
    /// extended.
    pub fn on_renewed(
        &mut self,
        renewal: &Renewal,
        sent: Clocks,
        update: OwnershipUpdate,
        effects: &mut Effects,
    ) -> Result<(), AdoptError> {
        if self.session != Some(renewal.session) || renewal.renew_seq.0 != self.renewed.0 + 1 {
            return Ok(());
        }
        self.renewed = renewal.renew_seq;
        self.leaving_noted = renewal.leaving;
        self.releases.on_sent(&renewal.copies);
        self.releases.on_taken_noted(&renewal.taken);
        for (section, epoch) in &renewal.released {
            if self.released.get(section) == Some(epoch) {
                self.released.remove(section);
            } else if self.releases.is_sent(*section, *epoch) {
                self.drop_section(*section, *epoch, effects);
            }
        }
        self.on_update(renewal.session, sent, update, effects)?;
        self.give_up(sent, effects);
        Ok(())
    }

    /// Adopts the ownership update in the response to a request that was sent at `sent`, and extends the lease.
    ///
    /// # Errors
    /// [`AdoptError`] if the update cannot be adopted. In this case the lease is not extended.
    pub fn on_update(
        &mut self,
        session: Session,
        sent: Clocks,
        update: OwnershipUpdate,
        effects: &mut Effects,
    ) -> Result<(), AdoptError> {
        if self.session != Some(session) {
            return Ok(());
        }
        self.adopt(session, &update, effects).inspect_err(|_| self.whole = true)?;
        effects.push(LeaseEffect::Extend { sent }.into());
        for one in &update.handovers {
            self.begin_handover(one, effects);
        }
        self.stage_prepared(effects);
        if update.no_other_candidate {
            self.withdrawn = false;
            if self.leaving {
                self.part(effects);
            }
        }
        Ok(())
    }

    /// Adopts newer routes from a peer. Sections can leave because of these routes, but no section enters, and the
    /// lease is not extended. The next request asks the store for the whole table, so that this node gets every grant
    /// that belongs to the peer's routes. Does nothing while this node hands over a section.
    ///
    /// # Errors
    /// [`AdoptError`].
    pub fn on_peer_routes(&mut self, update: &RouteUpdate, effects: &mut Effects) -> Result<(), AdoptError> {
        // Only the store may report the outcome of a handover from here.
        let Some(session) = self.session.filter(|_| self.handovers_in_progress() == 0) else { return Ok(()) };
        let adopted = self.adopt_routes(session, update, effects);
        self.whole = true;
        adopted.map(|_| ())
    }

    /// Ends an incarnation, because the store reported a newer incarnation.
    pub fn on_session_over(&mut self, session: Session, effects: &mut Effects) {
        if self.session != Some(session) {
            return;
        }
        self.session = None;
        effects.push(LeaseEffect::End.into());
        let left = core::mem::take(&mut self.owned);
        effects.extend(left.into_iter().map(|(section, epoch)| TableEffect::Leave { section, epoch }.into()));
        self.released.clear();
        self.failing.clear();
        self.outgoing = core::mem::take(&mut self.outgoing).forget();
        self.incoming = Incoming::default();
        self.releases = Releases::default();
    }

    /// Notes that a raise of these ownerships' ceilings got no usable response.
    pub fn on_raise_failed(&mut self, raises: &[(SectionId, Epoch)], now: Clocks) {
        for &(section, epoch) in raises {
            let since = self.failing.get(&section).filter(|(failing, _)| *failing == epoch);
            if since.is_none() && self.owned.get(&section) == Some(&epoch) {
                self.failing.insert(section, (epoch, now));
            }
        }
    }

    /// Notes that a raise of these ownerships' ceilings is committed.
    pub fn on_raised(&mut self, raises: &[(SectionId, Epoch)]) {
        for (section, _) in raises {
            self.failing.remove(section);
        }
    }

    /// Drops ownerships that the store reported to be over.
    pub fn on_lost(&mut self, lost: &[(SectionId, Epoch)], effects: &mut Effects) {
        for &(section, epoch) in lost {
            self.drop_section(section, epoch, effects);
        }
    }

    /// Gives up the sections whose raises have failed for half a lease although the store responds to renewals, because
    /// another node may be able to raise their ceilings.
    fn give_up(&mut self, sent: Clocks, effects: &mut Effects) {
        let timeout = self.terms.lease / 2;
        let timed_out = |(_, (_, since)): &(&SectionId, &(Epoch, Clocks))| sent.since(*since) >= timeout;
        let given_up: Vec<_> = self.failing.iter().filter(timed_out).map(|(id, (epoch, _))| (*id, *epoch)).collect();
        for (section, epoch) in given_up {
            self.release(section, epoch, effects);
        }
    }

    fn release(&mut self, section: SectionId, epoch: Epoch, effects: &mut Effects) {
        if self.drop_section(section, epoch, effects) {
            self.released.insert(section, epoch);
        }
    }

    /// Adopts the routes and grants of an update. A section leaves if the routes assign it to another owner or set, and
    /// enters if the update newly grants it.
    fn adopt(&mut self, session: Session, update: &OwnershipUpdate, effects: &mut Effects) -> Result<(), AdoptError> {
        if let Some(routes) = &update.routes {
            self.adopt_grants(session, routes, &update.grants, update.mark, effects)?;
        }
        self.start_from_copies(&update.copies, update.mark.revision, effects);
        Ok(())
    }

    fn adopt_grants(
        &mut self,
        session: Session,
        update: &RouteUpdate,
        grants: &[Grant],
        mark: Mark,
        effects: &mut Effects,
    ) -> Result<(), AdoptError> {
        let Some(routes) = self.adopt_routes(session, update, effects)? else { return Ok(()) };
        if update.base == RouteVersion(0) && update.version >= routes.version() {
            // An update that is older than the known routes, even a whole table, may lack grants for these routes.
            self.whole = false;
        }
        for grant in grants {
            let route = routes.get(grant.section).unwrap_or_default();
            // The node may know newer routes than the grant by now.
            if route.owner == Some(session.node) && route.epoch == grant.epoch {
                self.enter(grant, mark, effects);
            }
        }
        self.incoming.forget_past(&routes);
        Ok(())
    }

    /// Adopts the routes of an update, and returns the newest routes. A section leaves if the routes assign it to
    /// another owner or set.
    ///
    /// Only the routes in the update are compared with the owned sections. This is enough, because the route of a
    /// section names this node and its epoch when the section enters, and later only an update that contains the
    /// section changes its route. So the cost of a call grows with the number of changed routes, not with the number of
    /// owned sections.
    fn adopt_routes(
        &mut self,
        session: Session,
        update: &RouteUpdate,
        effects: &mut Effects,
    ) -> Result<Option<Arc<RouteTable>>, AdoptError> {
        if let Some(next) = self.next_routes(update)? {
            self.layout.clone_from(next.layout());
            // A restore may have lost lanes. The entries of their sections stay, because sections that are appended
            // again continue the epochs.
            self.held.resize(self.held.len().max(self.layout.sections() as usize), Epoch(0));
            self.routes = Some(Arc::new(next));
            effects.push(TableEffect::Publish.into());
            for run in &update.runs {
                // The section after the run. The sum cannot overflow, because ids end at the number of sections.
                let end = SectionId(run.first.0 + run.sections);
                let moved = |(_, epoch): &(&SectionId, &Epoch)| {
                    // The route may be older than the ownership, if the section was handed to this node after the
                    // routes were read.
                    let mine = run.route.owner == Some(session.node) && run.route.epoch == **epoch;
                    !mine && run.route.epoch >= **epoch
                };
                let moved = self.owned.range(run.first..end).filter(moved);
                let moved: Vec<_> = moved.map(|(section, epoch)| (*section, *epoch)).collect();
                for (section, epoch) in moved {
                    self.drop_section(section, epoch, effects);
                }
                self.releases.forget_past(|section, epoch| {
                    let mine = run.route.owner == Some(session.node) && run.route.epoch == epoch;
                    (run.first..end).contains(&section) && !mine && run.route.epoch >= epoch
                });
            }
        }
        Ok(self.routes.clone())
    }

    fn enter(&mut self, grant: &Grant, mark: Mark, effects: &mut Effects) {
        let Grant { section, epoch, ceiling, handover_id, copied } = *grant;
        if epoch <= self.held[section.0 as usize] {
            return;
        }
        if copied {
            return self.await_copy(grant, mark.revision);
        }
        // The copy counts only if the store reports that exactly this attempt began the ownership: the section's owner
        // may have continued after another attempt, and a forged request may have staged any copy.
        let copy = self.incoming.take(section, epoch, handover_id, ceiling);
        let copy = if handover_id == HandoverId(0) { Ok(copy.ok()) } else { copy.map(Some) };
        self.start(grant, copy, effects);
    }

    /// Starts a granted ownership from a copy, or at its ceiling if `copy` is `Ok(None)` or an error. `copy` is an
    /// error if the ownership should have started from a copy, but the copy is missing or unusable.
    fn start(&mut self, grant: &Grant, copy: Result<Option<AnyCopy>, CopyLoss>, effects: &mut Effects) {
        let Grant { section, epoch, ceiling, .. } = *grant;
        let held = &mut self.held[section.0 as usize];
        if epoch <= *held {
            return;
        }
        *held = epoch;
        if let Err(why) = copy {
            effects.push(Effect::CopyLost { section, epoch, why });
        }
        if let Some(old) = self.owned.insert(section, epoch) {
            effects.push(TableEffect::Leave { section, epoch: old }.into());
        }
        effects.push(TableEffect::Enter { section, epoch, ceiling, copy: copy.ok().flatten() }.into());
    }

    /// Stops serving a section under the ownership `epoch`. Returns whether the section was served under this
    /// ownership.
    fn drop_section(&mut self, section: SectionId, epoch: Epoch, effects: &mut Effects) -> bool {
        if self.owned.get(&section) != Some(&epoch) {
            return false;
        }
        self.owned.remove(&section);
        self.failing.remove(&section);
        self.outgoing.remove(section);
        self.releases.remove(section);
        effects.push(TableEffect::Leave { section, epoch }.into());
        true
    }

    /// Returns the route table that results from an update; `None` if the update is not newer than the known table, and
    /// has no seed of a keyspace that this node does not know.
    fn next_routes(&self, update: &RouteUpdate) -> Result<Option<RouteTable>, AdoptError> {
        if update.set != self.set || update.layout.declared() != self.layout.declared() {
            return Err(AdoptError::OtherSet { set: update.set.clone(), layout: update.layout.clone() });
        }
        let gap = AdoptError::Gap { version: update.version, base: update.base };
        let Some(held) = &self.routes else { return RouteTable::from_whole(update).map(Some).ok_or(gap) };
        let mut next = RouteTable::clone(held);
        match next.adopt(update) {
            Adopted::Newer => Ok(Some(next)),
            Adopted::NotNewer => Ok(next.learn_seeds(update).then_some(next)),
            Adopted::Mismatch => Err(gap),
        }
    }
}

#[cfg(test)]
mod tests;
