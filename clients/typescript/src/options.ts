/** Options of a client and of its calls, and their validation. */

import { ConnectFailed } from "./errors.js";
import { DEFAULT_DEADLINE_MS, MAX_DEADLINE_MS } from "./limits.js";
import type { Log, Observer } from "./observer.js";
import type { TlsOptions } from "./tls.js";

/** Options of a client. */
export interface ClientOptions {
  /**
   * Nodes of any sets of a cluster, as `host:port`, `http://host:port` or `https://host:port`. One that responds is
   * enough: its routes name the others.
   */
  seeds: string | readonly string[];
  /** Deadline of a call over all its attempts, in milliseconds, at most a day; 5,000 by default. */
  deadlineMs?: number;
  /** Connects to every node over TLS. */
  tls?: TlsOptions;
  /** The token of a tenant, as `seqsvr tenant token` makes it. It needs `tls`. */
  token?: string;
  /** Whether concurrent calls share the messages of one stream to each node; `true` by default. */
  coalesce?: boolean;
  observer?: Observer;
  log?: Log;
  /** Aborts `Client.open`. */
  signal?: AbortSignal;
}

/** Options of one call. */
export interface CallOptions {
  /** Deadline over all attempts, in milliseconds, instead of that of the client. */
  deadlineMs?: number;
  /** Aborts the call. Numbers may have been consumed then, which are skipped. */
  signal?: AbortSignal;
}

/** Options of `Client.nextAll`. */
export interface NextAllOptions extends CallOptions {
  /** Most calls in flight, 1 to 65,536; 256 by default. */
  concurrency?: number;
}

/** Returns the deadline of a call or a client. */
export function deadlineOf(options: { deadlineMs?: number } | undefined, otherwise = DEFAULT_DEADLINE_MS): number {
  const deadlineMs = options?.deadlineMs ?? otherwise;
  if (typeof deadlineMs !== "number" || Number.isNaN(deadlineMs)) {
    throw new TypeError(`deadlineMs is a number of milliseconds, not ${deadlineMs}`);
  }
  return Math.min(deadlineMs, MAX_DEADLINE_MS);
}

/** Returns the addresses of the seeds, each once. Throws ConnectFailed for a seed that is none. */
export function addresses(seeds: string | readonly string[], isSecure: boolean): string[] {
  const list = typeof seeds === "string" ? [seeds] : [...seeds];
  if (list.length === 0) {
    throw new ConnectFailed("no seed was given; name at least one node as http://host:port", { retryable: false });
  }
  return [...new Set(list.map((seed) => address(seed, isSecure)))];
}

function address(seed: string, isSecure: boolean): string {
  if (typeof seed !== "string") {
    throw new TypeError(`a seed is a string, not a ${typeof seed}`);
  }
  const shown = JSON.stringify(seed);
  if (seed.startsWith("https://") && !isSecure) {
    throw new ConnectFailed(`${shown} is reached over TLS only: pass tls: { ca, pem }`, { retryable: false });
  }
  const match = /^(?:https?:\/\/)?((?:[\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5}))\/?$/.exec(seed);
  const port = Number(match?.[2]);
  if (match?.[1] === undefined || !(port > 0 && port < 65_536)) {
    throw new ConnectFailed(`${shown} is not of the form http://host:port`, { retryable: false });
  }
  return match[1];
}

/** Validates a token. The error does not contain it. */
export function checkToken(token: string | undefined, isSecure: boolean): void {
  if (token === undefined) {
    return;
  }
  if (!/^[\x21-\x7e]+$/.test(token) || !token.includes(".")) {
    throw new ConnectFailed("a token is of visible ASCII characters: TENANT.SECRET", { retryable: false });
  }
  if (!isSecure) {
    const text = "a token needs TLS, because anyone who reads it on its way can use it: pass tls: { ca }";
    throw new ConnectFailed(text, { retryable: false });
  }
}
