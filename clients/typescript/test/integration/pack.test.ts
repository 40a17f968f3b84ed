/** The package, as `npm pack` makes it, in an empty folder: as CommonJS, as ES module, and its types. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { startDev } from "../cluster.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

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
  const dev = await startDev();
  t.after(() => dev.stop());
  const names3 = "{ Client, Allocation, SeqError }";
  writeFileSync(join(dir, "use.cjs"), `const ${names3} = require("@seqsvr/client");${USE}`);
  writeFileSync(join(dir, "use.mjs"), `import ${names3} from "@seqsvr/client";${USE}`);
  for (const file of ["use.cjs", "use.mjs"]) {
    const { stdout } = await run(process.execPath, [file, dev.allocs[0] ?? ""], { cwd: dir, timeout: 60_000 });
    assert.deepEqual(JSON.parse(stdout), ["bigint", true, "function"], file);
  }

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
