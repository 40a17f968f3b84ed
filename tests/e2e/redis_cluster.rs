//! A user of Redis Cluster changes the address: the same programs of redis-py, ioredis and redis-cli run against a real
//! Redis Cluster of three servers, then against a set of three AllocSvrs. Afterwards an owner is killed and another
//! one is drained while clients count.
//!
//! The clients and the server are found as in `redis_keys.rs` and `redis_node.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use seq_testkit::eventually;

use crate::cluster::{Place, Server, seqsvr, seqsvr_json};
use crate::redis::{Node, forwarded, python, run, tool};
use crate::redis_keys::{Redis, ask};
use crate::redis_node::{MODULES, has_module};

/// A set of three AllocSvrs with a port for clients of Redis Cluster each.
struct Set {
    file: String,
    /// The AllocSvrs, with the ports for clients of Redis Cluster.
    nodes: Vec<Node>,
    /// The processes by name.
    servers: BTreeMap<String, Server>,
    place: Place,
}

impl Set {
    fn start(cli: &Path) -> Set {
        let place = Place::new();
        let (file, host) = (place.set_file("three-node.toml").display().to_string(), place.host.to_string());
        let mut text = fs::read_to_string(&file).unwrap();
        for (redis, cluster) in [("7479", "7475"), ("7478", "7474")] {
            let line = format!("redis = \"{host}:{redis}\"\n");
            assert!(text.contains(&line), "{text}");
            text = text.replace(&line, &format!("{line}redis_cluster = \"{host}:{cluster}\"\n"));
        }
        let third = "[[alloc]]\nname = \"a3\"\naddr = \"HOST:7402\"\npeer = \"HOST:7406\"\nhttp = \"HOST:7482\"\n\
                     redis_cluster = \"HOST:7473\"\n";
        fs::write(&file, format!("{text}\n{}", third.replace("HOST", &host))).unwrap();
        let config = place.path("seqsvr.toml").display().to_string();
        fs::write(&config, "[redis]\nkeyspace = \"main\"\n[store]\nrebalance_after_ms = 300\n").unwrap();
        let mut servers = BTreeMap::new();
        for (name, id) in [("s1", "1"), ("s2", "2"), ("s3", "3")] {
            let data = place.path(name).display().to_string();
            let args = ["store", "--set", &file, "--id", id, "--data", &data, "--config", &config];
            servers.insert(name.to_owned(), place.server(name, &args));
        }
        for name in ["a1", "a2", "a3"] {
            let args = ["alloc", "--set", &file, "--name", name, "--cores", "1", "--config", &config];
            servers.insert(name.to_owned(), place.server(name, &args));
        }
        let node = |grpc: &str, port: &str| Node {
            grpc: format!("http://{host}:{grpc}"),
            host: host.clone(),
            port: port.to_owned(),
        };
        let nodes = vec![node("7400", "7475"), node("7401", "7474"), node("7402", "7473")];
        let set = Set { file, nodes, servers, place };
        seqsvr_json(&["health", "--wait-s", "60", "--set", &set.file]);
        seqsvr_json(&["keyspace", "create", "main", "--yes", "--set", &set.file]);
        set.await_owners(cli, &[0, 1, 2]);
        set
    }

    /// Returns the address of a node's port.
    fn addr(&self, node: usize) -> String {
        format!("{}:{}", self.nodes[node].host, self.nodes[node].port)
    }

    /// Waits until exactly these nodes have slots, as each of them shows, and until they serve keys.
    fn await_owners(&self, cli: &Path, owners: &[usize]) {
        let expected: BTreeSet<String> = owners.iter().map(|owner| self.addr(*owner)).collect();
        for owner in owners {
            let Node { host, port, .. } = &self.nodes[*owner];
            eventually("the owners have all slots", || {
                let nodes = ask(cli, (host, port), &["CLUSTER", "NODES"]);
                let with_slots = nodes.lines().map(|line| line.split(' ').collect::<Vec<_>>());
                let with_slots = with_slots.filter(|fields| fields.len() > 8);
                let with_slots = with_slots.map(|fields| fields[1].trim_end_matches("@0").to_owned());
                (with_slots.collect::<BTreeSet<_>>() == expected).then_some(())
            });
            eventually("the node serves keys", || {
                let reply = ask(cli, (host, port), &["-c", "GET", "never"]);
                (reply.is_empty() || reply.lines().all(|line| line.starts_with("-> Redirected"))).then_some(())
            });
        }
    }

    /// Returns the number of calls that nodes have forwarded to other nodes.
    fn forwarded(&self) -> u64 {
        forwarded(&self.nodes[0])
    }
}

/// Starts a Redis Cluster of three servers without replicas.
fn redis_cluster(place: &Place, server: &Path, cli: &Path) -> Vec<Redis> {
    let host = place.host.to_string();
    let ports = ["6379", "6380", "6381"];
    let start = |port: &&str| {
        let dir = place.path(port).display().to_string();
        fs::create_dir(&dir).unwrap();
        let more = ["--cluster-enabled", "yes", "--cluster-announce-ip", &host, "--dir", &dir];
        Redis::start_with(server, (&host, port), &more)
    };
    let servers = ports.iter().map(start).collect();
    let mut create = Command::new(cli);
    create.args(["--cluster", "create"]).args(ports.map(|port| format!("{host}:{port}"))).arg("--cluster-yes");
    run(&mut create);
    for port in ports {
        eventually("the Redis Cluster is complete", || {
            let info = ask(cli, (&host, port), &["CLUSTER", "INFO"]);
            (info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")).then_some(())
        });
    }
    servers
}

/// Numbers messages of conversations with redis-py, one by one and in pipelines from four threads, and prints the
/// replies. Its only argument is the address of one node.
const PYTHON: &str = r#"
import sys, threading, redis
from redis.cluster import RedisCluster
host, port = sys.argv[1].rsplit(":", 1)
client = RedisCluster(host=host, port=int(port), decode_responses=True)
print(len(client.get_primaries()), len(client.get_replicas()), client.cluster_keyslot("conv:1"))
info = client.cluster_info(target_nodes=client.get_default_node())
print(info["cluster_state"], info["cluster_slots_assigned"], info["cluster_known_nodes"], info["cluster_size"])
conversations = [f"conv:{index}:seq" for index in range(30)] + ["Grüße", "{tag}:1", "with blank", "seq:7", "id:orders", "42"]
seen = {key: [] for key in conversations}
lock = threading.Lock()
def work(thread):
    for turn in range(12):
        if turn % 2 == 0:
            numbers = [client.incr(key) for key in conversations]
        else:
            pipeline = client.pipeline()
            for key in conversations * 2:
                pipeline.incr(key)
            numbers = pipeline.execute()
        with lock:
            for key, number in zip(conversations * 2, numbers):
                seen[key].append(number)
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for key, numbers in seen.items():
    print(repr(key), sorted(numbers) == list(range(1, len(numbers) + 1)), len(numbers), client.get(key))
print(client.incrby("conv:0:seq", 500), client.mget_nonatomic(conversations), client.mget("{tag}:1", "{tag}:2"))
print(client.exists("conv:0:seq", "Grüße", "nothing"), client.type("42"), client.ttl("42"), client.ttl("nothing"))
print(client.setnx("conv:new", 100), client.setnx("conv:new", 200), client.incr("conv:new"), client.set("conv:new", 5000))
print(client.mset_nonatomic({"conv:x": 10, "conv:y": 20, "conv:z": 30}), client.incr("conv:y"), client.get("conv:z"))
print(client.mset({"{tag}:5": 5, "{tag}:6": 6}), client.mget("{tag}:6", "{tag}:5"))
print(client.readonly(target_nodes=client.get_default_node()), client.ping(target_nodes=RedisCluster.ALL_NODES))
for wrong in (lambda: client.incrby("conv:0:seq", "x"), lambda: client.execute_command("SELECT", 1, target_nodes=client.get_default_node())):
    try:
        wrong()
        print("not refused")
    except redis.ResponseError as error:
        print(error)
"#;

/// Counts with ioredis, one by one, in pipelines and with automatic pipelines, and prints the replies.
const NODE: &str = r#"
const Redis = require("ioredis");
const at = process.argv[1].lastIndexOf(":");
const address = { host: process.argv[1].slice(0, at), port: Number(process.argv[1].slice(at + 1)) };
async function main() {
  const cluster = new Redis.Cluster([address]);
  const keys = [...Array(30).keys()].map((index) => `node:${index}`).concat(["Grüße:2", "{tag}:20", "seq:8"]);
  const seen = Object.fromEntries(keys.map((key) => [key, []]));
  for (let turn = 0; turn < 10; turn++) {
    const numbers = await Promise.all(keys.map((key) => cluster.incr(key)));
    keys.forEach((key, index) => seen[key].push(numbers[index]));
  }
  console.log(seen, cluster.nodes("master").length);
  const piped = await cluster.pipeline().incr("{tag}:20").incrby("{tag}:21", 5).get("{tag}:20").exec();
  console.log(piped, await cluster.mget("{tag}:20", "{tag}:21", "{tag}:22"));
  const automatic = new Redis.Cluster([address], { enableAutoPipelining: true });
  console.log(await Promise.all(keys.map((key) => automatic.incr(key))));
  console.log(await automatic.exists("node:0"), await automatic.type("node:0"), await automatic.ttl("node:0"));
  console.log(await cluster.set("node:new", 100), await cluster.incr("node:new"), await cluster.setnx("node:new", 7));
  await cluster.incrby("node:0", "x").catch((error) => console.log(error.message));
  for (const client of [cluster, automatic]) await client.quit();
}
main().catch((error) => { console.error(error); process.exit(1); });
"#;

/// Commands for redis-cli, a line each.
const COMMANDS: &str = "\
INCR cli:1
INCR cli:2
INCR cli:3
INCRBY cli:4 40
INCR cli:1
GET cli:4
GET cli:none
MGET {cli}:1 {cli}:2
CLUSTER KEYSLOT {cli}:1
SET cli:5 100
INCR cli:5
TYPE cli:5
TTL cli:5
INCRBY cli:5 abc
SELECT 1
";

/// Runs all programs with one address, and returns their output.
fn programs(place: &Place, (cli, python, node): (&Path, &Path, Option<&Path>), addr: &str) -> Vec<String> {
    let (host, port) = addr.rsplit_once(':').unwrap();
    let mut seen = vec![run(Command::new(python).args(["-c", PYTHON, addr])).stdout];
    if let Some(node) = node {
        seen.push(run(Command::new(node).env("NODE_PATH", MODULES).args(["-e", NODE, "--", addr])).stdout);
    }
    let script = place.path("commands");
    fs::write(&script, COMMANDS).unwrap();
    let input = fs::File::open(&script).unwrap();
    let lines = Command::new(cli).args(["-c", "-h", host, "-p", port]).stdin(input).output().unwrap();
    let mut seen: Vec<String> = seen.into_iter().map(|text| String::from_utf8(text).unwrap()).collect();
    let lines = String::from_utf8(lines.stdout).unwrap();
    // The slots are distributed in another way, so redis-cli is redirected by other commands.
    let (redirected, lines): (Vec<&str>, Vec<&str>) = lines.lines().partition(|line| line.starts_with("-> Redirected"));
    assert!(!redirected.is_empty(), "redis-cli is redirected");
    seen.push(lines.join("\n"));
    seen
}

#[test]
fn the_same_programs_run_against_redis_cluster_and_then_here() {
    let (Some(server), Some(cli), Some(python)) = (tool("redis-server"), tool("redis-cli"), python()) else { return };
    let node = tool("node").filter(|_| has_module("ioredis"));
    let tools = (&*cli, &*python, node.as_deref());
    let theirs = {
        let place = Place::new();
        let _servers = redis_cluster(&place, &server, &cli);
        programs(&place, tools, &format!("{}:6379", place.host))
    };
    let set = Set::start(&cli);
    let ours = programs(&set.place, tools, &set.addr(0));
    assert_eq!(ours, theirs);
    assert_eq!(theirs[0].matches(" True 72 72\n").count(), 36, "{theirs:?}");
    assert_eq!(set.forwarded(), 0, "clients of Redis Cluster send each command to the owner");

    // Another client is redirected to the owner by the other two nodes.
    for key in ["raw:1", "raw:2", "raw:3", "raw:4"] {
        let reply = |node: &Node| ask(&cli, (&node.host, &node.port), &["INCR", key]);
        let replies: Vec<String> = set.nodes.iter().map(reply).collect();
        let owner = replies.iter().position(|reply| reply == "1").expect("one node owns the slot");
        let slot = ask(&cli, (&set.nodes[0].host, &set.nodes[0].port), &["CLUSTER", "KEYSLOT", key]);
        let moved = format!("MOVED {slot} {}", set.addr(owner));
        assert_eq!(replies.iter().filter(|reply| **reply == moved).count(), 2, "{replies:?}");
    }
    assert_eq!(set.forwarded(), 0);
    let Node { host, port, .. } = &set.nodes[0];
    assert_eq!(ask(&cli, (host, port), &["MGET", "raw:1", "raw:2", "raw:3", "raw:4"]), "1\n1\n1\n1");
    assert!(set.forwarded() > 0, "a command with keys of several slots is forwarded");
}

#[test]
fn an_allocator_with_the_port_names_a_keyspace() {
    let place = Place::new();
    let file = place.set_file("three-node.toml").display().to_string();
    let addr = format!("{}:7475", place.host);
    let line = format!("redis_cluster = \"{addr}\"\nredis = ");
    let text = fs::read_to_string(&file).unwrap().replacen("redis = ", &line, 1);
    fs::write(&file, text).unwrap();
    let output = seqsvr(&["alloc", "--set", &file, "--name", "a1"]);
    let faults = String::from_utf8_lossy(&output.stderr);
    let expected = format!("redis_cluster = \"{addr}\" of alloc a1: the setting redis.keyspace is empty");
    assert_eq!(output.status.code(), Some(64), "{faults}");
    assert!(faults.contains(&expected) && faults.contains("name it with redis.keyspace"), "{faults}");
}

/// Counts until its standard input ends. Prints each number with its key, and each error, of which it repeats the
/// command.
const PYTHON_COUNTER: &str = r#"
import sys, threading, redis
from redis.cluster import RedisCluster
host, port = sys.argv[1].rsplit(":", 1)
client = RedisCluster(host=host, port=int(port))
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
while not stop.is_set():
    for key in [f"count:{index}" for index in range(40)]:
        try:
            print(key, client.incr(key), flush=True)
        except redis.exceptions.RedisError as error:
            print("error", repr(error), flush=True)
"#;

/// Counts as [`PYTHON_COUNTER`] does.
const NODE_COUNTER: &str = r#"
const Redis = require("ioredis");
const at = process.argv[1].lastIndexOf(":");
const cluster = new Redis.Cluster([{ host: process.argv[1].slice(0, at), port: Number(process.argv[1].slice(at + 1)) }]);
cluster.on("error", () => {});
let stop = false;
process.stdin.resume();
process.stdin.on("end", () => { stop = true; });
async function main() {
  while (!stop) {
    for (let index = 0; index < 40; index++) {
      await cluster.incr(`count:${index}`).then(
        (number) => console.log(`count:${index} ${number}`),
        (error) => console.log(`error ${error}`),
      );
    }
  }
  cluster.disconnect();
}
main();
"#;

/// The numbers that a program has printed, by key, and its errors.
#[derive(Clone, Debug, Default)]
struct Printed {
    numbers: BTreeMap<String, Vec<u64>>,
    errors: Vec<String>,
}

/// A program that counts.
struct Counter {
    child: Child,
    printed: Arc<Mutex<Printed>>,
    reader: Option<JoinHandle<()>>,
}

impl Counter {
    fn start(command: &mut Command) -> Counter {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let printed = Arc::<Mutex<Printed>>::default();
        let (lines, shared) = (BufReader::new(child.stdout.take().unwrap()).lines(), printed.clone());
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut printed = shared.lock().unwrap();
                match line.split_once(' ').map(|(key, number)| (key, number.parse())) {
                    Some((key, Ok(number))) => printed.numbers.entry(key.to_owned()).or_default().push(number),
                    _ => printed.errors.push(line),
                }
            }
        });
        Counter { child, printed, reader: Some(reader) }
    }

    fn printed(&self) -> Printed {
        self.printed.lock().unwrap().clone()
    }

    /// Waits until each key has `more` further numbers.
    fn counts_on(&self, more: usize) {
        let before = self.printed();
        let len = |printed: &Printed, key: &String| printed.numbers.get(key).map_or(0, Vec::len);
        eventually("each key gets further numbers", || {
            let now = self.printed();
            let all = (0..40).map(|index| format!("count:{index}"));
            all.into_iter().all(|key| len(&now, &key) >= len(&before, &key) + more).then_some(())
        });
    }

    /// Ends the program, and returns its output.
    fn end(mut self) -> Printed {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        self.reader.take().unwrap().join().unwrap();
        self.printed()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_follow_the_slots_of_a_drained_node_and_of_a_killed_one() {
    let (Some(cli), Some(python)) = (tool("redis-cli"), python()) else { return };
    let node = tool("node").filter(|_| has_module("ioredis"));
    let mut set = Set::start(&cli);
    let addr = set.addr(0);
    let mut programs = vec![Command::new(python)];
    programs[0].args(["-c", PYTHON_COUNTER, &addr]);
    if let Some(node) = node {
        let mut command = Command::new(node);
        command.env("NODE_PATH", MODULES).args(["-e", NODE_COUNTER, "--", &addr]);
        programs.push(command);
    }
    let counters: Vec<Counter> = programs.iter_mut().map(Counter::start).collect();
    counters.iter().for_each(|counter| counter.counts_on(2));

    seqsvr_json(&["node", "drain", "a2", "--yes", "--set", &set.file]);
    set.await_owners(&cli, &[0, 2]);
    counters.iter().for_each(|counter| counter.counts_on(2));
    let drained = &set.nodes[1];
    for index in 0..40 {
        let reply = ask(&cli, (&drained.host, &drained.port), &["GET", &format!("count:{index}")]);
        let owner = reply.rsplit_once(' ').filter(|_| reply.starts_with("MOVED "));
        assert!(owner.is_some_and(|(_, owner)| [set.addr(0), set.addr(2)].contains(&owner.to_owned())), "{reply}");
    }
    for counter in &counters {
        let printed = counter.printed();
        assert_eq!(printed.errors, [""; 0], "a drain is no error for a client");
    }

    set.servers.get_mut("a3").unwrap().kill();
    set.await_owners(&cli, &[0]);
    counters.iter().for_each(|counter| counter.counts_on(2));
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for counter in counters {
        let printed = counter.end();
        eprintln!("{} errors, the first: {:?}", printed.errors.len(), printed.errors.first());
        for (key, numbers) in printed.numbers {
            assert!(numbers.is_sorted_by(|one, next| one < next), "{key}: {numbers:?}");
            all.entry(key).or_default().extend(numbers);
        }
    }
    assert_eq!(all.len(), 40);
    for (key, numbers) in all {
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len(), "{key}: {numbers:?}");
    }
}
