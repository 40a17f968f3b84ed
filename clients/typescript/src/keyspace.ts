/** Keyspaces: numbers of keys, which are any bytes, with the attempts of calls for uids. */

import { Attempts } from "./attempts.js";
import type { Buckets } from "./buckets.js";
import { refresh } from "./discovery.js";
import { SeqError } from "./errors.js";
import { KeyService } from "./generated/seqsvr/v1/keys_pb.js";
import { checkAdvance, checkCount, checkCounts } from "./limits.js";
import { allocateKeys, readKeys } from "./many.js";
import type { CallOptions } from "./options.js";
import { Allocation, Current } from "./results.js";
import { type RunCall, refusal } from "./series.js";
import type { Call } from "./shared.js";
import { unary } from "./single.js";

/** Limit on the bytes of a key. */
export const MAX_KEY_BYTES = 512;

/** A key. A text and its UTF-8 are the same key. */
export type Key = string | Uint8Array;

/**
 * A keyspace: counters of keys of 1 to 512 bytes.
 *
 * A call is sent to the owner of its key's bucket, and any node serves it while that one cannot be reached. Failed
 * attempts are repeated as the attempts of the client; numbers of a lost response are a gap, never a duplicate. An error of a
 * key has no uid. A key of another size is refused with KEY_SIZE and not sent, in a batch as the only item, and every call of a
 * keyspace that the client does not find with UNKNOWN_KEYSPACE.
 */
export class Keyspace {
  readonly name: string;
  readonly #run: RunCall;

  /** Made by `Client.keyspace`. */
  constructor(run: RunCall, name: string) {
    this.#run = run;
    this.name = name;
  }

  /** Allocates the next number of a key. */
  async next(key: Key, options?: CallOptions): Promise<Allocation> {
    return await this.nextN(key, 1, options);
  }

  /** Allocates the next `count` numbers of a key, 1 to 1,000,000, which are contiguous. */
  async nextN(key: Key, count: number, options?: CallOptions): Promise<Allocation> {
    const rawKey = encoded(key);
    checkCount(undefined, count);
    return await this.#call("keys.next", rawKey, options, async (attempts, section) => {
      return await unary(attempts, section, async ({ addr, routeVersion, epoch }) => {
        const request = { keyspace: this.name, rawKey, count, routeVersion, epoch };
        const response = await attempts.send(addr, KeyService.method.next, request);
        attempts.shared.adopt(response.routes, addr);
        return Allocation.checked(addr, response, count, attempts.lost + (response.lost ?? 0));
      });
    });
  }

  /**
   * Allocates one number for each key, or `counts[i]` for `keys[i]`, in one request to each owner, as `Client.nextMany`
   * does for uids. Requests have up to 10,000 keys and 128 KiB of them; more keys go in several, one after the other.
   */
  async nextMany(
    keys: readonly Key[],
    counts?: readonly number[],
    options?: CallOptions,
  ): Promise<(Allocation | SeqError)[]> {
    const batch = allEncoded(keys);
    checkCounts("keys", keys.length, counts);
    const sent = (counts ?? []).filter((_, index) => batch.refused[index] === undefined);
    return await this.#batch("keys.nextMany", batch, options, async (call, buckets) => {
      return await allocateKeys(call, buckets, this.name, batch.rawKeys, sent);
    });
  }

  /** Reads the last number of a key. Moves nothing. */
  async current(key: Key, options?: CallOptions): Promise<Current> {
    const rawKey = encoded(key);
    return await this.#call("keys.current", rawKey, options, async (attempts, section) => {
      return await unary(attempts, section, async ({ addr, routeVersion, epoch }) => {
        const request = { keyspace: this.name, rawKey, routeVersion, epoch };
        const response = await attempts.send(addr, KeyService.method.current, request);
        attempts.shared.adopt(response.routes, addr);
        return Current.checked(addr, response.value, response.exactness, response.epoch);
      });
    });
  }

  /** Reads the last number of each key. Moves nothing. */
  async currentMany(keys: readonly Key[], options?: CallOptions): Promise<(Current | SeqError)[]> {
    const batch = allEncoded(keys);
    return await this.#batch("keys.currentMany", batch, options, async (call, buckets) => {
      return await readKeys(call, buckets, this.name, batch.rawKeys);
    });
  }

  /**
   * Raises the counter of a key to `to`, 0 to 2^62, so that its next number is greater: for imports. Idempotent.
   * Returns the epoch of the ownership. The refusal ALREADY_PAST means that the last number is greater, or may be.
   */
  async advance(key: Key, to: bigint, options?: CallOptions): Promise<bigint> {
    const rawKey = encoded(key);
    checkAdvance("key", to);
    return await this.#call("keys.advance", rawKey, options, async (attempts, section) => {
      return await unary(attempts, section, async ({ addr, routeVersion, epoch }) => {
        const request = { keyspace: this.name, rawKey, to, routeVersion, epoch };
        const response = await attempts.send(addr, KeyService.method.advance, request);
        attempts.shared.adopt(response.routes, addr);
        return response.epoch;
      });
    });
  }

  /** Makes a call for one key. */
  async #call<R>(
    method: string,
    rawKey: Uint8Array,
    options: CallOptions | undefined,
    send: (attempts: Attempts, section: bigint) => Promise<R>,
  ): Promise<R> {
    return await this.#run(method, 1, options, async (call) => {
      const buckets = await this.#find(call);
      return await send(new Attempts(call, buckets), buckets.section(rawKey));
    });
  }

  /** Makes a call for the keys of a batch that have a right size, and returns the results of all its keys. */
  async #batch<R>(
    method: string,
    { rawKeys, refused }: Batch,
    options: CallOptions | undefined,
    send: (call: Call, buckets: Buckets) => Promise<(R | SeqError)[]>,
  ): Promise<(R | SeqError)[]> {
    if (rawKeys.length === 0 && refused.length > 0) {
      return refused.filter((error) => error !== undefined);
    }
    const sent = await this.#run(method, rawKeys.length, options, async (call) => {
      return await send(call, await this.#find(call));
    });
    const results = sent.values();
    return refused.map((error) => error ?? (results.next().value as R | SeqError));
  }

  /** Returns the buckets in the newest routes; fetches routes if they do not have the keyspace. */
  async #find(call: Call): Promise<Buckets> {
    const { routes } = call.shared;
    if (routes.keyspace(this.name) === undefined) {
      await refresh(call.shared, [], call.deadlineAt, call.signal);
    }
    if (call.signal.aborted) {
      throw call.aborted({ mayHaveApplied: false, attempts: 0 });
    }
    const buckets = routes.keyspace(this.name);
    if (buckets === undefined) {
      const text = `no keyspace is named "${this.name}": \`seqsvr keyspace list\` lists them`;
      throw refusal("UNKNOWN_KEYSPACE", "NOT_FOUND", text);
    }
    return buckets;
  }
}

/** Returns the bytes of a key, as a copy. Throws Refused with KEY_SIZE, and TypeError for a key that has no bytes. */
function encoded(key: Key): Uint8Array<ArrayBuffer> {
  let bytes: Uint8Array<ArrayBuffer>;
  if (key instanceof Uint8Array) {
    bytes = new Uint8Array(key);
  } else if (typeof key !== "string") {
    throw new TypeError(`a key is a string or a Uint8Array, not a ${typeof key}`);
  } else if (/\p{Surrogate}/u.test(key)) {
    throw new TypeError("a key is a string with half of a surrogate pair, which has no UTF-8: pass bytes");
  } else {
    bytes = new TextEncoder().encode(key);
  }
  if (bytes.length === 0 || bytes.length > MAX_KEY_BYTES) {
    const text = `the key has ${bytes.length} bytes: a key has 1 to ${MAX_KEY_BYTES}`;
    throw refusal("KEY_SIZE", "INVALID_ARGUMENT", text);
  }
  return bytes;
}

/** The keys of a batch. A key of another size is not sent, and its place in `refused` has the refusal. */
interface Batch {
  readonly rawKeys: Uint8Array<ArrayBuffer>[];
  readonly refused: (SeqError | undefined)[];
}

function allEncoded(keys: readonly Key[]): Batch {
  if (!Array.isArray(keys)) {
    // A string and a Uint8Array are lists as well.
    throw new TypeError(`keys are an array of strings or Uint8Arrays, not a ${typeof keys}`);
  }
  const batch: Batch = { rawKeys: [], refused: [] };
  for (const key of keys) {
    try {
      batch.rawKeys.push(encoded(key));
      batch.refused.push(undefined);
    } catch (error) {
      if (!(error instanceof SeqError)) {
        throw error;
      }
      batch.refused.push(error);
    }
  }
  return batch;
}
