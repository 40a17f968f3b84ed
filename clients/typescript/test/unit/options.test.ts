import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inspect } from "node:util";
import { Client, REASONS, VERSION } from "../../src/index.js";
import { addresses, checkToken, deadlineOf } from "../../src/options.js";
import { World } from "../fake_world.js";

test("seeds are addresses, each once", () => {
  const seeds = ["http://h:1", "h:1/", "[::1]:7100", "node-2.example.org:65535"];
  assert.deepEqual(
    addresses(seeds, false),
    ["h:1", "[::1]:7100", "node-2.example.org:65535"].map((seed) => seed),
  );
  assert.deepEqual(addresses("https://h:1", true), ["h:1"]);
  for (const wrong of ["", "localhost", "h:0", "h:65536", "redis://h:1", "http://h:1/path", ":1", "a@h:1", "h h:1"]) {
    assert.throws(() => addresses([wrong], false), {
      kind: "connect",
      message: /is not of the form http:\/\/host:port/,
    });
  }
  assert.throws(() => addresses("https://h:1", false), { kind: "connect", message: /pass tls: \{ ca, pem \}/ });
  assert.throws(() => addresses([], false), { kind: "connect", message: /name at least one node/ });
  assert.throws(() => addresses([7 as unknown as string], false), TypeError);
});

test("a token has a form, needs TLS, and is in no text", async () => {
  checkToken("im.secret", true);
  for (const wrong of ["", "im", "im.se cret", "im.s\u00e4", "im.x\n"]) {
    assert.throws(() => checkToken(wrong, true), { kind: "connect" });
  }
  await assert.rejects(Client.open({ seeds: "h:1", token: "im.secret" }), (error) => {
    return error instanceof Error && error.message.includes("needs TLS") && !inspect(error).includes("secret");
  });
});

test("a deadline is a number, and at most a day", () => {
  assert.equal(deadlineOf(undefined), 5_000);
  assert.equal(deadlineOf({ deadlineMs: 1 }), 1);
  assert.equal(deadlineOf({ deadlineMs: Number.POSITIVE_INFINITY }), 86_400_000);
  assert.throws(() => deadlineOf({ deadlineMs: "5" as unknown as number }), TypeError);
  assert.throws(() => deadlineOf({ deadlineMs: Number.NaN }), TypeError);
});

test("a number in place of a bigint is an error of types, and a TypeError at run time", async () => {
  const world = new World();
  const client = await world.open();
  // @ts-expect-error a uid is a bigint
  await assert.rejects(client.next(42), TypeError);
  // @ts-expect-error
  await assert.rejects(client.nextN(42, 1), TypeError);
  // @ts-expect-error
  await assert.rejects(client.nextMany([42n, 42]), TypeError);
  // @ts-expect-error
  await assert.rejects(client.current("42"), TypeError);
  // @ts-expect-error
  await assert.rejects(client.currentMany([undefined]), TypeError);
  // @ts-expect-error
  await assert.rejects(client.advance(42n, 7), TypeError);
  // @ts-expect-error a count is a number
  await assert.rejects(client.nextN(42n, 1n), TypeError);
  assert.equal(world.requests().length, 0);
});

test("input out of range is refused before anything is sent", async () => {
  const world = new World();
  const client = await world.open();
  for (const count of [0, -1, 1.5, 1_000_001]) {
    await assert.rejects(client.nextN(1n, count), { kind: "count", reason: "COUNT_OUT_OF_RANGE" });
    await assert.rejects(client.nextMany([1n, 2n], [1, count]), { kind: "count" });
  }
  for (const uid of [-1n, 1n << 64n]) {
    await assert.rejects(client.next(uid), { kind: "uid_outside", retryable: false, mayHaveApplied: false });
  }
  await assert.rejects(client.nextMany([1n, 2n], [1]), RangeError);
  await assert.rejects(client.advance(1n, -1n), RangeError);
  await assert.rejects(client.advance(1n, (1n << 62n) + 1n), RangeError);
  assert.equal(world.requests().length, 0);
});

test("the version is that of the package", () => {
  const file = new URL("../../../package.json", import.meta.url);
  assert.equal(JSON.parse(readFileSync(file, "utf8")).version, VERSION);
});

test("the table of reasons has those that decide", () => {
  assert.deepEqual(REASONS.OWNER_TIMED_OUT.outcome, "unknown");
  assert.deepEqual(REASONS.UNSERVED, {
    codes: ["UNAVAILABLE"],
    retryable: true,
    retryAfterMs: 20,
    outcome: "unchanged",
  });
});
