/** Segments: ids that are fetched ahead, in ranges that grow with their use. */

import { sleep, systemClock } from "./clock.js";
import { ClientClosed } from "./errors.js";
import type { Ids, Shape } from "./ids.js";

/** Default time for which a fetched range lasts: longer than any change of owner. */
export const HOLD_MS = 10_000;

/** Age above which ids with a time are dropped. */
const MAX_AGE_MS = 1_000;

/** Most ids in a range of a counter, and in a range with times. */
const MAX_SIZE = 1_000_000;
const MAX_TIMED = 10_000;

/** First and longest pause after a failed fetch, whose attempts have waited already. */
export const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 1_000;

/** A request for a range of ids, all of them above `after`; 0 for none. */
export interface Fetch {
  size: number;
  after: bigint;
}

/** A range of ids of one fetch. */
interface Range {
  ids: Iterator<bigint>;
  left: number;
  readonly size: number;
  readonly at: number;
}

/**
 * The ids that are fetched and not used, without I/O and without a clock of its own.
 *
 * Invariant: ids are unique and increase, because a fetch is for ids above all ids fetched before, and one fetch is in
 * flight at a time. Ids that are fetched and not used are at most 2 and twice the used ids; where ids are dropped with
 * age, each fetch adds 1.
 */
export class Buffer {
  readonly #holdMs: number;
  readonly #maxAgeMs: number;
  readonly #maxSize: number;
  #present: Range | undefined;
  #spare: Range | undefined;
  #isFetching = false;
  #given = 0;
  #dropped = 0;
  #lastSize = 0;
  #failures = 0;
  #highest: bigint;
  /** Time of the last fetch, and the ids given until then. */
  #measured: { at: number; given: number } | undefined;
  /** Time before which no fetch begins. */
  retryAt = 0;

  constructor(limits: { holdMs: number; maxAgeMs: number; maxSize: number }, after: bigint) {
    this.#holdMs = limits.holdMs;
    this.#maxAgeMs = limits.maxAgeMs;
    this.#maxSize = limits.maxSize;
    this.#highest = after;
  }

  /** Returns the buffer for ids of a shape. */
  static of(shape: Shape, holdMs: number, after: bigint): Buffer {
    if (shape.kind === "counter") {
      return new Buffer({ holdMs, maxAgeMs: Number.POSITIVE_INFINITY, maxSize: MAX_SIZE }, after);
    }
    // A range is fetched while half of the range before is left, and is used before it is dropped.
    const hold = Math.min(holdMs, MAX_AGE_MS / 2);
    return new Buffer({ holdMs: hold, maxAgeMs: MAX_AGE_MS, maxSize: MAX_TIMED }, after);
  }

  /** Number of ids that were fetched and not used, with the dropped ids. */
  get unused(): number {
    return (this.#present?.left ?? 0) + (this.#spare?.left ?? 0) + this.#dropped;
  }

  /** Takes the next id, if one is fetched. The caller begins the fetch that is returned, and reports its result. */
  take(now: number): { id: bigint | undefined; fetch: Fetch | undefined } {
    this.#present = this.#fresh(this.#present, now);
    this.#spare = this.#fresh(this.#spare, now);
    if (this.#present === undefined || this.#present.left === 0) {
      this.#present = this.#spare;
      this.#spare = undefined;
    }
    let id: bigint | undefined;
    if (this.#present !== undefined && this.#present.left > 0) {
      id = this.#present.ids.next().value;
      this.#present.left -= 1;
      this.#given += 1;
    }
    return { id, fetch: this.#due(now, id === undefined) };
  }

  /** Adds the ids of a fetch, of a response at `at`. */
  fetched(ids: Ids, at: number): void {
    this.#isFetching = false;
    this.#failures = 0;
    this.retryAt = 0;
    this.#lastSize = ids.length;
    this.#highest = ids.last;
    this.#spare = { ids: ids[Symbol.iterator](), left: ids.length, size: ids.length, at };
  }

  /** Ends a fetch without ids. The next fetch begins after a pause. */
  failed(now: number): void {
    this.#isFetching = false;
    this.retryAt = now + Math.min(FIRST_PAUSE_MS * 2 ** Math.min(this.#failures, 16), MAX_PAUSE_MS);
    this.#failures += 1;
  }

  /** Returns a range, unless its ids are too old. */
  #fresh(range: Range | undefined, now: number): Range | undefined {
    if (range === undefined || now - range.at <= this.#maxAgeMs) {
      return range;
    }
    this.#dropped += range.left;
    return undefined;
  }

  /**
   * Begins a fetch if no id is left, or if half of the present range is used and there is no spare range. The first id
   * alone begins none, because a handle may never need a second id.
   */
  #due(now: number, waits: boolean): Fetch | undefined {
    if (this.#isFetching || this.#spare !== undefined || now < this.retryAt) {
      return undefined;
    }
    const isHalfUsed = this.#present === undefined || this.#present.left * 2 <= this.#present.size;
    if (!waits && (this.#given < 2 || !isHalfUsed)) {
      return undefined;
    }
    const size = this.#size(now);
    this.#isFetching = true;
    this.#measured = { at: now, given: this.#given };
    return { size, after: this.#highest };
  }

  /** Returns the number of ids that last for the hold at the present rate, at most twice the last range. */
  #size(now: number): number {
    let used = 0;
    if (this.#measured !== undefined) {
      const { at, given } = this.#measured;
      used = ((this.#given - given) * this.#holdMs) / Math.max(now - at, 1e-6);
    }
    const room = this.#given * 2 + 2 - this.unused;
    return Math.max(Math.floor(Math.min(used, this.#lastSize * 2, room, this.#maxSize)), 1);
  }
}

/**
 * Ids that are fetched ahead. The ids of one handle are unique and increase; those of different handles are unique, and
 * in no order. Fetched ids that are not used are a gap: at most 2 and twice the used ids. The next range is fetched
 * when half of the present range is used, so a handle in use gives out ids while no node responds.
 */
export class Segments {
  readonly #take: (fetch: Fetch) => Promise<Ids>;
  readonly #buffer: Buffer;
  /** The fetch in progress, which ends with its error. */
  #fetching: Promise<unknown> | undefined;
  #isClosed = false;

  /** Made by `Series.segments`. */
  constructor(take: (fetch: Fetch) => Promise<Ids>, buffer: Buffer) {
    this.#take = take;
    this.#buffer = buffer;
  }

  /** Takes the next id, if one is fetched. */
  tryNext(): bigint | undefined {
    if (this.#isClosed) {
      throw new ClientClosed();
    }
    const { id, fetch } = this.#buffer.take(systemClock.now());
    if (fetch !== undefined) {
      this.#fetching = this.#fetch(fetch);
    }
    return id;
  }

  /**
   * Takes the next id. Waits only while none is fetched. Throws what `Series.take` throws; a later call fetches again.
   */
  async next(): Promise<bigint> {
    for (;;) {
      const id = this.tryNext();
      if (id !== undefined) {
        return id;
      }
      if (this.#fetching === undefined) {
        // A fetch has failed a moment ago.
        await sleep(systemClock, Math.max(this.#buffer.retryAt - systemClock.now(), 0));
        continue;
      }
      const error = await this.#fetching;
      if (error !== undefined) {
        throw error;
      }
    }
  }

  /** Closes the handle. Returns the number of its ids that were fetched and not used, which become a gap. */
  close(): number {
    this.#isClosed = true;
    return this.#buffer.unused;
  }

  /** Fetches a range; returns the error of a failed fetch. */
  async #fetch(fetch: Fetch): Promise<unknown> {
    try {
      this.#buffer.fetched(await this.#take(fetch), systemClock.now());
      return undefined;
    } catch (error) {
      this.#buffer.failed(systemClock.now());
      return error;
    } finally {
      this.#fetching = undefined;
    }
  }
}
