import assert from "node:assert/strict";
import { test } from "node:test";
import { Allocation, SeqError } from "../../src/index.js";
import { settle } from "../fake_clock.js";
import { World } from "../fake_world.js";

/** Returns uids, and the number of those that were taken. */
function source(uids: bigint[]): { uids: AsyncGenerator<bigint>; taken: () => number; isClosed: () => boolean } {
  let [taken, isClosed] = [0, false];
  async function* generate() {
    try {
      for (const uid of uids) {
        taken += 1;
        yield uid;
      }
    } finally {
      isClosed = true;
    }
  }
  return { uids: generate(), taken: () => taken, isClosed: () => isClosed };
}

test("results come in the order of the uids, of any iterable", async () => {
  const world = new World();
  const client = await world.open();
  const uids = [3n, 14n, 3n, 1_000n, 7n];
  for (const iterable of [uids, source(uids).uids]) {
    const items: [bigint, bigint | string][] = [];
    for await (const { uid, result } of client.nextAll(iterable, { concurrency: 1 })) {
      items.push([uid, result instanceof SeqError ? result.reason : result.value]);
    }
    const first = iterable === uids ? 1n : 3n;
    assert.deepEqual(items, [
      [3n, first],
      [14n, first === 1n ? 1n : 2n],
      [3n, first + 1n],
      [1_000n, "UID_OUTSIDE"],
      [7n, first === 1n ? 1n : 2n],
    ]);
  }
});

test("a slow consumer slows the source", async () => {
  const world = new World();
  const client = await world.open();
  const { uids, taken, isClosed } = source(new Array(100).fill(1n));
  const results = client.nextAll(uids, { concurrency: 8 });
  assert.equal(taken(), 0);
  for (let consumed = 1; consumed <= 20; consumed++) {
    const { value } = await results.next();
    assert.ok(value?.result instanceof Allocation);
    await settle();
    assert.ok(taken() <= consumed + 8, `${taken()} taken, ${consumed} consumed`);
  }
  await results.return();
  assert.equal(isClosed(), true);
  assert.equal(client.stats().pending, 0);
});

test("calls in flight end with the iteration", async () => {
  const world = new World();
  const client = await world.open();
  world.hung.add("set1-node2:1");
  const results = client.nextAll([1n, 11n, 12n, 13n]);
  assert.equal((await results.next()).value?.uid, 1n);
  await settle();
  assert.equal(client.stats().pending, 3);
  await results.return();
  await settle();
  assert.equal(client.stats().pending, 0);
});

test("a result does not wait for a slow source", async () => {
  const world = new World();
  const client = await world.open();
  let give: (uid: bigint) => void = () => undefined;
  const next = new Promise<bigint>((resolve) => {
    give = resolve;
  });
  async function* slow() {
    yield 1n;
    yield await next;
  }
  const results = client.nextAll(slow());
  assert.equal((await results.next()).value?.uid, 1n);
  const second = results.next();
  give(2n);
  assert.equal((await second).value?.uid, 2n);
  assert.equal((await results.next()).done, true);
});

test("an error of the source, or an abort, ends the iteration", async () => {
  const world = new World();
  const client = await world.open();
  async function* failing() {
    yield 1n;
    throw new Error("of the source");
  }
  await assert.rejects(async () => {
    for await (const _ of client.nextAll(failing())) {
    }
  }, /of the source/);
  world.hung.add("set1-node1:1").add("set1-node2:1");
  const controller = new AbortController();
  const { uids, isClosed } = source([1n, 2n, 3n]);
  const results = client.nextAll(uids, { signal: controller.signal });
  const first = results.next();
  await settle();
  controller.abort();
  await assert.rejects(first, (error) => error instanceof SeqError && error.kind === "cancelled");
  assert.equal(isClosed(), true);
  await assert.rejects(client.nextAll([1n], { concurrency: 0 }).next(), RangeError);
  await assert.rejects(client.nextAll([1 as unknown as bigint]).next(), TypeError);
});
