/** Attempts of calls: their targets, retries, backoffs, budgets and errors. Calls are unary here, unless stated. */

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BadAnswer,
  DeadlineExceeded,
  Refused,
  SeqError,
  SetUnavailable,
  UidOutside,
  Unreachable,
} from "../../src/index.js";
import { Refusal, recorder, World } from "../fake_world.js";

const [NODE_1, NODE_2] = ["set1-node1:1", "set1-node2:1"];

async function fails<E extends SeqError>(
  promise: Promise<unknown>,
  kind: abstract new (...args: never[]) => E,
): Promise<E> {
  const error = await promise.then(
    () => assert.fail("the call succeeded"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof kind, `${error}`);
  return error;
}

test("a request goes to the owner with the epoch and the version of its route", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  for (const [uid, addr] of [
    [1n, NODE_1],
    [11n, NODE_2],
  ] as const) {
    const number = await world.clock.run(client.next(uid));
    assert.deepEqual([number.value, number.prev, number.epoch, number.lost], [1n, 0n, 1n, 0]);
    const { at: _, ...seen } = world.requests().at(-1) ?? assert.fail();
    assert.deepEqual(seen, { addr, method: "Next", uids: [uid], keys: [], epoch: 1n, routeVersion: 6n });
  }
});

test("newer routes in a response are adopted", async () => {
  const world = new World();
  const { observer, events } = recorder();
  const client = await world.open({ coalesce: false, observer });
  const [set] = world.sets;
  assert.ok(set);
  world.move(0, set, set);
  set.table[0] = { owner: 2, epoch: 2n, away: 0n };
  await world.clock.run(client.next(1n));
  await world.clock.run(client.next(1n));
  assert.deepEqual(
    world.requests().map(({ addr }) => addr),
    [NODE_1, NODE_2],
  );
  assert.deepEqual(
    events.filter((event) => event.startsWith("adopted")),
    ["adopted set-1 6", "adopted set-1 7"],
  );
});

test("retries wait at least for the hint, and end before the deadline", async () => {
  const world = new World();
  world.script("*", ...new Array(1_000).fill(new Refusal("UNSERVED", "UNAVAILABLE", 100)));
  const client = await world.open({ coalesce: false });
  const started = world.clock.now();
  const error = await fails(world.clock.run(client.next(1n, { deadlineMs: 3_000 })), Refused);
  assert.ok(world.clock.now() < started + 3_000);
  assert.deepEqual(
    [error.kind, error.reason, error.code, error.retryable, error.mayHaveApplied, error.retryAfterMs, error.uid],
    ["refused", "UNSERVED", "UNAVAILABLE", true, false, 100, 1n],
  );
  assert.equal(error.message, "uid 1: refused");
  const times = world.requests().map(({ at }) => at);
  assert.equal(error.attempts, times.length);
  assert.ok(times.length > 5);
  for (const [index, at] of times.entries()) {
    assert.ok(index === 0 || at - (times[index - 1] ?? 0) >= 100);
  }
});

test("a permanent refusal is not repeated", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.script("*", new Refusal("EXHAUSTED", "RESOURCE_EXHAUSTED", 0));
  const error = await fails(world.clock.run(client.next(1n)), Refused);
  assert.deepEqual(
    [error.reason, error.retryable, error.mayHaveApplied, error.attempts],
    ["EXHAUSTED", false, false, 1],
  );
});

test("a reason that this release does not know is judged by its code and its hint", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  for (const [refusal, retries] of [
    [new Refusal("OF_TOMORROW", "FAILED_PRECONDITION", 0), false],
    [new Refusal("OF_TOMORROW", "FAILED_PRECONDITION", 5), true],
    [new Refusal("OF_TOMORROW", "UNAVAILABLE", 0), true],
    [new Refusal("OF_TOMORROW", "DEADLINE_EXCEEDED", 0), true],
  ] as const) {
    world.script("*", refusal);
    const call = world.clock.run(client.next(1n));
    if (retries) {
      assert.equal((await call).lost, 0);
    } else {
      assert.equal((await fails(call, Refused)).retryable, false);
    }
  }
});

test("a refusal that is not the service's own may have applied", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.script("*", new Refusal("", "PERMISSION_DENIED", 0));
  const error = await fails(world.clock.run(client.next(1n)), Refused);
  assert.deepEqual([error.reason, error.mayHaveApplied], ["REFUSED_BY_OTHERS", true]);
  world.script("*", new Refusal("OWNER_TIMED_OUT", "DEADLINE_EXCEEDED", 10));
  assert.equal((await world.clock.run(client.next(1n))).lost, 1);
});

test("the budget of a set bounds its retries, and that of another set is not touched", async () => {
  const world = new World(2);
  const { observer, events } = recorder();
  const client = await world.open({ coalesce: false, observer });
  world.script("set1-node1:1", ...new Array(5_000).fill(new Refusal("UNSERVED")));
  world.script("set1-node2:1", ...new Array(5_000).fill(new Refusal("UNSERVED")));
  const calls = Array.from({ length: 300 }, () => fails(client.next(1n), Refused));
  await world.clock.run(Promise.all(calls));
  const { attempts, retries, budgetRefused } = client.stats();
  // 1,000 saved, and ten a second for at most five seconds; a full budget earns nothing by its calls.
  assert.ok(retries >= 1_000 && retries <= 1_050, `${retries} retries`);
  assert.equal(attempts, 300 + retries);
  assert.ok(budgetRefused > 0);
  assert.ok(events.includes("budget refused set-1"));
  world.script("set2-node1:1", new Refusal("UNSERVED"));
  world.script("set2-node2:1", new Refusal("UNSERVED"));
  assert.equal((await world.clock.run(client.next(11n))).value, 1n);
});

test("five calls earn a retry", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.exhaust();
  const shutdown = new Refusal("SHUTTING_DOWN", "UNAVAILABLE", 1);
  for (let call = 0; call < 4; call++) {
    await world.clock.run(client.next(1n));
  }
  // The fifth call is the one that is refused, and its retry needs no wait.
  world.script(NODE_1, shutdown);
  assert.equal((await world.clock.run(client.next(1n))).lost, 0);
  world.script(NODE_1, shutdown);
  assert.equal((await fails(world.clock.run(client.next(1n)), Refused)).reason, "SHUTTING_DOWN");
  assert.equal(client.stats().budgetRefused, 1);
});

test("a move is followed without backoff and budget, only if it is newer", async () => {
  const world = new World(2);
  const client = await world.open({ coalesce: false });
  world.exhaust();
  const [, two] = world.sets;
  assert.ok(two);
  const moved = (since: bigint) => new Refusal("MOVED", "UNAVAILABLE", 1, { setId: 2n, since });
  // The first claim is not newer than the route, so it needs a retry, for which there is no budget.
  world.script("set1-node1:1", moved(1n));
  assert.equal((await fails(world.clock.run(client.next(1n)), Refused)).reason, "MOVED");
  world.move(0, two);
  const before = world.clock.now();
  world.script("set1-node1:1", moved(2n));
  const number = await world.clock.run(client.next(1n));
  assert.deepEqual([number.epoch, number.lost], [2n, 0]);
  assert.equal(world.clock.now(), before);
  const last = world.requests().at(-1);
  assert.ok(last?.addr.startsWith("set2-"));
  assert.equal(last?.epoch, 2n);
});

test("moves that a call follows at once are bounded", async () => {
  const world = new World(2);
  const client = await world.open({ coalesce: false });
  world.exhaust();
  for (let hop = 0n; hop < 20n; hop++) {
    world.script("*", new Refusal("MOVED", "UNAVAILABLE", 1, { setId: 1n + (hop % 2n), since: 10n + hop }));
  }
  const before = world.requests().length;
  assert.equal((await fails(world.clock.run(client.next(1n)), Refused)).reason, "MOVED");
  assert.equal(world.requests().length - before, 9);
});

test("after a broken connection the next attempt goes to another node at once", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  for (const breaks of ["unsent", "sent"] as const) {
    const started = world.clock.now();
    world.script(NODE_1, { breaks });
    const number = await world.clock.run(client.next(1n));
    assert.equal(number.lost, breaks === "sent" ? 1 : 0);
    assert.equal(world.clock.now(), started);
    assert.deepEqual(
      world
        .requests()
        .slice(-2)
        .map(({ addr }) => addr),
      [NODE_1, NODE_2],
    );
    // The node is suspect for a second.
    await world.clock.run(client.next(1n));
    assert.equal(world.requests().at(-1)?.addr, NODE_2);
    await world.clock.advance(1_000);
  }
  // A number that was taken without a response is a gap, and counted.
  world.script(NODE_1, "lost");
  const number = await world.clock.run(client.next(1n));
  assert.deepEqual([number.value, number.prev, number.lost], [6n, 5n, 1]);
});

test("a call to nodes that cannot be reached fails with their error", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.down.add(NODE_1).add(NODE_2);
  const error = await fails(world.clock.run(client.next(1n)), Unreachable);
  assert.deepEqual([error.reason, error.retryable, error.mayHaveApplied], ["UNREACHABLE", true, false]);
  assert.ok(error.attempts > 3);
});

test("a call goes on after its attempt timed out while every other node became suspect", async () => {
  for (const coalesce of [false, true]) {
    const world = new World();
    const client = await world.open({ coalesce });
    world.hung.add(NODE_1);
    const call = client.next(1n);
    // The attempt ends at a third of the deadline, because at its start the other node could have served.
    await world.clock.advance(1_500);
    world.shared?.suspects.add(NODE_2);
    world.down.add(NODE_2);
    world.hung.delete(NODE_1);
    const { value, lost } = await world.clock.run(call);
    assert.deepEqual([value, lost], [1n, 1]);
  }
});

test("a node that hangs costs a third of the deadline, and is suspect then", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.hung.add(NODE_1);
  const started = world.clock.now();
  const number = await world.clock.run(client.next(1n));
  assert.equal(number.lost, 1);
  assert.equal(Math.round(world.clock.now() - started), 1_667);
  await world.clock.run(client.next(1n));
  assert.equal(world.requests().at(-1)?.addr, NODE_2);
  assert.equal(Math.round(world.clock.now() - started), 1_667);
  // A short deadline is not cut below a second.
  await world.clock.advance(1_000);
  const again = world.clock.now();
  const error = await fails(world.clock.run(client.next(1n, { deadlineMs: 900 })), DeadlineExceeded);
  assert.deepEqual([error.mayHaveApplied, error.attempts, error.retryable], [true, 1, true]);
  assert.equal(Math.round(world.clock.now() - again), 900);
});

test("the last node that can serve has the whole deadline", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.hung.add(NODE_1).add(NODE_2);
  const started = world.clock.now();
  const error = await fails(world.clock.run(client.next(1n)), DeadlineExceeded);
  assert.equal(Math.round(world.clock.now() - started), 5_000);
  assert.deepEqual([error.mayHaveApplied, error.attempts], [true, 2]);
});

test("a deadline that has passed sends nothing", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  const error = await fails(world.clock.run(client.next(1n, { deadlineMs: 0 })), DeadlineExceeded);
  assert.deepEqual([error.mayHaveApplied, error.attempts, world.requests().length], [false, 0, 0]);
});

test("a node that shuts down is left at once", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  const started = world.clock.now();
  world.script(NODE_1, new Refusal("SHUTTING_DOWN", "UNAVAILABLE", 100));
  await world.clock.run(client.next(1n));
  assert.deepEqual([world.requests().at(-1)?.addr, world.clock.now()], [NODE_2, started]);
});

test("an owner that another node could not reach is suspect", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.script(NODE_1, { breaks: "unsent" });
  world.script(NODE_2, new Refusal("UNSERVED", "UNAVAILABLE", 500), new Refusal("OWNER_UNREACHABLE", "UNAVAILABLE", 1));
  const started = world.clock.now();
  await world.clock.run(client.next(1n));
  await world.clock.advance(started + 1_100 - world.clock.now());
  // The owner failed more than a second ago, and the report about it is younger.
  await world.clock.run(client.next(1n));
  assert.equal(world.requests().at(-1)?.addr, NODE_2);
});

test("an invalid response is an error that may have applied", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  for (const [uid, value, prev] of [
    [1n, 5n, 5n],
    [1n, 0n, 0n],
    [1n, 1n << 63n, 0n],
  ] as const) {
    world.script("*", () => ({ value, prev, epoch: 1n }));
    const error = await fails(world.clock.run(client.next(uid)), BadAnswer);
    assert.deepEqual([error.retryable, error.mayHaveApplied], [false, true]);
  }
  world.script("*", () => ({ value: 5n, exactness: 7, epoch: 1n }));
  await fails(world.clock.run(client.current(1n)), BadAnswer);
});

test("a set that is down is named, and its section is followed to another set", async () => {
  const world = new World(2);
  const client = await world.open({ coalesce: false });
  const [one, two] = world.sets;
  assert.ok(one && two);
  for (const addr of one.addrs) {
    world.down.add(addr);
  }
  const error = await fails(world.clock.run(client.next(1n, { deadlineMs: 1_000 })), SetUnavailable);
  assert.deepEqual([error.setId, error.setName, error.mayHaveApplied, error.retryable], [1n, "set-1", false, true]);
  assert.match(error.message, /uid 1: the section is in set "set-1", of which no node can be reached/);
  // The other set is asked at most once a second.
  const asked = () => world.seen.filter(({ method }) => method === "GetRoutes").length;
  await world.clock.advance(1_000);
  const before = asked();
  for (const _ of [1, 2, 3]) {
    await fails(world.clock.run(client.next(1n, { deadlineMs: 100 })), SetUnavailable);
  }
  assert.equal(asked(), before + 1);
  assert.equal((await world.clock.run(client.next(11n))).value, 1n);
  // The other set knows where the section is.
  await world.clock.advance(2_000);
  world.move(0, two, two);
  assert.equal((await world.clock.run(client.next(1n))).epoch, 2n);
});

test("a set that a forwarding node cannot reach pays for the retries", async () => {
  const world = new World(2);
  const client = await world.open({ coalesce: false });
  world.script("set1-node1:1", ...new Array(9).fill(new Refusal("SET_UNAVAILABLE", "UNAVAILABLE", 200, { setId: 2n })));
  const error = await fails(world.clock.run(client.next(1n, { deadlineMs: 1_000 })), SetUnavailable);
  assert.deepEqual([error.setId, error.setName, error.retryAfterMs], [2n, "set-2", 200]);
  // Without retries to that set, the call fails at once; the set that forwarded has its retries.
  world.faults.clear();
  world.exhaust(2n);
  const before = world.requests().length;
  world.script("set1-node1:1", ...new Array(9).fill(new Refusal("SET_UNAVAILABLE", "UNAVAILABLE", 200, { setId: 2n })));
  await fails(world.clock.run(client.next(1n)), SetUnavailable);
  assert.equal(world.requests().length, before + 1);
});

test("a uid in no set is refused after the seeds were asked again, once a second", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  const asked = () => world.seen.filter(({ method }) => method === "GetRoutes").length;
  const before = asked();
  for (const _ of [1, 2, 3]) {
    const error = await fails(world.clock.run(client.next(1_000n)), UidOutside);
    assert.deepEqual([error.uid, error.reason, error.attempts], [1_000n, "UID_OUTSIDE", 0]);
  }
  assert.equal(asked(), before + 1);
  await world.clock.advance(1_000);
  await fails(world.clock.run(client.current(1_000n)), UidOutside);
  assert.equal(asked(), before + 2);
  assert.equal(world.requests().length, 0);
});

test("an aborted call ends at once, and states whether it may have applied", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.hung.add(NODE_1);
  const controller = new AbortController();
  const call = fails(client.next(1n, { signal: controller.signal }), SeqError);
  await world.clock.advance(10);
  controller.abort(new Error("enough"));
  const error = await call;
  assert.deepEqual(
    [error.kind, error.name, error.mayHaveApplied, (error.cause as Error).message],
    ["cancelled", "AbortError", true, "enough"],
  );
  const late = await fails(client.next(1n, { signal: controller.signal }), SeqError);
  assert.deepEqual([late.kind, late.mayHaveApplied, late.attempts], ["cancelled", false, 0]);
  assert.equal(client.stats().pending, 0);
  // A call that waits for its backoff.
  const other = new AbortController();
  world.script(NODE_2, new Refusal("UNSERVED", "UNAVAILABLE", 1_000));
  const waiting = fails(client.next(11n, { signal: other.signal }), SeqError);
  await world.clock.advance(10);
  other.abort();
  assert.equal((await waiting).mayHaveApplied, false);
});

test("close ends calls in flight, and later calls; with a drain it waits for them", async () => {
  const world = new World();
  const client = await world.open({ coalesce: false });
  world.hung.add(NODE_1);
  const call = fails(client.next(1n), SeqError);
  await world.clock.advance(10);
  await world.clock.run(client.close());
  const error = await call;
  assert.deepEqual([error.kind, error.mayHaveApplied], ["closed", true]);
  assert.equal(world.isClosed, true);
  for (const later of [client.next(1n), client.nextMany([]), client.current(1n), client.series("x")]) {
    assert.equal((await fails(later, SeqError)).kind, "closed");
  }
  await client.close();

  const draining = await new World().open();
  await draining[Symbol.asyncDispose]();
  const other = new World();
  const drained = await other.open({ coalesce: false });
  other.script("*", new Refusal("UNSERVED", "UNAVAILABLE", 200));
  const served = drained.next(1n);
  await other.clock.run(drained.close({ drainMs: 1_000 }));
  assert.equal((await served).value, 1n);
});

test("an observer sees calls, attempts and retries, and its errors have no effect", async () => {
  const world = new World();
  const { observer, events } = recorder();
  const client = await world.open({ coalesce: false, observer });
  world.script("*", new Refusal("UNSERVED"));
  await world.clock.run(client.next(1n));
  assert.deepEqual(events.slice(1), [
    "call next 1",
    `attempt ${NODE_1}`,
    "retry UNSERVED set-1",
    `attempt ${NODE_1}`,
    "end ok - lost 0",
  ]);
  const throwing = () => {
    throw new Error("of the observer");
  };
  const other = new World();
  const observed = { call: () => ({ attempt: throwing, end: throwing }), routeAdopted: throwing };
  const served = await other.open({ observer: observed });
  assert.equal((await other.clock.run(served.next(1n))).value, 1n);
});

test("an advance is sent to the owner, and a series that no one knows is refused", async () => {
  const world = new World();
  const client = await world.open();
  assert.equal(await world.clock.run(client.advance(11n, (1n << 53n) + 1n)), 1n);
  assert.deepEqual(
    world.requests().map(({ method, addr }) => [method, addr]),
    [["Advance", NODE_2]],
  );
  const error = await fails(world.clock.run(client.series("none")), Refused);
  assert.deepEqual([error.reason, error.code, error.attempts], ["UNKNOWN_SERIES", "NOT_FOUND", 0]);
});
