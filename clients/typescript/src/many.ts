/**
 * Batch calls: splits the items by owner, sends one request to each, and retries items that got a retryable error.
 *
 * Invariants: all items of a uid or key are in one group, in the order of the call. Items of different sets are retried
 * separately, each under the budget of its own set, so a set that is down does not delay items of another set.
 */

import { Attempts, isOutcomeUnknown } from "./attempts.js";
import type { Buckets, Space } from "./buckets.js";
import { refresh } from "./discovery.js";
import { BadAnswer, havingApplied, SeqError, UidOutside } from "./errors.js";
import { Failure } from "./failure.js";
import { KeyService } from "./generated/seqsvr/v1/keys_pb.js";
import type { Routes } from "./generated/seqsvr/v1/route_pb.js";
import {
  type CurrentManyResponse,
  type ItemError,
  type NextManyResponse,
  SequenceService,
} from "./generated/seqsvr/v1/sequence_pb.js";
import { findErrorFault, findFault, lostAttempts } from "./queue.js";
import { Allocation, Current } from "./results.js";
import type { RouteSet } from "./routes.js";
import type { Call } from "./shared.js";

/** Limit on the items of a request. Larger groups go in several requests, one after the other. */
export const MAX_ITEMS = 10_000;

/** Limit on the bytes of the keys of a request: half of the largest request; the rest is for their lengths. */
export const MAX_KEYS_BYTES = 128 * 1024;

/** The items of a batch: uids, or the sections of the buckets of keys. */
interface Items {
  space: Space;
  items: readonly bigint[];
  /** The keys; none for uids. */
  keys?: readonly Uint8Array<ArrayBuffer>[];
  /** Count of each item; empty if each item requests one number. */
  counts: readonly number[];
}

/** A request of a batch. */
interface BatchRequest {
  items: bigint[];
  keys: Uint8Array<ArrayBuffer>[];
  /** Count of each item; empty if each item requests one number. */
  counts: number[];
  routeVersion: bigint | undefined;
  knownEpochs: bigint[];
}

/** A decoded response: a result for each item, of which those of refused items have no meaning. */
interface BatchResponse<R> {
  results: (R | SeqError)[];
  errors: ItemError[];
  routes: Routes | undefined;
}

/** A method for many items. */
interface BatchMethod<R> {
  send(attempts: Attempts, addr: string, request: BatchRequest): Promise<BatchResponse<R>>;
  withLost(result: R, lost: number): R;
}

/** Reads a response with numbers. */
function readNumbers(
  attempts: Attempts,
  addr: string,
  request: BatchRequest,
  response: NextManyResponse,
): BatchResponse<Allocation> {
  const fault = findFault(response, request.items.length);
  if (fault !== undefined) {
    throw new BadAnswer(addr, fault, attempts.made);
  }
  const lost = lostAttempts(response);
  const results = response.values.map((value, index) => {
    const fields = { value, prev: response.prevs[index] ?? 0n, epoch: response.epochs[index] ?? 0n };
    return orError(() => Allocation.checked(addr, fields, request.counts[index] ?? 1, lost.get(index) ?? 0));
  });
  return { results, errors: response.errors, routes: response.routes };
}

/** Reads a response with last numbers. */
function readLast(
  attempts: Attempts,
  addr: string,
  { items }: BatchRequest,
  response: CurrentManyResponse,
): BatchResponse<Current> {
  const { values, exactness, epochs, errors, routes } = response;
  const hasLengths = [values, exactness, epochs].every((list) => list.length === items.length);
  const fault = hasLengths ? findErrorFault(errors, items.length) : "lists of other lengths than the request's";
  if (fault !== undefined) {
    throw new BadAnswer(addr, fault, attempts.made);
  }
  const results = values.map((value, index) => {
    return orError(() => Current.checked(addr, value, exactness[index] ?? 0, epochs[index] ?? 0n));
  });
  return { results, errors, routes };
}

const nextMany: BatchMethod<Allocation> = {
  async send(attempts, addr, request) {
    const { items: uids, counts, routeVersion, knownEpochs } = request;
    const fields = { uids, counts, routeVersion, knownEpochs };
    const response = await attempts.send(addr, SequenceService.method.nextMany, fields);
    return readNumbers(attempts, addr, request, response);
  },
  withLost: (allocation, lost) => allocation.withLost(lost),
};

const currentMany: BatchMethod<Current> = {
  async send(attempts, addr, request) {
    const { items: uids, routeVersion, knownEpochs } = request;
    const response = await attempts.send(addr, SequenceService.method.currentMany, { uids, routeVersion, knownEpochs });
    return readLast(attempts, addr, request, response);
  },
  withLost: (current) => current,
};

/** Allocates numbers for many uids. */
export function allocateMany(call: Call, uids: readonly bigint[], counts: readonly number[]) {
  return batch(call, nextMany, { space: call.shared.routes, items: uids, counts });
}

/** Reads the last numbers of many uids. */
export function readMany(call: Call, uids: readonly bigint[]) {
  return batch(call, currentMany, { space: call.shared.routes, items: uids, counts: [] });
}

/** Allocates numbers for many keys of a keyspace. */
export function allocateKeys(
  call: Call,
  space: Buckets,
  keyspace: string,
  keys: readonly Uint8Array<ArrayBuffer>[],
  counts: readonly number[],
) {
  const nextKeys: BatchMethod<Allocation> = {
    async send(attempts, addr, request) {
      const { keys: rawKeys, counts, routeVersion, knownEpochs } = request;
      const fields = { keyspace, rawKeys, counts, routeVersion, knownEpochs };
      const response = await attempts.send(addr, KeyService.method.nextMany, fields);
      return readNumbers(attempts, addr, request, response);
    },
    withLost: nextMany.withLost,
  };
  return batch(call, nextKeys, { space, items: keys.map((key) => space.section(key)), keys, counts });
}

/** Reads the last numbers of many keys of a keyspace. */
export function readKeys(call: Call, space: Buckets, keyspace: string, keys: readonly Uint8Array<ArrayBuffer>[]) {
  const currentKeys: BatchMethod<Current> = {
    async send(attempts, addr, request) {
      const { keys: rawKeys, routeVersion, knownEpochs } = request;
      const fields = { keyspace, rawKeys, routeVersion, knownEpochs };
      const response = await attempts.send(addr, KeyService.method.currentMany, fields);
      return readLast(attempts, addr, request, response);
    },
    withLost: currentMany.withLost,
  };
  return batch(call, currentKeys, { space, items: keys.map((key) => space.section(key)), keys, counts: [] });
}

/** Makes a batch call. Throws if no item got a response. */
async function batch<R>(call: Call, method: BatchMethod<R>, of: Items): Promise<(R | SeqError)[]> {
  const { space, items } = of;
  if (items.some((item) => space.route(item) === undefined)) {
    await refresh(call.shared, items, call.deadlineAt, call.signal);
  }
  const groups = new Map<string, number[]>();
  const sets = new Set<RouteSet>();
  const results: (R | SeqError)[] = new Array(items.length);
  for (const [index, item] of items.entries()) {
    const route = space.route(item);
    if (route === undefined) {
      results[index] = new UidOutside(item);
      continue;
    }
    sets.add(route.set);
    const destination = `${route.set.id} ${route.owner}`;
    const group = groups.get(destination);
    group === undefined ? groups.set(destination, [index]) : group.push(index);
  }
  const sendGroup = async (indexes: number[]) => {
    // One request after the other, so that the items of a uid or key are processed in order.
    for (let first = 0; first < indexes.length; ) {
      const part = new Part(call, method, of, results);
      const attempts = new Attempts(call, space);
      attempts.failsFast = sets.size > 1;
      const end = fitting(of, indexes, first);
      await part.send(attempts, indexes.slice(first, end));
      part.finish();
      first = end;
    }
  };
  await Promise.all([...groups.values()].map(sendGroup));
  const [first] = results;
  if (first instanceof SeqError && results.every(isUnanswered)) {
    const mayHaveApplied = results.some((error) => error instanceof SeqError && error.mayHaveApplied);
    throw mayHaveApplied ? havingApplied(first) : first;
  }
  return results;
}

/** Returns the end of the indexes from `first` on whose items fit into one request. */
function fitting({ keys }: Items, indexes: readonly number[], first: number): number {
  const end = Math.min(first + MAX_ITEMS, indexes.length);
  let size = 0;
  for (let at = first; keys !== undefined && at < end; at++) {
    size += keys[indexes[at] ?? 0]?.length ?? 0;
    if (size > MAX_KEYS_BYTES) {
      return at;
    }
  }
  return end;
}

/** An item that is sent again, with the set that pays for it and the shortest wait. */
interface Retry {
  index: number;
  set: RouteSet | undefined;
  charged: RouteSet | undefined;
  moved: boolean;
  error: SeqError;
}

/** Items that begin in one request, and their retries. */
class Part<R> {
  readonly #call: Call;
  readonly #method: BatchMethod<R>;
  readonly #of: Items;
  readonly #results: (R | SeqError)[];
  /** For each item, the number of its refusals after which it may have consumed numbers. */
  readonly #unknown = new Map<number, number>();

  constructor(call: Call, method: BatchMethod<R>, of: Items, results: (R | SeqError)[]) {
    this.#call = call;
    this.#method = method;
    this.#of = of;
    this.#results = results;
  }

  /** Adds the lost attempts of single items to their results. */
  finish(): void {
    for (const [index, lost] of this.#unknown) {
      const result = this.#results[index];
      if (result !== undefined && !(result instanceof SeqError)) {
        this.#results[index] = this.#method.withLost(result, lost);
      }
    }
  }

  /** Sends the items with these indexes, and retries those with retryable errors, for each set separately. */
  async send(attempts: Attempts, indexes: number[]): Promise<void> {
    let retries: Retry[] | undefined;
    try {
      retries = await this.#sendOnce(attempts, indexes);
    } catch (error) {
      if (!(error instanceof SeqError)) {
        throw error;
      }
      for (const index of indexes) {
        this.#record(index, error);
      }
      return;
    }
    if (retries === undefined) {
      // The request got no response, and the backoff is over.
      const groups = grouped(indexes, (index) => [this.#set(index)]);
      await Promise.all(groups.map((group) => this.send(attempts.fork(undefined), group)));
      return;
    }
    const groups = grouped(retries, ({ set, charged, moved }) => [set, charged, moved]);
    await Promise.all(groups.map((group) => this.#sendAgain(attempts, group)));
  }

  async #sendAgain(attempts: Attempts, group: Retry[]): Promise<void> {
    const [first] = group;
    if (first === undefined) {
      return;
    }
    const fork = attempts.fork(first.charged);
    const indexes = group.map(({ index }) => index);
    if (!first.moved) {
      const atLeastMs = Math.max(...group.map(({ error }) => error.retryAfterMs ?? 0));
      try {
        if (!(await fork.pause(first.error.reason, atLeastMs || undefined, false))) {
          return;
        }
      } catch (error) {
        if (!(error instanceof SeqError)) {
          throw error;
        }
        for (const index of indexes) {
          this.#record(index, error);
        }
        return;
      }
    }
    await this.send(fork, indexes);
  }

  /** Sends one request. Returns the items to send again; `undefined` if these are all, because it got no response. */
  async #sendOnce(attempts: Attempts, indexes: number[]): Promise<Retry[] | undefined> {
    const { keys: all, counts: allCounts } = this.#of;
    const items = indexes.map((index) => this.#item(index));
    const [item] = items as [bigint];
    const keys = all === undefined ? [] : indexes.map((index) => all[index] as Uint8Array<ArrayBuffer>);
    const counts = allCounts.length === 0 ? [] : indexes.map((index) => allCounts[index] ?? 1);
    const { addr, routeVersion } = attempts.target(item);
    const knownEpochs = attempts.epochs(items);
    let response: BatchResponse<R>;
    try {
      response = await this.#method.send(attempts, addr, { items, keys, counts, routeVersion, knownEpochs });
    } catch (error) {
      if (!(error instanceof Failure)) {
        throw error;
      }
      await attempts.prepareRetry(item, addr, error);
      return undefined;
    }
    this.#call.shared.adopt(response.routes, addr);
    const refused = new Map(response.errors.map((refusal) => [refusal.index, refusal]));
    const retries: Retry[] = [];
    for (const [at, index] of indexes.entries()) {
      const refusal = refused.get(at);
      const result = response.results[at];
      if (refusal !== undefined) {
        const retry = this.#refuse(attempts, index, refusal, knownEpochs[at] ?? 0n);
        retries.push(...retry);
      } else if (result !== undefined) {
        this.#record(index, result instanceof SeqError ? result : this.#method.withLost(result, attempts.lost));
      }
    }
    if (retries.some(({ moved }) => moved)) {
      attempts.countFollowed();
    }
    // The sets are those of the newest routes, after all statements of the response were adopted.
    return retries.map((retry) => ({ ...retry, set: this.#set(retry.index) }));
  }

  /** Records the refusal of an item; returns its retry, if it has one. */
  #refuse(attempts: Attempts, index: number, refusal: ItemError, sentBy: bigint): Retry[] {
    const item = this.#item(index);
    if (isOutcomeUnknown(refusal.reason)) {
      this.#unknown.set(index, (this.#unknown.get(index) ?? 0) + 1);
      this.#call.sum.lost += 1;
    }
    const { error, moved, charged } = attempts.classify(item, attempts.refusedItem(item, refusal), refusal, sentBy);
    this.#record(index, error);
    return error.retryable && !attempts.isFinal(error) ? [{ index, set: undefined, charged, moved, error }] : [];
  }

  /** Replaces the result of an item by that of a later attempt. Numbers that may have been consumed remain so. */
  #record(index: number, later: R | SeqError): void {
    const before = this.#results[index];
    const applied = before instanceof SeqError && before.mayHaveApplied;
    this.#results[index] = applied && later instanceof SeqError ? havingApplied(later) : later;
  }

  #set(index: number): RouteSet | undefined {
    return this.#of.space.route(this.#item(index))?.set;
  }

  #item(index: number): bigint {
    return this.#of.items[index] as bigint;
  }
}

/** Groups items by a key of several parts, in order. There are few groups. */
function grouped<T>(items: readonly T[], key: (item: T) => unknown[]): T[][] {
  const groups: { key: unknown[]; items: T[] }[] = [];
  for (const item of items) {
    const parts = key(item);
    const group = groups.find((known) => known.key.every((part, at) => part === parts[at]));
    group === undefined ? groups.push({ key: parts, items: [item] }) : group.items.push(item);
  }
  return groups.map((group) => group.items);
}

/** Returns whether a result is the error of an item without a valid response, neither numbers nor a refusal. */
function isUnanswered(result: unknown): boolean {
  if (!(result instanceof SeqError)) {
    return false;
  }
  switch (result.kind) {
    case "set_unavailable":
      return result.retryAfterMs === undefined;
    case "unreachable":
    case "deadline":
    case "bad_answer":
    case "closed":
    case "cancelled":
      return true;
    default:
      return false;
  }
}

function orError<R>(read: () => R): R | SeqError {
  try {
    return read();
  } catch (error) {
    if (error instanceof SeqError) {
      return error;
    }
    throw error;
  }
}
