use alloc::collections::BTreeSet;
use alloc::vec;

use super::handing::{Commit, Offer, OfferRefusal};
use super::*;
use crate::route::{Route, RouteNode, RouteRun};

const ME: Life = Life { node: NodeId(1), incarnation: Incarnation(1) };
const OTHER: NodeId = NodeId(2);

fn layout() -> Layout {
    Layout::new(0..400, 100).unwrap()
}

fn at(seconds: u64) -> Clocks {
    let nanos = seconds * 1_000_000_000;
    Clocks { boottime: nanos, raw: nanos, realtime: nanos }
}

/// The whole table: owner and epoch of each of the four sections.
fn routes(version: u64, owners: [(u32, u64); 4]) -> RouteUpdate {
    let node = |id: u32| RouteNode { name: alloc::format!("a{id}"), addr: alloc::format!("a{id}:1") };
    let run = |(section, (owner, epoch)): (u32, (u32, u64))| RouteRun {
        first: SectionId(section),
        sections: 1,
        route: Route { owner: (owner > 0).then_some(NodeId(owner)), epoch: Epoch(epoch) },
    };
    RouteUpdate {
        set: String::from("s"),
        layout: layout(),
        version: RouteVersion(version),
        base: RouteVersion(0),
        nodes: [1, 2, 3].map(|id| (NodeId(id), node(id))).into(),
        runs: (0..).zip(owners).map(run).collect(),
    }
}

fn grant(section: u32, epoch: u64, ceiling: u64, handover: u64) -> Grant {
    Grant { section: SectionId(section), epoch: Epoch(epoch), ceiling: Seq(ceiling), handover: Handover(handover) }
}

fn news(version: u64, owners: [(u32, u64); 4], grants: &[Grant]) -> News {
    News { routes: Some(routes(version, owners)), grants: grants.to_vec(), ..News::default() }
}

/// A node that owns sections 0 and 1 under epoch 1.
fn owning() -> Owner {
    let mut owner = Owner::new("s", layout(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    let effects =
        tell(&mut owner, 1, news(1, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!(effects.len(), 4, "{effects:?}");
    owner
}

#[test]
fn hearsay_takes_away_and_grants_nothing() {
    let mut owner = owning();
    let mut effects = Vec::new();
    // Section 0 went to another node, section 2 came here, and section 1 is told of under an epoch that is over.
    let update = routes(2, [(2, 2), (2, 0), (1, 2), (0, 0)]);
    owner.on_hearsay(&update, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Publish, Effect::Leave { section: SectionId(0), epoch: Epoch(1) }]);
    assert_eq!(owner.owned().collect::<Vec<_>>(), [(SectionId(1), Epoch(1))]);
    // The store is asked for everything, and then the grant is not missed.
    assert_eq!(owner.known_version(), RouteVersion(0));
    let effects =
        tell(&mut owner, 2, news(2, [(2, 2), (1, 1), (1, 2), (0, 0)], &[grant(1, 1, 0, 0), grant(2, 2, 5, 0)]));
    let entered = Effect::Enter { section: SectionId(2), epoch: Epoch(2), ceiling: Seq(5), copy: None };
    assert_eq!(effects, [entered, Effect::Extend { sent: at(2) }]);
    assert_eq!(owner.known_version(), RouteVersion(2));
}

/// The effects of news that came with an answer.
fn tell(owner: &mut Owner, sent: u64, news: News) -> Vec<Effect> {
    let mut effects = Vec::new();
    owner.on_news(ME, at(sent), news, &mut effects).unwrap();
    effects
}

fn enter(section: u32, epoch: u64, ceiling: u64, copy: Option<SectionCopy>) -> Effect {
    Effect::Enter { section: SectionId(section), epoch: Epoch(epoch), ceiling: Seq(ceiling), copy }
}

fn leave(section: u32, epoch: u64) -> Effect {
    Effect::Leave { section: SectionId(section), epoch: Epoch(epoch) }
}

fn owned(owner: &Owner) -> Vec<(u32, u64)> {
    owner.owned().map(|(section, epoch)| (section.0, epoch.0)).collect()
}

#[test]
fn what_is_routed_elsewhere_leaves_before_the_lease_is_extended() {
    let mut owner = owning();
    let effects = tell(&mut owner, 2, news(2, [(2, 2), (1, 1), (2, 1), (1, 1)], &[grant(3, 1, 70, 0)]));
    assert_eq!(effects, [Effect::Publish, leave(0, 1), enter(3, 1, 70, None), Effect::Extend { sent: at(2) }]);
    assert_eq!(owned(&owner), [(1, 1), (3, 1)]);
}

#[test]
fn news_that_cannot_be_taken_in_extend_nothing_and_are_asked_for_whole() {
    let mut owner = owning();
    let mut gap = news(9, [(1, 1), (1, 1), (2, 1), (0, 0)], &[]);
    gap.routes.as_mut().unwrap().base = RouteVersion(5);
    let mut effects = Vec::new();
    assert!(matches!(owner.on_news(ME, at(2), gap, &mut effects), Err(AdoptError::Gap { .. })));
    assert_eq!(effects, []);
    assert_eq!(owner.known_version(), RouteVersion(0));
    tell(&mut owner, 3, news(9, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!(owner.known_version(), RouteVersion(9));
}

#[test]
fn a_grant_among_what_others_said_is_not_missed() {
    let mut owner = owning();
    let mut effects = Vec::new();
    let theirs = routes(7, [(1, 1), (2, 2), (2, 1), (1, 1)]);
    owner.on_hearsay(&theirs, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Publish, leave(1, 1)], "what is said grants nothing and extends nothing");
    // Answers to questions from before, one of them whole, do not end the asking.
    tell(&mut owner, 3, news(6, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!((owner.known_version(), owned(&owner)), (RouteVersion(0), vec![(0, 1)]));
    tell(&mut owner, 4, news(7, [(1, 1), (2, 2), (2, 1), (1, 1)], &[grant(0, 1, 0, 0), grant(3, 1, 60, 0)]));
    assert_eq!((owner.known_version(), owned(&owner)), (RouteVersion(7), vec![(0, 1), (3, 1)]));
}

#[test]
fn an_ownership_that_left_is_never_entered_again() {
    let mut owner = owning();
    let mut effects = Vec::new();
    owner.on_lost(&[(SectionId(0), Epoch(1)), (SectionId(1), Epoch(7))], &mut effects);
    assert_eq!(effects, [leave(0, 1)]);
    let effects =
        tell(&mut owner, 2, news(2, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!(effects, [Effect::Publish, Effect::Extend { sent: at(2) }]);
    assert_eq!(owned(&owner), [(1, 1)]);
}

#[test]
fn an_overtaken_answer_brings_nothing_back() {
    let mut owner = owning();
    tell(&mut owner, 3, news(5, [(2, 3), (1, 1), (2, 1), (0, 0)], &[]));
    let late = News {
        grants: vec![grant(0, 2, 50, 0)],
        routes: Some(routes(4, [(1, 2), (1, 1), (2, 1), (0, 0)])),
        ..News::default()
    };
    assert_eq!(tell(&mut owner, 2, late), [Effect::Extend { sent: at(2) }]);
    assert_eq!(owned(&owner), [(1, 1)]);
}

#[test]
fn renewals_count_on_and_a_repeat_is_the_same_one() {
    let mut owner = owning();
    let first = owner.renewal().unwrap();
    assert_eq!(owner.renewal().unwrap(), first);
    let mut effects = Vec::new();
    owner.on_renewed(&first, at(2), News::default(), &mut effects).unwrap();
    assert_eq!(effects, [Effect::Extend { sent: at(2) }]);
    assert_eq!(owner.renewal().unwrap().renew_seq.0, first.renew_seq.0 + 1);
    effects.clear();
    owner.on_renewed(&first, at(9), News::default(), &mut effects).unwrap();
    assert_eq!(effects, [], "an answer twice extends once");
}

#[test]
fn the_end_of_a_life_ends_the_lease_and_drops_everything() {
    let mut owner = owning();
    let mut effects = Vec::new();
    owner.on_life_over(ME, &mut effects);
    assert_eq!(effects, [Effect::EndLease, leave(0, 1), leave(1, 1)]);
    assert_eq!((owner.life(), owner.renewal()), (None, None));
    let next = Life { incarnation: Incarnation(2), ..ME };
    owner.on_registered(next);
    assert_eq!(
        tell(&mut owner, 9, news(9, [(1, 2), (1, 1), (2, 1), (0, 0)], &[])),
        [],
        "an answer to the earlier life"
    );
    effects.clear();
    owner.on_life_over(ME, &mut effects);
    assert_eq!(effects, []);
}

#[test]
fn a_section_that_cannot_be_raised_is_given_up_though_renewals_are_answered() {
    let mut owner = owning();
    owner.on_raise_failed(&[(SectionId(0), Epoch(1)), (SectionId(1), Epoch(1))], at(10));
    owner.on_raised(&[(SectionId(1), Epoch(1))]);
    let mut effects = Vec::new();
    let renewal = owner.renewal().unwrap();
    let soon = Clocks { boottime: 10_900_000_000, ..at(10) };
    owner.on_renewed(&renewal, soon, News::default(), &mut effects).unwrap();
    assert_eq!(owned(&owner), [(0, 1), (1, 1)]);
    effects.clear();
    let renewal = owner.renewal().unwrap();
    owner.on_renewed(&renewal, at(11), News::default(), &mut effects).unwrap();
    assert_eq!(effects, [Effect::Extend { sent: at(11) }, leave(0, 1)]);
    let renewal = owner.renewal().unwrap();
    assert_eq!(renewal.released, [(SectionId(0), Epoch(1))]);
    owner.on_renewed(&renewal, at(12), News::default(), &mut effects).unwrap();
    assert_eq!(owner.renewal().unwrap().released, []);
}

fn planned(section: u32, epoch: u64) -> Move {
    Move { section: SectionId(section), epoch: Epoch(epoch), from: ME.node, to: OTHER, incarnation: Incarnation(5) }
}

/// Begins to hand section 0 over; the attempt.
fn preparing(owner: &mut Owner) -> Handing {
    let effects = tell(owner, 2, News { moves: vec![planned(0, 1)], ..News::default() });
    let [Effect::Extend { .. }, Effect::Prepare(handing)] = effects[..] else { panic!("{effects:?}") };
    handing
}

#[test]
fn a_planned_move_goes_step_by_step_and_the_section_leaves_when_it_is_committed() {
    let mut owner = owning();
    let handing = preparing(&mut owner);
    assert_eq!((handing.section, handing.to, handing.handover), (SectionId(0), OTHER, Handover(1)));
    assert_eq!(tell(&mut owner, 2, News { moves: vec![planned(0, 1)], ..News::default() }).len(), 1, "it is under way");
    let mut effects = Vec::new();
    owner.on_prepared(&handing, true, &mut effects);
    owner.on_staged(&handing, true, &mut effects);
    owner.on_committed(&handing, at(3), Commit::Unknown, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Stage(handing), Effect::Commit(handing), Effect::Commit(handing)]);
    effects.clear();
    let made = Commit::Made { ceiling: Seq(90), news: news(2, [(2, 2), (1, 1), (2, 1), (0, 0)], &[]) };
    owner.on_committed(&handing, at(4), made, &mut effects).unwrap();
    let activate = Effect::Activate { handing, ceiling: Seq(90) };
    assert_eq!(effects, [leave(0, 1), activate, Effect::Publish, Effect::Extend { sent: at(4) }]);
    assert_eq!((owned(&owner), owner.moves_under_way()), (vec![(1, 1)], 0));
}

#[test]
fn a_move_that_fails_before_the_commit_or_for_good_is_taken_back() {
    let thaw = Effect::Thaw { section: SectionId(0), epoch: Epoch(1) };
    let mut owner = owning();
    let handing = preparing(&mut owner);
    let mut effects = Vec::new();
    owner.on_prepared(&handing, false, &mut effects);
    assert_eq!((effects.len(), owner.moves_under_way()), (0, 0), "nothing was frozen");

    let handing = preparing(&mut owner);
    assert_eq!(handing.handover, Handover(2), "another attempt");
    owner.on_prepared(&handing, true, &mut effects);
    owner.on_staged(&handing, false, &mut effects);
    assert_eq!(effects, [Effect::Stage(handing), thaw.clone()]);

    let handing = preparing(&mut owner);
    effects.clear();
    owner.on_prepared(&handing, true, &mut effects);
    owner.on_staged(&handing, true, &mut effects);
    owner.on_committed(&handing, at(3), Commit::TargetGone, &mut effects).unwrap();
    assert_eq!(effects, [Effect::Stage(handing), Effect::Commit(handing), thaw]);
    assert_eq!(owned(&owner), [(0, 1), (1, 1)]);
}

#[test]
fn a_source_that_lost_the_section_meanwhile_thaws_nothing() {
    let mut owner = owning();
    let handing = preparing(&mut owner);
    let mut effects = Vec::new();
    owner.on_prepared(&handing, true, &mut effects);
    owner.on_staged(&handing, true, &mut effects);
    tell(&mut owner, 3, news(2, [(2, 2), (1, 1), (2, 1), (0, 0)], &[]));
    effects.clear();
    for late in [Commit::TargetGone, Commit::Lost, Commit::Unknown] {
        owner.on_committed(&handing, at(4), late, &mut effects).unwrap();
    }
    owner.on_staged(&handing, false, &mut effects);
    assert_eq!(effects, []);
}

fn offer(epoch: u64, handover: u64) -> Offer {
    let (section, incarnation) = (SectionId(2), ME.incarnation);
    Offer { section, epoch: Epoch(epoch), handover: Handover(handover), incarnation }
}

fn copy(distance: u64) -> SectionCopy {
    SectionCopy { base: Seq(0), distances: vec![(crate::id::SlotIndex(3), distance)] }
}

#[test]
fn a_target_starts_from_the_copy_of_the_committed_attempt() {
    let mut owner = owning();
    owner.on_prepare(&offer(2, 1)).unwrap();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    let mut effects = Vec::new();
    owner.on_activate(&offer(2, 1), Seq(90), &mut effects).unwrap();
    owner.on_activate(&offer(2, 1), Seq(90), &mut effects).unwrap();
    assert_eq!(effects, [enter(2, 2, 90, Some(copy(7)))]);
    // Routes that were read before the move do not take the section away again.
    assert_eq!(tell(&mut owner, 3, news(2, [(1, 1), (1, 1), (2, 1), (3, 1)], &[])).len(), 2);
    assert_eq!(owned(&owner), [(0, 1), (1, 1), (2, 2)]);
    let own = news(3, [(1, 1), (1, 1), (1, 2), (3, 1)], &[grant(2, 2, 90, 1)]);
    assert_eq!(tell(&mut owner, 4, own).len(), 2, "it is served already");
}

#[test]
fn a_target_that_hears_it_from_the_store_first_starts_just_so() {
    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    let effects = tell(&mut owner, 3, news(2, [(1, 1), (1, 1), (1, 2), (0, 0)], &[grant(2, 2, 90, 1)]));
    assert_eq!(effects[1], enter(2, 2, 90, Some(copy(7))));
    owner.on_activate(&offer(2, 1), Seq(90), &mut Vec::new()).unwrap();
}

#[test]
fn an_old_copy_is_never_started_from() {
    // The source took attempt 1 back and served on; then it died, and the arbiter gave the section to this node.
    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    let effects = tell(&mut owner, 3, news(2, [(1, 1), (1, 1), (1, 2), (0, 0)], &[grant(2, 2, 90, 0)]));
    assert_eq!(effects[1], enter(2, 2, 90, None));

    // A late message of attempt 1 does not replace the copy of attempt 2.
    let mut owner = owning();
    owner.on_stage(&offer(2, 2), copy(9)).unwrap();
    let past = OfferRefusal::Past { section: SectionId(2), epoch: Epoch(2), handover: Handover(1) };
    assert_eq!(owner.on_stage(&offer(2, 1), copy(7)), Err(past));
    let effects = tell(&mut owner, 3, news(2, [(1, 1), (1, 1), (1, 2), (0, 0)], &[grant(2, 2, 90, 2)]));
    assert_eq!(effects[1], enter(2, 2, 90, Some(copy(9))));
}

#[test]
fn an_offer_that_is_past_or_meant_for_another_life_is_refused() {
    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    tell(&mut owner, 3, news(2, [(1, 1), (1, 1), (3, 3), (0, 0)], &[]));
    let past = OfferRefusal::Past { section: SectionId(2), epoch: Epoch(2), handover: Handover(1) };
    assert_eq!(owner.on_activate(&offer(2, 1), Seq(90), &mut Vec::new()), Err(past), "it went on to another node");
    let other = Offer { incarnation: Incarnation(9), ..offer(4, 1) };
    let (current, given) = (Incarnation(1), Incarnation(9));
    assert_eq!(owner.on_prepare(&other), Err(OfferRefusal::OtherIncarnation { current, given }));
    let unknown = Offer { section: SectionId(9), ..offer(4, 1) };
    assert_eq!(owner.on_prepare(&unknown), Err(OfferRefusal::UnknownSection { section: SectionId(9) }));
    owner.leave();
    assert_eq!(owner.on_prepare(&offer(4, 1)), Err(OfferRefusal::Leaving));
}

#[test]
fn copies_are_bounded_and_the_oldest_goes_first() {
    let sections = handing::MAX_INCOMING as u64 + 1;
    let mut owner = Owner::new("s", Layout::new(0..sections * 10, 10).unwrap(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    for section in 0..sections {
        let one = Offer { section: SectionId(section as u32), ..offer(2, 1) };
        owner.on_stage(&one, copy(1)).unwrap();
    }
    let mut activate = |section: u32| {
        owner.on_activate(&Offer { section: SectionId(section), ..offer(2, 1) }, Seq(10), &mut Vec::new())
    };
    assert!(activate(0).is_err());
    assert!(activate(1).is_ok());
    assert!(activate(sections as u32 - 1).is_ok());
}

#[test]
fn whoever_leaves_alone_gives_up_what_nobody_takes() {
    let mut owner = owning();
    owner.leave();
    assert!(owner.renewal().unwrap().leaving);
    let effects = tell(&mut owner, 2, News { alone: true, ..News::default() });
    assert_eq!(effects, [Effect::Extend { sent: at(2) }, leave(0, 1), leave(1, 1)]);
    assert!(!owner.is_empty(), "the store does not know yet");
    let renewal = owner.renewal().unwrap();
    let released: BTreeSet<_> = renewal.released.iter().map(|(section, _)| section.0).collect();
    assert_eq!(released, BTreeSet::from([0, 1]));
    owner.on_renewed(&renewal, at(3), News::default(), &mut Vec::new()).unwrap();
    assert!(owner.is_empty());
}
