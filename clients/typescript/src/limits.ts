/** Limits of calls, which are the same in all SDKs, and the checks of arguments against them. */

import { CountOutOfRange } from "./errors.js";

/** Default deadline of a call: longer than the sections of a lost host wait for their next owner. */
export const DEFAULT_DEADLINE_MS = 5_000;

/** Longest deadline; a longer one is reduced to it. */
export const MAX_DEADLINE_MS = 24 * 3_600 * 1_000;

/** Most numbers of one item. */
export const MAX_COUNT = 1_000_000;

/** Limit of a response: that of a full batch with routes, as in the servers. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Largest number to which a uid or a key is advanced. */
const MAX_ADVANCE = 1n << 62n;

/** Checks the count of an item. */
export function checkCount(uid: bigint | undefined, count: number): void {
  if (typeof count !== "number") {
    throw new TypeError(`a count is a number, not a ${typeof count}`);
  }
  if (!Number.isInteger(count) || count < 1 || count > MAX_COUNT) {
    throw new CountOutOfRange(uid, count, MAX_COUNT);
  }
}

/** Checks the counts of a batch, whose items are named `what`. */
export function checkCounts(what: string, items: number, counts?: readonly number[], uids?: readonly bigint[]): void {
  if (counts !== undefined && counts.length !== items) {
    throw new RangeError(`there are ${items} ${what}, but ${counts.length} counts`);
  }
  counts?.forEach((count, index) => {
    checkCount(uids?.[index], count);
  });
}

/** Checks the number to which an item is advanced. */
export function checkAdvance(what: string, to: bigint): void {
  if (typeof to !== "bigint") {
    throw new TypeError(`the number to advance to is a bigint, not a ${typeof to}`);
  }
  if (to < 0n || to > MAX_ADVANCE) {
    throw new RangeError(`a ${what} is advanced to a number in 0..=2^62, not ${to}`);
  }
}
