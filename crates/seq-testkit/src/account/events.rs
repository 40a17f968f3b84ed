//! Assigns the beginning of each ownership to its event.

use std::collections::{BTreeMap, BTreeSet};

use super::{Discrepancy, History, Ownership, OwnershipEvent};

/// Returns for each ownership the place of its event. Adds a discrepancy for each ownership that does not have exactly
/// one event, and for each event whose counts differ from its ownerships.
pub(super) fn assign(history: &History, found: &mut Vec<Discrepancy>) -> Vec<Option<usize>> {
    let mut indexes = BTreeSet::new();
    for event in &history.events {
        if !indexes.insert((&event.set, event.index)) {
            found.push(Discrepancy::SameIndex(event.set.clone(), event.index));
        }
    }
    let mut counts: Vec<BTreeMap<String, u32>> = vec![BTreeMap::new(); history.events.len()];
    let mut assigned = Vec::with_capacity(history.ownerships.len());
    for ownership in &history.ownerships {
        let places = history.events.iter().enumerate().filter(|(_, event)| has(event, ownership));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        for place in &places {
            *counts[*place].entry(ownership.owner.clone()).or_default() += 1;
        }
        assigned.push(places.first().copied());
        match places[..] {
            [_] => {}
            [] => found.push(Discrepancy::NoEvent(ownership.clone())),
            _ => {
                let indexes = places.iter().map(|place| history.events[*place].index).collect();
                found.push(Discrepancy::SeveralEvents(ownership.clone(), indexes));
            }
        }
    }
    for (event, counts) in history.events.iter().zip(counts) {
        let total: u32 = counts.values().sum();
        let named: u32 = event.to.keys().filter_map(|owner| counts.get(owner)).sum();
        let is_named = event.to.iter().all(|(owner, sections)| counts.get(owner) == Some(sections));
        if total != event.sections || !is_named || total - named != event.others {
            found.push(Discrepancy::EventCounts { event: event.clone(), found: counts });
        }
    }
    assigned
}

/// Returns whether the event can have the beginning of the ownership.
fn has(event: &OwnershipEvent, ownership: &Ownership) -> bool {
    let (first, last) = event.range;
    let (at, until) = event.times_ms;
    event.set == ownership.set
        && event.by == ownership.by
        && (!event.by.names_owner_before() || event.from == ownership.from)
        && (first..=last).contains(&ownership.section)
        && (at..=until).contains(&ownership.at_ms)
        && (event.others > 0 || event.to.contains_key(&ownership.owner))
}
