/** Batches: split by owner, results in order, and retries of single items. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Allocation, Current, SeqError, SetUnavailable, UidOutside } from "../../src/index.js";
import { Refusal, World } from "../fake_world.js";

function values(results: (Allocation | Current | SeqError)[]): (bigint | string)[] {
  return results.map((result) => (result instanceof SeqError ? result.reason : result.value));
}

test("each item has its own result, in order", async () => {
  const world = new World();
  const client = await world.open();
  const results = await world.clock.run(client.nextMany([1n, 11n, 1n, 1_000n, 1n], [1, 2, 3, 4, 5]));
  assert.deepEqual(values(results), [1n, 2n, 4n, "UID_OUTSIDE", 9n]);
  assert.ok(results[3] instanceof UidOutside);
  assert.deepEqual(
    world.requests().map(({ addr, uids }) => [addr, uids]),
    [
      ["set1-node1:1", [1n, 1n, 1n]],
      ["set1-node2:1", [11n]],
    ],
  );
  assert.ok(world.requests().every(({ epoch, routeVersion }) => epoch === 1n && routeVersion === 6n));
  assert.deepEqual(values(await world.clock.run(client.currentMany([11n, 1n]))), [2n, 9n]);
  assert.deepEqual(await client.nextMany([]), []);
});

test("a batch above the limit goes in order", async () => {
  const world = new World();
  const client = await world.open();
  const results = await world.clock.run(client.nextMany(new Array(25_000).fill(1n)));
  assert.ok(results.every((result, index) => result instanceof Allocation && result.value === BigInt(index + 1)));
  assert.deepEqual(
    world.requests().map(({ uids }) => uids.length),
    [10_000, 10_000, 5_000],
  );
});

test("only refused items are sent again, with the lost attempts of each", async () => {
  const world = new World();
  const client = await world.open();
  const refused = (reason: string, index: number) => (response: unknown) => {
    const message = response as { values: bigint[]; errors: unknown[] };
    message.values[index] = 0n;
    message.errors.push(new Refusal(reason).item(index));
    return message;
  };
  world.script("*", refused("OWNER_TIMED_OUT", 1));
  const results = await world.clock.run(client.nextMany([1n, 2n, 3n]));
  assert.deepEqual(values(results), [1n, 2n, 1n]);
  assert.deepEqual(
    results.map((result) => result instanceof Allocation && result.lost),
    [0, 1, 0],
  );
  assert.deepEqual(world.requests().at(-1)?.uids, [2n]);
});

test("a request without a response is repeated with all its items", async () => {
  const world = new World();
  const client = await world.open();
  world.script("set1-node1:1", "lost");
  const results = await world.clock.run(client.nextMany([1n, 2n]));
  assert.deepEqual(values(results), [2n, 2n]);
  assert.deepEqual(
    results.map((result) => result instanceof Allocation && result.lost),
    [1, 1],
  );
});

test("items of a set that is down fail fast, and delay no others", async () => {
  const world = new World(2);
  const client = await world.open();
  for (const addr of world.sets[0]?.addrs ?? []) {
    world.down.add(addr);
  }
  const started = world.clock.now();
  const results = await world.clock.run(client.nextMany([1n, 11n, 21n, 31n]));
  assert.deepEqual(values(results), ["SET_UNAVAILABLE", 1n, "SET_UNAVAILABLE", 1n]);
  assert.ok(results[0] instanceof SetUnavailable && results[0].setId === 1n);
  assert.ok(world.clock.now() - started < 1_000);
  // A batch of that set alone is retried until its deadline, and throws.
  await assert.rejects(world.clock.run(client.nextMany([1n, 2n], undefined, { deadlineMs: 1_000 })), SetUnavailable);
});

test("items of a section that moved follow it", async () => {
  const world = new World(2);
  const client = await world.open();
  const [, two] = world.sets;
  assert.ok(two);
  const epoch = world.move(0, two);
  const moved = (response: unknown) => {
    const message = response as { values: bigint[]; errors: unknown[] };
    message.errors.push(new Refusal("MOVED", "UNAVAILABLE", 1, { setId: 2n, since: epoch }).item(0));
    return message;
  };
  world.script("set1-node1:1", moved);
  const started = world.clock.now();
  const results = await world.clock.run(client.nextMany([1n, 41n]));
  assert.ok(results.every((result) => result instanceof Allocation));
  assert.equal(world.clock.now(), started);
  assert.ok(world.requests().some(({ addr, uids }) => addr.startsWith("set2-") && uids[0] === 1n));
});

test("a batch without any response throws, and may have applied if any item may", async () => {
  const world = new World();
  const client = await world.open();
  world.hung.add("set1-node1:1").add("set1-node2:1");
  await assert.rejects(world.clock.run(client.nextMany([1n, 11n])), (error) => {
    return error instanceof SeqError && error.kind === "deadline" && error.mayHaveApplied;
  });
});

test("a refusal keeps that an earlier attempt may have applied", async () => {
  const world = new World();
  const client = await world.open();
  const refusal = (reason: string, retryAfterMs: number) => (response: unknown) => {
    const message = response as { errors: unknown[] };
    message.errors.push(new Refusal(reason, "FAILED_PRECONDITION", retryAfterMs).item(0));
    return message;
  };
  world.script("*", refusal("OWNER_TIMED_OUT", 1), refusal("EXHAUSTED", 0));
  const [result] = await world.clock.run(client.nextMany([1n]));
  assert.ok(result instanceof SeqError);
  assert.deepEqual([result.reason, result.mayHaveApplied, result.message], ["EXHAUSTED", true, "uid 1: refused"]);
});

test("errors of items that were not sent are a bad answer", async () => {
  const world = new World();
  const client = await world.open();
  for (const index of [1, 7]) {
    world.script("*", (response) => {
      (response as { errors: unknown[] }).errors.push(new Refusal("UNSERVED").item(index));
      return response;
    });
    await assert.rejects(world.clock.run(client.nextMany([1n])), /an error of an item that was not sent/);
  }
  assert.ok((await world.clock.run(client.current(1n))) instanceof Current);
});
