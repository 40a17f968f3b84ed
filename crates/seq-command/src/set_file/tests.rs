use expect_test::{Expect, expect};
use seq_core::set_spec::Genesis;

use super::*;

const GOOD: &str = r#"name = "im"
uids = "0..1_000"
section_size = 100
step = 10
store = [{ id = 1, name = "s1", addr = "h:1", raft = "h:11", admin = "h:8", http = "h:2" }]

[[alloc]]
name = "b"
addr = "h:3"
peer = "h:9"
http = "h:4"

[[alloc]]
name = "a"
addr = "h:5"
peer = "h:10"
http = "h:6"
redis = "h:7"
weight = 2
"#;

fn check(text: &str, expect: Expect) {
    let text = match parse(Path::new("im.toml"), text) {
        Ok(set) => format!("{:#?}\n", set.spec),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    };
    expect.assert_eq(&text);
}

fn with(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old));
    GOOD.replacen(old, new, 1)
}

#[test]
fn the_shipped_files_are_good() {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sets");
    let (sets, problems) = load_all(&[sets]);
    assert_eq!(problems, []);
    let names: Vec<_> = sets.iter().map(|set| (set.spec.name.clone(), set.cluster())).collect();
    let four = ["im-a", "im-b", "im-c", "im-d"].map(|name| (name, "four"));
    let expected = [("dev-b", "dev"), ("dev", "dev"), ("im-a", "three-node")]
        .into_iter()
        .chain(four)
        .chain([("im-a", "two"), ("im-b", "two")]);
    let expected: Vec<_> = expected.map(|(name, cluster)| (name.to_owned(), cluster.to_owned())).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_good_file_is_a_spec_in_order() {
    let set = parse(Path::new("im.toml"), GOOD).unwrap();
    assert_eq!(set.cluster(), "im");
    assert_eq!(set.spec.uids, 0..1_000);
    assert_eq!(
        set.spec.allocs.iter().map(|alloc| (alloc.name.as_str(), alloc.weight)).collect::<Vec<_>>(),
        [("a", 2), ("b", 1)]
    );
}

#[test]
fn what_is_wrong_is_named_with_line_key_and_reason() {
    check(
        &with("step = 10", "stepp = 10"),
        expect![[r#"
            im.toml:1: the key step is missing
            im.toml:4: stepp: unknown key; the nearest is step
        "#]],
    );
    check(
        &with("step = 10\n", ""),
        expect![[r#"
            im.toml:1: the key step is missing
        "#]],
    );
    check(
        &with("weight = 2", "wait = 2"),
        expect![[r#"
            im.toml:19: wait: unknown key; the nearest is weight
        "#]],
    );
    check(
        &with("step = 10", "step = \"ten\""),
        expect![[r#"
            im.toml:4: step: "ten" is not a whole number from 0
        "#]],
    );
    check(
        &with("weight = 2", "weight = -2"),
        expect![[r#"
            im.toml:19: alloc[1].weight: -2 is not a whole number from 0 to 4,294,967,295
        "#]],
    );
    check(
        &with("step = 10", "step = "),
        expect![[r#"
            im.toml:4: a text must be in quotes
        "#]],
    );
    check(
        &with("0..1_000", "0-1_000"),
        expect![[r#"
            im.toml:2: uids: "0-1_000" is not a range such as "0..1_000_000"
        "#]],
    );
    check(
        &with("0..1_000", "1_000..0"),
        expect![[r#"
        im.toml:2: uids: uid range 1000..0 is empty or reversed
    "#]],
    );
    check(
        &with("h:6", "h"),
        expect![[r#"
            im.toml:17: alloc "a": http: address "h" is not host:port
        "#]],
    );
    check(
        &with("h:5", "h:3").replace("step = 10", "step = 0"),
        expect![[r#"
            im.toml:4: step: step 0 is not from 1 to 4294967296
            im.toml:9: alloc "b": addr: "h:3" is taken by addr of alloc "a" (line 15)
        "#]],
    );
    check(
        &with("id = 1", "id = 0"),
        expect![[r#"
            im.toml:5: store "s1": id: id 0 means no member; ids start at 1
        "#]],
    );
}

#[test]
fn every_allocator_has_a_port_for_peers_and_a_store_may_have_one_for_operators() {
    check(
        &with("addr = \"h:3\"\n", ""),
        expect![[r#"
        im.toml:7: the key addr is missing
    "#]],
    );
    check(
        &GOOD.replace("h:9", "h:3").replace("h:8", "h:1"),
        expect![[r#"
        im.toml:5: store "s1": admin: "h:1" is taken by addr of store "s1" (line 5)
        im.toml:10: alloc "b": peer: "h:3" is taken by addr of alloc "b" (line 9)
    "#]],
    );
    let none = parse(Path::new("im.toml"), &with("admin = \"h:8\", ", "")).unwrap();
    assert_eq!(none.spec.stores[0].admin, None);
}

/// A set of three stores and two allocators whose ports follow from one address of each node.
const SHORT: &str = r#"name = "im"
uids = "0..1_000"
section_size = 100
step = 10
store = [
  { id = 1, name = "s1", addr = "h1:7300", admin = true },
  { id = 2, name = "s2", addr = "h2:7300", admin = "127.0.0.1:9" },
  { id = 3, name = "s3", addr = "[::1]:7300", admin = false },
]
alloc = [
  { name = "a1", addr = "h1:7400", redis = true },
  { name = "a2", addr = "h2:7400", http = "h2:9000", redis_cluster = true },
]
"#;

#[test]
fn ports_follow_from_the_address_of_a_node() {
    let spec = parse(Path::new("im.toml"), SHORT).unwrap().spec;
    let stores = spec.stores.iter().map(|one| [Some(&one.raft), Some(&one.http), one.admin.as_ref(), None]);
    let allocs = spec.allocs.iter();
    let allocs = allocs.map(|one| [Some(&one.peer), Some(&one.http), one.redis.as_ref(), one.redis_cluster.as_ref()]);
    let ports: Vec<_> = stores.chain(allocs).map(|ports| ports.map(|port| port.map_or("-", String::as_str))).collect();
    assert_eq!(
        ports,
        [
            ["h1:7301", "h1:7302", "h1:7303", "-"],
            ["h2:7301", "h2:7302", "127.0.0.1:9", "-"],
            ["[::1]:7301", "[::1]:7302", "-", "-"],
            ["h1:7401", "h1:7402", "h1:7403", "-"],
            ["h2:7401", "h2:9000", "-", "h2:7404"],
        ]
    );
    // A derived address collides with another address, is above the last port, or follows from a malformed address.
    check(
        &SHORT
            .replace("h2:7300", "h1:7302")
            .replace("h2:7400", "h:65535")
            .replace("[::1]:7300", "h")
            .replace("true }", "7 }"),
        expect![[r#"
            im.toml:6: store[0].admin: 7 is not an address in quotes, true or false
            im.toml:7: store "s2": addr: "h1:7302" is taken by http (it follows addr) of store "s1" (line 6)
            im.toml:8: store "s3": addr: address "h" is not host:port
            im.toml:11: alloc[0].redis: 7 is not an address in quotes, true or false
            im.toml:12: alloc[1].peer: the port would be 1 above "h:65535", and there is no such port: give it an address
            im.toml:12: alloc[1].redis_cluster: 7 is not an address in quotes, true or false
        "#]],
    );
}

#[test]
fn a_key_has_its_place_in_the_file_or_none() {
    // The entries are not in the order of their names.
    let text = SHORT.replace("\"a1\"", "\"a3\"");
    let set = parse(Path::new("im.toml"), &text).unwrap();
    let origin = |key| set.origin(key).to_string();
    assert_eq!((origin("step"), origin("cluster")), ("im.toml:4".to_owned(), "default".to_owned()));
    assert_eq!(
        ["store[0].raft", "store[0].admin", "store[2].name"].map(origin),
        ["im.toml:6", "im.toml:6", "im.toml:8"]
    );
    assert_eq!(
        ["alloc[0].name", "alloc[1].redis", "alloc[0].weight"].map(origin),
        ["im.toml:12", "im.toml:11", "default"]
    );
}

#[test]
fn all_problems_of_a_file_are_found_at_once() {
    check(
        "name = 7\nuids = \"0-9\"\nsection_size = \"x\"\nplaintext = 1\ngenesis = \"begin\"\nstepp = 1\n\
         store = [{ id = 1, name = \"s1\", addr = \"h\" }, { name = \"S\", addr = \"h:1\", raft = \"h:1\" }, 3]\n\
         [[alloc]]\nname = \"s1\"\naddr = \"h:2\"\nweight = 99\n[[alloc]]\naddr = \"h:2\"\nwait = 3\n",
        expect![[r#"
            im.toml:1: name: 7 is not a text in quotes
            im.toml:1: the key step is missing
            im.toml:2: uids: "0-9" is not a range such as "0..1_000_000"
            im.toml:3: section_size: "x" is not a whole number from 0 to 4,294,967,295
            im.toml:4: plaintext: 1 is not true or false
            im.toml:5: genesis: "begin" is none of start, init, create
            im.toml:6: stepp: unknown key; the nearest is step
            im.toml:7: store "S": name: name "S" is not a DNS label: 1 to 63 of a-z, 0-9 and '-', with no '-' at either end
            im.toml:7: store "s1": addr: address "h" is not host:port
            im.toml:7: store "S": raft: "h:1" is taken by addr of store "S" (line 7)
            im.toml:7: store[2]: it is not a table
            im.toml:7: the key id is missing
            im.toml:9: alloc "s1": name: "s1" is taken by name of store "s1" (line 7)
            im.toml:10: alloc "s1": addr: "h:2" is taken by addr of alloc[1] (line 13)
            im.toml:10: alloc "s1": peer (it follows addr): "h:3" is taken by http (it follows addr) of store "S" (line 7)
            im.toml:10: alloc "s1": http (it follows addr): "h:4" is taken by http (it follows addr) of alloc[1] (line 13)
            im.toml:11: alloc "s1": weight: weight 99 is not from 1 to 32; weights are relative to each other
            im.toml:12: the key name is missing
            im.toml:13: alloc[1]: peer (it follows addr): "h:3" is taken by http (it follows addr) of store "S" (line 7)
            im.toml:14: wait: unknown key; the nearest is weight
        "#]],
    );
    // A line that is not TOML hides no problem of another line.
    check(
        &GOOD.replace("step = 10", "step = ten").replace("h:5", "h:3").replace("weight = 2", "weight = 0"),
        expect![[r#"
            im.toml:4: a text must be in quotes
            im.toml:9: alloc "b": addr: "h:3" is taken by addr of alloc "a" (line 15)
            im.toml:19: alloc "a": weight: weight 0 is not from 1 to 32; weights are relative to each other
        "#]],
    );
}

#[test]
fn a_file_that_cannot_be_a_set_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("set.toml");
    let refusal = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let problems = load(&path).unwrap_err();
        problems.iter().map(|problem| problem.what.clone()).collect::<Vec<_>>().join("\n")
    };
    let many = format!("{GOOD}{}", "[[alloc]]\n".repeat(90_000));
    assert_eq!(refusal(&many), "alloc: a set has 1 to 1024 AllocSvrs, not 90002");
    let longer = format!("{many}{}", "# a comment\n".repeat(30_000));
    assert_eq!(refusal(&longer), "cannot be read: it is longer than 1048576 bytes");
    let what = load(Path::new("/dev/zero")).unwrap_err()[0].to_string();
    assert_eq!(what, "/dev/zero: cannot be read: it is no regular file");
}

#[test]
fn a_port_for_clients_of_redis_is_an_address_of_its_own() {
    let with = |from: &str, to: &str| GOOD.replace(from, to);
    check(
        &with("h:7", "h:0"),
        expect![[r#"
            im.toml:18: alloc "a": redis: address "h:0" has no port from 1 to 65535
        "#]],
    );
    check(
        &with("h:7", "h:4"),
        expect![[r#"
            im.toml:11: alloc "b": http: "h:4" is taken by redis of alloc "a" (line 18)
        "#]],
    );
}

#[test]
fn the_genesis_of_a_set_is_read() {
    let genesis = |text: &str| parse(Path::new("im.toml"), text).unwrap().spec.genesis;
    assert_eq!(genesis(GOOD), Genesis::Start);
    assert_eq!(genesis(&with("step = 10", "step = 10\ngenesis = \"init\"")), Genesis::Init);
    assert_eq!(genesis(&with("step = 10", "step = 10\ncluster = \"im\"\ngenesis = \"create\"")), Genesis::Create);
    check(
        &with("step = 10", "step = 10\ngenesis = \"begin\""),
        expect![[r#"
        im.toml:5: genesis: "begin" is none of start, init, create
    "#]],
    );
    check(
        &with("step = 10", "step = 10\ngenesis = \"create\""),
        expect![[r#"
        im.toml:5: genesis: a set that is created in a cluster needs the key cluster, with the value of the other sets
    "#]],
    );
}

#[test]
fn sets_of_a_cluster_are_checked_against_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let first = GOOD.replace("step = 10", "step = 10\ncluster = \"c\"");
    let created = first.replace("\"im\"", "\"im-b\"").replace("h:", "g:").replace("step", "genesis = \"create\"\nstep");
    std::fs::write(dir.path().join("a.toml"), first).unwrap();
    std::fs::write(dir.path().join("b.toml"), &created).unwrap();
    assert_eq!(load_all(&[dir.path().to_owned()]).1, []);
    std::fs::write(dir.path().join("b.toml"), created.replace("= 100\n", "= 50\n")).unwrap();
    let text: String = load_all(&[dir.path().to_owned()]).1.iter().map(|problem| format!("{problem}\n")).collect();
    expect![[r#"
        sets/b.toml:2: uids: uids 0..1000 in sections of 50 are not 0..1000 in sections of 100 as in set im: all sets of a cluster have the same
    "#]].assert_eq(&text.replace(&*dir.path().to_string_lossy(), "sets"));
}

#[test]
fn sets_of_other_clusters_are_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.toml"), GOOD).unwrap();
    std::fs::create_dir(dir.path().join("b")).unwrap();
    std::fs::write(dir.path().join("b/b.toml"), GOOD.replace("\"im\"", "\"im-b\"")).unwrap();
    std::fs::write(dir.path().join("notes.txt"), "not a set").unwrap();
    let (sets, problems) = load_all(&[dir.path().to_owned()]);
    assert_eq!((sets.len(), problems), (2, Vec::new()));
    // Without the key, sets with the same name are of one cluster.
    std::fs::write(dir.path().join("b/b.toml"), GOOD).unwrap();
    let text: String = load_all(&[dir.path().to_owned()]).1.iter().map(|problem| format!("{problem}\n")).collect();
    expect![[r#"
        sets/b/b.toml:1: name: "im" is taken by another set
        sets/b/b.toml: genesis: set im begins with all sections of the cluster; any other set has genesis = "create" and gets them by migration
        sets/b/b.toml:5: store "s1": addr: "h:1" is taken by addr of store "s1" of set im (sets/a.toml:5)
        sets/b/b.toml:5: store "s1": admin: "h:8" is taken by admin of store "s1" of set im (sets/a.toml:5)
        sets/b/b.toml:5: store "s1": http: "h:2" is taken by http of store "s1" of set im (sets/a.toml:5)
        sets/b/b.toml:5: store "s1": raft: "h:11" is taken by raft of store "s1" of set im (sets/a.toml:5)
        sets/b/b.toml:15: alloc "a": addr: "h:5" is taken by addr of alloc "a" of set im (sets/a.toml:15)
        sets/b/b.toml:16: alloc "a": peer: "h:10" is taken by peer of alloc "a" of set im (sets/a.toml:16)
        sets/b/b.toml:17: alloc "a": http: "h:6" is taken by http of alloc "a" of set im (sets/a.toml:17)
        sets/b/b.toml:18: alloc "a": redis: "h:7" is taken by redis of alloc "a" of set im (sets/a.toml:18)
        sets/b/b.toml:9: alloc "b": addr: "h:3" is taken by addr of alloc "b" of set im (sets/a.toml:9)
        sets/b/b.toml:10: alloc "b": peer: "h:9" is taken by peer of alloc "b" of set im (sets/a.toml:10)
        sets/b/b.toml:11: alloc "b": http: "h:4" is taken by http of alloc "b" of set im (sets/a.toml:11)
    "#]].assert_eq(&text.replace(&*dir.path().to_string_lossy(), "sets"));
}

#[test]
fn a_cluster_is_secured_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let text_of_problems = |b: &str| {
        std::fs::write(dir.path().join("b.toml"), b).unwrap();
        let (_, problems) = load_all(&[dir.path().to_owned()]);
        problems.iter().map(|problem| problem.what.clone()).collect::<Vec<_>>()
    };
    let first = GOOD.replace("step = 10", "step = 10\ncluster = \"c\"");
    let created =
        first.replace("\"im\"", "\"im-b\"").replace("h:", "127.0.0.1:").replace("step", "genesis = \"create\"\nstep");
    std::fs::write(dir.path().join("a.toml"), first).unwrap();
    assert_eq!(text_of_problems(&created), Vec::<String>::new());
    let plain = format!("plaintext = true\n{created}");
    assert_eq!(
        text_of_problems(&plain),
        ["plaintext: set im of the cluster has the other value, but the nodes of a cluster dial each other"]
    );
}

#[test]
fn a_set_without_tls_is_on_loopback_or_says_so_twice() {
    let plain = format!("plaintext = true\n{GOOD}");
    let problem = &parse(Path::new("im.toml"), &plain).unwrap_err()[0];
    assert_eq!((problem.line, problem.key.as_deref()), (Some(1), Some("plaintext")));
    assert!(problem.what.contains("can read and change the traffic of h:"), "{problem}");
    assert!(!parse(Path::new("im.toml"), &format!("plaintext_on_network = true\n{plain}")).unwrap().is_secure());
    for host in ["127.0.0.1", "127.9.8.7", "[::1]", "localhost"] {
        assert!(!parse(Path::new("im.toml"), &plain.replace("h:", &format!("{host}:"))).unwrap().is_secure(), "{host}");
    }
    assert!(parse(Path::new("im.toml"), GOOD).unwrap().is_secure());
}
