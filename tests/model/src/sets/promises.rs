//! The promises: violations by a step are recorded in the history, the other promises are read from a state.

use stateright::{Model, Property};

use crate::sets::bounds::Setting;
use crate::sets::protocol::Protocol;
use crate::sets::world::{Call, Claim, Promise, Record, Set, World};

/// Promises that the records of stores make to each other. A bug breaks one of these first, and later a promise to
/// callers.
pub(crate) const OF_RECORDS: [&str; 3] = [ONE_RESIDENCE, ONE_HOME, CLAIMS_LEAD];
const ONE_RESIDENCE: &str = "a section has one residence";
const ONE_HOME: &str = "an epoch has one home";
const CLAIMS_LEAD: &str = "every claim leads somewhere";

/// Returns the promises to callers and clients, and, unless only those are checked, the promises of the stores'
/// records.
pub(crate) fn properties(callers_only: bool) -> Vec<Property<Protocol>> {
    let mut all = vec![
        Property::always("no number is allocated twice", |_, world: &World| keeps(world, Promise::Unique)),
        Property::always("numbers are ordered in real time", |_, world: &World| keeps(world, Promise::Ordered)),
        Property::always("no number is above the committed ceiling", |_, world: &World| {
            keeps(world, Promise::UnderTheCeiling)
        }),
        Property::always("reads are truthful", |_, world: &World| keeps(world, Promise::TruthfulReads)),
        Property::always("a migration leaves no gap", |_, world: &World| keeps(world, Promise::NoGap)),
        Property::always("no call is forwarded in circles", |_, world: &World| keeps(world, Promise::NoCircle)),
        Property::always("no directory falls", |_, world: &World| keeps(world, Promise::DirectoryGrows)),
        Property::always("every call gets a response", responds_to_every_call),
        Property::always("no section is lost", is_somewhere),
    ];
    if !callers_only {
        all.push(Property::always(ONE_RESIDENCE, has_one_residence));
        all.push(Property::always(ONE_HOME, |_, world: &World| {
            world.history.epochs[Set::S] & world.history.epochs[Set::T] == 0
        }));
        all.push(Property::always(CLAIMS_LEAD, leads_somewhere));
    }
    all
}

fn keeps(world: &World, promise: Promise) -> bool {
    world.history.broken != Some(promise)
}

/// Returns whether in a calm world no call is left when no step is possible any more.
fn responds_to_every_call(model: &Protocol, world: &World) -> bool {
    if model.bounds.setting != Setting::Calm || world.calls.iter().all(|call| *call == Call::Answered) {
        return true;
    }
    let mut steps = Vec::new();
    model.actions(world, &mut steps);
    !steps.is_empty() || world.history.broken.is_some()
}

fn has_one_residence(_: &Protocol, world: &World) -> bool {
    let is_resident = |set: &Set| matches!(world.stores[*set].record, Record::Resident(_));
    !Set::ALL.iter().all(is_resident)
}

/// Returns whether the section is resident, may become so when a quarantine ends, or has a tombstone that the other set
/// takes.
fn is_somewhere(model: &Protocol, world: &World) -> bool {
    Set::ALL.into_iter().any(|set| {
        let (store, target) = (&world.stores[set], &world.stores[set.other()]);
        match store.record {
            Record::Never => false,
            Record::Resident(_) => true,
            Record::Quarantined { .. } => store.quarantined,
            Record::Departed(tombstone) => {
                let is_sent = !tombstone.arrived && store.lineage >= target.accepts;
                let is_read = target.quarantined && !model.is_lost(&tombstone);
                model.is_new(world, set.other(), &tombstone) && (is_sent || is_read)
            }
        }
    })
}

/// Returns whether the set that a claim names has had that epoch or receives it, or a later epoch is known; a
/// quarantine may hide it.
fn leads_somewhere(_: &Protocol, world: &World) -> bool {
    let is_quarantined = Set::ALL.iter().any(|set| world.stores[*set].quarantined);
    let leads = |claim: Claim| {
        let (home, other) = (&world.stores[claim.home], &world.stores[claim.home.other()]);
        let arrives = matches!(other.record, Record::Departed(tombstone) if tombstone.epoch >= claim.since);
        home.fence >= claim.since || other.fence > claim.since || arrives
    };
    is_quarantined
        || [world.client, world.stores[Set::S].directory, world.stores[Set::T].directory].into_iter().all(leads)
}
