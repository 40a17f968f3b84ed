package seqsvr.client;

import seqsvr.client.internal.http.StatusException;
import seqsvr.client.internal.routes.KnownSet;
import seqsvr.client.internal.wire.Sequence.ItemError;

/**
 * The errors of a call, with what its attempts know. An item is as in {@link Attempts#routeOf}, and null for a call for
 * ids.
 */
final class CallErrors {
    private final Attempts attempts;

    CallErrors(Attempts attempts) {
        this.attempts = attempts;
    }

    /** Returns an error as that of an item. Errors of keys state no uid. */
    SeqException of(SeqException error, Long item) {
        return attempts.buckets == null ? error.of(item) : error;
    }

    private SeqException create(Kind kind, String reason, String text) {
        SeqException e = new SeqException(kind, reason, text);
        e.mayHaveApplied = attempts.lost > 0;
        e.attempts = attempts.made;
        return e;
    }

    private SeqException retryable(Kind kind, String reason, String text) {
        SeqException e = create(kind, reason, text);
        e.isRetryable = true;
        return e;
    }

    SeqException closed() {
        return create(Kind.CLOSED, Errors.CLIENT_CLOSED, "the client is closed; open a new one");
    }

    SeqException cancelled() {
        return create(Kind.CANCELLED, Errors.CANCELLED, "the call was cancelled");
    }

    SeqException deadline() {
        return retryable(Kind.DEADLINE, Reasons.DEADLINE_EXCEEDED,
                "no response before the deadline, after " + attempts.made + " attempts");
    }

    /** Returns the error of an attempt that ended before the deadline of the call. */
    SeqException attemptLate(Long item, String addr) {
        SeqException e = retryable(Kind.DEADLINE, Reasons.DEADLINE_EXCEEDED,
                addr + " did not respond, after " + attempts.made + " attempts");
        e.address = addr;
        return of(e, item);
    }

    SeqException unreachable(Long item, String addr, Throwable cause) {
        SeqException e = retryable(Kind.UNREACHABLE, Reasons.UNREACHABLE,
                "the call to " + addr + " failed after " + attempts.made + " attempts");
        e.address = addr;
        return of(e.causedBy(cause), item);
    }

    /** Returns the error for a set whose nodes cannot be reached, by this client or by the node that refused. */
    SeqException setUnavailable(Long item, long id, SeqException refused) {
        KnownSet set = attempts.core.routes.load().byId(id);
        String name = set == null ? "" : set.name;
        String named = "set " + Long.toUnsignedString(id);
        if (id == 0) {
            named = "another set";
        } else if (!name.isEmpty()) {
            named = "set \"" + name + "\"";
        }
        String text = "the section is in " + named + ", of which no node can be reached";
        SeqException e = retryable(Kind.SET_UNAVAILABLE, Reasons.SET_UNAVAILABLE,
                refused == null ? text : text + ": " + refused.text());
        e.setId = id;
        e.setName = name;
        if (refused != null) {
            e.uid = refused.uid;
            e.code = refused.code;
            e.retryAfterMs = refused.retryAfterMs;
            e.mayHaveApplied = refused.mayHaveApplied;
        }
        return of(e, item);
    }

    /** Returns the error of a call that a server refused. */
    SeqException refused(Long item, StatusException status) {
        boolean isOthers = status.reason.isEmpty();
        // The message of a refusal without a reason may be empty.
        SeqException e = isOthers
                ? create(Kind.REFUSED, Reasons.REFUSED_BY_OTHERS, Code.of(status.code) + ": " + status.getMessage())
                : create(Kind.REFUSED, status.reason, status.getMessage());
        e.code = Code.of(status.code);
        e.retryAfterMs = status.retryAfterMs;
        e.bound = status.bound == null ? 0 : status.bound;
        e.isRetryable = Errors.isRetryable(status.code, status.retryAfterMs);
        return of(e, item);
    }

    /** Returns the error of an item that a server refused. */
    SeqException item(long item, ItemError refusal) {
        boolean isOthers = refusal.reason.isEmpty();
        SeqException e = create(Kind.REFUSED, isOthers ? Reasons.REFUSED_BY_OTHERS : refusal.reason, refusal.message);
        e.code = Code.of(refusal.code);
        e.retryAfterMs = Integer.toUnsignedLong(refusal.retryAfterMs);
        e.mayHaveApplied |= Errors.isOutcomeUnknown(refusal.reason) && !attempts.call.reads;
        e.isRetryable = Errors.isRetryable(refusal.code, e.retryAfterMs);
        return of(e, item);
    }
}
