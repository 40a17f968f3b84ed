//! Who should own what: the changes of owner that the arbiter beside the store's leader proposes.
//!
//! A plan is only a proposal. Each change names the epoch it was made for, and the store applies it only if the record
//! still has that epoch, so a plan made from an old state harms nobody. What is left to the caller: when to plan, how long
//! the grace is, and cutting a plan into log entries.

use alloc::vec::Vec;

use crate::id::SectionId;
use crate::placement::{self, Candidate};
use crate::state::{Reassign, SectionRecord, State};

/// Most changes of owner in one log entry: as many as raises, for the same reason. The entry is one write of the log.
pub const MAX_REASSIGNS: usize = crate::limits::MAX_RAISES;

/// An AllocSvr that the set file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its share relative to the others.
    pub weight: u32,
}

/// Plans the changes of owner that `state` calls for, in order of section.
///
/// A section whose owner has begun a new life goes to that life. A section without an owner goes where
/// [`placement::propose`] puts it among the declared nodes that have registered, once all of them have or `grace_over`:
/// sections handed out before the last node came would all have to move.
#[must_use]
pub fn plan(state: &State, declared: &[Declared<'_>], grace_over: bool) -> Vec<Reassign> {
    let candidates = registered(state, declared);
    let place = !candidates.is_empty()
        && (grace_over || candidates.len() == declared.len())
        && state.sections.iter().any(|record| record.owner.is_none());
    let placed = if place { placement::propose(state.sections.len() as u32, &candidates) } else { Vec::new() };

    let change = |(record, section): (&SectionRecord, u32)| {
        let to = match record.owner {
            Some(owner) => owner,
            None => *placed.get(section as usize)?,
        };
        let incarnation = state.node(to)?.incarnation;
        let settled = record.owner.is_some() && record.incarnation == incarnation;
        (!settled).then_some(Reassign { section: SectionId(section), expected: record.epoch, to, incarnation })
    };
    state.sections.iter().zip(0..).filter_map(change).collect()
}

/// Whether sections wait for nodes that have not registered yet, so that a plan after the grace would differ.
#[must_use]
pub fn waits(state: &State, declared: &[Declared<'_>]) -> bool {
    let candidates = registered(state, declared);
    !candidates.is_empty()
        && candidates.len() < declared.len()
        && state.sections.iter().any(|record| record.owner.is_none())
}

fn registered<'a>(state: &State, declared: &[Declared<'a>]) -> Vec<Candidate<'a>> {
    let find = |node: &Declared<'a>| {
        let (id, _) = state.nodes().find(|(_, record)| record.name == node.name)?;
        Some(Candidate { id, name: node.name, weight: node.weight })
    };
    declared.iter().filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::id::{Epoch, Incarnation, NodeId};
    use crate::layout::Layout;
    use crate::state::{Answer, Command, SetDefinition};

    const BOTH: [Declared<'_>; 2] = [Declared { name: "a1", weight: 1 }, Declared { name: "a2", weight: 1 }];

    fn set_of(sections: u64) -> State {
        let mut state = State::default();
        let layout = Layout::new(0..sections * 10, 10).unwrap();
        state.apply(&Command::DefineSet(SetDefinition { name: String::from("s"), layout }));
        state
    }

    fn register(state: &mut State, name: &str, token: u64) -> (NodeId, Incarnation) {
        let command = Command::Register { name: name.into(), addr: "127.0.0.1:1".into(), token };
        match state.apply(&command) {
            Answer::Registered(Ok(life)) => life,
            other => panic!("{other:?}"),
        }
    }

    fn settle(state: &mut State, grace_over: bool) -> usize {
        let changes = plan(state, &BOTH, grace_over);
        let made = changes.len();
        match state.apply(&Command::Reassign(changes)) {
            Answer::Reassigned(outcome) => assert!(outcome.iter().all(Option::is_some)),
            other => panic!("{other:?}"),
        }
        made
    }

    #[test]
    fn sections_wait_for_all_declared_nodes_or_the_grace() {
        let mut state = set_of(100);
        assert_eq!(plan(&state, &BOTH, true), [], "nobody registered");
        assert!(!waits(&state, &BOTH));
        register(&mut state, "a1", 1);
        assert_eq!(plan(&state, &BOTH, false), []);
        assert!(waits(&state, &BOTH));
        assert_eq!(plan(&state, &BOTH, true).len(), 100);
        register(&mut state, "a2", 2);
        assert!(!waits(&state, &BOTH));

        assert_eq!(settle(&mut state, false), 100);
        for node in [1, 2] {
            let owned = state.owned_by(NodeId(node), Incarnation(1)).count();
            assert!((45..=55).contains(&owned), "node {node} owns {owned} of 100");
        }
        assert_eq!(plan(&state, &BOTH, true), [], "a settled state calls for nothing");
    }

    #[test]
    fn a_new_life_takes_its_sections_back_under_the_next_epoch() {
        let mut state = set_of(10);
        register(&mut state, "a1", 1);
        register(&mut state, "a2", 2);
        settle(&mut state, false);
        let before: Vec<SectionId> = state.owned_by(NodeId(1), Incarnation(1)).map(|(section, _)| section).collect();

        register(&mut state, "a1", 3);
        assert_eq!(settle(&mut state, false), before.len());
        let after: Vec<_> = state.owned_by(NodeId(1), Incarnation(2)).map(|(id, record)| (id, record.epoch)).collect();
        assert_eq!(after, before.iter().map(|section| (*section, Epoch(2))).collect::<Vec<_>>());
        assert_eq!(plan(&state, &BOTH, true), []);
    }

    #[test]
    fn a_node_that_the_set_file_does_not_name_is_given_nothing() {
        let mut state = set_of(10);
        register(&mut state, "a9", 1);
        assert_eq!(plan(&state, &BOTH, true), []);
        register(&mut state, "a1", 2);
        assert!(plan(&state, &BOTH, true).iter().all(|change| change.to == NodeId(2)));
    }
}
