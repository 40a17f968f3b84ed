//! What the owner's machine has its shell do, by family.
//!
//! **Order matters.** The shell carries effects out in the order given: sections and routes first, then the lease.
//! Requests to peers and to the store are sent after everything else is in place.

use alloc::vec::Vec;

use super::handover::HandoverRequest;
use crate::id::{Epoch, SectionId, Seq};
use crate::lease::Clocks;
use crate::section::{CopyMisfit, SectionCopy};

/// What one step of the machine has done, in order.
pub type Effects = Vec<Effect>;

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Change the table of served sections, or the routes.
    Table(TableEffect),
    /// Change the lease, after every table effect before this one is visible to readers.
    Lease(LeaseEffect),
    /// Send a request of a handover.
    Send(HandoverRequest),
    /// Send a renewal at once: its response may grant a section that a peer reports as committed.
    RenewNow,
    /// The next [`TableEffect::Enter`] starts at the ceiling although a handover began the ownership: a gap, to be
    /// logged and counted.
    CopyLost {
        /// The section.
        section: SectionId,
        /// The ownership.
        epoch: Epoch,
        /// Why.
        why: CopyLoss,
    },
}

/// A change of what is served, or of what is known of owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableEffect {
    /// [`Owner::routes`](super::Owner::routes) is newer: publish it to the tasks that forward.
    Publish,
    /// Serve a section from now on.
    Enter {
        /// The section.
        section: SectionId,
        /// The ownership.
        epoch: Epoch,
        /// The committed ceiling.
        ceiling: Seq,
        /// The exact values to start from; without them every uid starts at the ceiling.
        copy: Option<SectionCopy>,
    },
    /// Stop serving the section under this ownership.
    Leave {
        /// The section.
        section: SectionId,
        /// The ownership.
        epoch: Epoch,
    },
    /// Freeze the section for good, and give its copy to [`Owner::on_frozen`](super::Owner::on_frozen) in the same
    /// step.
    Freeze {
        /// The section.
        section: SectionId,
        /// The ownership.
        epoch: Epoch,
    },
    /// Replace the frozen section by one with the same values that serves, under the same ownership.
    Thaw {
        /// The section.
        section: SectionId,
        /// The ownership.
        epoch: Epoch,
    },
}

/// A change of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// The lease lasts from `sent` on.
    Extend {
        /// When the request was sent whose response grants it.
        sent: Clocks,
    },
    /// The incarnation is over.
    End,
}

impl From<TableEffect> for Effect {
    fn from(effect: TableEffect) -> Effect {
        Effect::Table(effect)
    }
}

impl From<LeaseEffect> for Effect {
    fn from(effect: LeaseEffect) -> Effect {
        Effect::Lease(effect)
    }
}

impl From<HandoverRequest> for Effect {
    fn from(request: HandoverRequest) -> Effect {
        Effect::Send(request)
    }
}

/// Why the copy of a handover is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyLoss {
    /// The copy of the committed attempt is not here.
    #[error("its copy is not here: it was never staged, was evicted, or the store keeps it no more")]
    Missing,
    /// The copy that the store keeps is none.
    #[error("the copy that the store kept cannot be read")]
    Unreadable,
    /// It does not fit what the store granted.
    #[error(transparent)]
    Misfit(#[from] CopyMisfit),
}
