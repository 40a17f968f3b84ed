//! Commands within a set, and why a command is refused. `commands.rs` lists all of them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use core::time::Duration;

use super::copies::CopyPart;
use super::loss::Loss;
use super::set_command::SetRefusal;
use super::{SetDefinition, Terms};
use crate::id::{Epoch, HandoverId, Incarnation, Liveness, NodeId, RenewSeq, Revision, SectionId, Seq};
use crate::lease::LeaseTerms;
use crate::limits;

/// Registration of an AllocSvr process: at its start, or after the store ended its incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Name in the set file.
    pub name: String,
    /// Address of its port for callers.
    pub addr: String,
    /// Address of its port for peers.
    pub peer_addr: String,
    /// Random number of the process, not 0.
    pub token: u64,
    /// How long each response of the store lets this incarnation serve. The arbiter waits longer than that.
    pub lease: Duration,
    /// The incarnation of that name which this one follows; 0 for none. Refused when it is not the newest, so a
    /// duplicate that was delayed past a later registration ends no incarnation.
    pub follows: Incarnation,
    /// The newest revision in a response that the process has received; 0 for none. A store behind it has lost
    /// committed entries, and refuses.
    pub seen: Revision,
}

impl Registration {
    /// The first registration of a name, with the default lease and one address for callers and peers.
    #[must_use]
    pub fn new(name: &str, addr: &str, token: u64) -> Registration {
        Registration {
            name: name.into(),
            addr: addr.into(),
            peer_addr: addr.into(),
            token,
            lease: LeaseTerms::DEFAULTS.lease,
            follows: Incarnation(0),
            seen: Revision(0),
        }
    }
}

/// A renewal of an incarnation of an AllocSvr.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renew {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The last renewal's number plus one, or the last one again.
    pub renew_seq: RenewSeq,
    /// Parts of the copies of sections that the incarnation has frozen for good, and is about to release. A part of a
    /// section that it does not own is skipped. Kept before the ownerships of `released` end.
    pub copies: Vec<CopyPart>,
    /// Ownerships that the incarnation gives up. An ownership that it does not hold (any more) is skipped.
    pub released: Vec<(SectionId, Epoch)>,
    /// Ownerships whose kept copies the incarnation has started from, so that the store need not keep them.
    pub taken: Vec<(SectionId, Epoch)>,
    /// Whether the process is about to exit: it is given no section, and its own sections are to be handed over.
    pub leaving: bool,
}

/// Sets the bounds of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTerms {
    /// The terms that this replaces; `None` where there are none. Refused when others are in force.
    pub replaces: Option<Terms>,
    /// The terms from now on.
    pub terms: Terms,
}

/// Raises ceilings of one node's sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaiseCeilings {
    /// The node that owns the sections.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The sections, each with its epoch and the requested ceiling.
    pub raises: Vec<Raise>,
}

/// Sets whether an AllocSvr may own sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Name of the node.
    pub name: String,
    /// True: its sections are to be handed over, and it is given none.
    pub drained: bool,
}

/// Claims a Raft id for a member of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimStoreId {
    /// The id, 1 or above.
    pub id: u64,
}

/// One section's raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raise {
    /// The section.
    pub section: SectionId,
    /// The ownership that requests it.
    pub epoch: Epoch,
    /// The requested ceiling, absolute, up to [`Seq::MAX`]. One that is not above the committed ceiling changes
    /// nothing; one that is more than [`limits::MAX_RAISE`] above it raises by that much. The result is the committed
    /// ceiling.
    pub to: Seq,
}

/// One section's change of owner, applied only if its record is still the one that the proposer read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reassign {
    /// The section.
    pub section: SectionId,
    /// Its epoch as the proposer read it.
    pub expected: Epoch,
    /// The liveness counter of its owner as the proposer read it: a renewal or a raise in between wins over the change.
    /// `None` where the section had no owner, or an incarnation that was over, whose counter moves no more. An
    /// incarnation that ended since may have been counted once more before, so the change is refused.
    pub liveness: Option<Liveness>,
    /// The new owner.
    pub to: NodeId,
    /// The incarnation of the new owner as the proposer read it.
    pub incarnation: Incarnation,
}

/// The commit of a handover. Every reason to refuse it is permanent, so a refused one never takes effect later, however
/// often its message is repeated and however late it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The section.
    pub section: SectionId,
    /// The ownership that ends.
    pub epoch: Epoch,
    /// The owner, which has frozen the section.
    pub from: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The next owner, which holds a copy of the frozen section.
    pub to: NodeId,
    /// Its incarnation.
    pub to_incarnation: Incarnation,
    /// Number of the attempt, not 0; identifies the copy to start from.
    pub handover_id: HandoverId,
}

/// The ownership that a committed handover began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// Its epoch.
    pub epoch: Epoch,
    /// The section's committed ceiling.
    pub max_seq: Seq,
}

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefusal {
    /// The stored set has another name or layout.
    #[error(
        "the stored set is {} with uids {:?} in sections of {}, not {} with uids {:?} in sections of {}",
        stored.name, stored.layout.uids(), stored.layout.section_size(),
        given.name, given.layout.uids(), given.layout.section_size()
    )]
    OtherSet {
        /// The stored definition.
        stored: Box<SetDefinition>,
        /// The one in the command.
        given: Box<SetDefinition>,
    },
    /// No set is defined yet.
    #[error("the store has no set yet")]
    NoSet,
    /// The terms in force are not those that the command replaces.
    #[error("the lease terms in force are {current}, not those that were to be replaced")]
    OtherTerms {
        /// The terms in force.
        current: Terms,
    },
    /// The terms are out of bounds.
    #[error("lease_wait {:?} is not in 1ms..={:?}", terms.lease_wait, limits::MAX_LEASE_WAIT)]
    BadTerms {
        /// The terms in the command.
        terms: Terms,
    },
    /// A lease that could outlast the time after which its sections are reassigned.
    #[error(
        "a lease of {lease:?} does not fit this set, whose sections are given away after {:?}: {}",
        terms.lease_wait, LeaseTerms::OUTLASTED
    )]
    LeaseTooLong {
        /// The lease in the command.
        lease: Duration,
        /// The terms in force.
        terms: Terms,
    },
    /// The registration does not follow the newest incarnation.
    #[error("{name} is in incarnation {current}, and this registration follows incarnation {given}")]
    OtherPredecessor {
        /// The node's name.
        name: String,
        /// Its newest incarnation; 0 for none.
        current: Incarnation,
        /// The one in the command.
        given: Incarnation,
    },
    /// Committed entries are gone, by the evidence of a process: the set is to be restored.
    #[error(
        "committed entries of the store are gone: node {} has seen revision {} before revision {} of this state, as after \
         old data directories were put back", loss.node, loss.seen, loss.noted
    )]
    EntriesLost {
        /// The evidence.
        loss: Loss,
    },
    /// The process has received a response from a state that this store no longer has.
    #[error(
        "the store is at revision {current}, and the process has seen revision {seen}: committed entries are lost, as after \
         a restore of old data directories"
    )]
    StoreBehind {
        /// The store's revision.
        current: Revision,
        /// The one in the command.
        seen: Revision,
    },
    /// The set has as many nodes as it may.
    #[error("the set has {} nodes already, the most it may have", limits::MAX_NODES)]
    TooManyNodes,
    /// No such node registered.
    #[error("no node with id {node} registered here")]
    UnknownNode {
        /// The id in the command.
        node: NodeId,
    },
    /// The node is about to exit, so that no section is handed to it.
    #[error("node {node} is about to exit")]
    TargetLeaves {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// No node of this name registered.
    #[error("no AllocSvr named {name:?} registered here")]
    UnknownName {
        /// The name in the command.
        name: String,
    },
    /// More sections than one command moves.
    #[error("{sections} sections are more than the {} that one command moves", limits::MAX_MOVED)]
    TooManyMoved {
        /// Their number.
        sections: usize,
    },
    /// The section is not in this set.
    #[error("section {section} is not in this set")]
    NotInSet {
        /// The section.
        section: SectionId,
    },
    /// The ownership is over, or never was.
    #[error("section {section} is at epoch {current}, and node {from} does not own it under epoch {given}")]
    OtherOwnership {
        /// The section.
        section: SectionId,
        /// Its epoch.
        current: Epoch,
        /// The node that requested it.
        from: NodeId,
        /// The epoch in the command.
        given: Epoch,
    },
    /// The incarnation is over, or never was.
    #[error("node {node} is in incarnation {current}, not {given}")]
    OtherIncarnation {
        /// The node.
        node: NodeId,
        /// Its newest incarnation.
        current: Incarnation,
        /// The incarnation in the command.
        given: Incarnation,
    },
    /// The renewal is neither the next one nor the last one again.
    #[error("node {node} renewed {current} times, so renewal {given} is out of order")]
    OtherRenewal {
        /// The node.
        node: NodeId,
        /// Its last renewal.
        current: RenewSeq,
        /// The renewal in the command.
        given: RenewSeq,
    },
    /// A text of the audit log is too long.
    #[error("a text of {bytes} bytes does not fit an event of the audit log, {} at most", limits::MAX_AUDIT_TEXT)]
    AuditTextTooLong {
        /// Its length.
        bytes: usize,
    },
    /// No such operation was begun.
    #[error("no operation has number {operation} in the audit log")]
    UnknownOperation {
        /// The number in the command.
        operation: u64,
    },
    /// A command between sets; see there.
    #[error(transparent)]
    BetweenSets(#[from] SetRefusal),
}
