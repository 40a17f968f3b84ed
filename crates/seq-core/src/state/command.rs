//! The commands that concern a single set, and the reasons for which a command is refused. The table in `commands.rs`
//! lists all commands.

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

/// Command that registers an AllocSvr process when it starts, or again after the store ended its incarnation.
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
    /// Length of the lease, which is the time for which each renewal lets this incarnation serve. If the incarnation no
    /// longer renews, the store's leader waits longer than this before it gives the incarnation's sections to other
    /// nodes.
    pub lease: Duration,
    /// The newest incarnation of this name before this registration, as the process knows it; 0 if it knows none. If
    /// the newest incarnation that the store knows is another one, the store refuses the registration. So a duplicate
    /// of this message that arrives after a later registration does not end the later incarnation.
    pub follows: Incarnation,
    /// The newest revision that the process received in a response of the store; 0 if it received none. If the store's
    /// state is behind this revision, the store has lost committed entries and refuses the registration.
    pub seen: Revision,
    /// Random number that the process drew when it started, equal in all its registrations; 0 if the process states
    /// none. The report of the death of a process names it by this number ([`Died`](super::Died)).
    pub process: u64,
}

impl Registration {
    /// Creates the first registration of a name, with the default lease, and with `addr` as the address of both ports.
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
            process: 0,
        }
    }
}

/// Command that renews the lease of an incarnation of an AllocSvr.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renew {
    /// The node.
    pub node: NodeId,
    /// The node's incarnation that renews.
    pub incarnation: Incarnation,
    /// Number of the renewal. It is the number of the incarnation's last renewal plus one, or the same number if this
    /// is a repeat of the last renewal.
    pub renew_seq: RenewSeq,
    /// Parts of the exact copies of sections that the incarnation has frozen permanently and is about to release. The
    /// store keeps the parts before it ends the ownerships in `released`. It skips a part of a section that the
    /// incarnation does not own.
    pub copies: Vec<CopyPart>,
    /// Ownerships that the incarnation gives up. The store skips an ownership that the incarnation does not have.
    pub released: Vec<(SectionId, Epoch)>,
    /// Ownerships that the incarnation has started from kept copies, so that the store can remove these copies.
    pub taken: Vec<(SectionId, Epoch)>,
    /// Whether the process is about to exit, so that the store gives it no more sections, and has its sections handed
    /// over to other nodes.
    pub leaving: bool,
}

/// Command that sets the lease terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTerms {
    /// The terms that this command replaces; `None` if no terms were set before. If the terms in the state are others
    /// than these, the command is refused.
    pub replaces: Option<Terms>,
    /// The new terms.
    pub terms: Terms,
}

/// Command that raises the ceilings of sections of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaiseCeilings {
    /// The node that owns the sections.
    pub node: NodeId,
    /// The node's incarnation that requests the raises.
    pub incarnation: Incarnation,
    /// The sections, each with its epoch and the requested ceiling.
    pub raises: Vec<Raise>,
}

/// Command that sets whether an AllocSvr may own sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Name of the node.
    pub name: String,
    /// True if the node is to hand all its sections over and get no more sections; false if it may own sections again.
    pub drained: bool,
}

/// Command that claims a Raft id for a member of the store.
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
    /// The requested ceiling, as an absolute number, up to [`Seq::MAX`]. If it is at or below the committed ceiling,
    /// nothing changes. If it is more than [`limits::MAX_RAISE`] above the committed ceiling, the ceiling is raised by
    /// [`limits::MAX_RAISE`] only, except in a section of ticks. The output of the command states the ceiling that is
    /// then committed.
    pub to: Seq,
}

/// A change of one section's owner. It is applied only if the section's record is still as the proposer read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reassign {
    /// The section.
    pub section: SectionId,
    /// The section's epoch as the proposer read it.
    pub expected: Epoch,
    /// The liveness counter of the section's owner as the proposer read it; `None` if the section had no owner, or the
    /// owner's incarnation was over. If a renewal or a raise of the owner is applied between that read and this
    /// command, the change is refused. The change is also refused if the owner's incarnation ended between the read and
    /// this command, because the counter may have grown before the incarnation ended.
    pub liveness: Option<Liveness>,
    /// The new owner.
    pub to: NodeId,
    /// The new owner's incarnation as the proposer read it.
    pub incarnation: Incarnation,
}

/// Command that commits a handover. All reasons to refuse it are permanent. So a refused transfer never takes effect
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

/// The ownership that began with a committed handover or departure.
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
    /// The lease could last longer than the time after which the store's leader gives a silent owner's sections to
    /// other nodes.
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
    /// An AllocSvr process reported that committed entries of this store are gone, so the set must be restored from a
    /// backup.
    #[error(
        "committed entries of the store are gone: node {} has seen revision {} before revision {} of this state, as after \
         old data directories were put back", loss.node, loss.seen, loss.noted
    )]
    EntriesLost {
        /// The report.
        loss: Loss,
    },
    /// The process that registers has received a response from a newer state than the store has now, so the store has
    /// lost committed entries.
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
    /// The parent of the incarnation's process reported that the process has ended.
    #[error("the process of node {node} in incarnation {incarnation} was reported dead by its parent")]
    ProcessDied {
        /// The node.
        node: NodeId,
        /// The incarnation that died.
        incarnation: Incarnation,
    },
    /// The number of the renewal is neither that of the incarnation's next renewal nor that of a repeat of its last
    /// renewal.
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
    /// The name of the series is empty, is too long, or has characters that are not allowed in such names.
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
    /// A series of this name exists with another shape or other lanes, the series of this name is retired, or the name
    /// is that of a keyspace. A name is never used for a second series.
    #[error("a series named {name:?} exists {}: a name is used once, permanently",
        if *retired { "and is retired" } else { "with another shape or other lanes" })]
    SeriesExists {
        /// The name in the command.
        name: String,
        /// Whether that series is retired.
        retired: bool,
    },
    /// The cluster has a keyspace of uids with another name. A sparse uid would have a counter in each of two.
    #[error("keyspace {name:?} has the uids outside of the declared range, and a cluster has one such keyspace")]
    KeyspaceOfUidsExists {
        /// Name of the keyspace of uids.
        name: String,
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
    /// The list of series that another set states cannot be adopted. It differs from the list in this log, is older
    /// than the hand-over of the layout that is stated with it, or was sent to the layout writer.
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
