//! Records of operators' requests about the placement of sections: moves of sections to a node, and a pause of
//! balancing.
//!
//! These records alone change no owner. The store's leader considers them when it plans changes of owner, which it
//! makes by the usual commands. So an owner that has died is replaced even if an operator moved sections to it, or
//! paused balancing.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::audit::check_text;
use super::events::EventRecord;
use super::{CommandRefusal, State};
use crate::id::{NodeId, SectionId};
use crate::limits;

/// Changes that operators made to the placement of a set's sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balancing {
    paused: Option<Pause>,
    moved: BTreeMap<SectionId, NodeId>,
    /// Number of changes so far.
    version: u64,
}

/// A pause of balancing, until an operator ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Time when the pause began, in milliseconds since 1970 by the clock of the store's leader. It is only shown to
    /// people.
    pub since_unix_ms: u64,
    /// Identity of the operator who began it.
    pub principal: String,
}

/// Command that moves sections to a node, which keeps them for as long as it can own them. Without a node, the command
/// ends such moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveSections {
    /// The sections, at most [`limits::MAX_MOVED`], all in this set.
    pub sections: Vec<SectionId>,
    /// The node that is to own the sections; `None` ends earlier moves of the sections, so that they are balanced
    /// again.
    pub to: Option<NodeId>,
}

/// Begins or ends a pause of balancing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseBalancing(pub Option<Pause>);

impl Balancing {
    /// Creates the value from the pause and the moved sections of a decoded state. `version` is the number of changes
    /// so far.
    #[must_use]
    pub fn from_parts(paused: Option<Pause>, moved: BTreeMap<SectionId, NodeId>, version: u64) -> Balancing {
        Balancing { paused, moved, version }
    }

    /// Returns the pause, if balancing is paused.
    #[must_use]
    pub fn paused(&self) -> Option<&Pause> {
        self.paused.as_ref()
    }

    /// Returns the node that an operator moved a section to.
    #[must_use]
    pub fn moved(&self, section: SectionId) -> Option<NodeId> {
        self.moved.get(&section).copied()
    }

    /// Returns all sections that operators moved, in ascending order, each with the node to which it was moved.
    pub fn all_moved(&self) -> impl ExactSizeIterator<Item = (SectionId, NodeId)> {
        self.moved.iter().map(|(section, node)| (*section, *node))
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Forgets the move of a section that is no longer in the set.
    pub(super) fn left(&mut self, section: SectionId) {
        if self.moved.remove(&section).is_some() {
            self.version += 1;
        }
    }

    /// Ends the pause and all moves after a restore, because the ids of nodes can belong to other nodes after the
    /// restore.
    pub(super) fn clear(&mut self) {
        *self = Balancing { version: self.version + 1, ..Balancing::default() };
    }
}

impl State {
    pub(super) fn move_sections(&mut self, change: &MoveSections) -> Result<(), CommandRefusal> {
        let MoveSections { sections, to } = change;
        if sections.len() > limits::MAX_MOVED {
            return Err(CommandRefusal::TooManyMoved { sections: sections.len() });
        }
        if let Some(node) = to.filter(|node| self.node(*node).is_none()) {
            return Err(CommandRefusal::UnknownNode { node });
        }
        if let Some(&section) = sections.iter().find(|section| self.sections.resident(**section).is_none()) {
            return Err(CommandRefusal::NotInSet { section });
        }
        for section in sections {
            match to {
                Some(node) => self.balancing.moved.insert(*section, *node),
                None => self.balancing.moved.remove(section),
            };
        }
        self.balancing.version += 1;
        Ok(())
    }

    pub(super) fn pause_balancing(&mut self, pause: &PauseBalancing) -> Result<(), CommandRefusal> {
        let PauseBalancing(pause) = pause;
        if let Some(pause) = pause {
            check_text(&pause.principal)?;
        }
        // The operator who paused first stays on record.
        if pause.is_none() || self.balancing.paused.is_none() {
            let was_paused = self.balancing.paused.is_some();
            self.balancing.paused.clone_from(pause);
            self.balancing.version += 1;
            if was_paused != pause.is_some() {
                self.note_event(EventRecord::Balancing { paused: pause.is_some() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::layout::Layout;
    use crate::state::{Answer, Command, Registration, SetDefinition};

    fn state() -> State {
        let mut state = State::default();
        state.apply(&Command::DefineSet(SetDefinition::only("s", Layout::new(0..100, 10).unwrap())));
        state.apply(&Command::Register(Registration::new("a1", "h:1", 7)));
        state
    }

    fn moved(state: &mut State, sections: &[u32], to: Option<u32>) -> Result<(), CommandRefusal> {
        let sections = sections.iter().copied().map(SectionId).collect();
        let change = MoveSections { sections, to: to.map(NodeId) };
        let Answer::SectionsMoved(outcome) = state.apply(&Command::MoveSections(change)) else { unreachable!() };
        outcome
    }

    fn paused(state: &mut State, since_unix_ms: u64, principal: &str) -> Result<(), CommandRefusal> {
        let pause = PauseBalancing(Some(Pause { since_unix_ms, principal: principal.into() }));
        let Answer::BalancingPaused(outcome) = state.apply(&Command::PauseBalancing(pause)) else { unreachable!() };
        outcome
    }

    #[test]
    fn all_sections_of_a_command_are_moved_or_none_is() {
        let state = &mut state();
        assert_eq!(moved(state, &[3, 4], Some(1)), Ok(()));
        let version = state.balancing.version();
        assert_eq!(moved(state, &[5], Some(9)), Err(CommandRefusal::UnknownNode { node: NodeId(9) }));
        assert_eq!(moved(state, &[5, 10], Some(1)), Err(CommandRefusal::NotInSet { section: SectionId(10) }));
        let many = vec![5; limits::MAX_MOVED + 1];
        assert_eq!(moved(state, &many, Some(1)), Err(CommandRefusal::TooManyMoved { sections: many.len() }));
        assert_eq!(state.balancing.version(), version, "a refusal changes nothing");
        let all: Vec<_> = state.balancing.all_moved().collect();
        assert_eq!(all, [(SectionId(3), NodeId(1)), (SectionId(4), NodeId(1))]);
        assert_eq!(moved(state, &[4, 5], None), Ok(()));
        assert_eq!((state.balancing.moved(SectionId(3)), state.balancing.moved(SectionId(4))), (Some(NodeId(1)), None));
        assert!(state.balancing.version() > version);
    }

    #[test]
    fn the_first_pause_stays_on_record_until_it_is_ended() {
        let state = &mut state();
        assert_eq!(paused(state, 5, "operator/alice"), Ok(()));
        assert_eq!(paused(state, 6, "operator/bob"), Ok(()));
        let pause = state.balancing.paused().unwrap();
        assert_eq!((pause.since_unix_ms, pause.principal.as_str()), (5, "operator/alice"));
        let end = Command::PauseBalancing(PauseBalancing(None));
        assert_eq!(state.apply(&end), Answer::BalancingPaused(Ok(())));
        assert_eq!(state.balancing.paused(), None);
        let long = "x".repeat(limits::MAX_AUDIT_TEXT + 1);
        assert_eq!(paused(state, 7, &long), Err(CommandRefusal::AuditTextTooLong { bytes: long.len() }));
    }
}
