//! Connect's client library for Node with its defaults, against a real cluster: binary and JSON over both versions of
//! HTTP, gRPC, and gRPC-Web, which is refused before a seq is allocated.
//!
//! `.ci/run` installs the library below target/node. Without it, the test fails in CI, and is skipped elsewhere with a
//! line on stderr.

use std::process::Command;

use crate::cluster::Place;
use crate::dev;
use crate::redis::{run, tool};
use crate::redis_node::{MODULES, has_module};

/// The script builds the service from its descriptors, like a program that reads them by reflection.
const SCRIPT: &str = r#"
const assert = require("node:assert");
const { readFileSync } = require("node:fs");
const { createClient, Code } = require("@connectrpc/connect");
const { createConnectTransport, createGrpcTransport, createGrpcWebTransport } = require("@connectrpc/connect-node");
const { createFileRegistry, fromBinary } = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const [baseUrl, descriptors] = process.argv.slice(1);
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const client = (transport) => createClient(registry.getService("seqsvr.v1.SequenceService"), transport);

async function main() {
  const transports = [
    createConnectTransport({ baseUrl, httpVersion: "1.1" }),
    createConnectTransport({ baseUrl, httpVersion: "2" }),
    createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
    createGrpcTransport({ baseUrl, httpVersion: "2" }),
  ];
  let value = 0n;
  for (const [index, transport] of transports.entries()) {
    const connect = client(transport);
    assert.equal((await connect.next({ uid: 42n })).value, ++value);
    assert.equal((await connect.nextMany({ uids: [42n, 42n] })).values[1], (value += 2n));
    assert.equal((await connect.current({ uid: 42n })).value, value);
    await assert.rejects(connect.next({ uid: 42_000_000n }), (error) => error.code === Code.OutOfRange);
    if (index === 3) continue;
    const stream = async () => {
      const messages = (async function* () { yield { tag: 1n }; })();
      for await (const _ of connect.nextStream(messages));
    };
    await assert.rejects(stream, (error) => error.code === Code.Unimplemented && /over gRPC/.test(error.rawMessage));
  }
  const web = client(createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }));
  await assert.rejects(web.next({ uid: 42n }), /415/);
  assert.equal((await client(transports[0]).current({ uid: 42n })).value, value, "a refused call allocates no number");
  for (const transport of transports) {
    const ids = createClient(registry.getService("seqsvr.v1.IdService"), transport);
    const { runs } = await ids.next({ series: "tweets", count: 3 });
    assert(runs.length > 0 && runs.every((run) => typeof run.first === "bigint" && run.first > 1n << 53n));
    await assert.rejects(ids.next({ series: "nothing" }), (error) => error.code === Code.NotFound);
  }
  // An id is a string in JSON, because it is no exact number in JavaScript.
  const headers = { "content-type": "application/json" };
  const post = { method: "POST", headers, body: JSON.stringify({ series: "tweets" }) };
  const { runs } = await (await fetch(`${baseUrl}/seqsvr.v1.IdService/Next`, post)).json();
  assert(typeof runs[0].first === "string" && BigInt(runs[0].first) > 1n << 53n, runs);
}

main().then(() => { console.log("done"); process.exit(0); }, (error) => { console.error(error); process.exit(1); });
"#;

#[test]
fn connect_node_works_unchanged() {
    let Some(node) = tool("node").filter(|_| has_module("@connectrpc/connect-node")) else { return };
    let place = Place::new();
    let (_server, addr) = dev::start(&place);
    let descriptors = place.path("descriptors.bin");
    std::fs::write(&descriptors, seq_proto::DESCRIPTORS).unwrap();
    let mut command = Command::new(node);
    command.env("NODE_PATH", MODULES).args(["-e", SCRIPT, "--", &addr]).arg(&descriptors);
    let output = run(&mut command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}
