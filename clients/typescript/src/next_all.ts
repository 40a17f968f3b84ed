/** Numbers for a stream of uids, with a bounded number of calls in flight. */

import type { SeqError } from "./errors.js";
import type { Allocation } from "./results.js";

/** The result for one uid of a stream. */
export interface NextAllItem {
  uid: bigint;
  result: Allocation | SeqError;
}

/**
 * Yields a result for each uid, in the order of the uids. A uid is taken from its source only while fewer than
 * `concurrency` results are missing or not consumed, so a slow consumer slows the source.
 */
export async function* nextAll(
  uids: Iterable<bigint> | AsyncIterable<bigint>,
  concurrency: number,
  next: (uid: bigint) => Promise<Allocation | SeqError>,
): AsyncGenerator<NextAllItem, void> {
  const source = Symbol.asyncIterator in uids ? uids[Symbol.asyncIterator]() : uids[Symbol.iterator]();
  const window: { uid: bigint; result: Promise<Allocation | SeqError> }[] = [];
  let taking: Promise<IteratorResult<bigint>> | undefined;
  let hasEnded = false;
  try {
    for (;;) {
      if (!hasEnded && taking === undefined && window.length < concurrency) {
        taking = Promise.resolve(source.next());
      }
      const [head] = window;
      if (head === undefined && taking === undefined) {
        return;
      }
      // A result that is ready does not wait for a slow source.
      const event = await Promise.race([
        ...(taking === undefined ? [] : [taking.then((taken) => ({ taken }))]),
        ...(head === undefined ? [] : [head.result.then((result) => ({ item: { uid: head.uid, result } }))]),
      ]);
      if ("item" in event) {
        window.shift();
        yield event.item;
        continue;
      }
      taking = undefined;
      if (event.taken.done) {
        hasEnded = true;
        continue;
      }
      const uid = event.taken.value;
      const result = next(uid);
      // A rejection is that of the iteration; without a handler it would end the process until then.
      result.catch(() => undefined);
      window.push({ uid, result });
    }
  } finally {
    if (!hasEnded) {
      taking?.catch(() => undefined);
      await source.return?.();
    }
  }
}
