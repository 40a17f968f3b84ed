// Makes the wire types in src/generated of ../../proto: `node scripts/generate.mjs`, or `--check` to compare. Needs
// protoc, of Debian's protobuf-compiler. They are committed: installing the package needs no protoc, and a review shows
// their changes. PROTO names the directory of the protos, if it is another one.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const PROTO = process.env.PROTO ?? join(HERE, "../../proto");
const OUT = join(HERE, "src/generated");
const FILES = ["ids", "keys", "route", "sequence", "series"].map((name) => `seqsvr/v1/${name}`);

/** Generates the files into a directory. */
function generate(directory) {
  const plugin = join(HERE, "node_modules/.bin/protoc-gen-es");
  const options = ["--es_opt=target=ts,import_extension=js", `--es_out=${directory}`];
  const inputs = FILES.map((file) => `${file}.proto`);
  execFileSync("protoc", [`-I${PROTO}`, `--plugin=${plugin}`, ...options, ...inputs], { stdio: "inherit" });
}

const made = mkdtempSync(join(tmpdir(), "seqsvr-generate-"));
try {
  generate(made);
  if (process.argv[2] === "--check") {
    const read = (directory, file) => readFileSync(join(directory, `${file}_pb.ts`), "utf8");
    const isStale = (file) => !existsSync(join(OUT, `${file}_pb.ts`)) || read(OUT, file) !== read(made, file);
    const stale = FILES.filter(isStale);
    if (stale.length > 0) {
      console.error(`stale against proto/: ${stale.join(", ")}; run \`npm run generate\``);
      process.exitCode = 1;
    }
  } else {
    cpSync(made, OUT, { recursive: true });
  }
} finally {
  rmSync(made, { recursive: true });
}
