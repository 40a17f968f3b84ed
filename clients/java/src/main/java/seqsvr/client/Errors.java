package seqsvr.client;

import seqsvr.client.internal.http.StatusException;

/** Errors that concern no attempt. */
final class Errors {
    /** Reasons of failures that only clients report. */
    static final String CLIENT_CLOSED = "CLIENT_CLOSED";
    static final String CANCELLED = "CANCELLED";
    static final String CONNECT = "CONNECT";

    private Errors() { }

    static SeqException outside(long uid) {
        return new SeqException(Kind.UID_OUTSIDE, Reasons.UID_OUTSIDE, "outside every known set").of(uid);
    }

    static SeqException count(Long uid, int count) {
        return new SeqException(Kind.COUNT, Reasons.COUNT_OUT_OF_RANGE,
                "count " + count + " is not in 1..=" + Allocation.MAX_COUNT).of(uid);
    }

    static boolean isCount(int count) {
        return count >= 1 && count <= Allocation.MAX_COUNT;
    }

    static SeqException badAnswer(String addr, String what) {
        SeqException e = new SeqException(Kind.BAD_ANSWER, Reasons.BAD_ANSWER, addr + " sent an invalid response: " + what);
        e.address = addr;
        e.mayHaveApplied = true;
        e.attempts = 1;
        return e;
    }

    /** Returns a refusal that the client itself makes, without a request. */
    static SeqException refusal(String reason, Code code, String text) {
        SeqException e = new SeqException(Kind.REFUSED, reason, text);
        e.code = code;
        return e;
    }

    static SeqException connect(boolean isRetryable, Throwable cause, String text) {
        SeqException e = new SeqException(Kind.CONNECT, CONNECT, text).causedBy(cause);
        e.isRetryable = isRetryable;
        return e;
    }

    /** Returns whether a refusal can be retried. An unknown reason is judged by its code and hint as well. */
    static boolean isRetryable(int code, long retryAfterMs) {
        return retryAfterMs > 0 || code == StatusException.UNAVAILABLE || code == StatusException.DEADLINE_EXCEEDED;
    }

    /**
     * Returns whether a refused request may have changed a counter: a node forwarded it and got no response, or the
     * refusal does not come from the sequence service itself.
     */
    static boolean isOutcomeUnknown(String reason) {
        return reason.isEmpty() || Reason.lookup(reason).map(Reason::outcomeUnknown).orElse(false);
    }
}
