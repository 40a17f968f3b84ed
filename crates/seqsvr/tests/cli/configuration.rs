//! Set files, settings and variables that are wrong, and where a value comes from.

use std::path::Path;

use expect_test::{Expect, expect};

use crate::{run, sets};

#[test]
fn a_variable_with_a_wrong_value_is_named_and_an_empty_one_is_unset() {
    let check = |args: &[&str], environment: &[(&str, &str)], expect: Expect| {
        expect.assert_eq(&run(Path::new("."), args, environment));
    };
    check(
        &["next", "42"],
        &[("SEQSVR_OUTPUT", "xml")],
        expect![[r#"
            error: invalid value 'xml' for '$SEQSVR_OUTPUT'
              [possible values: plain, json, wide]

            For more information, try '--help'.
            exit 2
        "#]],
    );
    let output = run(Path::new("."), &["next"], &[("SEQSVR_OUTPUT", "xml")]);
    assert!(output.contains("for '$SEQSVR_OUTPUT'"), "also together with another error: {output}");
    check(
        &["next", "42"],
        &[("SEQSVR_ADDR", "redis://x:1")],
        expect![[r#"
            error: invalid value 'redis://x:1' for '$SEQSVR_ADDR': only http:// and https:// are allowed

            For more information, try '--help'.
            exit 2
        "#]],
    );
    check(
        &["next", "42"],
        &[("SEQSVR_TOKEN", "a b")],
        expect![[r#"
        error: $SEQSVR_TOKEN: a token is of visible ASCII characters: TENANT.SECRET
        exit 2
    "#]],
    );
    check(
        &["next", "42", "--token", "a b"],
        &[("SEQSVR_TOKEN", "acme.x")],
        expect![[r#"
        error: --token: a token is of visible ASCII characters: TENANT.SECRET
        exit 2
    "#]],
    );
    // The error names the flag as the source of the wrong value.
    check(
        &["next", "42", "--addr", "h"],
        &[("SEQSVR_ADDR", "http://x:1")],
        expect![[r#"
            error: invalid value 'h' for '--addr <URL>': the address must have the form http://host:port

            For more information, try '--help'.
            exit 2
        "#]],
    );
    // A variable does not make an optional flag look required.
    check(
        &["next"],
        &[("SEQSVR_ADDR", "http://x:1"), ("SEQSVR_OUTPUT", "json")],
        expect![[r#"
            error: the following required arguments were not provided:
              <UID>...

            Usage: seqsvr next <UID>...

            For more information, try '--help'.
            exit 2
        "#]],
    );
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let unset = [("SEQSVR_ADDR", ""), ("SEQSVR_OUTPUT", ""), ("SEQSVR_CONFIG", "")];
    let output = run(Path::new("."), &["next", "42", "--addr", &addr], &unset).replace(&addr, "ADDR");
    expect![[r#"
        error: no seed answered; ADDR failed last: tcp connect error: Connection refused
        hint: is the cluster running? `seqsvr dev` starts one; --addr URL names another
        exit 4
    "#]]
    .assert_eq(&output);
    check(
        &["config", "check"],
        &unset,
        expect![[r#"
            error: the following required arguments were not provided:
              <PATH>...

            Usage: seqsvr config check <PATH>...

            For more information, try '--help'.
            exit 2
        "#]],
    );
}

#[test]
fn a_server_with_a_wrong_configuration_is_exit_64() {
    let dir = sets();
    let check = |args: &[&str], environment: &[(&str, &str)], expect: Expect| {
        expect.assert_eq(&run(dir.path(), args, environment));
    };
    let set = ["--set", "sets/three-node.toml"];
    check(
        &["alloc", set[0], set[1], "--name", "a9"],
        &[],
        expect![[r#"
        error: sets/three-node.toml: set im-a has no allocator "a9"
        hint: it has a1, a2
        exit 64
    "#]],
    );
    check(
        &["store", set[0], set[1], "--id", "9", "--data", "data"],
        &[],
        expect![[r#"
        error: sets/three-node.toml: set im-a has no store with id 9
        hint: it has 1, 2, 3
        exit 64
    "#]],
    );
    check(
        &["store", "--set", "none.toml", "--id", "1", "--data", "data"],
        &[],
        expect![[r#"
            error: none.toml: cannot be read: No such file or directory
            exit 64
        "#]],
    );
    std::fs::write(dir.path().join("seqsvr.toml"), "[store]\nheartbeat_ms = 1_000\n[lgo]\nfilter = \"info\"\n")
        .unwrap();
    let alloc = ["alloc", set[0], set[1], "--name", "a1"];
    check(
        &[&alloc[..], &["--config", "seqsvr.toml"]].concat(),
        &[],
        expect![[r#"
        error: seqsvr.toml:4: lgo.filter: unknown key; the nearest is log.filter
        exit 64
    "#]],
    );
    std::fs::write(dir.path().join("seqsvr.toml"), "[store]\nheartbeat_ms = 1_000\n").unwrap();
    check(
        &[&alloc[..], &["--config", "seqsvr.toml"]].concat(),
        &[],
        expect![[r#"
            error: store: heartbeat * 3 <= election_min does not hold: two lost heartbeats must not cost an election (store.heartbeat_ms is set by seqsvr.toml:2)
            exit 64
        "#]],
    );
    check(
        &[&alloc[..], &["--log-format", "xml"]].concat(),
        &[],
        expect![[r#"
            error: --log-format: log.format: "xml" is none of plain, json
            exit 64
        "#]],
    );
    check(
        &["dev"],
        &[("SEQSVR_ALLOC_CORES", "many")],
        expect![[r#"
            error: $SEQSVR_ALLOC_CORES: alloc.cores: "many" is not a whole number from 0
            exit 64
        "#]],
    );
    check(
        &["dev", "--cores", "99999"],
        &[],
        expect![[r#"
            error: alloc.cores: 99999 is more than 1024 (alloc.cores is set by --cores)
            exit 64
        "#]],
    );
    assert!(!dir.path().join("data").exists(), "no directory was created");
}

#[test]
fn config_check_names_every_problem() {
    let dir = sets();
    let check = |args: &[&str], expect: Expect| expect.assert_eq(&run(dir.path(), args, &[]));
    check(
        &["config", "check", "sets"],
        expect![[r#"
            sets/dev-b.toml: set dev-b is good
            sets/dev.toml: set dev is good
            sets/three-node.toml: set im-a is good
            sets/four/a.toml: set im-a is good
            sets/four/b.toml: set im-b is good
            sets/four/c.toml: set im-c is good
            sets/four/d.toml: set im-d is good
            sets/two/a.toml: set im-a is good
            sets/two/b.toml: set im-b is good
            exit 0
        "#]],
    );
    let bad = std::fs::read_to_string(dir.path().join("sets/dev.toml")).unwrap();
    let bad = bad.replace("0..1_000_000", "9..1").replace("id = 3", "id = 1").replace(":7101", "");
    std::fs::write(dir.path().join("bad.toml"), bad).unwrap();
    std::fs::write(dir.path().join("unknown.toml"), "nmae = \"x\"\n").unwrap();
    check(
        &["config", "check", "bad.toml", "unknown.toml"],
        expect![[r#"
            bad.toml:5: uids: uid range 9..1 is empty or reversed
            bad.toml:35: store "s3": id: "1" is taken by id of store "s1" (line 17)
            bad.toml:55: alloc "a2": addr: address "127.0.0.1" is not host:port
            unknown.toml: store: a store has 1, 3 or 5 members, not 0: an even number survives no more failures than one less, and every member past five slows each write
            unknown.toml: alloc: a set has 1 to 1024 AllocSvrs, not 0
            unknown.toml:1: the key name is missing
            unknown.toml:1: the key uids is missing
            unknown.toml:1: the key section_size is missing
            unknown.toml:1: the key step is missing
            unknown.toml:1: nmae: unknown key; the nearest is name
            exit 2
        "#]],
    );
    check(
        &["config", "check", "bad.toml", "-o", "json"],
        expect![[r#"
            {"sets":[],"problems":[{"file":"bad.toml","line":5,"key":"uids","what":"uids: uid range 9..1 is empty or reversed","text":"bad.toml:5: uids: uid range 9..1 is empty or reversed"},{"file":"bad.toml","line":35,"key":"store[2].id","what":"store \"s3\": id: \"1\" is taken by id of store \"s1\" (line 17)","text":"bad.toml:35: store \"s3\": id: \"1\" is taken by id of store \"s1\" (line 17)"},{"file":"bad.toml","line":55,"key":"alloc[1].addr","what":"alloc \"a2\": addr: address \"127.0.0.1\" is not host:port","text":"bad.toml:55: alloc \"a2\": addr: address \"127.0.0.1\" is not host:port"}],"warnings":[]}
            exit 2
        "#]],
    );
}

#[test]
fn config_check_tells_where_nodes_listen() {
    let dir = sets();
    let check = |listen: &str, args: &[&str], expect: Expect| {
        let set = std::fs::read_to_string(dir.path().join("sets/dev.toml")).unwrap();
        let set = set.replacen("name = \"a2\"", &format!("name = \"a2\"\n{listen}"), 1);
        std::fs::write(dir.path().join("nat.toml"), set).unwrap();
        expect.assert_eq(&run(dir.path(), &[&["config", "check", "nat.toml"], args].concat(), &[]));
    };
    let here = "listen = { addr = \"127.0.0.1:8101\", http = \"127.0.0.2:7181\" }";
    check(
        here,
        &[],
        expect![[r#"
        nat.toml: set dev is good
          a2 addr: other nodes dial 127.0.0.1:7101, the node listens at 127.0.0.1:8101
          a2 http: other nodes dial 127.0.0.1:7181, the node listens at 127.0.0.2:7181
        exit 0
    "#]],
    );
    check(
        here,
        &["-o", "json"],
        expect![[r#"
        {"sets":["dev"],"listen":[{"set":"dev","node":"a2","port":"addr","addr":"127.0.0.1:7101","listen":"127.0.0.1:8101"},{"set":"dev","node":"a2","port":"http","addr":"127.0.0.1:7181","listen":"127.0.0.2:7181"}],"problems":[],"warnings":[]}
        exit 0
    "#]],
    );
    // Any host could reach the address without TLS.
    check(
        "listen = { addr = \"0.0.0.0:7101\" }",
        &[],
        expect![[r#"
        nat.toml:14: plaintext: other machines can read and change the traffic of 0.0.0.0:7101: remove the key, or add plaintext_on_network = true
        exit 2
    "#]],
    );
    check(
        "listen = { redis = \"127.0.0.1\", raft = \"127.0.0.1:1\" }",
        &[],
        expect![[r#"
            nat.toml:55: alloc "a2": listen.redis: address "127.0.0.1" is not host:port
            nat.toml:55: raft: unknown key; the nearest is redis
            exit 2
        "#]],
    );
    check(
        "listen = { redis = \"127.0.0.1\" }",
        &[],
        expect![[r#"
            nat.toml:55: alloc "a2": listen.redis: address "127.0.0.1" is not host:port
            exit 2
        "#]],
    );
}

#[test]
fn config_show_prints_the_origin_of_a_key() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("seqsvr.toml"), "[log]\nfilter = \"warn\"\nformat = \"json\"\n").unwrap();
    let environment = [("SEQSVR_CONFIG", "seqsvr.toml"), ("SEQSVR_LOG_FORMAT", "plain")];
    let text = run(dir.path(), &["config", "show", "--origin"], &environment);
    let log: Vec<&str> = text.lines().filter(|line| line.starts_with("log.")).collect();
    assert_eq!(
        log,
        [
            "log.filter                       \"warn\"      seqsvr.toml:2",
            "log.format                       \"plain\"     $SEQSVR_LOG_FORMAT"
        ]
    );
    let sample = run(dir.path(), &["config", "sample"], &[]);
    std::fs::write(dir.path().join("sample.toml"), sample.replace("exit 0\n", "")).unwrap();
    let checked = run(dir.path(), &["config", "check", "--config", "sample.toml"], &[]);
    assert_eq!(checked, "exit 0\n", "the sample is good");
}

#[test]
fn an_unknown_variable_is_a_warning_and_those_of_kubernetes_are_none() {
    let (dir, service) = (tempfile::tempdir().unwrap(), "tcp://10.0.0.1:7100");
    let environment = [
        ("SEQSVR_PORT", service),
        ("SEQSVR_PORT_7100_TCP", service),
        ("SEQSVR_PORT_7100_TCP_PROTO", "tcp"),
        ("SEQSVR_SERVICE_HOST", "10.0.0.1"),
        ("SEQSVR_SERVICE_PORT_GRPC", "7100"),
        ("SEQSVR_ALLOC_PORT", service),
        ("SEQSVR_ALLOC_SERVICE_HOST", "10.0.0.1"),
        ("SEQSVR_ADDR", "http://127.0.0.1:7100"),
    ];
    let shown = run(dir.path(), &["config", "show"], &environment);
    assert_eq!(shown, run(dir.path(), &["config", "show"], &[]), "they have no effect and no warning");
    let misspelt = [("SEQSVR_LOG_FILTR", "debug"), ("SEQSVR_LOG_FORMAT", "json")];
    let shown = run(dir.path(), &["config", "show", "-o", "json"], &misspelt);
    let warning = "warning: $SEQSVR_LOG_FILTR: log_filtr: unknown key; the nearest is log.filter; it is ignored";
    assert_eq!(shown.lines().filter(|line| line.contains("FILTR")).collect::<Vec<_>>(), [warning]);
    assert!(
        shown.contains(r#"{"key":"log.format","value":"json","default":"plain"}"#) && shown.ends_with("exit 0\n"),
        "{shown}"
    );
    let checked = run(dir.path(), &["config", "check", "--config", "/dev/null", "-o", "json"], &misspelt);
    assert!(checked.contains(r#""problems":[],"warnings":["$SEQSVR_LOG_FILTR: log_filtr: unknown key"#), "{checked}");
    // An unknown key in a file is an error.
    std::fs::write(dir.path().join("seqsvr.toml"), "[log]\nfiltr = \"info\"\n").unwrap();
    let output = run(dir.path(), &["config", "show", "--config", "seqsvr.toml"], &[]);
    assert_eq!(output, "error: seqsvr.toml:2: log.filtr: unknown key; the nearest is log.filter\nexit 2\n");
}

/// Every command names its cluster by the same flags, and a flag replaces the variables, because they may belong to
/// another cluster.
#[test]
fn a_flag_beats_the_environment() {
    let sets = sets();
    let of_other = [("SEQSVR_ADDR", "https://192.0.2.1:7100"), ("SEQSVR_OUTPUT", "json")];
    for command in [
        &["next", "42"][..],
        &["current", "42"],
        &["advance", "42", "7", "--dry-run"],
        &["export", "--uids", "0..1"],
        &["bench", "--calls", "1"],
        &["replay", "no/such.csv"],
        &["services"],
        &["health"],
        &["store", "members"],
        &["node", "list"],
        &["set", "list"],
    ] {
        let set = [command, &["--set", "sets/no-such.toml", "-o", "plain"]].concat();
        let named = run(sets.path(), &set, &of_other);
        assert!(
            !named.contains("192.0.2.1") && !named.contains("TLS") && named.ends_with("exit 2\n"),
            "{set:?}: {named}"
        );
    }
    let environment = [("SEQSVR_SET", "sets/three-node.toml"), ("SEQSVR_ADDR", "https://192.0.2.1:7100")];
    let shown = run(sets.path(), &["health", "--addr", "http://127.0.0.1:9", "--timeout", "500ms"], &environment);
    assert!(shown.contains("127.0.0.1:9") && shown.lines().count() == 3, "one node: {shown}");
    let shown = run(sets.path(), &["health", "--timeout", "500ms"], &environment[..1]);
    assert!(shown.contains("certs/ca.crt: cannot be read"), "the nodes of the file, which have TLS: {shown}");
}

#[test]
fn seeds_of_a_proxy_state_whether_they_have_tls() {
    let proxy = |seeds: &str, more: &[&str]| {
        let args = ["proxy", "--seeds", seeds, "--listen", "127.0.0.1:9", "--http", "127.0.0.1:9"];
        run(Path::new("."), &[&args, more].concat(), &[])
    };
    let hinted = proxy("127.0.0.1:9", &[]);
    assert!(hinted.contains("http:// or --plaintext") && hinted.ends_with("exit 64\n"), "{hinted}");
    let mixed = proxy("http://127.0.0.1:9,https://127.0.0.1:9", &[]);
    assert!(
        mixed.contains("either all nodes of a cluster have TLS or none has") && mixed.ends_with("exit 2\n"),
        "{mixed}"
    );
    let network = proxy("http://192.0.2.1:9", &[]);
    assert!(network.contains("--plaintext-on-network") && network.ends_with("exit 2\n"), "{network}");
}

#[test]
fn settings_as_json_have_their_own_types() {
    let environment = [("SEQSVR_REDIS_PASSWORD", "secret"), ("SEQSVR_ALLOC_LEASE_MS", "1900")];
    let shown = run(Path::new("."), &["config", "show", "-o", "json", "--origin"], &environment);
    let json = shown.strip_suffix("exit 0\n").unwrap();
    assert!(json.starts_with(r#"{"items":[{"key":"alloc.certificate_margin_ms","value":300000"#), "{json}");
    for part in [
        r#"{"key":"alloc.lease_ms","value":1900,"default":2000,"origin":"$SEQSVR_ALLOC_LEASE_MS"}"#,
        r#"{"key":"log.format","value":"plain","default":"plain","origin":"default"}"#,
        r#"{"key":"redis.password","value":"(set)","default":"","origin":"$SEQSVR_REDIS_PASSWORD"}"#,
    ] {
        assert!(json.contains(part), "{part} is missing in {json}");
    }
}
