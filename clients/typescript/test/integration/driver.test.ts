/** The driver of the conformance suite, through its pipes, against a real cluster. */

import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startDev } from "../cluster.js";

// biome-ignore lint/suspicious/noExplicitAny: responses are compared with literals
type Line = Record<string, any>;

/** A driver, and the lines that it writes. */
class Driver {
  readonly process: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  #nextId = 0;

  constructor() {
    const path = fileURLToPath(new URL("../../conformance/driver.js", import.meta.url));
    this.process = spawn(process.execPath, [path]);
    this.#lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  async line(): Promise<Line> {
    const { value, done } = await this.#lines.next();
    assert.ok(!done, "the driver ended");
    return JSON.parse(value);
  }

  send(request: Line): string {
    const id = String(this.#nextId++);
    this.process.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
    return id;
  }

  async call(request: Line): Promise<Line> {
    const id = this.send({ client: "c", ...request });
    const { id: of, ...response } = await this.line();
    assert.equal(of, id);
    return response;
  }
}

test("the driver makes the calls of the protocol", async (t) => {
  const dev = await startDev();
  t.after(() => dev.stop());
  const driver = new Driver();
  t.after(() => driver.process.kill());
  const hello = await driver.line();
  assert.deepEqual([hello.hello, hello.sdk], [1, "typescript"]);
  assert.deepEqual((await driver.call({ op: "next", uid: "1" })).error.kind, "closed");
  const seeds = dev.allocs.map((addr) => `http://${addr}`);
  assert.deepEqual(await driver.call({ op: "open", seeds, deadline_ms: 5_000 }), { ok: {} });
  const number = await driver.call({ op: "next", uid: "42", count: 2 });
  const { epoch } = number.ok;
  assert.deepEqual(number, { ok: { first: "1", value: "2", prev: "0", epoch, count: 2, lost: 0 } });
  const many = await driver.call({ op: "next_many", uids: ["42", String(dev.uidEnd), "42"], counts: [1, 1, 3] });
  assert.equal(many.ok.items[0].ok.value, "3");
  assert.equal(many.ok.items[1].error.kind, "uid_outside");
  assert.deepEqual([many.ok.items[2].ok.first, many.ok.items[2].ok.value], ["4", "6"]);
  assert.deepEqual(await driver.call({ op: "current", uid: "42" }), { ok: { value: "6", exact: true, epoch } });
  assert.equal((await driver.call({ op: "current_many", uids: ["42", "43"] })).ok.items[1].ok.value, "0");
  assert.deepEqual(await driver.call({ op: "advance", uid: "42", to: "9007" }), { ok: { epoch } });
  const past = (await driver.call({ op: "advance", uid: "42", to: "1" })).error;
  const { message: _, ...fields } = past;
  assert.deepEqual(fields, {
    kind: "refused",
    reason: "ALREADY_PAST",
    code: "FAILED_PRECONDITION",
    retryable: false,
    may_have_applied: false,
    attempts: 1,
  });
  assert.equal((await driver.call({ op: "next", uid: String(2n ** 64n - 1n) })).error.kind, "uid_outside");
  assert.equal((await driver.call({ op: "next", uid: "42", count: 0 })).error.kind, "count");
  assert.deepEqual(await driver.call({ op: "cancel", target: "none" }), { ok: {} });
  assert.deepEqual(await driver.call({ op: "reload" }), { ok: {} });
  assert.equal((await driver.call({ op: "fork", uid: "1" })).error.kind, "unsupported");

  const burst = driver.send({ op: "burst", client: "c", uids: ["7", "8"], calls: 200, concurrency: 16, seed: "1" });
  const values = new Map<string, Set<string>>();
  for (let call = 0; call < 200; call++) {
    const { id, call: done } = await driver.line();
    assert.equal(id, burst);
    assert.ok(BigInt(done.end_ns) > BigInt(done.start_ns));
    values.set(done.uid, (values.get(done.uid) ?? new Set()).add(done.ok.value));
  }
  assert.deepEqual(await driver.line(), { id: burst, ok: { done: 200 } });
  assert.equal(
    [...values.values()].reduce((sum, { size }) => sum + size, 0),
    200,
  );
  const { ok: stats } = await driver.call({ op: "stats" });
  assert.ok(stats.calls >= 200 && stats.attempts >= 200 && stats.pending === 0 && stats.connections >= 1);
  assert.deepEqual(await driver.call({ op: "close" }), { ok: {} });
  assert.deepEqual(await driver.call({ op: "close" }), { ok: {} });
  assert.equal((await driver.call({ op: "next", uid: "42" })).error.kind, "closed");
  assert.equal((await driver.call({ op: "open", client: "d", seeds: ["127.0.0.1:1"] })).error.kind, "connect");
  driver.process.stdin.end();
  const [code] = await once(driver.process, "exit");
  assert.equal(code, 0);
});
