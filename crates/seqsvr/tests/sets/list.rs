//! `set list`, `set show`, `section list`, `section show` and `migration list`.

use expect_test::{Expect, expect};
use seq_proto::v1::{MigrationPhase, MigrationStatus};

use crate::fake::{Cluster, migration};

fn split(cluster: &Cluster) {
    let (mut a, mut b) = (cluster.a.lock(), cluster.b.lock());
    for section in 60..100 {
        (a.sections[section], b.sections[section]) = (1, 0);
    }
    (a.sets[0].sections, a.sets[1].sections, b.sets[0].sections, b.sets[1].sections) = (60, 40, 40, 60);
}

fn check(cluster: &Cluster, args: &[&str], expect: Expect) {
    expect.assert_eq(&cluster.run(args));
}

#[test]
fn sets_are_listed_with_their_nodes() {
    let cluster = Cluster::start();
    split(&cluster);
    check(
        &cluster,
        &["set", "list"],
        expect![[r#"
        set   state  sections  stores  allocs  responded
        im-a  open         60       2       2          -
        im-b  open         40       1       2  1.2 s ago
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["set", "list", "-o", "wide"],
        expect![[r#"
            set   state  sections  stores                           allocs                               responded        id  restores  uids           section size  series
            im-a  open         60  A1 A2  im-a.example:7100 im-a.example:7101          -  97000291         0  0..10,000,000       100,000  -
            im-b  open         40  B1                  im-b.example:7100 im-b.example:7101  1.2 s ago  98000294         0  0..10,000,000       100,000  creates
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["set", "list", "-o", "json"],
        expect![[r#"
            {"items":[{"name":"im-a","id":"97000291","state":"open","sections":60,"restores":0,"lineage":"7","layout_id":"4711","uid_start":"0","uid_end":"10000000","section_size":100000,"writes_series":false,"stores":["A1","A2"],"allocs":["im-a.example:7100","im-a.example:7101"]},{"name":"im-b","id":"98000294","state":"open","sections":40,"restores":0,"lineage":"7","layout_id":"4711","uid_start":"0","uid_end":"10000000","section_size":100000,"writes_series":true,"stores":["B1"],"allocs":["im-b.example:7100","im-b.example:7101"],"responded_ms":1200}]}
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["set", "show", "im-b"],
        expect![[r#"
            set          im-b  (id 98000294)
            state        open
            restores     0
            uids         0..10,000,000 in sections of 100,000
            series       this set creates the series of the cluster
            sections     40 in this set
            stores       B1
            allocs       im-b.example:7100  im-b.example:7101

            sections  count  uids                   state     set   migration
            0..60        60  0..6,000,000           arrived   im-a  -
            60..100      40  6,000,000..10,000,000  resident  im-b  -
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["set", "show", "im-c"],
        expect![[r#"
        error: no set "im-c" is known to set im-a (UNKNOWN_SET)
        hint: it knows im-a, im-b
        exit 1
    "#]],
    );
    check(
        &cluster,
        &["set", "show", "im-c", "-o", "json"],
        expect![[r#"
        {"error":{"reason":"UNKNOWN_SET","message":"no set \"im-c\" is known to set im-a (UNKNOWN_SET)","hint":"it knows im-a, im-b","exit":1}}
        error: no set "im-c" is known to set im-a (UNKNOWN_SET)
        hint: it knows im-a, im-b
        exit 1
    "#]],
    );
}

#[test]
fn a_store_without_a_set_names_the_commands_that_define_one() {
    let cluster = Cluster::start();
    cluster.a.lock().sets.clear();
    check(
        &cluster,
        &["set", "list"],
        expect![[r#"
        error: the store has no set yet (NO_SET)
        hint: `seqsvr set init --set FILE` or `seqsvr set create --set FILE` defines it
        exit 3
    "#]],
    );
    check(
        &cluster,
        &["section", "list"],
        expect![[r#"
        error: the store has no set yet (NO_SET)
        hint: `seqsvr set init --set FILE` or `seqsvr set create --set FILE` defines it
        exit 3
    "#]],
    );
}

#[test]
fn sections_are_listed_and_filtered() {
    let cluster = Cluster::start();
    split(&cluster);
    check(
        &cluster,
        &["section", "list", "--sections", "58..62"],
        expect![[r#"
        section  uids                  state     set   owner  epoch  ceiling  migration
        58       5,800,000..5,900,000  resident  im-a  a1         3   10,000  -
        59       5,900,000..6,000,000  resident  im-a  a2         3   10,000  -
        60       6,000,000..6,100,000  arrived   im-b  -          -        -  -
        61       6,100,000..6,200,000  arrived   im-b  -          -        -  -
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["section", "list", "--uids", "100_000..300_000", "--owner", "a1"],
        expect![[r#"
        section  uids              state     set   owner  epoch  ceiling  migration
        2        200,000..300,000  resident  im-a  a1         3   10,000  -
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["section", "list", "--summarize"],
        expect![[r#"
        sections  count  uids                   state     set   migration
        0..60        60  0..6,000,000           resident  im-a  -
        60..100      40  6,000,000..10,000,000  arrived   im-b  -
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["section", "list", "--summarize", "im-b", "--uids", "5_500_000..6_500_000"],
        expect![[r#"
        sections  count  uids                  state     set   migration
        55..60        5  5,500,000..6,000,000  arrived   im-a  -
        60..65        5  6,000,000..6,500,000  resident  im-b  -
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["section", "list", "--state", "never"],
        expect![[r#"
        no sections
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["section", "list", "--uids", "150_000..300_000"],
        expect![[r#"
            error: uid 150000 is inside section 1, 100000..200000, but a section is never divided
            hint: the nearest uids are 100000 and 200000
            exit 2
        "#]],
    );
    check(
        &cluster,
        &["section", "list", "--uids", "300_000..100_000"],
        expect![[r#"
        error: invalid value '300_000..100_000' for '--uids <A..B>': it is reversed

        For more information, try '--help'.
        exit 2
    "#]],
    );
    let all = cluster.run(&["section", "list", "-o", "json"]);
    assert_eq!(all.matches("first_section").count(), 100, "all pages: {all}");
    let known = all.matches("\"began_by\":\"takeover\",\"began_ceiling\":\"5000\"").count();
    assert_eq!(known, 29, "of the even sections except section 0: {all}");
    assert_eq!(all.matches("\"began_at\"").count(), 29, "{all}");
    assert!(all.contains("\"began_by\":\"first_owners\",\"began_ceiling\":\"0\""), "{all}");
}

#[test]
fn a_section_is_shown_as_the_set_that_has_it_has_it() {
    let cluster = Cluster::start();
    split(&cluster);
    check(
        &cluster,
        &["section", "show", "59"],
        expect![[r#"
            section  uids                  state     set   owner  epoch  ceiling  migration
            59       5,900,000..6,000,000  resident  im-a  a2         3   10,000  -
            a2: A2 is a gRPC server of another kind; the section is shown without its activity
            exit 0
        "#]],
    );
    for (section, line) in [
        ("0", "ownership: began at an unknown time (first_owners), at the ceiling 0"),
        ("58", "ownership: began 2026-01-01T00:00:00Z (takeover), at the ceiling 5,000"),
    ] {
        let shown = cluster.run(&["section", "show", section]);
        assert!(shown.lines().any(|one| one.trim() == line), "{shown}");
    }
    check(
        &cluster,
        &["section", "show", "--uid", "6_000_042", "-o", "json"],
        expect![[r#"
            {"first_section":60,"sections":1,"uid_start":"6000000","uid_end":"6100000","state":"resident","set":"im-b","owner":"a1","epoch":"3","ceiling":"10000","began_at":"2026-01-01T00:00:00Z","began_by":"takeover","began_ceiling":"5000"}
            a1: B1 is a gRPC server of another kind; the section is shown without its activity
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["section", "show", "116"],
        expect![[r#"
            error: section 116 is outside 0..116
            exit 2
        "#]],
    );
    check(
        &cluster,
        &["section", "show", "--uid", "10_000_000"],
        expect![[r#"
        error: uid 10000000 is outside of the uids 0..10000000
        exit 2
    "#]],
    );
}

#[test]
fn migrations_of_all_sets_are_listed() {
    let cluster = Cluster::start();
    check(
        &cluster,
        &["migration", "list"],
        expect![[r#"
        no migrations
        exit 0
    "#]],
    );
    let stuck =
        MigrationStatus { stuck: "set im-b has no majority".to_owned(), ..migration(MigrationPhase::Open, 5, 3) };
    cluster.a.lock().migrations = vec![stuck];
    let back = MigrationStatus {
        id: 99,
        from: "im-b".to_owned(),
        to: "im-a".to_owned(),
        is_return: true,
        ..migration(MigrationPhase::Open, 5, 5)
    };
    cluster.b.lock().migrations = vec![back];
    check(
        &cluster,
        &["migration", "list"],
        expect![[r#"
            id     from  to    phase          stuck  done  sections  per s  p50 ms  p99 ms  max ms  started               ended
            12345  im-a  im-b  open           yes       3        40   10.0     4.1    24.0    88.3  2026-01-01T00:00:00Z  -
            99     im-b  im-a  open (return)  -         5        40   10.0     4.1    24.0    88.3  2026-01-01T00:00:00Z  -
            12345 is stuck: set im-b has no majority
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["migration", "list", "-o", "json"],
        expect![[r#"
            {"items":[{"id":"12345","from":"im-a","to":"im-b","phase":"open","sections":40,"departed":5,"arrived":3,"in_flight":2,"rate":200,"max_pause_ms":100,"paused":false,"sections_per_second":10.0,"eta_seconds":4,"pause_p50_us":4100,"pause_p99_us":24000,"pause_max_us":88300,"stuck":"set im-b has no majority","started":"2026-01-01T00:00:00Z","is_return":false,"runs":[{"first_section":60,"sections":40}]},{"id":"99","from":"im-b","to":"im-a","phase":"open","sections":40,"departed":5,"arrived":5,"in_flight":0,"rate":200,"max_pause_ms":100,"paused":false,"sections_per_second":10.0,"eta_seconds":4,"pause_p50_us":4100,"pause_p99_us":24000,"pause_max_us":88300,"started":"2026-01-01T00:00:00Z","is_return":true,"runs":[{"first_section":60,"sections":40}]}]}
            exit 0
        "#]],
    );
    // A set that does not respond is named, and the other sets are listed.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    cluster.a.lock().sets[1].stores = vec![silent.clone()];
    let listed = cluster.run(&["migration", "list"]).replace(&silent, "SILENT");
    expect![[r#"
        id     from  to    phase  stuck  done  sections  per s  p50 ms  p99 ms  max ms  started               ended
        12345  im-a  im-b  open   yes       3        40   10.0     4.1    24.0    88.3  2026-01-01T00:00:00Z  -
        12345 is stuck: set im-b has no majority
        error: set im-b: no leader of the store responded; last error of SILENT: tcp connect error: Connection refused
        exit 3
    "#]]
    .assert_eq(&listed);
}
