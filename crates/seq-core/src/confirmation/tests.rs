//! Tests of arrivals that the sets which had the sections confirm, and of arrivals that they do not confirm.

use alloc::vec;
use proptest::prelude::*;

use super::*;
use crate::directory::ClaimRun;
use crate::id::{HandoverId, Incarnation, LayoutId, MigrationId, NodeId, RouteVersion};
use crate::layout::{Layout, SectionRun};
use crate::state::{Command, Destination, SectionRecord, SetDefinition};

const OWN: SetId = SetId(1);
const B: SetId = SetId(2);
const C: SetId = SetId(3);
const SECTION: SectionId = SectionId(7);

/// Creates a set without the section, which it knows in set b since epoch 4.
fn state() -> State {
    let mut state = State::default();
    state.apply(&Command::DefineSet(SetDefinition::joining("a", OWN, Layout::new(0..100, 10).unwrap())));
    let sections = SectionRun { first: SECTION, sections: 1 };
    let claim = Claim { since: Epoch(4), set: B };
    state.directory.merge(&[ClaimRun { sections, claim }], RouteVersion(1));
    state
}

fn tombstone(epoch: u64, to: SetId, ceiling: u64) -> Tombstone {
    let to = Destination { set: to, lineage: Lineage(0), node: Some(NodeId(2)), incarnation: Incarnation(5) };
    let (handover_id, by, routed) = (HandoverId(6), MigrationId(9), RouteVersion(1));
    Tombstone { epoch: Epoch(epoch), to, handover_id, max_seq: Seq(ceiling), by, arrived: false, routed }
}

/// Returns a departure to this set as a restored set learns it: without the copy.
fn learned(epoch: u64, ceiling: u64) -> Tombstone {
    let to = Destination { set: OWN, lineage: Lineage(0), node: None, incarnation: Incarnation(0) };
    Tombstone { to, handover_id: HandoverId(0), ..tombstone(epoch, OWN, ceiling) }
}

/// Returns a request of a set for the section under an epoch, with a ceiling of 1.
fn arrive(from: SetId, epoch: u64) -> Arrive {
    let forged = Arriving { max_seq: Seq(1), ..content(SECTION, &tombstone(epoch, OWN, 1)) };
    let (from_lineage, to_lineage, layout_id) = (Lineage(0), Lineage(0), LayoutId(1));
    Arrive { from, from_lineage, to_lineage, layout_id, sections: vec![forged] }
}

/// Follows the tombstones of these sets; returns the ceiling.
fn walk(state: &State, arrive: Arrive, sets: &[(SetId, Tombstone)]) -> Result<u64, String> {
    let mut confirmation = Confirmation::new(state, arrive);
    loop {
        let asks = confirmation.asks();
        if asks.is_empty() {
            break;
        }
        for (set, sections) in asks {
            assert_eq!(sections, [SECTION]);
            let records: Vec<_> = sets.iter().filter(|one| one.0 == set).map(|one| (SECTION, one.1)).collect();
            confirmation.on_records(state, set, Lineage(0), &records);
        }
    }
    confirmation.finish().map(|arrive| arrive.sections[0].max_seq.0).map_err(|refusal| refusal.why)
}

#[test]
fn the_set_that_had_the_section_confirms_and_states_the_ceiling() {
    assert_eq!(walk(&state(), arrive(B, 5), &[(B, tombstone(5, OWN, 700))]), Ok(700));
}

#[test]
fn the_tombstones_are_followed_and_the_highest_ceiling_counts() {
    let way = [(B, tombstone(5, C, 900)), (C, tombstone(8, OWN, 800))];
    assert_eq!(walk(&state(), arrive(C, 8), &way), Ok(900));
}

/// Set b was restored, and learned from set c that the section departed here.
#[test]
fn a_departure_that_a_restored_set_has_learned_starts_at_the_ceiling() {
    let mut confirmation = Confirmation::new(&state(), arrive(C, 8));
    confirmation.on_records(&state(), B, Lineage(0), &[(SECTION, learned(8, 950))]);
    assert_eq!(confirmation.asks(), BTreeMap::new(), "the sender could state the copy of another attempt");
    let confirmed = confirmation.finish().unwrap().sections[0];
    assert_eq!(confirmed, content(SECTION, &learned(8, 950)));
    assert_eq!((confirmed.node, confirmed.handover_id), (None, HandoverId(0)));
}

/// The sender is a third set, which repeats the request of set b, with another copy.
#[test]
fn an_arrival_of_another_set_than_the_one_that_sent_the_section_is_not_confirmed() {
    let refused = walk(&state(), arrive(C, 8), &[(B, tombstone(8, OWN, 700))]);
    assert_eq!(refused, Err("it has sent the section away itself".into()));
}

/// N1: the sender has a tombstone that it made up.
#[test]
fn a_set_that_never_had_the_section_confirms_nothing() {
    let forged = (C, tombstone(5, OWN, 0));
    assert_eq!(walk(&state(), arrive(C, 5), &[forged]), Err("it has not sent the section away".into()));
    let elsewhere = (B, tombstone(5, SetId(4), 700));
    assert_eq!(walk(&state(), arrive(C, 5), &[forged, elsewhere]), Err("it names another way".into()));
    let late = (B, tombstone(9, C, 700));
    assert_eq!(walk(&state(), arrive(C, 5), &[forged, late]), Err("the section is past that epoch".into()));
    let before = (B, tombstone(4, OWN, 700));
    assert_eq!(walk(&state(), arrive(B, 5), &[before]), Err("it has sent the section away before it got it".into()));
}

#[test]
fn a_circle_another_lineage_and_a_fenced_one_confirm_nothing() {
    let circle = [(B, tombstone(5, C, 0)), (C, tombstone(6, B, 0))];
    assert_eq!(walk(&state(), arrive(B, 8), &circle), Err("the way is a circle".into()));
    let other = Arrive { to_lineage: Lineage(1 << 32), ..arrive(B, 5) };
    let refused = walk(&state(), other, &[(B, tombstone(5, OWN, 700))]);
    assert_eq!(refused, Err("it names another lineage of this set".into()));
    let mut fenced = state();
    fenced.sets.entry(B).or_default().fenced = Lineage(1 << 32);
    let refused = walk(&fenced, arrive(B, 5), &[(B, tombstone(5, OWN, 700))]);
    assert_eq!(refused, Err("it responded in an older lineage".into()));
}

#[test]
fn a_section_that_is_here_or_past_is_confirmed_by_nobody() {
    let mut state = state();
    state.sections.put(SECTION, SectionRecord::Departed(tombstone(5, B, 700)));
    assert!(Confirmation::new(&state, arrive(B, 5)).asks().is_empty());
    let confirmation = Confirmation::new(&state, arrive(B, 6));
    assert_eq!(confirmation.asks(), [(B, vec![SECTION])].into());
}

#[test]
fn a_set_that_does_not_respond_leaves_it_unconfirmed_and_one_of_a_release_before_is_trusted() {
    let mut confirmation = Confirmation::new(&state(), arrive(B, 5));
    confirmation.fail(B, "no response");
    assert_eq!(confirmation.finish().unwrap_err().why, "no response");
    let mut confirmation = Confirmation::new(&state(), arrive(B, 5));
    confirmation.trust(B);
    assert_eq!(confirmation.finish().unwrap().sections, arrive(B, 5).sections);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Checks that the walk ends with any tombstones, and that a confirmed section is stated by the set that this log
    /// knew, or by sets that it named.
    #[test]
    fn any_answers_end_the_walk(
        ways in prop::collection::vec((2_u64..8, 1_u64..12, 1_u64..8, any::<bool>()), 0..7),
        (from, epoch) in (2_u64..8, 1_u64..12),
    ) {
        let found = |&(set, epoch, to, is_learned): &(u64, u64, u64, bool)| {
            let (found, learned) = (tombstone(epoch, SetId(to), epoch), learned(epoch, epoch));
            (SetId(set), if is_learned { Tombstone { to: Destination { set: SetId(to), ..learned.to }, ..learned } } else { found })
        };
        let sets: BTreeMap<SetId, Tombstone> = ways.iter().map(found).collect();
        let sets: Vec<(SetId, Tombstone)> = sets.into_iter().collect();
        let confirmed = walk(&state(), arrive(SetId(from), epoch), &sets).is_ok();
        // A simple twin follows the tombstones from b.
        let (mut at, mut since, mut reached) = (B, 4, None);
        while let Some((_, next)) = sets.iter().find(|one| one.0 == at && one.1.epoch.0 > since) {
            let last = at;
            (at, since) = (next.to.set, next.epoch.0);
            if at == OWN {
                let is_learned = next.handover_id == HandoverId(0);
                reached = (since == epoch).then_some((last, is_learned));
                break;
            }
        }
        let stated = reached.is_some_and(|(last, is_learned)| last == SetId(from) || is_learned);
        prop_assert_eq!(confirmed, stated);
    }
}
