import assert from "node:assert/strict";
import { test } from "node:test";
import { Failure } from "../../src/failure.js";
import { World } from "../fake_world.js";

test("one seed that responds is enough, and a seed that hangs delays little", async () => {
  const world = new World();
  world.down.add("set1-node1:1");
  const started = world.clock.now();
  const client = await world.open({ seeds: ["set1-node1:1", "nowhere:1", "set1-node2:1"] });
  assert.equal((await world.clock.run(client.next(11n))).value, 1n);
  assert.equal(world.clock.now(), started);
  world.hung.add("set1-node1:1");
  world.down.clear();
  await world.open({ seeds: ["set1-node1:1", "set1-node2:1"] });
  assert.equal(world.clock.now(), started + 100);
});

test("the routes of one set name the others", async () => {
  const world = new World(3);
  const client = await world.open({ seeds: ["set1-node1:1"] });
  for (const uid of [1n, 11n, 21n]) {
    assert.equal((await world.clock.run(client.next(uid))).lost, 0);
  }
  assert.deepEqual(new Set(world.requests().map(({ addr }) => addr.slice(0, 4))), new Set(["set1", "set2", "set3"]));
});

test("without a seed that responds, open fails at once and closes its connections", async () => {
  const world = new World();
  world.down.add("set1-node1:1");
  const started = world.clock.now();
  await assert.rejects(world.open(), {
    kind: "connect",
    retryable: true,
    message: /set1-node1:1 failed: no connection/,
  });
  assert.equal(world.clock.now(), started);
  assert.equal(world.isClosed, true);
});

test("a connection that was lost has one more attempt, which shows the cause", async () => {
  const world = new World();
  let requests = 0;
  world.unary = async () => {
    requests += 1;
    throw Failure.connection(requests === 1 ? "cut" : "the certificate is revoked");
  };
  await assert.rejects(world.open(), { kind: "connect", message: /revoked/ });
  assert.equal(requests, 2);
});

test("seeds without routes are asked again until the deadline", async () => {
  const world = new World();
  const unary = world.unary.bind(world);
  let starting = 5;
  world.unary = async (...args) => {
    starting -= 1;
    if (starting === 3) {
      return {} as never;
    }
    if (starting > 0) {
      throw new Failure("not yet", { kind: "refusal", code: "UNAVAILABLE", reason: "NO_ROUTES", isFromServer: true });
    }
    return await unary(...args);
  };
  const client = await world.open();
  assert.equal((await world.clock.run(client.next(1n))).value, 1n);
  starting = 1_000_000;
  const started = world.clock.now();
  await assert.rejects(world.open(), { kind: "connect", retryable: true, message: /have no routes yet/ });
  assert.ok(world.clock.now() - started > 4_000);
});

test("a server of another kind is named", async () => {
  const world = new World();
  for (const [failure, text] of [
    [
      new Failure("", { kind: "refusal", code: "UNIMPLEMENTED", isFromServer: true }),
      /it is a store or another gRPC server/,
    ],
    [new Failure("HTTP 404", { kind: "invalid" }), /speaks HTTP but not gRPC/],
  ] as const) {
    world.unary = async () => {
      throw failure;
    };
    await assert.rejects(world.open(), { kind: "connect", retryable: false, message: text });
  }
});
