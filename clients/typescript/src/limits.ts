/** Limits of calls, which are the same in all SDKs. */

/** Default deadline of a call: longer than the sections of a lost host wait for their next owner. */
export const DEFAULT_DEADLINE_MS = 5_000;

/** Longest deadline; a longer one is reduced to it. */
export const MAX_DEADLINE_MS = 24 * 3_600 * 1_000;

/** Most numbers of one item. */
export const MAX_COUNT = 1_000_000;

/** Limit of a response: that of a full batch with routes, as in the servers. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
