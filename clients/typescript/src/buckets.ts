/** The routes of the buckets of keyspaces, whose sections follow the sections of the uids and of the lanes of series. */

import type * as pb from "./generated/seqsvr/v1/route_pb.js";
import type { StoredSeries } from "./generated/seqsvr/v1/series_pb.js";
import { merge } from "./merge.js";
import type { Cluster, Route, RouteSet } from "./routes.js";

/** Number of buckets of each keyspace. */
export const BUCKETS = 16_384;

/** Routes of the items of a call: of uids, or of the sections of keys' buckets. */
export interface Space {
  /** Whether the items are uids, which errors state. */
  readonly hasUids: boolean;
  /** Returns the newest known route of an item; `undefined` if it is in no known cluster. */
  route(item: bigint): Route | undefined;
  /** Adopts the statement of a refusal that the section of an item has been in a set since an epoch. */
  claim(item: bigint, setId: bigint, since: bigint): void;
}

/** The buckets of a keyspace. Its items are sections. */
export class Buckets implements Space {
  readonly hasUids = false;
  /** Section of the first bucket. */
  readonly first: number;
  readonly #cluster: Cluster;
  readonly #findOrAdd: (id: bigint) => RouteSet | undefined;
  readonly #routes: (Route | undefined)[] = new Array(BUCKETS).fill(undefined);

  constructor(first: number, cluster: Cluster, findOrAdd: (id: bigint) => RouteSet | undefined) {
    this.first = first;
    this.#cluster = cluster;
    this.#findOrAdd = findOrAdd;
  }

  /** Returns the section of the bucket of a key. */
  section(key: Uint8Array): bigint {
    return BigInt(this.first + bucket(key));
  }

  /** Returns the section of the bucket of a uid, in a keyspace of uids: that of its decimal digits. */
  sectionOfUid(uid: bigint): bigint {
    return this.section(new TextEncoder().encode(uid.toString()));
  }

  /** Returns the route of a section. Without a route, requests are sent to any node of the cluster's first set. */
  route(section: bigint): Route {
    const known = this.#routes[Number(section) - this.first];
    return known ?? { epoch: 0n, set: this.#cluster.home, owner: 0, isClaim: false };
  }

  claim(section: bigint, setId: bigint, since: bigint): void {
    const set = setId === 0n ? undefined : this.#findOrAdd(setId);
    if (set !== undefined) {
      const at = Number(section) - this.first;
      merge(this.#routes, at, at + 1, { epoch: since, set, owner: 0, isClaim: true });
    }
  }

  /** Merges a run of sections, as far as they are of this keyspace. */
  merge({ firstSection, sections }: pb.RouteRun, route: Route): void {
    const from = Math.max(firstSection - this.first, 0);
    merge(this.#routes, from, Math.min(firstSection + sections - this.first, BUCKETS), route);
  }
}

/** Returns the section of the first bucket of a keyspace; `undefined` for a series, and for a keyspace of later releases. */
export function firstBucket({ lanes }: StoredSeries): number | undefined {
  const isKeyspace = lanes?.keys !== undefined && lanes.count === BUCKETS && lanes.perSection === 1;
  return isKeyspace ? lanes.firstSection : undefined;
}

const [OPEN, CLOSE] = [0x7b, 0x7d];

/**
 * Returns the bucket of a key, which is its slot in Redis Cluster: CRC16 (XMODEM) modulo 16,384, of the key's hash tag
 * if it has one. The hash tag is the bytes between the first `{` and the next `}`, unless there are none.
 */
export function bucket(key: Uint8Array): number {
  const open = key.indexOf(OPEN);
  const close = open < 0 ? -1 : key.indexOf(CLOSE, open + 1);
  const hashed = close > open + 1 ? key.subarray(open + 1, close) : key;
  return crc16(hashed) % BUCKETS;
}

/** Returns the checksum with the polynomial 0x1021, the highest bit first, and 0 as the initial value. */
export function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc = ((crc << 8) & 0xffff) ^ (CRCS[(crc >> 8) ^ byte] ?? 0);
  }
  return crc;
}

/** The checksum of each byte. */
const CRCS = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) {
    crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  }
  return crc & 0xffff;
});
