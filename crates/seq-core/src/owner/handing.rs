//! Planned moves: both sides of handing a section over with its exact values.
//!
//! The source asks the target to hold early calls (*prepare*), freezes and copies the section, sends the copy (*stage*), has
//! the store commit the move, and tells the target to start (*activate*). Until the commit was asked for, the source can
//! take it all back; from then on only a definite answer tells who owns the section. A target starts from a copy only if
//! the committed ownership names the same attempt, so an old copy is never used. Whoever dies on the way leaves the section
//! to the arbiter.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Effect, Grant, News, Owner};
use crate::arbiter::Move;
use crate::id::{Epoch, Handover, Incarnation, NodeId, SectionId, Seq};
use crate::lease::Clocks;
use crate::owner::{AdoptError, Life};
use crate::route::RouteTable;
use crate::section::SectionCopy;

/// Most sections that one node hands over at a time: each is frozen for some milliseconds, and its copy is in memory twice.
pub const MAX_OUTGOING: usize = 16;

/// Most copies a node keeps for moves that are not decided: what a dozen sources may send at a time. The oldest goes first;
/// its section starts at the ceiling if it is moved here after all.
pub const MAX_INCOMING: usize = 12 * MAX_OUTGOING;

/// One attempt to hand a section over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handing {
    /// The source's life.
    pub life: Life,
    /// The section.
    pub section: SectionId,
    /// The ownership that ends.
    pub epoch: Epoch,
    /// The target.
    pub to: NodeId,
    /// The target's life.
    pub incarnation: Incarnation,
    /// Number of the attempt, unique in the source's process.
    pub handover: Handover,
}

/// What a target is asked: to expect the section under an ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The section.
    pub section: SectionId,
    /// The ownership that begins.
    pub epoch: Epoch,
    /// Number of the attempt.
    pub handover: Handover,
    /// The target's life that is meant.
    pub incarnation: Incarnation,
}

/// Why a target does not take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferRefusal {
    /// Another life of the target was meant.
    #[error("incarnation {given} was asked, and this node is in {current}")]
    OtherIncarnation {
        /// The life of the node; 0 without one.
        current: Incarnation,
        /// The life that was asked.
        given: Incarnation,
    },
    /// The node is about to exit.
    #[error("this node is leaving")]
    Leaving,
    /// The ownership, or the attempt, is past.
    #[error("section {section} is past epoch {epoch}, attempt {handover}")]
    Past {
        /// The section.
        section: SectionId,
        /// The ownership offered.
        epoch: Epoch,
        /// The attempt.
        handover: Handover,
    },
    /// The set has no such section.
    #[error("the set has no section {section}")]
    UnknownSection {
        /// The section.
        section: SectionId,
    },
}

/// How the store answered the commit of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// The target owns the section.
    Made {
        /// The committed ceiling.
        ceiling: Seq,
        /// What came with the answer.
        news: News,
    },
    /// Refused for good, because the target's life is over; the source still owns the section.
    TargetGone,
    /// Refused, because the source does not own the section any more.
    Lost,
    /// No answer: it may have been made.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Preparing,
    Staging,
    Committing,
}

/// The source's side: the sections being handed over.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    moves: BTreeMap<SectionId, (Handing, Phase)>,
    /// Attempts so far; goes on from life to life.
    attempts: u64,
}

impl Outgoing {
    pub(super) fn has(&self, section: SectionId) -> bool {
        self.moves.contains_key(&section)
    }

    pub(super) fn remove(&mut self, section: SectionId) {
        self.moves.remove(&section);
    }

    /// Nothing is under way any more; attempts are counted on.
    pub(super) fn forget(self) -> Outgoing {
        Outgoing { moves: BTreeMap::new(), attempts: self.attempts }
    }

    /// Whether this very attempt is in that phase.
    fn is(&self, handing: &Handing, phase: Phase) -> bool {
        self.moves.get(&handing.section) == Some(&(*handing, phase))
    }
}

/// The target's side: sections that are expected.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    expected: BTreeMap<SectionId, Expected>,
    arrivals: u64,
}

#[derive(Debug)]
struct Expected {
    epoch: Epoch,
    handover: Handover,
    copy: Option<SectionCopy>,
    arrival: u64,
}

impl Incoming {
    /// Takes the copy of exactly this attempt out, if it is here; what else is kept for the section is past.
    pub(super) fn take(&mut self, section: SectionId, epoch: Epoch, handover: Handover) -> Option<SectionCopy> {
        let expected = self.expected.remove(&section)?;
        if (expected.epoch, expected.handover) == (epoch, handover) { expected.copy } else { None }
    }

    /// Forgets what the routes say went elsewhere.
    pub(super) fn forget_past(&mut self, routes: &RouteTable) {
        self.expected.retain(|section, expected| routes.get(*section).is_some_and(|at| at.epoch < expected.epoch));
    }

    fn expect(&mut self, offer: &Offer) -> Result<&mut Expected, OfferRefusal> {
        let Offer { section, epoch, handover, .. } = *offer;
        if let Some(known) = self.expected.get(&section)
            && (known.epoch, known.handover) > (epoch, handover)
        {
            return Err(OfferRefusal::Past { section, epoch, handover });
        }
        if self.expected.len() == MAX_INCOMING && !self.expected.contains_key(&section) {
            let oldest = self.expected.iter().min_by_key(|(_, expected)| expected.arrival).map(|(section, _)| *section);
            oldest.and_then(|oldest| self.expected.remove(&oldest));
        }
        self.arrivals += 1;
        let fresh = Expected { epoch, handover, copy: None, arrival: self.arrivals };
        let expected = self.expected.entry(section).or_insert_with(|| Expected { copy: None, ..fresh });
        if (expected.epoch, expected.handover) != (epoch, handover) {
            *expected = Expected { epoch, handover, copy: None, arrival: self.arrivals };
        }
        Ok(expected)
    }
}

impl Owner {
    /// How many sections are being handed over.
    #[must_use]
    pub fn moves_under_way(&self) -> usize {
        self.outgoing.moves.len()
    }

    /// Begins a move that the arbiter wants, unless as many as may be are under way.
    pub(super) fn begin_move(&mut self, wanted: &Move, effects: &mut Vec<Effect>) {
        let Move { section, epoch, to, incarnation, .. } = *wanted;
        let Some(life) = self.life else { return };
        let may = self.owned.get(&section) == Some(&epoch) && to != life.node && !self.outgoing.has(section);
        if !may || self.outgoing.moves.len() == MAX_OUTGOING {
            return;
        }
        self.outgoing.attempts += 1;
        let handover = Handover(self.outgoing.attempts);
        let handing = Handing { life, section, epoch, to, incarnation, handover };
        self.outgoing.moves.insert(section, (handing, Phase::Preparing));
        effects.push(Effect::Prepare(handing));
    }

    /// The target answered whether it expects the section; no answer is a refusal.
    pub fn on_prepared(&mut self, handing: &Handing, accepted: bool, effects: &mut Vec<Effect>) {
        if !self.outgoing.is(handing, Phase::Preparing) {
            return;
        }
        if accepted {
            self.outgoing.moves.insert(handing.section, (*handing, Phase::Staging));
            effects.push(Effect::Stage(*handing));
        } else {
            self.outgoing.remove(handing.section);
        }
    }

    /// The target answered whether it holds the copy; no answer is a refusal. Nothing was committed yet, so the section can
    /// be thawed: whatever the target holds is of an attempt that will never be committed.
    pub fn on_staged(&mut self, handing: &Handing, accepted: bool, effects: &mut Vec<Effect>) {
        if !self.outgoing.is(handing, Phase::Staging) {
            return;
        }
        if accepted {
            self.outgoing.moves.insert(handing.section, (*handing, Phase::Committing));
            effects.push(Effect::Commit(*handing));
        } else {
            self.thaw(handing, effects);
        }
    }

    /// The store answered the commit, which was sent at `sent`, or did not.
    ///
    /// # Errors
    /// [`AdoptError`]: the move was made, and the rest of the answer is of no use.
    pub fn on_committed(
        &mut self,
        handing: &Handing,
        sent: Clocks,
        commit: Commit,
        effects: &mut Vec<Effect>,
    ) -> Result<(), AdoptError> {
        let under_way = self.outgoing.is(handing, Phase::Committing);
        match commit {
            Commit::Made { ceiling, news } => {
                // Nothing is given out by a frozen section; it leaves whatever becomes of the news.
                self.drop_section(handing.section, handing.epoch, effects);
                effects.push(Effect::Activate { handing: *handing, ceiling });
                self.on_news(handing.life, sent, news, effects)?;
            }
            Commit::TargetGone if under_way => self.thaw(handing, effects),
            Commit::Lost if under_way => {
                self.drop_section(handing.section, handing.epoch, effects);
            }
            Commit::Unknown if under_way => effects.push(Effect::Commit(*handing)),
            Commit::TargetGone | Commit::Lost | Commit::Unknown => {}
        }
        Ok(())
    }

    fn thaw(&mut self, handing: &Handing, effects: &mut Vec<Effect>) {
        self.outgoing.remove(handing.section);
        effects.push(Effect::Thaw { section: handing.section, epoch: handing.epoch });
    }

    /// As a target: expects a section, and so holds early calls for it.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn on_prepare(&mut self, offer: &Offer) -> Result<(), OfferRefusal> {
        self.check(offer)?;
        self.incoming.expect(offer).map(|_| ())
    }

    /// As a target: keeps the copy for when the move is committed.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn on_stage(&mut self, offer: &Offer, copy: SectionCopy) -> Result<(), OfferRefusal> {
        self.check(offer)?;
        self.incoming.expect(offer)?.copy = Some(copy);
        Ok(())
    }

    /// As a target: starts, because the source says that the move is committed. Repeating it, or hearing it from the store
    /// first, changes nothing.
    ///
    /// # Errors
    /// [`OfferRefusal`].
    pub fn on_activate(&mut self, offer: &Offer, ceiling: Seq, effects: &mut Vec<Effect>) -> Result<(), OfferRefusal> {
        let Offer { section, epoch, handover, .. } = *offer;
        if self.owned.get(&section) == Some(&epoch) {
            return Ok(());
        }
        self.check(offer)?;
        let staged = self.incoming.expected.get(&section);
        if staged.is_none_or(|staged| (staged.epoch, staged.handover) != (epoch, handover) || staged.copy.is_none()) {
            // The grant itself comes with the next renewal.
            return Err(OfferRefusal::Past { section, epoch, handover });
        }
        self.enter(&Grant { section, epoch, ceiling, handover }, effects);
        Ok(())
    }

    fn check(&self, offer: &Offer) -> Result<(), OfferRefusal> {
        let Offer { section, epoch, handover, incarnation: given } = *offer;
        let current = self.life.map_or(Incarnation(0), |life| life.incarnation);
        if current != given || self.life.is_none() {
            return Err(OfferRefusal::OtherIncarnation { current, given });
        }
        if self.leaving {
            return Err(OfferRefusal::Leaving);
        }
        let held = *self.held.get(section.0 as usize).ok_or(OfferRefusal::UnknownSection { section })?;
        let routed = self.routes.as_ref().and_then(|routes| routes.get(section)).unwrap_or_default();
        // The routes may have brought the very ownership already, with a grant that was entered, or not yet.
        if held >= epoch || routed.epoch > epoch {
            return Err(OfferRefusal::Past { section, epoch, handover });
        }
        Ok(())
    }
}
