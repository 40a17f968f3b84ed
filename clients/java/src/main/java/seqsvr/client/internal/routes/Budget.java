package seqsvr.client.internal.routes;

import java.util.concurrent.atomic.LongAdder;

/**
 * The retries that a client may still make to one set. When a set fails, all its callers retry; without a limit, the
 * retries would keep the set overloaded. The constants are equal in all clients of the service.
 */
public final class Budget {
    /** Number of retries that each call earns. */
    static final double RETRY_RATIO = 0.2;

    /**
     * Number of retries that each second earns, so that a client that makes few calls can retry during a change of
     * owner.
     */
    static final double RETRIES_PER_SECOND = 10;

    /**
     * Largest balance, and that of a new client. It allows one retry for each caller in a busy process, because the
     * failure of a message causes a retry of all calls in it.
     */
    public static final double MAX_SAVED_RETRIES = 1000;

    /** Calls that are not in the balance yet. A call whose first attempt succeeds changes only this field. */
    private final LongAdder calls = new LongAdder();

    private double saved = MAX_SAVED_RETRIES;
    private long updatedAt;

    Budget(long now) {
        updatedAt = now;
    }

    /** Counts a call at its first attempt. */
    public void earn() {
        calls.increment();
    }

    /** Takes one retry; false if the budget is exhausted. The time is that of {@link System#nanoTime}. */
    public synchronized boolean spend(long now) {
        double seconds = Math.max(now - updatedAt, 0) / 1e9;
        double earned = calls.sumThenReset() * RETRY_RATIO + seconds * RETRIES_PER_SECOND;
        saved = Math.min(saved + earned, MAX_SAVED_RETRIES);
        updatedAt = now;
        if (saved < 1) {
            return false;
        }
        saved--;
        return true;
    }
}
