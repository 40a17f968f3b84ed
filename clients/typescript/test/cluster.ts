/** Real servers for tests: `seqsvr dev`, or a set whose servers are separate processes. The binary is `$SEQSVR`. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Client, type ClientOptions } from "../src/index.js";

/** Time for which tests wait for a condition; far above what it takes on a machine with much other work. */
const PATIENCE_MS = 60_000;

export const BINARY = process.env.SEQSVR ?? "";

/** Runs a command of the program; returns its standard output. */
export async function seqsvr(...args: string[]): Promise<string> {
  return (await promisify(execFile)(BINARY, args, { timeout: PATIENCE_MS })).stdout;
}

/** Waits for a condition; the last error is that of the wait. */
export async function eventually<T>(what: string, check: () => T | Promise<T>): Promise<NonNullable<T>> {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    let failure: unknown;
    try {
      const result = await check();
      if (result !== undefined && result !== null && result !== false) {
        return result as NonNullable<T>;
      }
    } catch (error) {
      failure = error;
    }
    if (performance.now() > until) {
      throw new Error(`did not occur: ${what}`, { cause: failure });
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Servers that run. */
const running = new Set<ChildProcess>();

// A test that fails leaves no server behind.
process.once("exit", () => {
  for (const server of running) {
    server.kill("SIGKILL");
  }
});

/** A server process. */
export class Server {
  readonly process: ChildProcess;

  constructor(args: string[], program = BINARY) {
    this.process = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
    running.add(this.process);
    this.process.once("exit", () => running.delete(this.process));
  }

  /** Returns the first line of the standard output. */
  async firstLine(): Promise<string> {
    const lines = createInterface({ input: this.process.stdout as NodeJS.ReadableStream });
    for await (const line of lines) {
      return line;
    }
    throw new Error("the server ended before it was ready");
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  /** Ends the process, and waits for its end. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) {
      return;
    }
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill(signal);
    await ended;
  }
}

/** A development cluster in one process: three stores and two allocators. */
export interface Dev {
  allocs: string[];
  stores: string[];
  http: string;
  sectionSize: bigint;
  uidEnd: bigint;
  /** Returns the number of requests that the allocators forwarded to each other. */
  forwarded(): Promise<number>;
  stop(): Promise<void>;
}

/** Starts a development cluster; again if the machine is so busy that its stores find no quorum. */
export async function startDev(): Promise<Dev> {
  const { server, ready } = await eventually("the cluster is ready", async () => {
    const server = new Server(["dev", "--ports", "random", "-o", "json", "--log-filter", "error"]);
    const ready = JSON.parse(await server.firstLine());
    if (ready.allocs === undefined) {
      await server.stop("SIGKILL");
      throw new Error(`the cluster is not ready: ${JSON.stringify(ready)}`);
    }
    return { server, ready };
  });
  const addrs = (nodes: { grpc: string }[]) => nodes.map(({ grpc }) => grpc);
  const allocs = addrs(ready.allocs);
  return {
    allocs,
    stores: addrs(ready.stores),
    http: ready.http,
    sectionSize: BigInt(ready.section_size),
    uidEnd: BigInt(ready.uid_end),
    forwarded: async () => {
      const status = JSON.parse(await seqsvr("status", "-o", "json", "--addr", allocs[0] ?? ""));
      return status.allocs.reduce((sum: number, { forwarded }: { forwarded: string }) => sum + Number(forwarded), 0);
    },
    stop: () => server.stop(),
  };
}

/** How a set is started. */
export interface SetOptions {
  allocs: number;
  /** Whether the servers have certificates; without them the set is in plain text. */
  secure?: boolean;
  /** Settings of the allocators. */
  settings?: string;
  uids?: string;
}

/** A set with one store and some allocators, each a process of its own. */
export class SeparateSet {
  readonly dir = mkdtempSync(join(tmpdir(), "seqsvr-ts-"));
  readonly certs = join(this.dir, "certs");
  readonly allocs: { addr: string; server: Server }[] = [];
  readonly isSecure: boolean;
  #store: Server | undefined;

  private constructor(isSecure: boolean) {
    this.isSecure = isSecure;
  }

  /** Starts the servers. */
  static async start(options: SetOptions): Promise<SeparateSet> {
    const set = new SeparateSet(options.secure ?? false);
    await set.#start(options);
    return set;
  }

  /** The URLs of the allocators. */
  get seeds(): string[] {
    return this.allocs.map(({ addr }) => `${this.isSecure ? "https" : "http"}://${addr}`);
  }

  /** Opens a client as soon as the set is served. */
  async open(options: Partial<ClientOptions> = {}): Promise<Client> {
    return await eventually("the set is served", () => Client.open({ seeds: this.seeds, ...options }));
  }

  /** Returns the arguments of commands on this set. */
  at(): string[] {
    return ["--set", join(this.dir, "set.toml"), "--certs", this.certs];
  }

  async stop(): Promise<void> {
    const servers = [...this.allocs.map(({ server }) => server), this.#store];
    await Promise.all(servers.map((server) => server?.stop("SIGKILL")));
    rmSync(this.dir, { recursive: true, force: true });
  }

  async #start({ allocs, settings, uids = "0..1000" }: SetOptions): Promise<void> {
    const ports = await freePorts(4 + 3 * allocs);
    const addr = () => `127.0.0.1:${ports.pop()}`;
    const ofStore = ["addr", "raft", "admin", "http"].map((port) => `${port} = "${addr()}"\n`);
    const store = `[[store]]\nid = 1\nname = "s1"\n${ofStore.join("")}`;
    const names = Array.from({ length: allocs }, (_, index) => `a${index + 1}`);
    const addrs = names.map(addr);
    const nodes = names.map((name, index) => {
      return `[[alloc]]\nname = "${name}"\naddr = "${addrs[index]}"\npeer = "${addr()}"\nhttp = "${addr()}"\n`;
    });
    const head = `name = "ts"\nuids = "${uids}"\nsection_size = 100\nstep = 100\n`;
    const security = this.isSecure ? "" : "plaintext = true\n";
    writeFileSync(join(this.dir, "set.toml"), `${security}${head}${store}${nodes.join("")}`);
    if (this.isSecure) {
      await seqsvr("cert", "issue", "client/backend", ...this.at());
    }
    const config = settings === undefined ? [] : ["--config", join(this.dir, "settings.toml")];
    writeFileSync(join(this.dir, "settings.toml"), settings ?? "");
    const quiet = ["--log-filter", "error"];
    const data = join(this.dir, "s1");
    this.#store = new Server(["store", "--id", "1", "--form", "--data", data, ...quiet, ...this.at()]);
    for (const [index, name] of names.entries()) {
      const server = new Server(["alloc", "--name", name, "--cores", "1", ...config, ...quiet, ...this.at()]);
      this.allocs.push({ addr: addrs[index] ?? "", server });
    }
  }
}

/** Returns ports that are free now. */
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      return server;
    }),
  );
  return await Promise.all(
    servers.map(async (server) => {
      const { port } = server.address() as { port: number };
      await new Promise((resolve) => server.close(resolve));
      return port;
    }),
  );
}
