/**
 * A set that the client knows: the addresses of its nodes, and the state that all calls to the set share.
 *
 * Invariant: the version of the set's own routes never falls. A set that is known only from the routes of other sets
 * has version 0.
 */

import { Budget } from "./budget.js";
import type { Clock } from "./clock.js";

/** Limit on the addresses that are kept for a set because the routes of other sets state them. */
const MAX_LEARNED_ADDRS = 16;

/** Minimum interval between two requests for the whole route table of a set that has not sent routes yet. */
const WHOLE_INTERVAL_MS = 1_000;

/** A set of a cluster, which is identified by the object of its cluster. */
export class KnownSet<Cluster = unknown> {
  readonly id: bigint;
  /** Name of the set; empty while only its id is known. */
  name = "";
  /** Version of the set's own routes; 0 if it has not sent any. */
  version = 0n;
  cluster: Cluster;
  /** Addresses of the set's nodes by id, from its own routes. */
  nodes = new Map<number, string>();
  /** The retries to this set. A set that is down spends only its own. */
  readonly budget: Budget;
  /** Time of the last request for routes to another set, made because no node of this set could be reached. */
  othersAskedAt = Number.NEGATIVE_INFINITY;
  /** Whether the next request asks for the whole table, because changes to an unknown version came. */
  wantsWhole = false;
  readonly #clock: Clock;
  #wholeAskedAt = Number.NEGATIVE_INFINITY;
  readonly #seeds: string[] = [];
  #learned: string[] = [];
  /** Addresses to which requests are sent: nodes and seeds, or else the addresses that other sets state. */
  #hosts: string[] = [];

  constructor(id: bigint, cluster: Cluster, clock: Clock) {
    this.id = id;
    this.cluster = cluster;
    this.budget = new Budget(clock);
    this.#clock = clock;
  }

  /** Returns every known address of the set. */
  addrs(): string[] {
    return [...this.#hosts, ...this.#learned];
  }

  /** Returns whether a seed is known to be of this set. */
  hasSeed(seed: string): boolean {
    return this.#seeds.includes(seed);
  }

  /** Adds a seed that sent the set's routes. */
  addSeed(seed: string): void {
    this.#seeds.push(seed);
    this.#findHosts();
  }

  /** Adopts the nodes of the set's own routes. Returns whether an address changed. */
  adoptNodes(nodes: Map<number, string>): boolean {
    const isSame = nodes.size === this.nodes.size && [...nodes].every(([id, addr]) => this.nodes.get(id) === addr);
    if (!isSame) {
      this.nodes = nodes;
      this.#findHosts();
    }
    return !isSame;
  }

  /** Adopts the name and the addresses that another set states. Returns whether an address changed. */
  learn(name: string, addrs: readonly string[]): boolean {
    if (this.version === 0n) {
      this.name = name;
    }
    const learned = addrs.slice(0, MAX_LEARNED_ADDRS);
    if (learned.length === this.#learned.length && learned.every((addr, index) => addr === this.#learned[index])) {
      return false;
    }
    this.#learned = learned;
    this.#findHosts();
    return true;
  }

  /**
   * Returns the route version that a request to the set states, which decides which routes the response has. 0 asks for
   * the whole table, and `undefined` for none, because another request has just asked for the whole table.
   */
  knownVersion(): bigint | undefined {
    if (this.version === 0n) {
      const now = this.#clock.now();
      if (now - this.#wholeAskedAt < WHOLE_INTERVAL_MS) {
        return undefined;
      }
      this.#wholeAskedAt = now;
      return 0n;
    }
    if (this.wantsWhole) {
      this.wantsWhole = false;
      return 0n;
    }
    return this.version;
  }

  /**
   * Returns the address for a request for a section of this set: the owner's if it is good, that is, neither excluded
   * nor suspect; else a good address of another node, which forwards; else any address, if possible not the excluded.
   */
  host(
    owner: number,
    excluded: string | undefined,
    isSuspect: (addr: string) => boolean,
    random = Math.random(),
  ): string | undefined {
    const good = this.#goodHost(owner, excluded, isSuspect, random);
    return good ?? this.#hosts.find((host) => host !== excluded) ?? this.#hosts[0];
  }

  /** Returns whether a node other than `addr` could serve a request. */
  hasOtherGoodHost(addr: string, isSuspect: (addr: string) => boolean): boolean {
    return this.#goodHost(0, addr, isSuspect, 0) !== undefined;
  }

  /** Returns whether every known address was unreachable recently. */
  isDown(isSuspect: (addr: string) => boolean): boolean {
    return this.#hosts.every(isSuspect) && this.#learned.every(isSuspect);
  }

  #goodHost(
    owner: number,
    excluded: string | undefined,
    isSuspect: (addr: string) => boolean,
    random: number,
  ): string | undefined {
    const isGood = (host: string) => host !== excluded && !isSuspect(host);
    const ownerAddr = this.nodes.get(owner);
    if (ownerAddr !== undefined && isGood(ownerAddr)) {
      return ownerAddr;
    }
    const good = this.#hosts.filter(isGood);
    return good[Math.floor(random * good.length)] ?? this.#learned.find(isGood);
  }

  #findHosts(): void {
    const nodes = this.nodes.size > 0 ? this.nodes.values() : this.#learned;
    this.#hosts = [...new Set([...nodes, ...this.#seeds])];
  }
}
