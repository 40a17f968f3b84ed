//! Each rule of a plan, with a case that just passes and a case that just fails.

use super::*;

fn ids<const N: usize>(ids: [u64; N]) -> Ids {
    ids.into()
}

/// Voters 1, 2 and 3, led by 1; all live.
fn three() -> Group {
    Group {
        leader: 1,
        voters: ids([1, 2, 3]),
        learners: Ids::new(),
        live: ids([1, 2, 3]),
        caught_up: ids([1, 2, 3]),
        used: ids([1, 2, 3]),
    }
}

fn learner(mut group: Group, id: u64, caught_up: bool) -> Group {
    group.learners.insert(id);
    group.used.insert(id);
    if caught_up {
        group.live.insert(id);
        group.caught_up.insert(id);
    }
    group
}

fn dead(mut group: Group, id: u64) -> Group {
    group.live.remove(&id);
    group.caught_up.remove(&id);
    group
}

fn request<const A: usize, const R: usize>(add: [u64; A], remove: [u64; R]) -> MembershipRequest {
    MembershipRequest { add: ids(add), remove: ids(remove), ..MembershipRequest::default() }
}

fn voters(plan: Result<Plan, Refusal>) -> Ids {
    match plan {
        Ok(Plan::Change { voters, .. }) => voters,
        other => panic!("no change: {other:?}"),
    }
}

#[test]
fn the_live_voter_with_the_longest_log_is_chosen() {
    let lags = |lags: [(u64, u64); 4]| lags.into();
    let group = learner(three(), 4, true);
    assert_eq!(group.longest_log(&lags([(1, 0), (2, 7), (3, 5), (4, 0)])), Ok(3), "not itself, and not the learner");
    assert_eq!(dead(group.clone(), 3).longest_log(&lags([(1, 0), (2, 7), (3, 5), (4, 0)])), Ok(2));
    assert_eq!(dead(dead(group, 3), 2).longest_log(&BTreeMap::new()), Err(Refusal::NoSuccessor));
}

#[test]
fn a_dead_member_is_replaced_in_one_change() {
    let group = learner(dead(three(), 3), 4, true);
    let plan = group.plan(&request([4], [3])).unwrap();
    let expected = Plan::Change { promote: ids([4]), demote: ids([3]), drop: Ids::new(), voters: ids([1, 2, 4]) };
    assert_eq!(plan, expected);
}

#[test]
fn what_is_as_wanted_is_left_alone() {
    let mut group = three();
    group.used.insert(9);
    assert_eq!(group.plan(&request([2], [])), Ok(Plan::Nothing));
    assert_eq!(group.plan(&request([2], [9])), Ok(Plan::Nothing), "9 was removed before");
    assert_eq!(group.plan(&request([], [8])), Err(Refusal::UnknownMember { id: 8 }));
}

#[test]
fn a_vote_is_given_only_to_a_member_that_caught_up() {
    assert_eq!(three().plan(&request([4], [3])), Err(Refusal::UnknownMember { id: 4 }));
    let behind = learner(three(), 4, false);
    assert_eq!(behind.plan(&request([4], [3])), Err(Refusal::NotCaughtUp { id: 4 }));
    let dry_run = MembershipRequest { dry_run: true, ..request([4], [3]) };
    assert_eq!(voters(behind.plan(&dry_run)), ids([1, 2, 4]));
    assert_eq!(voters(three().plan(&dry_run)), ids([1, 2, 4]));
}

#[test]
fn a_used_id_is_refused_before_anything_is_done() {
    let mut group = three();
    group.used.insert(7);
    let refusal = group.plan(&MembershipRequest { dry_run: true, ..request([7], [3]) }).unwrap_err();
    assert_eq!(refusal, Refusal::UsedId { id: 7 });
    assert_eq!(group.check_new_id(7), Err(Refusal::UsedId { id: 7 }));
    assert_eq!(group.check_new_id(0), Err(Refusal::BadId));
    assert_eq!(group.check_new_id(8), Ok(()));
}

#[test]
fn even_voters_are_made_only_when_asked_for() {
    let four = learner(three(), 4, true);
    assert_eq!(four.plan(&request([4], [])), Err(Refusal::EvenVoters { voters: 4 }));
    assert_eq!(voters(four.plan(&MembershipRequest { allow_even: true, ..request([4], []) })), ids([1, 2, 3, 4]));
    let five = learner(four, 5, true);
    assert_eq!(voters(five.plan(&request([4, 5], []))), ids([1, 2, 3, 4, 5]));
    assert_eq!(three().plan(&request([], [3])), Err(Refusal::EvenVoters { voters: 2 }));
}

#[test]
fn seven_voters_are_too_many() {
    let mut group = three();
    group.voters.extend([4, 5]);
    group.live.extend([4, 5]);
    let group = learner(learner(group, 6, true), 7, true);
    assert_eq!(group.plan(&request([6, 7], [])), Err(Refusal::TooManyVoters { voters: 7 }));
}

#[test]
fn a_majority_of_the_voters_that_stay_must_answer() {
    let group = dead(three(), 3);
    let refusal = group.plan(&MembershipRequest { allow_even: true, ..request([], [2]) }).unwrap_err();
    assert_eq!(refusal, Refusal::NoMajority { voters: 2, live: 1, needed: 2, silent: vec![3] });
    assert_eq!(voters(group.plan(&request([], [2, 3]))), ids([1]));
    assert_eq!(three().plan(&request([], [1, 2, 3])), Err(Refusal::NoVoters));
}

#[test]
fn a_leader_hands_over_before_it_goes() {
    let group = learner(three(), 4, true);
    assert_eq!(group.plan(&request([4], [1])), Ok(Plan::TransferLeader { to: 2 }));
    // A learner has no vote yet, and store 2 does not respond.
    assert_eq!(dead(group.clone(), 2).plan(&request([4], [1])), Ok(Plan::TransferLeader { to: 3 }));
    let mut behind = group;
    behind.caught_up = ids([1, 4]);
    assert_eq!(behind.plan(&request([4], [1])), Err(Refusal::NoSuccessor));
}

#[test]
fn a_learner_goes_without_a_change_of_voters() {
    let group = dead(learner(three(), 4, false), 3);
    let expected = Plan::Change { promote: Ids::new(), demote: Ids::new(), drop: ids([4]), voters: ids([1, 2, 3]) };
    assert_eq!(group.plan(&request([], [4])), Ok(expected));
}

#[test]
fn leadership_goes_only_to_a_voter_that_has_the_log() {
    let group = dead(learner(three(), 4, true), 3);
    assert_eq!(group.check_successor(1), Ok(()));
    assert_eq!(group.check_successor(2), Ok(()));
    assert_eq!(group.check_successor(3), Err(Refusal::NotCaughtUp { id: 3 }));
    assert_eq!(group.check_successor(4), Err(Refusal::NotAVoter { id: 4 }));
    assert_eq!(group.check_successor(5), Err(Refusal::UnknownMember { id: 5 }));
}

#[test]
fn each_refusal_has_a_reason_of_its_own() {
    let (name, addr) = (String::new(), String::new());
    let refusals = [
        Refusal::OtherSet { mine: name.clone(), given: name.clone() },
        Refusal::BadId,
        Refusal::BadCount { count: 0 },
        Refusal::BadAddr { id: 1, addr: addr.clone() },
        Refusal::BadName { id: 1, name: name.clone() },
        Refusal::AddedAndRemoved { id: 1 },
        Refusal::UnknownMember { id: 1 },
        Refusal::NotAVoter { id: 1 },
        Refusal::UsedId { id: 1 },
        Refusal::OtherMember { id: 1, name: name.clone(), addr: addr.clone() },
        Refusal::Taken { id: 1, name, addr },
        Refusal::NotCaughtUp { id: 1 },
        Refusal::NoVoters,
        Refusal::TooManyVoters { voters: 6 },
        Refusal::EvenVoters { voters: 4 },
        Refusal::NoMajority { voters: 3, live: 1, needed: 2, silent: vec![2, 3] },
        Refusal::NoSuccessor,
    ];
    let count = refusals.len();
    let reasons: BTreeSet<String> =
        refusals.into_iter().map(|refusal| seq_proto::status::reason(&Status::from(refusal)).unwrap()).collect();
    assert_eq!(reasons.len(), count);
}

#[test]
fn a_format_is_written_only_when_every_member_has_reported_that_it_reads_it() {
    let group = learner(three(), 4, true);
    let reports = |id, newest| group.check_format(4, |other| if other == id { newest } else { Some(4) });
    assert_eq!(reports(4, Some(4)), Ok(()));
    assert_eq!(reports(4, Some(5)), Ok(()));
    assert_eq!(
        reports(4, Some(3)),
        Err(Refusal::Outdated { id: 4, newest: 3, to: 4 }),
        "learners apply the log as well"
    );
    assert_eq!(reports(2, None), Err(Refusal::Silent { id: 2, to: 4 }));
    assert_eq!(reports(1, None), Ok(()), "the leader asks itself for nothing");
    assert!(Refusal::Silent { id: 4, to: 4 }.is_for_silence());
}
