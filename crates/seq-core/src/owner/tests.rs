use alloc::collections::BTreeSet;
use alloc::vec;

use super::handover::{Commit, Handover, HandoverOffer, HandoverRequest, OfferRefusal};
use super::*;
use crate::id::SetId;
use crate::route::{Route, RouteNode, RouteRun};
use crate::section::{CopyMisfit, Distance, KeyedCopy, SectionCopy};

const ME: Session = Session { node: NodeId(1), incarnation: Incarnation(1) };
const OTHER: NodeId = NodeId(2);

fn layout() -> Layout {
    Layout::new(0..400, 100).unwrap()
}

fn at(seconds: u64) -> Clocks {
    let nanos = seconds * 1_000_000_000;
    Clocks { boottime: nanos, raw: nanos, realtime: nanos }
}

/// Creates a whole table with the owner and the epoch of each of the four sections.
fn routes(version: u64, owners: [(u32, u64); 4]) -> RouteUpdate {
    let node = |id: u32| RouteNode { name: alloc::format!("a{id}"), addr: alloc::format!("a{id}:1") };
    let run = |(section, (owner, epoch)): (u32, (u32, u64))| RouteRun {
        first: SectionId(section),
        sections: 1,
        route: Route::here((owner > 0).then_some(NodeId(owner)), Epoch(epoch)),
    };
    RouteUpdate {
        id: SetId(7),
        sets: BTreeMap::new(),
        set: String::from("s"),
        layout: layout(),
        series: [].into(),
        version: RouteVersion(version),
        base: RouteVersion(0),
        nodes: [1, 2, 3].map(|id| (NodeId(id), node(id))).into(),
        runs: (0..).zip(owners).map(run).collect(),
    }
}

fn grant(section: u32, epoch: u64, ceiling: u64, handover_id: u64) -> Grant {
    Grant {
        section: SectionId(section),
        epoch: Epoch(epoch),
        ceiling: Seq(ceiling),
        handover_id: HandoverId(handover_id),
        copied: false,
    }
}

fn update(version: u64, owners: [(u32, u64); 4], grants: &[Grant]) -> OwnershipUpdate {
    OwnershipUpdate { routes: Some(routes(version, owners)), grants: grants.to_vec(), ..OwnershipUpdate::default() }
}

/// Creates a node that owns sections 0 and 1 under epoch 1.
fn owning() -> Owner {
    let mut owner = Owner::new("s", layout(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    let effects =
        adopt(&mut owner, 1, update(1, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!(effects.len(), 4, "{effects:?}");
    owner
}

#[test]
fn peer_routes_revoke_and_grant_nothing() {
    let mut owner = owning();
    let mut effects = Vec::new();
    // Section 0 went to another node, section 2 came here, and the route of section 1 names an epoch that is over.
    let peer_routes = routes(2, [(2, 2), (2, 0), (1, 2), (0, 0)]);
    owner.on_peer_routes(&peer_routes, &mut effects).unwrap();
    assert_eq!(effects, [PUBLISH, leave(0, 1)]);
    assert_eq!(owner.owned().collect::<Vec<_>>(), [(SectionId(1), Epoch(1))]);
    // The whole table is requested from the store, and then the grant is not missed.
    assert_eq!(owner.known_version(), RouteVersion(0));
    let effects =
        adopt(&mut owner, 2, update(2, [(2, 2), (1, 1), (1, 2), (0, 0)], &[grant(1, 1, 0, 0), grant(2, 2, 5, 0)]));
    let entered = enter(2, 2, 5, None);
    assert_eq!(effects, [entered, extend(2)]);
    assert_eq!(owner.known_version(), RouteVersion(2));
}

/// Adopts the update of a response; returns the effects.
fn adopt(owner: &mut Owner, sent: u64, update: OwnershipUpdate) -> Vec<Effect> {
    let mut effects = Vec::new();
    owner.on_update(ME, at(sent), update, &mut effects).unwrap();
    effects
}

fn enter(section: u32, epoch: u64, ceiling: u64, copy: Option<SectionCopy>) -> Effect {
    let copy = copy.map(Into::into);
    TableEffect::Enter { section: SectionId(section), epoch: Epoch(epoch), ceiling: Seq(ceiling), copy }.into()
}

const PUBLISH: Effect = Effect::Table(TableEffect::Publish);

fn extend(sent: u64) -> Effect {
    LeaseEffect::Extend { sent: at(sent) }.into()
}

fn send(request: HandoverRequest) -> Effect {
    request.into()
}

fn leave(section: u32, epoch: u64) -> Effect {
    TableEffect::Leave { section: SectionId(section), epoch: Epoch(epoch) }.into()
}

fn owned(owner: &Owner) -> Vec<(u32, u64)> {
    owner.owned().map(|(section, epoch)| (section.0, epoch.0)).collect()
}

#[test]
fn an_update_that_cannot_be_adopted_extends_nothing_and_the_whole_table_is_requested() {
    let mut owner = owning();
    let mut gap = update(9, [(1, 1), (1, 1), (2, 1), (0, 0)], &[]);
    gap.routes.as_mut().unwrap().base = RouteVersion(5);
    let mut effects = Vec::new();
    assert!(matches!(owner.on_update(ME, at(2), gap, &mut effects), Err(AdoptError::Gap { .. })));
    assert_eq!(effects, []);
    assert_eq!(owner.known_version(), RouteVersion(0));
    adopt(&mut owner, 3, update(9, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!(owner.known_version(), RouteVersion(9));
}

#[test]
fn a_grant_among_peer_routes_is_not_missed() {
    let mut owner = owning();
    let mut effects = Vec::new();
    let theirs = routes(7, [(1, 1), (2, 2), (2, 1), (1, 1)]);
    owner.on_peer_routes(&theirs, &mut effects).unwrap();
    assert_eq!(effects, [PUBLISH, leave(1, 1)], "peer routes grant nothing and extend nothing");
    // Responses to earlier requests, even a response with the whole table, do not end it.
    adopt(&mut owner, 3, update(6, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!((owner.known_version(), owned(&owner)), (RouteVersion(0), vec![(0, 1)]));
    adopt(&mut owner, 4, update(7, [(1, 1), (2, 2), (2, 1), (1, 1)], &[grant(0, 1, 0, 0), grant(3, 1, 60, 0)]));
    assert_eq!((owner.known_version(), owned(&owner)), (RouteVersion(7), vec![(0, 1), (3, 1)]));
}

#[test]
fn an_ownership_that_left_is_never_entered_again() {
    let mut owner = owning();
    let mut effects = Vec::new();
    owner.on_lost(&[(SectionId(0), Epoch(1)), (SectionId(1), Epoch(7))], &mut effects);
    assert_eq!(effects, [leave(0, 1)]);
    let effects =
        adopt(&mut owner, 2, update(2, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
    assert_eq!(effects, [PUBLISH, extend(2)]);
    assert_eq!(owned(&owner), [(1, 1)]);
}

#[test]
fn an_overtaken_response_brings_nothing_back() {
    let mut owner = owning();
    adopt(&mut owner, 3, update(5, [(2, 3), (1, 1), (2, 1), (0, 0)], &[]));
    let late = OwnershipUpdate {
        grants: vec![grant(0, 2, 50, 0)],
        routes: Some(routes(4, [(1, 2), (1, 1), (2, 1), (0, 0)])),
        ..OwnershipUpdate::default()
    };
    assert_eq!(adopt(&mut owner, 2, late), [extend(2)]);
    assert_eq!(owned(&owner), [(1, 1)]);
}

#[test]
fn renewals_count_on_and_a_repeat_is_the_same_one() {
    let mut owner = owning();
    let first = owner.renewal().unwrap();
    assert_eq!(owner.renewal().unwrap(), first);
    let mut effects = Vec::new();
    owner.on_renewed(&first, at(2), OwnershipUpdate::default(), &mut effects).unwrap();
    assert_eq!(effects, [extend(2)]);
    assert_eq!(owner.renewal().unwrap().renew_seq.0, first.renew_seq.0 + 1);
    effects.clear();
    owner.on_renewed(&first, at(9), OwnershipUpdate::default(), &mut effects).unwrap();
    assert_eq!(effects, [], "a response twice extends once");
}

#[test]
fn the_end_of_an_incarnation_ends_the_lease_and_drops_everything() {
    let mut owner = owning();
    let mut effects = Vec::new();
    owner.on_session_over(ME, &mut effects);
    assert_eq!(effects, [Effect::Lease(LeaseEffect::End), leave(0, 1), leave(1, 1)]);
    assert_eq!((owner.session(), owner.renewal()), (None, None));
    let next = Session { incarnation: Incarnation(2), ..ME };
    owner.on_registered(next);
    assert_eq!(
        adopt(&mut owner, 9, update(9, [(1, 2), (1, 1), (2, 1), (0, 0)], &[])),
        [],
        "a response to the earlier incarnation"
    );
    effects.clear();
    owner.on_session_over(ME, &mut effects);
    assert_eq!(effects, []);
}

#[test]
fn a_section_that_cannot_be_raised_is_given_up_though_renewals_succeed() {
    let mut owner = owning();
    owner.on_raise_failed(&[(SectionId(0), Epoch(1)), (SectionId(1), Epoch(1))], at(10));
    owner.on_raised(&[(SectionId(1), Epoch(1))]);
    let mut effects = Vec::new();
    let renewal = owner.renewal().unwrap();
    let soon = Clocks { boottime: 10_900_000_000, ..at(10) };
    owner.on_renewed(&renewal, soon, OwnershipUpdate::default(), &mut effects).unwrap();
    assert_eq!(owned(&owner), [(0, 1), (1, 1)]);
    effects.clear();
    let renewal = owner.renewal().unwrap();
    owner.on_renewed(&renewal, at(11), OwnershipUpdate::default(), &mut effects).unwrap();
    assert_eq!(effects, [extend(11), leave(0, 1)]);
    let renewal = owner.renewal().unwrap();
    assert_eq!(renewal.released, [(SectionId(0), Epoch(1))]);
    owner.on_renewed(&renewal, at(12), OwnershipUpdate::default(), &mut effects).unwrap();
    assert_eq!(owner.renewal().unwrap().released, []);
}

fn planned(section: u32, epoch: u64) -> PlannedHandover {
    PlannedHandover {
        section: SectionId(section),
        epoch: Epoch(epoch),
        from: ME.node,
        to: OTHER,
        incarnation: Incarnation(5),
        departure: None,
    }
}

/// Begins to hand section 0 over; returns the attempt.
fn preparing(owner: &mut Owner) -> Handover {
    let effects = adopt(owner, 2, OwnershipUpdate { handovers: vec![planned(0, 1)], ..OwnershipUpdate::default() });
    let [Effect::Lease(LeaseEffect::Extend { .. }), Effect::Send(HandoverRequest::Prepare(handover))] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    handover.clone()
}

#[test]
fn a_handover_goes_step_by_step_and_the_section_leaves_when_it_is_committed() {
    let mut owner = owning();
    let handover = preparing(&mut owner);
    assert_eq!((handover.section, handover.to), (SectionId(0), OTHER));
    assert_ne!(handover.handover_id, HandoverId(0));
    assert_eq!(
        adopt(&mut owner, 2, OwnershipUpdate { handovers: vec![planned(0, 1)], ..OwnershipUpdate::default() }).len(),
        1,
        "it is in progress"
    );
    let mut effects = Vec::new();
    owner.on_prepared(&handover, true, 0, &mut effects);
    owner.on_staged(&handover, true, &mut effects);
    owner.on_committed(&handover, at(3), Commit::Unknown, &mut effects).unwrap();
    assert_eq!(
        effects,
        [
            send(HandoverRequest::Stage(handover.clone())),
            send(HandoverRequest::Commit(handover.clone())),
            send(HandoverRequest::Commit(handover.clone()))
        ]
    );
    effects.clear();
    let made = Commit::Made(Some(update(2, [(2, 2), (1, 1), (2, 1), (0, 0)], &[])));
    owner.on_committed(&handover, at(4), made, &mut effects).unwrap();
    let activate = send(HandoverRequest::Activate(handover));
    assert_eq!(effects, [leave(0, 1), activate, PUBLISH, extend(4)]);
    assert_eq!((owned(&owner), owner.handovers_in_progress()), (vec![(1, 1)], 0));
}

/// A call may commit several handovers, and the update is with the last of them.
#[test]
fn a_handover_without_an_update_of_its_own_is_committed() {
    let mut owner = owning();
    let handover = preparing(&mut owner);
    let mut effects = Vec::new();
    owner.on_prepared(&handover, true, 0, &mut effects);
    owner.on_staged(&handover, true, &mut effects);
    effects.clear();
    owner.on_committed(&handover, at(3), Commit::Made(None), &mut effects).unwrap();
    assert_eq!(effects, [leave(0, 1), send(HandoverRequest::Activate(handover))]);
    assert_eq!(owned(&owner), [(1, 1)]);
}

/// Creates a node that owns many small sections under epoch 1.
fn owning_many(sections: usize) -> Owner {
    let layout = Layout::new(0..sections as u64 * 10, 10).unwrap();
    let mut owner = Owner::new("s", layout.clone(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    let route = Route::here(Some(ME.node), Epoch(1));
    let runs = vec![RouteRun { first: SectionId(0), sections: sections as u32, route }];
    let routes = Some(RouteUpdate { layout, runs, ..routes(1, [(0, 0); 4]) });
    let grants = (0..sections as u32).map(|section| grant(section, 1, 0, 0)).collect();
    adopt(&mut owner, 1, OwnershipUpdate { routes, grants, ..OwnershipUpdate::default() });
    owner
}

#[test]
fn large_sections_are_frozen_a_few_at_a_time_and_small_ones_all_at_once() {
    let sections = handover::MAX_LARGE + 3;
    let mut owner = owning_many(sections);
    let handovers = (0..sections as u32).map(|section| planned(section, 1)).collect();
    let effects = adopt(&mut owner, 2, OwnershipUpdate { handovers, ..OwnershipUpdate::default() });
    let prepared: Vec<Handover> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Send(HandoverRequest::Prepare(handover)) => Some(handover),
            _ => None,
        })
        .collect();
    assert_eq!(prepared.len(), sections);
    let mut effects = Vec::new();
    let (small, large) = prepared.split_last().unwrap();
    for handover in large {
        owner.on_prepared(handover, true, handover::SMALL_SLOTS + 1, &mut effects);
    }
    let staged = |of: &[Handover]| of.iter().cloned().map(|one| send(HandoverRequest::Stage(one))).collect::<Vec<_>>();
    assert_eq!(effects, staged(&large[..handover::MAX_LARGE]));
    let [first_waits, last_waits] = &large[handover::MAX_LARGE..] else { panic!("{sections} sections") };
    assert!(!owner.is_frozen(first_waits.section), "it is served until it is frozen");
    effects.clear();
    owner.on_prepared(small, true, handover::SMALL_SLOTS, &mut effects);
    assert_eq!(effects, staged(core::slice::from_ref(small)), "it is not large");
    effects.clear();
    // A frozen section is thawed, and another frozen section leaves.
    owner.on_staged(&large[0], false, &mut effects);
    assert_eq!(effects.pop(), staged(core::slice::from_ref(first_waits)).pop());
    owner.on_staged(&large[1], true, &mut effects);
    owner.on_committed(&large[1], at(3), Commit::Made(None), &mut effects).unwrap();
    assert_eq!(effects.pop(), staged(core::slice::from_ref(last_waits)).pop());
}

/// A target of the release before keeps 192 attempts.
#[test]
fn a_target_that_makes_one_step_in_a_call_gets_few_handovers() {
    let sections = handover::MAX_OUTGOING + 10;
    let begun = |incarnation: u64| {
        let mut owner = owning_many(sections);
        owner.on_steps_unknown(OTHER, Incarnation(incarnation));
        let handovers = (0..sections as u32).map(|section| planned(section, 1)).collect();
        adopt(&mut owner, 2, OwnershipUpdate { handovers, ..OwnershipUpdate::default() });
        owner.handovers_in_progress()
    };
    assert_eq!((begun(5), begun(4)), (handover::MAX_LARGE, handover::MAX_OUTGOING), "the target is in incarnation 5");
}

#[test]
fn a_source_that_lost_the_section_meanwhile_thaws_nothing() {
    let mut owner = owning();
    let handover = preparing(&mut owner);
    let mut effects = Vec::new();
    owner.on_prepared(&handover, true, 0, &mut effects);
    owner.on_staged(&handover, true, &mut effects);
    adopt(&mut owner, 3, update(2, [(2, 2), (1, 1), (2, 1), (0, 0)], &[]));
    effects.clear();
    for late in [Commit::Refused, Commit::Lost, Commit::Unknown] {
        owner.on_committed(&handover, at(4), late, &mut effects).unwrap();
    }
    owner.on_staged(&handover, false, &mut effects);
    assert_eq!(effects, []);
}

fn offer(epoch: u64, handover_id: u64) -> HandoverOffer {
    let (section, incarnation) = (SectionId(2), ME.incarnation);
    HandoverOffer {
        section,
        epoch: Epoch(epoch),
        handover_id: HandoverId(handover_id),
        incarnation,
        from_set: SetId(0),
    }
}

fn distance_of(distance: u64) -> Distance {
    Distance::new(distance, false).unwrap()
}

fn copy(distance: u64) -> SectionCopy {
    SectionCopy { base: Seq(0), distances: vec![(crate::id::SlotIndex(3), distance_of(distance))] }
}

/// Returns the store's update that grants section 2 to this node.
fn granted(ceiling: u64, handover_id: u64) -> OwnershipUpdate {
    update(2, [(1, 1), (1, 1), (1, 2), (0, 0)], &[grant(2, 2, ceiling, handover_id)])
}

fn lost(why: CopyLoss) -> Effect {
    Effect::CopyLost { section: SectionId(2), epoch: Epoch(2), why }
}

#[test]
fn a_target_starts_from_the_copy_of_the_committed_attempt() {
    let mut owner = owning();
    owner.on_prepare(&offer(2, 1)).unwrap();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    let mut effects = Vec::new();
    owner.on_activate(&offer(2, 1), &mut effects).unwrap();
    owner.on_activate(&offer(2, 1), &mut effects).unwrap();
    assert_eq!(effects, [Effect::RenewNow, Effect::RenewNow], "it renews");
    assert!(!owner.is_settled(&offer(2, 1)));
    let effects = adopt(&mut owner, 3, granted(90, 1));
    assert_eq!(effects, [PUBLISH, enter(2, 2, 90, Some(copy(7))), extend(3)]);
    assert!(owner.is_settled(&offer(2, 1)));
    let mut effects = Vec::new();
    owner.on_activate(&offer(2, 1), &mut effects).unwrap();
    assert_eq!(effects, [], "it is served already");
    // Routes that were read before the move do not take the section away again.
    assert_eq!(adopt(&mut owner, 4, update(1, [(1, 1), (1, 1), (3, 1), (0, 0)], &[])).len(), 1);
    assert_eq!(owned(&owner), [(0, 1), (1, 1), (2, 2)]);
}

#[test]
fn a_target_whose_grant_comes_before_activate_starts_all_the_same() {
    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    let effects = adopt(&mut owner, 3, granted(90, 1));
    assert_eq!(effects[1], enter(2, 2, 90, Some(copy(7))));
    let mut effects = Vec::new();
    owner.on_activate(&offer(2, 1), &mut effects).unwrap();
    assert_eq!(effects, []);
}

#[test]
fn an_old_copy_is_never_started_from() {
    // The source took attempt 1 back and kept serving; then it died, and the arbiter gave the section to this node.
    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    assert_eq!(adopt(&mut owner, 3, granted(90, 0))[1], enter(2, 2, 90, None));

    // Neither a late message of attempt 1 nor a forged message replaces the copy of attempt 2.
    let mut owner = owning();
    owner.on_stage(&offer(2, 2), copy(9)).unwrap();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    owner.on_stage(&offer(2, 2), copy(1)).unwrap();
    assert_eq!(adopt(&mut owner, 3, granted(90, 2))[1], enter(2, 2, 90, Some(copy(9))));
    owner.on_stage(&offer(2, 2), copy(9)).unwrap_err();
}

#[test]
fn a_handover_whose_copy_is_lost_or_does_not_fit_starts_at_the_ceiling_and_reports_it() {
    let mut owner = owning();
    owner.on_stage(&offer(2, u64::MAX), copy(7)).unwrap();
    assert_eq!(adopt(&mut owner, 3, granted(90, 1))[1..3], [lost(CopyLoss::Missing), enter(2, 2, 90, None)]);

    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(91)).unwrap();
    let misfit = CopyMisfit::AboveCeiling { highest: Seq(91), ceiling: Seq(90) };
    assert_eq!(adopt(&mut owner, 3, granted(90, 1))[1..3], [lost(misfit.into()), enter(2, 2, 90, None)]);
}

#[test]
fn a_copy_that_is_not_the_sections_is_refused() {
    let mut owner = owning();
    let copy = SectionCopy { base: Seq(0), distances: vec![(crate::id::SlotIndex(100), distance_of(1))] };
    let misfit = CopyMisfit::Slot { slot: crate::id::SlotIndex(100), uids: 100 };
    assert_eq!(owner.on_stage(&offer(2, 1), copy), Err(OfferRefusal::Copy { section: SectionId(2), misfit }));
    let misfit = CopyMisfit::OtherCounters;
    let of_keys = KeyedCopy::above(Seq(0));
    assert_eq!(owner.on_stage(&offer(2, 1), of_keys), Err(OfferRefusal::Copy { section: SectionId(2), misfit }));
}

/// A frozen section must not be replaced by a larger one, whose numbers would not be in the copy.
#[test]
fn a_section_is_frozen_from_its_copy_until_it_is_thawed() {
    let mut owner = owning();
    let handover = preparing(&mut owner);
    let (section, mut effects) = (handover.section, Vec::new());
    assert!(!owner.is_frozen(section), "it is served until the target is prepared");
    owner.on_prepared(&handover, true, 0, &mut effects);
    assert!(owner.is_frozen(section) && !owner.is_frozen(SectionId(1)));
    owner.on_staged(&handover, false, &mut effects);
    assert!(!owner.is_frozen(section), "it is thawed");
}

#[test]
fn an_offer_that_is_past_or_meant_for_another_incarnation_is_refused() {
    let mut owner = owning();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    adopt(&mut owner, 3, update(2, [(1, 1), (1, 1), (3, 3), (0, 0)], &[]));
    let past = OfferRefusal::Past { section: SectionId(2), epoch: Epoch(2), handover_id: HandoverId(1) };
    assert_eq!(owner.on_activate(&offer(2, 1), &mut Vec::new()), Err(past), "it went on to another node");
    let other = HandoverOffer { incarnation: Incarnation(9), ..offer(4, 1) };
    let (current, given) = (Incarnation(1), Incarnation(9));
    assert_eq!(owner.on_prepare(&other), Err(OfferRefusal::OtherIncarnation { current, given }));
    let unknown = HandoverOffer { section: SectionId(9), ..offer(4, 1) };
    assert_eq!(owner.on_prepare(&unknown), Err(OfferRefusal::UnknownSection { section: SectionId(9) }));
    owner.leave();
    assert_eq!(owner.on_prepare(&offer(4, 1)), Err(OfferRefusal::Leaving));
}

/// Creates a node that knows the routes of many sections, all of another node.
fn beside(sections: u64, uids: u64) -> Owner {
    let layout = Layout::new(0..sections * uids, uids as u32).unwrap();
    let mut owner = Owner::new("s", layout.clone(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    let route = Route::here(Some(OTHER), Epoch(1));
    let runs = vec![RouteRun { first: SectionId(0), sections: sections as u32, route }];
    let update = RouteUpdate { layout, runs, ..routes(1, [(0, 0); 4]) };
    adopt(&mut owner, 1, OwnershipUpdate { routes: Some(update), ..OwnershipUpdate::default() });
    owner
}

#[test]
fn copies_are_bounded_and_the_oldest_goes_first() {
    let sections = handover::MAX_INCOMING as u64 + 1;
    let mut owner = beside(sections, 10);
    for section in 0..sections {
        let one = HandoverOffer { section: SectionId(section as u32), ..offer(2, 1) };
        owner.on_stage(&one, copy(1)).unwrap();
    }
    let mut start = |section: u32| owner.incoming.take(SectionId(section), Epoch(2), HandoverId(1), Seq(10));
    assert_eq!(start(0), Err(CopyLoss::Missing));
    assert_eq!(start(1), Ok(copy(1).into()));
    assert_eq!(start(sections as u32 - 1), Ok(copy(1).into()));
}

#[test]
fn copies_are_bounded_in_bytes_too() {
    let uids = limits::MAX_SECTION_SIZE;
    let mut owner = beside(3, u64::from(uids));
    // Two copies of half of the largest section's uids each, and a third copy of all of them: a quarter too many.
    let copy = |slots: u32| {
        let distances = (0..slots).map(|slot| (crate::id::SlotIndex(slot), distance_of(1))).collect();
        SectionCopy { base: Seq(0), distances }
    };
    let one = |section: u32| HandoverOffer { section: SectionId(section), ..offer(2, 1) };
    owner.on_stage(&one(0), copy(uids / 2)).unwrap();
    owner.on_stage(&one(1), copy(uids / 2 + 1)).unwrap();
    owner.on_stage(&one(2), copy(uids)).unwrap();
    let mut start = |section: u32| {
        owner.incoming.take(SectionId(section), Epoch(2), HandoverId(1), Seq(1)).map(|copy| copy.slots())
    };
    assert_eq!(start(0), Err(CopyLoss::Missing));
    assert_eq!(start(1), Ok(uids as usize / 2 + 1));
    assert_eq!(start(2), Ok(uids as usize));
}

#[test]
fn attempts_of_one_section_are_bounded() {
    let mut owner = owning();
    for attempt in 1..=3 {
        owner.on_stage(&offer(2, attempt), copy(attempt)).unwrap();
    }
    assert_eq!(adopt(&mut owner, 3, granted(90, 1))[1], lost(CopyLoss::Missing));
}

#[test]
fn attempts_have_numbers_that_are_hard_to_guess() {
    let number = |secret: u64| {
        let mut owner = Owner::new("s", layout(), LeaseTerms::DEFAULTS).with_secret(secret);
        owner.on_registered(ME);
        adopt(&mut owner, 1, update(1, [(1, 1), (1, 1), (2, 1), (0, 0)], &[grant(0, 1, 0, 0), grant(1, 1, 0, 0)]));
        let mut numbers = Vec::new();
        for _ in 0..3 {
            let handover = preparing(&mut owner);
            numbers.push(handover.handover_id.0);
            owner.on_prepared(&handover, false, 0, &mut Vec::new());
        }
        numbers
    };
    let all: BTreeSet<_> = (0..100).flat_map(number).collect();
    assert_eq!(all.len(), 300, "no two are the same");
    assert!(all.iter().all(|number| *number > 1 << 32), "none is small");
}

#[test]
fn what_a_peer_sends_starts_no_ownership() {
    let mut owner = owning();
    owner.on_prepare(&offer(2, 1)).unwrap();
    owner.on_stage(&offer(2, 1), copy(7)).unwrap();
    let mut effects = Vec::new();
    owner.on_activate(&offer(2, 1), &mut effects).unwrap();
    assert_eq!(effects, [Effect::RenewNow]);
    assert_eq!(owned(&owner), [(0, 1), (1, 1)]);
    // The store knows of no such handover: its response grants nothing.
    let renewal = owner.renewal().unwrap();
    owner.on_renewed(&renewal, at(3), OwnershipUpdate::default(), &mut effects).unwrap();
    assert_eq!(owned(&owner), [(0, 1), (1, 1)]);
}

#[test]
fn an_offer_of_an_epoch_that_cannot_come_next_is_refused_and_not_remembered() {
    let mut owner = owning();
    for epoch in [3, u64::MAX] {
        let unknown = OfferRefusal::UnknownEpoch { section: SectionId(2), known: Epoch(1), given: Epoch(epoch) };
        assert_eq!(owner.on_prepare(&offer(epoch, 1)), Err(unknown));
        assert_eq!(owner.on_stage(&offer(epoch, 1), copy(7)), Err(unknown));
        assert_eq!(owner.on_activate(&offer(epoch, 1), &mut Vec::new()), Err(unknown));
    }
    assert_eq!(adopt(&mut owner, 3, granted(90, 0))[1], enter(2, 2, 90, None));
}

#[test]
fn more_releases_than_one_call_takes_are_spread_over_calls() {
    let sections = 5_000;
    let layout = Layout::new(0..sections * 10, 10).unwrap();
    let mut owner = Owner::new("s", layout.clone(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    let route = Route::here(Some(ME.node), Epoch(1));
    let runs = vec![RouteRun { first: SectionId(0), sections: sections as u32, route }];
    let update = RouteUpdate { layout, runs, ..routes(1, [(0, 0); 4]) };
    let grants = (0..sections as u32).map(|section| grant(section, 1, 0, 0)).collect();
    adopt(&mut owner, 1, OwnershipUpdate { routes: Some(update), grants, ..OwnershipUpdate::default() });
    owner.leave();
    let alone = || OwnershipUpdate { no_other_candidate: true, ..OwnershipUpdate::default() };
    let mut effects = adopt(&mut owner, 2, alone());
    let mut seen = BTreeSet::new();
    while !owner.is_empty() {
        for effect in effects.drain(..) {
            if let Effect::Table(TableEffect::Freeze { section, epoch }) = effect {
                owner.on_frozen(section, epoch, &SectionCopy::above(Seq(7)).into());
            }
        }
        let renewal = owner.renewal().unwrap();
        assert!(renewal.released.len() <= crate::limits::MAX_RAISES, "{} releases", renewal.released.len());
        let before = seen.len();
        seen.extend(renewal.released.iter().map(|(section, _)| section.0));
        assert!(seen.len() > before, "each call brings some");
        owner.on_renewed(&renewal, at(3), alone(), &mut effects).unwrap();
    }
    assert_eq!(seen.len() as u64, sections);
}

#[test]
fn a_change_of_owner_is_found_wherever_the_update_names_it() {
    let sections = 1_000u32;
    let layout = Layout::new(0..u64::from(sections) * 10, 10).unwrap();
    let mut owner = Owner::new("s", layout.clone(), LeaseTerms::DEFAULTS);
    owner.on_registered(ME);
    let run = |first: u32, sections: u32, node: NodeId, epoch: u64| {
        let route = Route::here(Some(node), Epoch(epoch));
        RouteRun { first: SectionId(first), sections, route }
    };
    let changed = |version: u64, base: u64, runs: Vec<RouteRun>| {
        let layout = layout.clone();
        let update = RouteUpdate { layout, runs, base: RouteVersion(base), ..routes(version, [(0, 0); 4]) };
        OwnershipUpdate { routes: Some(update), ..OwnershipUpdate::default() }
    };
    let grants = (0..sections).map(|section| grant(section, 1, 0, 0)).collect();
    adopt(&mut owner, 1, OwnershipUpdate { grants, ..changed(1, 0, vec![run(0, sections, ME.node, 1)]) });
    assert_eq!(owner.owned().count(), 1_000);
    let runs = vec![run(0, 1, OTHER, 2), run(300, 2, OTHER, 2), run(400, 1, ME.node, 1), run(999, 1, OTHER, 2)];
    let effects = adopt(&mut owner, 2, changed(2, 1, runs));
    assert_eq!(effects, [PUBLISH, leave(0, 1), leave(300, 1), leave(301, 1), leave(999, 1), extend(2)]);
    // A whole table names all sections.
    let runs = vec![run(0, 2, OTHER, 2), run(2, 998, ME.node, 1)];
    assert_eq!(adopt(&mut owner, 3, changed(3, 0, runs)), [PUBLISH, leave(1, 1), extend(3)]);
    assert_eq!(owner.owned().count(), 995);
}
