//! Hosts of a simulated world. Each AllocSvr and each member of a store has a host of its own, and all callers share
//! one host.
//!
//! In the simulator, a *name* is the index of an AllocSvr among the AllocSvrs of all sets, and a *member* is the index
//! of a store's member among the members of all stores.

use std::ops::Range;

use seq_core::SetId;

/// Number of AllocSvrs that each set declares.
pub(crate) const NAMES: usize = 3;

/// Number of members of each store.
pub(crate) const MEMBERS: usize = 3;

/// The hosts of a world with a given number of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    pub(crate) sets: usize,
}

impl Hosts {
    /// Returns the number of AllocSvrs of all sets.
    pub(crate) fn names(self) -> usize {
        self.sets * NAMES
    }

    /// Returns the number of members of all stores.
    pub(crate) fn members(self) -> usize {
        self.sets * MEMBERS
    }

    /// Returns the number of machines, which are all hosts except the host of the callers.
    pub(crate) fn machines(self) -> usize {
        self.names() + self.members()
    }

    /// Returns the number of hosts.
    pub(crate) fn count(self) -> usize {
        self.machines() + 1
    }

    /// Returns the host of a member.
    pub(crate) fn of_member(self, member: usize) -> usize {
        self.names() + member
    }

    /// Returns the host of all callers.
    pub(crate) fn of_clients(self) -> usize {
        self.machines()
    }
}

/// Returns the names of a set.
pub(crate) fn names_of(set: usize) -> Range<usize> {
    set * NAMES..(set + 1) * NAMES
}

/// Returns the members of a set's store.
pub(crate) fn members_of(set: usize) -> Range<usize> {
    set * MEMBERS..(set + 1) * MEMBERS
}

/// Returns the set of a name.
pub(crate) fn set_of_name(name: usize) -> usize {
    name / NAMES
}

/// Returns the set of a member.
pub(crate) fn set_of_member(member: usize) -> usize {
    member / MEMBERS
}

/// Returns the id of a set in a world of several sets.
pub(crate) fn set_id(set: usize) -> SetId {
    SetId(set as u64 + 1)
}

/// Returns the set with an id.
pub(crate) fn index_of(id: SetId) -> usize {
    id.0 as usize - 1
}
