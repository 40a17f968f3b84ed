import assert from "node:assert/strict";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Failure } from "../../src/failure.js";
import { NextStreamResponseSchema } from "../../src/generated/seqsvr/v1/sequence_pb.js";
import { Entry, type Outcome, Queue } from "../../src/queue.js";

const BOUNDS = { calls: 4, message: 3, inFlight: 2 };

/** Returns an entry that pushes its outcomes to a list. */
function entry(uid: bigint, outcomes: string[], fields = {}): Entry {
  const item = { uid, count: 1, epoch: 0n, routeVersion: undefined, until: 100, ...fields };
  return new Entry(item, (outcome: Outcome) => {
    outcomes.push(`${uid} ${outcome.kind}${"sent" in outcome ? ` ${outcome.sent}` : ""}`);
  });
}

function response(tag: bigint, values: bigint[]) {
  const lists = { values, prevs: values.map((value) => value - 1n), epochs: values };
  return create(NextStreamResponseSchema, { tag, outcome: { case: "response", value: lists } });
}

test("a message has all pending calls up to the limit, and few messages are in flight", () => {
  const queue = new Queue(BOUNDS);
  const outcomes: string[] = [];
  for (let uid = 1n; uid <= 8n; uid++) {
    queue.push(entry(uid, outcomes));
  }
  assert.deepEqual(queue.next(0)?.request?.uids, [1n, 2n, 3n]);
  assert.deepEqual(queue.next(0)?.request?.uids, [4n, 5n, 6n]);
  assert.deepEqual([queue.isReady, queue.next(0), queue.isEmpty], [false, undefined, false]);
  assert.equal(queue.respond(response(1n, [7n, 8n, 9n])), true);
  assert.deepEqual(outcomes, ["4 numbers", "5 numbers", "6 numbers"]);
  assert.equal(queue.respond(response(1n, [7n, 8n, 9n])), false);
  const last = queue.next(0);
  assert.deepEqual([last?.tag, last?.request?.uids, queue.isEmpty], [2n, [7n, 8n], true]);
});

test("a message has the oldest version, the latest deadline, and lists only where they say something", () => {
  const queue = new Queue(BOUNDS);
  queue.push(entry(1n, [], { routeVersion: 5n, until: 50 }));
  queue.push(entry(2n, [], { routeVersion: 3n, until: 80.5 }));
  const { request, timeoutMs, nowOnly } = queue.next(10) ?? assert.fail();
  assert.deepEqual([request?.routeVersion, timeoutMs, nowOnly], [3n, 71, true]);
  assert.deepEqual([request?.counts, request?.knownEpochs], [[], []]);
  queue.push(entry(3n, [], { count: 2, until: 99_999 }));
  queue.push(entry(4n, [], { epoch: 7n }));
  const other = queue.next(10) ?? assert.fail();
  assert.deepEqual([other.request?.counts, other.request?.knownEpochs, other.timeoutMs], [[2, 1], [0n, 7n], 10_000]);
  assert.equal(other.request?.routeVersion, undefined);
});

test("each call has one outcome when a stream ends", () => {
  const failure = Failure.connection("cut");
  for (const [end, responds, expected] of [
    [{ kind: "broke", failure }, true, ["2 failed true"]],
    [{ kind: "broke", failure }, false, ["1 failed true", "2 failed true", "3 failed false"]],
    [{ kind: "closed", failure }, true, ["2 failed false", "3 failed false"]],
    [{ kind: "neverSent", failure }, false, ["1 failed false", "2 failed false", "3 failed false"]],
    [{ kind: "unsupported" }, false, ["1 unsupported", "2 unsupported", "3 unsupported"]],
  ] as const) {
    const queue = new Queue({ ...BOUNDS, message: 1 });
    const outcomes: string[] = [];
    for (let uid = 1n; uid <= 3n; uid++) {
      queue.push(entry(uid, outcomes));
    }
    queue.next(0);
    queue.next(0);
    if (responds) {
      queue.respond(response(0n, [1n]));
      outcomes.length = 0;
    }
    queue.end(end);
    assert.deepEqual(outcomes, [...expected], end.kind);
    // After a response and a break, the pending call stays for the next stream.
    assert.equal(queue.isEmpty, end.kind !== "broke" || !responds);
    queue.end(end);
  }
});

test("a call that was completed is not sent, and does not fill the queue", () => {
  const queue = new Queue(BOUNDS);
  const outcomes: string[] = [];
  const aborted: Outcome = { kind: "aborted", sent: false };
  for (let uid = 1n; uid <= 1_000n; uid++) {
    const each = entry(uid, outcomes);
    queue.push(each);
    if (uid !== 1_000n) {
      each.complete(aborted);
    }
  }
  assert.equal(outcomes.length, 999);
  assert.deepEqual(queue.next(0)?.request?.uids, [1_000n]);
  const only = entry(1n, outcomes);
  queue.push(only);
  only.complete(aborted);
  only.complete(aborted);
  assert.equal(outcomes.length, 1_000);
  assert.equal(queue.next(0), undefined);
});

test("a response that violates the protocol concerns its calls alone", () => {
  const queue = new Queue({ ...BOUNDS, message: 2 });
  const outcomes: string[] = [];
  for (let uid = 1n; uid <= 4n; uid++) {
    queue.push(entry(uid, outcomes));
  }
  queue.next(0);
  queue.next(0);
  queue.respond(response(0n, [1n]));
  queue.respond(create(NextStreamResponseSchema, { tag: 1n }));
  assert.deepEqual(outcomes, ["1 invalid", "2 invalid", "3 invalid", "4 invalid"]);
});
