/** Connections and requests on them, against servers in this process that misbehave. */

import assert from "node:assert/strict";
import { once } from "node:events";
import {
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import * as net from "node:net";
import { type TestContext, test } from "node:test";
import { create, toBinary } from "@bufbuild/protobuf";
import { Connections } from "../../src/connections.js";
import { Failure } from "../../src/failure.js";
import { NextResponseSchema, SequenceService } from "../../src/generated/seqsvr/v1/sequence_pb.js";
import { eventually } from "../cluster.js";

const ACCEPTED = { ":status": 200, "content-type": "application/grpc+proto" };

/** Listens on a free port; returns the address. */
async function listen(t: TestContext, server: net.Server | Http2Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.close();
  });
  return `127.0.0.1:${(server.address() as net.AddressInfo).port}`;
}

function connections(t: TestContext): Connections {
  const made = new Connections({ credentials: undefined, token: undefined, observer: {}, log: () => undefined });
  t.after(() => made.close());
  return made;
}

/** Sends `Next`; returns the value, or the failure. */
async function send(pool: Connections, addr: string, timeoutMs = 30_000): Promise<bigint | Failure> {
  const { signal } = new AbortController();
  const request = { uid: 1n, count: 1 };
  return await pool.unary(addr, SequenceService.method.next, request, timeoutMs, signal).then(
    ({ value }) => value,
    (error: Failure) => error,
  );
}

async function failure(pool: Connections, addr: string, timeoutMs?: number): Promise<Failure> {
  const result = await send(pool, addr, timeoutMs);
  assert.ok(result instanceof Failure, `${result}`);
  return result;
}

/** Responds as a node does. */
function respond(stream: ServerHttp2Stream, value = 7n): void {
  const message = toBinary(NextResponseSchema, create(NextResponseSchema, { value, epoch: 1n }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.respond(ACCEPTED, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(Buffer.concat([head, message]));
}

/** A server of HTTP/2 whose streams a test handles. */
async function serve(t: TestContext, onStream: (stream: ServerHttp2Stream, session: ServerHttp2Session) => void) {
  const server = createServer();
  const sessions: ServerHttp2Session[] = [];
  const heads: IncomingHttpHeaders[] = [];
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => undefined);
  });
  server.on("stream", (stream, head) => {
    heads.push(head);
    stream.on("error", () => undefined);
    stream.resume();
    stream.on("end", () => onStream(stream, stream.session as ServerHttp2Session));
  });
  const addr = await listen(t, server);
  t.after(() => {
    for (const session of sessions) {
      session.destroy();
    }
  });
  return { addr, sessions, heads };
}

test("a request carries its timeout, and no compression is offered", async (t) => {
  const { addr, sessions, heads } = await serve(t, (stream) => respond(stream));
  const pool = connections(t);
  assert.equal(await send(pool, addr), 7n);
  assert.equal(await send(pool, addr, 1_234.5), 7n);
  const [{ "grpc-timeout": timeout, "seqsvr-client": client, "grpc-accept-encoding": encoding } = {}, second] = heads;
  assert.deepEqual([timeout, second?.["grpc-timeout"]], ["30000m", "1235m"]);
  assert.match(String(client), /^typescript\//);
  assert.equal(encoding, undefined);
  assert.equal(sessions.length, 1);
});

test("numbers that no double has are exact", async (t) => {
  const values = [(1n << 53n) + 1n, (1n << 62n) + 1n, (1n << 63n) - 1n, (1n << 64n) - 1n];
  const left = [...values];
  const { addr } = await serve(t, (stream) => respond(stream, left.shift()));
  const pool = connections(t);
  for (const value of values) {
    assert.equal(await send(pool, addr), value);
  }
});

test("a refused connection was never sent", async (t) => {
  const server = net.createServer();
  const addr = await listen(t, server);
  server.close();
  const { kind, neverSent, message } = await failure(connections(t), addr);
  assert.deepEqual([kind, neverSent], ["connection", true]);
  assert.match(message, /ECONNREFUSED/);
});

test("a stream that the node rejects was never sent, and a broken one may have been", async (t) => {
  let handle: (stream: ServerHttp2Stream, session: ServerHttp2Session) => void = () => undefined;
  const { addr } = await serve(t, (stream, session) => handle(stream, session));
  const pool = connections(t);
  const cases: [string, typeof handle, string, boolean][] = [
    ["REFUSED_STREAM", (stream) => stream.close(7), "connection", true],
    ["CANCEL", (stream) => stream.close(8), "connection", false],
    ["INTERNAL_ERROR", (stream) => stream.close(2), "connection", false],
    ["the end of the connection", (_, session) => session.destroy(), "connection", false],
    ["GOAWAY with an error", (_, session) => session.goaway(2), "connection", false],
    [
      "a truncated message",
      (stream) => {
        stream.respond(ACCEPTED, { waitForTrailers: true });
        stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
        stream.end(Buffer.from([0, 0, 0, 0, 9, 1]));
      },
      "invalid",
      false,
    ],
    [
      "no message of this type",
      (stream) => {
        stream.respond(ACCEPTED, { waitForTrailers: true });
        stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
        stream.end(Buffer.from([0, 0, 0, 0, 2, 0x08, 0xff]));
      },
      "invalid",
      false,
    ],
    ["a status of HTTP", (stream) => stream.respond({ ":status": 404 }, { endStream: true }), "invalid", false],
    ["an overloaded gateway", (stream) => stream.respond({ ":status": 503 }, { endStream: true }), "connection", false],
  ];
  for (const [name, fault, kind, neverSent] of cases) {
    handle = fault;
    const failed = await failure(pool, addr);
    assert.deepEqual([failed.kind, failed.neverSent], [kind, neverSent], `${name}: ${failed.message}`);
    handle = (stream) => respond(stream);
    assert.equal(await send(pool, addr), 7n, `after ${name}`);
  }
});

test("an orderly end lets requests complete, and later ones use a new connection", async (t) => {
  let waiting: ServerHttp2Stream | undefined;
  const { addr, sessions } = await serve(t, (stream, session) => {
    if (waiting === undefined) {
      waiting = stream;
      session.close();
    } else {
      respond(stream, 8n);
    }
  });
  const pool = connections(t);
  const first = send(pool, addr);
  const stream = await eventually("the request arrives", () => waiting);
  await eventually("the client has the GOAWAY", async () => (await send(pool, addr)) === 8n && sessions.length === 2);
  respond(stream, 7n);
  assert.equal(await first, 7n);
  await eventually("the first connection is closed", () => pool.connections === 1);
});

test("an idle connection ends after a GOAWAY", async (t) => {
  const { addr, sessions } = await serve(t, (stream) => respond(stream));
  const pool = connections(t);
  await send(pool, addr);
  assert.equal(pool.connections, 1);
  sessions[0]?.goaway();
  await eventually("the connection is closed", () => pool.connections === 0);
});

test("a node that does not respond to pings loses its connection, and its requests", async (t) => {
  const server = net.createServer((socket) => {
    socket.on("error", () => undefined);
    // The settings of a server, and nothing else.
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    socket.resume();
  });
  const addr = await listen(t, server);
  const failed = await failure(connections(t), addr, 60_000);
  assert.deepEqual([failed.kind, failed.neverSent], ["connection", false]);
  assert.match(failed.message, /no response to a ping/);
});

test("a request ends with its time, and with its signal", async (t) => {
  const ended: number[] = [];
  const { addr } = await serve(t, (stream) => stream.on("close", () => ended.push(stream.rstCode ?? 0)));
  const pool = connections(t);
  const late = await failure(pool, addr, 50);
  assert.deepEqual([late.kind, late.isFromServer], ["timeout", false]);
  const controller = new AbortController();
  const { signal } = controller;
  const call = pool
    .unary(addr, SequenceService.method.next, { uid: 1n }, 30_000, signal)
    .catch((error: Failure) => error);
  await eventually("the first stream ended", () => ended.length === 1);
  controller.abort();
  const aborted = await call;
  assert.ok(aborted instanceof Failure && aborted.kind === "aborted");
});

test("a port that speaks another protocol fails the request", async (t) => {
  const server = net.createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  const addr = await listen(t, server);
  const failed = await failure(connections(t), addr);
  assert.notEqual(failed.kind, "refusal");
});

test("close ends requests, and waits for the sockets", async (t) => {
  let requests = 0;
  const { addr, sessions } = await serve(t, () => {
    requests += 1;
  });
  const pool = connections(t);
  const call = failure(pool, addr);
  await eventually("the request arrives", () => requests === 1);
  const [session] = sessions;
  const closed = once(session as ServerHttp2Session, "close").catch(() => undefined);
  await pool.close();
  assert.equal((await call).kind, "connection");
  assert.equal(pool.connections, 0);
  await closed;
  assert.deepEqual([(await failure(pool, addr)).neverSent], [true]);
});
