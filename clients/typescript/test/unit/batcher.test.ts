/** Calls that share the messages of a stream. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Refused, SeqError } from "../../src/index.js";
import { settle } from "../fake_clock.js";
import { Refusal, World } from "../fake_world.js";

const NODE_1 = "set1-node1:1";

test("concurrent calls share messages", async () => {
  const world = new World();
  const client = await world.open();
  // The stream is open, and its sender waits.
  await world.clock.run(client.next(1n));
  world.messages.length = 0;
  const calls = Array.from({ length: 256 }, (_, index) => client.nextN(BigInt(index % 10), 1 + (index % 2)));
  const numbers = await world.clock.run(Promise.all(calls));
  assert.ok(world.messages.length <= 256 / 8, `${world.messages.length} messages`);
  assert.equal(world.requests("Next").length, 0);
  assert.equal(client.stats().messages, world.messages.length + 1);
  // The numbers of each uid follow each other in the order of its calls.
  const last = new Map<bigint, bigint>([[1n, 1n]]);
  for (const [index, { prev, first, value, count }] of numbers.entries()) {
    const uid = BigInt(index % 10);
    assert.equal(prev, last.get(uid) ?? 0n);
    assert.equal(first, prev + 1n);
    assert.equal(count, 1 + (index % 2));
    last.set(uid, value);
  }
});

test("calls of one turn of the event loop share a message", async () => {
  const world = new World();
  const client = await world.open();
  await world.clock.run(client.next(1n));
  world.messages.length = 0;
  const call = async (hops: number) => {
    for (let hop = 0; hop < hops; hop++) {
      await Promise.resolve();
    }
    return await client.next(1n);
  };
  await world.clock.run(Promise.all(Array.from({ length: 32 }, (_, hops) => call(hops))));
  assert.deepEqual(world.messages, [32]);
});

test("a message has the routes' version and the epochs of its items", async () => {
  const world = new World();
  const client = await world.open();
  await world.clock.run(client.next(3n));
  const [seen] = world.requests("NextStream");
  assert.deepEqual([seen?.addr, seen?.uids, seen?.epoch, seen?.routeVersion], [NODE_1, [3n], 1n, 6n]);
});

test("a call whose deadline has passed is not sent", async () => {
  const world = new World();
  const client = await world.open();
  await world.clock.run(client.next(1n));
  world.messages.length = 0;
  await assert.rejects(world.clock.run(client.next(1n, { deadlineMs: 0 })), {
    kind: "deadline",
    mayHaveApplied: false,
  });
  assert.deepEqual(world.messages, []);
  assert.equal((await world.clock.run(client.next(1n))).value, 2n);
});

test("an item that would wait goes alone, without a retry, and delays no other", async () => {
  const world = new World();
  const client = await world.open();
  world.waiting.add(2n);
  const calls = [1n, 2n, 3n].map((uid) => client.next(uid));
  const numbers = await world.clock.run(Promise.all(calls));
  assert.deepEqual(
    numbers.map(({ value, lost }) => [value, lost]),
    [
      [1n, 0],
      [1n, 0],
      [1n, 0],
    ],
  );
  assert.deepEqual(
    world.requests("Next").map(({ uids }) => uids),
    [[2n]],
  );
  assert.equal(client.stats().retries, 0);
});

test("several messages are in flight, and a limit of calls makes others wait", async () => {
  const world = new World();
  const client = await world.open({ bounds: { calls: 4, message: 2, inFlight: 2 } });
  let open: () => void = () => undefined;
  world.gate = new Promise((resolve) => {
    open = resolve;
  });
  const calls = Array.from({ length: 8 }, (_, index) => client.next(BigInt(index)));
  await settle();
  // One message is with the node, and at most four calls are in the queue.
  const first = world.requests("NextStream").length;
  assert.equal(first, 1);
  const started = world.clock.now();
  open();
  const numbers = await world.clock.run(Promise.all(calls));
  assert.deepEqual(
    numbers.map(({ value }) => value),
    new Array(8).fill(1n),
  );
  assert.equal(world.clock.now(), started, "a call that ends admits the next one");
  assert.ok(world.messages.every((items) => items <= 2));
  // A call that waits for room has its deadline all the same.
  world.hung.add(NODE_1).add("set1-node2:1");
  const late = Array.from({ length: 8 }, () => client.next(1n, { deadlineMs: 500 }).catch((error: SeqError) => error));
  const errors = await world.clock.run(Promise.all(late));
  for (const error of errors) {
    assert.ok(error instanceof SeqError);
    assert.equal(error.kind, "deadline");
  }
  assert.deepEqual(
    errors.map((error) => error instanceof SeqError && error.mayHaveApplied).filter((applied) => !applied).length >= 4,
    true,
  );
});

test("a stream that breaks fails the calls in its messages, and they go to another node", async () => {
  const world = new World();
  const client = await world.open();
  world.script(NODE_1, { breaks: "sent" });
  const number = await world.clock.run(client.next(1n));
  assert.deepEqual([number.value, number.lost], [1n, 1]);
  assert.equal(world.requests().at(-1)?.addr, "set1-node2:1");
  await world.clock.advance(1_000);
  // The next call opens a stream again.
  await world.clock.run(client.next(1n));
  assert.equal(world.requests().at(-1)?.method, "NextStream");
  await world.clock.advance(1_000);
  world.script(NODE_1, { breaks: "sent" });
  world.down.add(NODE_1);
  assert.equal((await world.clock.run(client.next(1n))).lost, 1);
  await world.clock.advance(1_000);
  assert.equal((await world.clock.run(client.next(1n))).lost, 0, "no connection, so nothing was sent");
});

test("calls that were not sent when a stream broke go in the next one", async () => {
  const world = new World();
  const client = await world.open({ bounds: { calls: 9, message: 1, inFlight: 1 } });
  await world.clock.run(client.next(1n));
  let open: () => void = () => undefined;
  world.gate = new Promise((resolve) => {
    open = resolve;
  });
  world.script(NODE_1, { breaks: "sent" });
  const calls = [client.next(2n), client.next(3n)];
  await settle();
  open();
  const [sent, pending] = await world.clock.run(Promise.all(calls));
  assert.deepEqual([sent?.lost, pending?.lost], [1, 0]);
  assert.deepEqual(
    world.requests("Next").map(({ uids }) => uids),
    [[2n]],
  );
});

test("an aborted call is not sent if it is still pending", async () => {
  const world = new World();
  const client = await world.open();
  const controller = new AbortController();
  const call = client.next(1n, { signal: controller.signal }).catch((error: SeqError) => error);
  controller.abort();
  const error = await call;
  assert.ok(error instanceof SeqError);
  assert.deepEqual([error.kind, error.mayHaveApplied], ["cancelled", false]);
  await settle();
  assert.deepEqual(world.messages, []);
  assert.equal(world.numbers.size, 0);
  // After it was sent, it may have applied.
  let open: () => void = () => undefined;
  world.gate = new Promise((resolve) => {
    open = resolve;
  });
  const other = new AbortController();
  const sent = client.next(1n, { signal: other.signal }).catch((error: SeqError) => error);
  await settle();
  other.abort();
  const late = await sent;
  assert.ok(late instanceof SeqError && late.mayHaveApplied);
  open();
  await settle();
  assert.equal((await world.clock.run(client.next(1n))).value, 2n);
});

test("a node that hangs in a stream costs a third of the deadline", async () => {
  const world = new World();
  const client = await world.open();
  world.hung.add(NODE_1);
  const started = world.clock.now();
  const number = await world.clock.run(client.next(1n));
  assert.deepEqual([number.lost, Math.round(world.clock.now() - started)], [1, 1_667]);
});

test("a node without streams gets unary calls for a minute", async () => {
  const world = new World();
  world.hasStreams = false;
  const client = await world.open();
  for (const _ of [1, 2]) {
    assert.equal((await world.clock.run(client.next(1n))).lost, 0);
  }
  assert.equal(world.requests("Next").length, 2);
  world.hasStreams = true;
  await world.clock.run(client.next(1n));
  assert.equal(world.requests("NextStream").length, 0);
  await world.clock.advance(60_000);
  await world.clock.run(client.next(1n));
  assert.equal(world.requests("NextStream").length, 1);
});

test("a refusal of an item is final or repeated, as that of a unary call", async () => {
  const world = new World();
  const client = await world.open();
  world.script(NODE_1, new Refusal("EXHAUSTED", "RESOURCE_EXHAUSTED", 0));
  await assert.rejects(world.clock.run(client.next(1n)), (error) => error instanceof Refused && error.attempts === 1);
  world.script(NODE_1, new Refusal("OWNER_CONNECTION_LOST", "UNAVAILABLE", 10));
  assert.equal((await world.clock.run(client.next(1n))).lost, 1);
});

test("an invalid response of a stream concerns all calls of its message", async () => {
  const world = new World();
  const client = await world.open();
  const shorter = (response: unknown) => ({ ...(response as object), prevs: [] });
  world.script(NODE_1, shorter);
  const errors = await world.clock.run(Promise.allSettled([client.next(1n), client.next(2n)]));
  for (const error of errors) {
    assert.equal(error.status === "rejected" && (error.reason as SeqError).kind, "bad_answer");
  }
});
