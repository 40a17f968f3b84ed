/**
 * Observation of a client: an interface for metrics and traces, a function for log lines, and counters.
 *
 * The interface has the shape of OpenTelemetry without depending on it: a call is a span with events, and `end` has the
 * attributes of its metrics. No event names a uid, because metrics must not grow with the data.
 */

/** An outcome of a call for metrics. */
export interface CallEnd {
  outcome: "ok" | "error";
  /** Reason of the error; `undefined` for a success. */
  reason?: string | undefined;
  /** Name of the set of the last attempt; empty if there was none, or if the name is not known. */
  set: string;
  /** Number of times that requests were sent. */
  attempts: number;
  /** Attempts of unknown outcome, each of which may have consumed numbers. */
  lost: number;
  durationMs: number;
}

/** Observes one call. */
export interface CallObserver {
  /** A request is sent, or a call joins a message of the stream to a node. */
  attempt?(event: { addr: string; set: string }): void;
  /** The call is repeated after a wait. */
  retry?(event: { reason: string; set: string; waitMs: number }): void;
  /** A retry is left out, because the budget of the set is exhausted. */
  budgetRefused?(event: { set: string }): void;
  end?(event: CallEnd): void;
}

/** Observes a client. Errors that a method throws are logged and have no effect. */
export interface Observer {
  /** A call starts. The result observes the call to its end, for example as a span. */
  call?(event: { method: string; items: number }): CallObserver | undefined;
  /** A newer table of a set was adopted. */
  routeAdopted?(event: { set: string; version: bigint }): void;
  connectionOpened?(event: { addr: string }): void;
  connectionLost?(event: { addr: string; error: string }): void;
}

/** Levels of log lines. */
export type LogLevel = "debug" | "info" | "warn";

/** Writes a log line about a change of state. Calls write none. */
export type Log = (level: LogLevel, message: string, fields: Record<string, unknown>) => void;

/** Counters of a client since it was opened, and its present connections and calls. */
export interface Stats {
  calls: number;
  attempts: number;
  retries: number;
  budgetRefused: number;
  lost: number;
  routeAdoptions: number;
  connections: number;
  /** Calls in progress. */
  pending: number;
  /** Messages of streams, each with the items of one or more calls. */
  messages: number;
}

/** Returns counters that are all 0. */
export function noStats(): Stats {
  return {
    calls: 0,
    attempts: 0,
    retries: 0,
    budgetRefused: 0,
    lost: 0,
    routeAdoptions: 0,
    connections: 0,
    pending: 0,
    messages: 0,
  };
}

/** Calls an observer, and logs the error that it throws. */
export function notify(log: Log, run: () => void): void {
  try {
    run();
  } catch (error) {
    log("warn", "an observer failed", { error: String(error) });
  }
}
