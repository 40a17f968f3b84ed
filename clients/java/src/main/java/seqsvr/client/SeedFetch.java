package seqsvr.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import seqsvr.client.internal.http.Timers;

/**
 * The fetch of the routes of every seed. It fails if the client has no routes afterwards, or if a seed sent routes that are
 * invalid or of another cluster.
 */
final class SeedFetch {
    /**
     * Time for which a fetch waits for the other seeds once one has sent routes. Those that respond later are adopted
     * later, so a seed that hangs does not delay the start.
     */
    private static final long GRACE = 100_000_000;

    /**
     * The response of one seed.
     *
     * @param seed address of the seed
     * @param error failure; null if the seed responded
     * @param isBad whether the seed sent routes that were not adopted
     * @param isStarting whether the seed responded that it has no routes yet
     */
    record Response(String seed, Throwable error, boolean isBad, boolean isStarting) { }

    /** Ends with the fetch. It never fails. */
    final CompletableFuture<Void> done = new CompletableFuture<>();

    private final Core core;
    private final Future<?> timer;

    // Guarded by the lock of this object.
    private int left;
    private boolean hasGrace;
    private boolean isStarting;
    private SeqException last;
    private SeqException failed;

    SeedFetch(Core core, long end) {
        this.core = core;
        this.left = core.seeds.size();
        timer = core.timers.after(end - System.nanoTime(), this::timeOut);
        if (timer == null) {
            finish(Errors.connect(false, null, "the client is closed"));
        }
    }

    /** Returns the error of the fetch; null if it succeeded. */
    synchronized SeqException failed() {
        return failed;
    }

    /** Returns whether a seed has no routes yet, and the fetch ended before its deadline. */
    synchronized boolean isStarting() {
        return isStarting;
    }

    synchronized void add(Response response) {
        left--;
        if (response.isBad) {
            isStarting = false;
            finish(Errors.connect(false, response.error, "the routes of " + response.seed + " cannot be used"));
        } else if (response.isStarting) {
            isStarting = true;
            last = Errors.connect(true, null, response.seed + " responds, but has no routes yet");
        } else if (response.error != null) {
            if (!isStarting) {
                last = Errors.connect(true, response.error, "no seed responded; " + response.seed + " failed last");
            }
        } else if (!hasGrace) {
            hasGrace = true;
            core.timers.after(GRACE, () -> finish(null));
        }
        if (left == 0) {
            end();
        }
    }

    private synchronized void timeOut() {
        if (!isStarting) {
            last = Errors.connect(true, null, "no seed responded before the deadline; the seeds are " + core.seeds);
        }
        isStarting = false;
        end();
    }

    private void end() {
        finish(core.routes.load().isEmpty() ? last : null);
    }

    private synchronized void finish(SeqException error) {
        if (!done.isDone()) {
            failed = error;
            Timers.cancel(timer);
            done.complete(null);
        }
    }
}
