/**
 * Driver of the conformance suite, protocol 1: makes the calls of a runner with this SDK.
 *
 * JSON, one object a line: requests on stdin, responses on stdout in the order of completion. 64-bit numbers are
 * strings of decimal digits. The driver ends when stdin does.
 */

import { createInterface } from "node:readline";
import {
  Allocation,
  type CallOptions,
  Client,
  type Current,
  type Key,
  type Keyspace,
  SeqError,
  VERSION,
} from "../src/index.js";

type Json = Record<string, unknown>;

interface Request {
  id: string;
  op: string;
  client: string;
  uid: string;
  uids: string[];
  /** The keyspace of keys; of a burst, the keyspace of the keys of its uids. */
  keyspace?: string;
  key: JsonKey;
  keys: JsonKey[];
  to: string;
  count?: number;
  counts?: number[];
  deadline_ms?: number;
  seeds: string[];
  coalesce?: boolean;
  tls?: { ca: string; cert?: string };
  token?: string;
  calls: number;
  quiet?: boolean;
  concurrency: number;
  seed: string;
  target: string;
  drain_ms?: number;
}

/** A key: a text, or its bytes in hex. */
type JsonKey = string | { hex: string };

/** Error of a request that this driver cannot execute. */
class DriverError extends Error {
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.kind = kind;
  }
}

const clients = new Map<string, Promise<Client>>();
/** Requests in progress, which `cancel` ends. */
const running = new Map<string, AbortController>();

const OPS: Record<string, (request: Request, signal: AbortSignal) => Promise<Json>> = {
  async open({ client, seeds, deadline_ms, coalesce, tls, token }) {
    const opening = Client.open({
      seeds,
      log: (level, message, fields) => console.error(level, message, JSON.stringify(fields)),
      ...(deadline_ms === undefined ? {} : { deadlineMs: deadline_ms }),
      ...(coalesce === undefined ? {} : { coalesce }),
      ...(token === undefined ? {} : { token }),
      ...(tls === undefined ? {} : { tls: tls.cert === undefined ? { ca: tls.ca } : { ca: tls.ca, pem: tls.cert } }),
    });
    clients.set(client, opening);
    try {
      await opening;
    } catch (error) {
      clients.delete(client);
      throw error;
    }
    return {};
  },

  async next(request, signal) {
    const client = await opened(request);
    return allocation(await client.nextN(BigInt(request.uid), request.count ?? 1, options(request, signal)));
  },

  async next_many(request, signal) {
    const client = await opened(request);
    const results = await client.nextMany(request.uids.map(BigInt), request.counts, options(request, signal));
    return { items: results.map((result) => item(result)) };
  },

  async current(request, signal) {
    const client = await opened(request);
    return { ...(await client.current(BigInt(request.uid), options(request, signal))).toJSON() };
  },

  async current_many(request, signal) {
    const client = await opened(request);
    const results = await client.currentMany(request.uids.map(BigInt), options(request, signal));
    return { items: results.map((result) => item(result)) };
  },

  async advance(request, signal) {
    const client = await opened(request);
    const epoch = await client.advance(BigInt(request.uid), BigInt(request.to), options(request, signal));
    return { epoch: String(epoch) };
  },

  async next_key(request, signal) {
    const keyspace = await openedKeyspace(request);
    return allocation(await keyspace.nextN(keyOf(request.key), request.count ?? 1, options(request, signal)));
  },

  async next_keys(request, signal) {
    const keyspace = await openedKeyspace(request);
    const counts = request.keys.map(() => request.count ?? 1);
    const results = await keyspace.nextMany(request.keys.map(keyOf), counts, options(request, signal));
    return { items: results.map((result) => item(result)) };
  },

  async current_key(request, signal) {
    const keyspace = await openedKeyspace(request);
    return { ...(await keyspace.current(keyOf(request.key), options(request, signal))).toJSON() };
  },

  async current_keys(request, signal) {
    const keyspace = await openedKeyspace(request);
    const results = await keyspace.currentMany(request.keys.map(keyOf), options(request, signal));
    return { items: results.map((result) => item(result)) };
  },

  async advance_key(request, signal) {
    const keyspace = await openedKeyspace(request);
    const epoch = await keyspace.advance(keyOf(request.key), BigInt(request.to), options(request, signal));
    return { epoch: String(epoch) };
  },

  /** Makes calls from several callers, each of which waits for its response before its next call. */
  async burst(request, signal) {
    const client = await opened(request);
    const keyspace = request.keyspace === undefined ? undefined : client.keyspace(request.keyspace);
    const next = (uid: string) => {
      const limits = options(request, signal);
      return keyspace === undefined ? client.next(BigInt(uid), limits) : keyspace.next(`key:${uid}`, limits);
    };
    const draw = generator(BigInt(request.seed));
    let left = request.calls;
    let failed = 0;
    const caller = async () => {
      while (left > 0) {
        left -= 1;
        const uid = request.uids[Number(draw() % BigInt(request.uids.length))] ?? "0";
        const start_ns = String(process.hrtime.bigint());
        const result = await next(uid).then(
          (taken) => (request.quiet ? {} : item(taken)),
          (error) => {
            failed += 1;
            return item(error);
          },
        );
        if (request.quiet) continue;
        write({ id: request.id, call: { uid, start_ns, end_ns: String(process.hrtime.bigint()), ...result } });
      }
    };
    await Promise.all(Array.from({ length: request.concurrency }, caller));
    return { done: request.calls, failed };
  },

  async cancel({ target }) {
    running.get(target)?.abort();
    return {};
  },

  /** Does nothing: each handshake reads the certificates again. */
  async reload() {
    return {};
  },

  async stats(request) {
    const { calls, attempts, retries, budgetRefused, connections, pending, routeAdoptions } = (
      await opened(request)
    ).stats();
    const tasks = process.getActiveResourcesInfo().length;
    const names = { budget_refused: budgetRefused, route_adoptions: routeAdoptions };
    return { calls, attempts, retries, connections, pending, tasks, ...names };
  },

  async close({ client, drain_ms }) {
    const opening = clients.get(client);
    await (await opening)?.close({ drainMs: drain_ms ?? 0 });
    return {};
  },
};

async function opened({ client }: Request): Promise<Client> {
  const found = clients.get(client);
  if (found === undefined) {
    throw new DriverError("closed", `there is no client ${client}`);
  }
  return await found;
}

async function openedKeyspace(request: Request): Promise<Keyspace> {
  return (await opened(request)).keyspace(request.keyspace ?? "");
}

function keyOf(key: JsonKey): Key {
  return typeof key === "string" ? key : Buffer.from(key.hex, "hex");
}

function options({ deadline_ms }: Request, signal: AbortSignal): CallOptions {
  return deadline_ms === undefined ? { signal } : { signal, deadlineMs: deadline_ms };
}

function item(result: unknown): Json {
  if (result instanceof Allocation) {
    return { ok: allocation(result) };
  }
  return result instanceof Error ? { error: failure(result) } : { ok: (result as Current).toJSON() };
}

function allocation(result: Allocation): Json {
  return result.toJSON();
}

function failure(error: Error): Json {
  if (!(error instanceof SeqError)) {
    const kind = error instanceof DriverError ? error.kind : "driver";
    return { kind, retryable: false, may_have_applied: false, message: `${error.name}: ${error.message}` };
  }
  const { kind, retryable, mayHaveApplied, attempts, message, retryAfterMs } = error;
  const fields: Json = { kind, retryable, may_have_applied: mayHaveApplied, attempts, message };
  if (error.kind === "refused" || error.kind === "set_unavailable") {
    fields.reason = error.reason === "REFUSED_BY_OTHERS" ? "" : error.reason;
    fields.code = "code" in error ? error.code : "";
    if (retryAfterMs !== undefined) {
      fields.retry_after_ms = Math.round(retryAfterMs);
    }
  }
  return fields;
}

/** Returns a generator of numbers: SplitMix64. */
function generator(seed: bigint): () => bigint {
  let state = seed;
  return () => {
    state = BigInt.asUintN(64, state + 0x9e37_79b9_7f4a_7c15n);
    let mixed = BigInt.asUintN(64, (state ^ (state >> 30n)) * 0xbf58_476d_1ce4_e5b9n);
    mixed = BigInt.asUintN(64, (mixed ^ (mixed >> 27n)) * 0x94d0_49bb_1331_11ebn);
    return mixed ^ (mixed >> 31n);
  };
}

function write(line: Json): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function respond(request: Request): Promise<void> {
  const controller = new AbortController();
  running.set(request.id, controller);
  let response: Json;
  try {
    const run = Object.hasOwn(OPS, request.op) ? OPS[request.op] : undefined;
    if (run === undefined) {
      throw new DriverError("unsupported", `there is no op ${request.op}`);
    }
    response = { ok: await run(request, controller.signal) };
  } catch (error) {
    response = { error: failure(error instanceof Error ? error : new Error(String(error))) };
  }
  running.delete(request.id);
  write({ id: request.id, ...response });
}

const features = ["stream", "advance", "tls", "token", "reload", "cancel", "stats", "keys"];
write({ hello: 1, sdk: "typescript", version: VERSION, features });
const requests: Promise<void>[] = [];
for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
  if (line !== "") {
    requests.push(respond(JSON.parse(line)));
  }
}
await Promise.all(requests);
for (const client of clients.values()) {
  await (await client.catch(() => undefined))?.close();
}
