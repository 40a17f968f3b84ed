/**
 * Discovery of the cluster's sets: routes from the seeds when a client is opened, and when a uid is in no known set;
 * routes from other sets if no node of a section's set can be reached, because the section may have migrated to one of
 * them.
 */

import { FIRST_BACKOFF_MS, MAX_BACKOFF_MS } from "./budget.js";
import { sleep } from "./clock.js";
import { ConnectFailed } from "./errors.js";
import { Failure } from "./failure.js";
import { SequenceService } from "./generated/seqsvr/v1/sequence_pb.js";
import type { RouteSet } from "./routes.js";
import type { Shared } from "./shared.js";

/** Minimum interval between two fetches of routes from the seeds because a uid is in no known set. */
const MIN_REFRESH_INTERVAL_MS = 1_000;

/** Time for which a fetch waits for the other seeds once it has the routes. The tables of their own sets are newer. */
const SEED_GRACE_MS = 100;

/** Time for which a call waits for seeds whose routes may have its uid. A seed that responds takes less. */
const SEED_TIMEOUT_MS = 1_000;

/** Timeout of a request for routes to another set. A call waits for it before its next attempt. */
const OTHERS_TIMEOUT_MS = 250;

/** Result of one round of requests to the seeds. */
interface Round {
  /** Whether a seed responded that has no routes yet. */
  isStarting: boolean;
  /** Whether a connection was made and then lost. */
  wasCut: boolean;
  failed: string | undefined;
  isRetryable: boolean;
  cause: unknown;
}

/**
 * Fetches routes from the seeds until one has some, or the deadline has passed. Throws ConnectFailed; at once if no
 * seed can be reached. A lost connection has one more attempt, because the next one shows the cause.
 */
export async function connect(shared: Shared, deadlineAt: number, signal: AbortSignal): Promise<void> {
  let isFirst = true;
  for (let wait = FIRST_BACKOFF_MS; ; wait = Math.min(wait * 2, MAX_BACKOFF_MS)) {
    const round = await fetchRoutes(shared, deadlineAt, signal, () => shared.routes.sets.size > 0);
    if (shared.routes.sets.size > 0) {
      return;
    }
    const repeats = round.isStarting || (round.wasCut && isFirst);
    isFirst = false;
    const canRepeat = repeats && shared.clock.now() + wait < deadlineAt && !signal.aborted;
    if (!canRepeat) {
      throw failed(shared, round);
    }
    await sleep(shared.clock, wait, signal);
  }
}

/** Fetches routes from the seeds again, because uids are in no known set; at most once a second. */
export async function refresh(
  shared: Shared,
  uids: readonly bigint[],
  deadlineAt: number,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = shared;
  if (shared.refreshing === undefined) {
    if (clock.now() - shared.refreshedAt < MIN_REFRESH_INTERVAL_MS) {
      return;
    }
    // The fetch is not that of one call: it goes on for others when its call ends.
    const isCovered = () => uids.every((uid) => shared.routes.route(uid) !== undefined);
    const until = clock.now() + SEED_TIMEOUT_MS;
    const fetch = fetchRoutes(shared, until, new AbortController().signal, isCovered).then(
      () => undefined,
      (error) => shared.log("debug", "fetching routes from the seeds failed", { error: String(error) }),
    );
    shared.refreshing = fetch.finally(() => {
      shared.refreshing = undefined;
      shared.refreshedAt = clock.now();
    });
  }
  const timeout = new AbortController();
  const onAbort = () => timeout.abort();
  signal.addEventListener("abort", onAbort);
  // After a timeout, the call continues with the known routes and fails with an error of its own.
  await Promise.race([shared.refreshing, sleep(clock, Math.max(deadlineAt - clock.now(), 0), timeout.signal)]);
  signal.removeEventListener("abort", onAbort);
  timeout.abort();
}

/** Sends one request to each seed. Throws ConnectFailed if a seed has invalid routes. */
async function fetchRoutes(
  shared: Shared,
  deadlineAt: number,
  signal: AbortSignal,
  isCovered: () => boolean,
): Promise<Round> {
  const round: Round = { isStarting: false, wasCut: false, failed: undefined, isRetryable: false, cause: undefined };
  const controller = new AbortController();
  const onAbort = () => controller.abort();
  signal.addEventListener("abort", onAbort);
  let [invalid, onCovered]: [ConnectFailed | undefined, () => void] = [undefined, () => undefined];
  const covered = new Promise<void>((resolve) => {
    onCovered = resolve;
  });
  const fetch = async (seed: string) => {
    try {
      const timeoutMs = deadlineAt - shared.clock.now();
      const method = SequenceService.method.getRoutes;
      const { routes } = await shared.transport.unary(seed, method, {}, timeoutMs, controller.signal);
      if (routes === undefined) {
        round.isStarting = true;
        return;
      }
      shared.adoptChecked(routes, seed);
      if (isCovered()) {
        onCovered();
      }
    } catch (error) {
      if (!(error instanceof Failure)) {
        const text = `${seed}: ${error instanceof Error ? error.message : error}`;
        invalid ??= new ConnectFailed(text, { retryable: false, cause: error });
      } else if (!controller.signal.aborted) {
        onFailure(shared, seed, error, round);
      }
    }
  };
  const all = Promise.all(shared.seeds.map(fetch));
  // A seed that is down does not delay the others for long.
  const grace = covered.then(() => sleep(shared.clock, SEED_GRACE_MS, controller.signal));
  await Promise.race([all, grace]);
  controller.abort();
  await all;
  signal.removeEventListener("abort", onAbort);
  if (invalid !== undefined) {
    throw invalid;
  }
  return round;
}

function onFailure(shared: Shared, seed: string, failure: Failure, round: Round): void {
  if (failure.kind === "connection") {
    shared.suspects.add(seed);
  }
  // A node that has not joined its set yet refuses; a store or another server does not know the method.
  const isStarting = failure.isFromServer && failure.code === "UNAVAILABLE";
  round.isStarting ||= isStarting;
  round.wasCut ||= failure.kind === "connection" && !failure.neverSent;
  round.failed = `${seed} ${describe(failure)}`;
  round.isRetryable ||= failure.kind !== "invalid" && (!failure.isFromServer || isStarting);
  round.cause = failure;
}

function failed(shared: Shared, round: Round): ConnectFailed {
  if (round.isStarting) {
    return new ConnectFailed("the seeds respond, but have no routes yet", { retryable: true, cause: round.cause });
  }
  const none = `${shared.seeds.join(", ")} did not respond before the deadline`;
  const retryable = round.isRetryable || round.failed === undefined;
  return new ConnectFailed(`no seed answered; ${round.failed ?? none}`, { retryable, cause: round.cause });
}

/** Describes the failure of a seed, and names the kind of its server if the failure shows that it is no AllocSvr. */
function describe(failure: Failure): string {
  if (failure.isFromServer && failure.code === "UNIMPLEMENTED") {
    return "does not give out sequence numbers: it is a store or another gRPC server; name an AllocSvr";
  }
  if (failure.kind === "invalid") {
    return `speaks HTTP but not gRPC (${failure.message}); name the gRPC port of an AllocSvr`;
  }
  return `failed: ${failure.message}`;
}

/**
 * Fetches newer routes because no node of the set `down` can be reached: from the node `from` of the set `of`, or else
 * from a node of another set. A set that is down causes at most one such request a second.
 */
export async function refreshFromOthers(
  shared: Shared,
  down: RouteSet,
  signal: AbortSignal,
  from?: { addr: string; of: RouteSet },
): Promise<void> {
  const { clock, suspects } = shared;
  if (clock.now() - down.othersAskedAt < MIN_REFRESH_INTERVAL_MS) {
    return;
  }
  const isSuspect = (addr: string) => suspects.has(addr);
  const others = shared.routes.others(down).filter((other) => !other.isDown(isSuspect));
  const of = from?.of ?? others[Math.floor(Math.random() * others.length)];
  const addr = from?.addr ?? of?.host(0, undefined, isSuspect);
  if (of === undefined || addr === undefined) {
    return;
  }
  down.othersAskedAt = clock.now();
  try {
    const request = { knownVersion: of.knownVersion() ?? 0n };
    const method = SequenceService.method.getRoutes;
    const { routes } = await shared.transport.unary(addr, method, request, OTHERS_TIMEOUT_MS, signal);
    shared.adopt(routes, addr);
  } catch (error) {
    shared.log("debug", "fetching routes from another set failed", { addr, error: String(error) });
  }
}
