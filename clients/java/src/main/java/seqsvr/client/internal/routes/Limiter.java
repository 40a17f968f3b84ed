package seqsvr.client.internal.routes;

import java.time.Duration;

/** Lets one caller pass at a time, and at most one in an interval. */
public final class Limiter {
    private boolean isBusy;
    private boolean wasUsed;
    private long last;

    /** Returns false while another caller is busy, or if the last one began less than an interval ago. */
    public synchronized boolean tryAcquire(Duration interval) {
        long now = System.nanoTime();
        if (isBusy || wasUsed && now - last < interval.toNanos()) {
            return false;
        }
        isBusy = true;
        wasUsed = true;
        last = now;
        return true;
    }

    /** Ends the work of a caller that passed. */
    public synchronized void release() {
        isBusy = false;
    }
}
