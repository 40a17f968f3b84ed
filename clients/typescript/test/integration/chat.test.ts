/** The chat server of examples/chat.ts, end to end. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { Inbox } from "../../examples/inbox.js";
import { Allocation } from "../../src/index.js";
import { Chat, database, PROGRAM } from "../chat.js";
import { type Dev, eventually, startDev } from "../cluster.js";

let dev: Dev;
let seed: string[];

before(async () => {
  dev = await startDev();
  seed = ["--seed", dev.allocs[0] ?? ""];
});

after(async () => {
  await dev.stop();
});

const MESSAGE = { conversation: "c", members: ["760000"], sender_key: "key", text: "hello" };

test("messages are sent and read", async (t) => {
  const chat = await Chat.start(t, seed);
  const first = { conversation: "holiday", members: ["760001", "760002"], sender_key: "1", text: "who is coming?" };
  const sent = await chat.post(first);
  assert.deepEqual([sent.status, sent.body], [200, { numbers: { 760001: "1", 760002: "1" } }]);
  assert.deepEqual((await chat.post(first)).body, sent.body, "it is sent once");
  const second = { conversation: "other\n", members: ["760001"], sender_key: "1", text: '"I" 👋' };
  assert.deepEqual((await chat.post(second)).body, { numbers: { 760001: "2" } });
  const entries = [
    { seq: "1", conversation: "holiday", text: "who is coming?" },
    { seq: "2", conversation: "other\n", text: '"I" 👋' },
  ];
  const read = await chat.get("/inbox/760001?after=0");
  assert.deepEqual(read.body, { entries, after: "2" });
  assert.equal(read.headers.get("connection"), "keep-alive");
  assert.deepEqual((await chat.get("/inbox/760001")).body, { entries, after: "2" });
  assert.deepEqual((await chat.get("/inbox/760001?after=1")).body, { entries: entries.slice(1), after: "2" });
  assert.deepEqual((await chat.get("/inbox/760001?after=2")).body, { entries: [], after: "2" });
  assert.deepEqual((await chat.get("/inbox/760002")).body, { entries: entries.slice(0, 1), after: "1" });
});

test("numbers and uids that no double has stay exact", async (t) => {
  const path = database(t);
  const [uid, seq] = [(1n << 63n) - 3n, (1n << 53n) + 1n];
  const inbox = new Inbox({ nextMany: async () => [new Allocation(seq, seq - 1n, 1n, 1, 0)] }, path);
  await inbox.send("c", [uid], "key", "hello");
  inbox.close();
  const chat = await Chat.start(t, ["--database", path, "--grace", "0", ...seed]);
  const entries = [{ seq: "9007199254740993", conversation: "c", text: "hello" }];
  const read = await chat.get("/inbox/9223372036854775805?after=9007199254740992");
  assert.deepEqual(read.body, { entries, after: "9007199254740993" });
  const last = await chat.get("/inbox/9223372036854775805?after=9007199254740993");
  assert.deepEqual(last.body, { entries: [], after: "9007199254740993" });
  const again = await chat.post({ ...MESSAGE, members: [String(uid)] });
  assert.deepEqual(again.body, { numbers: { "9223372036854775805": "9007199254740993" } });
});

test("bad input is refused by name, and nothing is sent", async (t) => {
  const chat = await Chat.start(t, seed);
  const post = (body: string | Uint8Array) => chat.request("/messages", { method: "POST", body });
  const message = (fields: object) => chat.post({ ...MESSAGE, ...fields });
  const many = Array.from({ length: 1_001 }, (_, index) => String(index));
  const cases: [ReturnType<typeof post>, number, RegExp, RegExp][] = [
    [chat.get("/inbox/seven?after=0"), 400, /^uid is "seven", not a number in a string$/, /decimal digits/],
    [chat.get("/inbox/-7"), 400, /^uid is "-7"/, /decimal digits/],
    [chat.get("/inbox/9223372036854775808"), 400, /^uid is "9223372036854775808"/, /to "9223372036854775807"/],
    [chat.get("/inbox/7?after=1.5"), 400, /^after is "1.5"/, /decimal digits/],
    [chat.get("/inbox/7?after="), 400, /^after is ""/, /decimal digits/],
    [chat.get("/inbox/7?aftr=5"), 400, /^the parameter "aftr" is unknown/, /use after/],
    [chat.get("/inbox"), 404, /^the path "\/inbox" is unknown/, /use POST \/messages or GET/],
    [chat.get("/messages"), 405, /^GET is no method of "\/messages"/, /use POST/],
    [chat.request("/inbox/7", { method: "DELETE" }), 405, /^DELETE is no method of "\/inbox\/7"/, /use GET/],
    [post('{"conversation": "c",'), 400, /^the body is not JSON: .*position/, /one object of JSON/],
    [post(""), 400, /^the body is not JSON/, /one object of JSON/],
    [post(Uint8Array.of(0x22, 0xff, 0x22)), 400, /^the body is not JSON: .*utf-8/, /in UTF-8/],
    [post("[]"), 400, /^the body is \[\], not an object/, /send {"conversation"/],
    [post("null"), 400, /^the body is null, not an object/, /send {"conversation"/],
    [message({ members: [] }), 400, /^members is empty/, /correct members/],
    [message({ members: undefined }), 400, /^members is missing/, /"members": \["7", "42"\]/],
    [message({ members: "7" }), 400, /^members is "7", not an array/, /"members": \["7", "42"\]/],
    [message({ members: ["760000", 7] }), 400, /^members\[1\] is 7, not a number in a string/, /decimal digits/],
    [message({ members: ["760000", "007"] }), 400, /^members\[1\] is "007"/, /decimal digits/],
    [message({ members: ["760000", "760000"] }), 400, /uid 760000 twice/, /correct members/],
    [message({ members: many }), 400, /has 1001 uids, above 1000/, /correct members/],
    [
      message({ members: ["760000", String(dev.uidEnd)] }),
      422,
      new RegExp(`uid ${dev.uidEnd} is outside`),
      /leave it out/,
    ],
    [message({ sender_key: undefined }), 400, /^sender_key is missing, not a text/, /send a string/],
    [message({ conversation: 5 }), 400, /^conversation is 5, not a text/, /send a string/],
    [message({ text: "" }), 400, /^text is "", not a text/, /send a string/],
    [message({ text: "x".repeat(64 * 1024) }), 413, /^the body is larger than 65536 bytes/, /shorter text/],
  ];
  for (const [response, status, error, next] of cases) {
    const { body, ...reply } = await response;
    assert.deepEqual([reply.status, Object.keys(body)], [status, ["error", "next"]], JSON.stringify(body));
    assert.match(body.error, error);
    assert.match(body.next, next);
  }
  assert.equal((await chat.get("/messages")).headers.get("allow"), "POST");
  assert.deepEqual((await chat.get("/inbox/760000")).body, { entries: [], after: "0" });
  // The largest body that is read.
  const rest = JSON.stringify({ ...MESSAGE, text: "" }).length;
  assert.equal((await message({ text: "x".repeat(64 * 1024 - rest) })).status, 200);
});

test("a body without end is not read on", async (t) => {
  const chat = await Chat.start(t, seed);
  const { hostname, port } = new URL(chat.url);
  const socket = connect(Number(port), hostname);
  // A reset instead of an orderly end is as good.
  socket.on("error", () => undefined);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.write("POST /messages HTTP/1.1\r\nhost: chat\r\ncontent-length: 1000000000\r\n\r\n");
  const write = () => {
    while (!socket.destroyed && socket.write("x".repeat(64 * 1024))) {}
  };
  socket.on("drain", write).resume();
  write();
  await closed;
  assert.ok(socket.bytesWritten < 100_000_000, `${socket.bytesWritten} bytes were taken`);
  assert.equal((await chat.get("/inbox/7")).status, 200, "the server goes on");
});

/** Begins a POST, whose headers the server has when the result is there. */
async function begin(chat: Chat, body: string, agent: Agent): Promise<ClientRequest> {
  const headers = { expect: "100-continue", "content-length": Buffer.byteLength(body) };
  const posted = request(`${chat.url}/messages`, { method: "POST", headers, agent });
  posted.flushHeaders();
  await once(posted, "continue");
  return posted;
}

test("SIGTERM finishes the requests in progress", async (t) => {
  const options = ["--database", database(t), ...seed];
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const chat = await Chat.start(t, options);
  const body = JSON.stringify({ ...MESSAGE, members: ["760010"] });
  const posted = await begin(chat, body, agent);
  chat.terminate();
  await eventually("new connections are refused", async () => {
    return await chat.get("/inbox/7").then(
      () => false,
      ({ cause }) => cause?.code === "ECONNREFUSED",
    );
  });
  posted.end(body);
  const [response] = (await once(posted, "response")) as [IncomingMessage];
  const sent = JSON.parse((await response.toArray()).join(""));
  assert.deepEqual([response.statusCode, sent], [200, { numbers: { 760010: "1" } }]);
  assert.equal(response.headers.connection, "close");
  assert.equal(await chat.ended(), 0);

  const again = await Chat.start(t, options);
  const entries = [{ seq: "1", conversation: "c", text: "hello" }];
  assert.deepEqual((await again.get("/inbox/760010?after=0")).body, { entries, after: "1" });
  again.terminate();
  assert.equal(await again.ended(), 0, "a connection that is kept alive does not delay the end");
});

test("wrong options are named", async () => {
  const run = async (...options: string[]) => {
    const args = [PROGRAM, "--listen", "127.0.0.1:0", ...options];
    return await promisify(execFile)(process.execPath, args, { timeout: 60_000 }).then(
      () => assert.fail(`${options} was accepted`),
      ({ code, stderr }: { code: number; stderr: string }) => ({ code, stderr }),
    );
  };
  const { port } = new URL(dev.http);
  for (const [options, code, named] of [
    [["--grace", "soon"], 2, /--grace "soon" is not a number of seconds.*\n *usage: /],
    [["--deadline", "-1"], 2, /--deadline/],
    [["--listen", "8080"], 2, /--listen "8080" is not of the form HOST:PORT/],
    [["--listen", "127.0.0.1:65536"], 2, /--listen "127.0.0.1:65536"/],
    [["--fast"], 2, /--fast/],
    [["--seed", "nowhere"], 1, /"nowhere" is not of the form http:\/\/host:port\n.*--seed/],
    [["--database", "/nowhere/db", ...seed], 1, /the database \/nowhere\/db cannot be opened: .*--database/],
    [["--listen", `127.0.0.1:${port}`, ...seed], 1, new RegExp(`EADDRINUSE.*${port}\\nnext: .*--listen`)],
  ] satisfies [string[], number, RegExp][]) {
    const ended = await run(...options);
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, named);
  }
});

test("the README shows what the server responds", async (t) => {
  const chat = await Chat.start(t, seed);
  const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
  const block = /```console\n(.*?)```/s.exec(readme)?.[1] ?? "";
  // Users that other tests do not have.
  const fresh = (text: string) => text.replaceAll(/(?<=[/"])(7|42)(?=["?])/g, (uid) => `7601${uid.padStart(2, "0")}`);
  const [, ...commands] = block.split(/^\$ /m).filter(Boolean);
  assert.equal(commands.length, 3);
  for (const command of commands) {
    const [line = "", response] = command.split("\n");
    const [, path = "", body] = /^curl -s '?http:\/\/127\.0\.0\.1:8080([^' ]+)'?(?: -d '(.*)')?$/.exec(line) ?? [];
    const options = body === undefined ? {} : { method: "POST", body: fresh(body) };
    const { body: shown } = await chat.request(fresh(path), options);
    assert.equal(JSON.stringify(shown), fresh(response ?? ""), line);
  }
});
