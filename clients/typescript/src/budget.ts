/**
 * Limits on retries: the retry budget of a set, the backoff of a call, and the nodes that could not be reached.
 *
 * If a node or a set fails, all its callers retry. Without a limit, their retries would keep it overloaded.
 */

import type { Clock } from "./clock.js";

/** Retries that each call earns: a fifth. */
export const RETRY_RATIO = 0.2;

/** Retries that are earned each second, so that a client with few calls can retry during a change of owner. */
export const RETRIES_PER_SECOND = 10;

/** Largest balance, and the first one: the break of a stream causes a retry of all its calls at once. */
export const MAX_SAVED_RETRIES = 1_000;

/** First backoff. It is longer than the time in which a node adopts a route that it has just received. */
export const FIRST_BACKOFF_MS = 10;

/** Longest backoff, unless a server requests a longer one. It is short compared with a change of owner. */
export const MAX_BACKOFF_MS = 500;

/** Time for which a node is suspect after a failure, so that requests go to other nodes first. */
export const SUSPECT_FOR_MS = 1_000;

/** The retries that a client may still make to one set. */
export class Budget {
  #saved = MAX_SAVED_RETRIES;
  #updatedAt: number;
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#updatedAt = clock.now();
  }

  /** Counts a call, at its first attempt. */
  earn(): void {
    this.#saved = Math.min(this.#saved + RETRY_RATIO, MAX_SAVED_RETRIES);
  }

  /** Takes one retry; returns `false` if the budget is exhausted. */
  spend(): boolean {
    const now = this.#clock.now();
    const earned = ((now - this.#updatedAt) / 1_000) * RETRIES_PER_SECOND;
    this.#saved = Math.min(this.#saved + earned, MAX_SAVED_RETRIES);
    this.#updatedAt = now;
    if (this.#saved < 1) {
      return false;
    }
    this.#saved -= 1;
    return true;
  }
}

/** The addresses that could not be reached recently. */
export class Suspects {
  readonly #until = new Map<string, number>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Marks an address as suspect, because it has just been unreachable. */
  add(addr: string): void {
    this.#until.set(addr, this.#clock.now() + SUSPECT_FOR_MS);
  }

  /** Returns whether an address was recently unreachable. */
  has(addr: string): boolean {
    const until = this.#until.get(addr);
    if (until === undefined) {
      return false;
    }
    if (this.#clock.now() < until) {
      return true;
    }
    this.#until.delete(addr);
    return false;
  }
}

/**
 * Returns the backoff after `made` attempts. The jitter, in `0 .. 1`, shortens the doubling backoff of the client by up
 * to half, and lengthens a backoff that a server requested by up to half. The longer of the two is returned.
 */
export function backoff(made: number, atLeastMs: number | undefined, jitter = Math.random()): number {
  const doubled = Math.min(FIRST_BACKOFF_MS * 2 ** Math.min(Math.max(made - 1, 0), 16), MAX_BACKOFF_MS);
  const own = doubled * (1 - jitter / 2);
  return atLeastMs === undefined ? own : Math.max(own, atLeastMs * (1 + jitter / 2));
}
