package seqsvr.client;

import java.time.Duration;
import java.util.Optional;

/**
 * Functions that the client calls at events, for metrics and traces. They are called in the thread of the event,
 * concurrently, and must not block. An exception of one is logged and has no other effect.
 *
 * <p>{@link #callStarted} returns an object, in which a tracer keeps its span, and which the other functions get. The
 * README has an adapter to OpenTelemetry. No event has a uid or a token.
 */
public interface Observer {
    /** The name of the metric that counts calls, with the attributes method, outcome and reason. */
    String METRIC_CALLS = "seqsvr.client.calls";
    /** The name of the metric that counts requests, with the attributes method, outcome and reason. */
    String METRIC_ATTEMPTS = "seqsvr.client.attempts";
    /** The name of the metric that counts retries, with the attributes method and reason. */
    String METRIC_RETRIES = "seqsvr.client.retries";
    /** The name of the metric that counts attempts with unknown outcome, each of which may have skipped numbers. */
    String METRIC_LOST = "seqsvr.client.lost";
    /** The name of the metric of the duration of calls in seconds. */
    String METRIC_DURATION = "seqsvr.client.duration";
    /** The name of the attribute with the method of a call, e.g. Next. */
    String ATTR_METHOD = "seqsvr.method";
    /** The name of the attribute with {@link Outcome#label}. */
    String ATTR_OUTCOME = "seqsvr.outcome";
    /** The name of the attribute with the reason of the error, e.g. UNSERVED. */
    String ATTR_REASON = "seqsvr.reason";
    /** The name of the attribute with the name of a set. */
    String ATTR_SET = "seqsvr.set";
    /** The name of the attribute with the address of a node. */
    String ATTR_ADDR = "server.address";

    /**
     * A call.
     *
     * @param method name of the method, e.g. Next, NextMany, Current or Series.Next, equal in all clients
     * @param items number of items of a batch, otherwise 1
     */
    record Call(String method, int items) { }

    /**
     * The end of a call.
     *
     * @param duration duration of the call
     * @param attempts number of requests that were sent for the first item
     * @param lost number of attempts with unknown outcome
     * @param error error; empty if the call succeeded. Items of a batch have errors of their own
     */
    record CallEnd(Duration duration, int attempts, int lost, Optional<SeqException> error) {
        /** Returns the outcome of the call. */
        public Outcome outcome() {
            return error.map(e -> new Outcome(e.kind().label(), e.reason())).orElse(Outcome.OK);
        }
    }

    /**
     * An attempt of a call.
     *
     * @param method name of the call's method
     * @param addr address of the node
     * @param set name of the set of the section
     * @param number number of the attempt in its call, from 1
     * @param coalesced whether the attempt is part of a message that it shares with other calls
     */
    record Attempt(String method, String addr, String set, int number, boolean coalesced) { }

    /**
     * The end of an attempt.
     *
     * @param duration duration of the attempt
     * @param outcome outcome. The items of a response have errors of their own
     */
    record AttemptEnd(Duration duration, Outcome outcome) { }

    /**
     * A retry.
     *
     * @param method name of the call's method
     * @param reason reason of the failure that is retried
     * @param delay backoff before the retry
     */
    record Retry(String method, String reason, Duration delay) { }

    /**
     * The values of two attributes.
     *
     * @param label {@code ok}, or {@link Kind#label} of the error
     * @param reason reason of the error; empty without an error
     */
    record Outcome(String label, String reason) {
        static final Outcome OK = new Outcome("ok", "");
    }

    /** Observes the begin of a call. The result, which may be null, is passed to the other functions. */
    default Object callStarted(Call call) {
        return null;
    }

    /** Observes the end of a call. */
    default void callEnded(Object context, Call call, CallEnd end) { }

    /** Observes that a request is about to be sent. Calls that share a message are attempts of their own. */
    default void attemptStarted(Object context, Attempt attempt) { }

    /** Observes that a request has ended. */
    default void attemptEnded(Object context, Attempt attempt, AttemptEnd end) { }

    /** Observes the wait for a retry. */
    default void retried(Object context, Retry retry) { }

    /** Observes that a call fails because the retry budget of a set is exhausted. */
    default void budgetRefused(Object context, String set) { }

    /** Observes that newer routes of a set were adopted. The version is unsigned. */
    default void routesAdopted(String set, long version) { }
}
