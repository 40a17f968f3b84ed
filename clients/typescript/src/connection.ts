/**
 * The HTTP/2 connection to one node: made at its first use, made again after its end, and watched by pings. A
 * connection that the node shuts down in an orderly way completes its streams, while new requests go to the next one.
 *
 * Sockets and timers here do not keep the process alive; the timer of a call does.
 */

import * as http2 from "node:http2";
import * as net from "node:net";
import * as tls from "node:tls";
import { markUnprocessed, messageOf } from "./failure.js";
import type { Credentials } from "./tls.js";

/** Timeout for making a connection. It is shorter than two retransmissions of a SYN, because another node can serve. */
const CONNECT_TIMEOUT_MS = 1_000;

/** Interval of pings, also on an idle connection. */
const PING_INTERVAL_MS = 500;

/** Timeout of a ping. It is longer than the time for which a busy node may leave its sockets unread. */
const PING_TIMEOUT_MS = 1_500;

/** Longest wait before a connection that ended is made again, so that not all clients connect at once. */
const RECONNECT_JITTER_MS = 100;

/** Time for which `close` waits for sockets. */
const CLOSE_TIMEOUT_MS = 1_000;

/** Bytes that a node may send ahead in one stream and in one connection. */
const STREAM_WINDOW = 1 << 20;
const CONNECTION_WINDOW = 4 << 20;

/** What a connection reports of its state. */
export interface ConnectionEvents {
  opened(): void;
  lost(error: string): void;
}

/** A connection that is open, with its number of streams. */
interface Session {
  readonly http2: http2.ClientHttp2Session;
  readonly socket: net.Socket;
  streams: number;
  /** Whether it takes no new streams. */
  isRetired: boolean;
}

/** The connection to one node. It is the session manager of a transport of connect-node. */
export class Connection {
  readonly authority: string;
  readonly #host: string;
  readonly #port: number;
  readonly #credentials: Credentials | undefined;
  readonly #events: ConnectionEvents;
  /** The connection for new requests, which is open or being made. */
  #current: Promise<Session> | undefined;
  readonly #open = new Set<Session>();
  /** The socket that is being connected. */
  #socket: net.Socket | undefined;
  #wasOpen = false;
  #isClosed = false;

  constructor(addr: string, credentials: Credentials | undefined, events: ConnectionEvents) {
    const url = new URL(`${credentials === undefined ? "http" : "https"}://${addr}`);
    this.authority = url.origin;
    this.#host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    this.#port = Number(url.port || (credentials === undefined ? 80 : 443));
    this.#credentials = credentials;
    this.#events = events;
  }

  /** Number of open connections. */
  get size(): number {
    return this.#open.size;
  }

  /** Opens a stream. An error means that the request was not sent. */
  async request(
    method: string,
    path: string,
    headers: http2.OutgoingHttpHeaders,
    options: Omit<http2.ClientSessionRequestOptions, "signal">,
  ): Promise<http2.ClientHttp2Stream> {
    for (;;) {
      const session = await this.#session();
      try {
        const stream = session.http2.request({ ...headers, ":method": method, ":path": path }, options);
        this.#track(session, stream);
        return stream;
      } catch (error) {
        this.#retire(session);
        if (!session.http2.closed && !session.http2.destroyed) {
          throw markUnprocessed(error as Error);
        }
        // The connection has just ended.
      }
    }
  }

  /** Does nothing: pings alone decide whether the connection works. */
  notifyResponseByteRead(): void {}

  /** Takes no more requests, and ends when those in flight are complete. */
  retire(): void {
    this.#isClosed = true;
    for (const session of this.#open) {
      this.#retire(session);
    }
  }

  /** Ends the connection and its requests at once, and waits until its sockets are closed. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#socket?.destroy();
    const closed = [...this.#open].map((session) => {
      return new Promise<void>((resolve) => {
        session.http2.once("close", resolve);
        end(session, new ConnectionLost("the client is closed"));
      });
    });
    if (closed.length === 0) {
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CLOSE_TIMEOUT_MS);
    });
    await Promise.race([Promise.all(closed), timeout]);
    clearTimeout(timer);
  }

  async #session(): Promise<Session> {
    if (this.#isClosed) {
      throw markUnprocessed(new Error("the connection is closed"));
    }
    this.#current ??= this.#connect();
    const connecting = this.#current;
    try {
      const session = await connecting;
      if (!session.isRetired && !session.http2.closed && !session.http2.destroyed) {
        return session;
      }
    } catch (error) {
      this.#forget(connecting);
      throw error;
    }
    this.#forget(connecting);
    return await this.#session();
  }

  #forget(connecting: Promise<Session>): void {
    if (this.#current === connecting) {
      this.#current = undefined;
    }
  }

  async #connect(): Promise<Session> {
    if (this.#wasOpen) {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * RECONNECT_JITTER_MS));
    }
    const socket = await this.#dial();
    const session = http2.connect(this.authority, {
      createConnection: () => socket,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    });
    const opened = { http2: session, socket, streams: 0, isRetired: false };
    let error: Error | undefined;
    session.on("error", (cause) => {
      error = cause;
    });
    const stopPings = watch(session);
    session.on("goaway", () => this.#retire(opened));
    session.once("close", () => {
      stopPings();
      this.#open.delete(opened);
      opened.isRetired = true;
      if (!this.#isClosed) {
        this.#events.lost(error === undefined ? "the node closed the connection" : messageOf(error));
      }
    });
    session.once("connect", () => session.setLocalWindowSize(CONNECTION_WINDOW));
    session.unref();
    this.#open.add(opened);
    this.#wasOpen = true;
    this.#events.opened();
    if (this.#isClosed) {
      end(opened);
    }
    return opened;
  }

  /** Makes a connected socket. Errors mean that no request was sent. */
  async #dial(): Promise<net.Socket> {
    const at = { host: this.#host, port: this.#port };
    let socket: net.Socket;
    if (this.#credentials === undefined) {
      socket = net.connect(at);
    } else {
      // A name in the handshake must not be an address.
      const servername = net.isIP(this.#host) === 0 ? this.#host : "";
      const secureContext = this.#credentials.context();
      socket = tls.connect({ ...at, servername, secureContext, ALPNProtocols: ["h2"] });
    }
    this.#socket = socket;
    socket.setNoDelay(true);
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once(this.#credentials === undefined ? "connect" : "secureConnect", resolve);
        // This listener stays, because an error may follow that has no other one.
        socket.on("error", reject);
        socket.once("close", () => reject(new Error("the connection was closed before it was made")));
        timer = setTimeout(() => reject(new Error("connecting timed out")), CONNECT_TIMEOUT_MS);
      });
      return socket;
    } catch (cause) {
      socket.destroy();
      throw markUnprocessed(
        new Error(`connecting to ${this.#host}:${this.#port} failed: ${messageOf(cause)}`, { cause }),
      );
    } finally {
      clearTimeout(timer);
      this.#socket = undefined;
    }
  }

  #track(session: Session, stream: http2.ClientHttp2Stream): void {
    session.streams += 1;
    // This listener comes before that of connect, which wraps the error.
    stream.on("error", (error) => {
      if (stream.rstCode === http2.constants.NGHTTP2_REFUSED_STREAM) {
        markUnprocessed(error);
      }
    });
    stream.once("close", () => {
      session.streams -= 1;
      this.#endIfUnused(session);
    });
  }

  #retire(session: Session): void {
    session.isRetired = true;
    if (!session.http2.closed) {
      session.http2.close();
    }
    this.#endIfUnused(session);
  }

  /** Ends a connection that takes no more streams and has none. Node does not do so after a GOAWAY. */
  #endIfUnused(session: Session): void {
    if (session.isRetired && session.streams === 0 && !session.http2.destroyed) {
      end(session);
    }
  }
}

/** Ends a connection at once. Its requests fail with the error. */
function end({ http2: session, socket }: Session, error?: Error): void {
  session.destroy(error);
  // After a graceful end, the session would wait for the node to close the socket.
  socket.destroy();
}

/** Sends pings, and ends the connection if the response to one is missing. Returns a function that stops them. */
function watch(session: http2.ClientHttp2Session): () => void {
  let timer: NodeJS.Timeout;
  const schedule = () => {
    timer = setTimeout(ping, PING_INTERVAL_MS).unref();
  };
  const ping = () => {
    if (session.destroyed) {
      return;
    }
    let isPending = true;
    timer = setTimeout(() => {
      // If the event loop was busy, the response may have arrived: it is read before this function is called.
      setImmediate(() => {
        if (isPending && !session.destroyed) {
          session.destroy(new ConnectionLost(`no response to a ping within ${PING_TIMEOUT_MS} ms`));
        }
      });
    }, PING_TIMEOUT_MS).unref();
    const timeout = timer;
    session.ping((error) => {
      isPending = false;
      clearTimeout(timeout);
      if (error === null) {
        schedule();
      }
    });
  };
  schedule();
  return () => clearTimeout(timer);
}

/** Error of a connection that this client ends. */
class ConnectionLost extends Error {
  readonly code = "ERR_SEQSVR_CONNECTION";
}
