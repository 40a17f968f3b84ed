/** The buffer of segments against a twin: a queue of all fetched ids. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { NextIdsResponseSchema } from "../../src/generated/seqsvr/v1/ids_pb.js";
import { Ids } from "../../src/ids.js";
import { Buffer, type Fetch, FIRST_PAUSE_MS, Segments } from "../../src/segments.js";

const FOREVER = Number.POSITIVE_INFINITY;

function ids(first: bigint, count: number): Ids {
  return Ids.checked(
    "a:1",
    create(NextIdsResponseSchema, { runs: [{ first, count }], step: 1n, epoch: 1n }),
    count,
    0n,
  );
}

/** Returns a generator of numbers in `0 .. 1` that a failed run repeats. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

test("a buffer gives out the ids of its twin", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const draw = generator(seed * 7_919);
    const maxAgeMs = draw() < 0.5 ? FOREVER : 1_000;
    const maxSize = 1 + Math.floor(draw() * 10_000);
    const buffer = new Buffer({ holdMs: maxAgeMs === FOREVER ? 10_000 : 500, maxAgeMs, maxSize }, 0n);
    const queue: { id: bigint; at: number }[] = [];
    let [now, server, last] = [1_000_000, 0n, 0n];
    let [given, lastSize, fetches, dropped] = [0, 0, 0, 0];
    let inFlight: Fetch | undefined;
    for (let turn = 0; turn < 3_000; turn++) {
      const step = draw();
      if (step < 0.02) {
        now += draw() * 5_000;
      } else if (inFlight !== undefined && step < 0.1) {
        // Others take ids as well.
        const first = server + 1n + (server % 3n);
        server = first + BigInt(inFlight.size) - 1n;
        buffer.fetched(ids(first, inFlight.size), now);
        for (let id = first; id <= server; id += 1n) {
          queue.push({ id, at: now });
        }
        lastSize = inFlight.size;
        inFlight = undefined;
      } else if (inFlight !== undefined && step < 0.12) {
        server += BigInt(inFlight.size);
        buffer.failed(now);
        inFlight = undefined;
      } else {
        now += draw() * 2;
        while (queue[0] !== undefined && now - queue[0].at > maxAgeMs) {
          queue.shift();
          dropped += 1;
        }
        const { id, fetch } = buffer.take(now);
        assert.equal(id, queue.shift()?.id);
        if (id !== undefined) {
          assert.ok(id > last);
          given += 1;
          last = id;
        }
        if (fetch !== undefined) {
          assert.equal(inFlight, undefined, "one fetch in flight");
          assert.ok(id === undefined || given >= 2, "no fetch ahead for one id");
          assert.ok(fetch.size >= 1 && fetch.size <= Math.min(maxSize, Math.max(2 * lastSize, 1)));
          inFlight = fetch;
          fetches += 1;
          assert.equal(buffer.unused, queue.length + dropped);
          const slack = maxAgeMs === FOREVER ? 0 : fetches;
          assert.ok(queue.length + dropped + fetch.size <= 2 + 2 * given + slack);
        }
      }
    }
  }
});

test("a range lasts for the hold at the present rate", () => {
  const buffer = new Buffer({ holdMs: 10_000, maxAgeMs: FOREVER, maxSize: 1_000_000 }, 0n);
  let [now, first, size] = [0, 1n, 0];
  for (let turn = 0; turn < 12_000; turn++) {
    now += 5;
    const { fetch } = buffer.take(now);
    if (fetch !== undefined) {
      buffer.fetched(ids(first, fetch.size), now);
      first += BigInt(fetch.size);
      size = fetch.size;
    }
  }
  assert.ok(size >= 1_900 && size <= 2_000, `${size}`);
});

test("a failed fetch is repeated after a pause, and its error is that of the call", async () => {
  const buffer = new Buffer({ holdMs: 10_000, maxAgeMs: FOREVER, maxSize: 1_000_000 }, 0n);
  const fetch = { size: 1, after: 0n };
  assert.deepEqual(buffer.take(1), { id: undefined, fetch });
  assert.deepEqual(buffer.take(1), { id: undefined, fetch: undefined });
  buffer.failed(1);
  assert.equal(buffer.take(1 + FIRST_PAUSE_MS / 2).fetch, undefined);
  assert.deepEqual(buffer.take(1 + FIRST_PAUSE_MS), { id: undefined, fetch });

  let [fails, next] = [true, 0n];
  const take = async ({ size, after }: Fetch) => {
    if (fails) {
      throw new Error("no node");
    }
    next = after + 1n;
    return ids(next, size);
  };
  const counter = { kind: "counter", offset: 1n, increment: 1n, maxId: 1_000_000n } as const;
  const segments = new Segments(take, Buffer.of(counter, 10_000, 0n));
  await assert.rejects(segments.next(), /no node/);
  fails = false;
  const taken = await Promise.all([segments.next(), segments.next(), segments.next()]);
  // Calls that wait together have their ids in any order.
  assert.deepEqual(new Set(taken), new Set([1n, 2n, 3n]));
  assert.ok(segments.close() >= 0);
  await assert.rejects(segments.next(), { kind: "closed" });
  assert.throws(() => segments.tryNext(), { kind: "closed" });
});
