package seqsvr.client;

import java.time.Duration;
import java.util.Arrays;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The error of a call, or of one item of a batch. It has what a caller needs to decide about a retry.
 *
 * <p>Retrying a call never returns a number that was returned before. If {@link #mayHaveApplied} is true, a retry can
 * skip numbers.
 *
 * <p>The stack trace is that of the calling thread. The error of a future or of an item has none, because it was made in
 * a thread of the client.
 */
public final class SeqException extends RuntimeException {
    private static final long serialVersionUID = 1;

    Kind kind;
    String reason;
    Code code;
    private final String text;
    Long uid;
    long setId;
    String setName = "";
    String address = "";
    long bound;
    boolean isRetryable;
    boolean mayHaveApplied;
    long retryAfterMs;
    int attempts;

    SeqException(Kind kind, String reason, String text) {
        this.kind = kind;
        this.reason = reason;
        this.text = text;
    }

    /** Returns a copy with another description. */
    SeqException copy(String otherText) {
        SeqException copy = new SeqException(kind, reason, otherText);
        copy.code = code;
        copy.uid = uid;
        copy.setId = setId;
        copy.setName = setName;
        copy.address = address;
        copy.bound = bound;
        copy.isRetryable = isRetryable;
        copy.mayHaveApplied = mayHaveApplied;
        copy.retryAfterMs = retryAfterMs;
        copy.attempts = attempts;
        return copy.causedBy(getCause());
    }

    SeqException copy() {
        return copy(text);
    }

    SeqException causedBy(Throwable cause) {
        if (cause != null && cause != this) {
            initCause(cause);
        }
        return this;
    }

    /** Returns the error as that of a uid, which is null for a call for ids. */
    SeqException of(Long ofUid) {
        if (ofUid != null) {
            uid = ofUid;
        }
        return this;
    }

    /** Returns the description without the uid. */
    String text() {
        return text;
    }

    /** Returns whether the call got neither numbers nor a refusal. */
    boolean isUnanswered() {
        return switch (kind) {
            case UNREACHABLE, DEADLINE, BAD_ANSWER, CLOSED, CANCELLED -> true;
            case SET_UNAVAILABLE -> retryAfterMs == 0;
            default -> false;
        };
    }

    /** Returns this error with the stack of the current thread. */
    SeqException here() {
        StackTraceElement[] stack = Thread.currentThread().getStackTrace();
        int first = 1;
        while (first < stack.length && stack[first].getClassName().equals(SeqException.class.getName())) {
            first++;
        }
        setStackTrace(Arrays.copyOfRange(stack, Math.min(first, stack.length), stack.length));
        return this;
    }

    /** Does nothing: an error is made in a thread of the client, and gets the stack of its caller where it is thrown. */
    @Override
    public synchronized Throwable fillInStackTrace() {
        return this;
    }

    /** Returns a description for humans. */
    @Override
    public String getMessage() {
        String message = (uid == null ? "" : "uid " + Long.toUnsignedString(uid) + ": ") + text;
        return getCause() == null || getCause().getMessage() == null ? message : message + ": " + getCause().getMessage();
    }

    /** Returns the kind of the error. */
    public Kind kind() {
        return kind;
    }

    /**
     * Returns the reason in capitals, e.g. {@code UNSERVED}: the server's own if it refused, otherwise that of the
     * client, as {@code DEADLINE_EXCEEDED}. {@link Reason#lookup} explains it, and {@link Reasons} has a constant for
     * each.
     */
    public String reason() {
        return reason;
    }

    /** Returns the code of a refusal; empty if no server refused. */
    public Optional<Code> code() {
        return Optional.ofNullable(code);
    }

    /** Returns the requested uid, unsigned; empty for calls for ids and keys, and for errors that concern no single
     * uid. */
    public OptionalLong uid() {
        return uid == null ? OptionalLong.empty() : OptionalLong.of(uid);
    }

    /** Returns the id of the set that could not be reached, unsigned; 0 if it is unknown. */
    public long setId() {
        return setId;
    }

    /** Returns the name of the set that could not be reached; empty if it is unknown. */
    public String setName() {
        return setName;
    }

    /** Returns the address of the node of the last attempt, if a connection failed or a response was invalid. */
    public String address() {
        return address;
    }

    /**
     * Returns the highest number to which an advance is accepted at present, if the reason is {@code ADVANCE_TOO_FAR};
     * otherwise 0.
     */
    public long bound() {
        return bound;
    }

    /** Returns whether the same call can succeed later. */
    public boolean retryable() {
        return isRetryable;
    }

    /**
     * Returns whether numbers may have been consumed although none was returned: they are skipped and never allocated
     * again. It is false for reads.
     */
    public boolean mayHaveApplied() {
        return mayHaveApplied;
    }

    /** Returns the time after which the server expects a retry to succeed; zero if it stated none. */
    public Duration retryAfter() {
        return Duration.ofMillis(retryAfterMs);
    }

    /** Returns the number of times that the request was sent. */
    public int attempts() {
        return attempts;
    }
}
