import assert from "node:assert/strict";
import { test } from "node:test";
import { Budget, backoff, Suspects } from "../../src/budget.js";
import { FakeClock } from "../fake_clock.js";

function spendAll(budget: Budget): number {
  let spent = 0;
  while (budget.spend()) {
    spent += 1;
  }
  return spent;
}

test("a full budget is exhausted, and calls earn a fifth", () => {
  const budget = new Budget(new FakeClock());
  assert.equal(spendAll(budget), 1_000);
  assert.equal(spendAll(budget), 0);
  for (let call = 0; call < 51; call++) {
    budget.earn();
  }
  assert.equal(spendAll(budget), 10);
  for (let call = 0; call < 10_000; call++) {
    budget.earn();
  }
  assert.equal(spendAll(budget), 1_000);
});

test("time earns for an idle client", async () => {
  const clock = new FakeClock();
  const budget = new Budget(clock);
  spendAll(budget);
  await clock.advance(550);
  assert.equal(spendAll(budget), 5);
  await clock.advance(3_600_000);
  assert.equal(spendAll(budget), 1_000);
});

test("a backoff doubles, is jittered, and is never shorter than requested", () => {
  assert.deepEqual(
    [1, 2, 3, 7, 90].map((made) => backoff(made, undefined, 0)),
    [10, 20, 40, 500, 500],
  );
  assert.equal(backoff(2, undefined, 1), 10);
  assert.equal(backoff(1, 100, 0), 100);
  assert.equal(backoff(1, 100, 1), 150);
  assert.equal(backoff(20, 100, 0), 500);
});

test("an address is suspect for a second", async () => {
  const clock = new FakeClock();
  const suspects = new Suspects(clock);
  suspects.add("a:1");
  assert.deepEqual([suspects.has("a:1"), suspects.has("b:1")], [true, false]);
  await clock.advance(999);
  assert.equal(suspects.has("a:1"), true);
  await clock.advance(1);
  assert.equal(suspects.has("a:1"), false);
});
