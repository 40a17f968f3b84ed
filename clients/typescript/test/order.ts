/** Load on uids, and a check of the order of all their numbers. */

import { Allocation, type Client, SeqError } from "../src/index.js";

/** A call, with its times. */
interface Done {
  start: number;
  end: number;
  first: bigint;
  value: bigint;
  prev: bigint;
  lost: number;
}

/** The result of a load. */
export interface LoadReport {
  calls: number;
  failed: SeqError[];
  longestMs: number;
  /** Violations of the order: descriptions of both calls. */
  violations: string[];
  lost: number;
}

/** Callers that each take numbers of one uid after the other, until they are stopped. */
export class Load {
  readonly #client: Pick<Client, "nextN">;
  readonly #done = new Map<bigint, Done[]>();
  readonly #failed: SeqError[] = [];
  readonly #callers: Promise<void>[];
  #longestMs = 0;
  #isStopped = false;
  calls = 0;

  constructor(client: Pick<Client, "nextN">, uids: bigint[], callers: number) {
    this.#client = client;
    this.#callers = Array.from({ length: callers }, (_, caller) => this.#run(uids, caller));
  }

  /** Stops the callers; returns the report of all their calls. */
  async stop(): Promise<LoadReport> {
    this.#isStopped = true;
    await Promise.all(this.#callers);
    const all = [...this.#done.values()];
    return {
      calls: this.calls,
      failed: this.#failed,
      longestMs: this.#longestMs,
      violations: [...this.#done].flatMap(([uid, done]) => findViolations(uid, done)),
      lost: all.flat().reduce((sum, { lost }) => sum + lost, 0),
    };
  }

  async #run(uids: bigint[], caller: number): Promise<void> {
    for (let turn = caller; !this.#isStopped; turn++) {
      const uid = uids[turn % uids.length] ?? 0n;
      const start = performance.now();
      try {
        const count = 1 + (turn % 3);
        const allocation = await this.#client.nextN(uid, count);
        const { first, value, prev, lost } = allocation;
        const end = performance.now();
        this.#longestMs = Math.max(this.#longestMs, end - start);
        const done = this.#done.get(uid) ?? [];
        done.push({ start, end, first, value, prev, lost });
        this.#done.set(uid, done);
        if (!(allocation instanceof Allocation) || allocation.count !== count) {
          throw new Error("another result than requested");
        }
      } catch (error) {
        if (!(error instanceof SeqError)) {
          throw error;
        }
        this.#failed.push(error);
      }
      this.calls += 1;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
}

/**
 * Returns the violations of the order: numbers that were allocated twice, and calls that began after another one had
 * ended and did not get greater numbers. `prev` is below the numbers of its call and not below those before, unless it is
 * 0, because a new owner does not know the number before.
 */
export function findViolations(uid: bigint, done: Done[]): string[] {
  const violations: string[] = [];
  const show = ({ first, value, prev }: Done) => `uid ${uid}: ${first}..=${value} after ${prev}`;
  const byValue = [...done].sort((one, other) => (one.value < other.value ? -1 : 1));
  for (const [index, each] of byValue.entries()) {
    const before = byValue[index - 1];
    const isBroken = before !== undefined && each.prev !== 0n && each.prev < before.value;
    if (each.prev >= each.first || isBroken || (before !== undefined && before.value >= each.first)) {
      violations.push(`${before === undefined ? "nothing" : show(before)}; ${show(each)}`);
    }
  }
  // The greatest number of all calls that ended before each call began.
  const byEnd = [...done].sort((one, other) => one.end - other.end);
  const byStart = [...done].sort((one, other) => one.start - other.start);
  let [ended, greatest]: [number, Done | undefined] = [0, undefined];
  for (const each of byStart) {
    for (; ended < byEnd.length && (byEnd[ended] as Done).end < each.start; ended++) {
      const other = byEnd[ended] as Done;
      greatest = greatest === undefined || other.value > greatest.value ? other : greatest;
    }
    if (greatest !== undefined && greatest.value >= each.first) {
      violations.push(`ended before: ${show(greatest)}; began later: ${show(each)}`);
    }
  }
  return violations;
}
