/** A clock that stands still until a test runs it: the time of the next timer comes when nothing else is left to do. */

import type { Clock } from "../src/clock.js";

export class FakeClock implements Clock {
  #now = 1_000;
  #nextId = 0;
  readonly #timers = new Map<number, { at: number; run: () => void }>();

  now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const id = this.#nextId++;
    this.#timers.set(id, { at: this.#now + Math.max(ms, 0), run });
    return () => void this.#timers.delete(id);
  }

  nextTurn(run: () => void): void {
    setImmediate(run);
  }

  /** Moves the time forward, and runs the timers that are due, in order. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await settle();
    for (let timer = this.#next(); timer !== undefined && timer.at <= until; timer = this.#next()) {
      await this.#run(timer);
    }
    this.#now = until;
    await settle();
  }

  /** Runs timers until the promise is settled; returns its value, or throws its error. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const end = () => {
      isSettled = true;
    };
    promise.then(end, end);
    await settle();
    while (!isSettled) {
      const timer = this.#next();
      if (timer === undefined) {
        throw new Error("nothing is left to do, and the promise is not settled");
      }
      await this.#run(timer);
    }
    return await promise;
  }

  #next(): { id: number; at: number } | undefined {
    let next: { id: number; at: number } | undefined;
    for (const [id, { at }] of this.#timers) {
      if (next === undefined || at < next.at) {
        next = { id, at };
      }
    }
    return next;
  }

  async #run({ id, at }: { id: number; at: number }): Promise<void> {
    const timer = this.#timers.get(id);
    this.#timers.delete(id);
    this.#now = Math.max(this.#now, at);
    timer?.run();
    await settle();
  }
}

/** Lets everything run that waits for no timer. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
}
