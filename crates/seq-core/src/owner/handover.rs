//! Handovers, which transfer a section to another node with its exact counters. The module has both sides, the node
//! that owns the section (the source) and the next owner (the target).
//!
//! A handover has these steps. The source requests that the target hold calls for the section that arrive early
//! (*prepare*). It freezes and copies the section, and sends the copy to the target (*stage*). Then it requests that
//! the store commit the handover, and after the commit it notifies the target (*activate*). Before it requests the
//! commit, the source can undo all steps. After it has requested the commit, only a definite response of the store
//! shows which node owns the section.
//!
//! **Invariant:** no request of a peer starts an ownership. The request *activate* makes the target send a renewal, and
//! only the grant in the store's response to the renewal starts the ownership. The target starts from a copy only if
//! the committed ownership names the attempt to which this copy belongs, and if no number in the copy is above the
//! granted ceiling. Otherwise it starts at the ceiling. Any caller may reach the port for peers, so the memory that
//! requests can make a target keep is bounded. If the source or the target dies during a handover, the arbiter assigns
//! the section.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Effect, Effects, Owner, OwnershipUpdate, TableEffect};
use crate::arbiter::{Departure, PlannedHandover};
use crate::id::{Epoch, HandoverId, Incarnation, NodeId, SectionId, Seq, SetId};
use crate::lease::Clocks;
use crate::limits;
use crate::owner::{AdoptError, CopyLoss, Session};
use crate::route::RouteTable;
use crate::section::{AnyCopy, CopyMisfit, Counters};

mod outgoing;

pub(super) use outgoing::Outgoing;
use outgoing::{InProgress, Phase};

/// Maximum number of handovers that a node makes at the same time. A node that stops may have thousands of buckets, so
/// that the steps of many handovers travel in one message.
pub const MAX_OUTGOING: usize = 256;

/// Maximum number of large sections that are frozen for handovers at the same time. It is limited because each of these
/// sections is frozen until its copy is sent, and the copy is in memory twice.
pub const MAX_LARGE: usize = 16;

/// Largest number of slots of a section that is not large. The copies of [`MAX_OUTGOING`] such sections take 16 MiB.
pub const SMALL_SLOTS: usize = 4_096;

/// Maximum number of undecided handover attempts, each with its copy, that a target keeps. It is as many as a dozen
/// sources can make at the same time. The oldest attempt is evicted first. If an evicted attempt is committed
/// nevertheless, its section starts at the ceiling.
pub const MAX_INCOMING: usize = 12 * MAX_OUTGOING;

/// Maximum total number of slots with numbers in the copies that a target keeps. They take 512 MiB. Two of the largest
/// sections fit, or 335 sections of the default size. The oldest copy is evicted first.
pub const MAX_INCOMING_SLOTS: usize = 2 * limits::MAX_SECTION_SIZE as usize;

/// Maximum number of handover attempts that a target keeps for one section. Two are enough for the current attempt and
/// one further attempt, which its source has undone or which another caller of the port for peers has forged. The
/// target cannot distinguish them, because the store decides which attempt is committed.
const MAX_ATTEMPTS: usize = 2;

/// An attempt to hand a section over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The source's incarnation.
    pub session: Session,
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that ends.
    pub epoch: Epoch,
    /// The target.
    pub to: NodeId,
    /// The target's incarnation.
    pub incarnation: Incarnation,
    /// Number of the attempt, which is unique within the source's process and hard to guess.
    pub handover_id: HandoverId,
    /// Target set and migration if the target is in another set; `None` if the target is in this set.
    pub departure: Option<Arc<Departure>>,
}

impl Handover {
    /// Returns the target if it is a node of this set.
    #[must_use]
    pub fn target_here(&self) -> Option<NodeId> {
        self.departure.is_none().then_some(self.to)
    }
}

/// A request of the source's side, to the target or to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandoverRequest {
    /// Request that the target hold calls for the section that arrive early. The response goes to
    /// [`Owner::on_prepared`].
    Prepare(Handover),
    /// Freeze the section, copy it, and send the copy to the target. The response goes to [`Owner::on_staged`].
    Stage(Handover),
    /// Request that this set's store commit the handover. The response goes to [`Owner::on_committed`].
    Commit(Handover),
    /// Notify the target that the store committed the handover.
    Activate(Handover),
}

impl HandoverRequest {
    /// Returns the handover that the request is a step of.
    #[must_use]
    pub fn handover(&self) -> &Handover {
        let (HandoverRequest::Prepare(handover)
        | HandoverRequest::Stage(handover)
        | HandoverRequest::Commit(handover)
        | HandoverRequest::Activate(handover)) = self;
        handover
    }
}

/// An attempt to hand a section over, as the source describes it in its requests to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoverOffer {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that begins.
    pub epoch: Epoch,
    /// Number of the attempt.
    pub handover_id: HandoverId,
    /// The incarnation of the target to which the section is offered.
    pub incarnation: Incarnation,
    /// The set from which the section departs; `SetId(0)` if source and target are in the same set.
    pub from_set: SetId,
}

/// Reason why a target does not take part in a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefusal {
    /// The offer is for another incarnation of the target.
    #[error("the offer is for incarnation {given}, and this node is in {current}")]
    OtherIncarnation {
        /// The incarnation of the node; 0 without one.
        current: Incarnation,
        /// The incarnation of the offer.
        given: Incarnation,
    },
    /// The node is about to exit.
    #[error("this node is leaving")]
    Leaving,
    /// The ownership or the attempt in the offer is past.
    #[error("section {section} is past epoch {epoch}, attempt {handover_id}")]
    Past {
        /// The section.
        section: SectionId,
        /// The epoch in the offer.
        epoch: Epoch,
        /// The attempt.
        handover_id: HandoverId,
    },
    /// The set has no such section.
    #[error("the set has no section {section}")]
    UnknownSection {
        /// The section.
        section: SectionId,
    },
    /// The epoch in the offer is not the next epoch after the section's newest epoch that this node knows.
    #[error("section {section} is at epoch {known} here, and epoch {given} was offered, which does not come next")]
    UnknownEpoch {
        /// The section.
        section: SectionId,
        /// The section's newest epoch known here.
        known: Epoch,
        /// The epoch in the offer.
        given: Epoch,
    },
    /// The copy does not fit the section.
    #[error("section {section}: {misfit}")]
    Copy {
        /// The section.
        section: SectionId,
        /// Reason why it does not fit.
        misfit: CopyMisfit,
    },
}

/// The outcome of a request to commit a handover.
#[expect(clippy::large_enum_variant, reason = "there is one for each handover, and it is moved once")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The handover is committed, so the target owns the section. The value is the ownership update in the store's
    /// response; `None` if the response is to the commits of several handovers, and the update is with another of these
    /// handovers.
    Made(Option<OwnershipUpdate>),
    /// The store refused the handover permanently, because the target's incarnation is over, the migration has ended,
    /// or the other set takes no more sections. The source still owns the section.
    Refused,
    /// The store refused the handover for a reason that may pass, because it does not know the migration or the lineage
    /// yet. A repeat of the request may be in flight and could be committed later, so the section must not be served
    /// again under this ownership. The source gives the ownership up. The next ownership starts at the ceiling, and
    /// because of its higher epoch the store refuses every repeat.
    Inconclusive,
    /// The store refused the handover, because the source no longer owns the section.
    Lost,
    /// The store did not respond, so the handover may be committed.
    Unknown,
}

/// The target's side: expected attempts, oldest first.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    expected: Vec<Expected>,
}

#[derive(Debug)]
struct Expected {
    section: SectionId,
    epoch: Epoch,
    handover_id: HandoverId,
    staged: Option<Staged>,
}

/// A copy that was checked against its section.
#[derive(Debug)]
struct Staged {
    copy: AnyCopy,
    highest: Seq,
}

impl Expected {
    fn is(&self, section: SectionId, epoch: Epoch, handover_id: HandoverId) -> bool {
        (self.section, self.epoch, self.handover_id) == (section, epoch, handover_id)
    }

    fn slots(&self) -> usize {
        self.staged.as_ref().map_or(0, |staged| staged.copy.slots())
    }
}

impl Incoming {
    /// Removes and returns the copy of exactly this attempt, if this node has the copy and no number in it is above the
    /// ceiling. All other attempts for the section are removed too, because they are past.
    pub(super) fn take(
        &mut self,
        section: SectionId,
        epoch: Epoch,
        handover_id: HandoverId,
        ceiling: Seq,
    ) -> Result<AnyCopy, CopyLoss> {
        let found = self.expected.iter_mut().find(|expected| expected.is(section, epoch, handover_id));
        let staged = found.and_then(|expected| expected.staged.take());
        self.expected.retain(|expected| expected.section != section);
        let Staged { copy, highest } = staged.ok_or(CopyLoss::Missing)?;
        if highest > ceiling {
            return Err(CopyMisfit::AboveCeiling { highest, ceiling }.into());
        }
        Ok(copy)
    }

    /// Forgets each attempt whose epoch is not above the epoch that the section has in `routes`.
    pub(super) fn forget_past(&mut self, routes: &RouteTable) {
        self.expected.retain(|expected| routes.get(expected.section).is_some_and(|at| at.epoch < expected.epoch));
    }

    /// Notes that this node is the target of an attempt. Up to [`MAX_ATTEMPTS`] attempts for the same section are kept,
    /// because the store decides which of them is committed.
    fn expect(&mut self, offer: &HandoverOffer) {
        let HandoverOffer { section, epoch, handover_id, .. } = *offer;
        if self.expected.iter().any(|expected| expected.is(section, epoch, handover_id)) {
            return;
        }
        if self.expected.iter().filter(|expected| expected.section == section).count() == MAX_ATTEMPTS {
            let oldest = self.expected.iter().position(|expected| expected.section == section);
            self.expected.remove(oldest.expect("there are some"));
        }
        if self.expected.len() == MAX_INCOMING {
            self.expected.remove(0);
        }
        self.expected.push(Expected { section, epoch, handover_id, staged: None });
    }

    /// Keeps the copy of an attempt, unless this node already has a copy of the same attempt.
    fn stage(&mut self, offer: &HandoverOffer, copy: AnyCopy, highest: Seq) {
        let HandoverOffer { section, epoch, handover_id, .. } = *offer;
        let same = |expected: &Expected| expected.is(section, epoch, handover_id);
        if self.expected.iter().any(|expected| same(expected) && expected.staged.is_some()) {
            return;
        }
        self.expect(offer);
        let room = MAX_INCOMING_SLOTS.saturating_sub(copy.slots());
        while self.expected.iter().map(Expected::slots).sum::<usize>() > room {
            let oldest = self.expected.iter().position(|expected| expected.slots() > 0);
            self.expected.remove(oldest.expect("some hold slots"));
        }
        if let Some(expected) = self.expected.iter_mut().find(|expected| same(expected)) {
            expected.staged = Some(Staged { copy, highest });
        }
    }
}

impl Owner {
    /// Returns how many sections are being handed over.
    #[must_use]
    pub fn handovers_in_progress(&self) -> usize {
        self.outgoing.handovers.len()
    }

    /// Returns whether a section that this node owns is frozen, or is about to be, because it is handed over or
    /// released. Until it leaves or is thawed, such a section must not be replaced under the same ownership, because
    /// the next owner may start from its copy.
    #[must_use]
    pub fn is_frozen(&self, section: SectionId) -> bool {
        self.outgoing.handovers.get(&section).is_some_and(InProgress::is_frozen) || self.releases.is_parting(section)
    }

    /// Notes that a target of this set makes a single step in a call, because its release does not know the method for
    /// several steps. Such a target keeps fewer attempts than [`MAX_OUTGOING`], so that at most [`MAX_LARGE`] handovers
    /// to it are in progress.
    pub fn on_steps_unknown(&mut self, to: NodeId, incarnation: Incarnation) {
        self.outgoing.singly.insert(to, incarnation);
    }

    /// Returns whether a target of this set makes a single step in a call.
    #[must_use]
    pub fn is_singly(&self, to: NodeId, incarnation: Incarnation) -> bool {
        self.outgoing.singly.get(&to) == Some(&incarnation)
    }

    /// Begins a planned handover, unless [`MAX_OUTGOING`] handovers, or [`MAX_LARGE`] of large sections, are already in
    /// progress.
    pub(super) fn begin_handover(&mut self, wanted: &PlannedHandover, effects: &mut Effects) {
        let PlannedHandover { section, epoch, from: _, to, incarnation, departure } = wanted.clone();
        let Some(session) = self.session else { return };
        let other = departure.is_some() || to != session.node;
        let idle = !self.outgoing.has(section) && !self.releases.is_parting(section);
        let may = self.owned.get(&section) == Some(&epoch) && other && idle;
        if !may || self.outgoing.handovers.len() == MAX_OUTGOING {
            return;
        }
        // A section of uids or lanes may have touched all of them. How many keys a bucket has is known once it is
        // prepared.
        let is_large =
            matches!(self.layout.counters_of(section), Counters::Slots(slots) if slots as usize > SMALL_SLOTS);
        let in_progress = |is_alike: &dyn Fn(&InProgress) -> bool| {
            self.outgoing.handovers.values().filter(|one| is_alike(one)).count()
        };
        if is_large && in_progress(&|one| one.is_large) >= MAX_LARGE {
            return;
        }
        let singly = departure.is_none() && self.is_singly(to, incarnation);
        if singly && in_progress(&|one| one.handover.target_here() == Some(to)) >= MAX_LARGE {
            return;
        }
        let handover_id = self.outgoing.next_attempt();
        let handover = Handover { session, section, epoch, to, incarnation, handover_id, departure };
        let one = InProgress { handover: handover.clone(), phase: Phase::Preparing, is_large };
        self.outgoing.handovers.insert(section, one);
        effects.push(HandoverRequest::Prepare(handover).into());
    }

    /// Continues after the target responded to [`HandoverRequest::Prepare`]. `accepted` is whether the target holds
    /// calls for the section from now on; false if the target did not respond. `slots` is the number of slots whose
    /// copies take as much memory as the copy of the section may take. If the section is large and [`MAX_LARGE`] large
    /// sections are frozen, the section is frozen later.
    pub fn on_prepared(&mut self, handover: &Handover, accepted: bool, slots: usize, effects: &mut Effects) {
        if !self.outgoing.is(handover, Phase::Preparing) {
            return;
        }
        if accepted {
            self.outgoing.advance(handover.section, Phase::Prepared);
            self.outgoing.waits = true;
            if let Some(one) = self.outgoing.handovers.get_mut(&handover.section) {
                one.is_large |= slots > SMALL_SLOTS;
            }
            self.stage_prepared(effects);
        } else {
            self.outgoing.remove(handover.section);
        }
    }

    /// Stages the prepared handovers, as many as [`MAX_LARGE`] allows.
    pub(super) fn stage_prepared(&mut self, effects: &mut Effects) {
        effects
            .extend(self.outgoing.stage_prepared().into_iter().map(|handover| HandoverRequest::Stage(handover).into()));
    }

    /// Continues after the target responded to [`HandoverRequest::Stage`]. `accepted` is whether the target keeps the
    /// copy; false if the target did not respond. If `accepted` is false, the section is thawed. This is safe because
    /// the source has not requested the commit, so this attempt will never be committed, even if the target has its
    /// copy.
    pub fn on_staged(&mut self, handover: &Handover, accepted: bool, effects: &mut Effects) {
        if !self.outgoing.is(handover, Phase::Staging) {
            return;
        }
        if accepted {
            self.outgoing.advance(handover.section, Phase::Committing);
            effects.push(HandoverRequest::Commit(handover.clone()).into());
        } else {
            self.thaw(handover, effects);
            self.stage_prepared(effects);
        }
    }

    /// Continues with `commit`, the outcome of the request to commit the handover that was sent at `sent`.
    ///
    /// # Errors
    /// [`AdoptError`] if the handover is committed, but the ownership update in the response cannot be adopted.
    pub fn on_committed(
        &mut self,
        handover: &Handover,
        sent: Clocks,
        commit: Commit,
        effects: &mut Effects,
    ) -> Result<(), AdoptError> {
        let under_way = self.outgoing.is(handover, Phase::Committing);
        match commit {
            Commit::Made(update) => {
                // A frozen section allocates no numbers. It leaves, even if the update cannot be adopted.
                self.drop_section(handover.section, handover.epoch, effects);
                effects.push(HandoverRequest::Activate(handover.clone()).into());
                if let Some(update) = update {
                    self.on_update(handover.session, sent, update, effects)?;
                }
            }
            Commit::Refused if under_way => self.thaw(handover, effects),
            Commit::Inconclusive if under_way => self.release(handover.section, handover.epoch, effects),
            Commit::Lost if under_way => {
                self.drop_section(handover.section, handover.epoch, effects);
            }
            Commit::Unknown if under_way => effects.push(HandoverRequest::Commit(handover.clone()).into()),
            Commit::Refused | Commit::Inconclusive | Commit::Lost | Commit::Unknown => {}
        }
        self.stage_prepared(effects);
        Ok(())
    }

    fn thaw(&mut self, handover: &Handover, effects: &mut Effects) {
        self.outgoing.remove(handover.section);
        effects.push(TableEffect::Thaw { section: handover.section, epoch: handover.epoch }.into());
    }

    /// Handles the request *prepare* as the target of a handover. If this node accepts the offer, calls for the section
    /// that arrive here wait from now on, because this node may soon own the section.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn on_prepare(&mut self, offer: &HandoverOffer) -> Result<(), OfferRefusal> {
        self.check_offer(offer)?;
        self.incoming.expect(offer);
        Ok(())
    }

    /// Handles the request *stage* as the target of a handover. If this node accepts the offer, it keeps the copy of
    /// the section until the handover is committed.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn on_stage(&mut self, offer: &HandoverOffer, copy: impl Into<AnyCopy>) -> Result<(), OfferRefusal> {
        self.check_offer(offer)?;
        let (section, copy) = (offer.section, copy.into());
        let counters = self.layout.counters_of(section);
        let highest = copy.check(counters).map_err(|misfit| OfferRefusal::Copy { section, misfit })?;
        self.incoming.stage(offer, copy, highest);
        Ok(())
    }

    /// Handles the request *activate* as the target of a handover, and requests a renewal by [`Effect::RenewNow`]. The
    /// request reports that the handover is committed, but the ownership starts only with the grant in the store's
    /// response to the renewal.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn on_activate(&mut self, offer: &HandoverOffer, effects: &mut Effects) -> Result<(), OfferRefusal> {
        if self.owned.get(&offer.section) != Some(&offer.epoch) {
            self.check_epoch(offer)?;
            effects.push(Effect::RenewNow);
        }
        Ok(())
    }

    /// Returns whether the ownership in the offer has begun at this node, or can no longer begin.
    #[must_use]
    pub fn is_settled(&self, offer: &HandoverOffer) -> bool {
        matches!(self.check_epoch(offer), Err(OfferRefusal::Past { .. } | OfferRefusal::OtherIncarnation { .. }))
    }

    /// Returns whether a section may be on its way to this node, by a handover or as a copy from the store.
    #[must_use]
    pub fn expects(&self, section: SectionId) -> bool {
        let offered = self.incoming.expected.iter().any(|expected| expected.section == section);
        offered || self.releases.is_arriving(section)
    }

    /// Checks whether this node, as the target of a handover, may accept an offer, before it receives the copy.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn check_offer(&self, offer: &HandoverOffer) -> Result<(), OfferRefusal> {
        self.check_epoch(offer)?;
        if self.leaving || self.withdrawn { Err(OfferRefusal::Leaving) } else { Ok(()) }
    }

    fn check_epoch(&self, offer: &HandoverOffer) -> Result<(), OfferRefusal> {
        let HandoverOffer { section, epoch, handover_id, incarnation: given, from_set } = *offer;
        let current = self.session.map_or(Incarnation(0), |session| session.incarnation);
        if current != given || self.session.is_none() {
            return Err(OfferRefusal::OtherIncarnation { current, given });
        }
        let held = *self.held.get(section.0 as usize).ok_or(OfferRefusal::UnknownSection { section })?;
        let routed = self.routes.as_ref().and_then(|routes| routes.get(section)).unwrap_or_default();
        // The routes may already have the offered ownership, whose grant was entered or will be. But if they name
        // another set at this epoch, this node can never get the ownership.
        if held >= epoch || routed.epoch > epoch || (routed.epoch == epoch && routed.other_set().is_some()) {
            return Err(OfferRefusal::Past { section, epoch, handover_id });
        }
        // The epoch of a section that comes from another set is known only to that set's log.
        let known = routed.epoch.max(held);
        if from_set == SetId(0) && epoch.0 - known.0 > 1 {
            return Err(OfferRefusal::UnknownEpoch { section, known, given: epoch });
        }
        Ok(())
    }
}
