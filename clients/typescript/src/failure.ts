/**
 * Classification of a failed attempt: a server refused it, it timed out, its connection failed, or its response
 * violates the protocol.
 *
 * Invariant: an attempt counts as not sent only if the connection proves that no server processed it. Any other failed
 * attempt may have been processed.
 */

import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";

/** Domain of the reasons of this service. */
const DOMAIN = "seqsvr";

/** Kinds of failed attempts. */
export type FailureKind =
  /** A server refused. The reason is empty if the refusal does not come from the sequence service itself. */
  | "refusal"
  /** The attempt's time is over. */
  | "timeout"
  /** The connection failed, or could not be made. */
  | "connection"
  /** The response violates the protocol. */
  | "invalid"
  /** The caller or the client ended the call. */
  | "aborted";

interface Properties {
  kind: FailureKind;
  code?: string;
  reason?: string;
  retryAfterMs?: number | undefined;
  setId?: bigint | undefined;
  since?: bigint | undefined;
  bound?: bigint | undefined;
  isFromServer?: boolean;
  neverSent?: boolean;
  cause?: unknown;
}

/** A failed attempt. */
export class Failure extends Error {
  readonly kind: FailureKind;
  /** gRPC code in capitals. */
  readonly code: string;
  readonly reason: string;
  readonly retryAfterMs: number | undefined;
  /** Id of the set that the refusal names. */
  readonly setId: bigint | undefined;
  /** Epoch since which the section is in that set. */
  readonly since: bigint | undefined;
  readonly bound: bigint | undefined;
  /** Whether a server sent the failure, so that its connection works. */
  readonly isFromServer: boolean;
  /** Whether certainly no server processed the request. */
  readonly neverSent: boolean;

  constructor(message: string, properties: Properties) {
    super(message, properties.cause === undefined ? undefined : { cause: properties.cause });
    this.name = "Failure";
    this.kind = properties.kind;
    this.code = properties.code ?? "UNKNOWN";
    this.reason = properties.reason ?? "";
    this.retryAfterMs = properties.retryAfterMs;
    this.setId = properties.setId;
    this.since = properties.since;
    this.bound = properties.bound;
    this.isFromServer = properties.isFromServer ?? false;
    this.neverSent = properties.neverSent ?? false;
  }

  /** Returns the failure of an attempt that lasted too long. */
  static timeout(): Failure {
    return new Failure("no response in time", { kind: "timeout", code: "DEADLINE_EXCEEDED" });
  }

  /** Returns the failure of an attempt whose call was ended. */
  static aborted(): Failure {
    return new Failure("the call was ended", { kind: "aborted", code: "CANCELLED" });
  }

  /** Returns the failure of a connection. */
  static connection(message: string, properties: { neverSent?: boolean; cause?: unknown } = {}): Failure {
    return new Failure(message, { ...properties, kind: "connection", code: "UNAVAILABLE" });
  }

  /** Classifies an error of connect-node. */
  static of(error: unknown): Failure {
    if (error instanceof Failure) {
      return error;
    }
    const failed = ConnectError.from(error);
    const code = codeName(failed.code);
    if (failed.metadata.has("grpc-status") || failed.metadata.has("grpc-status-details-bin")) {
      return refusal(failed, code);
    }
    if (failed.code === Code.DeadlineExceeded) {
      return Failure.timeout();
    }
    const causes = chain(failed.cause);
    const neverSent = causes.some((cause) => unprocessed.has(cause));
    const isOfNode = causes.some((cause) => cause instanceof Error && typeof Reflect.get(cause, "code") === "string");
    // A connection that ends closes its streams with CANCEL, which connect reports without a cause. A gateway in
    // between responds with a status of HTTP.
    const isBroken = failed.code === Code.Canceled || failed.code === Code.Aborted || failed.code === Code.Unavailable;
    if (neverSent || isOfNode || isBroken || failed.rawMessage.startsWith("http/2 stream closed")) {
      return Failure.connection(text(failed), { neverSent, cause: error });
    }
    return new Failure(failed.rawMessage, { kind: "invalid", code, cause: error });
  }
}

/** Errors of requests that no server processed. */
const unprocessed = new WeakSet<object>();

/** Marks an error as that of a request that no server processed; returns the error. */
export function markUnprocessed<E extends Error>(error: E): E {
  unprocessed.add(error);
  return error;
}

/** Returns the name of a gRPC code in capitals; codes outside of 1 ..= 16 are unknown. */
export function codeName(code: number): string {
  const name: string | undefined = Code[code];
  if (name === undefined) {
    return "UNKNOWN";
  }
  // gRPC writes this code in the British way.
  return name === "Canceled" ? "CANCELLED" : name.replace(/(?<!^)[A-Z]/g, "_$&").toUpperCase();
}

function refusal(failed: ConnectError, code: string): Failure {
  const properties: Properties = { kind: "refusal", code, isFromServer: true };
  for (const detail of failed.details) {
    if (!("type" in detail)) {
      continue;
    }
    if (detail.type === "google.rpc.ErrorInfo") {
      const info = errorInfo(detail.value);
      if (info.domain === DOMAIN) {
        properties.reason = info.reason;
        properties.setId = unsigned(info.metadata.get("set"));
        properties.since = unsigned(info.metadata.get("since"));
        properties.bound = unsigned(info.metadata.get("bound"));
      }
    } else if (detail.type === "google.rpc.RetryInfo") {
      properties.retryAfterMs = retryDelayMs(detail.value);
    }
  }
  // Only the timeout of the request causes these codes; the server noticed it before the client did.
  if (!properties.reason && (failed.code === Code.DeadlineExceeded || failed.code === Code.Canceled)) {
    return new Failure(failed.rawMessage, { ...properties, kind: "timeout" });
  }
  // The message of a refusal without a reason may be empty; then only the code shows where it comes from.
  return new Failure(properties.reason ? failed.rawMessage : `${code}: ${failed.rawMessage}`, properties);
}

/** Returns the message of the first cause that connect did not make. */
function text(failed: ConnectError): string {
  const cause = chain(failed.cause).find((each) => each instanceof Error && !(each instanceof ConnectError));
  if (cause !== undefined) {
    return messageOf(cause);
  }
  return failed.code === Code.Canceled ? "the connection was closed before the response" : failed.rawMessage;
}

/** Returns the message of an error of a connection, for people. */
export function messageOf(error: unknown): string {
  // Of several addresses of a name, each one has an error of its own.
  if (error instanceof AggregateError && error.errors.length > 0) {
    return error.errors.map(messageOf).join(", ");
  }
  if (!(error instanceof Error)) {
    return String(error);
  }
  // The message of OpenSSL has places of its code around the reason.
  const reason = Reflect.get(error, "library") === undefined ? undefined : Reflect.get(error, "reason");
  return typeof reason === "string" ? `TLS: ${reason}` : error.message;
}

/** Returns the chain of errors that caused an error, the direct cause first. */
function chain(cause: unknown): object[] {
  const causes: object[] = [];
  for (let each = cause; typeof each === "object" && each !== null && !causes.includes(each); ) {
    causes.push(each);
    each = Reflect.get(each, "cause");
  }
  return causes;
}

/** Parses an unsigned 64-bit number of a refusal's metadata; `undefined` if it is none. */
function unsigned(number: string | undefined): bigint | undefined {
  if (number === undefined || !/^\d{1,20}$/.test(number)) {
    return undefined;
  }
  const parsed = BigInt(number);
  return parsed < 1n << 64n ? parsed : undefined;
}

/** Calls `field` for each field of a message. It returns whether it has read the field. */
function eachField(bytes: Uint8Array, field: (number: number, reader: BinaryReader) => boolean): void {
  const reader = new BinaryReader(bytes);
  try {
    while (reader.pos < reader.len) {
      const [number, type] = reader.tag();
      if (type !== WireType.LengthDelimited && type !== WireType.Varint) {
        reader.skip(type, number);
      } else if (!field(number, reader)) {
        reader.skip(type, number);
      }
    }
  } catch {
    // A detail that cannot be decoded is as good as none: the code of the refusal remains.
  }
}

/** Decodes a `google.rpc.ErrorInfo`. */
function errorInfo(bytes: Uint8Array): { reason: string; domain: string; metadata: Map<string, string> } {
  const info = { reason: "", domain: "", metadata: new Map<string, string>() };
  eachField(bytes, (number, reader) => {
    if (number === 1) {
      info.reason = reader.string();
    } else if (number === 2) {
      info.domain = reader.string();
    } else if (number === 3) {
      let [key, value] = ["", ""];
      eachField(reader.bytes(), (part, entry) => {
        if (part === 1) {
          key = entry.string();
        } else if (part === 2) {
          value = entry.string();
        }
        return part === 1 || part === 2;
      });
      info.metadata.set(key, value);
    }
    return number >= 1 && number <= 3;
  });
  return info;
}

/** Decodes the delay of a `google.rpc.RetryInfo`; `undefined` if it has none. */
function retryDelayMs(bytes: Uint8Array): number | undefined {
  let delay: number | undefined;
  eachField(bytes, (number, reader) => {
    if (number !== 1) {
      return false;
    }
    delay ??= 0;
    eachField(reader.bytes(), (part, duration) => {
      if (part === 1) {
        delay = (delay ?? 0) + Number(duration.int64()) * 1_000;
      } else if (part === 2) {
        delay = (delay ?? 0) + duration.int32() / 1e6;
      }
      return part === 1 || part === 2;
    });
    return true;
  });
  return delay;
}
