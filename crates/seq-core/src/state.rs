//! What the store keeps for one set, and the only function that changes it.
//!
//! Every member of the store applies the same commands in the same order. [`State::apply`] is deterministic: it reads no
//! clock and draws nothing, and it asserts that no epoch, ceiling or incarnation ever falls.
//!
//! A ceiling moves only for the owner that the record names, under its epoch, in its incarnation. A new ownership starts
//! at the committed ceiling under the next epoch, so every raise of the old one either precedes it in the log or is
//! refused. That is why no number is given out twice, without any clock.

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{Epoch, Incarnation, NodeId, RenewSeq, RouteVersion, SectionId, Seq};
use crate::layout::Layout;
use crate::limits;
use crate::route::{self, Route, RouteNode, RouteUpdate};

/// The committed state of one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The set's definition; `None` until the first command of the log defines it.
    pub set: Option<SetDefinition>,
    /// One record for each section of the set's layout, by [`SectionId`].
    pub sections: Vec<SectionRecord>,
    /// Every AllocSvr that ever registered; the node with id `n` stands at `n - 1`.
    pub nodes: Vec<NodeRecord>,
    /// Version of the route table; grows with each command that changes an owner or a node's address.
    pub route_version: RouteVersion,
    /// Every Raft id that a member of the store ever had, in order.
    pub store_ids: Vec<u64>,
}

/// What a set is, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDefinition {
    /// Name of the set.
    pub name: String,
    /// Its uids and sections. A change of either would give uids other counters, so there is none.
    pub layout: Layout,
}

/// What is committed of one section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionRecord {
    /// Number of the ownership; never falls.
    pub epoch: Epoch,
    /// The owner; `None` while nobody owns the section.
    pub owner: Option<NodeId>,
    /// The life of the owner that owns it; 0 without an owner.
    pub incarnation: Incarnation,
    /// The ceiling: no number above it may leave a process. Never falls.
    pub max_seq: Seq,
    /// Version of the route table that changed the owner last.
    pub routed: RouteVersion,
}

impl SectionRecord {
    /// The only way a record changes.
    fn advance(&mut self, next: SectionRecord) {
        assert!(next.max_seq >= self.max_seq, "a ceiling would fall: {self:?} to {next:?}");
        let same_ownership = (next.owner, next.incarnation) == (self.owner, self.incarnation);
        let epoch_holds = if same_ownership { next.epoch >= self.epoch } else { next.epoch > self.epoch };
        assert!(epoch_holds, "an ownership would not get an epoch of its own: {self:?} to {next:?}");
        *self = next;
    }
}

/// What is committed of one AllocSvr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Name in the set file.
    pub name: String,
    /// Address of its gRPC port.
    pub addr: String,
    /// Its newest life, 1 or above; never falls.
    pub incarnation: Incarnation,
    /// Random number of that life; makes a repeated registration recognisable.
    pub token: u64,
    /// Its last renewal in that life.
    pub renew_seq: RenewSeq,
}

/// An entry of the store's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Says what the set is. The first one counts; repeating it is harmless, another one is refused.
    DefineSet(SetDefinition),
    /// Starts a new life of an AllocSvr.
    Register {
        /// Name in the set file.
        name: String,
        /// Address of its gRPC port.
        addr: String,
        /// Random number of the process, not 0.
        token: u64,
    },
    /// Says that a life of an AllocSvr goes on.
    Renew {
        /// The node.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// The last renewal's number plus one, or the last one again.
        renew_seq: RenewSeq,
    },
    /// Raises ceilings.
    Raise {
        /// The node that owns the sections.
        node: NodeId,
        /// Its life.
        incarnation: Incarnation,
        /// The sections, with the ownership and the ceiling wanted.
        raises: Vec<Raise>,
    },
    /// Changes owners.
    Reassign(Vec<Reassign>),
    /// Takes a Raft id for a member of the store, for good.
    ClaimStoreId {
        /// The id.
        id: u64,
    },
}

/// One section's raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raise {
    /// The section.
    pub section: SectionId,
    /// The ownership that asks.
    pub epoch: Epoch,
    /// The absolute ceiling wanted, up to [`Seq::MAX`]. One that is not above the committed ceiling changes nothing; its
    /// answer is the committed ceiling.
    pub to: Seq,
}

/// One section's change of owner, made only if its record still is what the proposer saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reassign {
    /// The section.
    pub section: SectionId,
    /// Its epoch as the proposer saw it.
    pub expected: Epoch,
    /// The new owner.
    pub to: NodeId,
    /// The life of the new owner as the proposer saw it.
    pub incarnation: Incarnation,
}

/// What applying a command answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Command::DefineSet`]: the set as it stands.
    SetDefined(Result<(), CommandRefusal>),
    /// To [`Command::Register`].
    Registered(Result<(NodeId, Incarnation), CommandRefusal>),
    /// To [`Command::Renew`].
    Renewed(Result<(), CommandRefusal>),
    /// To [`Command::Raise`]: in order, the section's committed ceiling, or `None` where the node does not own the
    /// section under that epoch, or wants more than [`Seq::MAX`].
    Raised(Result<Vec<Option<Seq>>, CommandRefusal>),
    /// To [`Command::Reassign`]: in order, the new epoch, or `None` where the record is not what the proposer saw.
    Reassigned(Vec<Option<Epoch>>),
    /// To [`Command::ClaimStoreId`]: whether it was free.
    StoreIdClaimed(bool),
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
        /// What the store holds.
        stored: SetDefinition,
        /// What the command says.
        given: SetDefinition,
    },
    /// No set is defined yet.
    #[error("the store has no set yet")]
    NoSet,
    /// The set has as many nodes as it may.
    #[error("the set has {} nodes already, the most it may have", limits::MAX_NODES)]
    TooManyNodes,
    /// No such node registered.
    #[error("no node with id {node} registered here")]
    UnknownNode {
        /// The id in the command.
        node: NodeId,
    },
    /// The life is over, or never was.
    #[error("node {node} is in incarnation {current}, not {given}")]
    OtherIncarnation {
        /// The node.
        node: NodeId,
        /// Its newest life.
        current: Incarnation,
        /// The life in the command.
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
}

impl State {
    /// Applies one committed command. Deterministic.
    ///
    /// # Panics
    /// When a committed value would fall; the process must stop rather than serve from a broken state.
    pub fn apply(&mut self, command: &Command) -> Answer {
        match command {
            Command::DefineSet(given) => Answer::SetDefined(self.define_set(given)),
            Command::Register { name, addr, token } => Answer::Registered(self.register(name, addr, *token)),
            Command::Renew { node, incarnation, renew_seq } => {
                Answer::Renewed(self.renew(*node, *incarnation, *renew_seq))
            }
            Command::Raise { node, incarnation, raises } => Answer::Raised(self.raise(*node, *incarnation, raises)),
            Command::Reassign(moves) => Answer::Reassigned(self.reassign(moves)),
            Command::ClaimStoreId { id } => Answer::StoreIdClaimed(self.claim_store_id(*id)),
        }
    }

    /// A node's record.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeRecord> {
        (id.0 as usize).checked_sub(1).and_then(|index| self.nodes.get(index))
    }

    /// Every node with its id, in order of id.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeRecord)> {
        (1..).map(NodeId).zip(&self.nodes)
    }

    /// The sections that a life of a node owns, in order.
    pub fn owned_by(
        &self,
        node: NodeId,
        incarnation: Incarnation,
    ) -> impl Iterator<Item = (SectionId, &SectionRecord)> {
        let owns = move |record: &SectionRecord| record.owner == Some(node) && record.incarnation == incarnation;
        (0..).map(SectionId).zip(&self.sections).filter(move |(_, record)| owns(record))
    }

    /// The routes that are newer than `since`; `None` when there are none, or no set yet.
    #[must_use]
    pub fn routes_since(&self, since: RouteVersion) -> Option<RouteUpdate> {
        let set = self.set.as_ref()?;
        if since >= self.route_version {
            return None;
        }
        let changed = self.sections.iter().zip(0..).filter(|(record, _)| record.routed > since);
        let route = |record: &SectionRecord| Route { owner: record.owner, epoch: record.epoch };
        Some(RouteUpdate {
            set: set.name.clone(),
            layout: set.layout,
            version: self.route_version,
            base: since,
            nodes: self
                .nodes()
                .map(|(id, node)| (id, RouteNode { name: node.name.clone(), addr: node.addr.clone() }))
                .collect(),
            runs: route::runs(changed.map(|(record, section)| (SectionId(section), route(record)))),
        })
    }

    fn define_set(&mut self, given: &SetDefinition) -> Result<(), CommandRefusal> {
        match &self.set {
            None => {
                self.sections = alloc::vec![SectionRecord::default(); given.layout.sections() as usize];
                self.set = Some(given.clone());
                Ok(())
            }
            Some(stored) if stored == given => Ok(()),
            Some(stored) => Err(CommandRefusal::OtherSet { stored: stored.clone(), given: given.clone() }),
        }
    }

    fn register(&mut self, name: &str, addr: &str, token: u64) -> Result<(NodeId, Incarnation), CommandRefusal> {
        if self.set.is_none() {
            return Err(CommandRefusal::NoSet);
        }
        let known = self.nodes.iter().position(|node| node.name == name);
        let index = match known {
            Some(index) if self.nodes[index].token == token => index,
            Some(index) => {
                let node = &mut self.nodes[index];
                node.incarnation = node.incarnation.next();
                node.token = token;
                node.renew_seq = RenewSeq(0);
                if node.addr != addr {
                    node.addr = String::from(addr);
                    self.route_version.0 += 1;
                }
                index
            }
            None if self.nodes.len() == limits::MAX_NODES => return Err(CommandRefusal::TooManyNodes),
            None => {
                self.nodes.push(NodeRecord {
                    name: name.into(),
                    addr: addr.into(),
                    incarnation: Incarnation(1),
                    token,
                    renew_seq: RenewSeq(0),
                });
                self.route_version.0 += 1;
                self.nodes.len() - 1
            }
        };
        Ok((NodeId(index as u32 + 1), self.nodes[index].incarnation))
    }

    fn renew(&mut self, id: NodeId, incarnation: Incarnation, renew_seq: RenewSeq) -> Result<(), CommandRefusal> {
        self.living(id, incarnation)?;
        let node = &mut self.nodes[id.0 as usize - 1];
        let repeat = renew_seq == node.renew_seq;
        if !repeat && renew_seq.0 != node.renew_seq.0 + 1 {
            return Err(CommandRefusal::OtherRenewal { node: id, current: node.renew_seq, given: renew_seq });
        }
        node.renew_seq = renew_seq;
        Ok(())
    }

    fn raise(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        raises: &[Raise],
    ) -> Result<Vec<Option<Seq>>, CommandRefusal> {
        self.living(node, incarnation)?;
        let raise_one = |raise: &Raise| {
            let record = self.sections.get_mut(raise.section.0 as usize)?;
            let owns = record.owner == Some(node) && record.incarnation == incarnation && record.epoch == raise.epoch;
            if !owns || raise.to > Seq::MAX {
                return None;
            }
            record.advance(SectionRecord { max_seq: record.max_seq.max(raise.to), ..*record });
            Some(record.max_seq)
        };
        Ok(raises.iter().map(raise_one).collect())
    }

    fn reassign(&mut self, moves: &[Reassign]) -> Vec<Option<Epoch>> {
        let version = RouteVersion(self.route_version.0 + 1);
        let mut outcome = Vec::with_capacity(moves.len());
        for change in moves {
            outcome.push(self.reassign_one(change, version));
        }
        if outcome.iter().any(Option::is_some) {
            self.route_version = version;
        }
        outcome
    }

    fn reassign_one(&mut self, change: &Reassign, version: RouteVersion) -> Option<Epoch> {
        self.living(change.to, change.incarnation).ok()?;
        let record = self.sections.get_mut(change.section.0 as usize)?;
        if record.epoch != change.expected {
            return None;
        }
        record.advance(SectionRecord {
            epoch: record.epoch.next(),
            owner: Some(change.to),
            incarnation: change.incarnation,
            max_seq: record.max_seq,
            routed: version,
        });
        Some(record.epoch)
    }

    fn claim_store_id(&mut self, id: u64) -> bool {
        match self.store_ids.binary_search(&id) {
            Ok(_) => false,
            Err(place) => {
                self.store_ids.insert(place, id);
                true
            }
        }
    }

    fn living(&self, id: NodeId, given: Incarnation) -> Result<(), CommandRefusal> {
        let node = self.node(id).ok_or(CommandRefusal::UnknownNode { node: id })?;
        if node.incarnation != given {
            return Err(CommandRefusal::OtherIncarnation { node: id, current: node.incarnation, given });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
