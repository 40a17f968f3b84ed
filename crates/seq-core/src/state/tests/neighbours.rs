//! Tests of the statements that a set accepts from other sets: counts of restores, facts about the stating set itself,
//! and limits on how far values may advance at once.

use alloc::format;
use alloc::vec;

use super::*;

const OWN: SetId = SetId(1);
const OTHER: SetId = SetId(2);
const THIRD: SetId = SetId(3);
const FIRST: Lineage = Lineage(1 << 32);

fn facts(id: SetId) -> SetFacts {
    SetFacts { id, revision: Revision(1), name: format!("s{id}"), ..SetFacts::default() }
}

/// Creates a set that has all ten sections and knows two other sets.
fn set() -> State {
    let mut state = State::default();
    let layout = Layout::new(0..100, 10).unwrap();
    state.apply(&Command::DefineSet(SetDefinition::first("s1", OWN, layout)));
    for other in [OTHER, THIRD] {
        assert_eq!(learn(&mut state, facts(other)), Ok(true));
    }
    state
}

fn learn(state: &mut State, facts: SetFacts) -> Result<bool, CommandRefusal> {
    let Answer::DirectoryLearned(learned) = state.apply(&Command::LearnDirectory(LearnDirectory::of(facts))) else {
        unreachable!("its own answer")
    };
    learned
}

fn fence(state: &mut State, set: SetId, lineage: Lineage) -> Result<(), CommandRefusal> {
    let Answer::Fenced(fenced) = state.apply(&Command::Fence(Fence { set, lineage })) else {
        unreachable!("its own answer")
    };
    fenced
}

/// The other set may have served a section of the third set, under the third set's count.
#[test]
fn a_fence_counts_more_than_any_set_that_the_log_knows() {
    let mut state = set();
    assert_eq!(fence(&mut state, THIRD, FIRST), Ok(()));
    let low = SetRefusal::TooFewRestores { given: Lineage(FIRST.0 + 7), least: 2 };
    assert_eq!(fence(&mut state, OTHER, Lineage(FIRST.0 + 7)), Err(low.into()));
    assert_eq!(fence(&mut state, OTHER, Lineage(2 << 32)), Ok(()));
    assert_eq!(state.most_restores(), 2);
    let before = State { rules: Rules::Seven, ..set() };
    let mut seven = before.clone();
    assert_eq!(fence(&mut seven, THIRD, FIRST), Ok(()));
    assert_eq!(fence(&mut seven, OTHER, Lineage(FIRST.0 + 7)), Ok(()), "members of a release before accept it");
}

#[test]
fn a_fence_raises_the_count_by_a_bounded_step() {
    let mut state = set();
    let far = Lineage(u64::from(limits::MAX_RESTORE_STEP + 1) << 32);
    let refusal = SetRefusal::FarLineage { set: OTHER, given: far, known: 0 };
    assert_eq!(fence(&mut state, OTHER, far), Err(refusal.into()));
    assert_eq!(fence(&mut state, OTHER, Lineage(u64::from(limits::MAX_RESTORE_STEP) << 32)), Ok(()));
    assert_eq!(fence(&mut state, SetId(9), far), Err(SetRefusal::UnknownSet { set: SetId(9) }.into()));
}

#[test]
fn a_set_speaks_for_itself_under_its_own_name_and_no_further_than_it_can_have_come() {
    let mut state = set();
    let before = state.clone();
    let of_third = LearnDirectory { from: Some(OTHER), claims: vec![], sets: vec![facts(THIRD)] };
    let refusal = SetRefusal::NotOfSender { from: OTHER, set: THIRD };
    assert_eq!(state.apply(&Command::LearnDirectory(of_third)), Answer::DirectoryLearned(Err(refusal.into())));
    let name = format!("s{OTHER}");
    let refusal = SetRefusal::NameTaken { set: SetId(7), known: OTHER, name: name.clone() };
    assert_eq!(learn(&mut state, SetFacts { name, ..facts(SetId(7)) }), Err(refusal.into()));
    // An unknown set with a certificate of its own could otherwise use the id of a known set.
    let name = "another".into();
    let refusal = SetRefusal::NameChanged { set: OTHER, known: format!("s{OTHER}"), given: "another".into() };
    assert_eq!(learn(&mut state, SetFacts { name, revision: Revision(2), ..facts(OTHER) }), Err(refusal.into()));
    let given = Revision(1 << 63);
    let refusal = SetRefusal::FarRevision { set: OTHER, known: Revision(1), given };
    assert_eq!(learn(&mut state, SetFacts { revision: given, ..facts(OTHER) }), Err(refusal.into()));
    assert_eq!(State { revision: before.revision, ..state.clone() }, before, "nothing changed");

    // An operator makes the set learn it anew.
    let version = state.route_version;
    assert_eq!(state.apply(&Command::Forget(Forget { set: OTHER })), Answer::Forgotten(Ok(true)));
    let routes = state.routes_since(version).unwrap();
    assert!(routes.base == RouteVersion(0) && !routes.sets.contains_key(&OTHER), "nodes forget it, too");
    assert_eq!(learn(&mut state, SetFacts { revision: given, ..facts(OTHER) }), Ok(true));
}

/// The forgotten set may still exist, and so may processes from before its restore.
#[test]
fn a_set_that_is_forgotten_stays_fenced() {
    let mut state = set();
    assert_eq!(fence(&mut state, OTHER, FIRST), Ok(()));
    for _ in 0..2 {
        assert_eq!(state.apply(&Command::Forget(Forget { set: OTHER })), Answer::Forgotten(Ok(true)));
        assert_eq!((state.most_restores(), state.least_of_fence(THIRD)), (1, 2), "no count is used again");
        let old = SetRefusal::OldLineage { set: OTHER, newest: FIRST, given: Lineage(0) };
        assert_eq!(learn(&mut state, facts(OTHER)), Err(old.clone().into()));
        let layout_id = state.set.as_ref().unwrap().layout.id();
        let (from_lineage, to_lineage) = (Lineage(0), Lineage(0));
        let arrive = Arrive { from: OTHER, from_lineage, to_lineage, layout_id, sections: vec![] };
        assert_eq!(state.apply(&Command::Arrive(arrive)), Answer::Arrived(Err(old.into())));
        assert_eq!(learn(&mut state, SetFacts { lineage: FIRST, ..facts(OTHER) }), Ok(true));
    }
    assert_eq!((state.sets[&OTHER].fenced, state.fences.len()), (FIRST, 0));
}

#[test]
fn a_set_claims_the_sections_that_are_in_it_and_no_others() {
    let mut state = set();
    let run = |first, since, set| {
        let sections = SectionRun { first: SectionId(first), sections: 1 };
        ClaimRun { sections, claim: Claim { since: Epoch(since), set } }
    };
    let claim = |from, claims| Command::LearnDirectory(LearnDirectory { from: Some(from), claims, sets: vec![] });
    let stolen = claim(THIRD, vec![run(4, 1 << 40, THIRD)]);
    assert_eq!(state.apply(&stolen), Answer::DirectoryLearned(Ok(false)));
    assert_eq!(state.directory.get(SectionId(4)).map(|known| known.set), Some(OWN));
    // After the section has departed to the other set, the other set may send it to the third set.
    state.directory.merge(&[run(4, 5, OTHER)], state.route_version);
    assert_eq!(state.apply(&stolen), Answer::DirectoryLearned(Ok(false)));
    assert_eq!(state.apply(&claim(OTHER, vec![run(4, 6, THIRD)])), Answer::DirectoryLearned(Ok(true)));
    assert_eq!(state.directory.get(SectionId(4)).map(|known| known.set), Some(THIRD));
}

/// Only the set that is closed according to the backup need not respond, no matter which facts are learned in
/// quarantine.
#[test]
fn a_quarantine_waits_for_a_set_that_closed_after_the_backup() {
    let mut backup = set();
    assert_eq!(
        learn(&mut backup, SetFacts { closing: Closing::Closed, revision: Revision(2), ..facts(OTHER) }),
        Ok(true)
    );
    backup.restore(FIRST).unwrap();
    let closed = SetFacts { closing: Closing::Closed, revision: Revision(3), ..facts(THIRD) };
    assert_eq!(learn(&mut backup, closed), Ok(true));
    let awaited = |state: &State| state.awaited_responses().map(|(set, _)| set).collect::<Vec<_>>();
    assert_eq!(awaited(&backup), [THIRD]);
    let again = BeginLineage { lineage: Lineage(5 << 32) };
    assert_eq!(backup.apply(&Command::BeginLineage(again)), Answer::LineageBegun(Ok(())));
    assert_eq!(awaited(&backup), [THIRD], "a newer lineage of the same backup");
}

/// The processes of the closed set are gone. The backup was made before that set joined the cluster, or before it
/// closed.
#[test]
fn a_closed_set_whose_records_another_one_has_inherited_is_not_awaited() {
    for joined in [false, true] {
        let mut backup = set();
        if !joined {
            assert_eq!(backup.apply(&Command::Forget(Forget { set: THIRD })), Answer::Forgotten(Ok(true)));
        }
        backup.restore(FIRST).unwrap();
        let page = FenceResponse {
            set: OTHER,
            lineage: Lineage(0),
            fenced: FIRST,
            first: SectionId(0),
            next: None,
            records: vec![],
            sets: vec![THIRD],
            closing: false,
            wait: Duration::ZERO,
            inherited: vec![(THIRD, Lineage(0))],
        };
        let mut without = backup.clone();
        let lacks = FenceResponse { inherited: vec![], ..page.clone() };
        assert_eq!(without.apply(&Command::LearnRecords(lacks)), Answer::RecordsLearned(Ok(true)));
        let awaited = |state: &State| state.awaited_responses().map(|(set, _)| set).collect::<Vec<_>>();
        assert_eq!(awaited(&without), [THIRD]);
        assert_eq!(backup.apply(&Command::LearnRecords(page)), Answer::RecordsLearned(Ok(true)));
        assert_eq!(awaited(&backup), []);
        let end = Command::EndQuarantine(EndQuarantine { lineage: FIRST });
        assert_eq!(backup.apply(&end), Answer::QuarantineEnded(Ok(())));
        assert_eq!(backup.inherited(), [(THIRD, Lineage(0))], "the records are here now");
        backup.closing = Closing::Closing;
        assert_eq!(backup.closing_waits_for().collect::<Vec<_>>(), [OTHER], "the closed set is gone");
        // The set was restored since, so it may have sections again.
        backup.closing = Closing::Open;
        assert_eq!(fence(&mut backup, THIRD, Lineage(2 << 32)), Ok(()));
        backup.restore(Lineage(3 << 32)).unwrap();
        assert_eq!(awaited(&backup), [OTHER, THIRD]);
    }
}

#[test]
fn a_quarantine_outlasts_the_leases_of_the_sets_that_respond() {
    let mut state = set();
    state.restore(FIRST).unwrap();
    let mut other = State::default();
    let definition = SetDefinition::joining("s2", OTHER, Layout::new(0..100, 10).unwrap());
    other.apply(&Command::DefineSet(definition));
    learn(&mut other, facts(OWN)).unwrap();
    let terms = Terms { lease_wait: Duration::from_secs(12) };
    assert_eq!(other.apply(&Command::SetTerms(SetTerms { replaces: None, terms })), Answer::TermsSet(Ok(())));
    fence(&mut other, OWN, FIRST).unwrap();
    let page = other.fence_response(OWN, FIRST, SectionId(0)).unwrap();
    let too_long = FenceResponse { wait: limits::MAX_LEASE_WAIT + Duration::from_millis(1), ..page.clone() };
    let refused = state.apply(&Command::LearnRecords(too_long));
    assert_eq!(refused, Answer::RecordsLearned(Err(SetRefusal::BadResponse { set: OTHER }.into())));
    assert_eq!(state.quarantine_wait(), Some(Terms::DEFAULTS.lease_wait));
    assert_eq!(state.apply(&Command::LearnRecords(page)), Answer::RecordsLearned(Ok(true)));
    assert_eq!(state.quarantine_wait(), Some(terms.lease_wait));
}

/// If another set could take over the note of a migration, it could get sections that came from the set of the
/// migration, or prevent their return.
#[test]
fn a_migration_belongs_to_the_set_that_its_sections_came_from() {
    let mut state = set();
    let id = MigrationId(77);
    assert_eq!(state.bind(id, OTHER), id);
    assert_eq!(state.bind(id, THIRD), MigrationId(0), "its sections do not return");
    let other = Err(SetRefusal::OtherMigration { migration: id }.into());
    let complete = Complete { id, by: Some(THIRD) };
    assert_eq!(state.apply(&Command::Complete(complete)), Answer::Completed(other.clone()));
    let pace = Pace { rate: 1, max_pause: Duration::from_secs(1), paused: false };
    let back = StartReturn { of: id, to: THIRD, id: MigrationId(78), pace, settled: true };
    assert_eq!(state.apply(&Command::StartReturn(back)), Answer::ReturnStarted(other.map(|()| id)));
    let back = StartReturn { to: OTHER, ..back };
    assert_eq!(state.apply(&Command::StartReturn(back)), Answer::ReturnStarted(Ok(MigrationId(78))));
}

/// The number of notes is limited, so arrivals that change nothing and returns that are refused must not add a note.
#[test]
fn only_a_section_that_arrived_or_returns_notes_the_set_of_its_migration() {
    let mut state = set();
    let layout_id = state.set.as_ref().unwrap().layout.id();
    let arrive = |id, section, epoch| {
        let one = Arriving {
            section: SectionId(section),
            epoch: Epoch(epoch),
            max_seq: Seq(0),
            handover_id: HandoverId(0),
            node: None,
            incarnation: Incarnation(0),
            migration: MigrationId(id),
        };
        let (from_lineage, to_lineage) = (Lineage(0), Lineage(0));
        Command::Arrive(Arrive { from: OTHER, from_lineage, to_lineage, layout_id, sections: vec![one] })
    };
    for (id, epoch) in [(5, 0), (6, 9)] {
        let refused = Answer::Arrived(Ok(vec![Arrival::Refused]));
        assert_eq!(state.apply(&arrive(id, 2, epoch)), refused, "the section is here");
    }
    let pace = Pace { rate: 0, max_pause: Duration::from_secs(1), paused: false };
    let back = StartReturn { of: MigrationId(7), to: OTHER, id: MigrationId(8), pace, settled: true };
    assert!(matches!(state.apply(&Command::StartReturn(back)), Answer::ReturnStarted(Err(_))));
    assert_eq!(state.foreign_migrations, [].into());
    let to = Destination { set: OTHER, lineage: Lineage(0), node: None, incarnation: Incarnation(0) };
    let tombstone = Tombstone {
        epoch: Epoch(1),
        to,
        handover_id: HandoverId(0),
        max_seq: Seq(0),
        by: MigrationId(0),
        arrived: true,
        routed: RouteVersion(1),
    };
    state.sections.put(SectionId(2), SectionRecord::Departed(tombstone));
    for id in [9, 10] {
        assert_eq!(state.apply(&arrive(id, 2, 9)), Answer::Arrived(Ok(vec![Arrival::Arrived])), "once and again");
    }
    assert_eq!(state.foreign_migrations, [(MigrationId(9), OTHER)].into());
}

#[test]
fn a_set_that_sections_are_on_their_way_to_is_not_forgotten() {
    let mut state = set();
    let to = Destination { set: OTHER, lineage: Lineage(0), node: None, incarnation: Incarnation(0) };
    let (epoch, handover_id, max_seq) = (Epoch(1), HandoverId(0), Seq(0));
    let tombstone =
        Tombstone { epoch, to, handover_id, max_seq, by: MigrationId(0), arrived: false, routed: RouteVersion(1) };
    state.sections.put(SectionId(2), SectionRecord::Departed(tombstone));
    let refusal = SetRefusal::AwaitsSection { set: OTHER, section: SectionId(2) };
    assert_eq!(state.apply(&Command::Forget(Forget { set: OTHER })), Answer::Forgotten(Err(refusal.into())));
    state.sections.put(SectionId(2), SectionRecord::Departed(Tombstone { arrived: true, ..tombstone }));
    assert_eq!(state.apply(&Command::Forget(Forget { set: OTHER })), Answer::Forgotten(Ok(true)));
    assert_eq!(state.directory.get(SectionId(2)).map(|known| known.set), Some(OTHER), "this log can vouch for it");
}
