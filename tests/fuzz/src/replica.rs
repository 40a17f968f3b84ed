//! A state of the store, and the invariants that must hold after each command.

use std::collections::BTreeSet;

use seq_core::series::Series;
use seq_core::state::{Answer, Command, SectionRecord, SetDefinition, State};
use seq_core::{Layout, Lineage, RouteVersion, SectionId, limits};

/// The set of every state. It has few sections, so that commands meet.
pub(crate) const SET: &str = "fuzz";
const UIDS: u64 = 350;
const SECTION_SIZE: u32 = 100;

/// A state of the store.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) state: State,
    /// The names of the commands that were applied.
    pub(crate) applied: BTreeSet<&'static str>,
}

/// Returns the layout of the set.
pub(crate) fn layout() -> Layout {
    Layout::new(0..UIDS, SECTION_SIZE).expect("a layout")
}

impl Replica {
    /// Creates a state with the set defined and nothing else.
    pub(crate) fn new() -> Replica {
        let mut replica = Replica { state: State::default(), applied: BTreeSet::new() };
        replica.apply(&Command::DefineSet(SetDefinition::only(SET, layout())));
        replica
    }

    /// Applies a command, and checks the state.
    pub(crate) fn apply(&mut self, command: &Command) -> Answer {
        self.applied.insert(command.name());
        let before = self.state.clone();
        let answer = self.state.apply(command);
        let mut twin = before.clone();
        assert_eq!((twin.apply(command), &twin), (answer.clone(), &self.state), "{command:?} was applied in two ways");
        self.never_falls(&before, command);
        self.is_consistent(command);
        answer
    }

    /// Restores the set from this state as from a backup.
    pub(crate) fn restore(&mut self, lineage: Lineage) {
        let before = self.state.sections.clone();
        if self.state.restore(lineage).is_ok() {
            for (section, old) in before.known() {
                let new = self.state.sections.get(section).expect("the layout stays");
                assert!(new.resident().is_none() && new.fence() == old.fence(), "{old:?} became {new:?}");
            }
        }
    }

    /// Checks that epochs, ceilings, incarnations, counts and versions never fall, and records are never removed.
    fn never_falls(&self, before: &State, command: &Command) {
        let after = &self.state;
        let continues = |old: &SetDefinition, new: &SetDefinition| {
            // The layout only grows, by the lanes of series.
            let grown = new.layout.lanes().count() == after.series.len() && new.layout.agrees(&old.layout);
            let layout = new.layout.clone();
            grown && layout.sections() >= old.layout.sections() && SetDefinition { layout, ..old.clone() } == *new
        };
        let same = before.set.as_ref().is_none_or(|old| after.set.as_ref().is_some_and(|new| continues(old, new)));
        assert!(same, "{command:?} changed the set");
        let retired = |(old, new): (&Series, &Series)| old.name == new.name && old.retired <= new.retired;
        assert!(before.series.iter().zip(&after.series).all(retired), "{command:?} changed a series");
        assert!(after.route_version >= before.route_version, "{command:?} took the routes back");
        assert!(after.revision > before.revision, "{command:?} was not counted");
        for (section, old) in before.sections.known() {
            let record = after.sections.get(section).expect("the layout stays");
            assert!(record.fence() >= old.fence(), "{command:?} took section {section} from {old:?} to {record:?}");
            self.never_leaves_twice(section, old, record, command);
            let (Some(old), Some(new)) = (old.resident(), record.resident()) else { continue };
            let id = section;
            let falls = new.epoch < old.epoch || new.max_seq < old.max_seq || new.routed < old.routed;
            assert!(!falls, "{command:?} took section {id} from {old:?} to {new:?}");
            let bound = old.max_seq.0.saturating_add(limits::MAX_RAISE);
            let lanes = after.set.as_ref().and_then(|set| set.layout.lanes_at(id));
            let ticks = lanes.is_some_and(|lanes| lanes.clock.is_some());
            assert!(ticks || new.max_seq.0 <= bound, "{command:?} raised section {id} from {old:?} to {new:?}");
            let same = (old.owner, old.incarnation) == (new.owner, new.incarnation);
            assert!(same || new.epoch > old.epoch, "{command:?} gave section {id} away under the epoch of {old:?}");
        }
        // A newer lineage continues as from a backup, without the nodes of the earlier lineage.
        let restored = after.lineage != before.lineage;
        assert!(!restored || matches!(command, Command::BeginLineage(_)), "{command:?} changed the lineage");
        let wrong = if restored { !after.nodes.is_empty() } else { after.nodes.len() < before.nodes.len() };
        assert!(!wrong, "{command:?} took the nodes from {:?} to {:?}", before.nodes, after.nodes);
        for (old, new) in before.nodes.iter().zip(&after.nodes) {
            let falls = new.incarnation < old.incarnation || new.liveness < old.liveness || new.name != old.name;
            assert!(!falls, "{command:?} took a node from {old:?} to {new:?}");
        }
        let kept = before.store_ids.iter().all(|id| after.store_ids.contains(id));
        assert!(kept, "{command:?} freed a store's id");
    }

    /// Checks that a section that departed is here again only under a higher epoch, and no record is removed.
    fn never_leaves_twice(&self, section: SectionId, old: &SectionRecord, new: &SectionRecord, command: &Command) {
        let returned = old.resident().is_none() && new.resident().is_some();
        let kept = *new != SectionRecord::Never && (!returned || new.fence() > old.fence());
        assert!(kept, "{command:?} took section {section} from {old:?} to {new:?}");
    }

    /// Checks that every reader of a state can read this state.
    fn is_consistent(&self, command: &Command) {
        let State { sections, nodes, store_ids, route_version, .. } = &self.state;
        assert!(store_ids.is_sorted_by(|one, next| one < next), "{command:?} left {store_ids:?}");
        for (id, record) in sections.residents() {
            let known = record.owner.is_none_or(|owner| self.state.node(owner).is_some());
            assert!(known, "{command:?} gave section {id} to a node that never registered: {record:?}");
            assert!(record.routed <= *route_version, "{command:?} routed section {id} in the future: {record:?}");
        }
        let mut names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, next| one < next), "{command:?} left two nodes of one name");
        for since in [0, route_version.0 / 2, route_version.0] {
            let update = self.state.routes_since(RouteVersion(since));
            assert_eq!(update.is_some(), since < route_version.0);
        }
    }
}
