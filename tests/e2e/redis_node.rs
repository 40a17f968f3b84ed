//! Redis clients for Node: ioredis and node-redis with their defaults, against both nodes of a development cluster.
//!
//! `.ci/run` installs the libraries below target/node. Without them, the test fails in CI, and is skipped elsewhere
//! with a line on stderr.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::Place;
use crate::redis::{self, run, tool};

/// The directory of installed npm packages.
pub(crate) const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/node/node_modules");

/// Allocates seqs with every batching API of the libraries, and checks that no seq is allocated twice.
const SCRIPT: &str = r#"
const assert = require("node:assert");
const Redis = require("ioredis");
const { createClient } = require("redis");
const nodes = process.argv.slice(1).map((address) => {
  const at = address.lastIndexOf(":");
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
});

// An id with a time is no exact number in JavaScript, so it is a string.
function check_ids(ids) {
  assert.equal(new Set(ids).size, 3);
  for (const id of ids) assert(typeof id === "string" && BigInt(id) > 1n << 53n, id);
}

async function withIoredis() {
  const plain = new Redis(nodes[0]);
  assert.equal(await plain.incr("seq:1"), 1);
  assert.equal(await plain.incrby("seq:1", 9), 10);
  assert.deepEqual(await plain.pipeline().incr("seq:1").get("seq:1").exec(), [[null, 11], [null, "11"]]);
  assert.deepEqual(await plain.multi().incr("seq:1").incrby("seq:1", 3).exec(), [[null, 12], [null, 15]]);
  const failed = await plain.multi().incr("seq:1").incr("foo").exec();
  assert.equal(failed[0][1], 16);
  assert.match(failed[1][0].message, /no sequence/);
  await assert.rejects(plain.multi().incr("seq:1").call("nonsense").exec(), /EXECABORT/);
  assert.equal(await plain.get("seq:1"), "16");
  assert.deepEqual(await plain.mget("seq:1", "foo", "seq:900000"), ["16", null, null]);
  const strings = new Redis({ ...nodes[1], stringNumbers: true, keyPrefix: "seq:", enableAutoPipelining: true });
  assert.deepEqual(await Promise.all([strings.incr("1"), strings.incr("1")]), ["17", "18"]);
  assert.equal(await plain.incr("id:orders"), 1);
  check_ids(await plain.call("SEQ.ID", "id:tweets", "COUNT", 3));
  const cluster = new Redis.Cluster([nodes[0]], { clusterRetryStrategy: null });
  // The refusal is an event as well.
  cluster.on("error", () => {});
  await assert.rejects(cluster.incr("seq:1"));
  for (const client of [plain, strings]) await client.quit();
}

async function withNodeRedis() {
  const client = await createClient({ socket: nodes[1] }).connect();
  assert.equal(await client.incr("seq:2"), 1);
  assert.deepEqual(await client.multi().incr("seq:2").incrBy("seq:2", 5).get("seq:2").exec(), [2, 7, "7"]);
  assert.deepEqual(await client.multi().incr("seq:2").execAsPipeline(), [8]);
  await assert.rejects(client.multi().incr("seq:2").addCommand(["nonsense"]).exec(), /unknown command/);
  assert.deepEqual(await client.mGet(["seq:2", "foo"]), ["8", null]);
  const strings = client.withTypeMapping({ [require("redis").RESP_TYPES.NUMBER]: String });
  assert.equal(await strings.incr("seq:2"), "9");
  await assert.rejects(client.set("seq:2", "4611686018427387904"), /above/);
  assert.equal(await client.incr("id:orders"), 2);
  check_ids(await client.sendCommand(["SEQ.ID", "id:tweets", "COUNT", "3"]));
  await client.close();
  const three = await createClient({ socket: nodes[0], RESP: 3 }).connect();
  assert.equal(await three.incr("seq:2"), 10);
  await three.close();
}

async function together() {
  const clients = [0, 1, 0, 1].map((at) => new Redis(nodes[at]));
  const others = await Promise.all([0, 1].map((at) => createClient({ socket: nodes[at] }).connect()));
  const taken = [];
  for (let round = 0; round < 50; round++) {
    const answers = await Promise.all([
      ...clients.map((client) => client.multi().incr("seq:999999").incr("seq:999999").exec()),
      ...others.map((client) => client.incr("seq:999999")),
    ]);
    taken.push(...answers.flatMap((answer) => (Array.isArray(answer) ? answer.map(([, value]) => value) : [answer])));
  }
  assert.equal(new Set(taken).size, 50 * 10);
  assert.equal(Math.max(...taken), 50 * 10);
  for (const client of clients) client.disconnect();
  for (const client of others) await client.close();
}

withIoredis().then(withNodeRedis).then(together).then(() => console.log("done"), (error) => {
  console.error(error);
  process.exit(1);
});
"#;

/// Returns whether a package is installed; if not, prints a line to stderr, and fails in CI.
pub(crate) fn has_module(name: &str) -> bool {
    let has = Path::new(MODULES).join(name).is_dir();
    if !has {
        assert!(std::env::var_os("CI").is_none(), "{name} is not in {MODULES}");
        eprintln!("skipped: {name} is not in {MODULES}");
    }
    has
}

#[test]
fn ioredis_and_node_redis_work_unchanged() {
    let Some(node) = tool("node").filter(|_| has_module("ioredis") && has_module("redis")) else { return };
    let place = Place::new();
    let (_server, nodes) = redis::start(&place);
    let addresses = nodes.iter().map(|node| format!("{}:{}", node.host, node.port));
    let mut command = Command::new(node);
    // Arguments after `--` belong to the script.
    command.env("NODE_PATH", MODULES).args(["-e", SCRIPT, "--"]).args(addresses).stderr(Stdio::piped());
    let output = run(&mut command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}
