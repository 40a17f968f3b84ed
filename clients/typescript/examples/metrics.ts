/**
 * An observer that feeds a meter of OpenTelemetry, which this program does not depend on: pass
 * `metrics.getMeter("seqsvr")` of `@opentelemetry/api`. Names and attributes are those of the other SDKs. No attribute
 * is a uid.
 */

import type { CallObserver, Observer } from "../src/index.js";

/** The part of a meter that the observer needs. */
export interface Meter {
  createCounter(name: string, options?: { description?: string }): Instrument<"add">;
  createHistogram(name: string, options?: { description?: string; unit?: string }): Instrument<"record">;
}

type Instrument<Method extends string> = Record<Method, (value: number, attributes?: Record<string, string>) => void>;

/** Returns an observer that counts calls, attempts, retries and lost attempts, and records durations. */
export function metricsObserver(meter: Meter): Observer {
  const calls = meter.createCounter("seqsvr.client.calls");
  const attempts = meter.createCounter("seqsvr.client.attempts");
  const retries = meter.createCounter("seqsvr.client.retries");
  const lost = meter.createCounter("seqsvr.client.lost");
  const duration = meter.createHistogram("seqsvr.client.duration", { unit: "s" });
  return {
    call: ({ method }): CallObserver => ({
      attempt: ({ set }) => attempts.add(1, { method, set }),
      retry: ({ reason, set }) => retries.add(1, { method, reason, set }),
      end: (end) => {
        const attributes = { method, outcome: end.outcome, reason: end.reason ?? "", set: end.set };
        calls.add(1, attributes);
        duration.record(end.durationMs / 1_000, attributes);
        if (end.lost > 0) {
          lost.add(end.lost, { method, set: end.set });
        }
      },
    }),
  };
}
