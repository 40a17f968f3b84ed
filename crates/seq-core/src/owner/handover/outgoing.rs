//! The handovers from this node that are in progress, and the numbers of their attempts.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Handover, MAX_LARGE};
use crate::id::{HandoverId, Incarnation, NodeId, SectionId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Preparing,
    /// The target accepted the offer, but [`MAX_LARGE`] large sections are frozen already.
    Prepared,
    Staging,
    Committing,
}

/// The source's side: sections that are being handed over.
#[derive(Debug, Default)]
pub(in crate::owner) struct Outgoing {
    pub(super) handovers: BTreeMap<SectionId, InProgress>,
    /// Whether a handover may be in the phase [`Phase::Prepared`].
    pub(super) waits: bool,
    /// Targets of this set that make a single step in a call, each with its newest such incarnation.
    pub(super) singly: BTreeMap<NodeId, Incarnation>,
    /// Number of attempts so far in all incarnations of the process.
    attempts: u64,
    /// Secret from which the numbers of attempts are drawn.
    secret: u64,
}

/// A handover in progress.
#[derive(Debug)]
pub(super) struct InProgress {
    pub(super) handover: Handover,
    pub(super) phase: Phase,
    /// Whether the section is large. It is false for any bucket while the phase is [`Phase::Preparing`].
    pub(super) is_large: bool,
}

impl InProgress {
    /// Returns whether the section is frozen, or about to be.
    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.phase, Phase::Staging | Phase::Committing)
    }
}

impl Outgoing {
    pub(in crate::owner) fn with_secret(secret: u64) -> Outgoing {
        Outgoing { secret, ..Outgoing::default() }
    }

    /// Returns the number of the next attempt. It is computed by splitmix64 from a counter that starts at the secret.
    pub(super) fn next_attempt(&mut self) -> HandoverId {
        self.attempts += 1;
        let counter = self.secret.wrapping_add(self.attempts.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        HandoverId((mixed ^ (mixed >> 31)).max(1))
    }

    pub(in crate::owner) fn has(&self, section: SectionId) -> bool {
        self.handovers.contains_key(&section)
    }

    pub(in crate::owner) fn remove(&mut self, section: SectionId) {
        self.handovers.remove(&section);
    }

    /// Forgets all handovers in progress; the count of attempts continues.
    pub(in crate::owner) fn forget(self) -> Outgoing {
        Outgoing { handovers: BTreeMap::new(), waits: false, ..self }
    }

    /// Returns whether exactly this attempt is in that phase.
    pub(super) fn is(&self, handover: &Handover, phase: Phase) -> bool {
        self.handovers.get(&handover.section).is_some_and(|one| (&one.handover, one.phase) == (handover, phase))
    }

    /// Changes the phase of a handover in progress.
    pub(super) fn advance(&mut self, section: SectionId, phase: Phase) {
        if let Some(one) = self.handovers.get_mut(&section) {
            one.phase = phase;
        }
    }

    /// Begins to stage the prepared handovers, as many as [`MAX_LARGE`] allows. Returns these handovers.
    pub(super) fn stage_prepared(&mut self) -> Vec<Handover> {
        if !core::mem::take(&mut self.waits) {
            return Vec::new();
        }
        let large = self.handovers.values().filter(|one| one.is_large && one.is_frozen()).count();
        let mut room = MAX_LARGE.saturating_sub(large);
        let mut staged = Vec::new();
        for one in self.handovers.values_mut().filter(|one| one.phase == Phase::Prepared) {
            if one.is_large && room == 0 {
                self.waits = true;
                continue;
            }
            room -= usize::from(one.is_large);
            one.phase = Phase::Staging;
            staged.push(one.handover.clone());
        }
        staged
    }
}
