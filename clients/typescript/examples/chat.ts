/**
 * A chat server on the inboxes of inbox.ts: `node chat.js --seed http://127.0.0.1:7100 --database chat.db`.
 *
 * POST /messages {"conversation", "members", "sender_key", "text"} sends a message, once however often it is repeated
 * with its sender_key, and responds with each member's number of it. GET /inbox/{uid}?after=N responds with the entries
 * above N, in order, and with the N of the next request. Uids and numbers are strings of decimal digits, because numbers
 * of JSON lose digits above 2^53. Whoever can reach the server can read and write all inboxes: put it behind what knows
 * the users.
 */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import Database from "better-sqlite3";
import { Client, SeqError } from "../src/index.js";
import { BadMembers, GRACE_SECONDS, Inbox, MAX_INTEGER } from "./inbox.js";

/** Most bytes of a request's body: a message to all members that one can have, and then some. */
const MAX_BODY = 64 * 1024;

/** Most bytes of a body that are read before its refusal: a client reads a response more surely after it has written. */
const MAX_DISCARDED = 16 * MAX_BODY;

/** Time in which a request has to arrive. */
const REQUEST_MS = 10_000;

/** Time that requests in progress have when the server stops. */
const STOP_MS = 10_000;

const USAGE = "chat.js [--listen HOST:PORT] [--database PATH] [--seed URL]... [--grace SECONDS] [--deadline SECONDS]";

/** A refusal of a request, with what its sender can do. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly next: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

/** Handles a request; returns the body of its response. */
async function handle(inbox: Inbox, request: IncomingMessage): Promise<unknown> {
  const [path = "", query = ""] = (request.url ?? "").split("?", 2);
  if (path === "/messages") {
    requireMethod(request, "POST");
    return await postMessage(inbox, await readBody(request));
  }
  const uid = /^\/inbox\/([^/]*)$/.exec(path)?.[1];
  if (uid !== undefined) {
    requireMethod(request, "GET");
    return getInbox(inbox, uid, new URLSearchParams(query));
  }
  throw new Refusal(404, `the path ${shown(path)} is unknown`, "use POST /messages or GET /inbox/{uid}?after=N");
}

/** Sends a message. */
async function postMessage(inbox: Inbox, body: unknown): Promise<unknown> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new Refusal(
      400,
      `the body is ${shown(body)}, not an object`,
      `send {"conversation": "…", "members": ["7"], …}`,
    );
  }
  const fields = body as Record<string, unknown>;
  const { members } = fields;
  if (!Array.isArray(members)) {
    throw new Refusal(
      400,
      `members is ${shown(members)}, not an array`,
      `send the uids as strings: "members": ["7", "42"]`,
    );
  }
  const uids = members.map((uid, index) => integer(`members[${index}]`, uid));
  const conversation = text("conversation", fields.conversation);
  const numbers = await inbox.send(
    conversation,
    uids,
    text("sender_key", fields.sender_key),
    text("text", fields.text),
  );
  return { numbers: Object.fromEntries([...numbers].map(([uid, seq]) => [String(uid), String(seq)])) };
}

/** Returns the next entries of an inbox, and the number after which the following ones come. */
function getInbox(inbox: Inbox, uid: string, query: URLSearchParams): unknown {
  for (const name of query.keys()) {
    if (name !== "after") {
      throw new Refusal(
        400,
        `the parameter ${shown(name)} is unknown`,
        "use after, the last number that the device has",
      );
    }
  }
  const after = integer("after", query.get("after") ?? "0");
  const entries = inbox.sync(integer("uid", uid), after);
  return {
    entries: entries.map(({ seq, conversation, text }) => ({ seq: String(seq), conversation, text })),
    after: String(entries.at(-1)?.seq ?? after),
  };
}

/** Reads the body of a request, which is JSON. */
async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  // The connection stays open for the response.
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length;
    if (bytes > MAX_DISCARDED) {
      break;
    }
    if (bytes <= MAX_BODY) {
      chunks.push(chunk);
    }
  }
  if (bytes > MAX_BODY) {
    throw new Refusal(413, `the body is larger than ${MAX_BODY} bytes`, "send a shorter text, or fewer members");
  }
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks)));
  } catch (error) {
    throw new Refusal(400, `the body is not JSON: ${(error as Error).message}`, "send one object of JSON, in UTF-8");
  }
}

function requireMethod(request: IncomingMessage, method: string): void {
  if (request.method !== method) {
    const message = `${request.method} is no method of ${shown(request.url)}`;
    throw new Refusal(405, message, `use ${method}`, { allow: method });
  }
}

/** Returns a field that is a uid or a number. */
function integer(name: string, value: unknown): bigint {
  const number = typeof value === "string" && /^(0|[1-9]\d{0,18})$/.test(value) ? BigInt(value) : undefined;
  if (number === undefined || number > MAX_INTEGER) {
    const next = `send a string of decimal digits, "0" to "${MAX_INTEGER}"`;
    throw new Refusal(400, `${name} is ${shown(value)}, not a number in a string`, next);
  }
  return number;
}

/** Returns a field that is a text. */
function text(name: string, value: unknown): string {
  if (typeof value !== "string" || value === "") {
    throw new Refusal(400, `${name} is ${shown(value)}, not a text`, "send a string with at least one character");
  }
  return value;
}

/** Returns the beginning of a value, for a message. */
function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? "missing";
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
}

/** Returns the refusal that tells a client of an error. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) {
    return error;
  }
  if (error instanceof BadMembers) {
    return new Refusal(400, error.message, "correct members; no member has the message");
  }
  const again = "send the same request again: a message is sent once for its sender_key";
  if (error instanceof SeqError && error.retryable) {
    const seconds = Math.ceil((error.retryAfterMs ?? 1_000) / 1_000);
    return new Refusal(503, `no number was allocated: ${error.message}`, again, { "retry-after": String(seconds) });
  }
  if (error instanceof SeqError && error.kind === "uid_outside") {
    return new Refusal(422, `no number was allocated: ${error.message}`, "leave it out; no member has the message");
  }
  if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY")) {
    return new Refusal(503, `the database is in use: ${error.message}`, again, { "retry-after": "1" });
  }
  console.error(error);
  return new Refusal(500, "the server failed", "look at the standard error of the server for the cause");
}

/** Responds to a request. */
async function respond(inbox: Inbox, request: IncomingMessage, response: ServerResponse, isStopping: () => boolean) {
  let [status, body, headers]: [number, unknown, Record<string, string>] = [200, undefined, {}];
  try {
    body = await handle(inbox, request);
  } catch (error) {
    if (request.errored !== null) {
      // The client is gone, or was too slow, and nobody reads a response.
      return;
    }
    const refusal = refusalOf(error);
    [status, body, headers] = [refusal.status, { error: refusal.message, next: refusal.next }, refusal.headers];
  }
  // A connection whose request was not read to its end has no next request.
  const connection = isStopping() || !request.complete ? { connection: "close" } : {};
  response.writeHead(status, { "content-type": "application/json", ...connection, ...headers });
  response.end(`${JSON.stringify(body)}\n`);
}

/** Options of the program. */
interface Options {
  host: string;
  port: number;
  database: string;
  seeds: string[];
  grace: number;
  deadlineMs: number;
}

/** Returns the options of the command line. Throws an error that names a wrong one. */
function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      listen: { type: "string", default: "127.0.0.1:8080" },
      database: { type: "string", default: ":memory:" },
      seed: { type: "string", multiple: true, default: ["http://127.0.0.1:7100"] },
      grace: { type: "string", default: String(GRACE_SECONDS) },
      // Above the time for which users wait while a node is down, so that a send is slow then and does not fail.
      deadline: { type: "string", default: "10" },
    },
  });
  const [, host = "", port = ""] =
    /^(?:\[([\da-fA-F:.]+)\]|([^:]+)):(\d{1,5})$/.exec(values.listen)?.filter(Boolean) ?? [];
  if (port === "" || Number(port) > 65_535) {
    throw new Error(`--listen ${shown(values.listen)} is not of the form HOST:PORT`);
  }
  const seconds = (name: string, value: string): number => {
    if (!/^\d+(\.\d+)?$/.test(value)) {
      throw new Error(`--${name} ${shown(value)} is not a number of seconds, such as 0.5`);
    }
    return Number(value);
  };
  return {
    host,
    port: Number(port),
    database: values.database,
    seeds: values.seed,
    grace: seconds("grace", values.grace),
    deadlineMs: seconds("deadline", values.deadline) * 1_000,
  };
}

/** Runs the server until SIGTERM or SIGINT. */
async function serve({ host, port, database, seeds, grace, deadlineMs }: Options): Promise<void> {
  await using client = await Client.open({ seeds, deadlineMs });
  const inbox = openInbox(client, database, grace);
  let isStopping = false;
  const server = createServer({ requestTimeout: REQUEST_MS }, (request, response) => {
    void respond(inbox, request, response, () => isStopping);
  });
  server.listen(port, host);
  await once(server, "listening");
  const { address, family, port: bound } = server.address() as AddressInfo;
  console.log(`the inboxes are at http://${family === "IPv6" ? `[${address}]` : address}:${bound}`);
  await Promise.race([once(process, "SIGTERM"), once(process, "SIGINT")]);
  // Requests in progress are finished, new connections refused.
  isStopping = true;
  const cut = setTimeout(() => server.closeAllConnections(), STOP_MS);
  const closed = once(server, "close");
  server.close();
  await closed;
  clearTimeout(cut);
  inbox.close();
}

/** Opens the database. Throws an error that names it. */
function openInbox(client: Client, database: string, grace: number): Inbox {
  try {
    return new Inbox(client, database, grace);
  } catch (error) {
    const message = `the database ${database} cannot be opened: ${(error as Error).message}`;
    throw new Error(`${message}; name a file in an existing directory with --database`, { cause: error });
  }
}

/** Returns the options, or ends the program with the name of a wrong one. */
function optionsOrExit(): Options {
  try {
    return readOptions();
  } catch (error) {
    console.error(`chat.js: ${(error as Error).message}\nusage: ${USAGE}`);
    process.exit(2);
  }
}

/** Returns what can be done about an error at the start, or undefined if its message says so. */
function nextStep(error: Error & { syscall?: string }): string | undefined {
  if (error instanceof SeqError) {
    return "name a node that runs with --seed; `seqsvr dev` starts some, of which one is at the default";
  }
  return error.syscall === undefined ? undefined : "name another address with --listen, or end the other program";
}

const options = optionsOrExit();
try {
  await serve(options);
} catch (error) {
  const next = nextStep(error as Error);
  console.error(`chat.js: ${(error as Error).message}${next === undefined ? "" : `\nnext: ${next}`}`);
  process.exitCode = 1;
}
