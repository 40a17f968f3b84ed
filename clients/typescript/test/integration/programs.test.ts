/**
 * Programs on a real cluster: the examples, those in the README, the package as `npm pack` makes it, and the driver of the
 * conformance suite.
 */

import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { metricsObserver } from "../../examples/metrics.js";
import { Allocation, Client, SeqError } from "../../src/index.js";
import { type Dev, eventually, seqsvr, startDev } from "../cluster.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

let dev: Dev;

before(async () => {
  dev = await startDev();
});

after(async () => {
  await dev.stop();
});

async function example(name: string, ...args: string[]): Promise<string[]> {
  const path = fileURLToPath(new URL(`../../examples/${name}.js`, import.meta.url));
  const { stdout } = await run(process.execPath, [path, ...args], { timeout: 60_000 });
  return stdout.trim().split("\n");
}

test("the examples run", async (t) => {
  const seed = dev.allocs[0] ?? "";

  await t.test("group", async () => {
    const lines = await example("group", seed, "800007", "800042");
    assert.equal(lines.length, 4);
    const numbers = lines.filter((line) => line.startsWith("800042: ")).map((line) => line.split(" is ")[1]);
    assert.deepEqual(numbers.sort(), ["1", "2"]);
  });

  await t.test("numbers", async () => {
    const lines = await example("numbers", seed, "800100", "800101", "800100", String(dev.uidEnd));
    assert.deepEqual(
      lines.map((line) => line.split(": ")[0]),
      ["800100", "800101", "800100", String(dev.uidEnd)],
    );
    assert.equal(lines[1], "800101: 1 after 0");
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
    await client.next(800_005n);
    await client.nextMany([800_005n, 800_006n]);
    assert.equal(values.get("seqsvr.client.calls"), 2);
    assert.ok((values.get("seqsvr.client.attempts") ?? 0) >= 2);
    assert.ok((values.get("seqsvr.client.duration") ?? 0) > 0);
  });

  await t.test("the README", async () => {
    const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
    const blocks = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code);
    assert.ok(blocks.length >= 2);
    await using client = await Client.open({ seeds: seed });
    await seqsvr("keyspace", "create", "main", "--yes", "--addr", seed);
    await eventually("the keyspace is served", () => client.keyspace("main").current("conv:8f3a"));
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

const USE = `
async function main() {
  const client = await Client.open({ seeds: process.argv[2] });
  const number = await client.next(42n);
  console.log(JSON.stringify([typeof number.value, number instanceof Allocation, typeof SeqError]));
  await client.close();
}
main();
`;

test("the package works as CommonJS and as ES module", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "seqsvr-pack-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  // The package was built by the script that runs the tests, and `prepack` would build it again.
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", dir];
  const [packed] = JSON.parse((await run("npm", args, { cwd: ROOT })).stdout);
  const names: string[] = packed.files.map(({ path }: { path: string }) => path);
  const others = names.filter((name) => !name.startsWith("dist/")).sort();
  assert.deepEqual(others, ["CHANGELOG.md", "LICENSE", "README.md", "package.json"]);
  for (const kind of ["esm", "cjs"]) {
    for (const file of ["index.js", "index.d.ts", "package.json", "generated/seqsvr/v1/sequence_pb.js"]) {
      assert.ok(names.includes(`dist/${kind}/${file}`), `dist/${kind}/${file}`);
    }
  }
  assert.deepEqual(
    names.filter((name) => /test|fake|\.map$/.test(name)),
    [],
  );

  writeFileSync(join(dir, "package.json"), '{"name":"user","private":true}\n');
  const install = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--silent", join(dir, packed.filename)];
  await run("npm", install, { cwd: dir });
  const imports = "{ Client, Allocation, SeqError }";
  writeFileSync(join(dir, "use.cjs"), `const ${imports} = require("@seqsvr/client");${USE}`);
  writeFileSync(join(dir, "use.mjs"), `import ${imports} from "@seqsvr/client";${USE}`);
  for (const file of ["use.cjs", "use.mjs"]) {
    const { stdout } = await run(process.execPath, [file, dev.allocs[0] ?? ""], { cwd: dir, timeout: 60_000 });
    assert.deepEqual(JSON.parse(stdout), ["bigint", true, "function"], file);
  }

  // The tests of docs/testing.md, with the package as a program has it.
  const page = readFileSync(join(process.env.DOCS ?? "", "testing.md"), "utf8");
  const recipe = /```js\n(.*?)```/s.exec(page)?.[1] ?? "";
  assert.ok(recipe.startsWith("// chat.test.mjs"));
  writeFileSync(join(dir, "chat.test.mjs"), recipe);
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const tested = await run(process.execPath, ["--test", "chat.test.mjs"], { cwd: dir, env, timeout: 60_000 });
  assert.match(tested.stdout, /^# pass 1$/m);

  // A number as uid is an error of types, for users of both kinds of modules.
  const typed = `import { Client, type Allocation } from "@seqsvr/client";
export async function use(client: Client): Promise<Allocation> {
  // @ts-expect-error
  await client.next(42);
  return await client.next(42n, { deadlineMs: 5, signal: AbortSignal.timeout(5) });
}
`;
  writeFileSync(join(dir, "typed.mts"), typed);
  writeFileSync(join(dir, "typed.cts"), typed);
  const types = ["--types", "node", "--typeRoots", join(ROOT, "node_modules/@types")];
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", ...types];
  const lib = ["--lib", "es2023,esnext.disposable"];
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  const checked = await run(tsc, [...options, ...lib, "typed.mts", "typed.cts"], { cwd: dir }).catch((error) => error);
  assert.equal(checked.stdout, "");
});

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
  const driver = new Driver();
  t.after(() => driver.process.kill());
  const hello = await driver.line();
  assert.deepEqual([hello.hello, hello.sdk], [1, "typescript"]);
  assert.deepEqual((await driver.call({ op: "next", uid: "700001" })).error.kind, "closed");
  const seeds = dev.allocs;
  assert.deepEqual(await driver.call({ op: "open", seeds, deadline_ms: 5_000 }), { ok: {} });
  const number = await driver.call({ op: "next", uid: "700042", count: 2 });
  const { epoch } = number.ok;
  assert.deepEqual(number, { ok: { first: "1", value: "2", prev: "0", epoch, count: 2, lost: 0 } });
  const many = await driver.call({
    op: "next_many",
    uids: ["700042", String(dev.uidEnd), "700042"],
    counts: [1, 1, 3],
  });
  assert.equal(many.ok.items[0].ok.value, "3");
  assert.equal(many.ok.items[1].error.kind, "uid_outside");
  assert.deepEqual([many.ok.items[2].ok.first, many.ok.items[2].ok.value], ["4", "6"]);
  assert.deepEqual(await driver.call({ op: "current", uid: "700042" }), { ok: { value: "6", exact: true, epoch } });
  assert.equal((await driver.call({ op: "current_many", uids: ["700042", "700043"] })).ok.items[1].ok.value, "0");
  assert.deepEqual(await driver.call({ op: "advance", uid: "700042", to: "9007" }), { ok: { epoch } });
  const past = (await driver.call({ op: "advance", uid: "700042", to: "1" })).error;
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
  assert.equal((await driver.call({ op: "next", uid: "700042", count: 0 })).error.kind, "count");
  assert.deepEqual(await driver.call({ op: "cancel", target: "none" }), { ok: {} });
  assert.deepEqual(await driver.call({ op: "reload" }), { ok: {} });
  assert.equal((await driver.call({ op: "fork", uid: "700001" })).error.kind, "unsupported");

  const burst = driver.send({
    op: "burst",
    client: "c",
    uids: ["700007", "700008"],
    calls: 200,
    concurrency: 16,
    seed: "1",
  });
  const values = new Map<string, Set<string>>();
  for (let call = 0; call < 200; call++) {
    const { id, call: done } = await driver.line();
    assert.equal(id, burst);
    assert.ok(BigInt(done.end_ns) > BigInt(done.start_ns));
    values.set(done.uid, (values.get(done.uid) ?? new Set()).add(done.ok.value));
  }
  assert.deepEqual(await driver.line(), { id: burst, ok: { done: 200, failed: 0 } });
  assert.equal(
    [...values.values()].reduce((sum, { size }) => sum + size, 0),
    200,
  );
  const { ok: stats } = await driver.call({ op: "stats" });
  assert.ok(stats.calls >= 200 && stats.attempts >= 200 && stats.pending === 0 && stats.connections >= 1);
  assert.deepEqual(await driver.call({ op: "close" }), { ok: {} });
  assert.deepEqual(await driver.call({ op: "close" }), { ok: {} });
  assert.equal((await driver.call({ op: "next", uid: "700042" })).error.kind, "closed");
  assert.equal((await driver.call({ op: "open", client: "d", seeds: ["127.0.0.1:1"] })).error.kind, "connect");
  driver.process.stdin.end();
  const [code] = await once(driver.process, "exit");
  assert.equal(code, 0);
});
