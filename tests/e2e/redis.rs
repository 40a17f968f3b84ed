//! Unchanged Redis clients against both nodes of a development cluster: redis-cli, redis-benchmark and redis-py.
//!
//! The clients are Debian packages (redis-tools, python3-redis). Without one of them, its test prints a line and
//! passes, and fails in CI.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};

/// The addresses of an AllocSvr.
pub(crate) struct Node {
    pub(crate) grpc: String,
    pub(crate) host: String,
    pub(crate) port: String,
}

/// Starts a development cluster whose allocators both have a Redis port.
pub(crate) fn start(place: &Place) -> (Server, Vec<Node>) {
    start_with(place, &[])
}

/// Starts a development cluster as [`start`] does, with more arguments.
pub(crate) fn start_with(place: &Place, more: &[&str]) -> (Server, Vec<Node>) {
    let redis = format!("{}:7179", place.host);
    let args = [&["dev", "--ports", "random", "-o", "json", "--redis", &redis], more].concat();
    let mut server = place.server("dev", &args);
    let ready = server.ready();
    let nodes = ready["allocs"].as_array().unwrap().iter().map(|alloc| {
        let (host, port) = alloc["redis"].as_str().unwrap().rsplit_once(':').unwrap();
        Node { grpc: alloc["grpc"].as_str().unwrap().to_owned(), host: host.to_owned(), port: port.to_owned() }
    });
    (server, nodes.collect())
}

/// Returns the path of a tool; if it is missing, fails in CI, else prints a line to stderr and returns `None`.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    find(name, name, |path| path.is_file())
}

/// Returns the first suitable program with a name on the PATH: a machine may have several Pythons, but the packages in
/// only one.
fn find(name: &str, what: &str, fits: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| fits(path));
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{what} is not installed");
        eprintln!("skipped: {what} is not installed");
    }
    found
}

/// Returns a Python that has redis-py, as [`tool`] returns a tool.
pub(crate) fn python() -> Option<PathBuf> {
    let has_redis = |python: &Path| {
        let import = Command::new(python).args(["-c", "import redis"]).stderr(Stdio::null()).status();
        import.is_ok_and(|ended| ended.success())
    };
    find("python3", "python3-redis", has_redis)
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    output
}

/// Returns the number of calls that a node has forwarded, by its own count.
pub(crate) fn forwarded(node: &Node) -> u64 {
    let status = seqsvr_json(&["status", "--addr", &node.grpc]);
    let allocs = status["allocs"].as_array().unwrap();
    allocs.iter().filter_map(|alloc| alloc["forwarded"].as_u64()).sum()
}

#[test]
fn redis_cli_and_redis_benchmark_work_unchanged() {
    let (Some(cli), Some(benchmark)) = (tool("redis-cli"), tool("redis-benchmark")) else { return };
    let place = Place::new();
    let (_server, nodes) = start(&place);
    let ask = |node: &Node, args: &[&str]| {
        let output = run(Command::new(&cli).args(["-h", &node.host, "-p", &node.port]).args(args));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let [one, two] = &nodes[..] else { panic!("two nodes") };
    // Both nodes serve a uid of either node, so the other node forwards.
    for uid in ["seq:42", "seq:999999"] {
        for (node, value) in [(one, "1"), (two, "2"), (one, "3")] {
            assert_eq!(ask(node, &["INCR", uid]), value, "{uid}");
        }
        assert_eq!(ask(two, &["GET", uid]), "3");
        assert_eq!(ask(two, &["SET", uid, "1000"]), "OK");
        assert_eq!(ask(one, &["INCRBY", uid, "5"]), "1005");
        assert!(ask(one, &["SET", uid, "7"]).contains("numbers never go back"));
        assert_eq!(ask(two, &["SETNX", uid, "2000"]), "0");
        assert_eq!(ask(one, &["SEQ.NEXT", uid]), "1006\n1005\n0\n1");
        assert_eq!(ask(two, &["SEQ.GET", uid]), "1006\nexact\n1");
        assert!(ask(one, &["DEL", uid]).contains("numbers never go back"));
    }
    assert!(forwarded(one) > 0);
    assert_eq!(ask(one, &["MGET", "seq:42", "seq:43", "seq:999999"]), "1006\n\n1006");
    assert_eq!(ask(one, &["-3", "GET", "seq:43"]), "");
    assert!(ask(one, &["INFO"]).contains("redis_version"));
    let current = &seqsvr_json(&["current", "42", "--addr", &two.grpc])["items"][0];
    assert_eq!((current["value"].as_str(), current["exactness"].as_str()), (Some("1006"), Some("exact")));

    for (pipeline, node) in [("1", one), ("16", two)] {
        let flags = ["-n", "20000", "-r", "1000000", "-P", pipeline, "--csv", "INCR", "seq:__rand_int__"];
        let output = run(Command::new(&benchmark).args(["-h", &node.host, "-p", &node.port]).args(flags));
        let (text, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("INCR") && faults.is_empty(), "{text}\n{faults}");
    }
}

#[test]
fn redis_cli_takes_ids_of_series() {
    let Some(cli) = tool("redis-cli") else { return };
    let place = Place::new();
    let (_server, nodes) = start(&place);
    let ask = |node: &Node, args: &[&str]| {
        let output = run(Command::new(&cli).args(["-h", &node.host, "-p", &node.port]).args(args));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let [one, two] = &nodes[..] else { panic!("two nodes") };
    for series in [&["coupons", "--counter"][..], &["shards", "--shape", "instagram"]] {
        let made = seqsvr(&[&["series", "create", "--yes", "--addr", &one.grpc], series].concat());
        assert!(made.status.success(), "{made:?}");
    }
    assert_eq!(ask(one, &["INCR", "id:coupons"]), "1");
    assert_eq!(ask(two, &["SEQ.ID", "id:coupons", "COUNT", "2", "AFTER", "99"]), "100\n101");
    assert_eq!(ask(one, &["SET", "id:coupons", "500"]), "OK");
    assert_eq!(ask(two, &["INCRBY", "id:coupons", "5"]), "505");
    assert_eq!(ask(one, &["GET", "id:coupons"]), "505");
    let shard = |node: &Node| -> u64 { ask(node, &["SEQ.ID", "id:shards:1341"]).parse().unwrap() };
    let (first, second) = (shard(one), shard(two));
    assert!(first < second && (first >> 10) & 0x1fff == 1341, "{first} {second}");
    for (args, reason) in [
        (&["INCR", "id:shards"][..], "LANE_REQUIRED"),
        (&["SET", "id:coupons", "1e18"], "NOT_AN_ID"),
        (&["INCRBY", "id:shards:1", "2"], "NOT_A_COUNTER"),
        (&["INCR", "id:nothing"], "UNKNOWN_SERIES"),
    ] {
        assert!(ask(one, args).contains(reason), "{args:?}");
    }
}

/// Threads, each with a connection to one of the nodes, allocate numbers of the same few uids one by one and in
/// pipelines; each prints its numbers with the time before and after, on a shared clock.
const PYTHON: &str = r#"
import sys, threading, time, redis
nodes = [address.rsplit(":", 1) for address in sys.argv[1:]]
seen, lock = [], threading.Lock()
def work(thread):
    host, port = nodes[thread % len(nodes)]
    client = redis.Redis(host=host, port=int(port), socket_timeout=20)
    mine = []
    for turn in range(100):
        uids = [7, 999_993, 500_000 + turn % 3]
        began = time.monotonic_ns()
        if turn % 2:
            values = [client.incrby(f"seq:{uid}", 2) for uid in uids]
        else:
            pipeline = client.pipeline(transaction=bool(turn % 4))
            for uid in uids:
                pipeline.incrby(f"seq:{uid}", 2)
            values = pipeline.execute()
        ended = time.monotonic_ns()
        mine += [(uid, value, began, ended) for uid, value in zip(uids, values)]
    with lock:
        seen.extend(mine)
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for line in seen: print(*line)
client = redis.Redis(host=nodes[0][0], port=int(nodes[0][1]), decode_responses=True)
assert client.ping() and client.echo("x") == "x" and client.exists("seq:7", "seq:8") == 1
assert client.get("seq:8") is None and client.mget("seq:7", "seq:8") == ["1600", None]
assert client.set("seq:8", 50) and client.incr("seq:8") == 51
assert client.incr("id:orders") == 1 and client.incrby("id:orders", 5) == 6
tweets = client.execute_command("SEQ.ID", "id:tweets", "COUNT", 3)
tweets += client.execute_command("SEQ.ID", "id:tweets", "AFTER", tweets[-1])
assert len(tweets) == 4 and all(isinstance(id, str) for id in tweets), tweets
assert [int(id) for id in tweets] == sorted(int(id) for id in set(tweets)) and int(tweets[0]) > 1 << 53, tweets
assert client.info()["redis_version"] and client.config_get("save") == {"save": ""}
with client.pipeline() as pipeline:
    assert pipeline.incr("seq:9").incr("seq:9").get("seq:9").execute() == [1, 2, "2"]
    try:
        pipeline.incr("seq:9").execute_command("nonsense").execute()
        raise AssertionError("not refused")
    except redis.ResponseError:
        pass
    assert client.get("seq:9") == "2"
for refused in (lambda: client.set("seq:8", 1 << 62), lambda: client.delete("seq:8"), lambda: client.set("seq:8", 3), lambda: client.decr("seq:8"),
                lambda: client.lpush("seq:8", 1), lambda: client.incr("foo")):
    try:
        refused()
    except redis.ResponseError:
        continue
    raise AssertionError("not refused")
"#;

#[test]
fn redis_py_sees_numbers_in_order_from_both_nodes() {
    let Some(python) = python() else { return };
    let place = Place::new();
    let (_server, nodes) = start(&place);
    let addresses = nodes.iter().map(|node| format!("{}:{}", node.host, node.port));
    let output = run(Command::new(&python).args(["-c", PYTHON]).args(addresses));
    let mut calls: BTreeMap<u64, Vec<[u64; 3]>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        calls.entry(words[0]).or_default().push([words[2], words[3], words[1]]);
    }
    assert_eq!(calls.values().map(Vec::len).sum::<usize>(), 8 * 100 * 3);
    for (uid, calls) in calls {
        check_order(uid, calls);
    }
    assert!(forwarded(&nodes[0]) > 0);
}

/// Asserts that every value is new, and above all values received before its call began.
fn check_order(uid: u64, mut calls: Vec<[u64; 3]>) {
    let mut values: Vec<u64> = calls.iter().map(|[.., value]| *value).collect();
    values.sort_unstable();
    assert!(values.iter().copied().eq((1..=values.len() as u64).map(|at| at * 2)), "uid {uid}: {values:?}");
    calls.sort_unstable();
    let mut ended = calls.clone();
    ended.sort_unstable_by_key(|[_, end, _]| *end);
    let (mut done, mut floor) = (ended.iter().peekable(), 0);
    for [began, _, value] in calls {
        while let Some([_, _, before]) = done.next_if(|[_, end, _]| *end < began) {
            floor = floor.max(*before);
        }
        assert!(value > floor, "uid {uid}: {value} after {floor}");
    }
}
