//! Identities of nodes, their sets, and the moment at which sections are counted.

use seq_core::clock_offset::ClockOffset;

use super::*;

/// A view of responses, and its verdict on the set `dev`.
fn verdict_of(responses: impl IntoIterator<Item = (&'static str, StatusResult)>, seeds: &[Node]) -> (State, String) {
    let view = Cluster::new(&sample(responses), seeds, now());
    let set = view.sets.iter().find(|set| set.name == "dev").unwrap();
    (set.state.unwrap(), set.verdict.clone())
}

/// The response of a process that draws this number at its start.
fn process(instance: u64, response: StatusResult) -> StatusResult {
    response.map(|response| StatusResponse { instance, ..response })
}

/// A node of a set file.
fn of_file(name: &str, addr: &str, role: NodeRole) -> Node {
    Node { name: Some(name.to_owned()), of: Some(("dev".to_owned(), role)), ..Node::at(addr) }
}

fn gone() -> StatusResult {
    Err("Connection refused".to_owned())
}

const OK: &str = "ok: 10 of 10 sections are served; 2 of 2 voters respond";

#[test]
fn a_node_is_who_it_says_it_is_wherever_it_responds() {
    // Both stores moved from h:1 and h:2, where the list still has them, and an allocator from h:7.
    let moved = || {
        let all = [("h:1", gone()), ("h:11", store(1)), ("h:12", store(2)), ("h:2", gone())];
        all.into_iter().chain([("h:17", alloc("a1", 10)), ("h:7", gone())])
    };
    assert_eq!(verdict_of(moved(), &[]), (State::Ok, OK.to_owned()));
    let view = Cluster::new(&sample(moved()), &[], now());
    assert!(view.unreachable.iter().all(|absent| absent.state == Absence::Moved), "{}", view.render(false));
    assert!(
        view.render(false).contains("s1           dev  h:1   moved  -    Connection refused"),
        "{}",
        view.render(false)
    );

    let twice = [
        ("h:1", process(1, store(1))),
        ("h:2", process(2, store(2))),
        ("h:7", process(7, alloc("a1", 10))),
        ("other:1", process(1, store(1))),
        ("other:7", process(7, alloc("a1", 10))),
    ];
    let view = Cluster::new(&sample(twice), &[], now());
    assert_eq!((&*view.verdict, view.stores.len(), view.allocs.len()), (OK, 2, 1), "one process has two addresses");
}

#[test]
fn a_copy_of_a_set_beside_the_original_is_neither_of_both() {
    let both = [
        ("h:1", process(1, store(1))),
        ("h:11", process(11, store(1))),
        ("h:17", process(17, alloc("a1", 10))),
        ("h:2", process(2, store(2))),
        ("h:7", process(7, alloc("a1", 10))),
    ];
    let (state, text) = verdict_of(both, &[]);
    assert!(state == State::Cloned && text.starts_with("CLONED: one store responds as two processes: s1 (h:1, h:11)"));
    let namesake = store_with(2, |status| status.set_id = 9);
    let (state, text) = verdict_of([("h:1", store(1)), ("h:2", namesake), ("h:7", alloc("a1", 10))], &[]);
    assert!(state == State::Cloned && text.contains("s1 of set 7, and s2 of set 9"), "{text}");
}

#[test]
fn members_of_an_outdated_set_file_are_removed_and_its_new_allocators_are_missing() {
    let responses =
        |addr: &'static str| [("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 10)), (addr, gone())];
    let of = |name, addr, role| verdict_of(responses(addr), &[of_file(name, addr, role)]);
    assert_eq!(of("s3", "h:3", NodeRole::Store), (State::Ok, OK.to_owned()));
    assert_eq!(of("s1", "h:31", NodeRole::Store), (State::Ok, OK.to_owned()), "s1 responds elsewhere");
    let (state, text) = of("a3", "h:9", NodeRole::Alloc);
    assert!(state == State::Degraded && text.contains("no response of allocator a3 (h:9)"), "{text}");
    // Without a majority the newest list is not known.
    let alone = |id| store_with(id, |status| (status.quorum, status.quorum_lost_ms) = (false, 99_000));
    let lost = [("h:1", alone(1)), ("h:2", alone(2)), ("h:3", gone())];
    let view = Cluster::new(&sample(lost), &[of_file("s3", "h:3", NodeRole::Store)], now());
    assert_eq!(view.unreachable[0].state, Absence::Silent);
}

/// Knowledge of the leader of `dev` about the set `other`.
fn knows_other(state: SetState) -> StatusResult {
    store_with(2, |status| {
        let info = SetInfo {
            id: 9,
            name: "other".to_owned(),
            stores: vec!["o:1".to_owned()],
            allocs: vec!["o:7".to_owned()],
            uid_end: 1_000_000,
            ..SetInfo::default()
        };
        status.sets = vec![SetInfo { state: state.into(), ..info }];
    })
}

#[test]
fn nodes_of_another_set_are_asked_and_missing_there_alone() {
    let dev = |state| [("h:1", store(1)), ("h:2", knows_other(state)), ("h:7", alloc("a1", 10))];
    assert_eq!(sample(dev(SetState::Open)).unasked(), BTreeSet::from(["h:8", "o:1", "o:7"].map(str::to_owned)));
    let silent = dev(SetState::Open).into_iter().chain([("o:1", gone()), ("o:7", gone())]);
    let view = Cluster::new(&sample(silent), &["h:1", "o:1"].map(Node::at), now());
    let of = |name: &str| view.sets.iter().find(|set| set.name == name).unwrap();
    assert_eq!((of("dev").state, &*of("dev").verdict), (Some(State::Ok), OK));
    assert_eq!(
        of("other").verdict,
        "NO QUORUM: no store responds; nothing can be committed; no allocator responds: o:7; next: start its stores again: o:1"
    );
    assert!(view.render(false).contains("other  0..1,000,000  0/?"), "{}", view.render(false));

    // Its allocators are dead, its stores are well.
    let other = store_with(1, |status| {
        (status.members[0].addr, status.set_id) = ("o:1".to_owned(), 9);
        status.members.truncate(1);
        status.allocs = vec![AllocMember { name: "a1".to_owned(), addr: "o:7".to_owned(), ..AllocMember::default() }];
    });
    let other = other.map(|response| StatusResponse { set: "other".to_owned(), ..response });
    let half = dev(SetState::Open).into_iter().chain([("o:1", other), ("o:7", gone())]);
    let view = Cluster::new(&sample(half), &[], now());
    let of = |name: &str| view.sets.iter().find(|set| set.name == name).unwrap();
    assert_eq!(
        of("other").verdict,
        "UNSERVED: 0 of 10 sections are served; 1 of 1 voters responds; no allocator responds; no response of a1 (o:7); next: \
         start a1 again"
    );
}

#[test]
fn a_closed_set_is_not_asked_and_nothing_of_it_is_missing() {
    let dev = || [("h:1", store(1)), ("h:2", knows_other(SetState::Closed)), ("h:7", alloc("a1", 10))];
    assert_eq!(sample(dev()).unasked(), BTreeSet::from(["h:8".to_owned()]));
    let view = Cluster::new(&sample(dev().into_iter().chain([("o:1", gone())])), &[Node::at("o:1")], now());
    assert!(view.healthy && view.worst() == State::Ok, "{}", view.verdict);
    assert_eq!((view.sets[1].state, view.unreachable[0].state), (Some(State::Closed), Absence::Closed));
    assert!(view.render(false).contains("other: closed: its users are in other sets"), "{}", view.render(false));
    let own = |id| store_with(id, |status| (status.set_state, status.sections) = (SetState::Closed.into(), 0));
    assert_eq!(verdict_of([("h:1", own(1)), ("h:2", own(2)), ("h:7", gone())], &[]).0, State::Closed);
}

#[test]
fn an_address_that_no_set_knows_is_no_sets_fault_and_no_success() {
    let responses = [("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 10)), ("x:1", gone())];
    let view = Cluster::new(&sample(responses), &[Node::at("x:1")], now());
    assert_eq!((view.sets[0].state, view.worst(), view.healthy), (Some(State::Ok), State::Degraded, false));
    assert!(
        view.render(false).ends_with("unknown: no response from x:1, which no set lists; next: check the address\n")
    );
}

#[test]
fn sections_are_counted_at_one_moment() {
    let owned = |a1, a2| {
        store_with(2, |status| {
            for (alloc, sections) in status.allocs.iter_mut().zip([a1, a2]) {
                alloc.sections = sections;
            }
        })
    };
    let of = |a1, a2, leader| {
        let view = view([("h:1", store(1)), ("h:2", leader), ("h:7", alloc("a1", a1)), ("h:8", alloc("a2", a2))]);
        (view.sets[0].sections_served, view.may_be_of_two_moments())
    };
    assert_eq!(of(6, 6, owned(5, 5)), (10, false), "the allocators have not noticed departures");
    assert_eq!(of(4, 5, owned(5, 5)), (9, true), "a section was handed over between two responses");
    let departed = store_with(2, |status| (status.sections, status.open_sets) = (8, 2));
    assert_eq!(of(5, 5, departed), (8, false));
}

#[test]
fn sections_that_do_not_arrive_are_unserved_until_another_set_has_them() {
    let source = |delayed| {
        store_with(2, |status| {
            (status.sections, status.sections_on_their_way) = (8, 2);
            (status.sections_delayed, status.delayed_ms, status.open_sets) = (delayed, 20_800, 2);
        })
    };
    let of = |source: StatusResult, target: u32| {
        let other = store_with(1, |status| {
            (status.sections, status.leader, status.set_id, status.open_sets) = (target, 1, 9, 2);
            (status.members[0].addr, status.layout_sections) = ("o:1".to_owned(), 10);
            status.members.truncate(1);
            status.allocs = vec![AllocMember { sections: target, ..registered(("o:7", "a1")) }];
        });
        let of_other = |response: StatusResult| response.map(|one| StatusResponse { set: "other".to_owned(), ..one });
        let dev = [("h:1", store(1)), ("h:2", source), ("h:7", alloc("a1", 8))];
        let view = Cluster::new(
            &sample(dev.into_iter().chain([("o:1", of_other(other)), ("o:7", of_other(alloc("a1", target)))])),
            &[],
            now(),
        );
        (view.worst(), view.verdict)
    };
    let (state, text) = of(source(2), 0);
    assert_eq!(state, State::Unserved);
    assert!(
        text.starts_with("UNSERVED: 8 of 10 sections are served; 2 of 2 voters respond; 2 sections departed to another set and have not arrived for 20 s"),
        "{text}"
    );
    assert_eq!(of(source(2), 2).0, State::Ok, "the other set has them, and the source does not know it yet");
    assert_eq!(of(source(0), 0).0, State::Ok, "they are on their way for milliseconds");
}

#[test]
fn clocks_are_compared_with_most_others() {
    let with = |offsets: [i64; 3]| {
        let mut sample = sample([("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 10))]);
        for (addr, ahead_ms) in ["h:1", "h:2", "h:7"].into_iter().zip(offsets) {
            sample.clocks.insert(addr.to_owned(), ClockOffset { ahead_ms, error_ms: 5 });
        }
        Cluster::new(&sample, &[], now()).verdict
    };
    assert_eq!(with([-7_200_000, -7_199_100, -7_200_500]), OK, "the clock of this machine is wrong");
    let text = with([0, 3_600_000, 200]);
    assert!(text.starts_with(&format!("{OK}; clock of s2 is 59 min ahead of most others")), "{text}");
}
