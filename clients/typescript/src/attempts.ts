/**
 * The attempts of one call under one deadline. This module chooses the node for each attempt, classifies its failure,
 * waits for the backoff before the next attempt, and keeps the error of the last one.
 *
 * An attempt is repeated only after a retryable refusal, a failed connection, or if its node did not respond in time
 * while another node can serve. If a refusal states that a section moved to another set, the next attempt is sent there
 * at once and without the retry budget, but only if the stated epoch is greater than that of the route by which the
 * refused request was sent. So a call cannot circle between two nodes with outdated routes.
 */

import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Batcher } from "./batcher.js";
import type { Space } from "./buckets.js";
import { backoff } from "./budget.js";
import { sleep } from "./clock.js";
import { refreshFromOthers } from "./discovery.js";
import {
  BadAnswer,
  DeadlineExceeded,
  Refused,
  type SeqError,
  SetUnavailable,
  UidOutside,
  Unreachable,
} from "./errors.js";
import { codeName, Failure } from "./failure.js";
import type { ItemError } from "./generated/seqsvr/v1/sequence_pb.js";
import { notify } from "./observer.js";
import { REASONS } from "./reasons.js";
import type { Route, RouteSet } from "./routes.js";
import type { Call, Shared } from "./shared.js";

/** Minimum time until the deadline for another attempt. With less time it would usually exceed the deadline. */
const LEAST_ATTEMPT_MS = 20;

/** Limit on the times that one call continues at once in the set to which its section moved. */
const MAX_FOLLOWED = 8;

/** An attempt ends after this time at the earliest, if another node can serve. */
const MIN_ATTEMPT_MS = 1_000;

/** Share of a call's deadline after which an attempt ends, if another node can serve. */
const ATTEMPT_SHARE = 1 / 3;

/** The node of an attempt. */
export interface Target {
  addr: string;
  /** Version of the routes that the client has of the node's set. */
  routeVersion: bigint | undefined;
  /** Newest known epoch of the item's section. */
  epoch: bigint;
}

/** The set that a refusal names, and the epoch since which the section is there. */
export interface NamedSet {
  setId?: bigint | undefined;
  since?: bigint | undefined;
}

/** A refusal of an item, with its consequences for the retry of the item. */
export interface Classified {
  error: SeqError;
  /** Whether the item continues at once in the set to which its section moved. */
  moved: boolean;
  /** The set whose budget pays for a retry, if it is not the set to which the attempt was sent. */
  charged: RouteSet | undefined;
}

/** The attempts for the items of a call that are sent together. An item is a uid, or the section of a key's bucket. */
export class Attempts {
  readonly call: Call;
  readonly shared: Shared;
  /** The routes of the items. */
  readonly space: Space;
  /** Number of attempts that were sent. */
  made = 0;
  /** Number of attempts with unknown outcome. */
  lost = 0;
  /** Whether the call fails without retries if no node of the section's set can be reached. */
  failsFast = false;
  #excluded: string | undefined;
  #route: Route | undefined;
  #followed = 0;
  readonly #isSuspect = (addr: string): boolean => this.shared.suspects.has(addr);

  constructor(call: Call, space: Space = call.shared.routes) {
    this.call = call;
    this.shared = call.shared;
    this.space = space;
  }

  /** Returns a copy, with which some items are retried separately. The set `charged` pays for their next retry. */
  fork(charged: RouteSet | undefined): Attempts {
    const fork = new Attempts(this.call, this.space);
    fork.made = this.made;
    fork.lost = this.lost;
    fork.failsFast = this.failsFast;
    fork.#excluded = this.#excluded;
    fork.#route = this.#route;
    fork.#followed = this.#followed;
    fork.#charge(charged);
    return fork;
  }

  /** Returns the node of the next attempt for an item. Throws the error of an item without any. */
  target(item: bigint): Target {
    const route = this.space.route(item);
    if (route === undefined) {
      throw new UidOutside(item);
    }
    this.#begin(route);
    let { set } = route;
    let addr = set.host(route.owner, this.#excluded, this.#isSuspect);
    if (addr === undefined) {
      // No address of the set is known: a node of another set forwards.
      for (const other of this.shared.routes.others(set)) {
        addr ??= other.host(0, this.#excluded, this.#isSuspect);
        set = addr === undefined ? set : other;
      }
    }
    if (addr === undefined) {
      throw this.#setUnavailable(item, route.set.id);
    }
    return { addr, routeVersion: set.knownVersion(), epoch: route.epoch };
  }

  /** Returns the address for a call for ids: of the set `home`, or of another set while `home` is down. */
  idTarget(home: RouteSet): string {
    const sets = [home, ...this.shared.routes.others(home)];
    const set = sets.find((each) => !each.isDown(this.#isSuspect)) ?? home;
    this.#begin({ epoch: 0n, set, owner: 0, isClaim: false });
    const addr = set.host(0, this.#excluded, this.#isSuspect);
    if (addr === undefined) {
      throw this.#setUnavailable(undefined, set.id);
    }
    return addr;
  }

  /** Returns the batcher of the owner; `undefined` if the owner is unknown or suspect, or calls share no messages. */
  streamTarget(uid: bigint): { addr: string; batcher: Batcher; target: Target } | undefined {
    const route = this.shared.routes.route(uid);
    const addr = route?.set.nodes.get(route.owner);
    if (route === undefined || addr === undefined || this.#isSuspect(addr)) {
      return undefined;
    }
    const batcher = this.shared.batcher(addr);
    if (batcher === undefined) {
      return undefined;
    }
    this.#begin(route);
    return { addr, batcher, target: { addr, routeVersion: route.set.knownVersion(), epoch: route.epoch } };
  }

  /** Returns the newest known epoch of each item's section. */
  epochs(items: readonly bigint[]): bigint[] {
    return items.map((item) => this.space.route(item)?.epoch ?? 0n);
  }

  /**
   * Returns the time at which an attempt at `addr` ends. It is before the deadline if another node can serve: a node
   * that hangs must not use up the time of the call.
   */
  until(addr: string): number {
    const { deadlineAt, deadlineMs } = this.call;
    const early = this.shared.clock.now() + Math.max(MIN_ATTEMPT_MS, deadlineMs * ATTEMPT_SHARE);
    return early < deadlineAt && this.#hasOther(addr) ? early : deadlineAt;
  }

  /** Sends one request. Throws its Failure. */
  async send<I extends DescMessage, O extends DescMessage>(
    addr: string,
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
  ): Promise<MessageShape<O>> {
    const timeoutMs = this.until(addr) - this.shared.clock.now();
    if (this.call.signal.aborted) {
      throw Failure.aborted();
    }
    if (timeoutMs <= 0) {
      throw new Failure("the deadline has passed", { kind: "timeout", neverSent: true });
    }
    this.count(addr);
    return await this.shared.transport.unary(addr, method, request, timeoutMs, this.call.signal);
  }

  /** Counts an attempt. */
  count(addr: string): void {
    this.made += 1;
    this.shared.counters.attempts += 1;
    this.call.sum.attempts += 1;
    notify(this.shared.log, () => this.call.observer?.attempt?.({ addr, set: this.call.sum.set }));
  }

  /**
   * Handles the failure of an attempt at `addr`, and waits for the backoff if the call has another attempt. Throws the
   * error of the call otherwise. `item` is `undefined` for a call for ids.
   */
  async prepareRetry(item: bigint | undefined, addr: string, failure: Failure): Promise<void> {
    const sent = !failure.neverSent;
    switch (failure.kind) {
      case "aborted":
        this.addLost(sent ? 1 : 0);
        throw this.aborted();
      case "invalid":
        throw new BadAnswer(addr, failure.message, this.made);
      case "timeout":
        return await this.timedOut(item, addr, sent, failure);
      case "connection":
        return await this.#retryAfterBreak(item, addr, failure, sent);
      case "refusal":
        this.addLost(isOutcomeUnknown(failure.reason) ? 1 : 0);
        return await this.#retryAfterRefusal(item, addr, this.#refused(item, failure), failure);
    }
  }

  /**
   * Does the same after the stream of the attempt has ended. `sent` is whether the node may have processed the call.
   */
  async prepareStreamRetry(item: bigint, addr: string, failure: Failure, sent: boolean): Promise<void> {
    await (sent ? this.prepareRetry(item, addr, failure) : this.#retryAfterBreak(item, addr, failure, false));
  }

  /** Does the same after a single item was refused in a response. */
  async prepareItemRetry(item: bigint, addr: string, refusal: ItemError): Promise<void> {
    this.addLost(isOutcomeUnknown(refusal.reason) ? 1 : 0);
    await this.#retryAfterRefusal(item, addr, this.refusedItem(item, refusal), refusal);
  }

  /** Handles an attempt whose time is over: another node is tried, unless the deadline of the call has passed. */
  async timedOut(item: bigint | undefined, addr: string, sent: boolean, failure: Failure): Promise<void> {
    // A node that could have served when the attempt began may be suspect now. Then the same node is tried again.
    if (this.call.remaining <= LEAST_ATTEMPT_MS) {
      this.addLost(sent ? 1 : 0);
      throw new DeadlineExceeded(this.#sent());
    }
    await this.#retryAfterBreak(item, addr, failure, sent);
  }

  /** Returns the error of a call that was ended by its caller or by the client. */
  aborted(): SeqError {
    return this.call.aborted(this.#sent());
  }

  /** Counts attempts with unknown outcome. */
  addLost(attempts: number): void {
    this.lost += attempts;
    this.call.sum.lost += attempts;
  }

  /** Returns the error of a refused item of a response. */
  refusedItem(item: bigint, refusal: ItemError): Refused {
    return new Refused({
      uid: this.#uid(item),
      code: codeName(refusal.code),
      reason: refusal.reason,
      message: refusal.message,
      retryAfterMs: refusal.retryAfterMs > 0 ? refusal.retryAfterMs : undefined,
      mayHaveApplied: this.lost > 0 || isOutcomeUnknown(refusal.reason),
      attempts: this.made,
    });
  }

  /**
   * Classifies a refusal. Adopts the route in it if the section moved. `sentBy` is the epoch of the attempt's route.
   */
  classify(item: bigint | undefined, refused: Refused, named: NamedSet, sentBy: bigint): Classified {
    this.#suspectOwner(item, refused);
    if (refused.reason === "SET_UNAVAILABLE") {
      const charged = named.setId === undefined ? undefined : this.shared.routes.sets.get(named.setId);
      const error = this.#setUnavailable(item, named.setId ?? 0n, refused);
      return { error, moved: false, charged };
    }
    let moved = false;
    if (refused.reason === "MOVED" && item !== undefined && named.setId && named.since !== undefined) {
      this.space.claim(item, named.setId, named.since);
      moved = named.since > sentBy && this.#followed < MAX_FOLLOWED;
    }
    return { error: refused, moved, charged: undefined };
  }

  /** Returns whether the call fails with `error` at once even though the error is retryable. */
  isFinal(error: SeqError): boolean {
    return this.failsFast && error instanceof SetUnavailable;
  }

  /** Counts a response after which items are sent to another set at once. */
  countFollowed(): void {
    this.#followed += 1;
  }

  /**
   * Waits for the backoff before the next attempt: at least `atLeastMs`, and not at all if `atOnce` is set. Returns
   * `false` without waiting if the deadline or the retry budget allows no further attempt.
   */
  async pause(reason: string, atLeastMs: number | undefined, atOnce: boolean): Promise<boolean> {
    const waitMs = atOnce ? 0 : backoff(this.made, atLeastMs);
    const set = this.#route?.set;
    if (set === undefined || waitMs + LEAST_ATTEMPT_MS >= this.call.remaining) {
      return false;
    }
    const { counters, log, clock } = this.shared;
    if (!set.budget.spend()) {
      counters.budgetRefused += 1;
      notify(log, () => this.call.observer?.budgetRefused?.({ set: set.name }));
      return false;
    }
    counters.retries += 1;
    notify(log, () => this.call.observer?.retry?.({ reason, set: set.name, waitMs }));
    if (waitMs > 0) {
      await sleep(clock, waitMs, this.call.signal);
    }
    if (this.call.signal.aborted) {
      throw this.aborted();
    }
    return true;
  }

  /** Begins an attempt by a route. The first attempt earns retries for the route's set. */
  #begin(route: Route): void {
    if (this.#route === undefined) {
      route.set.budget.earn();
    }
    this.#route = route;
    this.call.sum.set = route.set.name;
  }

  async #retryAfterBreak(item: bigint | undefined, addr: string, failure: Failure, sent: boolean): Promise<void> {
    this.addLost(sent ? 1 : 0);
    if (!failure.isFromServer) {
      this.shared.suspects.add(addr);
    }
    const atOnce = this.#exclude(addr);
    const down = this.#downSet();
    if (down !== undefined) {
      await refreshFromOthers(this.shared, down, this.call.signal);
      if (this.#hasMoved(item)) {
        this.#followed += 1;
        return;
      }
      const error = this.#setUnavailable(item, down.id);
      if (this.failsFast) {
        throw error;
      }
      return await this.#retry(error, undefined, atOnce);
    }
    const error = new Unreachable(addr, failure.message, { ...this.#sent(), cause: failure });
    await this.#retry(error, undefined, atOnce);
  }

  async #retryAfterRefusal(item: bigint | undefined, addr: string, refused: Refused, named: NamedSet): Promise<void> {
    const atOnce = refused.reason === "SHUTTING_DOWN" && this.#exclude(addr);
    const sentBy = this.#route;
    const { error, moved, charged } = this.classify(item, refused, named, sentBy?.epoch ?? 0n);
    if (moved) {
      this.#followed += 1;
      return;
    }
    if (this.isFinal(error)) {
      throw error;
    }
    this.#charge(charged);
    if (charged !== undefined && sentBy !== undefined && charged !== sentBy.set) {
      // With newer routes, the next attempt can be sent directly to the set that the node could not reach.
      await refreshFromOthers(this.shared, charged, this.call.signal, { addr, of: sentBy.set });
    }
    await this.#retry(error, refused.retryAfterMs, atOnce);
  }

  async #retry(error: SeqError, atLeastMs: number | undefined, atOnce: boolean): Promise<void> {
    if (!error.retryable || !(await this.pause(error.reason, atLeastMs, atOnce))) {
      throw error;
    }
  }

  /** Makes a set pay for the next retry. */
  #charge(set: RouteSet | undefined): void {
    if (set !== undefined && this.#route !== undefined) {
      this.#route = { ...this.#route, set };
    }
  }

  /**
   * Excludes an address from the following attempts. Returns whether it is the first one: its retry needs no backoff.
   */
  #exclude(addr: string): boolean {
    const isFirst = this.#excluded === undefined;
    this.#excluded = addr;
    return isFirst;
  }

  /** Returns whether another node than `addr` can serve the call. */
  #hasOther(addr: string): boolean {
    const set = this.#route?.set;
    const sets = set === undefined ? [] : [set, ...this.shared.routes.others(set)];
    return sets.some((each) => each.hasOtherGoodHost(addr, this.#isSuspect));
  }

  /** Returns the set of the last attempt if none of its nodes can be reached and its cluster has other sets. */
  #downSet(): RouteSet | undefined {
    const set = this.#route?.set;
    const isDown = set?.isDown(this.#isSuspect) && this.shared.routes.others(set).length > 0;
    return isDown ? set : undefined;
  }

  /** Returns whether the newest routes show that the section moved to another set since the last attempt. */
  #hasMoved(item: bigint | undefined): boolean {
    const now = item === undefined ? undefined : this.space.route(item);
    const by = this.#route;
    const moved = now !== undefined && by !== undefined && now.set !== by.set && now.epoch > by.epoch;
    return moved && this.#followed < MAX_FOLLOWED;
  }

  /** Marks the owner as suspect if another node could not reach it: a direct request would probably fail too. */
  #suspectOwner(item: bigint | undefined, { reason }: Refused): void {
    if (reason !== "OWNER_TIMED_OUT" && reason !== "OWNER_CONNECTION_LOST" && reason !== "OWNER_UNREACHABLE") {
      return;
    }
    const route = item === undefined ? undefined : this.space.route(item);
    const owner = route?.set.nodes.get(route.owner);
    if (owner !== undefined) {
      this.shared.suspects.add(owner);
    }
  }

  /** Returns the uid that an error states: the uid of the item, unless the item is of a key. */
  #uid(item: bigint | undefined): bigint | undefined {
    return this.space.hasUids ? item : undefined;
  }

  #refused(item: bigint | undefined, failure: Failure): Refused {
    const { code, reason, message, retryAfterMs, bound } = failure;
    const uid = this.#uid(item);
    return new Refused({ uid, code, reason, message, retryAfterMs, bound, ...this.#sent() });
  }

  #setUnavailable(item: bigint | undefined, id: bigint, refused?: Refused): SetUnavailable {
    const name = this.shared.routes.sets.get(id)?.name ?? "";
    const { mayHaveApplied, attempts } = refused ?? this.#sent();
    const retryAfterMs = refused?.retryAfterMs;
    return new SetUnavailable(this.#uid(item), { id, name }, { mayHaveApplied, attempts, retryAfterMs });
  }

  #sent(): { mayHaveApplied: boolean; attempts: number } {
    return { mayHaveApplied: this.lost > 0, attempts: this.made };
  }
}

/**
 * Returns whether a request may have changed a counter although it was refused with this reason: a node forwarded it
 * and got no response, or the refusal does not come from the sequence service itself.
 */
export function isOutcomeUnknown(reason: string): boolean {
  return (
    reason === "" || (Object.hasOwn(REASONS, reason) && REASONS[reason as keyof typeof REASONS].outcome === "unknown")
  );
}
