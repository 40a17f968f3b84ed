//! `set init`, `set create` and `set apply`.

use expect_test::{Expect, expect};

use crate::fake::Cluster;

fn check(cluster: &Cluster, args: &[&str], expect: Expect) {
    expect.assert_eq(&cluster.run_bare(args));
}

#[test]
fn the_first_set_is_defined_once() {
    let cluster = Cluster::start();
    cluster.a.lock().sets.clear();
    let file = cluster.set_file("im-a", "init");
    check(
        &cluster,
        &["set", "init", "--set", &file, "--dry-run"],
        expect![[r#"
            this would define set im-a as the first set of cluster "shop", with all uids 0..10,000,000 in 100 sections of 100,000
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["set", "init", "--set", &file],
        expect![[r#"
            error: this would define set im-a as the first set of cluster "shop", with all uids 0..10,000,000 in 100 sections of 100,000, and there is no terminal to confirm it on
            hint: pass --yes
            exit 2
        "#]],
    );
    check(
        &cluster,
        &["set", "create", "--set", &file, "--join", "h:1"],
        expect![[r#"
        error: im-a.toml: set im-a has genesis = "init", and this command needs "create"
        hint: `seqsvr set init` defines it
        exit 2
    "#]],
    );
    assert!(cluster.a.lock().changes.is_empty());
    check(
        &cluster,
        &["set", "init", "--set", &file, "--yes"],
        expect![[r#"
        set im-a is defined (id 97000291): it has 100 sections
        exit 0
    "#]],
    );
    check(
        &cluster,
        &["set", "init", "--set", &file, "--yes"],
        expect![[r#"
        error: set im-a is defined already (SET_EXISTS)
        exit 1
    "#]],
    );
    assert_eq!(cluster.a.lock().changes, ["create im-a with 0 addresses"]);
}

#[test]
fn a_further_set_is_created_in_a_cluster() {
    let cluster = Cluster::start();
    cluster.b.lock().sets.clear();
    cluster.a.lock().sets.truncate(1);
    let (a, b) = (cluster.set_file("im-a", "init"), cluster.set_file("im-b", "create"));
    let create = ["set", "create", "--set", &b, "--join-set", &a];
    check(
        &cluster,
        &[&create[..], &["--dry-run"]].concat(),
        expect![[r#"
        this would define set im-b without sections, in the cluster of A1, with uids 0..10,000,000 in 100 sections of 100,000
        exit 0
    "#]],
    );
    // Another layout and a taken name are refused before any change.
    cluster.a.lock().sets[0].section_size = 50_000;
    check(
        &cluster,
        &[&create[..], &["--yes"]].concat(),
        expect![[r#"
        error: im-b.toml: section_size 100000 is 50000 in set im-a
        hint: all sets of a cluster have the same layout
        exit 2
    "#]],
    );
    cluster.a.lock().sets[0].section_size = 100_000;
    cluster.a.lock().sets[0].name = "im-b".to_owned();
    check(
        &cluster,
        &[&create[..], &["--yes", "-o", "json"]].concat(),
        expect![[r#"
            {"error":{"reason":"SET_NAME_TAKEN","message":"set im-b already exists in the cluster, open (SET_NAME_TAKEN)","hint":"choose another name","exit":1}}
            error: set im-b already exists in the cluster, open (SET_NAME_TAKEN)
            hint: choose another name
            exit 1
        "#]],
    );
    cluster.a.lock().sets[0].name = "im-a".to_owned();
    assert!(cluster.b.lock().changes.is_empty());
    check(
        &cluster,
        &[&create[..], &["--yes"]].concat(),
        expect![[r#"
        set im-b is defined (id 98000294): it has 0 sections
        exit 0
    "#]],
    );
    assert_eq!(cluster.b.lock().changes, ["create im-b with 1 addresses"]);
}

#[test]
fn set_files_are_applied_where_sets_are_missing_and_compared_where_they_are_not() {
    let cluster = Cluster::start();
    cluster.b.lock().sets.clear();
    cluster.a.lock().sets.truncate(1);
    let stores = vec![cluster.addrs[0].clone()];
    cluster.a.lock().sets[0].stores = stores;
    let (a, b) = (cluster.set_file("im-a", "init"), cluster.set_file("im-b", "create"));
    check(
        &cluster,
        &["set", "apply", &b, &a, "--dry-run"],
        expect![[r#"
            set im-a: as in im-a.toml
            set im-b: not defined; this would define set im-b without sections, in the cluster of A1, with uids 0..10,000,000 in 100 sections of 100,000
            exit 0
        "#]],
    );
    check(
        &cluster,
        &["set", "apply", &b],
        expect![[r#"
            error: set im-b joins a cluster, but none of the files is of the first set of the cluster
            hint: name the file with genesis = "init" too, or run `seqsvr set create --join`
            exit 2
        "#]],
    );
    assert!(cluster.b.lock().changes.is_empty());
    check(
        &cluster,
        &["set", "apply", ".", "--yes"],
        expect![[r#"
            set im-a: as in ./im-a.toml
            set im-b: not defined; this would define set im-b without sections, in the cluster of A1, with uids 0..10,000,000 in 100 sections of 100,000
            set im-b is defined (id 98000294): it has 0 sections
            exit 0
        "#]],
    );
    assert_eq!(cluster.b.lock().changes, ["create im-b with 1 addresses"]);
    cluster.a.lock().sets[0].section_size = 50_000;
    cluster.a.lock().sets[0].stores = vec!["10.0.0.1:7301".to_owned()];
    check(
        &cluster,
        &["set", "apply", &a, "-o", "json"],
        expect![[r#"
            {"items":[{"set":"im-a","file":"im-a.toml","changed":false,"dry_run":false,"stored":{"name":"im-a","id":"97000291","state":"open","sections":100,"restores":0,"lineage":"7","layout_id":"4711","uid_start":"0","uid_end":"10000000","section_size":50000,"writes_series":false,"stores":["10.0.0.1:7301"],"allocs":["im-a.example:7100","im-a.example:7101"]},"differences":["section_size 100000 is 50000 in set im-a","store 1 at A1 is not a member; `seqsvr store add` adds it","the member at 10.0.0.1:7301 is not in the file; `seqsvr store remove` removes it"]}]}
            error: a defined set differs from its file; nothing was changed
            exit 2
        "#]],
    );
    check(
        &cluster,
        &["set", "apply", &a, "--yes"],
        expect![[r#"
            set im-a: im-a.toml: section_size 100000 is 50000 in set im-a
            set im-a: im-a.toml: store 1 at A1 is not a member; `seqsvr store add` adds it
            set im-a: im-a.toml: the member at 10.0.0.1:7301 is not in the file; `seqsvr store remove` removes it
            error: a defined set differs from its file; nothing was changed
            exit 2
        "#]],
    );
    // A command does not define a set that its store defines.
    cluster.a.lock().sets.clear();
    let own = cluster.set_file("im-a", "start");
    check(
        &cluster,
        &["set", "apply", &own, "--yes"],
        expect![[r#"
            error: set im-a is not defined yet: the first leader of its store defines it
            hint: start its stores
            exit 3
        "#]],
    );
    assert!(cluster.a.lock().changes.is_empty());
}
