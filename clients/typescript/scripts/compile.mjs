// Compiles sources, tests and examples into build: `node scripts/compile.mjs`, and then `node build/examples/chat.js`.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));

/** Directory of what is compiled. */
export const BUILD = join(HERE, "build");

rmSync(BUILD, { recursive: true, force: true });
execFileSync(join(HERE, "node_modules/.bin/tsc"), ["-p", HERE], { stdio: "inherit" });
writeFileSync(join(BUILD, "package.json"), '{"type":"module"}\n');
