/**
 * Client of seqsvr: numbers that grow, for each user, and unique ids.
 *
 * @example
 * await using client = await Client.open({ seeds: "http://127.0.0.1:7100" });
 * const number = await client.next(42n);
 */

export { Client } from "./client.js";
export {
  BadAnswer,
  Cancelled,
  ClientClosed,
  ConnectFailed,
  CountOutOfRange,
  DeadlineExceeded,
  type ErrorKind,
  Refused,
  SeqError,
  SetUnavailable,
  UidOutside,
  Unreachable,
} from "./errors.js";
export { type CounterShape, CurrentId, type DecodedId, Ids, MAX_ID, type Shape, type TimedShape } from "./ids.js";
export { type Key, type Keyspace, MAX_KEY_BYTES } from "./keyspace.js";
export type { NextAllItem } from "./next_all.js";
export type { CallEnd, CallObserver, Log, LogLevel, Observer, Stats } from "./observer.js";
export type { CallOptions, ClientOptions, NextAllOptions } from "./options.js";
export { REASONS, type Reason, type ReasonInfo } from "./reasons.js";
export { Allocation, Current } from "./results.js";
export type { Segments } from "./segments.js";
export type { Series } from "./series.js";
export type { PemSource, TlsOptions } from "./tls.js";
export { VERSION } from "./version.js";
