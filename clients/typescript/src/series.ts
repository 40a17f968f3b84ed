/** Series: ids through any node of the cluster, with the attempts of every other call. */

import { Attempts } from "./attempts.js";
import { Refused } from "./errors.js";
import { Failure } from "./failure.js";
import { IdService } from "./generated/seqsvr/v1/ids_pb.js";
import type { StoredSeries } from "./generated/seqsvr/v1/series_pb.js";
import { CurrentId, type DecodedId, decodeId, decodeShape, Ids, MAX_ID, type Shape } from "./ids.js";
import { checkCount } from "./limits.js";
import type { CallOptions } from "./options.js";
import type { RouteSet } from "./routes.js";
import { Buffer, type Fetch, HOLD_MS, Segments } from "./segments.js";
import type { Call } from "./shared.js";

/** Runs a call of the client. */
export type RunCall = <R>(
  method: string,
  items: number,
  options: CallOptions | undefined,
  body: (call: Call) => Promise<R>,
) => Promise<R>;

/**
 * A series of ids. `lane` and `after` return the same series with other settings.
 *
 * Any node serves a call. Failed attempts are repeated as those of the client; ids of a lost response are a gap, never
 * a duplicate. An id is a bigint up to 2^63 - 1; in JSON it is a string.
 */
export class Series {
  readonly name: string;
  /** The shape of the ids. */
  readonly shape: Shape;
  readonly #run: RunCall;
  readonly #home: RouteSet;
  readonly #lane: number | undefined;
  readonly #after: bigint;

  /** Made by `Client.series`. */
  constructor(run: RunCall, home: RouteSet, name: string, shape: Shape, lane?: number, after = 0n) {
    this.#run = run;
    this.#home = home;
    this.name = name;
    this.shape = shape;
    this.#lane = lane;
    this.#after = after;
  }

  /** Returns the same series for the ids of one lane. Required where the caller names lanes, refused elsewhere. */
  lane(lane: number): Series {
    if (typeof lane !== "number" || !Number.isInteger(lane)) {
      throw new TypeError(`a lane is an integer, not ${typeof lane} ${lane}`);
    }
    if (lane < 0 || lane >= 2 ** 32) {
      throw refusal("LANE_OUT_OF_RANGE", "OUT_OF_RANGE", `series "${this.name}" has no lane ${lane}`);
    }
    return new Series(this.#run, this.#home, this.name, this.shape, lane, this.#after);
  }

  /** Returns the same series for ids above `id`. */
  after(id: bigint): Series {
    return new Series(this.#run, this.#home, this.name, this.shape, this.#lane, this.#checkId(id));
  }

  /** Takes the next id. */
  async next(options?: CallOptions): Promise<bigint> {
    return (await this.take(1, options)).last;
  }

  /** Takes the next `count` ids of one lane, ascending: 1 to 1,000,000, of a series with a time up to 10,000. */
  async take(count: number, options?: CallOptions): Promise<Ids> {
    checkCount(undefined, count);
    const [series, lane, after] = [this.name, this.#lane, this.#after];
    const request = { series, count, lane, after: after === 0n ? undefined : after };
    return await this.#call("ids.next", options, async (attempts, addr) => {
      const response = await attempts.send(addr, IdService.method.next, request);
      return Ids.checked(addr, response, count, after);
    });
  }

  /** Reads the last id of a counter. Moves nothing. */
  async current(options?: CallOptions): Promise<CurrentId> {
    return await this.#call("ids.current", options, async (attempts, addr) => {
      const { id, exact, epoch } = await attempts.send(addr, IdService.method.current, { series: this.name });
      return new CurrentId(id === 0n ? undefined : id, exact, epoch);
    });
  }

  /**
   * Raises a counter to one of its ids, so that the next id is above it. Idempotent. Returns the epoch of the
   * ownership. The refusal ALREADY_PAST means that the counter is above the id.
   */
  async advance(id: bigint, options?: CallOptions): Promise<bigint> {
    const request = { series: this.name, to: this.#checkId(id) };
    return await this.#call("ids.advance", options, async (attempts, addr) => {
      return (await attempts.send(addr, IdService.method.advance, request)).epoch;
    });
  }

  /** Returns a handle that fetches ids ahead, for `holdMs` at the present rate. Sends nothing before its first call. */
  segments({ holdMs = HOLD_MS }: { holdMs?: number } = {}): Segments {
    const take = async ({ size, after }: Fetch) => await (after === 0n ? this : this.after(after)).take(size);
    return new Segments(take, Buffer.of(this.shape, holdMs, this.#after));
  }

  /**
   * Returns the parts of an id. Sends nothing. Throws Refused with NOT_AN_ID for a number that is no id of the series.
   */
  decode(id: bigint): DecodedId {
    const parts = decodeId(this.shape, this.#checkId(id));
    if (parts === undefined) {
      throw this.#noId(id);
    }
    return parts;
  }

  async #call<R>(
    method: string,
    options: CallOptions | undefined,
    send: (attempts: Attempts, addr: string) => Promise<R>,
  ): Promise<R> {
    return await this.#run(method, 1, options, async (call) => {
      const attempts = new Attempts(call);
      for (;;) {
        const addr = attempts.idTarget(this.#home);
        try {
          return await send(attempts, addr);
        } catch (error) {
          if (!(error instanceof Failure)) {
            throw error;
          }
          await attempts.prepareRetry(undefined, addr, error);
        }
      }
    });
  }

  #checkId(id: bigint): bigint {
    if (typeof id !== "bigint") {
      throw new TypeError(`an id is a bigint, not a ${typeof id}`);
    }
    if (id <= 0n || id > MAX_ID) {
      throw this.#noId(id);
    }
    return id;
  }

  #noId(id: bigint): Refused {
    return refusal("NOT_AN_ID", "INVALID_ARGUMENT", `${id} is no id of series "${this.name}"`);
  }
}

/** Returns the series of a name in the routes. Throws Refused for a series that the client does not know. */
export function knownSeries(
  run: RunCall,
  name: string,
  found: { home: RouteSet; series: StoredSeries } | undefined,
): Series {
  const shape = found && decodeShape(found.series.shape);
  if (found === undefined || shape === undefined) {
    const text = `no series that this client can use is named "${name}": \`seqsvr series list\` lists them`;
    throw refusal("UNKNOWN_SERIES", "NOT_FOUND", text);
  }
  return new Series(run, found.home, name, shape);
}

/** Returns the refusal of a request that was not sent. */
export function refusal(reason: string, code: string, message: string): Refused {
  return new Refused({
    uid: undefined,
    code,
    reason,
    message,
    retryAfterMs: undefined,
    mayHaveApplied: false,
    attempts: 0,
  });
}
