/** The clock of a client, which tests replace. Times and durations are in milliseconds. */

/** A clock with timers. */
export interface Clock {
  /** Returns the time since an arbitrary origin. It never falls. */
  now(): number;
  /** Calls `run` after `ms`, unless the returned function was called before. */
  after(ms: number, run: () => void): () => void;
  /** Calls `run` after the present turn of the event loop. */
  nextTurn(run: () => void): void;
}

/** The clock and the timers of Node. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    // A call in progress keeps the process alive by its timer, because idle connections do not.
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  nextTurn: (run) => void setImmediate(run),
};

/** Waits for `ms`, or until the signal is aborted. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      return resolve();
    }
    const done = () => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal?.addEventListener("abort", done);
  });
}
