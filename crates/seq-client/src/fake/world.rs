//! State shared by the servers of a fake set: counters without a ceiling, and the route table.

use std::collections::HashMap;
use std::net::SocketAddr;

use parking_lot::Mutex;
use seq_core::route::{Adopted, Route, RouteNode, RouteRun, RouteTable, RouteUpdate};
use seq_core::{
    Advance, AdvanceLimit, Count, Epoch, Layout, NodeId, Reading, Refusal, RouteVersion, Section, SectionId, Seq, Step,
    Take, Target, Uid, limits,
};

use super::FakeSet;

/// Distance of a section's new base above every allocated number after a crash: the usual step.
const STEP: u64 = 10_000;

#[derive(Debug)]
pub(super) struct World {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: RouteTable,
    sections: HashMap<SectionId, Counters>,
}

/// A section and the highest number it allocated.
#[derive(Debug)]
struct Counters {
    section: Section,
    highest: Seq,
}

impl World {
    pub(super) fn new(set: &FakeSet, addrs: &[SocketAddr]) -> World {
        assert!(!addrs.is_empty(), "a set has a server");
        let layout = Layout::new(set.uids.clone(), set.section_size).expect("a layout");
        let node = |(index, addr): (usize, &SocketAddr)| {
            (node_id(index), RouteNode { name: format!("a{}", index + 1), addr: addr.to_string() })
        };
        let route = |section: u32| Route::here(Some(node_id(section as usize % addrs.len())), Epoch(1));
        let update = RouteUpdate {
            id: seq_core::SetId(7),
            sets: [].into(),
            set: set.name.clone(),
            layout: layout.clone(),
            version: RouteVersion(1),
            base: RouteVersion(0),
            nodes: addrs.iter().enumerate().map(node).collect(),
            runs: (0..layout.sections())
                .map(|section| RouteRun { first: SectionId(section), sections: 1, route: route(section) })
                .collect(),
        };
        let table = RouteTable::from_whole(&update).expect("a whole table");
        World { state: Mutex::new(State { table, sections: HashMap::new() }) }
    }

    pub(super) fn next(&self, uid: Uid, count: Count, seen: Epoch) -> Result<(Seq, Seq, Epoch), Refusal> {
        let mut state = self.state.lock();
        let (section, slot) = state.table.layout().locate(uid)?;
        let epoch = state.serve(section, seen)?;
        let counters = state.counters(section);
        match counters.section.take(slot, count) {
            Take::Given { value, prev, .. } => {
                counters.highest = counters.highest.max(value);
                Ok((value, prev, epoch))
            }
            Take::AtCeiling { .. } | Take::Frozen => Err(Refusal::CeilingStalled { section }),
            Take::Exhausted => Err(Refusal::Exhausted { uid, count: count.get() }),
        }
    }

    pub(super) fn advance(&self, uid: Uid, to: Target, seen: Epoch) -> Result<Epoch, Refusal> {
        let mut state = self.state.lock();
        let (section, slot) = state.table.layout().locate(uid)?;
        let epoch = state.serve(section, seen)?;
        let counters = state.counters(section);
        match counters.section.advance(slot, to, AdvanceLimit(limits::DEFAULT_MAX_ADVANCE)) {
            Advance::Done { .. } => {
                counters.highest = counters.highest.max(to.seq());
                Ok(epoch)
            }
            Advance::Past => Err(Refusal::AlreadyPast { uid }),
            Advance::TooFar { bound } => Err(Refusal::AdvanceTooFar { to: to.seq().0, bound }),
            Advance::AtCeiling { .. } | Advance::Frozen => Err(Refusal::CeilingStalled { section }),
        }
    }

    pub(super) fn current(&self, uid: Uid, seen: Epoch) -> Result<(Reading, Epoch), Refusal> {
        let mut state = self.state.lock();
        let (section, slot) = state.table.layout().locate(uid)?;
        let epoch = state.serve(section, seen)?;
        let reading = state.counters(section).section.current(slot).ok_or(Refusal::CeilingStalled { section })?;
        Ok((reading, epoch))
    }

    pub(super) fn routes_since(&self, version: RouteVersion) -> Option<RouteUpdate> {
        self.state.lock().table.since(version)
    }

    /// Changes the owner of a uid's section, under a new epoch.
    pub(super) fn assign(&self, uid: u64, owner: Option<usize>) {
        let mut state = self.state.lock();
        let section = state.section_of(uid);
        let epoch = state.table.get(section).unwrap_or_default().epoch.next();
        let base = state.table.version();
        let update = RouteUpdate {
            id: seq_core::SetId(7),
            sets: [].into(),
            set: state.table.set().to_owned(),
            layout: state.table.layout().clone(),
            version: RouteVersion(base.0 + 1),
            base,
            nodes: state.table.nodes().clone(),
            runs: vec![RouteRun { first: section, sections: 1, route: Route::here(owner.map(node_id), epoch) }],
        };
        assert_eq!(state.table.adopt(&update), Adopted::Newer);
    }

    /// Drops the exact counters of a uid's section, as a crash of the owner does.
    pub(super) fn crash(&self, uid: u64) {
        let mut state = self.state.lock();
        let section = state.section_of(uid);
        let counters = state.counters(section);
        let ceiling = Seq(counters.highest.0 + STEP);
        *counters = Counters::new(counters.section.uids(), ceiling);
    }
}

impl State {
    fn section_of(&self, uid: u64) -> SectionId {
        self.table.layout().locate(Uid(uid)).expect("a uid of the set").0
    }

    /// The epoch of a section's owner; a refusal if the section has no owner or the caller has seen a newer epoch.
    fn serve(&self, section: SectionId, seen: Epoch) -> Result<Epoch, Refusal> {
        let route = self.table.get(section).unwrap_or_default();
        match route.owner {
            None => Err(Refusal::Unserved { section }),
            Some(_) if route.epoch < seen => Err(Refusal::StaleEpoch { section, mine: route.epoch, callers: seen }),
            Some(_) => Ok(route.epoch),
        }
    }

    fn counters(&mut self, section: SectionId) -> &mut Counters {
        let uids = self.table.layout().uids_of(section);
        let uids = u32::try_from(uids.end - uids.start).expect("a section's uids fit");
        self.sections.entry(section).or_insert_with(|| Counters::new(uids, Seq::ZERO))
    }
}

impl Counters {
    fn new(uids: u32, base: Seq) -> Counters {
        let section = Section::takeover(uids, base, Step(STEP));
        // One raise to the maximum: a fake set never waits for a store.
        assert!(section.raised(Seq::MAX).is_none(), "a new section has no pending raise");
        Counters { section, highest: base }
    }
}

fn node_id(index: usize) -> NodeId {
    NodeId(u32::try_from(index + 1).expect("few servers"))
}
