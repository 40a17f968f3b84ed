/** Results of calls for numbers. They are validated when a response is decoded. */

import { BadAnswer } from "./errors.js";
import { Exactness } from "./generated/seqsvr/v1/sequence_pb.js";

/** Largest number. */
export const MAX_SEQ = (1n << 63n) - 1n;

/** Numbers allocated for one uid: all numbers from `first` to `value`. No other request gets any of them. */
export class Allocation {
  /** The last of the numbers, 1 to 2^63 - 1; the only number if `count` is 1. */
  readonly value: bigint;
  /**
   * The number that was allocated directly before `first`; 0 if there was none, if the owner does not know it, or if
   * the uid has been advanced since. A receiver that has not seen `prev` has missed a message, unless `lost` is above
   * 0.
   */
  readonly prev: bigint;
  /** Epoch of the ownership that allocated the numbers, 1 or above. For one uid it never falls. */
  readonly epoch: bigint;
  /** Count of the numbers, 1 to 1,000,000. */
  readonly count: number;
  /** Earlier attempts of this call without a response. Each may have consumed `count` numbers, which are skipped. */
  readonly lost: number;

  constructor(value: bigint, prev: bigint, epoch: bigint, count: number, lost: number) {
    this.value = value;
    this.prev = prev;
    this.epoch = epoch;
    this.count = count;
    this.lost = lost;
  }

  /** The first number. */
  get first(): bigint {
    return this.value - BigInt(this.count) + 1n;
  }

  /** Iterates over all numbers, in order. */
  *[Symbol.iterator](): Generator<bigint, void> {
    for (let number = this.first; number <= this.value; number += 1n) {
      yield number;
    }
  }

  /** Returns the fields for JSON, in which 64-bit numbers are strings. */
  toJSON(): { first: string; value: string; prev: string; epoch: string; count: number; lost: number } {
    const { first, value, prev, epoch, count, lost } = this;
    return { first: `${first}`, value: `${value}`, prev: `${prev}`, epoch: `${epoch}`, count, lost };
  }

  /** Returns this allocation with further attempts that may have consumed numbers. */
  withLost(lost: number): Allocation {
    return lost === 0 ? this : new Allocation(this.value, this.prev, this.epoch, this.count, this.lost + lost);
  }

  /** Creates an allocation from the fields of a response of `addr`, after validating them. */
  static checked(
    addr: string,
    fields: { value: bigint; prev: bigint; epoch: bigint },
    count: number,
    lost: number,
  ): Allocation {
    if (fields.value > MAX_SEQ || fields.prev + BigInt(count) > fields.value) {
      throw new BadAnswer(addr, "numbers that do not follow each other");
    }
    return new Allocation(fields.value, fields.prev, fields.epoch, count, lost);
  }
}

/** The last number of a uid, or an upper bound of it. */
export class Current {
  /** The last number or an upper bound of it, 0 to 2^63 - 1. It never falls. */
  readonly value: bigint;
  /**
   * Whether `value` is exactly the last number; an exact 0 means that the uid never had one. Otherwise no number above
   * `value` was allocated. This is so after a crash of the owner, until the next number of the uid.
   */
  readonly exact: boolean;
  /** Epoch of the ownership that responded, 1 or above. */
  readonly epoch: bigint;

  constructor(value: bigint, exact: boolean, epoch: bigint) {
    this.value = value;
    this.exact = exact;
    this.epoch = epoch;
  }

  /** Returns the fields for JSON, in which 64-bit numbers are strings. */
  toJSON(): { value: string; exact: boolean; epoch: string } {
    return { value: `${this.value}`, exact: this.exact, epoch: `${this.epoch}` };
  }

  /** Validates the fields of a response of `addr`. */
  static checked(addr: string, value: bigint, exactness: Exactness, epoch: bigint): Current {
    if (exactness !== Exactness.EXACT && exactness !== Exactness.UPPER_BOUND) {
      throw new BadAnswer(addr, "a value that is neither exact nor a bound");
    }
    return new Current(value, exactness === Exactness.EXACT, epoch);
  }
}
