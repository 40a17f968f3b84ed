use std::collections::BTreeSet;

use expect_test::expect;

use seq_proto::v1::{
    AllocMember, AllocStatus, MigrationPace, MigrationStatus, RouteSet, Routes, SetInfo, SetState, StatusResponse,
    StoreMember, StoreStatus,
};

use super::*;
use crate::alloc_state::AllocState;
use crate::sample::StatusResult;

mod identity;

/// The start of 2026, in seconds since 1970.
const NOW: u64 = 1_767_225_600;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

fn response(node: &str, role: Role) -> StatusResult {
    let (version, revision) = ("0.1.0".to_owned(), "3f1c2aa".to_owned());
    let (set, node) = ("dev".to_owned(), node.to_owned());
    Ok(StatusResponse {
        version,
        revision,
        set,
        node,
        uptime_ms: 3_725_000,
        role: Some(role),
        ..StatusResponse::default()
    })
}

fn member(id: u64) -> StoreMember {
    let (name, addr) = (format!("s{id}"), format!("h:{id}"));
    StoreMember { id, name, addr, voter: true, ..StoreMember::default() }
}

/// A node that started just now may not have been reached yet because it did not listen.
#[test]
fn a_node_that_just_started_is_not_named_as_unreached() {
    let of = |uptime_ms: u64| {
        let (mut a1, mut a2) = (alloc("a1", 5), alloc("a2", 5));
        if let Ok(StatusResponse { role: Some(Role::Alloc(status)), .. }) = &mut a1 {
            status.unreached = vec!["a2".to_owned()];
        }
        a2.as_mut().unwrap().uptime_ms = uptime_ms;
        view([("h:1", store(1)), ("h:2", store(2)), ("h:7", a1), ("h:8", a2)]).verdict
    };
    assert!(
        !of(set_view::UNREACHED_AFTER_MS - 1).contains("is not reached"),
        "{}",
        of(set_view::UNREACHED_AFTER_MS - 1)
    );
    let named = of(set_view::UNREACHED_AFTER_MS);
    assert!(named.contains("a2 is not reached by a1 at its address for callers"), "{named}");
}

#[test]
fn an_allocator_has_a_state_and_a_stopped_one_that_was_drained_is_no_fault() {
    let with = |change: fn(&mut AllocMember)| store_with(2, |status| change(&mut status.allocs[1]));
    let state = |store: StatusResult, a2: StatusResult| {
        let view = view([("h:1", store_with(1, |_| {})), ("h:2", store), ("h:7", alloc("a1", 10)), ("h:8", a2)]);
        view.allocs.iter().find(|alloc| alloc.name == "a2").unwrap().state
    };
    assert_eq!(state(store(2), alloc("a2", 0)), AllocState::Serves);
    assert_eq!(state(store(2), unleased("a2", 0, 900)), AllocState::NoLease);
    assert_eq!(state(with(|a2| a2.drained = true), alloc("a2", 3)), AllocState::Draining);
    assert_eq!(state(with(|a2| a2.drained = true), alloc("a2", 0)), AllocState::Drained);
    assert_eq!(state(with(|a2| a2.leaving = true), alloc("a2", 0)), AllocState::Leaving);

    let gone = || Err("Connection refused".to_owned());
    let absent =
        |store| view([("h:1", store_with(1, |_| {})), ("h:2", store), ("h:7", alloc("a1", 10)), ("h:8", gone())]);
    let stopped = absent(with(|a2| (a2.drained, a2.sections) = (true, 0)));
    assert!(stopped.healthy && stopped.unreachable[0].state == Absence::Stopped, "{}", stopped.verdict);
    let crashed = absent(with(|a2| (a2.drained, a2.sections) = (true, 5)));
    assert!(!crashed.healthy && crashed.unreachable[0].state == Absence::Silent, "{}", crashed.verdict);
    let killed = absent(with(|a2| a2.died_ms = 12_400));
    assert_eq!(killed.unreachable[0].why, "died 12 s ago (reported); Connection refused");
    let ended = absent(with(|a2| a2.leaving = true));
    assert!(!ended.healthy, "it was not drained: a node is missing");
}

#[test]
fn a_silent_member_is_named_with_its_time() {
    let leader = store_with(2, |status| status.members[0].silent_ms = 93_000);
    let view = view([("h:1", Err("Connection refused".to_owned())), ("h:2", leader), ("h:7", alloc("a1", 10))]);
    let absent = &view.unreachable[0];
    assert_eq!(
        (absent.name.as_deref(), absent.set.as_deref(), absent.silent_ms),
        (Some("s1"), Some("dev"), Some(93_000))
    );
    assert!(
        view.render(false).contains("s1           dev  h:1   silent  93 s  Connection refused"),
        "{}",
        view.render(false)
    );
}

#[test]
fn a_set_without_sections_is_served_and_one_without_nodes_is_not() {
    let empty = |id| store_with(id, |status| (status.sections, status.layout_sections) = (0, 10));
    let responses =
        || [("h:1", empty(1)), ("h:2", empty(2)), ("h:7", alloc("a1", 0)), ("h:9", Err("refused".to_owned()))];
    let mut alone = sample(responses());
    alone.responses.remove("h:9");
    let view = Cluster::new(&alone, &[], now());
    assert_eq!(view.sets[0].state, Some(State::Ok), "{}", view.verdict);

    let mut named = sample(responses());
    named.learn_routes(&routes_to("other", &["h:9"]), true);
    let view = Cluster::new(&named, &[], now());
    let states: Vec<_> = view.sets.iter().map(|set| (&*set.name, set.state, &*set.verdict)).collect();
    let ok = "ok: it has no sections; 2 of 2 voters respond";
    let lost = "NO QUORUM: no store responds; nothing can be committed; no allocator responds: h:9; next: no address of its \
                stores is known here: name one with --addr";
    assert_eq!(states, [("dev", Some(State::Ok), ok), ("other", Some(State::NoQuorum), lost)]);
    assert_eq!(view.unreachable[0].set.as_deref(), Some("other"));
}

#[test]
fn faults_are_listed_with_the_next_step_and_a_page() {
    let stuck = |status: &mut StoreStatus| {
        let migration = seq_proto::v1::MigrationStatus {
            id: 4_711,
            to: "im-c".to_owned(),
            stuck: "set im-c has no majority".to_owned(),
            ..seq_proto::v1::MigrationStatus::default()
        };
        status.migrations = vec![migration];
        status.allocs[0].drained = true;
    };
    let gone = || Err("refused".to_owned());
    let cluster = view_of(
        [("h:1", store(1)), ("h:2", store_with(2, stuck)), ("h:7", alloc("a1", 10)), ("h:8", gone()), ("h:9", gone())],
        ["h:9"],
    );
    let mut text = String::new();
    for attention in &cluster.attention {
        text.push_str(&format!("{}\n", serde_json::to_string(attention).unwrap()));
    }
    expect![[r#"
        {"severity":"attention","rule":"unknown nodes","sentence":"no response from h:9, which no set lists","next":"check the address","runbook":"README.md#runbook"}
        {"severity":"attention","set":"dev","rule":"silent allocators","sentence":"no response of allocator a2 (h:8)","next":"start it again, or if it is to stay away, `seqsvr node drain a2`","runbook":"process.md#seqsvrdown"}
        {"severity":"attention","set":"dev","rule":"stuck migration","sentence":"migration 4711 to im-c does not move: set im-c has no majority","next":"`seqsvr migration watch 4711`","runbook":"sets.md#a-migration-does-not-move"}
        {"severity":"info","set":"dev","rule":"drained","sentence":"a1 is draining, 10 sections are left","runbook":"sets.md#drained-paused-or-moved"}
    "#]].assert_eq(&text);
}

/// Returns staged faults of the cluster as a whole and of migrations, which are neither conditions nor remarks of a
/// set.
fn staged() -> [Cluster; 4] {
    let migrations = |status: &mut StoreStatus| {
        let stuck = MigrationStatus { id: 4_711, stuck: "set im-c has no majority".to_owned(), ..Default::default() };
        let pace = Some(MigrationPace { paused: true, ..MigrationPace::default() });
        let (to, sections, arrived) = ("im-b".to_owned(), 1_200, 12);
        let paused = MigrationStatus { id: 4_712, to, pace, sections, arrived, ..Default::default() };
        status.migrations = vec![stuck, paused];
    };
    let lost = |status: &mut StoreStatus| status.sections = 8;
    let proxy =
        StatusResponse { node: "p1".to_owned(), certificate_not_after: Some(NOW + 3_600), ..StatusResponse::default() };
    let gone = || Err("refused".to_owned());
    [
        view([("h:1", store(1)), ("h:2", store_with(2, migrations)), ("h:7", alloc("a1", 10))]),
        view([("h:1", store_with(1, lost)), ("h:2", store_with(2, lost)), ("h:7", alloc("a1", 8))]),
        view([("h:2", store(2)), ("h:9", Ok(proxy))]),
        view_of([("h:2", store(2)), ("h:9", gone())], ["h:9"]),
    ]
}

#[test]
fn each_rule_beside_conditions_and_remarks_is_staged() {
    let mut found = BTreeMap::new();
    for attention in staged().into_iter().flat_map(|cluster| cluster.attention) {
        let next = attention.next.unwrap_or_default();
        found
            .entry(attention.rule)
            .or_insert(format!("{:?}: {}; next: {next}", attention.severity, attention.sentence));
    }
    let mut text = String::new();
    for rule in attention::RULES {
        let sentence = found.get(rule.name).unwrap_or_else(|| panic!("{} is not staged: {found:#?}", rule.name));
        text.push_str(&format!("{}: {sentence}\n", rule.name));
        let row = format!("| {} | ", rule.name);
        assert!(
            include_str!("../../../../docs/operations/watching.md").contains(&row),
            "docs/operations/watching.md has no row {row:?}"
        );
    }
    expect![[r#"
        unplaced: Fault: UNPLACED: 2 of 10 sections are in no set: their users get no numbers; next: keep all data directories, and compare `seqsvr section list` of each set: the set that had them was restored without the records of another
        unknown nodes: Attention: no response from h:9, which no set lists; next: check the address
        certificates of proxies: Attention: certificate expires soon: p1 (within a day); next: `seqsvr cert rotate`
        stuck migration: Attention: migration 4711 to  does not move: set im-c has no majority; next: `seqsvr migration watch 4711`
        paused migration: Info: migration 4712 to im-b is paused at 12 of 1,200 sections; next: `seqsvr migration resume 4712`
    "#]].assert_eq(&text);
}

/// Nodes of one release whose settings differ are named, and a node of a release without the digest is not compared.
#[test]
fn settings_are_compared_by_their_digests() {
    let with = |status: StatusResult, digest: u64| {
        status.map(|response| StatusResponse { settings_digest: digest, ..response })
    };
    let verdict = |digests: [u64; 3]| {
        let [a1, a2, a3] = digests;
        view([
            ("h:1", with(store(1), 5)),
            ("h:2", with(store(2), 5)),
            ("h:7", with(alloc("a1", 5), a1)),
            ("h:8", with(alloc("a2", 5), a2)),
            ("h:9", with(alloc("a3", 0), a3)),
        ])
        .verdict
    };
    let named = verdict([7, 7, 8]);
    assert!(named.contains("a3 has other settings than most allocators; next: `seqsvr config diff`"), "{named}");
    assert!(!verdict([7, 7, 7]).contains("settings") && !verdict([7, 7, 0]).contains("settings"));
}

#[test]
fn rates_are_those_between_two_samples() {
    let sample = |numbers: u64, uptime_ms: u64| {
        let mut response = alloc("a1", 10).unwrap();
        response.uptime_ms = uptime_ms;
        if let Some(Role::Alloc(alloc)) = &mut response.role {
            (alloc.allocations, alloc.raises) = (numbers, numbers / 1_000);
        }
        view([("h:2", store(2)), ("h:7", Ok(response))])
    };
    let before = sample(10_000, 60_000);
    let mut after = sample(14_000, 62_000);
    after.add_rates(&before, Duration::from_secs(2));
    assert_eq!((after.sets[0].numbers_per_second, after.sets[0].raises_per_second), (Some(2_000.0), Some(2.0)));
    assert!(after.render(false).contains("dev: 2,000 numbers/s, 2.0 raises/s\n"), "{}", after.render(false));
    let mut restarted = sample(500, 1_000);
    restarted.add_rates(&before, Duration::from_secs(2));
    assert_eq!(restarted.sets[0].numbers_per_second, Some(250.0), "it counts from its restart");
}

#[test]
fn a_set_without_stores_keeps_the_uids_of_an_earlier_view() {
    let before = view([("h:1", store(1)), ("h:7", alloc("a1", 10))]);
    let mut after = view([("h:7", alloc("a1", 10))]);
    assert_eq!((after.sets[0].uid_end, after.sets[0].sections), (0, 0));
    after.adopt(&before);
    let set = &after.sets[0];
    assert_eq!((set.uid_start, set.uid_end, set.section_size, set.sections), (0, 1_000_000, 100_000, 10));
}

#[test]
fn a_migration_stays_in_view_while_the_leader_does_not_respond() {
    let with_migration = |status: &mut StoreStatus| {
        let stuck = "no response of im-b".to_owned();
        let migration = seq_proto::v1::MigrationStatus { id: 4_711, arrived: 7, stuck, ..Default::default() };
        status.migrations = vec![migration];
        status.sections_moved = 3;
        let principal = "operator/alice".to_owned();
        status.balancing_paused = Some(seq_proto::v1::BalancingPause { principal, ..Default::default() });
    };
    let moves = |view: &Cluster| -> Vec<(u64, u32, bool)> {
        view.sets[0].moves.iter().map(|one| (one.id, one.arrived, view.sets[0].outdated)).collect()
    };
    let rules = |view: &Cluster| -> Vec<&str> { view.attention.iter().map(|one| one.rule).collect() };
    let before = view([("h:1", store(1)), ("h:2", store_with(2, with_migration))]);
    assert_eq!(moves(&before), [(4_711, 7, false)], "s2 leads");
    let gone = || Err("no response within 1s".to_owned());
    let mut without_leader = view([("h:1", store(1)), ("h:2", gone())]);
    assert_eq!(moves(&without_leader), []);
    assert!(!rules(&without_leader).contains(&"balancing"));
    without_leader.adopt(&before);
    assert_eq!(moves(&without_leader), [(4_711, 7, true)]);
    let of_leader = ["balancing", "moved sections", "stuck migration"];
    assert!(of_leader.iter().all(|rule| rules(&before).contains(rule)), "{:?}", rules(&before));
    assert!(of_leader.iter().all(|rule| rules(&without_leader).contains(rule)), "{:?}", rules(&without_leader));
    let verdict = &without_leader.sets[0].verdict;
    assert!(verdict.contains("paused by operator/alice") && without_leader.verdict == *verdict, "{verdict}");
    let stuck = without_leader.attention.iter().find(|one| one.rule == "stuck migration").expect("it is listed");
    assert!(stuck.sentence.ends_with("no response of im-b, as the leader of its store last reported"), "{stuck:?}");
    assert_eq!((without_leader.sets[0].migrations.len(), without_leader.sets[0].sections_moved), (1, 3));
    let mut after = view([("h:1", store(1)), ("h:2", store(2))]);
    after.adopt(&without_leader);
    assert_eq!(moves(&after), [], "the leader reports that it is over");
    assert!(!after.sets[0].outdated && !rules(&after).contains(&"balancing"));
}

fn registered((addr, name): (&str, &str)) -> AllocMember {
    AllocMember { name: name.to_owned(), addr: addr.to_owned(), sections: 10, ..AllocMember::default() }
}

/// A route table that names another set.
fn routes_to(set: &str, allocs: &[&str]) -> Routes {
    let allocs = allocs.iter().map(|addr| (*addr).to_owned()).collect();
    Routes { sets: vec![RouteSet { name: set.to_owned(), allocs, id: 9 }], ..Routes::default() }
}

/// A store's response after `change`.
fn store_with(id: u64, change: impl FnOnce(&mut StoreStatus)) -> StatusResult {
    let mut response = store(id);
    if let Ok(StatusResponse { role: Some(Role::Store(status)), .. }) = &mut response {
        change(status);
    }
    response
}

/// An allocator whose lease expired `ended` milliseconds ago.
fn unleased(name: &str, sections: u32, ended: u64) -> StatusResult {
    let mut response = alloc(name, sections);
    if let Ok(StatusResponse { role: Some(Role::Alloc(status)), .. }) = &mut response {
        (status.lease_remaining_ms, status.lease_ended_ms) = (0, ended);
    }
    response
}

fn store(id: u64) -> StatusResult {
    response(
        &format!("s{id}"),
        Role::Store(StoreStatus {
            id,
            leader: 2,
            term: 3,
            last_log_index: 1_204,
            applied_index: 1_204,
            uid_end: 1_000_000,
            section_size: 100_000,
            sections: 10,
            route_version: 4,
            raises_applied: 1_531,
            members: (1..=2).map(member).collect(),
            allocs: ["h:7", "h:8"].into_iter().zip(["a1", "a2"]).map(registered).collect(),
            quorum: true,
            layout_sections: 10,
            open_sets: 1,
            set_id: 7,
            max_round_trip_ms: 90,
            ..StoreStatus::default()
        }),
    )
}

fn alloc(name: &str, sections: u32) -> StatusResult {
    response(
        name,
        Role::Alloc(AllocStatus {
            id: 1,
            incarnation: 1,
            sections,
            route_version: 4,
            allocations: 15_441_260,
            raises: 1_531,
            slot_bytes: 65_536,
            lease_remaining_ms: 1_700,
            ..AllocStatus::default()
        }),
    )
}

fn view(responses: impl IntoIterator<Item = (&'static str, StatusResult)>) -> Cluster {
    view_of(responses, [])
}

/// Returns the sample with the responses of the nodes at addresses.
fn sample(responses: impl IntoIterator<Item = (&'static str, StatusResult)>) -> Sample {
    let mut sample = Sample::default();
    for (addr, response) in responses {
        response.iter().for_each(|response| sample.learn_status(response, true));
        sample.responses.insert(addr.to_owned(), response);
    }
    sample
}

fn view_of<const N: usize>(
    responses: impl IntoIterator<Item = (&'static str, StatusResult)>,
    seeds: [&str; N],
) -> Cluster {
    Cluster::new(&sample(responses), &seeds.map(Node::at), now())
}

#[test]
fn a_healthy_set_is_a_page_of_columns() {
    let view = view([("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 5)), ("h:8", alloc("a2", 5))]);
    assert!(view.healthy);
    expect![[r#"
        set  uids          served  stores  allocs  numbers     raises  routes
        dev  0..1,000,000  10/10   2       2       30,882,520  3,062   v4

        store  set  addr  term  applied    log  snapshot  raises     up  version
        s1     dev  h:1      3    1,204  1,204         0   1,531  1h02m  0.1.0
        s2*    dev  h:2      3    1,204  1,204         0   1,531  1h02m  0.1.0

        alloc  set  addr  state   sections  lease     numbers  forwarded  raises  routes     up  version
        a1     dev  h:7   serves         5  1.7 s  15,441,260          0   1,531      v4  1h02m  0.1.0
        a2     dev  h:8   serves         5  1.7 s  15,441,260          0   1,531      v4  1h02m  0.1.0

        dev: ok: 10 of 10 sections are served; 2 of 2 voters respond
    "#]]
    .assert_eq(&view.render(false));
    expect![[r#"
        set  uids          served  stores  allocs  numbers     raises  routes
        dev  0..1,000,000  10/10   2       2       30,882,520  3,062   v4

        store  set  addr  term  applied    log  snapshot  raises     up  version  id  quorum  round trips  http  certificate  revision
        s1     dev  h:1      3    1,204  1,204         0   1,531  1h02m  0.1.0    1   yes     -            -     -            3f1c2aa
        s2*    dev  h:2      3    1,204  1,204         0   1,531  1h02m  0.1.0    2   yes     -            -     -            3f1c2aa

        alloc  set  addr  state   sections  lease     numbers  forwarded  raises  routes     up  version  incarnation  refused  memory  http  redis  certificate  revision
        a1     dev  h:7   serves         5  1.7 s  15,441,260          0   1,531      v4  1h02m  0.1.0    1            0        64 KiB  -     -      -            3f1c2aa
        a2     dev  h:8   serves         5  1.7 s  15,441,260          0   1,531      v4  1h02m  0.1.0    1            0        64 KiB  -     -      -            3f1c2aa

        dev: ok: 10 of 10 sections are served; 2 of 2 voters respond
    "#]].assert_eq(&view.render(true));
}

#[test]
fn what_is_missing_is_shown_and_unhealthy() {
    let unreachable =
        view([("h:2", store(2)), ("h:7", alloc("a1", 10)), ("h:8", Err("connection refused".to_owned()))]);
    assert!(!unreachable.healthy);
    expect![[r#"
        set  uids          served  stores  allocs  numbers     raises  routes
        dev  0..1,000,000  10/10   1       1       15,441,260  1,531   v4

        store  set  addr  term  applied    log  snapshot  raises     up  version
        s2*    dev  h:2      3    1,204  1,204         0   1,531  1h02m  0.1.0

        alloc  set  addr  state   sections  lease     numbers  forwarded  raises  routes     up  version
        a1     dev  h:7   serves        10  1.7 s  15,441,260          0   1,531      v4  1h02m  0.1.0

        no response  set  addr  state   for  why
        a2           dev  h:8   silent  -    connection refused

        dev: DEGRADED: 10 of 10 sections are served; no response of store s1; next: start it again, or if its disk is lost, `seqsvr store replace`; no response of allocator a2 (h:8); next: start it again, or if it is to stay away, `seqsvr node drain a2`
    "#]]
    .assert_eq(&unreachable.render(false));
    assert!(!view([("h:2", store(2)), ("h:7", alloc("a1", 9))]).healthy, "a section is not served");
    assert!(!view([("h:1", store(1)), ("h:7", alloc("a1", 10))]).healthy, "no leader responds");
    assert!(!view([("h:7", alloc("a1", 10))]).healthy, "no store responds");
}

#[test]
fn a_lost_quorum_is_the_verdict_and_no_section_counts_as_served() {
    let gone = || Err("tcp connect error".to_owned());
    let alone = store_with(2, |status| {
        status.members = (1..=3).map(member).collect();
        (status.quorum, status.quorum_lost_ms) = (false, 8_120);
    });
    let view = view_of(
        [
            ("h:1", gone()),
            ("h:2", alone),
            ("h:3", gone()),
            ("h:7", unleased("a1", 5, 6_020)),
            ("h:8", unleased("a2", 5, 6_340)),
        ],
        ["h:7"],
    );
    assert!(!view.healthy);
    expect![[r#"
        set  uids          served  stores  allocs  numbers     raises  routes
        dev  0..1,000,000  0/10    1       2       30,882,520  3,062   v4

        store  set  addr  term  applied    log  snapshot  raises     up  version
        s2*    dev  h:2      3    1,204  1,204         0   1,531  1h02m  0.1.0

        alloc  set  addr  state     sections  lease               numbers  forwarded  raises  routes     up  version
        a1     dev  h:7   no lease         5  ended 6.0 s ago  15,441,260          0   1,531      v4  1h02m  0.1.0
        a2     dev  h:8   no lease         5  ended 6.3 s ago  15,441,260          0   1,531      v4  1h02m  0.1.0

        no response  set  addr  state   for  why
        s1           dev  h:1   silent  -    tcp connect error
        s3           dev  h:3   silent  -    tcp connect error

        dev: NO QUORUM: 1 of 3 voters responds, no majority since 8.1 s; nothing can be committed; leases ended 6.0 s ago: every call is refused; next: start s1, s3 again; if their disks are lost, `seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`
    "#]]
    .assert_eq(&view.render(false));
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!((&json["sets"][0]["sections_served"], &json["sets"][0]["state"]), (&0.into(), &"no_quorum".into()));
    assert_eq!(json["verdict"], json["sets"][0]["verdict"]);
    assert!(json["verdict"].as_str().unwrap().starts_with("NO QUORUM: 1 of 3 voters responds"), "{json:#}");
}

#[test]
fn a_removed_member_is_not_missing() {
    // The set file of an allocator lists store 9, which the store does not.
    let responses =
        || [("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 10)), ("h:9", Err("gone".to_owned()))];
    let view = view_of(responses(), ["h:7"]);
    assert!(view.healthy, "{}", view.verdict);
    assert!(view.render(false).contains("h:9   removed  -    gone"), "{}", view.render(false));
    // A node that the user named counts as missing in any case.
    assert!(!view_of(responses(), ["h:7", "h:9"]).healthy);
}

#[test]
fn each_state_has_its_sentence() {
    let verdict = |responses: Vec<(&'static str, StatusResult)>| view(responses).verdict;
    expect!["ok: 10 of 10 sections are served; 2 of 2 voters respond"].assert_eq(&verdict(vec![
        ("h:1", store(1)),
        ("h:2", store(2)),
        ("h:7", alloc("a1", 10)),
    ]));
    expect![[r#"UNSERVED: 5 of 10 sections are served; 2 of 2 voters respond; without a lease: a2; next: sections of a lost allocator move within seconds: repeat, then start allocators (`seqsvr node list`)"#]]
        .assert_eq(&verdict(vec![("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 5)), ("h:8", unleased("a2", 5, 900))]));
    expect!["DEGRADED: 10 of 10 sections are served; without a lease: a2; next: repeat, then look at its log"]
        .assert_eq(&verdict(vec![
            ("h:1", store(1)),
            ("h:2", store(2)),
            ("h:7", alloc("a1", 10)),
            ("h:8", unleased("a2", 5, 900)),
        ]));
    let halted = unleased("a2", 0, 900).map(|mut response| {
        let Some(Role::Alloc(status)) = &mut response.role else { unreachable!() };
        status.halted = "the store lost entries".to_owned();
        response
    });
    expect!["ROLLED BACK: a2 serve nothing; a2: the store lost entries; next: stop all stores, keep their directories, and do not start these allocators again: `seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`"]
        .assert_eq(&verdict(vec![("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 10)), ("h:8", halted)]));
    let with = |id, change: fn(&mut StoreStatus)| store_with(id, change);
    expect!["SPLIT: stores s1 of lineage 4294967301, and s2 of lineage 4294967305: they were restored from other files or under other counts, and may allocate the same numbers; next: stop the stores that were restored otherwise, and restore them as the others"].assert_eq(&verdict(vec![
        ("h:1", with(1, |status| (status.quorum, status.lineage) = (true, 1 << 32 | 5))),
        ("h:2", with(2, |status| (status.quorum, status.lineage) = (true, 1 << 32 | 9))),
        ("h:7", alloc("a1", 10)),
    ]));
    expect!["ROLLED BACK: no allocator registers and no section gets another owner; committed entries of the store are gone; next: stop all stores, keep their directories: `seqsvr unsafe recover --set FILE --data DIR --out BACKUP`, then on each store `seqsvr restore --set FILE --id N --data NEW_DIR --from BACKUP`"].assert_eq(&verdict(vec![
        ("h:1", with(1, |status| status.entries_lost = "committed entries of the store are gone".to_owned())),
        ("h:2", store(2)),
        ("h:7", alloc("a1", 10)),
    ]));
    expect!["DIFFERS: behind log entry 7 the state of stores 1 and 2 is a1b2c3d4, that of store 3 is 01020304; 2 of 2 voters respond; next: replace the stores outside of the majority under new ids (`seqsvr store replace`); without a majority of equal states, keep all directories and restore the newest backup (`seqsvr restore`)"].assert_eq(&verdict(vec![
        (
            "h:1",
            with(1, |status| {
                (status.quorum, status.difference) = (
                    true,
                    "behind log entry 7 the state of stores 1 and 2 is a1b2c3d4, that of store 3 is 01020304"
                        .to_owned(),
                );
            }),
        ),
        ("h:2", store(2)),
        ("h:7", alloc("a1", 10)),
    ]));
    let of_layout = |layout, sets| {
        let leader = store_with(2, |status| {
            (status.quorum, status.layout_sections, status.open_sets) = (true, layout, sets);
        });
        verdict(vec![("h:1", store(1)), ("h:2", leader), ("h:7", alloc("a1", 10))])
    };
    expect!["UNPLACED: 10 of 20 sections are in no set: their users get no numbers; next: keep all data directories, and compare `seqsvr section list` of each set: the set that had them was restored without the records of another"].assert_eq(&of_layout(20, 1));
    assert!(of_layout(10, 1).starts_with("ok"), "{}", of_layout(10, 1));
    let restored = store_with(2, |status| status.restores = 3);
    let text = verdict(vec![("h:1", store(1)), ("h:2", restored), ("h:7", alloc("a1", 10))]);
    assert!(text.starts_with("ok") && text.ends_with("; restores are counted up to 3"), "{text}");
    assert!(of_layout(20, 2).starts_with("ok"), "another set did not respond: {}", of_layout(20, 2));
    expect!["NO QUORUM: no store responds; nothing can be committed; leases end in 1.7 s; next: no address of its stores is known here: name one with --addr"]
        .assert_eq(&verdict(vec![("h:1", Err("gone".to_owned())), ("h:7", alloc("a1", 10))]));
}

/// A response of a node whose certificate expires `seconds` from now on.
fn expires_in(response: StatusResult, seconds: i64) -> StatusResult {
    let not_after = NOW.checked_add_signed(seconds);
    response.map(|response| StatusResponse { certificate_not_after: not_after, ..response })
}

/// The response of a proxy.
fn proxy(name: &str) -> StatusResult {
    alloc(name, 0).map(|response| StatusResponse { role: None, set: String::new(), ..response })
}

#[test]
fn a_certificate_that_expires_soon_is_a_warning_and_an_expired_one_is_unhealthy() {
    const DAY: i64 = 86_400;
    let of = |s1: i64, a1: i64| {
        let responses = [
            ("h:1", expires_in(store(1), s1)),
            ("h:2", expires_in(store(2), 90 * DAY)),
            ("h:7", expires_in(alloc("a1", 10), a1)),
        ];
        view(responses)
    };
    let valid = of(14 * DAY, 90 * DAY);
    assert_eq!(
        (valid.worst(), &*valid.verdict),
        (State::Ok, "ok: 10 of 10 sections are served; 2 of 2 voters respond")
    );

    let soon = of(14 * DAY - 1, 3_600);
    assert!(soon.healthy && soon.worst() == State::Ok);
    expect!["ok: 10 of 10 sections are served; 2 of 2 voters respond; certificate expires soon: s1 (in 13 days), a1 (within a day); next: `seqsvr cert rotate`"]
        .assert_eq(&soon.verdict);

    let expired = of(-1, 2 * DAY - 1);
    assert!(!expired.healthy && expired.worst() == State::Degraded);
    expect!["DEGRADED: 10 of 10 sections are served; certificate expired: s1 (2025-12-31T23:59:59Z); certificate expires soon: a1 (in 1 day); next: `seqsvr cert rotate`"]
        .assert_eq(&expired.verdict);
    let json = serde_json::to_value(&expired).unwrap();
    assert_eq!(json["stores"][0]["certificate"]["state"], "expired");
    assert_eq!(json["allocs"][0]["certificate"]["expires"], "2026-01-02T23:59:59Z");
    assert!(expired.render(true).contains("2026-01-02T23:59:59Z") && !expired.render(false).contains("2026-01-02"));
    assert!(serde_json::to_value(view([("h:1", store(1))])).unwrap()["stores"][0].get("certificate").is_none());
}

#[test]
fn a_node_that_does_not_respond_for_its_expired_certificate_is_named_with_the_command() {
    let gone = || Err(EXPIRED.to_owned());
    let silent = view([("h:1", store(1)), ("h:2", gone()), ("h:7", alloc("a1", 10)), ("h:8", gone())]);
    assert_eq!(silent.worst(), State::Degraded);
    expect!["DEGRADED: 10 of 10 sections are served; certificate expired: s2, a2; next: `seqsvr cert rotate`"]
        .assert_eq(&silent.verdict);
    assert!(silent.render(false).contains("expired"), "{}", silent.render(false));
}

#[test]
fn an_expired_certificate_of_a_proxy_is_unhealthy() {
    let of = |seconds: i64| {
        let proxy = expires_in(proxy("p1"), seconds);
        view([("h:1", store(1)), ("h:2", store(2)), ("h:6", proxy), ("h:7", alloc("a1", 10))])
    };
    let soon = of(86_400);
    assert!(
        soon.healthy
            && soon
                .render(false)
                .ends_with("\nproxies: certificate expires soon: p1 (in 1 day); next: `seqsvr cert rotate`\n"),
        "{}",
        soon.render(false)
    );
    let expired = of(-1);
    assert!(
        !expired.healthy && expired.worst() == State::Degraded && expired.verdict.contains("p1"),
        "{}",
        expired.verdict
    );
    assert!(
        expired.render(true).contains("p1     h:6   1h02m  0.1.0    2025-12-31T23:59:59Z  3f1c2aa"),
        "{}",
        expired.render(true)
    );
}
