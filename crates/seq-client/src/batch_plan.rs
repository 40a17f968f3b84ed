//! Splits the items of a batch call into one group for each owner, and merges the results of the groups into the order
//! of the call.
//!
//! Invariant: all items of a uid are in the same group, in the order of the call. In the common case that all items
//! have the same owner, the batch is not copied.

use std::borrow::Cow;

use seq_core::NodeId;

use crate::directory::sections::SetIndex;

/// Destination of requests for an item: the index of the set of its counter's section, and the section's owner if it is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) set: SetIndex,
    pub(crate) owner: Option<NodeId>,
}

/// Items with the same destination, in the order of the request.
#[derive(Debug)]
pub(crate) struct Group<'a, T: Clone> {
    pub(crate) items: Cow<'a, [T]>,
    /// Count of numbers for each item; empty if each item requests one number.
    pub(crate) counts: Cow<'a, [u32]>,
    /// Set of the items' sections.
    pub(crate) set: SetIndex,
}

/// A batch split into groups.
#[derive(Debug)]
pub(crate) struct Plan<'a, T: Clone> {
    pub(crate) groups: Vec<Group<'a, T>>,
    /// Index of the group of each item in [`Plan::groups`]; empty if there is only one group.
    group_of: Vec<u32>,
}

/// Marker in [`Plan::group_of`] for an item whose uid is in no set.
const OUTSIDE: u32 = u32::MAX;

impl<'a, T: Clone> Plan<'a, T> {
    /// Splits the items of a batch call, of which there must be at least one. `destination` returns `None` for an item
    /// whose uid is in no known set.
    pub(crate) fn new(
        items: &'a [T],
        counts: &'a [u32],
        destination: impl Fn(&T) -> Option<Destination>,
    ) -> Plan<'a, T> {
        let first = destination(&items[0]);
        if let Some(Destination { set, .. }) = first
            && items[1..].iter().all(|item| destination(item) == first)
        {
            let group = Group { items: Cow::Borrowed(items), counts: Cow::Borrowed(counts), set };
            return Plan { groups: vec![group], group_of: Vec::new() };
        }
        let mut destinations: Vec<Destination> = Vec::new();
        let mut groups: Vec<Group<'_, T>> = Vec::new();
        let mut group_of = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let Some(destination) = destination(item) else {
                group_of.push(OUTSIDE);
                continue;
            };
            // There are few owners, so a scan is faster than a map.
            let group = destinations.iter().position(|known| *known == destination).unwrap_or_else(|| {
                destinations.push(destination);
                let (items, counts) = (Cow::Owned(Vec::new()), Cow::Owned(Vec::new()));
                groups.push(Group { items, counts, set: destination.set });
                groups.len() - 1
            });
            groups[group].items.to_mut().push(item.clone());
            groups[group].counts.to_mut().extend(counts.get(index));
            group_of.push(group as u32);
        }
        Plan { groups, group_of }
    }

    /// Returns whether an item is outside every set.
    pub(crate) fn has_outside(&self) -> bool {
        self.group_of.contains(&OUTSIDE)
    }

    /// Returns whether the items are in several sets.
    pub(crate) fn spans_sets(&self) -> bool {
        self.groups.windows(2).any(|pair| pair[0].set != pair[1].set)
    }

    /// Merges the results of all groups into one list in the order of the call. `results` has the list of each group,
    /// in the order of [`Plan::groups`]. `outside` returns the result for an item whose uid is in no known set.
    pub(crate) fn merge<R>(&self, items: &[T], results: Vec<Vec<R>>, outside: impl Fn(&T) -> R) -> Vec<R> {
        assert_eq!(results.len(), self.groups.len());
        if self.group_of.is_empty() {
            return results.into_iter().next().expect("one group");
        }
        let mut results: Vec<_> = results.into_iter().map(Vec::into_iter).collect();
        let merge = |(group, item): (&u32, &T)| match *group {
            OUTSIDE => outside(item),
            group => results[group as usize].next().expect("a result for each item of the group"),
        };
        self.group_of.iter().zip(items).map(merge).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the destination of a uid in one of three sets, or `None` for a uid between two sets. The result depends
    /// only on the uid.
    fn destination(uid: &u64) -> Option<Destination> {
        let uid = *uid;
        let owner = NodeId((uid % 3) as u32);
        (uid % 7 != 6)
            .then_some(Destination { set: SetIndex((uid / 100) as u16), owner: (owner.0 != 0).then_some(owner) })
    }

    #[test]
    fn a_batch_of_one_owner_is_not_copied() {
        let uids = [1, 4, 1, 22];
        let plan = Plan::new(&uids, &[], destination);
        assert!(matches!(plan.groups.as_slice(), [Group { items: Cow::Borrowed(_), .. }]));
        assert!(!plan.has_outside());
    }

    proptest! {
        #[test]
        fn every_item_gets_its_own_result(
            items in prop::collection::vec((0u64..300, 1u32..9), 1..80),
            counted: bool,
        ) {
            let (uids, mut counts): (Vec<u64>, Vec<u32>) = items.into_iter().unzip();
            if !counted {
                counts.clear();
            }
            let plan = Plan::new(&uids, &counts, destination);
            let sets: std::collections::BTreeSet<_> = uids.iter().filter_map(|uid| Some(destination(uid)?.set)).collect();
            prop_assert_eq!(plan.spans_sets(), sets.len() > 1);
            prop_assert_eq!(plan.has_outside(), uids.iter().any(|uid| destination(uid).is_none()));
            // Each result identifies its item by uid and occurrence; the twin computes the same results without groups.
            let nth = |list: &[u64], index: usize| list[..index].iter().filter(|uid| **uid == list[index]).count();
            let mut results = Vec::new();
            for group in &plan.groups {
                prop_assert_eq!(group.counts.len(), if counted { group.items.len() } else { 0 });
                let destinations: Vec<_> = group.items.iter().map(destination).collect();
                prop_assert!(destinations.iter().all(|each| *each == destinations[0] && each.is_some()));
                prop_assert!(destinations[0].is_some_and(|destination| destination.set == group.set));
                let result = |index| (group.items[index], group.counts.get(index).copied(), nth(&group.items, index));
                results.push((0..group.items.len()).map(result).collect::<Vec<_>>());
            }
            let merged = plan.merge(&uids, results, |uid| (*uid, None, usize::MAX));
            let twin: Vec<_> = (0..uids.len()).map(|index| match destination(&uids[index]) {
                Some(_) => (uids[index], counts.get(index).copied(), nth(&uids, index)),
                None => (uids[index], None, usize::MAX),
            }).collect();
            prop_assert_eq!(merged, twin);
        }
    }
}
