package seqsvr.client;

import java.util.Locale;

/** The kind of a {@link SeqException}. */
public enum Kind {
    /** The uid is in no set that the seeds know. Nothing was sent. */
    UID_OUTSIDE,
    /** The count is 0 or above {@link Allocation#MAX_COUNT}. Nothing was sent. */
    COUNT,
    /** A server refused the request, and retries were refused too or would have been useless. */
    REFUSED,
    /** No node of the section's set could be reached. Calls for sections of other sets are unaffected. */
    SET_UNAVAILABLE,
    /** Every connection failed before a response arrived. */
    UNREACHABLE,
    /** The deadline passed before a response arrived. */
    DEADLINE,
    /** A response does not match its request: the server implements another protocol, or has a bug. */
    BAD_ANSWER,
    /** The client was closed before the call ended. */
    CLOSED,
    /** The thread of the call was interrupted, or its future was cancelled. */
    CANCELLED,
    /**
     * The client has no routes, because no seed responded with valid ones, or a setting is invalid. Only {@link
     * SeqClient.Builder#build} and {@link SeqClient#reload} report it.
     */
    CONNECT;

    /** Returns the name of the kind that is equal in all clients of the service, e.g. {@code uid_outside}. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }
}
