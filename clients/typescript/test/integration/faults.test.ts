/** Failures of an owner under load, with a check of the order of every number. Servers are separate processes. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Current, SeqError } from "../../src/index.js";
import { eventually, SeparateSet, seqsvr } from "../cluster.js";
import { Load, type LoadReport } from "../order.js";

/** Uids of all sections, of which each owner has some. */
const UIDS = Array.from({ length: 40 }, (_, index) => BigInt(index) * 25n + 3n);

/** Runs a load while `fail` makes one owner fail, until its sections are served again. */
async function underLoad(set: SeparateSet, fail: (set: SeparateSet) => Promise<void>): Promise<LoadReport> {
  await using client = await set.open({ deadlineMs: 5_000 });
  // Each section is raised once, so that the load begins with owners everywhere.
  await eventually("all sections are served", async () => {
    return (await client.nextMany(UIDS)).every((result) => !(result instanceof SeqError));
  });
  const load = new Load(client, UIDS, 16);
  await eventually("the load runs", () => load.calls > 500);
  await fail(set);
  const before = load.calls;
  await eventually("the sections are served again", async () => {
    await using other = await Client.open({ seeds: set.seeds, deadlineMs: 10_000 });
    return (await other.currentMany(UIDS)).every((result) => !(result instanceof SeqError));
  });
  await eventually("the load goes on", () => load.calls > before + 500);
  return await load.stop();
}

test("kill -9 of an owner fails no call, and breaks no order", async (t) => {
  const set = await SeparateSet.start({ allocs: 2 });
  t.after(() => set.stop());
  const report = await underLoad(set, async ({ allocs }) => {
    await allocs[0]?.server.stop("SIGKILL");
  });
  t.diagnostic(`${report.calls} calls, ${report.lost} lost attempts, the longest ${Math.round(report.longestMs)} ms`);
  assert.deepEqual(report.violations, []);
  assert.deepEqual(report.failed, []);
});

test("kill -9 of an owner fails no call for a key, and breaks no order", async (t) => {
  const set = await SeparateSet.start({ allocs: 2 });
  t.after(() => set.stop());
  await using client = await set.open({ deadlineMs: 5_000 });
  await seqsvr("keyspace", "create", "main", "--yes", ...set.at());
  const main = client.keyspace("main");
  // The keys are in buckets of both owners.
  const keys = UIDS.map((uid) => `conv:${uid}`);
  const areServed = async () => (await main.currentMany(keys)).every((result) => result instanceof Current);
  await eventually("all buckets are served", areServed);
  const load = new Load({ nextN: (uid, count) => main.nextN(`conv:${uid}`, count) }, UIDS, 16);
  await eventually("the load runs", () => load.calls > 500);
  await set.allocs[0]?.server.stop("SIGKILL");
  const before = load.calls;
  await eventually("the buckets are served again", areServed);
  await eventually("the load goes on", () => load.calls > before + 500);
  const report = await load.stop();
  t.diagnostic(`${report.calls} calls, ${report.lost} lost attempts, the longest ${Math.round(report.longestMs)} ms`);
  assert.deepEqual(report.violations, []);
  assert.deepEqual(report.failed, []);
});

test("an owner that hangs fails no call, and breaks no order", async (t) => {
  const set = await SeparateSet.start({ allocs: 2 });
  t.after(() => set.stop());
  const report = await underLoad(set, async ({ allocs }) => {
    allocs[0]?.server.signal("SIGSTOP");
  });
  t.diagnostic(`${report.calls} calls, ${report.lost} lost attempts, the longest ${Math.round(report.longestMs)} ms`);
  assert.deepEqual(report.violations, []);
  assert.deepEqual(report.failed, []);
  assert.ok(report.lost > 0, "attempts at the node that hangs have unknown outcomes");
});

test("an orderly stop of an owner fails no call, and skips no number", async (t) => {
  const set = await SeparateSet.start({ allocs: 2 });
  t.after(() => set.stop());
  const report = await underLoad(set, async ({ allocs }) => {
    await allocs[0]?.server.stop("SIGTERM");
  });
  t.diagnostic(`${report.calls} calls, ${report.lost} lost attempts, the longest ${Math.round(report.longestMs)} ms`);
  assert.deepEqual([report.violations, report.failed, report.lost], [[], [], 0]);
});

test("uids that no double has are different users", async (t) => {
  const [start, end] = [(1n << 64n) - 1_000n, (1n << 64n) - 200n];
  const set = await SeparateSet.start({ allocs: 1, uids: `${start}..${end}` });
  t.after(() => set.stop());
  await using client = await set.open();
  const uids = [start, start + 1n, start + 2n, end - 1n];
  assert.equal(new Set(uids.map(Number)).size, 1);
  await eventually("the sections are served", () => client.next(start));
  await eventually("the last section is served", () => client.next(end - 1n));
  const before = await client.currentMany(uids);
  for (const [index, uid] of uids.entries()) {
    await client.nextN(uid, index + 1);
  }
  const results = await client.currentMany(uids);
  const taken = results.map((result, index) => {
    const was = before[index];
    return result instanceof Current && was instanceof Current ? result.value - was.value : result;
  });
  assert.deepEqual(taken, [1n, 2n, 3n, 4n]);
  for (const outside of [start - 1n, end, (1n << 64n) - 1n]) {
    await assert.rejects(client.next(outside), { kind: "uid_outside", uid: outside });
  }
});
