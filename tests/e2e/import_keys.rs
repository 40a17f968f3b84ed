//! Keys of any bytes are imported into a keyspace, from a real redis-server, from a cluster of three and from files,
//! and the numbers of a list of keys are exported.
//!
//! `IMPORT_KEYS=1000000` sets the number of keys of one test.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use seq_testkit::eventually;

use crate::cluster::{Place, Server, digits, seqsvr, seqsvr_json};
use crate::dev;
use crate::import::{Redis, run};
use crate::import_sources::start_cluster;
use crate::redis::tool;

/// The default of `alloc.max_advance`.
const MAX_ADVANCE: u64 = 1_000_000_000;

/// Starts a development cluster with the keyspace `main`.
fn start(place: &Place) -> (Server, String) {
    let (server, addr) = dev::start(place);
    seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    (server, addr)
}

/// Takes the next number of each key, through the SDK, because a command line has no keys of any bytes.
fn next(addr: &str, keys: &[&[u8]]) -> Vec<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = seq_client::Client::connect(addr).await.unwrap();
        let results = client.keyspace("main").await.unwrap().next_many(keys).await.unwrap();
        results.into_iter().map(|result| result.unwrap().value).collect()
    })
}

/// Exports the numbers of keys without line ends.
fn export(place: &Place, addr: &str, keys: &[String]) -> BTreeMap<String, u64> {
    let list = place.path("keys.txt");
    fs::write(&list, keys.join("\n")).unwrap();
    let output = seqsvr(&["export", "--keyspace", "main", "--keys", &list.display().to_string(), "--addr", addr]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.strip_prefix("key,value\n").unwrap().lines();
    lines.map(|line| line.rsplit_once(',').unwrap()).map(|(key, value)| (key.into(), value.parse().unwrap())).collect()
}

#[test]
fn keys_of_any_bytes_continue_after_their_values_in_redis() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let redis = Redis::start(&program, &place);
    let (_server, addr) = start(&place);
    let long = [b"conv:".as_slice(), &[b'x'; 507]].concat();
    let limit = MAX_ADVANCE.to_string();
    let counters: [(&[u8], &str); 8] = [
        (b"conv:42", "7"),
        (b"conv:", "1"),
        (b"conv:a b", "1000"),
        (b"conv:\r\n,\"{x}\"", "3"),
        (b"conv:\xff\x00", "5"),
        (b"conv:0", "0"),
        (&long, "9"),
        (b"conv:far", &limit),
    ];
    for (key, value) in counters {
        assert_eq!(redis.set_bytes(key, value), "+OK");
    }
    redis.set([("other:1", 5)]);
    let import = |args: &[&str]| {
        let url = redis.url();
        let import = ["import", "--from", &url, "--match", "conv:*", "--keyspace", "main", "--addr", &addr];
        run(&[&import[..], args].concat())
    };

    // Each key and each value that is no counter is named, and nothing is imported.
    let too_long = [b"conv:".as_slice(), &[b'y'; 508]].concat();
    for (key, value) in [
        (&b"conv:text"[..], "seven"),
        (b"conv:\xfe", "-1"),
        (b"conv:above", "4611686018427387904"),
        (b"conv:redis", "9223372036854775807"),
        (&too_long, "1"),
    ] {
        assert_eq!(redis.set_bytes(key, value), "+OK");
    }
    redis.command("LPUSH conv:list x");
    let (code, refused) = import(&["--yes"]);
    for flaw in [
        "\"conv:text\": value \"seven\" is not a number",
        "b\"conv:\\xfe\": value -1 is negative",
        "\"conv:above\": value 4611686018427387904 is above 4611686018427387903",
        "\"conv:redis\": value 9223372036854775807 is above",
        "...: the key has 513 bytes: a key has 1 to 512",
        "\"conv:list\": it is not a string",
        "nothing was changed; --skip-invalid",
    ] {
        assert!(code == Some(2) && refused.contains(flaw), "{flaw}: {refused}");
    }
    let (code, plan) = import(&["--dry-run", "--skip-invalid"]);
    assert!(code == Some(0) && plan.contains("8 keys: 7 would be raised, 1 at their value or above"), "{plan}");
    assert!(export(&place, &addr, &["conv:42".into(), "conv:a b".into()]).is_empty(), "a dry run changes nothing");

    let (code, done) = import(&["--yes", "--skip-invalid"]);
    assert!(code == Some(0) && done.contains("8 keys: 7 raised, 1 at their value or above"), "{done}");
    assert!(done.contains("14 keys, 6 invalid and skipped"), "{done}");
    let keys = counters.map(|(key, _)| key);
    let expected = counters.map(|(_, value)| value.parse::<u64>().unwrap() + 1);
    assert_eq!(next(&addr, &keys), expected, "each key continues");
    assert_eq!(next(&addr, &[b"42", b"other:1", b"conv"]), [1, 1, 1], "no part of a key is a key");
    let (code, again) = import(&["--yes", "--skip-invalid"]);
    assert!(code == Some(0) && again.contains("8 keys: 0 raised, 8 at their value or above"), "{again}");

    // A key farther away than one call may advance is refused by name, and the others are imported.
    for key in ["above", "redis", "text", "list", "\"\\xfe\"", &"y".repeat(508)] {
        redis.command(&format!("DEL conv:{key}"));
    }
    assert_eq!(redis.set_bytes(b"conv:\xfe", "5"), "+OK");
    redis.set([("conv:farther", 4_611_686_018_427_387_903), ("conv:near", 5)]);
    let (code, partly) = import(&["--yes"]);
    assert!(code == Some(8) && partly.contains("ADVANCE_TOO_FAR"), "{partly}");
    assert!(partly.contains("11 keys: 2 raised, 8 at their value or above, 1 refused"), "{partly}");
}

#[test]
fn an_import_of_keys_states_what_is_missing() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let redis = Redis::start(&program, &place);
    redis.set([("conv:1", 5), ("user:1", 5)]);
    let (_server, addr) = dev::start(&place);
    let url = redis.url();
    let import = |args: &[&str]| run(&[&["import", "--from", &url, "--addr", &addr], args].concat());
    let (code, refused) = import(&["--keyspace", "main", "--yes"]);
    assert!(code == Some(2) && refused.contains("add --match 'conv:*', or --match '*' for all keys"), "{refused}");
    let (code, refused) = import(&["--keyspace", "main", "--match", "*", "--yes"]);
    assert!(code == Some(1) && refused.contains("no keyspace is named \"main\""), "{refused}");
    let (code, refused) = import(&["--keyspace", "main", "--series", "orders", "--yes"]);
    assert!(code == Some(2) && refused.contains("cannot be used with"), "{refused}");

    seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    seqsvr_json(&["keyspace", "create", "other", "--yes", "--addr", &addr]);
    let progress = place.path("progress").display().to_string();
    let args = ["--match", "conv:*", "--progress", &progress, "--yes", "--keyspace"];
    let (code, done) = import(&[&args[..], &["main"]].concat());
    assert!(code == Some(0) && done.contains("1 keys: 1 raised"), "{done}");
    let (code, refused) = import(&[&args[..], &["other"]].concat());
    assert!(code == Some(2) && refused.contains("the progress of another source"), "{refused}");
    assert!(refused.contains("conv:* to keyspace main"), "{refused}");
    let list = place.path("keys").display().to_string();
    fs::write(&list, "conv:1\n").unwrap();
    let (code, refused) = run(&["export", "--keys", &list, "--addr", &addr]);
    assert!(code == Some(2) && refused.contains("--keyspace NAME chooses one"), "{refused}");
    let (code, other) = run(&["export", "--keys", &list, "--keyspace", "other", "--addr", &addr]);
    assert!(code == Some(0) && other.contains("0 of 1 keys have a number"), "{other}");
}

#[test]
fn keys_of_a_redis_cluster_are_imported_from_all_its_masters() {
    let Some(program) = tool("redis-server") else { return };
    let place = Place::new();
    let (_server, addr) = start(&place);
    let nodes = start_cluster(&program, &place);
    let key = |number: u64| match number % 2 {
        0 => format!("conv:{number}").into_bytes(),
        _ => [format!("conv:{number}").as_bytes(), b"\xff \n"].concat(),
    };
    for number in 1..=300 {
        let set = |node: &Redis| node.set_bytes(&key(number), &number.to_string()) == "+OK";
        assert!(nodes.iter().any(set), "{number}");
    }
    let url = nodes[1].url();
    let report =
        seqsvr_json(&["import", "--from", &url, "--match", "conv:*", "--keyspace", "main", "--yes", "--addr", &addr]);
    assert_eq!((&report["keys"], &report["raised"]), (&300.into(), &300.into()), "{report:#}");
    assert_eq!(report["source"]["kind"], "redis_cluster", "{report:#}");
    let keys: Vec<Vec<u8>> = (1..=300).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    assert_eq!(next(&addr, &keys), (2..=301).collect::<Vec<u64>>());
}

#[test]
fn files_of_keys_are_imported_and_exported() {
    let place = Place::new();
    let (_server, addr) = start(&place);
    let path = |name: &str| place.path(name).display().to_string();
    let import = |name: &str, text: &[u8], args: &[&str]| {
        fs::write(path(name), text).unwrap();
        run(&[&["import", "--from", &path(name), "--keyspace", "main", "--addr", &addr], args].concat())
    };
    for (text, flaw) in [
        (&b"uid,value\n1,10\n"[..], "keys.csv:1: \"uid,value\" is not the header \"key,value\""),
        (b"key,value\na,10\n\"b\nc\",x\n", "keys.csv:3: value \"x\" is not a number"),
        (b"key,value\na,10\na,11\n", "keys.csv:3: key \"a\" is also in"),
        (b"key,value\n", "no record is left to import"),
    ] {
        let (code, refused) = import("keys.csv", text, &["--yes"]);
        assert!(code == Some(2) && refused.contains(flaw), "{refused}");
    }
    let (code, refused) = import("keys.csv", b"key,value\na,10\n", &[]);
    assert!(code == Some(2) && refused.contains("raise 1 keys by 10 numbers"), "{refused}");

    let (code, done) = import("keys.csv", b"key,value\n\"a,\n\"\"b\"\"\",10\n\xff,20\n c ,30\n", &["--yes"]);
    assert!(code == Some(0) && done.contains("3 keys: 3 raised, 0 at their value or above"), "{done}");
    let json = b"{\"key\":\" c \",\"value\":\"31\"}\n{\"raw_key\":\"/w==\",\"value\":5}\n";
    let (code, done) = import("keys.jsonl", json, &["--yes"]);
    assert!(code == Some(0) && done.contains("2 keys: 1 raised, 1 at their value or above"), "{done}");

    // The list has the keys in another order, a key twice, and a key without a number.
    fs::write(path("list.csv"), b"key\n\xff\n c \nnone\n\"a,\n\"\"b\"\"\"\n\xff\n").unwrap();
    let export = |format: &str, out: &str| {
        let (list, out) = (path("list.csv"), path(out));
        let args = ["export", "--keys", &list, "--format", format, "--out", &out, "--addr", &addr];
        let (code, done) = run(&args);
        assert!(code == Some(0) && done.contains("3 of 4 keys have a number"), "{done}");
        fs::read(out).unwrap()
    };
    assert_eq!(export("csv", "out.csv"), b"key,value\n c ,31\n\"a,\n\"\"b\"\"\",10\n\xff,20\n");
    let json = export("jsonl", "out.jsonl");
    let expected = "{\"key\":\" c \",\"value\":\"31\"}\n{\"key\":\"a,\\n\\\"b\\\"\",\"value\":\"10\"}\n{\"raw_key\":\"/w==\",\"value\":\"20\"}\n";
    assert_eq!(String::from_utf8(json).unwrap(), expected);
    for out in ["out.csv", "out.jsonl"] {
        let (code, done) = run(&["import", "--from", &path(out), "--keyspace", "main", "--yes", "--addr", &addr]);
        assert!(code == Some(0) && done.starts_with("3 keys: 0 raised, 3 at their value or above"), "{done}");
    }
    fs::write(path("list.txt"), vec![b'x'; 513]).unwrap();
    let (code, refused) = run(&["export", "--keys", &path("list.txt"), "--addr", &addr]);
    assert!(code == Some(2) && refused.contains("list.txt:1: the key has 513 bytes"), "{refused}");
    assert!(refused.contains("nothing was written") && !refused.contains("key,value"), "{refused}");
}

#[test]
fn an_import_of_more_keys_than_the_nodes_may_have_names_the_setting() {
    let place = Place::new();
    let grpc = format!("{}:7100", place.host);
    let environment = [("SEQSVR_ALLOC_MAX_KEYS", "1".to_owned()), ("SEQSVR_LIMITS_CORE_DUMPS", "true".to_owned())];
    let args = ["dev", "-o", "json", "--ports", "random", "--grpc", &grpc];
    let mut server = place.server_with_environment("dev", &args, environment);
    assert_eq!(server.ready()["ready"], true);
    let addr = format!("http://{grpc}");
    seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &addr]);
    let file = place.path("keys.csv").display().to_string();
    let rows: String = (0..100).map(|number| format!("conv:{number},7\n")).collect();
    fs::write(&file, format!("key,value\n{rows}")).unwrap();
    let args = ["import", "--from", &file, "--keyspace", "main", "--yes", "--timeout", "2s", "--addr", &addr];
    let (code, refused) = run(&args);
    assert!(code == Some(3) && refused.contains("(KEYS_EXHAUSTED)"), "{refused}");
    assert!(refused.contains("raise `alloc.max_keys` of the nodes or add nodes"), "{refused}");
}

#[test]
fn an_import_of_many_keys_is_continued_after_kills() {
    let count: u64 = std::env::var("IMPORT_KEYS").map_or(5_000, |count| count.parse().unwrap());
    let place = Place::new();
    let (_server, addr) = start(&place);
    let mut random = fastrand::Rng::with_seed(7);
    let values: BTreeMap<String, u64> =
        (0..count).map(|index| (format!("conv:{:08x}-{index}", random.u32(..)), random.u64(1..=100_000))).collect();
    let rows: String = values.iter().map(|(key, value)| format!("{key},{value}\n")).collect();
    let (file, progress) = (place.path("keys.csv").display().to_string(), place.path("p.json").display().to_string());
    fs::write(&file, format!("key,value\n{rows}")).unwrap();
    let import = ["import", "--from", &file, "--keyspace", "main", "--addr", &addr, "--yes", "--progress", &progress];
    // At this rate, the import would end after the last kill.
    let longest = 1_100 + count / 50;
    let rate = (count * 1_000 / (5 * longest)).to_string();
    for _ in 0..4 {
        let mut running = place.server("import", &[&import[..], &["--rate", &rate]].concat());
        let (time, since) = (Duration::from_millis(random.u64(100..longest)), Instant::now());
        eventually("the time is over", || (since.elapsed() >= time).then_some(()));
        if random.bool() {
            running.kill();
        } else {
            running.interrupt();
            let code = running.wait_exit();
            // Before the first key is raised, the signal ends the process.
            assert!(matches!(code, Some(130 | 0) | None), "{code:?}: {}", running.log());
        }
    }
    let since = Instant::now();
    let report = seqsvr_json(&import);
    println!("{count} keys: {report}, {:.1} s", since.elapsed().as_secs_f64());
    assert!(report["resumed"].as_u64() > Some(0) && report["refused"] == 0, "{report:#}");
    let keys: Vec<String> = values.keys().cloned().collect();
    assert_eq!(export(&place, &addr, &keys), values);

    // All keys of a changed source are checked again.
    let first = format!("{}0,1\n", keys[0]);
    fs::write(&file, format!("key,value\n{first}{rows}")).unwrap();
    let (code, done) = run(&import);
    assert!(code == Some(0) && done.contains("every key is checked again") && done.contains(" 1 raised"), "{done}");
    let item = &seqsvr_json(&["next", "--key", &keys[0], "--addr", &addr])["items"][0];
    assert_eq!(digits(&item["value"]), values[&keys[0]] + 1);
}
