//! Tests of restores: the content of a response to a fence, the end of a quarantine, and refusals of an older lineage.

use alloc::vec;
use alloc::vec::Vec;

use super::*;

const OWN: SetId = SetId(1);
const OTHER: SetId = SetId(2);
const FIRST: Lineage = Lineage(1 << 32);
const SECOND: Lineage = Lineage(2 << 32);
/// More sections than fit a page.
const SECTIONS: u32 = limits::MAX_MOVES as u32 + 500;

/// Returns facts of a set about itself before its first restore.
fn facts(id: SetId) -> SetFacts {
    SetFacts { id, revision: Revision(1), name: alloc::format!("s{id}"), ..SetFacts::default() }
}

/// Creates a set that has all sections, or none, and knows no other set.
fn set(id: SetId) -> State {
    let mut state = State::default();
    let layout = Layout::new(0..u64::from(SECTIONS), 1).unwrap();
    let homes = vec![Home { sections: SectionRun { first: SectionId(0), sections: SECTIONS }, set: OWN }];
    let definition = SetDefinition { name: "s".into(), id, layout, homes };
    assert_eq!(state.apply(&Command::DefineSet(definition)), Answer::SetDefined(Ok(())));
    state
}

fn know(state: &mut State, set: SetId) {
    let learned = state.apply(&Command::LearnDirectory(LearnDirectory::of(facts(set))));
    assert_eq!(learned, Answer::DirectoryLearned(Ok(true)));
}

fn register(state: &mut State, follows: Incarnation) -> Incarnation {
    let registration = Registration { follows, ..Registration::new("a", "a:1", state.revision.0 + 1) };
    let Answer::Registered(Ok((NodeId(1), incarnation))) = state.apply(&Command::Register(registration)) else {
        panic!("it does not register")
    };
    incarnation
}

fn fence(state: &mut State, set: SetId, lineage: Lineage) -> Result<(), CommandRefusal> {
    let Answer::Fenced(outcome) = state.apply(&Command::Fence(Fence { set, lineage })) else { unreachable!() };
    outcome
}

fn learn(state: &mut State, page: &FenceResponse) -> Result<bool, CommandRefusal> {
    let Answer::RecordsLearned(outcome) = state.apply(&Command::LearnRecords(page.clone())) else { unreachable!() };
    outcome
}

fn end(state: &mut State) -> Result<(), CommandRefusal> {
    let lineage = state.lineage;
    let Answer::QuarantineEnded(outcome) = state.apply(&Command::EndQuarantine(EndQuarantine { lineage })) else {
        unreachable!()
    };
    outcome
}

/// Returns a response of the other set without records.
fn empty_page(lineage: Lineage) -> FenceResponse {
    let (first, next) = (SectionId(0), None);
    FenceResponse {
        set: OTHER,
        lineage,
        fenced: FIRST,
        first,
        next,
        records: vec![],
        sets: vec![],
        closing: false,
        wait: Duration::ZERO,
        inherited: vec![],
    }
}

fn claim(since: u64, set: SetId, lineage: Lineage, max_seq: u64) -> RecordClaim {
    let (claim, max_seq) = (Claim { since: Epoch(since), set }, Seq(max_seq));
    RecordClaim { claim, lineage, max_seq, migration: MigrationId(0) }
}

/// Returns a restored set that has all sections, and another set, which has fenced its older lineage.
fn restored() -> (State, State) {
    let (mut own, mut other) = (set(OWN), set(OTHER));
    know(&mut own, OTHER);
    know(&mut other, OWN);
    own.restore(FIRST).unwrap();
    fence(&mut other, OWN, FIRST).unwrap();
    (own, other)
}

#[test]
fn a_response_comes_in_pages_which_are_learned_in_order() {
    let (mut own, mut other) = restored();
    for section in (0..SECTIONS).map(SectionId) {
        let residence = Residence { since: Epoch(2), epoch: Epoch(5), max_seq: Seq(9), ..Residence::default() };
        other.sections.put(section, SectionRecord::Resident(residence));
    }
    let first = other.fence_response(OWN, FIRST, SectionId(0)).unwrap();
    let next = first.next.expect("there are more records than fit a page");
    assert_eq!((first.records.len(), next), (limits::MAX_MOVES, SectionId(limits::MAX_MOVES as u32)));
    let second = other.fence_response(OWN, FIRST, next).unwrap();
    assert_eq!((second.records.len(), second.next), (500, None));

    assert_eq!(learn(&mut own, &second), Ok(false), "it is not the page that is awaited");
    assert_eq!(own.awaited_responses().collect::<Vec<_>>(), [(OTHER, SectionId(0))]);
    assert_eq!(learn(&mut own, &first), Ok(true));
    assert_eq!(learn(&mut own, &first), Ok(false), "a repeat");
    assert_eq!(own.awaited_responses().collect::<Vec<_>>(), [(OTHER, next)]);
    assert_eq!(end(&mut own), Err(SetRefusal::NotResponded { set: OTHER }.into()));
    assert_eq!(learn(&mut own, &second), Ok(true));
    assert_eq!(end(&mut own), Ok(()));
    assert!(!own.is_quarantined() && own.sections.residents().next().is_none());
    assert_eq!(own.sections.unconfirmed(), SECTIONS);
    let SectionRecord::Departed(tombstone) = own.sections.get(SectionId(7)).unwrap() else { panic!("it has left") };
    assert_eq!((tombstone.epoch, tombstone.max_seq, tombstone.to.set), (Epoch(2), Seq(9), OTHER));
    assert_eq!(learn(&mut own, &first), Ok(false), "a page that comes late");
}

#[test]
fn a_set_that_a_response_names_is_awaited_too() {
    let (mut own, mut other) = restored();
    let third = SetId(3);
    know(&mut other, third);
    assert_eq!(learn(&mut own, &other.fence_response(OWN, FIRST, SectionId(0)).unwrap()), Ok(true));
    assert_eq!(end(&mut own), Err(SetRefusal::NotResponded { set: third }.into()));
    assert_eq!(learn(&mut own, &FenceResponse { set: third, ..empty_page(Lineage(0)) }), Ok(true));
    assert_eq!(end(&mut own), Ok(()));
}

/// A response that a set sent before its restore may show a residence that the restore has removed.
#[test]
fn a_restore_of_a_set_voids_its_response() {
    let (mut own, _) = restored();
    let records = vec![(SectionId(3), claim(2, OTHER, Lineage(0), 9))];
    let before = FenceResponse { records, ..empty_page(Lineage(0)) };
    assert_eq!(learn(&mut own, &before), Ok(true));
    assert_eq!(fence(&mut own, OTHER, FIRST), Ok(()));
    assert_eq!(end(&mut own), Err(SetRefusal::NotResponded { set: OTHER }.into()));
    let over = SetRefusal::OldLineage { set: OTHER, newest: FIRST, given: Lineage(0) };
    assert_eq!(learn(&mut own, &before), Err(over.into()));
    // The response shows the newer lineage as well.
    assert_eq!(learn(&mut own, &empty_page(SECOND)), Ok(true));
    assert_eq!(fence(&mut own, OTHER, SECOND), Ok(()));
    assert_eq!(end(&mut own), Ok(()));
    assert!(own.sections.resident(SectionId(3)).is_some());
}

#[test]
fn a_response_that_no_set_can_have_sent_is_refused() {
    let (mut own, other) = restored();
    let refused = |own: &mut State, page: FenceResponse| {
        assert_eq!(learn(own, &page), Err(SetRefusal::BadResponse { set: OTHER }.into()), "{page:?}");
    };
    let page = |records| FenceResponse { records, ..empty_page(Lineage(0)) };
    let one = claim(2, OTHER, Lineage(0), 9);
    refused(&mut own, page(vec![(SectionId(SECTIONS), one)]));
    refused(&mut own, page(vec![(SectionId(1), one), (SectionId(1), one)]));
    refused(&mut own, page(vec![(SectionId(0), claim(limits::MAX_ARRIVED_EPOCH + 1, OTHER, Lineage(0), 9))]));
    refused(&mut own, page(vec![(SectionId(0), claim(0, OTHER, Lineage(0), 9))]));
    refused(&mut own, page(vec![(SectionId(0), claim(2, OTHER, Lineage(0), u64::MAX))]));
    refused(&mut own, FenceResponse { first: SectionId(1), ..page(vec![(SectionId(0), one)]) });
    refused(&mut own, FenceResponse { next: Some(SectionId(0)), ..page(vec![]) });
    refused(&mut own, FenceResponse { sets: vec![OTHER; limits::MAX_SETS + 1], ..page(vec![]) });
    let given = Epoch(limits::MAX_ARRIVED_EPOCH + 1);
    let sections = SectionRun { first: SectionId(0), sections: 1 };
    let claims = vec![ClaimRun { sections, claim: Claim { since: given, set: OTHER } }];
    let learned = own.apply(&Command::LearnDirectory(LearnDirectory { from: Some(OTHER), claims, sets: vec![] }));
    assert_eq!(learned, Answer::DirectoryLearned(Err(SetRefusal::BadEpoch { given }.into())));

    let missing = SetRefusal::FenceNotApplied { set: OWN, lineage: SECOND };
    assert_eq!(other.fence_response(OWN, SECOND, SectionId(0)), Err(missing.into()));
    assert_eq!(other.fence_response(OWN, FIRST, SectionId(SECTIONS)), Err(SetRefusal::BadRuns.into()));
    let over = SetRefusal::OldLineage { set: OWN, newest: FIRST, given: Lineage(0) };
    assert_eq!(other.fence_response(OWN, Lineage(0), SectionId(0)), Err(over.into()));
}

/// Margins are multiplied by the count of restores, so two lineages with the same count would allocate the same
/// numbers.
#[test]
fn a_lineage_of_the_same_count_is_not_newer() {
    let (_, mut other) = restored();
    let given = Lineage(FIRST.0 + 1);
    let refusal = SetRefusal::OldLineage { set: OWN, newest: FIRST, given };
    assert_eq!(fence(&mut other, OWN, given), Err(refusal.into()));
    assert_eq!(fence(&mut other, OWN, FIRST), Ok(()), "a repeat");
}

#[test]
fn a_session_of_an_older_lineage_is_refused() {
    let mut state = set(OWN);
    let older = register(&mut state, Incarnation(0));
    let (node, section, routes) = (NodeId(1), SectionId(0), state.route_version);
    state.restore(FIRST).unwrap();
    assert!(state.route_version.0 > routes.0 + (1 << 31), "copies of the older table may be newer than the backup");
    let newer = register(&mut state, Incarnation(FIRST.first_number()));
    assert_eq!((older, newer), (Incarnation(1), Incarnation((1 << 32) + 1)));
    end(&mut state).unwrap();
    let expected = state.sections.resident(section).unwrap().epoch;
    let given = Reassign { section, expected, liveness: None, to: node, incarnation: newer };
    assert_eq!(state.apply(&Command::Reassign(vec![given])), Answer::Reassigned(vec![Some(expected.next())]));
    let (epoch, incarnation, handover_id) = (expected.next(), older, HandoverId(1));
    let refusal = CommandRefusal::OtherIncarnation { node, current: newer, given: older };
    let renew = Command::Renew(Renew { node, incarnation, renew_seq: RenewSeq(1), leaving: true, ..Renew::default() });
    assert_eq!(state.apply(&renew), Answer::Renewed(Err(refusal.clone())));
    let raises = vec![Raise { section, epoch, to: Seq(1 << 50) }];
    assert_eq!(
        state.apply(&Command::Raise(RaiseCeilings { node, incarnation, raises })),
        Answer::Raised(Err(refusal.clone()))
    );
    let transfer = Transfer { section, epoch, from: node, incarnation, to: node, to_incarnation: older, handover_id };
    assert_eq!(state.apply(&Command::Transfer(transfer)), Answer::Transferred(Err(refusal)));
    let to = Destination { set: OTHER, lineage: Lineage(0), node: None, incarnation: Incarnation(0) };
    let depart = Depart { section, epoch, from: node, incarnation, to, handover_id, migration: MigrationId(1) };
    assert!(matches!(state.apply(&Command::Depart(depart)), Answer::Departed(Err(_))));
    let registration = Registration { follows: older, ..Registration::new("a", "a:1", 77) };
    assert!(matches!(state.apply(&Command::Register(registration)), Answer::Registered(Err(_))));
    // A second restore, from the state in quarantine, begins incarnations above those of the first restore.
    state.restore(SECOND).unwrap();
    assert_eq!(register(&mut state, Incarnation(SECOND.first_number())), Incarnation((2 << 32) + 1));
}

#[test]
fn a_quarantine_outlasts_the_leases_of_the_backup() {
    let mut state = set(OWN);
    let terms = |lease_wait| Terms { lease_wait };
    let lease = Duration::from_secs(4);
    let (long, short) = (terms(Duration::from_secs(10)), terms(Duration::from_millis(2_500)));
    assert_eq!(state.apply(&Command::SetTerms(SetTerms { replaces: None, terms: long })), Answer::TermsSet(Ok(())));
    let registration = Registration { lease, ..Registration::new("a", "a:1", 1) };
    assert!(matches!(state.apply(&Command::Register(registration)), Answer::Registered(Ok(_))));
    assert_eq!(
        state.apply(&Command::SetTerms(SetTerms { replaces: Some(long), terms: short })),
        Answer::TermsSet(Ok(()))
    );
    assert_eq!(state.quarantine_wait(), None);
    state.restore(FIRST).unwrap();
    let wait = LeaseTerms::shortest_wait(lease);
    assert!(wait > short.lease_wait);
    assert_eq!(state.quarantine_wait(), Some(wait));
    state.restore(SECOND).unwrap();
    assert_eq!(state.quarantine_wait(), Some(wait), "those of the first restore may still serve");
}

/// Two sets are restored one after the other, both to a time before a section moved between them.
#[test]
fn the_tombstone_of_what_was_quarantined_brings_the_section_back() {
    let (mut own, mut other) = restored();
    let (section, backup) = (SectionId(0), other.clone());
    let residence = Residence { since: Epoch(2), epoch: Epoch(3), max_seq: Seq(900), ..Residence::default() };
    other.sections.put(section, SectionRecord::Resident(residence));
    assert_eq!(learn(&mut own, &other.fence_response(OWN, FIRST, section).unwrap()), Ok(true));
    assert_eq!(end(&mut own), Ok(()));
    // The other set has lost the arrival, and the first set has lost its own tombstone.
    let mut other = backup;
    fence(&mut other, OWN, FIRST).unwrap();
    let low = |given| SetRefusal::TooFewRestores { given, least: 2 };
    for given in [Lineage(7), FIRST] {
        assert_eq!(other.clone().restore(given), Err(low(given).into()), "the backup knows the first set's");
    }
    other.restore(SECOND).unwrap();
    let low = SetRefusal::TooFewRestores { given: FIRST, least: 2 };
    assert_eq!(fence(&mut own, OTHER, FIRST), Err(low.into()), "the first set serves since its restore");
    fence(&mut own, OTHER, SECOND).unwrap();
    let mut next = Some(section);
    while let Some(first) = next {
        let page = own.fence_response(OTHER, SECOND, first).unwrap();
        assert_eq!(learn(&mut other, &page), Ok(true));
        next = page.next;
    }
    assert_eq!(end(&mut other), Ok(()));
    let home = other.sections.resident(section).expect("it is back");
    assert_eq!((home.epoch.0, home.max_seq.0), ((2 << 32) + 2, 900 + 2 * limits::RESTORE_MARGIN));
    assert_eq!(home.owner, None);
}

/// Two sets are restored at the same time and do not know of each other.
#[test]
fn a_lineage_that_is_too_low_is_followed_by_a_newer_one() {
    let (mut own, mut other) = (set(OWN), set(OTHER));
    know(&mut own, OTHER);
    know(&mut other, OWN);
    own.restore(SECOND).unwrap();
    other.restore(FIRST).unwrap();
    register(&mut other, Incarnation(FIRST.first_number()));
    assert_eq!(fence(&mut other, OWN, SECOND), Ok(()));
    let refusal = SetRefusal::TooFewRestores { given: FIRST, least: 2 };
    assert_eq!(fence(&mut own, OTHER, FIRST), Err(refusal.into()));
    // The same count as that of this set would be enough for the other set, because this set has served nothing in its
    // lineage. But the other set's log does not show this.
    let as_many = other.apply(&Command::BeginLineage(BeginLineage { lineage: Lineage(SECOND.0 + 7) }));
    let low = SetRefusal::TooFewRestores { given: Lineage(SECOND.0 + 7), least: 3 };
    assert_eq!(as_many, Answer::LineageBegun(Err(low.into())));
    let lineage = Lineage((3 << 32) + 7);
    for _ in 0..2 {
        let begun = other.apply(&Command::BeginLineage(BeginLineage { lineage }));
        assert_eq!(begun, Answer::LineageBegun(Ok(())), "a repeat has the same result");
    }
    assert!(other.is_quarantined() && other.nodes.is_empty());
    // The other set's response makes its new lineage known before its fence does.
    assert_eq!(learn(&mut own, &FenceResponse { fenced: SECOND, ..empty_page(lineage) }), Ok(true));
    let missing = SetRefusal::FenceNotApplied { set: OTHER, lineage };
    assert_eq!(own.fence_response(OTHER, lineage, SectionId(0)), Err(missing.into()));
    assert_eq!(fence(&mut own, OTHER, lineage), Ok(()));
    assert_eq!(end(&mut own), Ok(()));
    // A new fence would have to count more by now.
    assert_eq!(fence(&mut own, OTHER, lineage), Ok(()), "a repeat");
    assert!(own.fence_response(OTHER, lineage, SectionId(0)).is_ok());
    let begun = own.apply(&Command::BeginLineage(BeginLineage { lineage: Lineage(9 << 32) }));
    assert_eq!(begun, Answer::LineageBegun(Err(SetRefusal::NotQuarantined.into())));
}
