//! Worlds of two sets. In these worlds, sections migrate between the sets, sets are restored from backups, and one set
//! may be merged into the other.
//!
//! The code of stores and processes is the same as in worlds of one set. The modules here add messages between the
//! stores of the sets, and an operator of both sets.

mod between;
mod faults;
mod operator;
mod planted;
mod recovery;

pub(crate) use between::{Asked, Between};
pub(crate) use faults::{add_faults, draw};
pub(crate) use operator::Merge;

use seq_core::layout::SectionRun;
use seq_core::state::{Command, Home, LearnDirectory, SetDefinition, SetFacts, State};
use seq_core::{Layout, SectionId};

use crate::hosts::set_id;

/// Number of sets of such a world.
pub(crate) const SETS: usize = 2;

/// Returns the state with which a set begins. In this state, the set knows the other set, and has one half of all
/// sections. The first set has the first half.
pub(crate) fn defined(set: usize, layout: &Layout) -> State {
    let half = layout.sections() / SETS as u32;
    let home = |set: usize| Home {
        sections: SectionRun { first: SectionId(set as u32 * half), sections: half },
        set: set_id(set),
    };
    let mut state = State::default();
    let homes = (0..SETS).map(home).collect();
    let definition = SetDefinition { name: format!("s{set}"), id: set_id(set), layout: layout.clone(), homes };
    state.apply(&Command::DefineSet(definition));
    let other = 1 - set;
    let (id, revision, name) = (set_id(other), state.revision, format!("s{other}"));
    let facts = SetFacts { id, revision, name, ..SetFacts::default() };
    state.apply(&Command::LearnDirectory(LearnDirectory::of(facts)));
    state
}
