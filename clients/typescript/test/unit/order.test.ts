import assert from "node:assert/strict";
import { test } from "node:test";
import { findViolations } from "../order.js";

function call(start: number, end: number, first: bigint, value: bigint, prev: bigint) {
  return { start, end, first, value, prev, lost: 0 };
}

test("the check of the order finds duplicates, decreases and broken chains", () => {
  const sound = [call(0, 9, 4n, 6n, 3n), call(1, 3, 1n, 1n, 0n), call(4, 5, 2n, 3n, 1n), call(10, 11, 9n, 9n, 8n)];
  assert.deepEqual(findViolations(1n, sound), []);
  assert.deepEqual(findViolations(1n, [...sound, call(12, 13, 101n, 101n, 0n)]), []);
  // The same number twice, a number below one of a call that ended before, a `prev` below the number before.
  assert.notDeepEqual(findViolations(1n, [...sound, call(12, 13, 9n, 9n, 8n)]), []);
  assert.notDeepEqual(findViolations(1n, [...sound, call(12, 13, 8n, 8n, 7n)]), []);
  assert.notDeepEqual(findViolations(1n, [...sound, call(12, 13, 10n, 10n, 8n)]), []);
  assert.notDeepEqual(findViolations(1n, [...sound, call(12, 13, 10n, 10n, 10n)]), []);
});
