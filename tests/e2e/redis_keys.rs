//! A user of Redis changes the address: the same programs of redis-cli and redis-py run against a real redis-server,
//! then against a development cluster, whose setting `redis.keyspace` names the keyspace of the keys.
//!
//! The clients and the server are Debian packages (redis-tools, redis-server, python3-redis), as in `redis.rs`.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr_json};
use crate::redis::{Node, forwarded, python, run, start_with, tool};

/// A redis-server without persistence.
pub(crate) struct Redis(Child);

impl Redis {
    fn start(program: &Path, host: &str, port: &str) -> Redis {
        Redis::start_with(program, (host, port), &[])
    }

    /// Starts a server with more arguments.
    pub(crate) fn start_with(program: &Path, (host, port): (&str, &str), more: &[&str]) -> Redis {
        let mut command = Command::new(program);
        command.args(["--bind", host, "--port", port, "--save", "", "--appendonly", "no"]).args(more);
        let server = Redis(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
        eventually("redis-server listens", || TcpStream::connect(format!("{host}:{port}")).ok());
        server
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a cluster whose keys are of the keyspace `main`, which does not exist yet.
fn start(place: &Place) -> (Server, Vec<Node>) {
    let config = place.path("seqsvr.toml");
    fs::write(&config, "[redis]\nkeyspace = \"main\"\n").unwrap();
    start_with(place, &["--config", config.to_str().unwrap()])
}

/// Sends one command with redis-cli, and returns what it prints.
pub(crate) fn ask(cli: &Path, (host, port): (&str, &str), args: &[&str]) -> String {
    let output = run(Command::new(cli).args(["-h", host, "-p", port]).args(args));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Creates the keyspace, and waits until all nodes serve it.
fn create(cli: &Path, nodes: &[Node]) {
    seqsvr_json(&["keyspace", "create", "main", "--yes", "--addr", &nodes[0].grpc]);
    for node in nodes {
        eventually("the node serves keys", || {
            (ask(cli, (&node.host, &node.port), &["GET", "never"]).is_empty()).then_some(())
        });
    }
}

#[test]
fn both_nodes_serve_whole_keys() {
    let (Some(cli), Some(benchmark)) = (tool("redis-cli"), tool("redis-benchmark")) else { return };
    let place = Place::new();
    let (_server, nodes) = start(&place);
    let [one, two] = &nodes[..] else { panic!("two nodes") };
    let ask = |node: &Node, args: &[&str]| ask(&cli, (&node.host, &node.port), args);
    let unknown = ask(one, &["INCR", "conv:42"]);
    assert!(unknown.contains("UNKNOWN_KEYSPACE") && unknown.contains("\"main\""), "{unknown}");
    assert_eq!(ask(one, &["INCR", "seq:42"]), "1", "uids are served without it");
    create(&cli, &nodes);
    let keys = ["conv:42", "user:{7}:seq", "Grüße", "a b", "seq:x", "0", "{}", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"];
    for key in keys {
        for (node, value) in [(one, "1"), (two, "2"), (one, "3")] {
            assert_eq!(ask(node, &["INCR", key]), value, "{key}");
        }
        assert_eq!(ask(two, &["INCRBY", key, "10"]), "13");
        assert_eq!((ask(one, &["GET", key]), ask(two, &["TTL", key])), ("13".to_owned(), "-1".to_owned()));
        assert_eq!(ask(one, &["SET", key, "1000"]), "OK");
        assert_eq!(ask(two, &["INCR", key]), "1001");
        assert_eq!(ask(two, &["SEQ.NEXT", key]), "1002\n1001\n0\n1");
        assert!(ask(one, &["SET", key, "7"]).contains("ALREADY_PAST"));
        for removed in [&["DEL", key][..], &["EXPIRE", key, "9"], &["DECR", key]] {
            assert!(ask(two, removed).contains("numbers never go back"), "{removed:?}");
        }
        assert_eq!(ask(one, &["GET", key]), "1002");
    }
    assert!(forwarded(one) > 0 && forwarded(two) > 0, "each node forwards to the other one");
    assert_eq!(ask(two, &["MGET", "conv:42", "never", "seq:42", "a b"]), "1002\n\n1\n1002");
    // The same key over another protocol is the same counter.
    let taken = &seqsvr_json(&["next", "--key", "conv:42", "--addr", &two.grpc])["items"][0];
    assert_eq!(taken["value"].as_str(), Some("1003"), "{taken:#}");

    for (pipeline, node) in [("1", one), ("64", two)] {
        let key = "conversation:__rand_int__:3f2504e0-4f89-11d3";
        let flags = ["-n", "19200", "-r", "1000", "-P", pipeline, "--csv", "INCR", key];
        let output = run(Command::new(&benchmark).args(["-h", &node.host, "-p", &node.port]).args(flags));
        let (text, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("INCR") && faults.is_empty(), "{text}\n{faults}");
    }
    let keys: Vec<String> = (0..1_000).map(|index| format!("conversation:{index:012}:3f2504e0-4f89-11d3")).collect();
    let command: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let taken: u64 = ask(one, &command).lines().filter_map(|value| value.parse::<u64>().ok()).sum();
    assert_eq!(taken, 2 * 19_200, "each INCR took one number");
}

/// Numbers messages of conversations from eight threads, one by one, in pipelines and in transactions, and prints what
/// it saw. Its only argument is the address.
const PROGRAM: &str = r#"
import sys, threading, redis
host, port = sys.argv[1].rsplit(":", 1)
pool = redis.ConnectionPool(host=host, port=int(port), decode_responses=True, socket_timeout=20)
client = redis.Redis(connection_pool=pool)
conversations = [f"conv:{name}:seq" for name in ("8f3a-42", "Grüße", "{tag}:1", "with blank", "\x00\xff", "x" * 200)]
print(client.mget(conversations), client.exists(*conversations))
seen = {key: [] for key in conversations}
lock = threading.Lock()
def work(thread):
    own = redis.Redis(connection_pool=pool)
    for turn in range(60):
        if turn % 3 == 0:
            numbers = [own.incr(key) for key in conversations]
        else:
            pipeline = own.pipeline(transaction=turn % 3 == 1)
            for key in conversations * 4:
                pipeline.incr(key)
            numbers = pipeline.execute()
        with lock:
            for key, number in zip(conversations * 4, numbers):
                seen[key].append(number)
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for key, numbers in seen.items():
    print(repr(key), sorted(numbers) == list(range(1, len(numbers) + 1)), len(numbers), client.get(key))
first, second = conversations[:2]
print(client.incrby(first, 500), client.incr(second, 7), client.mget(conversations), client.exists(first, "nothing", first))
print(client.type(first), client.type("nothing"), client.ttl(first), client.ttl("nothing"))
print(client.setnx("conv:new", 100), client.setnx("conv:new", 200), client.incr("conv:new"), client.set("conv:new", 5000))
print(client.set("conv:new", 9000, nx=True), client.set("conv:other", 9000, nx=True), client.incr("conv:other"))
with client.pipeline() as pipeline:
    print(pipeline.incr(first).get(first).incrby(second, 3).mget(first, second).execute())
raw = redis.Redis(host=host, port=int(port))
print([raw.incr(bytes(range(256))) for _ in range(3)], raw.get(bytes(range(256))))
for wrong in (lambda: client.incrby(first, "x"), lambda: client.execute_command("INCR"), lambda: client.execute_command("INCR", first, 1)):
    try:
        wrong()
        print("not refused")
    except redis.ResponseError as error:
        print(error)
"#;

/// Commands for redis-cli, a line each.
const COMMANDS: &str = "\
INCR conv:8f3a
INCR conv:8f3a
INCRBY conv:8f3a 40
GET conv:8f3a
MGET conv:8f3a conv:none \"conv:with blank\"
SETNX conv:set 1000
INCR conv:set
SET conv:set 2000
INCR conv:set
EXISTS conv:8f3a conv:none
TYPE conv:8f3a
TTL conv:8f3a
MULTI
INCR conv:8f3a
INCR \"conv:with blank\"
EXEC
GET conv:8f3a
INCRBY conv:8f3a abc
INCR
";

#[test]
fn the_same_programs_run_against_redis_and_then_here() {
    let (Some(server), Some(cli), Some(python)) = (tool("redis-server"), tool("redis-cli"), python()) else { return };
    let place = Place::new();
    let host = place.host.to_string();
    let script = place.path("commands");
    fs::write(&script, COMMANDS).unwrap();
    let programs = |host: &str, port: &str| {
        let seen = run(Command::new(&python).args(["-c", PROGRAM, &format!("{host}:{port}")]));
        let input = fs::File::open(&script).unwrap();
        let lines = Command::new(&cli).args(["-h", host, "-p", port]).stdin(input).output().unwrap();
        [seen.stdout, lines.stdout, lines.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let theirs = {
        let _redis = Redis::start(&server, &host, "6379");
        programs(&host, "6379")
    };
    let (_server, nodes) = start(&place);
    create(&cli, &nodes);
    let ours = programs(&nodes[1].host, &nodes[1].port);
    assert_eq!(ours, theirs);
    assert_eq!(theirs[0].matches(" True 1440 1440\n").count(), 6, "{theirs:?}");
    assert!(forwarded(&nodes[1]) > 0);
}
