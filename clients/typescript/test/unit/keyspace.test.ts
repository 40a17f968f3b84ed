/** Keyspaces: buckets, routing by bucket, retries, and refusals before anything is sent. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { BUCKETS, bucket, crc16 } from "../../src/buckets.js";
import { Allocation, Current, MAX_KEY_BYTES, Refused, SeqError } from "../../src/index.js";
import { Refusal, recorder, World } from "../fake_world.js";

/** Returns a key whose bucket belongs to the node with an index among the nodes of a world. */
function keyOf(node: number, nodes: number): string {
  for (let number = 0; ; number++) {
    const key = `conv:${number}`;
    if (Math.floor((bucket(Buffer.from(key)) * nodes) / BUCKETS) === node) {
      return key;
    }
  }
}

function values(results: (Allocation | Current | SeqError)[]): (bigint | string)[] {
  return results.map((result) => (result instanceof SeqError ? result.reason : result.value));
}

test("buckets are the slots of Redis Cluster", () => {
  assert.equal(crc16(Buffer.from("123456789")), 0x31c3);
  // The keys with braces are the examples of the specification of Redis Cluster.
  const slots: [string, number][] = [
    ["123456789", 12_739],
    ["somekey", 11_058],
    ["foo{hash_tag}", 2_515],
    ["hash_tag", 2_515],
    ["{user1000}.following", 3_443],
    ["{user1000}.followers", 3_443],
    ["foo{}{bar}", 8_363],
    ["foo{{bar}}zap", 4_015],
    ["foo{bar}{zap}", 5_061],
    ["{bar", 4_015],
    ["{}", 15_257],
    ["{", 4_092],
    ["", 0],
    ["conv:42", 7_999],
  ];
  for (const [key, slot] of slots) {
    assert.equal(bucket(Buffer.from(key)), slot, key);
  }
  assert.equal(bucket(Buffer.from("}a{b}c")), bucket(Buffer.from("b")), "a brace before the tag does not count");
  assert.equal(bucket(Buffer.from("\xff{\0\xfe}\n", "latin1")), bucket(Buffer.from("\0\xfe", "latin1")));
});

test("a call for a key goes to the owner of its bucket", async () => {
  const world = new World(2);
  world.addKeyspace("main");
  const client = await world.open();
  const keys = client.keyspace("main");
  assert.equal(keys.name, "main");
  for (const [node, addr] of world.sets.flatMap(({ addrs }) => addrs).entries()) {
    const key = keyOf(node, 4);
    const before = world.seen.length;
    assert.deepEqual(await world.clock.run(keys.next(key)), new Allocation(1n, 0n, 1n, 1, 0));
    assert.deepEqual([...(await world.clock.run(keys.nextN(Buffer.from(key), 3)))], [2n, 3n, 4n]);
    assert.deepEqual(await world.clock.run(keys.current(key)), new Current(4n, true, 1n));
    assert.equal(await world.clock.run(keys.advance(key, 100n)), 1n);
    assert.equal((await world.clock.run(keys.next(key))).value, 101n);
    const seen = world.seen.slice(before);
    assert.deepEqual(
      seen.map(({ method }) => method),
      ["KeyNext", "KeyNext", "KeyCurrent", "KeyAdvance", "KeyNext"],
    );
    assert.ok(seen.every((one) => one.addr === addr && one.epoch === 1n && one.keys[0] === key));
  }
});

test("a batch of keys is split by owner, with results in order", async () => {
  const world = new World(2);
  world.addKeyspace("main");
  const client = await world.open();
  const keys = client.keyspace("main");
  const [a, b] = [keyOf(0, 4), keyOf(3, 4)];
  assert.deepEqual(values(await world.clock.run(keys.nextMany([a, b, a, `{${b}}`]))), [1n, 1n, 2n, 1n]);
  assert.deepEqual(values(await world.clock.run(keys.nextMany([a, b, a], [5, 1, 2]))), [7n, 2n, 9n]);
  assert.deepEqual(values(await world.clock.run(keys.currentMany([b, "none", Buffer.from(a)]))), [2n, 0n, 9n]);
  const sent = world.requests("KeyNextMany").map(({ addr, keys }) => [addr, keys]);
  assert.deepEqual(sent.slice(0, 2), [
    ["set1-node1:1", [a, a]],
    ["set2-node2:1", [b, `{${b}}`]],
  ]);
  assert.deepEqual(await world.clock.run(keys.nextMany([])), []);
});

test("a batch of keys above a limit goes in several requests", async () => {
  const world = new World();
  world.addKeyspace("main");
  const keys = (await world.open()).keyspace("main");
  const long = "x".repeat(MAX_KEY_BYTES);
  for (const [key, items] of [
    ["a", 10_001],
    [long, 600],
  ] as const) {
    const results = await world.clock.run(keys.nextMany(new Array(items).fill(key)));
    assert.ok(results.every((result, index) => result instanceof Allocation && result.value === BigInt(index + 1)));
  }
  const sizes = world.requests("KeyNextMany").map((request) => request.keys.length);
  assert.deepEqual(sizes, [10_000, 1, 256, 256, 88]);
});

test("refused calls for keys are retried as those for uids, and count lost attempts", async () => {
  const world = new World();
  world.addKeyspace("main");
  const { observer, events } = recorder();
  const client = await world.open({ observer });
  const [keys, key] = [client.keyspace("main"), keyOf(0, 2)];
  world.script("set1-node1:1", new Refusal("UNSERVED"), new Refusal("UNSERVED"));
  assert.deepEqual(await world.clock.run(keys.next(key)), new Allocation(1n, 0n, 1n, 1, 0));
  assert.ok(events.includes("call keys.next 1") && events.includes("end ok - lost 0"), events.join());
  world.script("set1-node1:1", "lost");
  const second = await world.clock.run(keys.next(key));
  assert.deepEqual([second.value, second.lost], [3n, 1]);
  world.script("*", "lost");
  const many = await world.clock.run(keys.nextMany([key, key]));
  assert.deepEqual(
    many.map((result) => result instanceof Allocation && [result.value, result.lost]),
    [
      [6n, 1],
      [7n, 1],
    ],
  );
  world.script("*", new Refusal("OTHER_TENANTS_KEY", "PERMISSION_DENIED", 0));
  await assert.rejects(world.clock.run(keys.next(key)), (error) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.reason, error.uid, error.retryable], ["OTHER_TENANTS_KEY", undefined, false]);
    assert.ok(!error.message.includes("uid"), error.message);
    return true;
  });
  world.script("*", new Refusal("OWNER_CONNECTION_LOST"));
  const again = await world.clock.run(keys.nextMany([key]));
  assert.equal(again[0] instanceof Allocation && again[0].lost, 1);
  // The other node forwards while the owner is down.
  world.down.add("set1-node1:1");
  assert.equal((await world.clock.run(keys.next(key))).lost, 0);
  assert.equal(world.requests("KeyNext").at(-1)?.addr, "set1-node2:1");
});

test("a bucket that moved is followed without the budget", async () => {
  const world = new World(2);
  world.addKeyspace("main");
  const client = await world.open();
  const [keys, key] = [client.keyspace("main"), keyOf(0, 4)];
  await world.clock.run(keys.next(key));
  world.exhaust();
  const set = world.sets[1];
  assert.ok(set);
  const since = world.moveBucket(key, set);
  world.script("set1-node1:1", new Refusal("MOVED", "UNAVAILABLE", 1, { setId: set.id, since }));
  const moved = await world.clock.run(keys.next(key));
  assert.deepEqual([moved.value, moved.epoch], [2n, 2n]);
  const last = world.requests("KeyNext").at(-1);
  assert.ok(last?.addr.startsWith("set2-") && last.epoch === 2n, last?.addr);
});

test("keys of other sizes and kinds are refused before anything is sent", async () => {
  const world = new World();
  world.addKeyspace("main");
  const client = await world.open();
  const keys = client.keyspace("main");
  const sizes = (error: unknown) => {
    assert.ok(error instanceof Refused);
    const { reason, code, retryable, mayHaveApplied, attempts } = error;
    assert.deepEqual(
      [reason, code, retryable, mayHaveApplied, attempts],
      ["KEY_SIZE", "INVALID_ARGUMENT", false, false, 0],
    );
    return true;
  };
  for (const wrong of ["", new Uint8Array(), "x".repeat(MAX_KEY_BYTES + 1), "ü".repeat(257)]) {
    await assert.rejects(keys.next(wrong), sizes);
    await assert.rejects(keys.current(wrong), sizes);
    await assert.rejects(keys.advance(wrong, 5n), sizes);
    for (const batch of [keys.nextMany([wrong, wrong]), keys.currentMany([wrong, wrong])]) {
      const results = await batch;
      assert.ok(results.length === 2 && results.every(sizes));
    }
  }
  for (const wrong of [42, null, ["a"], "half \ud800"]) {
    await assert.rejects(keys.next(wrong as string), TypeError);
  }
  await assert.rejects(keys.nextMany("conv:42" as unknown as string[]), TypeError);
  await assert.rejects(keys.nextMany(["a", "b"], [1]), RangeError);
  await assert.rejects(keys.advance("a", 5 as unknown as bigint), TypeError);
  for (const count of [0, 1_000_001]) {
    await assert.rejects(keys.nextN("a", count), { kind: "count" });
    await assert.rejects(keys.nextMany(["a"], [count]), { kind: "count" });
  }
  assert.equal(world.requests().length, 0);
});

test("an unknown keyspace is refused, and a new one is found", async () => {
  const world = new World();
  const client = await world.open();
  const keys = client.keyspace("main");
  for (const call of [() => keys.next("a"), () => keys.nextMany(["a"]), () => keys.current("a")]) {
    await assert.rejects(world.clock.run<unknown>(call()), (error) => {
      assert.ok(error instanceof Refused && error.message.includes("main"));
      assert.deepEqual([error.reason, error.code, error.retryable], ["UNKNOWN_KEYSPACE", "NOT_FOUND", false]);
      return true;
    });
  }
  world.addKeyspace("main");
  await world.clock.advance(1_001);
  assert.equal((await world.clock.run(keys.next("a\u0000"))).value, 1n);
  await assert.rejects(client.series("main"), { reason: "UNKNOWN_SERIES" });
});

test("a signal ends a call for a key, and so does the end of the client", async () => {
  const world = new World();
  world.addKeyspace("main");
  const client = await world.open();
  const [keys, key] = [client.keyspace("main"), keyOf(0, 2)];
  await assert.rejects(keys.next(key, { signal: AbortSignal.abort() }), { kind: "cancelled", mayHaveApplied: false });
  world.hung.add("set1-node1:1");
  const controller = new AbortController();
  const call = keys.next(key, { signal: controller.signal });
  controller.abort();
  await assert.rejects(world.clock.run(call), { kind: "cancelled", name: "AbortError" });
  await world.clock.run(client.close());
  await assert.rejects(keys.next(key), { kind: "closed" });
});
