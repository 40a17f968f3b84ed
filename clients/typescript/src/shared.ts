/** State that all calls of a client share, and the state of one call with its deadline and its end. */

import { Code, ConnectError } from "@connectrpc/connect";
import type { Batcher } from "./batcher.js";
import { Suspects } from "./budget.js";
import type { Clock } from "./clock.js";
import { Cancelled, ClientClosed, SeqError } from "./errors.js";
import type { Routes as RoutesMessage } from "./generated/seqsvr/v1/route_pb.js";
import { type CallObserver, type Log, noStats, notify, type Observer, type Stats } from "./observer.js";
import { Routes } from "./routes.js";
import type { Transport } from "./transport.js";

/** Parts of a client that its options determine. */
export interface Parts {
  transport: Transport;
  clock: Clock;
  seeds: readonly string[];
  /** Creates the batcher of a node; `undefined` if every call is a request of its own. */
  batcher: ((addr: string) => Batcher) | undefined;
  observer: Observer;
  log: Log;
}

/** State that all calls of a client share. */
export class Shared {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly seeds: readonly string[];
  readonly observer: Observer;
  readonly log: Log;
  readonly routes: Routes;
  readonly suspects: Suspects;
  readonly counters: Stats = noStats();
  /** Calls in progress. */
  readonly calls = new Set<Call>();
  /** The fetch of routes from the seeds that is in progress, and the time of the last one. */
  refreshing: Promise<void> | undefined;
  refreshedAt = Number.NEGATIVE_INFINITY;
  /** Calls in progress by the signal of their caller. Many calls of a signal have one listener. */
  readonly #bySignal = new Map<AbortSignal, { calls: Set<Call>; listener: () => void }>();
  readonly #newBatcher: ((addr: string) => Batcher) | undefined;
  readonly #batchers = new Map<string, Batcher>();

  constructor(parts: Parts) {
    this.transport = parts.transport;
    this.clock = parts.clock;
    this.seeds = parts.seeds;
    this.observer = parts.observer;
    this.log = parts.log;
    this.routes = new Routes(parts.clock);
    this.suspects = new Suspects(parts.clock);
    this.#newBatcher = parts.batcher;
  }

  /** Returns the batcher of a node; `undefined` if calls do not share messages. */
  batcher(addr: string): Batcher | undefined {
    let batcher = this.#batchers.get(addr);
    if (batcher === undefined && this.#newBatcher !== undefined) {
      batcher = this.#newBatcher(addr);
      this.#batchers.set(addr, batcher);
    }
    return batcher;
  }

  /**
   * Adopts the routes in a response from `addr`. Invalid routes are logged, because the rest of the response is valid.
   */
  adopt(routes: RoutesMessage | undefined, addr: string): void {
    if (routes === undefined) {
      return;
    }
    try {
      this.adoptChecked(routes);
    } catch (error) {
      this.log("warn", "routes in a response were not adopted", { addr, error: String(error) });
    }
  }

  /** Adopts routes; throws RoutesError if they are invalid. */
  adoptChecked(routes: RoutesMessage, seed?: string): void {
    const { isNewer, addrs } = this.routes.adopt(routes, seed);
    if (isNewer) {
      this.counters.routeAdoptions += 1;
      notify(this.log, () => this.observer.routeAdopted?.({ set: routes.set, version: routes.version }));
    }
    if (addrs) {
      this.#followAddrs();
    }
  }

  /** Ends a call when its caller's signal is aborted. */
  follow(signal: AbortSignal, call: Call): void {
    let followed = this.#bySignal.get(signal);
    if (followed === undefined) {
      const calls = new Set<Call>();
      const listener = () => {
        for (const each of [...calls]) {
          each.abort();
        }
      };
      followed = { calls, listener };
      this.#bySignal.set(signal, followed);
      signal.addEventListener("abort", listener);
    }
    followed.calls.add(call);
  }

  /** Ends the effect of `follow`. */
  unfollow(signal: AbortSignal, call: Call): void {
    const followed = this.#bySignal.get(signal);
    followed?.calls.delete(call);
    if (followed?.calls.size === 0) {
      this.#bySignal.delete(signal);
      signal.removeEventListener("abort", followed.listener);
    }
  }

  /** Returns the counters with the present connections and calls. */
  stats(): Stats {
    const messages = [...this.#batchers.values()].reduce((sum, batcher) => sum + batcher.messages, 0);
    const { connections } = this.transport;
    return { ...this.counters, connections, messages, pending: this.calls.size };
  }

  /** Ends all streams. */
  closeBatchers(): void {
    for (const batcher of this.#batchers.values()) {
      batcher.close();
    }
  }

  /** Closes the connections to addresses that are in the routes of no set any more. */
  #followAddrs(): void {
    const addrs = this.routes.addrs();
    const isUsed = (addr: string) => addrs.has(addr) || this.seeds.includes(addr);
    for (const [addr, batcher] of this.#batchers) {
      if (!isUsed(addr)) {
        this.#batchers.delete(addr);
        this.counters.messages += batcher.messages;
        batcher.retire();
      }
    }
    this.transport.retain(isUsed);
  }
}

/** One call: its deadline, its end by the caller or by the client, and its observer. */
export class Call {
  readonly shared: Shared;
  readonly deadlineMs: number;
  readonly deadlineAt: number;
  readonly observer: CallObserver | undefined;
  /** Attempts, lost attempts and the last set of all parts of the call. */
  readonly sum = { attempts: 0, lost: 0, set: "" };
  readonly #startedAt: number;
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  #isClosed = false;

  constructor(shared: Shared, method: string, items: number, deadlineMs: number, signal: AbortSignal | undefined) {
    this.shared = shared;
    this.#startedAt = shared.clock.now();
    this.deadlineMs = deadlineMs;
    this.deadlineAt = this.#startedAt + deadlineMs;
    this.#caller = signal;
    let observer: CallObserver | undefined;
    notify(shared.log, () => {
      observer = shared.observer.call?.({ method, items });
    });
    this.observer = observer;
    shared.calls.add(this);
    shared.counters.calls += 1;
    if (signal?.aborted) {
      this.abort();
    } else if (signal !== undefined) {
      shared.follow(signal, this);
    }
  }

  /** Aborted when the caller aborts the call, or the client is closed. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Milliseconds until the deadline. */
  get remaining(): number {
    return this.deadlineAt - this.shared.clock.now();
  }

  /** Ends the call. */
  abort(): void {
    // With this code, connect resets the stream of the request with CANCEL.
    this.#controller.abort(new ConnectError("the call was ended", Code.Canceled));
  }

  /** Ends the call, because the client is closed. */
  close(): void {
    this.#isClosed = true;
    this.abort();
  }

  /** Returns the error of a call that was ended. */
  aborted(properties: { mayHaveApplied: boolean; attempts: number }): SeqError {
    return this.#isClosed
      ? new ClientClosed(properties)
      : new Cancelled({ ...properties, cause: this.#caller?.reason });
  }

  /** Records the end of the call. */
  finish(error?: unknown): void {
    if (this.#caller !== undefined) {
      this.shared.unfollow(this.#caller, this);
    }
    this.shared.calls.delete(this);
    const { attempts, lost, set } = this.sum;
    this.shared.counters.lost += lost;
    const reason = error === undefined ? undefined : error instanceof SeqError ? error.reason : String(error);
    const outcome = error === undefined ? "ok" : "error";
    const durationMs = this.shared.clock.now() - this.#startedAt;
    notify(this.shared.log, () => this.observer?.end?.({ outcome, reason, set, attempts, lost, durationMs }));
  }
}
