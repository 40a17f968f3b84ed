//! Effects that an [`Owner`](super::Owner) requests from its caller, by kind.
//!
//! **Order matters.** The caller carries effects out in the given order: sections and routes first, then the lease. It
//! sends requests to peers and to the store after it has carried out all other effects.

use alloc::vec::Vec;

use super::handover::HandoverRequest;
use crate::id::{Epoch, SectionId, Seq};
use crate::lease::Clocks;
use crate::section::{CopyMisfit, SectionCopy};

/// Effects of one step of the machine, in order.
pub type Effects = Vec<Effect>;

/// An effect of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Change the table of served sections, or the routes.
    Table(TableEffect),
    /// Change the lease, but only after readers of the table see every earlier table effect.
    Lease(LeaseEffect),
    /// Send a request of a handover.
    Send(HandoverRequest),
    /// Send a renewal at once. Its response may grant a section, because a peer reported that a handover to this node
    /// is committed.
    RenewNow,
    /// Log and count a gap: the section of the next [`TableEffect::Enter`] starts at its ceiling although the ownership
    /// should have started from a copy.
    CopyLost {
        /// The section.
        section: SectionId,
        /// Epoch of the ownership.
        epoch: Epoch,
        /// Reason why the copy is not used.
        why: CopyLoss,
    },
}

/// A change of the served sections, or of the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableEffect {
    /// [`Owner::routes`](super::Owner::routes) is newer: publish it to the tasks that forward calls.
    Publish,
    /// Serve a section from now on.
    Enter {
        /// The section.
        section: SectionId,
        /// Epoch of the ownership.
        epoch: Epoch,
        /// The committed ceiling.
        ceiling: Seq,
        /// The exact values to start from; without a copy, every uid starts at the ceiling.
        copy: Option<SectionCopy>,
    },
    /// Stop serving the section under this ownership.
    Leave {
        /// The section.
        section: SectionId,
        /// Epoch of the ownership.
        epoch: Epoch,
    },
    /// Freeze the section permanently, and give its copy to [`Owner::on_frozen`](super::Owner::on_frozen) in the same
    /// step.
    Freeze {
        /// The section.
        section: SectionId,
        /// Epoch of the ownership.
        epoch: Epoch,
    },
    /// Replace the frozen section by a section with the same values that is not frozen, and serve it under the same
    /// ownership.
    Thaw {
        /// The section.
        section: SectionId,
        /// Epoch of the ownership.
        epoch: Epoch,
    },
}

/// A change of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEffect {
    /// The lease lasts from `sent` on.
    Extend {
        /// Time when the request was sent to which this response belongs.
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

/// Reason why a copy is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyLoss {
    /// The copy is not here.
    #[error("its copy is not here: it was never staged, was evicted, or the store keeps it no more")]
    Missing,
    /// The kept copy cannot be decoded.
    #[error("the copy that the store kept cannot be read")]
    Unreadable,
    /// The copy does not fit the granted ceiling, or the section.
    #[error(transparent)]
    Misfit(#[from] CopyMisfit),
}
