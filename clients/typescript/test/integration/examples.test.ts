/** The programs in `examples`, and those in the README, against a real cluster. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { metricsObserver } from "../../examples/metrics.js";
import { Allocation, Client, SeqError } from "../../src/index.js";
import { startDev } from "../cluster.js";

const run = promisify(execFile);

async function example(name: string, ...args: string[]): Promise<string[]> {
  const path = fileURLToPath(new URL(`../../examples/${name}.js`, import.meta.url));
  const { stdout } = await run(process.execPath, [path, ...args], { timeout: 60_000 });
  return stdout.trim().split("\n");
}

test("the examples run", async (t) => {
  const dev = await startDev();
  t.after(() => dev.stop());
  const seed = `http://${dev.allocs[0]}`;

  await t.test("group", async () => {
    const lines = await example("group", seed, "7", "42");
    assert.equal(lines.length, 4);
    const numbers = lines.filter((line) => line.startsWith("42: ")).map((line) => line.split(" is ")[1]);
    assert.deepEqual(numbers.sort(), ["1", "2"]);
  });

  await t.test("numbers", async () => {
    const lines = await example("numbers", seed, "100", "101", "100", String(dev.uidEnd));
    assert.deepEqual(
      lines.map((line) => line.split(": ")[0]),
      ["100", "101", "100", String(dev.uidEnd)],
    );
    assert.equal(lines[1], "101: 1 after 0");
    assert.match(lines[3] ?? "", /is outside every known set/);
  });

  await t.test("metrics", async () => {
    const values = new Map<string, number>();
    const add = (name: string) => (value: number, attributes?: Record<string, string>) => {
      assert.ok(attributes !== undefined && !("uid" in attributes));
      values.set(name, (values.get(name) ?? 0) + value);
    };
    const observer = metricsObserver({
      createCounter: (name) => ({ add: add(name) }),
      createHistogram: (name) => ({ record: add(name) }),
    });
    await using client = await Client.open({ seeds: seed, observer });
    await client.next(5n);
    await client.nextMany([5n, 6n]);
    assert.deepEqual([values.get("seqsvr.client.calls"), values.get("seqsvr.client.attempts")], [2, 2]);
    assert.ok((values.get("seqsvr.client.duration") ?? 0) > 0);
  });

  await t.test("the README", async () => {
    const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
    const blocks = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
    assert.ok(blocks.length >= 2);
    await using client = await Client.open({ seeds: seed });
    // Each block is a program, or goes on with the client of the first one.
    for (const block of blocks.filter((code) => !code.includes("https://"))) {
      const body = block.replace(/^import .*$/gm, "").replace(/^await using client = .*$/m, "");
      const lines: unknown[][] = [];
      const log = { log: (...line: unknown[]) => lines.push(line), error: (...line: unknown[]) => lines.push(line) };
      const names = ["client", "Client", "SeqError", "Allocation", "console"];
      const AsyncFunction = Object.getPrototypeOf(async () => undefined).constructor;
      await new AsyncFunction(...names, body)(client, Client, SeqError, Allocation, log);
    }
  });
});
