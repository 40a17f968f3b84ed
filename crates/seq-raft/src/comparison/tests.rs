use super::*;

/// Digests of the entries 10, 20, ..; a letter stands for a state, and a dot for an entry without a digest.
fn digests(states: &str) -> Vec<StateDigest> {
    let digest = |(place, state): (u64, u8)| StateDigest { index: 10 * place, sha256: [state; 32] };
    (1..).zip(states.bytes()).filter(|(_, state)| *state != b'.').map(digest).collect()
}

/// Verdict of member 1, given the digests of members 1, 2, ..; the first `voters` of them vote.
fn verdict(voters: u64, states: &[&str]) -> String {
    let digests = (1..).zip(states.iter().map(|states| digests(states))).collect();
    match judge(1, &(1..=voters).collect(), &digests) {
        Verdict::Unknown => "unknown".to_owned(),
        Verdict::Same => "same".to_owned(),
        Verdict::AllSame { index } => format!("all same at {index}"),
        Verdict::Differs(difference) => format!("differs: {difference}"),
        Verdict::Outvoted(difference) => format!("outvoted: {difference}"),
    }
}

#[test]
fn a_member_is_outvoted_by_a_majority_of_the_voters_only() {
    for (voters, states, expected) in [
        (3, &["a", "a", "a"][..], "all same at 10"),
        (3, &["ab", "ab", "a"], "all same at 10"),
        (3, &["ab", "ab", ""], "same"),
        (3, &["a", "", ""], "unknown"),
        (3, &["", "a", "a"], "unknown"),
        // Digests of different entries are not compared.
        (3, &["a.", ".b", ".b"], "unknown"),
        (
            3,
            &["b", "a", "a"],
            "outvoted: behind log entry 10 the state of stores 2 and 3 is 61616161, that of store 1 is 62626262",
        ),
        (
            3,
            &["a", "a", "b"],
            "differs: behind log entry 10 the state of stores 1 and 2 is 61616161, that of store 3 is 62626262",
        ),
        // No state has a majority: two of four, one of two, three states of three.
        (
            4,
            &["b", "a", "a", "b"],
            "differs: behind log entry 10 the state of stores 2 and 3 is 61616161, that of stores 1 and 4 is 62626262",
        ),
        (2, &["b", "a"], "differs: behind log entry 10 the state of store 2 is 61616161, that of store 1 is 62626262"),
        (
            3,
            &["a", "b", "c"],
            "differs: behind log entry 10 the state of store 1 is 61616161, that of store 2 is 62626262, that of store 3 is 63636363",
        ),
        // Two of three voters do not respond: one other voter is no majority.
        (
            3,
            &["b", "a", ""],
            "differs: behind log entry 10 the state of store 2 is 61616161, that of store 1 is 62626262",
        ),
        // Members 4 and 5 do not vote.
        (
            3,
            &["b", "b", "", "a", "a"],
            "differs: behind log entry 10 the state of stores 4 and 5 is 61616161, that of stores 1 and 2 is 62626262",
        ),
        // The states are equal after the first entry and differ after the second.
        (
            3,
            &["ab", "ab", "ac"],
            "differs: behind log entry 20 the state of stores 1 and 2 is 62626262, that of store 3 is 63636363",
        ),
        // An older entry outvotes a member, too.
        (
            3,
            &["xb", "a", "a."],
            "outvoted: behind log entry 10 the state of stores 2 and 3 is 61616161, that of store 1 is 78787878",
        ),
    ] {
        assert_eq!(verdict(voters, states), expected, "{voters} of {states:?}");
    }
}

#[test]
fn a_learner_is_outvoted_too() {
    let all = [(4, digests("b")), (1, digests("a")), (2, digests("a")), (3, Vec::new())].into();
    assert!(matches!(judge(4, &(1..=3).collect(), &all), Verdict::Outvoted(_)));
}

#[test]
fn a_difference_stays_until_all_voters_have_the_same_state_behind_a_later_entry() {
    let noted = Digests::default();
    let difference = Difference { index: 20, members: [([1; 32], [1].into()), ([2; 32], [2].into())].into() };
    noted.note(&Verdict::Differs(difference.clone()));
    for verdict in [Verdict::Unknown, Verdict::Same, Verdict::AllSame { index: 20 }] {
        noted.note(&verdict);
        assert_eq!(noted.difference(), Some(difference.clone()), "{verdict:?}");
    }
    noted.note(&Verdict::AllSame { index: 21 });
    assert_eq!(noted.difference(), None);
}

#[test]
fn the_newest_digests_are_kept() {
    let kept = Digests::default();
    for index in 0..20 {
        kept.keep(StateDigest { index, sha256: [0; 32] });
    }
    let indexes: Vec<u64> = kept.kept().iter().map(|digest| digest.index).collect();
    assert_eq!(indexes, (12..20).collect::<Vec<u64>>());
}
