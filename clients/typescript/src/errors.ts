/** Errors of calls. They state what a caller needs to know to decide about a retry. */

/** Kinds of errors. Each kind has a class of its own. */
export type ErrorKind =
  | "uid_outside"
  | "count"
  | "refused"
  | "set_unavailable"
  | "unreachable"
  | "deadline"
  | "bad_answer"
  | "closed"
  | "cancelled"
  | "connect";

interface Properties {
  reason: string;
  retryable: boolean;
  mayHaveApplied?: boolean;
  attempts?: number;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** Error of a call, or of one item of a batch. */
export abstract class SeqError extends Error {
  /** Kind of the error, for a `switch`. */
  abstract readonly kind: ErrorKind;
  /** Reason in capitals, such as `UNSERVED`; the server's own reason if a server refused. */
  readonly reason: string;
  /** Whether the same call can succeed later. A retry never returns a number that was returned before. */
  readonly retryable: boolean;
  /** Whether numbers may have been consumed although none was returned. They are skipped, never repeated. */
  readonly mayHaveApplied: boolean;
  /** Number of times that the request was sent. */
  readonly attempts: number;
  /** Milliseconds after which the server expects a retry to succeed; `undefined` if it stated no time. */
  readonly retryAfterMs: number | undefined;

  constructor(message: string, properties: Properties) {
    super(message, properties.cause === undefined ? undefined : { cause: properties.cause });
    this.name = new.target.name;
    this.reason = properties.reason;
    this.retryable = properties.retryable;
    this.mayHaveApplied = properties.mayHaveApplied ?? false;
    this.attempts = properties.attempts ?? 0;
    this.retryAfterMs = properties.retryAfterMs;
  }
}

/** The uid is in no set that the client knows. Nothing was sent. */
export class UidOutside extends SeqError {
  readonly kind = "uid_outside";
  readonly uid: bigint;

  constructor(uid: bigint) {
    super(`uid ${uid} is outside every known set`, { reason: "UID_OUTSIDE", retryable: false });
    this.uid = uid;
  }
}

/** The count is 0 or above the limit of an item. Nothing was sent. */
export class CountOutOfRange extends SeqError {
  readonly kind = "count";
  readonly count: number;

  constructor(uid: bigint | undefined, count: number, limit: number) {
    super(`${of(uid)}count ${count} is not in 1..=${limit}`, { reason: "COUNT_OUT_OF_RANGE", retryable: false });
    this.count = count;
  }
}

/** A refusal, as a server sent it. */
export interface Refusal {
  /** The requested uid; `undefined` for a request for ids or keys. */
  uid: bigint | undefined;
  /** gRPC code, such as `UNAVAILABLE`. */
  code: string;
  /** Reason in capitals; empty if the refusal does not come from the sequence service itself. */
  reason: string;
  message: string;
  retryAfterMs: number | undefined;
  /** Highest number to which an advance may raise the uid at present, if the reason is `ADVANCE_TOO_FAR`. */
  bound?: bigint | undefined;
  mayHaveApplied: boolean;
  attempts: number;
}

/** A server refused the request. The client's retries were refused too, or a retry would have been useless. */
export class Refused extends SeqError {
  readonly kind = "refused";
  readonly uid: bigint | undefined;
  readonly code: string;
  readonly bound: bigint | undefined;

  constructor(refusal: Refusal) {
    super(`${of(refusal.uid)}${refusal.message}`, {
      ...refusal,
      reason: refusal.reason || "REFUSED_BY_OTHERS",
      retryable: isRetryable(refusal),
    });
    this.uid = refusal.uid;
    this.code = refusal.code;
    this.bound = refusal.bound;
  }
}

/** No node of the section's set could be reached. Calls for other sets are unaffected. */
export class SetUnavailable extends SeqError {
  readonly kind = "set_unavailable";
  readonly code = "UNAVAILABLE";
  /** Id of the set; 0 if the server did not state it. */
  readonly setId: bigint;
  /** Name of the set; empty if it is not known. */
  readonly setName: string;

  constructor(
    uid: bigint | undefined,
    set: { id: bigint; name: string },
    properties: Pick<Refusal, "mayHaveApplied" | "attempts" | "retryAfterMs">,
  ) {
    const shown = set.name ? JSON.stringify(set.name) : String(set.id);
    super(`${of(uid)}the section is in set ${shown}, of which no node can be reached`, {
      ...properties,
      reason: "SET_UNAVAILABLE",
      retryable: true,
    });
    this.setId = set.id;
    this.setName = set.name;
  }
}

/** The connection of the last attempt failed, or the node at its other end did not respond in time. */
export class Unreachable extends SeqError {
  readonly kind = "unreachable";
  readonly addr: string;

  constructor(
    addr: string,
    message: string,
    properties: { mayHaveApplied: boolean; attempts: number; cause?: unknown },
  ) {
    super(`the call to ${addr} failed after ${properties.attempts} attempts: ${message}`, {
      ...properties,
      reason: "UNREACHABLE",
      retryable: true,
    });
    this.addr = addr;
  }
}

/** The deadline passed before a response arrived. */
export class DeadlineExceeded extends SeqError {
  readonly kind = "deadline";

  constructor(properties: { mayHaveApplied: boolean; attempts: number }) {
    super(`no response before the deadline, after ${properties.attempts} attempts`, {
      ...properties,
      reason: "DEADLINE_EXCEEDED",
      retryable: true,
    });
  }
}

/** A server sent a response that does not match the request: it implements another protocol, or has a bug. */
export class BadAnswer extends SeqError {
  readonly kind = "bad_answer";
  readonly addr: string;

  constructor(addr: string, what: string, attempts = 1) {
    super(`${addr} sent an invalid response: ${what}`, {
      reason: "BAD_ANSWER",
      retryable: false,
      mayHaveApplied: true,
      attempts,
    });
    this.addr = addr;
  }
}

/** The client was closed, before the call or while it was in flight. */
export class ClientClosed extends SeqError {
  readonly kind = "closed";

  constructor(properties: { mayHaveApplied?: boolean; attempts?: number } = {}) {
    super("the client is closed; open a new one", { ...properties, reason: "CLIENT_CLOSED", retryable: false });
  }
}

/** The caller aborted the call. Its `name` is `AbortError`, and `cause` is the reason of the signal. */
export class Cancelled extends SeqError {
  readonly kind = "cancelled";

  constructor(properties: { mayHaveApplied?: boolean; attempts?: number; cause?: unknown }) {
    super("the call was aborted by its caller", { ...properties, reason: "CANCELLED", retryable: false });
    this.name = "AbortError";
  }
}

/** No seed has routes, or a seed or its routes are invalid. */
export class ConnectFailed extends SeqError {
  readonly kind = "connect";

  constructor(message: string, properties: { retryable: boolean; cause?: unknown }) {
    super(message, { ...properties, reason: "CONNECT" });
  }
}

/**
 * Returns whether the same request can succeed later. A reason that this release does not know is judged by its code.
 */
export function isRetryable(refusal: Pick<Refusal, "code" | "retryAfterMs">): boolean {
  return refusal.retryAfterMs !== undefined || refusal.code === "UNAVAILABLE" || refusal.code === "DEADLINE_EXCEEDED";
}

/** Returns a copy of an error that states that numbers may have been consumed, by an earlier attempt. */
export function havingApplied<E extends SeqError>(error: E): E {
  const own = Object.getOwnPropertyDescriptors(error);
  const mayHaveApplied = { ...Object.getOwnPropertyDescriptor(error, "mayHaveApplied"), value: true };
  return Object.create(Object.getPrototypeOf(error), { ...own, mayHaveApplied });
}

/** Returns the beginning of a message about a uid. */
function of(uid: bigint | undefined): string {
  return uid === undefined ? "" : `uid ${uid}: `;
}
