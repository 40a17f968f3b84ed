/**
 * Batch calls: splits the items by owner, sends one request to each, and retries items that got a retryable error.
 *
 * Invariants: all items of a uid are in one group, in the order of the call. Items of different sets are retried
 * separately, each under the budget of its own set, so a set that is down does not delay items of another set.
 */

import { Attempts, isOutcomeUnknown } from "./attempts.js";
import { refresh } from "./discovery.js";
import { BadAnswer, havingApplied, SeqError, UidOutside } from "./errors.js";
import { Failure } from "./failure.js";
import type { Routes } from "./generated/seqsvr/v1/route_pb.js";
import { type ItemError, SequenceService } from "./generated/seqsvr/v1/sequence_pb.js";
import { findErrorFault, findFault, lostAttempts } from "./queue.js";
import { Allocation, Current } from "./results.js";
import type { RouteSet } from "./routes.js";
import type { Call } from "./shared.js";

/** Limit on the items of a request. Larger groups go in several requests, one after the other. */
export const MAX_ITEMS = 10_000;

/** A request of a batch. */
interface BatchRequest {
  uids: bigint[];
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

/** A method for many uids. */
interface BatchMethod<R> {
  send(attempts: Attempts, addr: string, request: BatchRequest): Promise<BatchResponse<R>>;
  withLost(result: R, lost: number): R;
}

const nextMany: BatchMethod<Allocation> = {
  async send(attempts, addr, request) {
    const response = await attempts.send(addr, SequenceService.method.nextMany, request);
    const fault = findFault(response, request.uids.length);
    if (fault !== undefined) {
      throw new BadAnswer(addr, fault, attempts.made);
    }
    const lost = lostAttempts(response);
    const results = response.values.map((value, index) => {
      const fields = { value, prev: response.prevs[index] ?? 0n, epoch: response.epochs[index] ?? 0n };
      return orError(() => Allocation.checked(addr, fields, request.counts[index] ?? 1, lost.get(index) ?? 0));
    });
    return { results, errors: response.errors, routes: response.routes };
  },
  withLost: (allocation, lost) => allocation.withLost(lost),
};

const currentMany: BatchMethod<Current> = {
  async send(attempts, addr, { uids, routeVersion, knownEpochs }) {
    const response = await attempts.send(addr, SequenceService.method.currentMany, { uids, routeVersion, knownEpochs });
    const { values, exactness, epochs, errors, routes } = response;
    const hasLengths = [values, exactness, epochs].every((list) => list.length === uids.length);
    const fault = hasLengths ? findErrorFault(errors, uids.length) : "lists of other lengths than the request's";
    if (fault !== undefined) {
      throw new BadAnswer(addr, fault, attempts.made);
    }
    const results = values.map((value, index) => {
      return orError(() => Current.checked(addr, value, exactness[index] ?? 0, epochs[index] ?? 0n));
    });
    return { results, errors, routes };
  },
  withLost: (current) => current,
};

/** Allocates numbers for many uids. */
export function allocateMany(call: Call, uids: readonly bigint[], counts: readonly number[]) {
  return batch(call, nextMany, uids, counts);
}

/** Reads the last numbers of many uids. */
export function readMany(call: Call, uids: readonly bigint[]) {
  return batch(call, currentMany, uids, []);
}

/** Makes a batch call. Throws if no item got a response. */
async function batch<R>(
  call: Call,
  method: BatchMethod<R>,
  uids: readonly bigint[],
  counts: readonly number[],
): Promise<(R | SeqError)[]> {
  const { routes } = call.shared;
  if (uids.some((uid) => routes.route(uid) === undefined)) {
    await refresh(call.shared, uids, call.deadlineAt, call.signal);
  }
  const groups = new Map<string, number[]>();
  const sets = new Set<RouteSet>();
  const results: (R | SeqError)[] = new Array(uids.length);
  for (const [index, uid] of uids.entries()) {
    const route = routes.route(uid);
    if (route === undefined) {
      results[index] = new UidOutside(uid);
      continue;
    }
    sets.add(route.set);
    const destination = `${route.set.id} ${route.owner}`;
    const group = groups.get(destination);
    group === undefined ? groups.set(destination, [index]) : group.push(index);
  }
  const sendGroup = async (indexes: number[]) => {
    // One request after the other, so that the items of a uid are processed in order.
    for (let first = 0; first < indexes.length; first += MAX_ITEMS) {
      const part = new Part(call, method, uids, counts, results);
      const attempts = new Attempts(call);
      attempts.failsFast = sets.size > 1;
      await part.send(attempts, indexes.slice(first, first + MAX_ITEMS));
      part.finish();
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
  readonly #uids: readonly bigint[];
  readonly #counts: readonly number[];
  readonly #results: (R | SeqError)[];
  /** For each item, the number of its refusals after which it may have consumed numbers. */
  readonly #unknown = new Map<number, number>();

  constructor(
    call: Call,
    method: BatchMethod<R>,
    uids: readonly bigint[],
    counts: readonly number[],
    results: (R | SeqError)[],
  ) {
    this.#call = call;
    this.#method = method;
    this.#uids = uids;
    this.#counts = counts;
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
    const uids = indexes.map((index) => this.#uids[index] as bigint);
    const [uid] = uids as [bigint];
    const counts = this.#counts.length === 0 ? [] : indexes.map((index) => this.#counts[index] ?? 1);
    const { addr, routeVersion } = attempts.target(uid);
    const knownEpochs = attempts.epochs(uids);
    let response: BatchResponse<R>;
    try {
      response = await this.#method.send(attempts, addr, { uids, counts, routeVersion, knownEpochs });
    } catch (error) {
      if (!(error instanceof Failure)) {
        throw error;
      }
      await attempts.prepareRetry(uid, addr, error);
      return undefined;
    }
    this.#call.shared.adopt(response.routes, addr);
    const refused = new Map(response.errors.map((item) => [item.index, item]));
    const retries: Retry[] = [];
    for (const [at, index] of indexes.entries()) {
      const item = refused.get(at);
      const result = response.results[at];
      if (item !== undefined) {
        const retry = this.#refuse(attempts, index, item, knownEpochs[at] ?? 0n);
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
  #refuse(attempts: Attempts, index: number, item: ItemError, sentBy: bigint): Retry[] {
    const uid = this.#uids[index] as bigint;
    if (isOutcomeUnknown(item.reason)) {
      this.#unknown.set(index, (this.#unknown.get(index) ?? 0) + 1);
      this.#call.sum.lost += 1;
    }
    const { error, moved, charged } = attempts.classify(attempts.refusedItem(uid, item), item, sentBy);
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
    return this.#call.shared.routes.route(this.#uids[index] as bigint)?.set;
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
