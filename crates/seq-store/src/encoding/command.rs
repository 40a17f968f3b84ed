//! Archived types of commands, and the conversions from and to [`seq_core::state::Command`].

use std::time::Duration;

use rkyv::{Archive, Deserialize, Serialize};
use seq_core::layout::SectionRun;
use seq_core::state::{self, Home, Registration, SetDefinition};
use seq_core::{Epoch, HandoverId, Incarnation, Layout, Liveness, NodeId, RenewSeq, Revision, SectionId, Seq, SetId};

use super::Contradiction;
use super::set_command::SetCommand;

/// Archived form of a command. The order of the variants is part of the format. Large variants of rare commands are
/// boxed, so that they do not make frequent commands, such as renewals, larger.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) enum Command {
    DefineSet(Box<Set>),
    Register {
        name: String,
        addr: String,
        peer_addr: String,
        token: u64,
        lease_nanos: u64,
        follows: u64,
        seen: u64,
    },
    Renew {
        node: u32,
        incarnation: u64,
        renew_seq: u64,
        released: Vec<u32>,
        epochs: Vec<u64>,
        leaving: bool,
    },
    Raise {
        node: u32,
        incarnation: u64,
        sections: Vec<u32>,
        epochs: Vec<u64>,
        to: Vec<u64>,
    },
    Reassign {
        sections: Vec<u32>,
        expected: Vec<u64>,
        liveness: Vec<Option<u64>>,
        to: Vec<u32>,
        incarnations: Vec<u64>,
    },
    Transfer(Transfer),
    Drain {
        name: String,
        drained: bool,
    },
    ClaimStoreId {
        id: u64,
    },
    SetTerms {
        replaces: Option<Terms>,
        terms: Terms,
    },
    Sets(Box<SetCommand>),
}

/// Archived form of a set's lease terms.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug)]
pub(crate) struct Terms {
    lease_wait_nanos: u64,
}

impl From<state::Terms> for Terms {
    fn from(terms: state::Terms) -> Terms {
        Terms { lease_wait_nanos: nanos(terms.lease_wait) }
    }
}

impl From<Terms> for state::Terms {
    fn from(terms: Terms) -> state::Terms {
        state::Terms { lease_wait: Duration::from_nanos(terms.lease_wait_nanos) }
    }
}

/// Converts a duration to nanoseconds, at most `u64::MAX`, which is 584 years. The state refuses commands with such
/// long durations anyway, so this limit changes no result.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Archived form of the command that commits a handover.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Transfer {
    section: u32,
    epoch: u64,
    from: u32,
    incarnation: u64,
    to: u32,
    to_incarnation: u64,
    handover_id: u64,
}

impl From<&state::Transfer> for Transfer {
    fn from(transfer: &state::Transfer) -> Transfer {
        Transfer {
            section: transfer.section.0,
            epoch: transfer.epoch.0,
            from: transfer.from.0,
            incarnation: transfer.incarnation.0,
            to: transfer.to.0,
            to_incarnation: transfer.to_incarnation.0,
            handover_id: transfer.handover_id.0,
        }
    }
}

impl From<Transfer> for state::Transfer {
    fn from(transfer: Transfer) -> state::Transfer {
        state::Transfer {
            section: SectionId(transfer.section),
            epoch: Epoch(transfer.epoch),
            from: NodeId(transfer.from),
            incarnation: Incarnation(transfer.incarnation),
            to: NodeId(transfer.to),
            to_incarnation: Incarnation(transfer.to_incarnation),
            handover_id: HandoverId(transfer.handover_id),
        }
    }
}

/// Archived form of a set's definition. It has one vector for each field of the layout's spaces, and one vector for
/// each field of the homes.
#[derive(Archive, Serialize, Deserialize, Debug)]
pub(crate) struct Set {
    name: String,
    id: u64,
    starts: Vec<u64>,
    ends: Vec<u64>,
    section_sizes: Vec<u32>,
    homes: Runs,
    home_sets: Vec<u64>,
}

impl From<&SetDefinition> for Set {
    fn from(set: &SetDefinition) -> Set {
        Set {
            name: set.name.clone(),
            id: set.id.0,
            starts: vec![set.layout.uids().start],
            ends: vec![set.layout.uids().end],
            section_sizes: vec![set.layout.section_size()],
            homes: Runs::from_core(set.homes.iter().map(|home| home.sections)),
            home_sets: set.homes.iter().map(|home| home.set.0).collect(),
        }
    }
}

impl Set {
    pub(super) fn into_core(self) -> Result<SetDefinition, Contradiction> {
        let Set { name, id, starts, ends, section_sizes, homes, home_sets } = self;
        let (&[start], &[end], &[section_size]) = (&starts[..], &ends[..], &section_sizes[..]) else {
            return Err("the set's layout has another number of ranges than one");
        };
        if home_sets.len() != homes.len() {
            return Err("the columns of the set's definition differ in length");
        }
        let layout = Layout::new(start..end, section_size).map_err(|_| "the set's layout is none")?;
        let home = |(sections, set)| Home { sections, set: SetId(set) };
        let homes = homes.into_core()?.into_iter().zip(home_sets).map(home).collect();
        Ok(SetDefinition { name, id: SetId(id), layout, homes })
    }
}

/// Archived form of runs of neighbouring sections, with one vector for each field.
#[derive(Archive, Serialize, Deserialize, Debug, Default)]
pub(crate) struct Runs {
    firsts: Vec<u32>,
    sections: Vec<u32>,
}

impl Runs {
    pub(super) fn from_core(runs: impl Iterator<Item = SectionRun>) -> Runs {
        let (firsts, sections) = runs.map(|run| (run.first.0, run.sections)).unzip();
        Runs { firsts, sections }
    }

    pub(super) fn len(&self) -> usize {
        self.firsts.len()
    }

    pub(super) fn into_core(self) -> Result<Vec<SectionRun>, Contradiction> {
        if self.sections.len() != self.firsts.len() {
            return Err("the columns of runs differ in length");
        }
        let run = |(first, sections)| SectionRun { first: SectionId(first), sections };
        Ok(self.firsts.into_iter().zip(self.sections).map(run).collect())
    }
}

impl From<&state::Command> for Command {
    fn from(command: &state::Command) -> Command {
        match command {
            state::Command::DefineSet(set) => Command::DefineSet(Box::new(set.into())),
            state::Command::SetTerms(state::SetTerms { replaces, terms }) => {
                Command::SetTerms { replaces: replaces.map(Terms::from), terms: (*terms).into() }
            }
            // The number of the process belongs to a later format. Without it, no death of the process is reported.
            state::Command::Register(registration) => Command::Register {
                name: registration.name.clone(),
                addr: registration.addr.clone(),
                peer_addr: registration.peer_addr.clone(),
                token: registration.token,
                lease_nanos: nanos(registration.lease),
                follows: registration.follows.0,
                seen: registration.seen.0,
            },
            // Kept copies belong to a later format. Without a copy, the next ownership starts at its ceiling.
            state::Command::Renew(state::Renew { node, incarnation, renew_seq, released, leaving, .. }) => {
                Command::Renew {
                    node: node.0,
                    incarnation: incarnation.0,
                    renew_seq: renew_seq.0,
                    released: released.iter().map(|(section, _)| section.0).collect(),
                    epochs: released.iter().map(|(_, epoch)| epoch.0).collect(),
                    leaving: *leaving,
                }
            }
            state::Command::Raise(state::RaiseCeilings { node, incarnation, raises }) => Command::Raise {
                node: node.0,
                incarnation: incarnation.0,
                sections: raises.iter().map(|raise| raise.section.0).collect(),
                epochs: raises.iter().map(|raise| raise.epoch.0).collect(),
                to: raises.iter().map(|raise| raise.to.0).collect(),
            },
            state::Command::Reassign(moves) => Command::Reassign {
                sections: moves.iter().map(|one| one.section.0).collect(),
                expected: moves.iter().map(|one| one.expected.0).collect(),
                liveness: moves.iter().map(|one| one.liveness.map(|liveness| liveness.0)).collect(),
                to: moves.iter().map(|one| one.to.0).collect(),
                incarnations: moves.iter().map(|one| one.incarnation.0).collect(),
            },
            state::Command::Transfer(transfer) => Command::Transfer(transfer.into()),
            state::Command::Drain(state::Drain { name, drained }) => {
                Command::Drain { name: name.clone(), drained: *drained }
            }
            state::Command::ClaimStoreId(state::ClaimStoreId { id }) => Command::ClaimStoreId { id: *id },
            between_sets => Command::Sets(Box::new(SetCommand::from_core(between_sets))),
        }
    }
}

impl Command {
    pub(crate) fn into_core(self) -> Result<state::Command, Contradiction> {
        Ok(match self {
            Command::DefineSet(set) => state::Command::DefineSet(set.into_core()?),
            Command::SetTerms { replaces, terms } => state::Command::SetTerms(state::SetTerms {
                replaces: replaces.map(state::Terms::from),
                terms: terms.into(),
            }),
            Command::Register { name, addr, peer_addr, token, lease_nanos, follows, seen } => {
                state::Command::Register(Registration {
                    name,
                    addr,
                    peer_addr,
                    token,
                    lease: Duration::from_nanos(lease_nanos),
                    follows: Incarnation(follows),
                    seen: Revision(seen),
                    // This field belongs to a later format.
                    process: 0,
                })
            }
            Command::Renew { node, incarnation, renew_seq, released, epochs, leaving } => {
                if epochs.len() != released.len() {
                    return Err("a renewal's columns differ in length");
                }
                let released = released.into_iter().map(SectionId).zip(epochs.into_iter().map(Epoch)).collect();
                let (node, incarnation, renew_seq) = (NodeId(node), Incarnation(incarnation), RenewSeq(renew_seq));
                let earlier = state::Renew::default();
                state::Command::Renew(state::Renew { node, incarnation, renew_seq, released, leaving, ..earlier })
            }
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
                state::Command::Raise(state::RaiseCeilings {
                    node: NodeId(node),
                    incarnation: Incarnation(incarnation),
                    raises: raises.collect(),
                })
            }
            Command::Reassign { sections, expected, liveness, to, incarnations } => {
                if [expected.len(), liveness.len(), to.len(), incarnations.len()] != [sections.len(); 4] {
                    return Err("a reassignment's columns differ in length");
                }
                let moves = (0..sections.len()).map(|row| state::Reassign {
                    section: SectionId(sections[row]),
                    expected: Epoch(expected[row]),
                    liveness: liveness[row].map(Liveness),
                    to: NodeId(to[row]),
                    incarnation: Incarnation(incarnations[row]),
                });
                state::Command::Reassign(moves.collect())
            }
            Command::Transfer(transfer) => state::Command::Transfer(transfer.into()),
            Command::Drain { name, drained } => state::Command::Drain(state::Drain { name, drained }),
            Command::ClaimStoreId { id } => state::Command::ClaimStoreId(state::ClaimStoreId { id }),
            Command::Sets(command) => command.into_core()?,
        })
    }
}
