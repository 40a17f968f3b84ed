/**
 * The queue of calls to one node: pending calls, and the messages in flight with their calls. It has no I/O.
 *
 * Invariant: an enqueued call gets exactly one outcome. Until then it is either pending, or in a single message. A call
 * that was in a message never becomes pending again, so a call is sent at most once.
 */

import { create } from "@bufbuild/protobuf";
import type { Failure } from "./failure.js";
import type { Routes } from "./generated/seqsvr/v1/route_pb.js";
import {
  type ItemError,
  NextManyRequestSchema,
  type NextManyResponse,
  type NextStreamRequest,
  NextStreamRequestSchema,
  type NextStreamResponse,
} from "./generated/seqsvr/v1/sequence_pb.js";

/** Limits of a queue. */
export interface Bounds {
  /** Limit on the calls that are pending or in flight. Further calls wait. */
  calls: number;
  /** Limit on the calls in a message. */
  message: number;
  /** Limit on the messages in flight. */
  inFlight: number;
}

/** The limits of clients, which are those of the other SDKs. A node accepts twice as many messages of a stream. */
export const DEFAULT_BOUNDS: Bounds = { calls: 65_536, message: 1_024, inFlight: 256 };

/** Longest timeout of a message. */
const MAX_TIMEOUT_MS = 10_000;

/** A call for numbers of one uid. */
export interface Item {
  uid: bigint;
  count: number;
  /** Newest known epoch of the uid's section. */
  epoch: bigint;
  routeVersion: bigint | undefined;
  /** Time at which the attempt ends. */
  until: number;
}

/** The outcome of a call. */
export type Outcome =
  | { kind: "numbers"; value: bigint; prev: bigint; epoch: bigint; lost: number; routes: Routes | undefined }
  | { kind: "refused"; item: ItemError; routes: Routes | undefined }
  /** The stream ended before it delivered a response; `sent` is whether the node may have processed the call. */
  | { kind: "failed"; failure: Failure; sent: boolean }
  | { kind: "timeout"; sent: boolean }
  | { kind: "aborted"; sent: boolean }
  | { kind: "invalid"; what: string }
  /** The node does not implement streams. */
  | { kind: "unsupported" };

/** How a stream ended. */
export type StreamEnd =
  /** It was open and broke. */
  | { kind: "broke"; failure: Failure }
  /** The node ended it in an orderly way: it has responded to every message that it processed. */
  | { kind: "closed"; failure: Failure }
  /** It could not be opened. */
  | { kind: "neverSent"; failure: Failure }
  | { kind: "unsupported" };

/** A call in the queue. */
export class Entry {
  readonly item: Item;
  #complete: ((outcome: Outcome) => void) | undefined;
  /** Whether the call was in a message. */
  sent = false;

  constructor(item: Item, complete: (outcome: Outcome) => void) {
    this.item = item;
    this.#complete = complete;
  }

  /** Whether the call has no outcome yet. */
  get isWanted(): boolean {
    return this.#complete !== undefined;
  }

  /** Completes the call, unless it is complete already. */
  complete(outcome: Outcome): void {
    const complete = this.#complete;
    this.#complete = undefined;
    complete?.(outcome);
  }
}

/** The calls to one node. */
export class Queue {
  readonly #bounds: Bounds;
  #pending: Entry[] = [];
  /** Index of the first entry in `#pending` that is still pending. */
  #first = 0;
  readonly #inFlight = new Map<bigint, Entry[]>();
  #nextTag = 0n;
  /** Whether the present stream has delivered a response. */
  #hasResponded = false;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  /** Whether a message could be built now. */
  get isReady(): boolean {
    return this.#first < this.#pending.length && this.#inFlight.size < this.#bounds.inFlight;
  }

  /** Whether no call is pending. */
  get isEmpty(): boolean {
    return this.#first >= this.#pending.length;
  }

  /** Adds a pending call. */
  push(entry: Entry): void {
    if (this.#pending.length - this.#first >= 2 * this.#bounds.calls) {
      // At least half of the entries are complete, because the batcher admits no more calls: they were aborted.
      this.#pending = this.#pending.slice(this.#first).filter((each) => each.isWanted);
      this.#first = 0;
    }
    this.#pending.push(entry);
  }

  /** Builds the next message of all pending calls, up to the limit; `undefined` if there is none to send now. */
  next(now: number): NextStreamRequest | undefined {
    if (!this.isReady) {
      return undefined;
    }
    const entries: Entry[] = [];
    while (this.#first < this.#pending.length && entries.length < this.#bounds.message) {
      const entry = this.#pending[this.#first++] as Entry;
      if (entry.isWanted) {
        entry.sent = true;
        entries.push(entry);
      }
    }
    if (this.#first >= this.#pending.length) {
      this.#pending = [];
      this.#first = 0;
    } else if (this.#first > this.#bounds.calls) {
      // The array of a queue that is never empty must not grow.
      this.#pending.splice(0, this.#first);
      this.#first = 0;
    }
    if (entries.length === 0) {
      return undefined;
    }
    const tag = this.#nextTag;
    this.#nextTag += 1n;
    this.#inFlight.set(tag, entries);
    return message(tag, entries, now);
  }

  /** Completes the calls of a message with its response. Returns `false` if no such message is in flight. */
  respond(response: NextStreamResponse): boolean {
    const entries = this.#inFlight.get(response.tag);
    if (entries === undefined) {
      return false;
    }
    this.#inFlight.delete(response.tag);
    this.#hasResponded = true;
    complete(entries, response.outcome);
    return true;
  }

  /**
   * Ends the present stream. The calls in its messages fail. If it broke after it had delivered a response, the pending
   * calls stay pending for the next stream. Otherwise they fail as not sent, because another node may be reachable.
   */
  end(end: StreamEnd): void {
    const wasSent = end.kind === "broke";
    const staysPending = wasSent && this.#hasResponded;
    this.#hasResponded = false;
    const failed = [...this.#inFlight.values()].flat();
    this.#inFlight.clear();
    const pending = staysPending ? [] : this.#pending.slice(this.#first);
    if (!staysPending) {
      this.#pending = [];
      this.#first = 0;
    }
    const outcome = (sent: boolean): Outcome => {
      return end.kind === "unsupported" ? { kind: "unsupported" } : { kind: "failed", failure: end.failure, sent };
    };
    for (const entry of failed) {
      entry.complete(outcome(wasSent));
    }
    for (const entry of pending) {
      entry.complete(outcome(false));
    }
  }
}

function message(tag: bigint, entries: readonly Entry[], now: number): NextStreamRequest {
  const items = entries.map((entry) => entry.item);
  let [routeVersion, until]: [bigint | undefined, number] = [undefined, now + 1];
  for (const item of items) {
    // The oldest version of any call: the response has what is newer for each of them.
    if (item.routeVersion !== undefined && (routeVersion === undefined || item.routeVersion < routeVersion)) {
      routeVersion = item.routeVersion;
    }
    until = Math.max(until, item.until);
  }
  const request = create(NextManyRequestSchema, { uids: items.map(({ uid }) => uid) });
  if (items.some(({ count }) => count !== 1)) {
    request.counts = items.map(({ count }) => count);
  }
  if (items.some(({ epoch }) => epoch !== 0n)) {
    request.knownEpochs = items.map(({ epoch }) => epoch);
  }
  if (routeVersion !== undefined) {
    request.routeVersion = routeVersion;
  }
  const timeoutMs = Math.ceil(Math.min(until - now, MAX_TIMEOUT_MS));
  // No item of a message waits for another one: the node refuses those that would have to wait (WOULD_WAIT).
  return create(NextStreamRequestSchema, { tag, request, timeoutMs, nowOnly: true });
}

/** Completes the calls of a message with their parts of its response. */
function complete(entries: readonly Entry[], outcome: NextStreamResponse["outcome"]): void {
  const all = (each: Outcome) => {
    for (const entry of entries) {
      entry.complete(each);
    }
  };
  if (outcome.case === "refusal") {
    all({ kind: "refused", item: outcome.value, routes: undefined });
  } else if (outcome.case === undefined) {
    all({ kind: "invalid", what: "neither a response nor a refusal" });
  } else {
    completeWith(entries, outcome.value, all);
  }
}

function completeWith(entries: readonly Entry[], response: NextManyResponse, all: (outcome: Outcome) => void): void {
  const fault = findFault(response, entries.length);
  if (fault !== undefined) {
    all({ kind: "invalid", what: fault });
    return;
  }
  const errors = new Map(response.errors.map((item) => [item.index, item]));
  const lost = lostAttempts(response);
  // Only one call adopts the routes.
  let { routes } = response;
  for (const [index, entry] of entries.entries()) {
    const item = errors.get(index);
    if (item !== undefined) {
      entry.complete({ kind: "refused", item, routes });
    } else {
      const [value, prev, epoch] = [response.values[index], response.prevs[index], response.epochs[index]];
      if (value !== undefined && prev !== undefined && epoch !== undefined) {
        entry.complete({ kind: "numbers", value, prev, epoch, lost: lost.get(index) ?? 0, routes });
      }
    }
    routes = undefined;
  }
}

/** Returns the fault of a response to a message or batch of `items` items; `undefined` if it has none. */
export function findFault(response: NextManyResponse, items: number): string | undefined {
  const { values, prevs, epochs, errors } = response;
  if ([values, prevs, epochs].some((list) => list.length !== items)) {
    return "lists of other lengths than the request's";
  }
  return findErrorFault(errors, items);
}

/** Returns the fault of the refused items of a response; `undefined` if they have none. */
export function findErrorFault(errors: readonly ItemError[], items: number): string | undefined {
  let last = -1;
  for (const { index } of errors) {
    if (index >= items) {
      return "an error of an item that was not sent";
    }
    if (index <= last) {
      return "errors that are not in order of index";
    }
    last = index;
  }
  return undefined;
}

/** Returns the attempts with unknown outcome that nodes made for the items, by index. */
export function lostAttempts({ lost }: NextManyResponse): Map<number, number> {
  return new Map(lost?.indexes.map((index, at) => [index, lost.attempts[at] ?? 0]));
}
