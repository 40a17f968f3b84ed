/** The connections of a client by address, and the requests on them, by connect-node's gRPC transport. */

import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Transport as GrpcTransport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Connection } from "./connection.js";
import { Failure } from "./failure.js";
import { type NextStreamRequest, type NextStreamResponse, SequenceService } from "./generated/seqsvr/v1/sequence_pb.js";
import { MAX_RESPONSE_BYTES } from "./limits.js";
import { type Log, notify, type Observer } from "./observer.js";
import type { Credentials } from "./tls.js";
import type { Transport } from "./transport.js";
import { VERSION } from "./version.js";

/** Settings of the connections. */
export interface ConnectionOptions {
  credentials: Credentials | undefined;
  token: string | undefined;
  observer: Observer;
  log: Log;
}

interface Node {
  connection: Connection;
  grpc: GrpcTransport;
}

/** The connections of a client. */
export class Connections implements Transport {
  readonly #options: ConnectionOptions;
  /** Headers of each request. They are private, because the token is in them. */
  readonly #headers: Record<string, string>;
  readonly #nodes = new Map<string, Node>();
  /** Connections to addresses that are used no longer, with requests in flight. */
  readonly #retired = new Set<Connection>();
  #isClosed = false;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#headers = { "seqsvr-client": `typescript/${VERSION}` };
    if (options.token !== undefined) {
      this.#headers.authorization = `Bearer ${options.token}`;
    }
  }

  get connections(): number {
    return this.#all().reduce((sum, connection) => sum + connection.size, 0);
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    addr: string,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<MessageShape<O>> {
    try {
      const timeout = Math.max(1, Math.ceil(timeoutMs));
      const response = await this.#grpc(addr).unary(method, signal, timeout, this.#headers, request);
      return response.message;
    } catch (error) {
      throw signal.aborted ? Failure.aborted() : Failure.of(error);
    }
  }

  async *stream(
    addr: string,
    messages: AsyncIterable<NextStreamRequest>,
    signal: AbortSignal,
  ): AsyncGenerator<NextStreamResponse, void> {
    try {
      const method = SequenceService.method.nextStream;
      const response = await this.#grpc(addr).stream(method, signal, undefined, this.#headers, messages);
      yield* response.message;
    } catch (error) {
      throw signal.aborted ? Failure.aborted() : Failure.of(error);
    }
  }

  retain(isUsed: (addr: string) => boolean): void {
    for (const [addr, { connection }] of this.#nodes) {
      if (!isUsed(addr)) {
        this.#nodes.delete(addr);
        this.#retired.add(connection);
        connection.retire();
      }
    }
    for (const connection of this.#retired) {
      if (connection.size === 0) {
        this.#retired.delete(connection);
      }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#all().map((connection) => connection.close()));
  }

  #all(): Connection[] {
    return [...[...this.#nodes.values()].map(({ connection }) => connection), ...this.#retired];
  }

  #grpc(addr: string): GrpcTransport {
    if (this.#isClosed) {
      throw Failure.connection("the client is closed", { neverSent: true });
    }
    let node = this.#nodes.get(addr);
    if (node === undefined) {
      node = this.#newNode(addr);
      this.#nodes.set(addr, node);
    }
    return node.grpc;
  }

  #newNode(addr: string): Node {
    const { credentials, observer, log } = this.#options;
    const connection = new Connection(addr, credentials, {
      opened: () => {
        log("info", "connected", { addr });
        notify(log, () => observer.connectionOpened?.({ addr }));
      },
      lost: (error) => {
        log("info", "the connection was lost", { addr, error });
        notify(log, () => observer.connectionLost?.({ addr, error }));
      },
    });
    const grpc = createGrpcTransport({
      baseUrl: connection.authority,
      sessionManager: connection,
      readMaxBytes: MAX_RESPONSE_BYTES,
      acceptCompression: [],
    });
    return { connection, grpc };
  }
}
