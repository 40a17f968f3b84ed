//! Tests of departures in a backup. Other sets may state newer records, and the set to which the section departed may
//! be closed.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::arbiter::Stranded;
use crate::migration::{Coordinator, Effect};

const OWN: SetId = SetId(1);
const OTHER: SetId = SetId(2);
const THIRD: SetId = SetId(3);
const SECTION: SectionId = SectionId(4);

fn lineage(count: u64) -> Lineage {
    Lineage(count << 32 | 7)
}

/// Creates a set that knows two other sets; all ten sections began in the first set.
fn set(id: SetId) -> State {
    let mut state = State::default();
    let layout = Layout::new(0..100, 10).unwrap();
    let homes = vec![Home { sections: SectionRun { first: SectionId(0), sections: 10 }, set: OWN }];
    let name = alloc::format!("s{id}");
    state.apply(&Command::DefineSet(SetDefinition { name, id, layout, homes }));
    for other in [OWN, OTHER, THIRD].into_iter().filter(|other| *other != id) {
        let name = alloc::format!("s{other}");
        let facts = SetFacts { id: other, revision: Revision(1), name, ..SetFacts::default() };
        let learned = state.apply(&Command::LearnDirectory(LearnDirectory::of(facts)));
        assert_eq!(learned, Answer::DirectoryLearned(Ok(true)));
    }
    state
}

/// Starts a migration of the section to another set.
fn migrate(state: &mut State, to: SetId) -> MigrationId {
    let id = MigrationId(9);
    let runs = vec![SectionRun { first: SECTION, sections: 1 }];
    let (lineage, layout_id) = (state.lineage, state.set.as_ref().unwrap().layout.id());
    let pace = Pace { rate: 1, max_pause: Duration::from_secs(1), paused: false };
    let fingerprint = state.fingerprint(to, &runs).unwrap();
    let start = StartMigration { id, to, lineage, layout_id, runs, pace, fingerprint };
    assert_eq!(state.apply(&Command::StartMigration(start)), Answer::MigrationStarted(Ok(id)));
    id
}

/// Sends the section away without an owner.
fn depart(state: &mut State, to: SetId) {
    let id = migrate(state, to);
    let (section, expected, liveness) = (SECTION, Epoch(0), None);
    let one = DepartSilent { section, expected, liveness, to, lineage: Lineage(0), migration: id };
    assert_eq!(state.apply(&Command::DepartSilent(vec![one])), Answer::DepartedSilently(vec![Some(Epoch(1))]));
}

/// From seed 3759 of two sets. Each confirmation extends the lease of the sender, and the wait of the arbiter does not
/// begin again for an incarnation that is over.
#[test]
fn a_repeated_departure_is_confirmed_only_while_its_incarnation_lives() {
    let mut own = set(OWN);
    register(&mut own, "a1", 1).unwrap();
    assert_eq!(reassign(&mut own, &[(SECTION.0, 0, 1, 1)]), [Some(Epoch(1))]);
    let migration = migrate(&mut own, OTHER);
    let (from, incarnation) = (NodeId(1), Incarnation(1));
    let to = Destination { set: OTHER, lineage: Lineage(0), node: None, incarnation: Incarnation(0) };
    let (epoch, handover_id) = (Epoch(1), HandoverId(7));
    let depart = Command::Depart(Depart { section: SECTION, epoch, from, incarnation, to, handover_id, migration });
    let confirmed = own.apply(&depart);
    assert!(matches!(confirmed, Answer::Departed(Ok(_))), "{confirmed:?}");
    assert_eq!(own.apply(&depart), confirmed);
    let mut dead = own.clone();
    dead.nodes[0].died = Some(Death { incarnation, at_unix_ms: 0 });
    let died = CommandRefusal::ProcessDied { node: from, incarnation };
    assert_eq!(dead.apply(&depart), Answer::Departed(Err(died)));
    register(&mut own, "a1", 2).unwrap();
    assert_eq!(own.apply(&depart), Answer::Departed(Err(other_incarnation(1, 2, 1))));
}

/// Lets the other sets fence a restored set, and lets the restored set learn their records.
fn ask(own: &mut State, others: &mut [&mut State]) {
    let (set, lineage) = (own.set.as_ref().unwrap().id, own.lineage);
    for other in others {
        assert_eq!(other.apply(&Command::Fence(Fence { set, lineage })), Answer::Fenced(Ok(())));
        let page = other.fence_response(set, lineage, SectionId(0)).unwrap();
        assert_eq!(own.apply(&Command::LearnRecords(page)), Answer::RecordsLearned(Ok(true)));
    }
}

fn end(own: &mut State) {
    let lineage = own.lineage;
    let ended = own.apply(&Command::EndQuarantine(EndQuarantine { lineage }));
    assert_eq!(ended, Answer::QuarantineEnded(Ok(())));
}

fn arrivals(state: &State) -> Vec<Arrive> {
    let effects = Coordinator::default().evaluate(state, &[], |_, _| true, Duration::ZERO);
    effects
        .into_iter()
        .filter_map(|one| if let Effect::Arrive { arrive, .. } = one { Some(arrive) } else { None })
        .collect()
}

/// Another set may state a record of a section that is newer than the departure in the backup.
#[test]
fn a_set_in_quarantine_sends_no_departure_of_its_backup() {
    let (mut own, mut other, mut third) = (set(OWN), set(OTHER), set(THIRD));
    depart(&mut own, OTHER);
    assert_eq!(arrivals(&own).len(), 1);
    own.restore(lineage(1)).unwrap();
    assert_eq!(arrivals(&own), []);
    ask(&mut own, &mut [&mut other, &mut third]);
    end(&mut own);
    assert_eq!(arrivals(&own).len(), 1, "no set states anything newer");
}

/// From seed 2830 of the worlds with restores. The set was closing, and was restored from a backup that was made before
/// it began to close.
#[test]
fn no_section_is_armed_for_a_set_that_this_log_has_as_closing() {
    let mut own = set(OWN);
    depart(&mut own, OTHER);
    let armed = |state: &State| {
        let stranded = [Stranded { section: SECTION, expected: Epoch(0), liveness: None }];
        let effects = Coordinator::default().evaluate(state, &stranded, |_, _| true, Duration::ZERO);
        effects.iter().any(|one| matches!(one, Effect::Arm { .. }))
    };
    own.sections.put(SECTION, SectionRecord::Resident(Residence::default()));
    assert!(armed(&own));
    own.sets.get_mut(&OTHER).unwrap().closing = true;
    assert!(!armed(&own));
}

/// The backup has a departure to a set that has closed since, and whose processes have stopped.
#[test]
fn a_closed_set_is_forgotten_once_another_set_states_where_its_sections_went() {
    let (mut own, mut third) = (set(OWN), set(THIRD));
    depart(&mut own, OTHER);
    own.restore(lineage(1)).unwrap();
    let forget = Command::Forget(Forget { set: OTHER });
    let awaits = SetRefusal::AwaitsSection { set: OTHER, section: SECTION };
    assert_eq!(own.apply(&forget), Answer::Forgotten(Err(awaits.into())));
    let residence = Residence { since: Epoch(2), epoch: Epoch(2), ..Residence::default() };
    third.sections.put(SECTION, SectionRecord::Resident(residence));
    ask(&mut own, &mut [&mut third]);
    assert_eq!(own.apply(&forget), Answer::Forgotten(Ok(true)));
    end(&mut own);
    let Some(SectionRecord::Departed(tombstone)) = own.sections.get(SECTION) else { panic!("it is elsewhere") };
    assert_eq!((tombstone.epoch, tombstone.to.set), (Epoch(2), THIRD));
}
