/** The chat server of examples/chat.ts, as a process of its own. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { Server } from "./cluster.js";

export const PROGRAM = fileURLToPath(new URL("../examples/chat.js", import.meta.url));

/** Time in which a server responds, far above the deadline of its calls. */
const RESPONSE_MS = 60_000;

/** Returns the path of a database, which is removed after the test. */
export function database(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), "seqsvr-inbox-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return join(dir, "db");
}

/** A response, whose body is JSON. */
export interface Reply {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: responses are compared with literals
  body: any;
}

/** A chat server that runs. */
export class Chat {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server, url: string) {
    this.#server = server;
    this.url = url;
  }

  /** Starts a server, which ends with the test. */
  static async start(t: TestContext, options: string[]): Promise<Chat> {
    const server = new Server([PROGRAM, "--listen", "127.0.0.1:0", ...options], process.execPath);
    t.after(() => server.stop("SIGKILL"));
    const url = /^the inboxes are at (http:\/\/127\.0\.0\.1:\d+)$/.exec(await server.firstLine())?.[1];
    assert.ok(url !== undefined);
    return new Chat(server, url);
  }

  /** Sends a message. */
  async post(message: unknown): Promise<Reply> {
    return await this.request("/messages", { method: "POST", body: JSON.stringify(message) });
  }

  /** Sends a GET. */
  async get(path: string): Promise<Reply> {
    return await this.request(path, {});
  }

  /** Sends a request. */
  async request(path: string, options: RequestInit): Promise<Reply> {
    const response = await fetch(this.url + path, { ...options, signal: AbortSignal.timeout(RESPONSE_MS) });
    const { status, headers } = response;
    assert.equal(headers.get("content-type"), "application/json");
    return { status, headers, body: await response.json() };
  }

  /** Signals the server to stop. */
  terminate(): void {
    this.#server.signal("SIGTERM");
  }

  /** Returns the exit code of the server once it ended. */
  async ended(): Promise<number | null> {
    const { process } = this.#server;
    if (process.exitCode === null && process.signalCode === null) {
      await once(process, "exit");
    }
    return process.exitCode;
  }
}
