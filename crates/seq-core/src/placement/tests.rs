use alloc::format;
use alloc::string::String;
use alloc::vec;
use core::fmt::Write;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// Places `sections` on nodes written as "name*weight", with ids in the written order.
fn place(sections: u32, nodes: &str) -> Vec<NodeId> {
    place_on(sections, &candidates(nodes))
}

fn place_on(sections: u32, nodes: &[Candidate<'_>]) -> Vec<NodeId> {
    Ring::new(nodes).propose(&(0..sections).map(SectionId).collect::<Vec<_>>())
}

fn candidates(nodes: &str) -> Vec<Candidate<'_>> {
    let parse = |(text, id): (&'static str, u32)| {
        let (name, weight) = text.split_once('*').unwrap_or((text, "1"));
        Candidate { id: NodeId(id), name, weight: weight.parse().unwrap() }
    };
    // The names live as long as the test, because they are literals, or leaked once.
    let nodes: &'static str = String::from(nodes).leak();
    nodes.split_whitespace().zip(1..).map(parse).collect()
}

fn check(sections: u32, nodes: &str, expected: &Expect) {
    let mut text = String::new();
    let proposal = place(sections, nodes);
    for line in proposal.chunks(20) {
        let line: Vec<String> = line.iter().map(|id| format!("{id}")).collect();
        writeln!(text, "{}", line.join(" ")).unwrap();
    }
    expected.assert_eq(&text);
}

fn load(proposal: &[NodeId], id: u32) -> usize {
    proposal.iter().filter(|owner| owner.0 == id).count()
}

fn moved(before: &[NodeId], after: &[NodeId]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

#[test]
fn golden_vectors() {
    check(
        10,
        "a1 a2",
        &expect![[r#"
        2 2 2 1 1 2 1 1 2 1
    "#]],
    );
    check(
        40,
        "a1 a2 a3",
        &expect![[r#"
        2 2 3 1 3 2 1 3 3 1 3 3 1 1 3 1 2 1 1 3
        1 3 3 3 1 2 3 3 2 2 2 3 2 3 2 2 2 1 2 1
    "#]],
    );
    check(
        40,
        "a1*3 a2*1",
        &expect![[r#"
        2 2 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
        1 2 1 2 1 1 1 2 1 2 2 1 2 2 1 2 1 1 1 1
    "#]],
    );
    check(
        20,
        "im-alloc-1 im-alloc-2*2 im-alloc-3 im-alloc-4*5",
        &expect![[r#"
        4 4 4 4 4 2 3 2 3 4 4 4 4 2 2 4 4 2 4 4
    "#]],
    );
}

/// Pins a digest over 42,950 sections: all of 2^32 uids at the default section size.
#[test]
fn golden_digest_of_a_whole_uid_space() {
    let proposal = place(42_950, "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10");
    let digest = proposal.iter().fold(0u64, |sum, id| sum.wrapping_mul(31).wrapping_add(u64::from(id.0)));
    let loads: Vec<usize> = (1..=10).map(|id| load(&proposal, id)).collect();
    expect!["c2b34aa6228470d5 [3975, 4088, 4178, 4725, 4087, 4563, 4395, 4576, 4322, 4041]"]
        .assert_eq(&format!("{digest:016x} {loads:?}"));
}

#[test]
fn no_nodes_or_no_weight_is_no_proposal() {
    assert_eq!(place(10, ""), vec![]);
    assert_eq!(place(10, "a1*0 a2*0"), vec![]);
    assert_eq!(place(0, "a1"), vec![]);
    assert_eq!(load(&place(100, "a1*0 a2"), 1), 0);
}

#[test]
fn a_name_given_twice_counts_once() {
    assert_eq!(place(50, "a1 a2 a1"), place(50, "a1 a2"));
}

#[test]
fn ids_do_not_matter() {
    let nodes = |first: u32, second: u32| {
        [
            Candidate { id: NodeId(first), name: "a1", weight: 1 },
            Candidate { id: NodeId(second), name: "a2", weight: 1 },
        ]
    };
    let swapped: Vec<NodeId> = place_on(100, &nodes(2, 1)).iter().map(|id| NodeId(3 - id.0)).collect();
    assert_eq!(place_on(100, &nodes(1, 2)), swapped);
}

#[test]
fn a_leave_moves_the_leavers_sections_and_few_others() {
    let before = place(42_950, "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10");
    let after = place(42_950, "a1 a2 a3 a4 a5 a6 a7 a8 a9 a10*0");
    let extra = moved(&before, &after) - load(&before, 10);
    assert!(extra <= 42_950 / 20, "{extra} sections of nodes that stay moved");
}

fn nodes() -> impl Strategy<Value = Vec<(String, u32)>> {
    proptest::collection::btree_map("[a-z][a-z0-9-]{0,8}", 1..=limits::MAX_WEIGHT, 1..8)
        .prop_map(|nodes| nodes.into_iter().collect())
}

fn as_candidates(nodes: &[(String, u32)]) -> Vec<Candidate<'_>> {
    nodes.iter().zip(1..).map(|((name, weight), id)| Candidate { id: NodeId(id), name, weight: *weight }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_section_has_an_owner_and_no_owner_is_over_its_cap(sections in 1..2_000u32, nodes in nodes()) {
        let nodes = as_candidates(&nodes);
        let proposal = place_on(sections, &nodes);
        prop_assert_eq!(proposal.len(), sections as usize);
        let total: u32 = nodes.iter().map(|node| node.weight).sum();
        for node in &nodes {
            let share = f64::from(sections) * f64::from(node.weight) / f64::from(total);
            prop_assert!(load(&proposal, node.id.0) as f64 <= (share * 1.1).ceil() + 1e-6, "{:?} of {}", node, total);
        }
    }

    /// A new ring for each proposal is the twin that remembers nothing.
    #[test]
    fn a_ring_proposes_the_same_however_often_and_for_whichever_sections_it_was_asked_before(
        asked in proptest::collection::vec(proptest::collection::btree_set(0..3_000u32, 0..400), 1..6),
        nodes in nodes(),
    ) {
        let nodes = as_candidates(&nodes);
        let mut ring = Ring::new(&nodes);
        for sections in asked {
            let sections: Vec<SectionId> = sections.into_iter().map(SectionId).collect();
            prop_assert_eq!(ring.propose(&sections), Ring::new(&nodes).propose(&sections));
        }
    }

    #[test]
    fn a_ring_is_of_its_nodes_and_of_no_others(nodes in nodes(), other in any::<prop::sample::Index>()) {
        let same = as_candidates(&nodes);
        let ring = Ring::new(&same);
        prop_assert!(ring.is_of(&same));
        prop_assert!(ring.is_of(&same.iter().rev().copied().collect::<Vec<_>>()));
        let other = other.index(same.len());
        for change in [
            |node: &mut Candidate<'_>| node.id = NodeId(99),
            |node: &mut Candidate<'_>| node.name = "Another",
            |node: &mut Candidate<'_>| node.weight = node.weight % limits::MAX_WEIGHT + 1,
            |node: &mut Candidate<'_>| node.weight = 0,
        ] {
            let mut changed = same.clone();
            change(&mut changed[other]);
            prop_assert!(!ring.is_of(&changed), "{:?}", changed);
        }
    }

    #[test]
    fn the_order_of_the_candidates_does_not_matter(
        sections in 1..500u32,
        (nodes, shuffled) in nodes().prop_flat_map(|nodes| {
            let tagged: Vec<_> = nodes.iter().cloned().zip(1..).collect();
            (Just(nodes), Just(tagged).prop_shuffle())
        }),
    ) {
        let shuffled: Vec<_> = shuffled
            .iter()
            .map(|((name, weight), id)| Candidate { id: NodeId(*id), name, weight: *weight })
            .collect();
        prop_assert_eq!(place_on(sections, &as_candidates(&nodes)), place_on(sections, &shuffled));
    }

    #[test]
    fn a_leave_moves_little_beside_the_leavers_sections(sections in 200..4_000u32, nodes in nodes(), leaver in any::<prop::sample::Index>()) {
        prop_assume!(nodes.len() > 1);
        let mut nodes = as_candidates(&nodes);
        let before = place_on(sections, &nodes);
        let leaver = nodes.remove(leaver.index(nodes.len())).id;
        let after = place_on(sections, &nodes);
        let stayed = moved(&before, &after) - load(&before, leaver.0);
        prop_assert!(stayed <= sections as usize / 5, "{} of {} sections of nodes that stay moved", stayed, sections);
    }
}

#[test]
fn only_the_given_sections_are_placed_and_counted() {
    let nodes = candidates("a1 a2");
    let sections: Vec<SectionId> = (0..200).map(|index| SectionId(index * 7)).collect();
    let placed = Ring::new(&nodes).propose(&sections);
    assert_eq!(placed.len(), 200);
    assert!([1, 2].map(|id| load(&placed, id)).iter().all(|load| *load <= 110), "{placed:?}");
    let whole = place(1_400, "a1 a2");
    let same = sections.iter().zip(&placed).filter(|(section, node)| whole[section.0 as usize] == **node).count();
    assert!(same >= 180, "{same} of 200 have the owner that they have among all sections");
}
