use expect_test::expect;

use super::*;

fn response(node: &str, role: Role) -> Answer {
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

fn store(id: u64) -> Answer {
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
            ..StoreStatus::default()
        }),
    )
}

fn alloc(name: &str, sections: u32) -> Answer {
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
            ..AllocStatus::default()
        }),
    )
}

fn view(answers: impl IntoIterator<Item = (&'static str, Answer)>) -> View {
    View::new(&answers.into_iter().map(|(addr, answer)| (addr.to_owned(), answer)).collect())
}

#[test]
fn a_healthy_set_is_a_page_of_columns() {
    let view = view([("h:1", store(1)), ("h:2", store(2)), ("h:7", alloc("a1", 5)), ("h:8", alloc("a2", 5))]);
    assert!(view.healthy);
    expect![[r#"
        set  uids          served  stores  allocs  numbers     raises  routes
        dev  0..1,000,000  10/10   2       2       30,882,520  3,062   v4

        store  set  addr  term  applied    log  snapshot  raises
        s1     dev  h:1      3    1,204  1,204         0   1,531
        s2*    dev  h:2      3    1,204  1,204         0   1,531

        alloc  set  addr  sections     numbers  forwarded  raises  routes
        a1     dev  h:7          5  15,441,260          0   1,531      v4
        a2     dev  h:8          5  15,441,260          0   1,531      v4
    "#]]
    .assert_eq(&view.render(false));
    expect![[r#"
        set  uids          served  stores  allocs  numbers     raises  routes
        dev  0..1,000,000  10/10   2       2       30,882,520  3,062   v4

        store  set  addr  term  applied    log  snapshot  raises  id  uptime  version
        s1     dev  h:1      3    1,204  1,204         0   1,531  1   1h02m   0.1.0 (3f1c2aa)
        s2*    dev  h:2      3    1,204  1,204         0   1,531  2   1h02m   0.1.0 (3f1c2aa)

        alloc  set  addr  sections     numbers  forwarded  raises  routes  life  refused  memory  uptime  version
        a1     dev  h:7          5  15,441,260          0   1,531      v4  1     0        64 KiB  1h02m   0.1.0 (3f1c2aa)
        a2     dev  h:8          5  15,441,260          0   1,531      v4  1     0        64 KiB  1h02m   0.1.0 (3f1c2aa)
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

        store  set  addr  term  applied    log  snapshot  raises
        s2*    dev  h:2      3    1,204  1,204         0   1,531

        alloc  set  addr  sections     numbers  forwarded  raises  routes
        a1     dev  h:7         10  15,441,260          0   1,531      v4

        no answer  why
        h:8        connection refused
    "#]]
    .assert_eq(&unreachable.render(false));
    assert!(!view([("h:2", store(2)), ("h:7", alloc("a1", 9))]).healthy, "a section is not served");
    assert!(!view([("h:1", store(1)), ("h:7", alloc("a1", 10))]).healthy, "no leader answers");
    assert!(!view([("h:7", alloc("a1", 10))]).healthy, "no store answers");
}
