/**
 * Calls for one uid, and requests for ids. The first attempt of an allocation is made in the stream to the owner, whose
 * messages are shared by concurrent calls. Retries, and requests to a node that forwards, are unary.
 */

import { Attempts, type Target } from "./attempts.js";
import { refresh } from "./discovery.js";
import { BadAnswer } from "./errors.js";
import { Failure } from "./failure.js";
import { SequenceService } from "./generated/seqsvr/v1/sequence_pb.js";
import { Allocation, Current } from "./results.js";
import type { Call } from "./shared.js";

/** Allocates numbers of one uid. */
export async function next(call: Call, uid: bigint, count: number): Promise<Allocation> {
  const attempts = new Attempts(call);
  const allocation = await nextInStream(attempts, uid, count);
  if (allocation !== undefined) {
    return allocation;
  }
  return await unary(attempts, uid, async ({ addr, routeVersion, epoch }) => {
    const request = { uid, count, routeVersion, epoch };
    const response = await attempts.send(addr, SequenceService.method.next, request);
    call.shared.adopt(response.routes, addr);
    return Allocation.checked(addr, response, count, attempts.lost + (response.lost ?? 0));
  });
}

/** Reads the last number of one uid. */
export async function current(call: Call, uid: bigint): Promise<Current> {
  const attempts = new Attempts(call);
  return await unary(attempts, uid, async ({ addr, routeVersion, epoch }) => {
    const response = await attempts.send(addr, SequenceService.method.current, { uid, routeVersion, epoch });
    call.shared.adopt(response.routes, addr);
    return Current.checked(addr, response.value, response.exactness, response.epoch);
  });
}

/** Raises the counter of one uid; returns the epoch of the ownership. */
export async function advance(call: Call, uid: bigint, to: bigint): Promise<bigint> {
  const attempts = new Attempts(call);
  return await unary(attempts, uid, async ({ addr, routeVersion, epoch }) => {
    const response = await attempts.send(addr, SequenceService.method.advance, { uid, to, routeVersion, epoch });
    call.shared.adopt(response.routes, addr);
    return response.epoch;
  });
}

/** Sends unary requests for an item until one succeeds; throws the error of the call. */
export async function unary<R>(attempts: Attempts, item: bigint, send: (target: Target) => Promise<R>): Promise<R> {
  const { call, shared } = attempts;
  if (attempts.space.route(item) === undefined) {
    await refresh(shared, [item], call.deadlineAt, call.signal);
  }
  for (;;) {
    const target = attempts.target(item);
    try {
      return await send(target);
    } catch (error) {
      if (!(error instanceof Failure)) {
        throw error;
      }
      await attempts.prepareRetry(item, target.addr, error);
    }
  }
}

/**
 * Makes the first attempt in the stream to the owner. Returns `undefined` if the call continues with unary requests.
 */
async function nextInStream(attempts: Attempts, uid: bigint, count: number): Promise<Allocation | undefined> {
  const streamed = attempts.streamTarget(uid);
  if (streamed === undefined) {
    return undefined;
  }
  const { addr, batcher, target } = streamed;
  const { call, shared } = attempts;
  const { routeVersion, epoch } = target;
  attempts.count(addr);
  const outcome = await batcher.send({ uid, count, epoch, routeVersion, until: attempts.until(addr) }, call.signal);
  switch (outcome.kind) {
    case "numbers":
      shared.adopt(outcome.routes, addr);
      return Allocation.checked(addr, outcome, count, outcome.lost);
    case "refused":
      shared.adopt(outcome.routes, addr);
      // The item would have to wait, or belongs to another node: as a request of its own it may.
      if (outcome.item.reason !== "WOULD_WAIT") {
        await attempts.prepareItemRetry(uid, addr, outcome.item);
      }
      return undefined;
    case "failed":
      await attempts.prepareStreamRetry(uid, addr, outcome.failure, outcome.sent);
      return undefined;
    case "timeout":
      await attempts.timedOut(uid, addr, outcome.sent, Failure.timeout());
      return undefined;
    case "aborted":
      attempts.addLost(outcome.sent ? 1 : 0);
      throw attempts.aborted();
    case "invalid":
      throw new BadAnswer(addr, outcome.what, attempts.made);
    case "unsupported":
      return undefined;
  }
}
