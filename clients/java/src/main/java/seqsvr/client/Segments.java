package seqsvr.client;

import java.time.Duration;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/**
 * Fetches ids before they are needed, in ranges that grow with their use. It is for any number of threads.
 *
 * <p>The ids of one handle are unique and increase. The ids of different handles are unique too, but in no order relative to
 * each other. Fetched ids that are never used are skipped. Their number is at most 2, plus twice that of the used ids.
 *
 * <p>A range has enough ids for a time at the present rate of use, and the next range is fetched when half of it is used. So
 * a handle in use still returns ids for a while if no node responds. If the ids contain a time, unused ids are dropped after
 * a second.
 */
public final class Segments implements AutoCloseable {
    /** Time for which a fetched range of ids lasts. It is longer than any change of owner takes. */
    static final Duration DEFAULT_HOLD = Duration.ofSeconds(10);

    /** Age above which fetched ids that contain a time are dropped. */
    private static final long MAX_ID_AGE = 1_000_000_000;
    /** Limit on the ids that contain a time in one request. */
    private static final int MAX_TIMED_IDS = 10_000;

    private final Series series;
    private final long hold;

    // Guarded by the lock of this object.
    private IdBuffer buffer;
    /** Fetch in flight, whose future fails with its error; null if there is none. */
    private CompletableFuture<Ids> fetch;
    private boolean isClosed;

    Segments(Series series, Duration hold) {
        this.series = series;
        this.hold = Math.max(Math.min(hold.toSeconds(), 86_400) * 1_000_000_000 + hold.toNanosPart(), 1);
    }

    /**
     * Takes the next id, if one has been fetched. It does not wait. The result is empty before the first range has been
     * fetched, and when the fetched ids run out while no node responds.
     */
    public synchronized OptionalLong tryNext() {
        long id = buffer == null || isClosed ? 0 : take();
        return id == 0 ? OptionalLong.empty() : OptionalLong.of(id);
    }

    /**
     * Takes the next id. It waits only if no fetched id is left, at most for the deadline of a call. The error is that of
     * the fetch of a range. A later call starts another fetch.
     */
    public long next() {
        OptionalLong ready = tryNext();
        return ready.isPresent() ? ready.getAsLong() : start().await();
    }

    /** Takes the next id, as {@link #next}. */
    public CompletableFuture<Long> nextAsync() {
        OptionalLong ready = tryNext();
        return ready.isPresent() ? CompletableFuture.completedFuture(ready.getAsLong()) : start().result();
    }

    private Call<Long> start() {
        return Call.start(series.core, new Observer.Call("Segments.Next", 1), false, series.deadline(), this::next);
    }

    private CompletableFuture<Long> next(Attempts t) {
        synchronized (this) {
            if (buffer != null) {
                return await(t);
            }
        }
        return series.shape(t).thenCompose(shape -> {
            synchronized (this) {
                if (buffer == null) {
                    buffer = shape instanceof Shape.Timed
                            // The next range is fetched while half of the present range is left, and is used up before it
                            // is too old.
                            ? new IdBuffer(Math.min(hold, MAX_ID_AGE / 2), MAX_ID_AGE, MAX_TIMED_IDS, series.after)
                            : new IdBuffer(hold, 0, Allocation.MAX_COUNT, series.after);
                }
            }
            return await(t);
        });
    }

    /** Returns the future of the next id. Waits for the fetch, or for the pause after one that failed. */
    private CompletableFuture<Long> await(Attempts t) {
        CompletableFuture<?> waited;
        CompletableFuture<Ids> running;
        long pause;
        synchronized (this) {
            if (isClosed) {
                SeqException closed = t.errors.closed();
                return Async.failed(closed.copy("the handle of fetched ids is closed"));
            }
            SeqException interrupted = t.interrupted();
            if (interrupted != null) {
                return Async.failed(interrupted);
            }
            long id = take();
            if (id != 0) {
                return CompletableFuture.completedFuture(id);
            }
            running = fetch;
            pause = buffer.pause(System.nanoTime());
        }
        long left = t.call.deadline - System.nanoTime();
        if (running == null) {
            waited = t.call.atMost(new CompletableFuture<>(), Math.min(pause, left));
        } else {
            waited = t.call.atMost(running, left);
        }
        return waited.thenCompose(over -> {
            if (running != null && running.isCompletedExceptionally()) {
                SeqException error = Async.errorOf(running.handle((ids, failed) -> failed).join());
                return Async.failed(error.copy());
            }
            return await(t);
        });
    }

    /** Takes the next id, and begins the fetch that is due. The caller holds the lock. */
    private long take() {
        IdBuffer.Taken taken = buffer.take(System.nanoTime());
        if (taken.fetch() > 0) {
            Series above = buffer.highest() > 0 ? series.after(buffer.highest()) : series;
            CompletableFuture<Ids> started = new CompletableFuture<>();
            fetch = started;
            above.takeAsync(taken.fetch()).whenComplete((ids, error) -> {
                synchronized (this) {
                    fetch = null;
                    if (error == null) {
                        buffer.fetched(ids, System.nanoTime());
                    } else {
                        buffer.failed(System.nanoTime());
                    }
                }
                if (error == null) {
                    started.complete(ids);
                } else {
                    started.completeExceptionally(error);
                }
            });
        }
        return taken.id();
    }

    /** Returns the number of ids that were fetched but not used, which are skipped. */
    public synchronized long unused() {
        return buffer == null ? 0 : buffer.unused();
    }

    /** Closes the handle: later calls fail with {@link Kind#CLOSED}. A fetch in flight ends by itself. */
    @Override
    public synchronized void close() {
        isClosed = true;
    }
}
