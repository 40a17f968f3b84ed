// Builds the package twice, as CommonJS and as ES module, each with its types.
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(HERE, "node_modules/.bin/tsc");

rmSync(join(HERE, "dist"), { recursive: true, force: true });
for (const [kind, type] of Object.entries({ esm: "module", cjs: "commonjs" })) {
  execFileSync(TSC, ["-p", join(HERE, `tsconfig.${kind}.json`)], { stdio: "inherit" });
  writeFileSync(join(HERE, "dist", kind, "package.json"), `${JSON.stringify({ type })}\n`);
}
