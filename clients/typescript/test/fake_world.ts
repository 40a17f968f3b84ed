/**
 * Sets of one cluster without a network: a world knows in which set each section is, and a set's route table has what
 * the set was notified of. Nodes serve the sections of their set, and forward the others, unless a test scripts a
 * failure.
 */

import {
  create,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { Batcher } from "../src/batcher.js";
import { BUCKETS, bucket } from "../src/buckets.js";
import { Client } from "../src/client.js";
import { Failure } from "../src/failure.js";
import type { AdvanceKeyRequest, NextKeyRequest, NextKeysRequest } from "../src/generated/seqsvr/v1/keys_pb.js";
import { type RouteRun, RouteRunSchema, type Routes, RoutesSchema } from "../src/generated/seqsvr/v1/route_pb.js";
import {
  type CurrentRequest,
  Exactness,
  type ItemError,
  ItemErrorSchema,
  type NextManyRequest,
  type NextManyResponse,
  NextManyResponseSchema,
  type NextRequest,
  type NextStreamRequest,
  type NextStreamResponse,
  NextStreamResponseSchema,
} from "../src/generated/seqsvr/v1/sequence_pb.js";
import { DEFAULT_DEADLINE_MS } from "../src/limits.js";
import type { CallObserver, Observer } from "../src/observer.js";
import { type Bounds, DEFAULT_BOUNDS } from "../src/queue.js";
import { Shared } from "../src/shared.js";
import type { Transport } from "../src/transport.js";
import { FakeClock } from "./fake_clock.js";

/** Uids in a section. */
export const SECTION = 10n;

/** Nodes of a set. */
const NODES = 2;

/** Codes of gRPC by name, as far as tests need them. */
const CODES: Record<string, number> = {
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  UNAVAILABLE: 14,
};

/** A refusal by a node. */
export class Refusal {
  constructor(
    readonly reason: string,
    readonly code = "UNAVAILABLE",
    /** 0: the refusal is permanent. */
    readonly retryAfterMs = 1,
    readonly named: { setId?: bigint; since?: bigint } = {},
  ) {}

  failure(): Failure {
    const { reason, code, named } = this;
    const retryAfterMs = this.retryAfterMs || undefined;
    return new Failure("refused", { kind: "refusal", reason, code, retryAfterMs, ...named, isFromServer: true });
  }

  item(index: number): ItemError {
    const { reason, code, retryAfterMs, named } = this;
    const fields = { index, reason, message: "refused", code: CODES[code] ?? 2, retryAfterMs };
    return create(ItemErrorSchema, { ...fields, ...named });
  }
}

/** What a node does with a request instead of serving it. */
export type Fault =
  | Refusal
  /** The connection fails; with `sent`, after the request may have been processed. */
  | { breaks: "sent" | "unsent" }
  /** The numbers are taken, and the connection fails before the response. */
  | "lost"
  /** There is no response. */
  | "hang"
  /** The response is changed. */
  | ((response: unknown) => unknown);

/** A request as a node received it. */
export interface Seen {
  addr: string;
  method: string;
  uids: bigint[];
  keys: string[];
  epoch: bigint;
  routeVersion: bigint | undefined;
  at: number;
}

/** A set with its nodes and its route table. */
export class FakeSet {
  readonly world: World;
  readonly id: bigint;
  version = 0n;
  readonly table: { owner: number; epoch: bigint; away: bigint }[] = [];

  constructor(world: World, id: bigint) {
    this.world = world;
    this.id = id;
  }

  get addrs(): string[] {
    return Array.from({ length: NODES }, (_, index) => `set${this.id}-node${index + 1}:1`);
  }

  /** Returns the whole table. */
  routes(): Routes {
    return create(RoutesSchema, {
      set: `set-${this.id}`,
      setId: this.id,
      version: this.version,
      uidEnd: BigInt(this.table.length) * SECTION,
      sectionSize: Number(SECTION),
      nodes: this.addrs.map((addr, index) => ({ id: index + 1, name: `n${index + 1}`, addr })),
      runs: this.table.map(({ owner, epoch, away }, firstSection) => {
        return { firstSection, sections: 1, owner, epoch, awaySetId: away };
      }),
      sets: this.world.sets
        .filter((other) => other !== this)
        .map(({ id, addrs }) => ({ id, name: `set-${id}`, allocs: addrs })),
      series: this.world.keyspaces.map((name) => {
        const lanes = { count: BUCKETS, perSection: 1, firstSection: this.table.length, keys: { digest: 7n } };
        return { name, createdMs: 1n, lanes };
      }),
      laneRuns: this.world.keyspaces.length === 0 ? [] : this.#laneRuns(),
    });
  }

  /** Returns the routes of all buckets. */
  #laneRuns(): RouteRun[] {
    const runs: RouteRun[] = [];
    for (const [index, { set, owner, epoch }] of this.world.buckets.entries()) {
      const [ours, away] = set === this ? [owner, 0n] : [0, set.id];
      const last = runs.at(-1);
      if (last?.owner === ours && last.awaySetId === away && last.epoch === epoch) {
        last.sections += 1;
      } else {
        const firstSection = this.table.length + index;
        runs.push(create(RouteRunSchema, { firstSection, sections: 1, owner: ours, epoch, awaySetId: away }));
      }
    }
    return runs;
  }
}

/** A cluster, and a client's transport to it. */
export class World implements Transport {
  readonly clock = new FakeClock();
  readonly sets: FakeSet[] = [];
  readonly homes: { epoch: bigint; set: FakeSet }[] = [];
  readonly numbers = new Map<bigint, bigint>();
  /** The keyspace, if there is one. Its buckets are shared among all nodes, in their order. */
  readonly keyspaces: string[] = [];
  readonly buckets: { set: FakeSet; owner: number; epoch: bigint }[] = [];
  readonly numbersOfKeys = new Map<string, bigint>();
  readonly seen: Seen[] = [];
  /** Faults of the next requests to an address, or to any. */
  readonly faults = new Map<string, Fault[]>();
  /** Addresses to which no connection can be made. */
  readonly down = new Set<string>();
  /** Addresses that never respond. */
  readonly hung = new Set<string>();
  /** Messages of streams, by their numbers of items. */
  readonly messages: number[] = [];
  /** State of the client that was opened last. */
  shared: Shared | undefined;
  /** Whether nodes implement streams. */
  hasStreams = true;
  /** Streams wait for it before each response. */
  gate: Promise<void> = Promise.resolve();
  isClosed = false;
  connections = 0;
  /** Uids whose items would have to wait in a stream. */
  readonly waiting = new Set<bigint>();

  /** Creates sets that know each other. The sections belong to them in turn, since epoch 1. */
  constructor(sets = 1, sections = 6) {
    for (let id = 1; id <= sets; id++) {
      this.sets.push(new FakeSet(this, BigInt(id)));
    }
    for (let section = 0; section < sections; section++) {
      this.homes.push({ epoch: 0n, set: this.sets[section % sets] as FakeSet });
      this.move(section, this.homes[section]?.set as FakeSet, ...this.sets);
    }
  }

  /** Moves a section to a set, under a new epoch. The tables of the sets in `notified` change. */
  move(section: number, set: FakeSet, ...notified: FakeSet[]): bigint {
    const epoch = (this.homes[section]?.epoch ?? 0n) + 1n;
    this.homes[section] = { epoch, set };
    for (const one of notified) {
      one.version += 1n;
      const owner = one === set ? 1 + (section % NODES) : 0;
      one.table[section] = { owner, epoch, away: one === set ? 0n : set.id };
    }
    return epoch;
  }

  /** Adds a keyspace to the routes of all sets. */
  addKeyspace(name: string): void {
    this.keyspaces.push(name);
    const nodes = this.sets.flatMap((set) => set.addrs.map((_, index) => ({ set, owner: index + 1, epoch: 1n })));
    for (let index = 0; index < BUCKETS; index++) {
      this.buckets.push(nodes[Math.floor((index * nodes.length) / BUCKETS)] as (typeof nodes)[0]);
    }
    for (const set of this.sets) {
      set.version += 1n;
    }
  }

  /** Moves the bucket of a key to the first node of a set, under a new epoch. Returns the epoch. */
  moveBucket(key: string, set: FakeSet): bigint {
    const index = bucket(Buffer.from(key));
    const epoch = (this.buckets[index]?.epoch ?? 0n) + 1n;
    this.buckets[index] = { set, owner: 1, epoch };
    return epoch;
  }

  /** Opens a client on the first node of each set, or on given seeds. */
  async open(
    options: { coalesce?: boolean; bounds?: Bounds; observer?: Observer; seeds?: string[] } = {},
  ): Promise<Client> {
    const { coalesce = true, bounds = DEFAULT_BOUNDS, observer = {} } = options;
    const seeds = options.seeds ?? this.sets.map(({ addrs }) => addrs[0] as string);
    const batcher = coalesce ? (addr: string) => new Batcher(addr, this, this.clock, bounds) : undefined;
    const parts = { transport: this, clock: this.clock, seeds, observer, log: () => undefined, batcher };
    this.shared = new Shared(parts);
    return await this.clock.run(Client.of(this.shared, DEFAULT_DEADLINE_MS));
  }

  /** Spends the retries to all sets, or to one. */
  exhaust(only?: bigint): void {
    for (const { id, budget } of this.shared?.routes.sets.values() ?? []) {
      while ((only === undefined || id === only) && budget.spend()) {}
    }
  }

  /** Scripts faults of the next requests for numbers. */
  script(addr: string, ...faults: Fault[]): void {
    this.faults.set(addr, [...(this.faults.get(addr) ?? []), ...faults]);
  }

  /** Returns the requests for numbers. */
  requests(method?: string): Seen[] {
    return this.seen.filter((seen) => seen.method !== "GetRoutes" && (method === undefined || seen.method === method));
  }

  async unary<I extends DescMessage, O extends DescMessage>(
    addr: string,
    method: DescMethodUnary<I, O>,
    init: MessageInitShape<I>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<MessageShape<O>> {
    const request = create(method.input, init) as unknown;
    const name = method.parent.name === "KeyService" ? `Key${method.name}` : method.name;
    this.#note(addr, name, request);
    const fault = name === "GetRoutes" ? undefined : this.#fault(addr);
    if (this.down.has(addr)) {
      throw Failure.connection("no connection", { neverSent: true });
    }
    if (this.hung.has(addr) || fault === "hang") {
      return await this.#hang(timeoutMs, signal);
    }
    if (signal.aborted) {
      throw Failure.aborted();
    }
    return create(method.output, this.#outcome(addr, name, request, fault) as MessageInitShape<O>);
  }

  async *stream(
    addr: string,
    messages: AsyncIterable<NextStreamRequest>,
    signal: AbortSignal,
  ): AsyncGenerator<NextStreamResponse, void> {
    if (this.down.has(addr)) {
      throw Failure.connection("no connection", { neverSent: true });
    }
    if (!this.hasStreams) {
      throw new Failure("no such method", { kind: "refusal", code: "UNIMPLEMENTED", isFromServer: true });
    }
    for await (const { tag, request } of messages) {
      const { uids = [] } = request ?? {};
      this.messages.push(uids.length);
      this.#note(addr, "NextStream", request);
      await Promise.race([this.gate, aborted(signal)]);
      const fault = this.#fault(addr);
      if (this.hung.has(addr) || fault === "hang") {
        await aborted(signal);
        throw Failure.aborted();
      }
      const response = this.#outcome(addr, "NextStream", request, fault) as NextManyResponse;
      yield create(NextStreamResponseSchema, { tag, outcome: { case: "response", value: response } });
    }
  }

  retain(): void {}

  async close(): Promise<void> {
    this.isClosed = true;
  }

  #note(addr: string, method: string, request: unknown): void {
    const fields = request as Partial<Pick<NextRequest, "uid" | "epoch">> &
      Partial<Omit<NextManyRequest, "$typeName">> &
      Partial<Pick<NextKeyRequest, "rawKey"> & Pick<NextKeysRequest, "rawKeys">>;
    const keys = (fields.rawKeys ?? (fields.rawKey === undefined ? [] : [fields.rawKey])).map(text);
    const uids = fields.uids ?? (fields.uid === undefined ? [] : [fields.uid]);
    const { epoch = fields.knownEpochs?.[0] ?? 0n, routeVersion } = fields;
    this.seen.push({ addr, method, uids, keys, epoch, routeVersion, at: this.clock.now() });
  }

  #fault(addr: string): Fault | undefined {
    return (this.faults.get(addr)?.length ? this.faults.get(addr) : this.faults.get("*"))?.shift();
  }

  /** Returns the fields of a response, or throws the failure. */
  #outcome(addr: string, method: string, request: unknown, fault: Fault | undefined): unknown {
    const set = this.#set(addr);
    if (fault instanceof Refusal && method !== "NextStream" && !method.endsWith("Many")) {
      throw fault.failure();
    }
    if (typeof fault === "object" && "breaks" in fault) {
      throw Failure.connection("the connection broke", { neverSent: fault.breaks === "unsent" });
    }
    const response = this.#serve(set, method, request, fault instanceof Refusal ? fault : undefined);
    if (fault === "lost") {
      throw Failure.connection("the connection broke");
    }
    return typeof fault === "function" ? fault(response) : response;
  }

  #serve(set: FakeSet, method: string, request: unknown, refusal: Refusal | undefined): unknown {
    const { routeVersion } = request as NextRequest;
    const routes = routeVersion !== undefined && routeVersion < set.version ? set.routes() : undefined;
    switch (method) {
      case "GetRoutes":
        return { routes: set.routes() };
      case "Next": {
        const { uid = 0n, count } = request as NextRequest;
        return { ...this.#take(set, uid, count), routes };
      }
      case "Current": {
        const { uid = 0n } = request as CurrentRequest;
        return { ...this.#take(set, uid, 0), exactness: Exactness.EXACT, routes };
      }
      case "Advance":
        return { epoch: 1n };
      case "KeyNext": {
        const { rawKey, count } = request as NextKeyRequest;
        return { ...this.#takeKey(text(rawKey), count), routes };
      }
      case "KeyCurrent": {
        const { rawKey } = request as NextKeyRequest;
        return { ...this.#takeKey(text(rawKey), 0), exactness: Exactness.EXACT, routes };
      }
      case "KeyAdvance": {
        const { rawKey, to = 0n } = request as AdvanceKeyRequest;
        this.numbersOfKeys.set(text(rawKey), to);
        return { epoch: this.#takeKey(text(rawKey), 0).epoch, routes };
      }
      case "KeyNextMany":
      case "KeyCurrentMany": {
        const { rawKeys, counts = [] } = request as NextKeysRequest;
        const one = method === "KeyNextMany" ? 1 : 0;
        const taken = rawKeys.map((key, index) => {
          return refusal ? { value: 0n, prev: 0n, epoch: 0n } : this.#takeKey(text(key), counts[index] ?? one);
        });
        return {
          values: taken.map(({ value }) => value),
          prevs: taken.map(({ prev }) => prev),
          exactness: taken.map(() => Exactness.EXACT),
          epochs: taken.map(({ epoch }) => epoch),
          errors: refusal ? taken.map((_, index) => refusal.item(index)) : [],
          routes,
        };
      }
      case "CurrentMany": {
        const counts = new Array((request as NextManyRequest).uids.length).fill(0);
        const { values, epochs, errors } = this.#takeMany(
          set,
          { ...(request as NextManyRequest), counts },
          false,
          refusal,
        );
        return { values, epochs, errors, routes, exactness: values.map(() => Exactness.EXACT) };
      }
      default:
        return this.#takeMany(set, request as NextManyRequest, method === "NextStream", refusal, routes);
    }
  }

  #takeMany(
    set: FakeSet,
    { uids, counts }: NextManyRequest,
    nowOnly: boolean,
    refusal: Refusal | undefined,
    routes?: Routes,
  ): NextManyResponse {
    const response = create(NextManyResponseSchema, routes === undefined ? {} : { routes });
    for (const [index, uid] of uids.entries()) {
      let taken = { value: 0n, prev: 0n, epoch: 0n };
      const wouldWait = nowOnly && (this.waiting.has(uid) || this.#home(uid).set !== set);
      try {
        const refused = refusal ?? (wouldWait ? new Refusal("WOULD_WAIT") : undefined);
        if (refused !== undefined) {
          throw refused.item(index);
        }
        taken = this.#take(set, uid, counts[index] ?? 1);
      } catch (error) {
        const { reason, code, retryAfterMs, setId, since } = error as Failure;
        const isItem = !(error instanceof Failure);
        const named = { ...(setId === undefined ? {} : { setId }), ...(since === undefined ? {} : { since }) };
        response.errors.push(
          isItem ? (error as ItemError) : new Refusal(reason, code, retryAfterMs ?? 0, named).item(index),
        );
      }
      response.values.push(taken.value);
      response.prevs.push(taken.prev);
      response.epochs.push(taken.epoch);
    }
    return response;
  }

  /** Takes numbers, at the set of the section or by forwarding to it. */
  #take(set: FakeSet, uid: bigint, count: number): { value: bigint; prev: bigint; epoch: bigint } {
    const { set: home, epoch } = this.#home(uid);
    if (home !== set && home.addrs.every((addr) => this.down.has(addr))) {
      throw new Refusal("SET_UNAVAILABLE", "UNAVAILABLE", 200, { setId: home.id }).failure();
    }
    const prev = this.numbers.get(uid) ?? 0n;
    this.numbers.set(uid, prev + BigInt(count));
    return { value: prev + BigInt(count), prev, epoch };
  }

  /** Takes numbers of a key. Any node forwards. */
  #takeKey(key: string, count: number): { value: bigint; prev: bigint; epoch: bigint } {
    const prev = this.numbersOfKeys.get(key) ?? 0n;
    this.numbersOfKeys.set(key, prev + BigInt(count));
    const epoch = this.buckets[bucket(Buffer.from(key, "latin1"))]?.epoch ?? 0n;
    return { value: prev + BigInt(count), prev, epoch };
  }

  #home(uid: bigint): { epoch: bigint; set: FakeSet } {
    const home = this.homes[Number(uid / SECTION)];
    if (home === undefined) {
      throw new Error(`uid ${uid} is in no section`);
    }
    return home;
  }

  #set(addr: string): FakeSet {
    const set = this.sets.find(({ addrs }) => addrs.includes(addr));
    if (set === undefined) {
      throw Failure.connection(`there is no ${addr}`, { neverSent: true });
    }
    return set;
  }

  #hang(timeoutMs: number, signal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => {
      this.clock.after(timeoutMs, () => reject(Failure.timeout()));
      signal.addEventListener("abort", () => reject(Failure.aborted()));
    });
  }
}

/** An observer that collects the names of its events. */
export function recorder(): { observer: Observer; events: string[] } {
  const events: string[] = [];
  const call: CallObserver = {
    attempt: ({ addr }) => events.push(`attempt ${addr}`),
    retry: ({ reason, set }) => events.push(`retry ${reason} ${set}`),
    budgetRefused: ({ set }) => events.push(`budget refused ${set}`),
    end: ({ outcome, reason, lost }) => events.push(`end ${outcome} ${reason ?? "-"} lost ${lost}`),
  };
  const observer: Observer = {
    call: ({ method, items }) => {
      events.push(`call ${method} ${items}`);
      return call;
    },
    routeAdopted: ({ set, version }) => events.push(`adopted ${set} ${version}`),
  };
  return { observer, events };
}

/** Returns the bytes of a key as a text of as many characters. */
function text(key: Uint8Array): string {
  return Buffer.from(key).toString("latin1");
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve());
  });
}
