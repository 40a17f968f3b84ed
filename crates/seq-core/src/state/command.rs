//! Commands within a set, and the reasons to refuse a command. `commands.rs` lists all commands.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use core::time::Duration;

use super::copies::CopyPart;
use super::loss::Loss;
use super::set_command::SetRefusal;
use super::{SetDefinition, Terms};
use crate::id::{Epoch, HandoverId, Incarnation, Liveness, NodeId, RenewSeq, Revision, SectionId, Seq, SetId};
use crate::layout::AppendError;
use crate::lease::LeaseTerms;
use crate::limits;

/// Registration of an AllocSvr process, at its start or after the store ended its incarnation.
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
    /// The lease: the time for which each renewal lets this incarnation serve. The store's leader waits longer than
    /// that before it reassigns the sections of a silent incarnation.
    pub lease: Duration,
    /// The newest incarnation of the same name before this registration, as the process knows it; 0 for none. If the
    /// store knows a newer incarnation, it refuses the registration. So a duplicate of this message that arrives after
    /// a later registration ends no incarnation.
    pub follows: Incarnation,
    /// The newest revision that the process received in a response of the store; 0 for none. A store whose state is
    /// behind this revision has lost committed entries, and refuses the registration.
    pub seen: Revision,
}

impl Registration {
    /// Creates the first registration of a name, with the default lease and one address for callers and peers.
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
    /// The node's incarnation that renews.
    pub incarnation: Incarnation,
    /// Number of the renewal: the last renewal's number plus one, or the same number for a repeat.
    pub renew_seq: RenewSeq,
    /// Parts of the copies of sections that the incarnation has frozen permanently and is about to release. A part of
    /// the copy of a section that the incarnation does not own is skipped. The parts are kept before the ownerships in
    /// `released` end.
    pub copies: Vec<CopyPart>,
    /// Ownerships that the incarnation gives up. An ownership that it does not hold, or no longer holds, is skipped.
    pub released: Vec<(SectionId, Epoch)>,
    /// Ownerships whose kept copies the incarnation has started from, so that the store need not keep them.
    pub taken: Vec<(SectionId, Epoch)>,
    /// Whether the process is about to exit, so that it is to get no section, and its sections are to be handed over.
    pub leaving: bool,
}

/// Sets the bounds of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTerms {
    /// The terms that this command replaces; `None` for none. The command is refused if other terms are in force.
    pub replaces: Option<Terms>,
    /// The new terms.
    pub terms: Terms,
}

/// Raises ceilings of one node's sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaiseCeilings {
    /// The node that owns the sections.
    pub node: NodeId,
    /// The node's incarnation that requests the raises.
    pub incarnation: Incarnation,
    /// The sections, each with its epoch and the requested ceiling.
    pub raises: Vec<Raise>,
}

/// Sets whether an AllocSvr may own sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Name of the node.
    pub name: String,
    /// True if the node's sections are to be handed over and the node is to get no section.
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
    /// Epoch of the ownership that requests the raise.
    pub epoch: Epoch,
    /// The requested ceiling, as an absolute number, up to [`Seq::MAX`]. A request at or below the committed ceiling
    /// changes nothing. A request more than [`limits::MAX_RAISE`] above the committed ceiling raises it by
    /// [`limits::MAX_RAISE`] only, except in a section of ticks. The output of the command states the ceiling that is
    /// committed then.
    pub to: Seq,
}

/// One section's change of owner, applied only if the section's record is still as the proposer read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reassign {
    /// The section.
    pub section: SectionId,
    /// The section's epoch as the proposer read it.
    pub expected: Epoch,
    /// The liveness counter of the section's owner as the proposer read it. If a renewal or a raise of the owner is
    /// applied between that read and this command, the change is refused. `None` if the section had no owner, or the
    /// incarnation of its owner was over, because the counter of such an owner no longer grows. If the incarnation
    /// ended only after the read, the change is refused as well, because the counter may have grown between the read
    /// and the end.
    pub liveness: Option<Liveness>,
    /// The new owner.
    pub to: NodeId,
    /// The incarnation of the new owner as the proposer read it.
    pub incarnation: Incarnation,
}

/// Command that commits a handover. Every reason to refuse it is permanent, so a refused transfer never takes effect
/// later, even if its message is repeated or arrives late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The section.
    pub section: SectionId,
    /// Epoch of the ownership that ends.
    pub epoch: Epoch,
    /// The owner, which has frozen the section.
    pub from: NodeId,
    /// Incarnation of the owner.
    pub incarnation: Incarnation,
    /// The next owner, which holds a copy of the frozen section.
    pub to: NodeId,
    /// Incarnation of the next owner.
    pub to_incarnation: Incarnation,
    /// Number of the handover attempt, not 0. It identifies the copy from which the next owner starts.
    pub handover_id: HandoverId,
}

/// The ownership that a committed handover or departure began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// Epoch of the ownership.
    pub epoch: Epoch,
    /// The section's committed ceiling.
    pub max_seq: Seq,
}

/// Reason why a command changed nothing.
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
        /// The definition in the command.
        given: Box<SetDefinition>,
    },
    /// No set is defined yet.
    #[error("the store has no set yet")]
    NoSet,
    /// The terms in force are not the terms that the command replaces.
    #[error("the lease terms in force are {current}, not the terms that the command replaces")]
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
    /// The lease could outlast the time after which the sections of its owner are reassigned.
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
        /// The node's newest incarnation; 0 for none.
        current: Incarnation,
        /// The predecessor in the command.
        given: Incarnation,
    },
    /// A process reported that committed entries of this store are gone, so the set must be restored.
    #[error(
        "committed entries of the store are gone: node {} has seen revision {} before revision {} of this state, as after \
         old data directories were put back", loss.node, loss.seen, loss.noted
    )]
    EntriesLost {
        /// The report.
        loss: Loss,
    },
    /// The process received a response from a newer state than this store has, so the store has lost committed entries.
    #[error(
        "the store is at revision {current}, and the process has seen revision {seen}: committed entries are lost, as after \
         a restore of old data directories"
    )]
    StoreBehind {
        /// The store's revision.
        current: Revision,
        /// The revision in the command.
        seen: Revision,
    },
    /// The set has as many nodes as it may.
    #[error("the set has {} nodes already, the most it may have", limits::MAX_NODES)]
    TooManyNodes,
    /// No node with this id has registered.
    #[error("no node with id {node} registered here")]
    UnknownNode {
        /// The id in the command.
        node: NodeId,
    },
    /// The node is about to exit, so no section is handed over to it.
    #[error("node {node} is about to exit")]
    TargetLeaves {
        /// The node.
        node: NodeId,
        /// The node's incarnation that exits.
        incarnation: Incarnation,
    },
    /// No node of this name registered.
    #[error("no AllocSvr named {name:?} registered here")]
    UnknownName {
        /// The name in the command.
        name: String,
    },
    /// The command has more sections than one command may move.
    #[error("{sections} sections are more than the {} that one command moves", limits::MAX_MOVED)]
    TooManyMoved {
        /// Number of sections in the command.
        sections: usize,
    },
    /// The section is not in this set.
    #[error("section {section} is not in this set")]
    NotInSet {
        /// The section.
        section: SectionId,
    },
    /// The ownership in the command is over, or never existed.
    #[error("section {section} is at epoch {current}, and node {from} does not own it under epoch {given}")]
    OtherOwnership {
        /// The section.
        section: SectionId,
        /// The section's current epoch.
        current: Epoch,
        /// The node that sent the request.
        from: NodeId,
        /// The epoch in the command.
        given: Epoch,
    },
    /// The incarnation in the command is over, or never existed.
    #[error("node {node} is in incarnation {current}, not {given}")]
    OtherIncarnation {
        /// The node.
        node: NodeId,
        /// The node's newest incarnation.
        current: Incarnation,
        /// The incarnation in the command.
        given: Incarnation,
    },
    /// The renewal is neither the next renewal nor a repeat of the last renewal.
    #[error("node {node} renewed {current} times, so renewal {given} is out of order")]
    OtherRenewal {
        /// The node.
        node: NodeId,
        /// Number of its last renewal.
        current: RenewSeq,
        /// The renewal in the command.
        given: RenewSeq,
    },
    /// A text of the audit log is too long.
    #[error("a text of {bytes} bytes does not fit an event of the audit log, {} at most", limits::MAX_AUDIT_TEXT)]
    AuditTextTooLong {
        /// Length of the text.
        bytes: usize,
    },
    /// The operation was never begun.
    #[error("no operation has number {operation} in the audit log")]
    UnknownOperation {
        /// The number in the command.
        operation: u64,
    },
    /// The name of a series is empty, too long, or has characters that are not allowed.
    #[error(
        "the name {name:?} of a series is not 1 to {} characters of a-z, 0-9, '_', '.' and '-'",
        limits::MAX_NAME_BYTES
    )]
    BadSeriesName {
        /// The name in the command.
        name: String,
    },
    /// The encoding of a series' shape is too long.
    #[error("a shape of {bytes} bytes is above the {} that a series keeps", limits::MAX_SHAPE_BYTES)]
    ShapeTooLong {
        /// Length of the encoding.
        bytes: usize,
    },
    /// A series of this name exists with another shape or other lanes, or is retired. A name is never used for a second
    /// series.
    #[error("a series named {name:?} exists {}: a name is used once, permanently",
        if *retired { "and is retired" } else { "with another shape or other lanes" })]
    SeriesExists {
        /// The name in the command.
        name: String,
        /// Whether that series is retired.
        retired: bool,
    },
    /// No series has this name.
    #[error("no series is named {name:?}")]
    UnknownSeries {
        /// The name in the command.
        name: String,
    },
    /// Another set creates the series of the cluster.
    #[error("this set does not create series: {}", match writer {
        Some(writer) => alloc::format!("set {writer} does"),
        None => "the set that does has not stated it yet".into(),
    })]
    NotSeriesWriter {
        /// The set that does, if it is known.
        writer: Option<SetId>,
    },
    /// The list of series that another set states does not continue the list that is known here.
    #[error("the series that set {from} states do not continue the series that are known here")]
    OtherSeries {
        /// The set that stated them.
        from: SetId,
    },
    /// The lanes of the series do not fit the layout.
    #[error(transparent)]
    Layout(#[from] AppendError),
    /// A refusal of a command between sets; see [`SetRefusal`].
    #[error(transparent)]
    BetweenSets(#[from] SetRefusal),
}
