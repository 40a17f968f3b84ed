//! The merged routes of a cluster. For each section of the cluster's layout, they have the newest route that any set
//! sent.
//!
//! The epochs of a section increase even if it moves between sets. So of two routes for a section, even from different
//! sets, the route with the larger epoch is newer, and a merge keeps that route. Merging is commutative, associative
//! and idempotent, so messages that arrive in a different order never replace a newer route by an older route.
//!
//! **Invariant:** a section's route is only ever replaced by a route that is newer by [`SectionRoute::is_newer`]. There
//! is one table for any number of sets. The table is divided into chunks of neighbouring sections. A new snapshot of
//! the directory shares all unchanged chunks with the snapshot from which it was made.

use std::sync::Arc;

use seq_core::{Epoch, NodeId, SectionId};

/// Index of a set in a client's list of sets. The list only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SetIndex(pub(crate) u16);

/// The newest route of a section that the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectionRoute {
    /// Epoch of the section's ownership, or, if the route has no owner, the epoch under which the section arrived in
    /// the set.
    pub(crate) epoch: Epoch,
    /// Set of the section.
    pub(crate) set: SetIndex,
    /// Owner of the section in that set; `None` if the section has no owner, or if the owner is not known.
    pub(crate) owner: Option<NodeId>,
    /// Whether a set other than `set` sent this route.
    pub(crate) is_claim: bool,
}

impl SectionRoute {
    /// Returns whether this route replaces `other`, that is, whether its epoch is larger. At equal epochs, a route with
    /// an owner replaces a claim, which is a route without an owner that another set stated. A claim replaces a route
    /// without an owner, because a set also sends such a route for a section of which it knows nothing.
    ///
    /// Two sets never have a section under the same epoch. If two routes state this nevertheless, the ids of the sets
    /// decide, only so that every copy of the routes keeps the same route. `id` returns the id of a set.
    fn is_newer(&self, other: &SectionRoute, id: impl Fn(SetIndex) -> u64) -> bool {
        let rank = |route: &SectionRoute| (route.epoch, route.owner.is_some(), route.is_claim);
        (rank(self), id(self.set), self.owner) > (rank(other), id(other.set), other.owner)
    }
}

/// Number of sections whose routes are in one chunk of the table. A chunk takes 6 KiB, and the table of the largest
/// layout has 4,096 chunks.
const CHUNK: usize = 256;

/// Routes of neighbouring sections; `None` if no set sent a route.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chunk([Option<SectionRoute>; CHUNK]);

/// The routes of all sections of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sections {
    chunks: Vec<Arc<Chunk>>,
}

impl Sections {
    /// Creates a table without any route.
    pub(crate) fn new(sections: u32) -> Sections {
        let empty = Arc::new(Chunk([None; CHUNK]));
        Sections { chunks: vec![empty; (sections as usize).div_ceil(CHUNK)] }
    }

    /// Makes room for the routes of sections below `end`.
    pub(crate) fn extend_to(&mut self, end: u32) {
        let chunks = (end as usize).div_ceil(CHUNK);
        if chunks > self.chunks.len() {
            self.chunks.resize(chunks, Arc::new(Chunk([None; CHUNK])));
        }
    }

    /// Returns the route of a section of the layout.
    #[inline]
    pub(crate) fn get(&self, section: SectionId) -> Option<SectionRoute> {
        let section = section.0 as usize;
        self.chunks.get(section / CHUNK)?.0[section % CHUNK]
    }

    /// Merges `route` into each of `sections` neighbouring sections that begin with `first`. Each section keeps the
    /// newer of its route and `route`. Returns whether any route changed. `id` maps a set's index to its id.
    pub(crate) fn merge(
        &mut self,
        first: SectionId,
        sections: u32,
        route: SectionRoute,
        id: impl Fn(SetIndex) -> u64,
    ) -> bool {
        let mut changed = false;
        let (mut at, end) = (first.0 as usize, first.0 as usize + sections as usize);
        while at < end {
            let (index, from) = (at / CHUNK, at % CHUNK);
            let to = (from + end - at).min(CHUNK);
            let is_newer = |known: &Option<SectionRoute>| known.is_none_or(|known| route.is_newer(&known, &id));
            // An unchanged chunk remains shared with older snapshots.
            if self.chunks[index].0[from..to].iter().any(is_newer) {
                let chunk = Arc::make_mut(&mut self.chunks[index]);
                chunk.0[from..to].iter_mut().filter(|known| is_newer(known)).for_each(|known| *known = Some(route));
                changed = true;
            }
            at += to - from;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECTIONS: u32 = 600;

    fn id(set: SetIndex) -> u64 {
        // Not in the order of the indexes, because the indexes depend on the order of messages.
        u64::from(set.0 * 7 % 5)
    }

    fn merged(runs: impl IntoIterator<Item = (u32, u32, SectionRoute)>) -> Sections {
        let mut sections = Sections::new(SECTIONS);
        for (first, count, route) in runs {
            sections.merge(SectionId(first), count, route, id);
        }
        sections
    }

    fn runs() -> impl Strategy<Value = Vec<(u32, u32, SectionRoute)>> {
        let route = (0u64..4, 0u16..4, prop::option::of(1u32..3)).prop_flat_map(|(epoch, set, owner)| {
            let owner = owner.map(NodeId);
            // A claim has no owner.
            let claims = if owner.is_some() { Just(false).boxed() } else { any::<bool>().boxed() };
            let route = move |is_claim| SectionRoute { epoch: Epoch(epoch), set: SetIndex(set), owner, is_claim };
            claims.prop_map(route)
        });
        let run = (0..SECTIONS, 1..SECTIONS, route);
        let run = run.prop_map(|(first, count, route)| (first, count.min(SECTIONS - first), route));
        prop::collection::vec(run, 0..12)
    }

    proptest! {
        /// Checks that merging the same routes in any order, and repeatedly, results in the same table, and that no
        /// merge replaces a route by an older route.
        #[test]
        fn merging_is_commutative_and_idempotent_and_never_falls(
            runs in runs(),
            swaps in prop::collection::vec(any::<prop::sample::Index>(), 12),
        ) {
            let mut sections = Sections::new(SECTIONS);
            for (first, count, route) in runs.iter().copied() {
                let before = sections.clone();
                let changed = sections.merge(SectionId(first), count, route, id);
                prop_assert_eq!(changed, sections != before);
                for section in (0..SECTIONS).map(SectionId) {
                    let (was, is) = (before.get(section), sections.get(section));
                    prop_assert!(was == is || was.is_none_or(|was| is.is_some_and(|is| is.is_newer(&was, id))));
                    let of_run = (first..first + count).contains(&section.0);
                    prop_assert!(!of_run || is.is_some_and(|is| !route.is_newer(&is, id)));
                }
                prop_assert!(!sections.merge(SectionId(first), count, route, id), "a repeat changes nothing");
            }
            let mut shuffled = runs.clone();
            for (at, swap) in (0..runs.len()).zip(swaps) {
                shuffled.swap(at, swap.index(runs.len()));
            }
            let repeated = shuffled.iter().chain(&runs).copied();
            prop_assert_eq!(&merged(shuffled.iter().copied()), &sections);
            prop_assert_eq!(&merged(repeated), &sections);
        }
    }

    #[test]
    fn a_merge_copies_the_chunks_that_change() {
        let route =
            |epoch| SectionRoute { epoch: Epoch(epoch), set: SetIndex(0), owner: Some(NodeId(1)), is_claim: false };
        let before = merged([(0, SECTIONS, route(1)), (300, 1, route(3))]);
        let mut after = before.clone();
        assert!(after.merge(SectionId(255), 46, route(2), id));
        let shared: Vec<_> = before.chunks.iter().zip(&after.chunks).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
        assert_eq!(shared, [false, false, true]);
        assert!(!after.merge(SectionId(300), 1, route(2), id));
        assert_eq!(after.get(SectionId(300)), Some(route(3)));
        assert_eq!(after.get(SectionId(SECTIONS + CHUNK as u32)), None);
    }

    #[test]
    fn an_owner_is_more_than_a_claim_and_a_claim_more_than_no_owner() {
        let claim = SectionRoute { epoch: Epoch(5), set: SetIndex(1), owner: None, is_claim: true };
        let owned = SectionRoute { owner: Some(NodeId(2)), is_claim: false, ..claim };
        let unknown = SectionRoute { set: SetIndex(0), is_claim: false, ..claim };
        for runs in [[unknown, claim, owned], [owned, claim, unknown], [claim, owned, unknown]] {
            let table = merged(runs.map(|route| (0, 1, route)));
            assert_eq!(table.get(SectionId(0)), Some(owned));
        }
        assert_eq!(merged([claim, unknown].map(|route| (0, 1, route))).get(SectionId(0)), Some(claim));
    }
}
