//! Effects that an [`Owner`](super::Owner) requests from its caller, with a type for each kind of effect.
//!
//! **Order matters.** The caller carries the effects out in the given order, in which changes of sections and routes
//! come before a change of the lease. It sends requests to peers and to the store after it has carried out all other
//! effects.

use alloc::vec::Vec;

use super::handover::HandoverRequest;
use crate::id::{Epoch, SectionId, Seq};
use crate::lease::Clocks;
use crate::section::{AnyCopy, CopyMisfit};

/// Effects of one step of the machine, in order.
pub type Effects = Vec<Effect>;

/// An effect of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Change the table of served sections, or the routes.
    Table(TableEffect),
    /// Change the lease, but only after all readers of the table can see the table effects before this effect.
    Lease(LeaseEffect),
    /// Send a request of a handover.
    Send(HandoverRequest),
    /// Send a renewal at once. Either a peer reported that a handover to this node is committed, so that the response
    /// may grant the section, or the renewal sends parts of copies to the store.
    RenewNow,
    /// Log and count a gap in the numbers of a section. The ownership that the next [`TableEffect::Enter`] begins
    /// should have started from a copy, but starts at its ceiling.
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
    /// Publish [`Owner::routes`](super::Owner::routes), which has become newer, to the tasks that forward calls.
    Publish,
    /// Serve a section from now on.
    Enter {
        /// The section.
        section: SectionId,
        /// Epoch of the ownership.
        epoch: Epoch,
        /// The committed ceiling.
        ceiling: Seq,
        /// The exact counters to start from; `None` if every counter starts at the ceiling.
        copy: Option<AnyCopy>,
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
    /// Replace the frozen section with a section that has the same counters and is not frozen, and serve it under the
    /// same ownership.
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
    /// Extend the lease, counted from `sent`.
    Extend {
        /// Time when the node sent the request whose response extends the lease.
        sent: Clocks,
    },
    /// End the lease, because the incarnation is over.
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
    /// This node does not have the copy.
    #[error("its copy is not here: it was never staged, was evicted, or the store keeps it no more")]
    Missing,
    /// The kept copy cannot be decoded.
    #[error("the copy that the store kept cannot be read")]
    Unreadable,
    /// The copy is inconsistent with the granted ceiling, or with the section.
    #[error(transparent)]
    Misfit(#[from] CopyMisfit),
}
