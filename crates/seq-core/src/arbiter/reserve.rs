//! Decides whether this set takes sections of another set, and which nodes of this set would own these sections.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Placement, Plan};
use crate::id::{Incarnation, LayoutId, NodeId, SectionId};
use crate::limits;
use crate::placement::Candidate;
use crate::state::{Closing, State};

/// Reason why a set names no owners for sections that another set is about to migrate to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    /// The set is not defined yet.
    #[error("the set is not defined yet")]
    NoSet,
    /// The set was restored from a backup, and must first learn from the other sets which sections the other sets have.
    #[error("set {set:?} was restored and takes no sections yet")]
    InQuarantine {
        /// Name of the set.
        set: String,
    },
    /// The set takes no more sections.
    #[error("set {set:?} is closing and takes no more sections")]
    Closing {
        /// Name of the set.
        set: String,
    },
    /// The request names too many sections.
    #[error("{sections} sections: name up to {}", limits::MAX_MOVES)]
    TooMany {
        /// Number of sections in the request.
        sections: usize,
    },
    /// The request is based on a layout that differs from this set's layout.
    #[error("the layout here is {ours}, and the request is of {given}")]
    OtherLayout {
        /// Hash of the whole layout here.
        ours: LayoutId,
        /// The hash in the request.
        given: LayoutId,
    },
    /// No node of the set can own sections.
    #[error("no allocator of set {set:?} can own sections now")]
    NoCandidate {
        /// Name of the set.
        set: String,
    },
}

/// The part of a leader that chooses owners for sections which other sets are about to migrate to this set. It keeps
/// the hash ring from one request to the next, because a migration asks for its sections one by one, up to some hundred
/// times a second.
#[derive(Debug, Default)]
pub struct Reserver {
    placement: Placement,
}

impl Reserver {
    /// Returns the node of this set that would own each of the `sections`, which are in another set. The owners are
    /// chosen from the plan's candidates as if this set already had these sections in addition to its own. The result
    /// is in the order of `sections`. `layout_id` is the hash of the other set's layout up to and including the space
    /// that contains the last of these sections.
    ///
    /// # Errors
    /// [`NotReserved`].
    pub fn reserve(
        &mut self,
        plan: &Plan,
        state: &State,
        layout_id: LayoutId,
        sections: &[SectionId],
    ) -> Result<Vec<(NodeId, Incarnation)>, NotReserved> {
        let set = state.set.as_ref().ok_or(NotReserved::NoSet)?;
        let name = || set.name.clone();
        if state.is_quarantined() {
            return Err(NotReserved::InQuarantine { set: name() });
        }
        if state.closing > Closing::Open {
            return Err(NotReserved::Closing { set: name() });
        }
        if sections.len() > limits::MAX_MOVES {
            return Err(NotReserved::TooMany { sections: sections.len() });
        }
        let last = sections.iter().max().copied().unwrap_or(SectionId(set.layout.sections() - 1));
        if set.layout.id_of(last) != Some(layout_id) {
            return Err(NotReserved::OtherLayout { ours: set.layout.id(), given: layout_id });
        }
        let placed = self.place(plan, state, sections);
        if placed.len() < sections.len() || plan.candidates.is_empty() {
            return Err(NotReserved::NoCandidate { set: name() });
        }
        Ok(placed)
    }

    /// Returns the owner of each section, without the sections that no candidate can own.
    fn place(&mut self, plan: &Plan, state: &State, sections: &[SectionId]) -> Vec<(NodeId, Incarnation)> {
        let candidate = |(id, weight): &(NodeId, u32)| {
            let name = state.node(*id)?.name.as_str();
            Some(Candidate { id: *id, name, weight: *weight })
        };
        let candidates: Vec<Candidate<'_>> = plan.candidates.iter().filter_map(candidate).collect();
        let mut all = state.sections.resident_ids();
        all.extend(sections);
        // The residents are in order already, which a stable sort makes use of.
        all.sort();
        all.dedup();
        let placed = self.placement.propose(state, &all, &candidates);
        let owner = |section: &SectionId| {
            let id = (*placed.get(all.binary_search(section).ok()?)?)?;
            Some((id, state.node(id)?.incarnation))
        };
        sections.iter().filter_map(owner).collect()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::time::Duration;

    use super::*;
    use crate::id::{Lineage, Revision};
    use crate::layout::Layout;
    use crate::state::{Command, Registration, SetDefinition};

    const SECTIONS: [SectionId; 2] = [SectionId(1), SectionId(3)];

    fn defined() -> (State, Plan, LayoutId) {
        let mut state = State::default();
        let layout = Layout::new(0..400, 100).unwrap();
        let layout_id = layout.id();
        state.apply(&Command::DefineSet(SetDefinition::only("im-a", layout)));
        let (name, addr) = (String::from("a1"), String::from("a1:1"));
        state.apply(&Command::Register(Registration {
            name,
            peer_addr: addr.clone(),
            addr,
            token: 1,
            lease: Duration::from_secs(2),
            follows: Incarnation(0),
            seen: Revision(0),
            process: 0,
        }));
        (state, Plan { candidates: vec![(NodeId(1), 1)], ..Plan::default() }, layout_id)
    }

    #[test]
    fn a_set_that_takes_sections_names_an_owner_for_each() {
        let (state, plan, layout_id) = defined();
        let owner = (NodeId(1), state.node(NodeId(1)).unwrap().incarnation);
        let mut reserver = Reserver::default();
        assert_eq!(reserver.reserve(&plan, &state, layout_id, &SECTIONS), Ok(vec![owner; 2]));
        assert_eq!(reserver.reserve(&plan, &state, layout_id, &[]), Ok(vec![]));
    }

    #[test]
    fn each_reason_to_take_no_section_is_named() {
        let (state, plan, layout_id) = defined();
        let set = || String::from("im-a");
        let refused =
            |state: &State, plan: &Plan| Reserver::default().reserve(plan, state, layout_id, &SECTIONS).unwrap_err();
        assert_eq!(refused(&State::default(), &plan), NotReserved::NoSet);

        let mut restored = state.clone();
        restored.restore(Lineage(1 << 32)).unwrap();
        assert_eq!(refused(&restored, &plan), NotReserved::InQuarantine { set: set() });

        for closing in [Closing::Closing, Closing::Closed] {
            let state = State { closing, ..state.clone() };
            assert_eq!(refused(&state, &plan), NotReserved::Closing { set: set() }, "{closing:?}");
        }
        let many = vec![SectionId(0); limits::MAX_MOVES + 1];
        let too_many = NotReserved::TooMany { sections: many.len() };
        let mut reserver = Reserver::default();
        assert_eq!(reserver.reserve(&plan, &state, layout_id, &many), Err(too_many));
        let given = LayoutId(layout_id.0 ^ 1);
        let other_layout = NotReserved::OtherLayout { ours: layout_id, given };
        assert_eq!(reserver.reserve(&plan, &state, given, &SECTIONS), Err(other_layout));
        assert_eq!(refused(&state, &Plan::default()), NotReserved::NoCandidate { set: set() });
        let beyond = NotReserved::OtherLayout { ours: layout_id, given: layout_id };
        assert_eq!(reserver.reserve(&plan, &state, layout_id, &[SectionId(u32::MAX)]), Err(beyond));
        let unknown = Plan { candidates: vec![(NodeId(9), 1)], ..Plan::default() };
        assert_eq!(refused(&state, &unknown), NotReserved::NoCandidate { set: set() }, "a node that never registered");
    }
}
