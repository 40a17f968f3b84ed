/** Clients with certificates and tokens, against one store and one allocator over TLS. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createSecureServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { inspect } from "node:util";
import { Connection } from "../../src/connection.js";
import { Client, SeqError } from "../../src/index.js";
import { Credentials } from "../../src/tls.js";
import { eventually, SeparateSet, seqsvr } from "../cluster.js";

let set: SeparateSet;
let token: string;

/** Paths of the authorities and of the client's certificate. */
function holder(): { ca: string; pem: string } {
  return { ca: join(set.certs, "ca.crt"), pem: join(set.certs, "client.backend.pem") };
}

before(async () => {
  const made = JSON.parse(await seqsvr("tenant", "token", "push", "-o", "json"));
  token = made.token;
  const dir = process.env.TMPDIR ?? "/tmp";
  const file = join(dir, `seqsvr-tenants-${process.pid}.toml`);
  writeFileSync(
    file,
    `[[tenant]]\nname = "push"\nuids = ["0..100"]\ntokens = ["${made.hash}"]\ncertificates = ["backend"]\n`,
  );
  set = await SeparateSet.start({ allocs: 1, secure: true, settings: `[tenants]\nfile = "${file}"\n` });
});

after(async () => {
  await set.stop();
});

test("a client with a certificate is served, from files or their contents", async () => {
  const { ca, pem } = holder();
  await using client = await set.open({ tls: { ca, pem } });
  const first = await eventually("the section is served", () => client.next(42n));
  assert.equal((await client.next(42n)).value, first.value + 1n);
  await using other = await set.open({ tls: { ca: readFileSync(ca), pem: readFileSync(pem) } });
  assert.equal((await other.next(42n)).value, first.value + 2n);
});

test("a client with a token is served within its uids", async () => {
  const lines: string[] = [];
  const log = (...line: unknown[]) => lines.push(inspect(line));
  await using client = await set.open({ tls: { ca: holder().ca }, token, log });
  await eventually("the section is served", () => client.next(43n));
  await assert.rejects(client.next(100n), (error) => {
    return error instanceof SeqError && error.kind === "refused" && /is not one of the tenant/.test(error.message);
  });
  assert.ok(lines.length > 0);
  const shown = [...lines, inspect(client, { showHidden: true, depth: 9 })].join("\n");
  assert.ok(!shown.includes(token) && !shown.includes(token.split(".")[1] ?? token));
  // With a wrong token, a client gets no routes.
  const [seeds] = set.seeds as [string];
  const wrong = Client.open({ seeds, tls: { ca: holder().ca }, token: "push.wrong", deadlineMs: 10_000 });
  await assert.rejects(wrong, { kind: "connect", retryable: false, message: /token/ });
});

test("a client without one is not served, and the cause is named", async () => {
  const { ca, pem } = holder();
  const [seed] = set.seeds as [string];
  const open = (options: object, seeds = seed) => Client.open({ seeds, deadlineMs: 3_000, ...options });
  await assert.rejects(open({}), { kind: "connect", message: /pass tls: \{ ca, pem \}/ });
  await assert.rejects(open({}, seed.replace("https://", "")), { kind: "connect" });
  await assert.rejects(open({ tls: { ca } }), { kind: "connect" });
  await assert.rejects(open({ tls: { ca, pem: ca } }), {
    message: /ca\.crt has no section -----BEGIN PRIVATE KEY-----/,
  });
  await assert.rejects(open({ tls: { ca: "nowhere", pem } }), { kind: "connect", message: /nowhere cannot be read/ });
  // Another authority, and a name that is not in the certificate.
  const other = join(set.dir, "other");
  await seqsvr("cert", "issue", "client/backend", "--set", join(set.dir, "set.toml"), "--certs", other);
  await assert.rejects(open({ tls: { ca: join(other, "ca.crt"), pem } }), { kind: "connect", message: /certificate/ });
  await assert.rejects(open({ tls: { ca, pem } }, seed.replace("127.0.0.1", "localhost")), {
    kind: "connect",
    message: /localhost/,
  });
});

test("certificates are read again for each handshake", async (t) => {
  await seqsvr("cert", "issue", "client/next", ...set.at());
  const dir = join(set.dir, "rotated");
  mkdirSync(dir);
  const files = { ca: join(dir, "ca.crt"), pem: join(dir, "client.pem") };
  copyFileSync(holder().ca, files.ca);
  copyFileSync(holder().pem, files.pem);
  const lines: string[] = [];
  const credentials = new Credentials(files, (level, message) => lines.push(`${level} ${message}`));
  // A server that notes the holder of each connection's certificate.
  const own = readFileSync(join(set.certs, "alloc.ts.a1.pem"));
  const ca = readFileSync(holder().ca);
  const server = createSecureServer({ key: own, cert: own, ca, requestCert: true, minVersion: "TLSv1.3" });
  const holders: string[] = [];
  const sessions: ServerHttp2Session[] = [];
  server.on("session", (session) => {
    holders.push(
      /client\/\w+/.exec((session.socket as TLSSocket).getPeerCertificate().subjectaltname ?? "")?.[0] ?? "",
    );
    sessions.push(session);
  });
  server.on("stream", (stream) => stream.respond({ ":status": 204 }, { endStream: true }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const connection = new Connection(`127.0.0.1:${port}`, credentials, { opened() {}, lost() {} });
  t.after(async () => {
    await connection.close();
    server.close();
  });
  const request = async () => {
    const stream = await connection.request("GET", "/", {}, {});
    stream.resume();
    await once(stream, "close");
  };
  const endSession = async () => {
    const session = sessions.at(-1);
    session?.destroy();
    await eventually("the connection is closed", () => connection.size === 0);
  };
  await request();
  await request();
  copyFileSync(join(set.certs, "client.next.pem"), files.pem);
  await request();
  assert.deepEqual(holders, ["client/backend"], "an open connection stays");
  await endSession();
  await request();
  assert.deepEqual(holders, ["client/backend", "client/next"]);
  // A file that is being written is no reason to fail.
  writeFileSync(files.pem, "-----BEGIN");
  await endSession();
  await request();
  assert.deepEqual(holders, ["client/backend", "client/next", "client/next"]);
  assert.deepEqual(lines, [
    "info the certificates were read again",
    "warn the certificates cannot be read, and the last ones are used",
  ]);
});
