/** Ids of a series: results of calls, validated as they are decoded, and the shapes that make ids of numbers. */

import { fromBinary } from "@bufbuild/protobuf";
import { BadAnswer } from "./errors.js";
import type { NextIdsResponse } from "./generated/seqsvr/v1/ids_pb.js";
import { ShapeSchema } from "./generated/seqsvr/v1/series_pb.js";

/** The largest id. */
export const MAX_ID = (1n << 63n) - 1n;

/** Ids at a fixed distance. */
interface Run {
  readonly first: bigint;
  readonly last: bigint;
  readonly count: number;
}

/** Ids of one call, ascending. Iteration makes each id as it is needed. No other call gets them. */
export class Ids {
  /** Lane of the ids; 0 for a counter. */
  readonly lane: number;
  /** Epoch of the ownership that allocated them, 1 or above. */
  readonly epoch: bigint;
  readonly #runs: readonly Run[];
  readonly #step: bigint;

  private constructor(runs: readonly Run[], step: bigint, lane: number, epoch: bigint) {
    this.#runs = runs;
    this.#step = step;
    this.lane = lane;
    this.epoch = epoch;
  }

  /** The number of ids. */
  get length(): number {
    return this.#runs.reduce((sum, { count }) => sum + count, 0);
  }

  /** The first id. */
  get first(): bigint {
    return this.#runs[0]?.first ?? 0n;
  }

  /** The last id. */
  get last(): bigint {
    return this.#runs.at(-1)?.last ?? 0n;
  }

  /** Iterates over the ids, in order. */
  *[Symbol.iterator](): Generator<bigint, void> {
    for (const { first, last } of this.#runs) {
      for (let id = first; id <= last; id += this.#step) {
        yield id;
      }
    }
  }

  /** Returns the ids for JSON, as strings. */
  toJSON(): string[] {
    return Array.from(this, String);
  }

  /** Validates a response of `addr`: `count` ids, ascending, all of them above `after`. */
  static checked(addr: string, response: NextIdsResponse, count: number, after: bigint): Ids {
    const runs: Run[] = [];
    let [left, last] = [count, after];
    for (const run of response.runs) {
      if (response.step === 0n || run.count === 0 || run.first <= last || run.count > left) {
        throw new BadAnswer(addr, "runs that are no ascending ids");
      }
      last = run.first + BigInt(run.count - 1) * response.step;
      left -= run.count;
      runs.push({ first: run.first, last, count: run.count });
    }
    if (left !== 0 || last > MAX_ID) {
      throw new BadAnswer(addr, "another number of ids than requested");
    }
    return new Ids(runs, response.step, response.lane, response.epoch);
  }
}

/** The last id of a counter, or an upper bound of it. */
export class CurrentId {
  /** The last id or an upper bound of it; `undefined` if the counter never had one. */
  readonly id: bigint | undefined;
  /** Whether `id` is exactly the last id; otherwise an owner crashed, and the next id ends this state. */
  readonly exact: boolean;
  /** Epoch of the ownership that responded, 1 or above. */
  readonly epoch: bigint;

  constructor(id: bigint | undefined, exact: boolean, epoch: bigint) {
    this.id = id;
    this.exact = exact;
    this.epoch = epoch;
  }

  /** Returns the fields for JSON, in which 64-bit numbers are strings. */
  toJSON(): { id: string | null; exact: boolean; epoch: string } {
    return { id: this.id === undefined ? null : `${this.id}`, exact: this.exact, epoch: `${this.epoch}` };
  }
}

/** The parts of an id. */
export interface DecodedId {
  /** The lane; 0 for a counter. */
  lane: number;
  /** The number of the lane's counter from which the id was made. */
  number: bigint;
  /** The time in the id; `undefined` for a counter. */
  time?: Date;
  /** Sequence number in the unit of time; `undefined` for a counter. */
  seq?: bigint;
}

/** Numbers at a fixed distance: `offset`, `offset + increment`, and so on, up to `maxId`. */
export interface CounterShape {
  readonly kind: "counter";
  readonly offset: bigint;
  readonly increment: bigint;
  readonly maxId: bigint;
}

/** Time, lane and sequence number, from the highest bit to the lowest. */
export interface TimedShape {
  readonly kind: "timed";
  /** Time 0, in milliseconds since 1970. */
  readonly epochMs: bigint;
  /** Milliseconds of a unit of time. */
  readonly unitMs: number;
  readonly timeBits: number;
  readonly laneBits: number;
  readonly seqBits: number;
}

/** How the number of a lane becomes an id. */
export type Shape = CounterShape | TimedShape;

/** Decodes the shape of a series; `undefined` for a shape that only later releases know. */
export function decodeShape(stored: Uint8Array): Shape | undefined {
  let message: ReturnType<typeof fromBinary<typeof ShapeSchema>>;
  try {
    message = fromBinary(ShapeSchema, stored);
  } catch {
    return undefined;
  }
  const { kind } = message;
  if (kind.case === "counter" && kind.value.increment > 0n) {
    const { offset, increment, maxId } = kind.value;
    return { kind: "counter", offset, increment, maxId };
  }
  if (kind.case === "timed") {
    const { epochMs, unitMs, timeBits, laneBits, seqBits } = kind.value;
    return { kind: "timed", epochMs, unitMs, timeBits, laneBits, seqBits };
  }
  return undefined;
}

/** Returns the parts of an id; `undefined` for a number that is no id of the shape. */
export function decodeId(shape: Shape, id: bigint): DecodedId | undefined {
  if (shape.kind === "counter") {
    const above = id - shape.offset;
    const isId = above >= 0n && id <= shape.maxId && above % shape.increment === 0n;
    return isId ? { lane: 0, number: above / shape.increment + 1n } : undefined;
  }
  const [laneBits, seqBits] = [BigInt(shape.laneBits), BigInt(shape.seqBits)];
  const units = id >> (laneBits + seqBits);
  if (id <= 0n || id > MAX_ID || units >> BigInt(shape.timeBits) !== 0n) {
    return undefined;
  }
  const lane = Number((id >> seqBits) & ((1n << laneBits) - 1n));
  const seq = id & ((1n << seqBits) - 1n);
  const time = new Date(Number(shape.epochMs + units * BigInt(shape.unitMs)));
  return { lane, number: (units << seqBits) | seq, time, seq };
}
