// Compiles the tests, and runs them with node's own runner: `node scripts/test.mjs`, or `node scripts/test.mjs unit`
// for those that need no server. The others take the binary in $SEQSVR, or the one that cargo has built.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const kinds = process.argv.length > 2 ? process.argv.slice(2) : ["unit", "integration"];
const binary = process.env.SEQSVR ?? join(HERE, "../../target/debug/seqsvr");
if (kinds.includes("integration") && !existsSync(binary)) {
  console.error(`no binary at ${binary}: \`cargo build\`, or name one in $SEQSVR`);
  process.exit(1);
}

const { BUILD } = await import("./compile.mjs");
const files = kinds.flatMap((kind) => {
  const directory = join(BUILD, "test", kind);
  return readdirSync(directory)
    .filter((name) => name.endsWith(".test.js"))
    .map((name) => join(directory, name));
});
// Tests with servers wait more than they compute.
const options = ["--enable-source-maps", "--test", "--test-concurrency=3", "--test-timeout=120000"];
const docs = process.env.DOCS ?? join(HERE, "../../docs");
const env = { ...process.env, SEQSVR: binary, DOCS: docs };
process.exit(spawnSync(process.execPath, [...options, ...files], { stdio: "inherit", env }).status ?? 1);
