/** The requests that calls send. Tests replace the implementation, which is in `connections.ts`. */

import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { NextStreamRequest, NextStreamResponse } from "./generated/seqsvr/v1/sequence_pb.js";

/** Sends requests to nodes by address, `host:port`. Each error is a `Failure`. */
export interface Transport {
  /** Sends a request and waits for its response, at most for `timeoutMs`, or until the signal is aborted. */
  unary<I extends DescMessage, O extends DescMessage>(
    addr: string,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<MessageShape<O>>;

  /** Opens a stream for numbers. The next message is taken when the last one was written. */
  stream(
    addr: string,
    messages: AsyncIterable<NextStreamRequest>,
    signal: AbortSignal,
  ): AsyncIterable<NextStreamResponse>;

  /** Closes the connections to addresses that are used no longer. Requests in flight run to completion. */
  retain(isUsed: (addr: string) => boolean): void;

  /** Number of open connections. */
  readonly connections: number;

  /** Closes all connections, and waits until they are closed. */
  close(): Promise<void>;
}
