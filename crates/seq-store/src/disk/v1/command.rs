//! Commands: [`seq_core::state::Command`] and back.

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::state::{self, SetDefinition};
use seq_core::{Epoch, Incarnation, Layout, NodeId, RenewSeq, SectionId, Seq};

use super::Malformed;

/// A command. The order of the variants is the format.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) enum Command {
    DefineSet(Set),
    Register { name: String, addr: String, token: u64 },
    Renew { node: u32, incarnation: u64, renew_seq: u64 },
    Raise { node: u32, incarnation: u64, sections: Vec<u32>, epochs: Vec<u64>, to: Vec<u64> },
    Reassign { sections: Vec<u32>, expected: Vec<u64>, to: Vec<u32>, incarnations: Vec<u64> },
    ClaimStoreId { id: u64 },
}

/// A set's definition.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Set {
    name: String,
    start: u64,
    end: u64,
    section_size: u32,
}

impl From<&SetDefinition> for Set {
    fn from(set: &SetDefinition) -> Set {
        let uids = set.layout.uids();
        Set { name: set.name.clone(), start: uids.start, end: uids.end, section_size: set.layout.section_size() }
    }
}

impl Set {
    pub(super) fn into_core(self) -> Result<SetDefinition, Malformed> {
        let layout = Layout::new(self.start..self.end, self.section_size).map_err(|_| "the set's layout is none")?;
        Ok(SetDefinition { name: self.name, layout })
    }
}

impl From<&state::Command> for Command {
    fn from(command: &state::Command) -> Command {
        match command {
            state::Command::DefineSet(set) => Command::DefineSet(set.into()),
            state::Command::Register { name, addr, token } => {
                Command::Register { name: name.clone(), addr: addr.clone(), token: *token }
            }
            state::Command::Renew { node, incarnation, renew_seq } => {
                Command::Renew { node: node.0, incarnation: incarnation.0, renew_seq: renew_seq.0 }
            }
            state::Command::Raise { node, incarnation, raises } => Command::Raise {
                node: node.0,
                incarnation: incarnation.0,
                sections: raises.iter().map(|raise| raise.section.0).collect(),
                epochs: raises.iter().map(|raise| raise.epoch.0).collect(),
                to: raises.iter().map(|raise| raise.to.0).collect(),
            },
            state::Command::ClaimStoreId { id } => Command::ClaimStoreId { id: *id },
            state::Command::Reassign(moves) => Command::Reassign {
                sections: moves.iter().map(|one| one.section.0).collect(),
                expected: moves.iter().map(|one| one.expected.0).collect(),
                to: moves.iter().map(|one| one.to.0).collect(),
                incarnations: moves.iter().map(|one| one.incarnation.0).collect(),
            },
        }
    }
}

impl Command {
    pub(crate) fn into_core(self) -> Result<state::Command, Malformed> {
        Ok(match self {
            Command::DefineSet(set) => state::Command::DefineSet(set.into_core()?),
            Command::Register { name, addr, token } => state::Command::Register { name, addr, token },
            Command::Renew { node, incarnation, renew_seq } => state::Command::Renew {
                node: NodeId(node),
                incarnation: Incarnation(incarnation),
                renew_seq: RenewSeq(renew_seq),
            },
            Command::Raise { node, incarnation, sections, epochs, to } => {
                if epochs.len() != sections.len() || to.len() != sections.len() {
                    return Err("a raise's columns differ in length");
                }
                let raises = sections.into_iter().zip(epochs).zip(to);
                let raises = raises.map(|((section, epoch), to)| state::Raise {
                    section: SectionId(section),
                    epoch: Epoch(epoch),
                    to: Seq(to),
                });
                state::Command::Raise {
                    node: NodeId(node),
                    incarnation: Incarnation(incarnation),
                    raises: raises.collect(),
                }
            }
            Command::ClaimStoreId { id } => state::Command::ClaimStoreId { id },
            Command::Reassign { sections, expected, to, incarnations } => {
                let rows = sections.len();
                if expected.len() != rows || to.len() != rows || incarnations.len() != rows {
                    return Err("a reassignment's columns differ in length");
                }
                let moves = sections.into_iter().zip(expected).zip(to).zip(incarnations);
                let moves = moves.map(|(((section, expected), to), incarnation)| state::Reassign {
                    section: SectionId(section),
                    expected: Epoch(expected),
                    to: NodeId(to),
                    incarnation: Incarnation(incarnation),
                });
                state::Command::Reassign(moves.collect())
            }
        })
    }
}
