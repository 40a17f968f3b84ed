/**
 * Batching of calls for numbers: concurrent calls to a node share the messages of one stream to it.
 *
 * No call is delayed to fill a message. A message has the calls of one turn of the event loop, or those that have
 * gathered while the previous message was written. Several messages are in flight. There is no timer.
 */

import type { Clock } from "./clock.js";
import { Failure } from "./failure.js";
import type { NextStreamRequest } from "./generated/seqsvr/v1/sequence_pb.js";
import { type Bounds, DEFAULT_BOUNDS, Entry, type Item, type Outcome, Queue, type StreamEnd } from "./queue.js";
import type { Transport } from "./transport.js";

/** Time until the next attempt to open a stream to a node that does not implement streams. */
const UNSUPPORTED_FOR_MS = 60_000;

/** Codes of refusals that concern a stream as a whole, and not its calls. */
const CODES_OF_STREAMS = new Set(["CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN", "INTERNAL"]);

/** A stream that is open or being opened. */
interface OpenStream {
  readonly controller: AbortController;
  /** Wakes the sender, if it waits for the next message. */
  wake: (() => void) | undefined;
  /** Whether a wake-up is scheduled. */
  isWaking: boolean;
  hasEnded: boolean;
}

/** The batcher for the calls to one node. */
export class Batcher {
  readonly #addr: string;
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #bounds: Bounds;
  readonly #queue: Queue;
  #stream: OpenStream | undefined;
  /** Calls that are pending or in flight. */
  #calls = 0;
  /** Calls that wait until fewer calls are pending or in flight. */
  readonly #waiting = new Set<() => void>();
  #unsupportedUntil = Number.NEGATIVE_INFINITY;
  #isRetired = false;
  /** Messages that were sent. */
  messages = 0;

  constructor(addr: string, transport: Transport, clock: Clock, bounds = DEFAULT_BOUNDS) {
    this.#addr = addr;
    this.#transport = transport;
    this.#clock = clock;
    this.#bounds = bounds;
    this.#queue = new Queue(bounds);
  }

  /** Sends a call and waits for its outcome, at most until `item.until`, or until the signal is aborted. */
  async send(item: Item, signal: AbortSignal): Promise<Outcome> {
    if (this.#calls >= this.#bounds.calls && !(await this.#room(item.until, signal))) {
      return { kind: "timeout", sent: false };
    }
    if (signal.aborted) {
      return { kind: "aborted", sent: false };
    }
    const left = item.until - this.#clock.now();
    if (left <= 0) {
      return { kind: "timeout", sent: false };
    }
    if (this.#clock.now() < this.#unsupportedUntil) {
      return { kind: "unsupported" };
    }
    return await new Promise((resolve) => {
      this.#calls += 1;
      const entry = new Entry(item, (outcome) => {
        cancel();
        signal.removeEventListener("abort", onAbort);
        this.#calls -= 1;
        this.#admit();
        resolve(outcome);
      });
      const onAbort = () => entry.complete({ kind: "aborted", sent: entry.sent });
      const onTimeout = () => entry.complete({ kind: "timeout", sent: entry.sent });
      const cancel = this.#clock.after(left, onTimeout);
      signal.addEventListener("abort", onAbort);
      this.#queue.push(entry);
      this.#wake();
    });
  }

  /** Ends the stream once it has responded to all messages, because the node is used no longer. */
  retire(): void {
    this.#isRetired = true;
    if (this.#calls === 0) {
      this.close();
    }
  }

  /** Ends the stream at once. */
  close(): void {
    this.#stream?.controller.abort();
  }

  /** Waits for room in the queue, or until the signal is aborted. Returns `false` if there is none in time. */
  async #room(until: number, signal: AbortSignal): Promise<boolean> {
    while (this.#calls >= this.#bounds.calls && !signal.aborted) {
      const left = until - this.#clock.now();
      if (left <= 0) {
        return false;
      }
      await new Promise<void>((resolve) => {
        const done = () => {
          cancel();
          this.#waiting.delete(done);
          signal.removeEventListener("abort", done);
          resolve();
        };
        const cancel = this.#clock.after(left, done);
        this.#waiting.add(done);
        signal.addEventListener("abort", done);
      });
    }
    return true;
  }

  #admit(): void {
    const [next] = this.#waiting;
    next?.();
    if (this.#isRetired && this.#calls === 0) {
      this.close();
    }
  }

  /** Opens the stream, or wakes its sender after the present turn of the event loop, whose calls share a message. */
  #wake(): void {
    const stream = this.#stream ?? this.#open();
    if (stream.wake !== undefined && !stream.isWaking) {
      stream.isWaking = true;
      this.#clock.nextTurn(() => {
        stream.isWaking = false;
        stream.wake?.();
      });
    }
  }

  #open(): OpenStream {
    const stream = { controller: new AbortController(), wake: undefined, isWaking: false, hasEnded: false };
    this.#stream = stream;
    void this.#run(stream);
    return stream;
  }

  async #run(stream: OpenStream): Promise<void> {
    const end = await this.#serve(stream);
    stream.hasEnded = true;
    stream.wake?.();
    // The stream is aborted for its request, which may still wait for a message.
    stream.controller.abort();
    this.#stream = undefined;
    if (end.kind === "unsupported") {
      this.#unsupportedUntil = this.#clock.now() + UNSUPPORTED_FOR_MS;
    }
    this.#queue.end(end);
    if (!this.#queue.isEmpty) {
      this.#wake();
    }
  }

  /** Delivers the responses of a stream until it ends. */
  async #serve(stream: OpenStream): Promise<StreamEnd> {
    try {
      const responses = this.#transport.stream(this.#addr, this.#sender(stream), stream.controller.signal);
      for await (const response of responses) {
        if (!this.#queue.respond(response)) {
          return broke("a response to a message that is not in flight");
        }
        if (this.#queue.isReady) {
          this.#wake();
        }
      }
      return { kind: "closed", failure: Failure.connection("the stream was closed by the node") };
    } catch (error) {
      const failure = Failure.of(error);
      if (failure.neverSent) {
        return { kind: "neverSent", failure };
      }
      if (failure.isFromServer && failure.code === "UNIMPLEMENTED") {
        return { kind: "unsupported" };
      }
      const isOfStream = failure.kind !== "refusal" || CODES_OF_STREAMS.has(failure.code);
      return isOfStream ? broke(failure.message) : { kind: "broke", failure };
    }
  }

  #sender(stream: OpenStream): AsyncIterable<NextStreamRequest> {
    const end = (): Promise<IteratorResult<NextStreamRequest>> => {
      stream.hasEnded = true;
      stream.wake?.();
      return Promise.resolve({ done: true, value: undefined });
    };
    let isFirst = true;
    const iterator: AsyncIterator<NextStreamRequest> = {
      next: async () => {
        if (isFirst) {
          // The call that opened the stream shares its message with the others of this turn.
          isFirst = false;
          await new Promise<void>((resolve) => this.#clock.nextTurn(resolve));
        }
        for (;;) {
          const message = stream.hasEnded ? undefined : this.#queue.next(this.#clock.now());
          if (message !== undefined) {
            this.messages += 1;
            return { done: false, value: message };
          }
          if (stream.hasEnded) {
            return { done: true, value: undefined };
          }
          await new Promise<void>((resolve) => {
            stream.wake = resolve;
          });
          stream.wake = undefined;
        }
      },
      // connect calls these when the stream is over.
      return: end,
      throw: end,
    };
    return { [Symbol.asyncIterator]: () => iterator };
  }
}

/** Returns the end of a stream whose failure concerns the stream as a whole: for its calls, the connection failed. */
function broke(message: string): StreamEnd {
  return { kind: "broke", failure: Failure.connection(`the stream ended: ${message}`) };
}
