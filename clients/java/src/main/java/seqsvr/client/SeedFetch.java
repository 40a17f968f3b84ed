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

    /** Outcome of the request to a seed. */
    enum Outcome {
        /** The seed sent routes. */
        ADOPTED,
        /** The seed sent routes that were not adopted. */
        BAD_ROUTES,
        /** The seed responded that it has no routes yet. */
        STARTING,
        /** The seed refused the client for a reason for which it refuses it again. */
        REFUSED,
        /** The seed could not be reached, or refused the client for now. */
        FAILED;

        static Outcome of(boolean isStarting, boolean isFinal) {
            return isStarting ? STARTING : isFinal ? REFUSED : FAILED;
        }
    }

    /**
     * The response of one seed.
     *
     * @param seed address of the seed
     * @param error failure; null if there is none
     * @param outcome outcome
     */
    record Response(String seed, Throwable error, Outcome outcome) { }

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
        switch (response.outcome) {
            case BAD_ROUTES -> {
                isStarting = false;
                finish(Errors.connect(false, response.error, "the routes of " + response.seed + " cannot be used"));
            }
            case STARTING -> {
                isStarting = true;
                last = Errors.connect(true, null, response.seed + " responds, but has no routes yet");
            }
            case REFUSED, FAILED -> {
                if (!isStarting) {
                    last = Errors.connect(response.outcome == Outcome.FAILED, response.error,
                            "no seed responded; " + response.seed + " failed last");
                }
            }
            case ADOPTED -> {
                if (!hasGrace) {
                    hasGrace = true;
                    core.timers.after(GRACE, () -> finish(null));
                }
            }
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
