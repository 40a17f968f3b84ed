package seqsvr.client;

/**
 * Counts of a client since it was opened.
 *
 * @param calls number of calls
 * @param attempts number of requests for them. Calls that share a message count one attempt each
 * @param retries number of retries
 * @param budgetRefused number of calls that the retry budget did not let retry
 * @param messages number of messages with coalesced calls
 * @param routeAdoptions number of times that newer routes were adopted
 * @param pending number of calls in messages, pending and in flight
 */
public record Stats(long calls, long attempts, long retries, long budgetRefused, long messages, long routeAdoptions,
        int pending) { }
