/** The client and its public calls. */

import { Batcher } from "./batcher.js";
import { sleep, systemClock } from "./clock.js";
import { Connections } from "./connections.js";
import { connect, refresh } from "./discovery.js";
import { Cancelled, ClientClosed, SeqError, UidOutside } from "./errors.js";
import { Keyspace } from "./keyspace.js";
import { checkAdvance, checkCount, checkCounts } from "./limits.js";
import { allocateMany, readMany } from "./many.js";
import { type NextAllItem, nextAll } from "./next_all.js";
import type { Stats } from "./observer.js";
import {
  addresses,
  type CallOptions,
  type ClientOptions,
  checkToken,
  deadlineOf,
  type NextAllOptions,
} from "./options.js";
import { DEFAULT_BOUNDS } from "./queue.js";
import type { Allocation, Current } from "./results.js";
import { knownSeries, type Series } from "./series.js";
import { Call, Shared } from "./shared.js";
import { advance, current, next } from "./single.js";
import { Credentials } from "./tls.js";

/** Default limit on the calls in flight of `nextAll`. */
const DEFAULT_CONCURRENCY = 256;

/**
 * A handle on the sequence service. One client for each process is enough: it may make any number of calls at a time.
 *
 * Requests go to the owner of a uid; the routes come from the seeds and from responses, and follow sections from set to
 * set. Each call has one deadline over all its attempts. Retryable failures are retried until then, within a budget for
 * each set: a fifth of the calls to it, and ten a second. After a connection failed, or when a node does not respond
 * for a third of the deadline, the next attempt goes to another node, because any node serves any uid.
 *
 * Concurrent calls of `next` and `nextN` share the messages of one stream to each node. No call is delayed to fill a
 * message, and no call waits for another one. At most 65,536 calls to a node are in flight; further calls wait.
 */
export class Client implements AsyncDisposable {
  readonly #shared: Shared;
  readonly #deadlineMs: number;
  /** The end of the client, once `close` was called. */
  #closing: Promise<void> | undefined;

  private constructor(shared: Shared, deadlineMs: number) {
    this.#shared = shared;
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Connects through the seeds, and fetches the routes. Throws ConnectFailed if no seed has routes before the deadline.
   */
  static async open(options: ClientOptions): Promise<Client> {
    const { tls, token, coalesce = true, observer = {}, log = () => undefined, signal } = options;
    const deadlineMs = deadlineOf(options);
    const seeds = addresses(options.seeds, tls !== undefined);
    checkToken(token, tls !== undefined);
    const credentials = tls && new Credentials(tls, log);
    const transport = new Connections({ credentials, token, observer, log });
    const batcher = (addr: string) => new Batcher(addr, transport, systemClock);
    const parts = { transport, clock: systemClock, seeds, observer, log, batcher: coalesce ? batcher : undefined };
    return await Client.of(new Shared(parts), deadlineMs, signal);
  }

  /** Connects with the given parts, for tests. @internal */
  static async of(shared: Shared, deadlineMs: number, signal?: AbortSignal): Promise<Client> {
    try {
      const until = shared.clock.now() + deadlineMs;
      await connect(shared, until, signal ?? new AbortController().signal);
      return new Client(shared, deadlineMs);
    } catch (error) {
      await shared.transport.close();
      throw signal?.aborted ? new Cancelled({ cause: signal.reason }) : error;
    }
  }

  /** Allocates the next number of a uid. */
  async next(uid: bigint, options?: CallOptions): Promise<Allocation> {
    return await this.nextN(uid, 1, options);
  }

  /** Allocates the next `count` numbers of a uid, 1 to 1,000,000, which are contiguous. */
  async nextN(uid: bigint, count: number, options?: CallOptions): Promise<Allocation> {
    checkUid(uid);
    checkCount(uid, count);
    return await this.#run("next", 1, options, (call) => next(call, uid, count));
  }

  /**
   * Allocates one number for each uid, or `counts[i]` for `uids[i]`, in one request to each owner. Each item succeeds
   * or fails independently: the result has an Allocation or a SeqError for each uid, in order. A uid that occurs twice
   * gets numbers twice, in that order, unless its first item was retried. Throws if no item got a response, and then
   * `mayHaveApplied` is about all items.
   */
  async nextMany(
    uids: readonly bigint[],
    counts?: readonly number[],
    options?: CallOptions,
  ): Promise<(Allocation | SeqError)[]> {
    uids.forEach(checkUid);
    checkCounts("uids", uids.length, counts, uids);
    if (uids.length === 0) {
      this.#checkOpen();
      return [];
    }
    return await this.#run("nextMany", uids.length, options, (call) => allocateMany(call, uids, counts ?? []));
  }

  /**
   * Allocates one number for each uid of a stream, and yields the results in its order. At most `concurrency` uids are
   * taken ahead of the consumer. A uid that occurs twice within them gets its numbers in any order.
   */
  async *nextAll(
    uids: Iterable<bigint> | AsyncIterable<bigint>,
    options: NextAllOptions = {},
  ): AsyncGenerator<NextAllItem, void> {
    const { concurrency = DEFAULT_CONCURRENCY, deadlineMs = this.#deadlineMs, signal } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > DEFAULT_BOUNDS.calls) {
      throw new RangeError(`concurrency is an integer in 1..=${DEFAULT_BOUNDS.calls}, not ${concurrency}`);
    }
    // Calls in flight end with the iteration.
    const controller = new AbortController();
    const onAbort = () => controller.abort(signal?.reason);
    signal?.aborted ? onAbort() : signal?.addEventListener("abort", onAbort);
    const one = async (uid: bigint) => {
      try {
        return await this.next(uid, { deadlineMs, signal: controller.signal });
      } catch (error) {
        const isOfItem = error instanceof SeqError && error.kind !== "closed" && error.kind !== "cancelled";
        if (isOfItem) {
          return error;
        }
        throw error;
      }
    };
    try {
      yield* nextAll(uids, concurrency, one);
    } finally {
      signal?.removeEventListener("abort", onAbort);
      controller.abort();
    }
  }

  /** Reads the last number of a uid. Moves nothing. */
  async current(uid: bigint, options?: CallOptions): Promise<Current> {
    checkUid(uid);
    return await this.#run("current", 1, options, (call) => current(call, uid));
  }

  /** Reads the last number of each uid. Moves nothing. */
  async currentMany(uids: readonly bigint[], options?: CallOptions): Promise<(Current | SeqError)[]> {
    uids.forEach(checkUid);
    if (uids.length === 0) {
      this.#checkOpen();
      return [];
    }
    return await this.#run("currentMany", uids.length, options, (call) => readMany(call, uids));
  }

  /**
   * Raises the counter of a uid to `to`, 0 to 2^62, so that its next number is greater: for imports. Idempotent.
   * Returns the epoch of the ownership. The refusal ALREADY_PAST means that the last number is greater, perhaps because
   * an earlier attempt of this call was applied and another call took a number since.
   */
  async advance(uid: bigint, to: bigint, options?: CallOptions): Promise<bigint> {
    checkUid(uid);
    checkAdvance("uid", to);
    return await this.#run("advance", 1, options, (call) => advance(call, uid, to));
  }

  /** Returns the series of a name. Sends a request only if the client does not know a series of this name yet. */
  async series(name: string, options?: CallOptions): Promise<Series> {
    const { routes } = this.#shared;
    return await this.#run("series", 1, options, async (call) => {
      if (routes.series(name) === undefined) {
        await refresh(this.#shared, [], call.deadlineAt, call.signal);
      }
      return knownSeries((...args) => this.#run(...args), name, routes.series(name));
    });
  }

  /** Returns a handle of the keyspace of a name. Sends nothing; its calls find the keyspace. */
  keyspace(name: string): Keyspace {
    return new Keyspace((...args) => this.#run(...args), name);
  }

  /** Returns counters of the client, and its present connections and calls. */
  stats(): Stats {
    return this.#shared.stats();
  }

  /**
   * Closes the client: waits up to `drainMs` for calls in flight, ends the others with ClientClosed, and closes the
   * connections. New calls are refused at once. Idempotent.
   */
  async close(options: { drainMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.drainMs ?? 0);
    await this.#closing;
  }

  /** Closes the client without waiting for calls in flight, as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(drainMs: number): Promise<void> {
    const { calls, clock, transport } = this.#shared;
    const until = clock.now() + drainMs;
    while (calls.size > 0 && clock.now() < until) {
      // Calls end at any time, so there is nothing to wait for but the next of them.
      await sleep(clock, Math.min(10, until - clock.now()));
    }
    for (const call of [...calls]) {
      call.close();
    }
    this.#shared.closeBatchers();
    await transport.close();
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) {
      throw new ClientClosed();
    }
  }

  async #run<R>(
    method: string,
    items: number,
    options: CallOptions | undefined,
    body: (call: Call) => Promise<R>,
  ): Promise<R> {
    this.#checkOpen();
    const call = new Call(this.#shared, method, items, deadlineOf(options, this.#deadlineMs), options?.signal);
    try {
      if (call.signal.aborted) {
        throw call.aborted({ mayHaveApplied: false, attempts: 0 });
      }
      const result = await body(call);
      call.finish();
      return result;
    } catch (error) {
      call.finish(error);
      throw error;
    }
  }
}

function checkUid(uid: bigint): void {
  if (typeof uid !== "bigint") {
    throw new TypeError(`a uid is a bigint, not a ${typeof uid}: write 42n or BigInt("42")`);
  }
  if (uid < 0n || uid >= 1n << 64n) {
    throw new UidOutside(uid);
  }
}
