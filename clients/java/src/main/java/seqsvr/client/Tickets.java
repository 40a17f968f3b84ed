package seqsvr.client;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Takes ids from several counters in rotation, for example from two sets or clusters, so that ids go on while one of them is
 * down. It is for any number of threads.
 *
 * <p>Ids are unique, because no two counters have an id in common. The ids of a call are greater than those of every call
 * that ended before it began. If the counter of a call is unavailable, the call continues with the next one, within the
 * retry budget of its set, and the unavailable counter is left out for a second.
 */
public final class Tickets {
    /** Time for which a counter is left out of the rotation after it failed, while another one responds. */
    private static final long LEFT_OUT_FOR = 1_000_000_000;

    private static final class Counter {
        final Series series;
        final Shape.Counter shape;
        volatile boolean isLeftOut;
        volatile long leftOutUntil;

        Counter(Series series, Shape.Counter shape) {
            this.series = series;
            this.shape = shape;
        }

        boolean isLeftOut(long now) {
            return isLeftOut && now - leftOutUntil < 0;
        }
    }

    private final List<Counter> counters = new ArrayList<>();
    private final AtomicInteger turn = new AtomicInteger();
    /** Highest id in any response so far. */
    private final AtomicLong last = new AtomicLong();

    private Tickets(List<Series> series) {
        if (series.isEmpty()) {
            throw Errors.refusal(Reasons.UNKNOWN_SERIES, Code.INVALID_ARGUMENT, "tickets need a series").here();
        }
        for (Series one : series) {
            if (!(one.shape() instanceof Shape.Counter shape)) {
                throw Errors.refusal(Reasons.NOT_A_COUNTER, Code.INVALID_ARGUMENT,
                        "the ids of series \"" + one.name() + "\" follow the clock: tickets are ids of counters").here();
            }
            for (Counter other : counters) {
                if (shape.overlaps(other.shape)) {
                    throw Errors.refusal(Reasons.LANES_OVERLAP, Code.INVALID_ARGUMENT,
                            "series \"" + one.name() + "\" and \"" + other.series.name()
                                    + "\" have ids in common: give them one increment and different offsets").here();
                }
            }
            counters.add(new Counter(one, shape));
        }
    }

    /**
     * Returns tickets over counters, of one client or of several. The reason {@code NOT_A_COUNTER} is for a series whose ids
     * contain a time, and {@code LANES_OVERLAP} for two counters that could give out the same id.
     */
    public static Tickets of(List<Series> series) {
        return new Tickets(series);
    }

    /** Takes the next id, above the ids of all calls that ended before. */
    public long next() {
        return start(1).await().last();
    }

    /**
     * Takes the next ids of one counter, 1 to {@link Allocation#MAX_COUNT}. They are above the ids of all calls that ended
     * before.
     *
     * <p>The error is that of the last attempt. If its {@link SeqException#mayHaveApplied} is true, ids may have been
     * consumed, which are then skipped.
     */
    public Ids take(int count) {
        return start(count).await();
    }

    /** Takes the next ids of one counter, as {@link #take}. */
    public CompletableFuture<Ids> takeAsync(int count) {
        return start(count).result();
    }

    private Call<Ids> start(int count) {
        List<Counter> order = order();
        Series first = order.get(0).series;
        return Call.start(first.core, new Observer.Call("Tickets.Next", 1), false, first.deadline(), t -> {
            if (!Errors.isCount(count)) {
                throw Errors.count(null, count);
            }
            return round(t, order, count, 0, false);
        });
    }

    /** Makes an attempt at one counter after another. */
    private CompletableFuture<Ids> round(Attempts t, List<Counter> order, int count, int made, boolean mayHaveApplied) {
        int place = made % order.size();
        Counter counter = order.get(place);
        long now = System.nanoTime();
        // The time of an attempt is limited, so that after a counter that does not respond there is time for the others.
        Attempts each = t.forkFor(counter.series.core);
        each.route = null;
        each.excluded = "";
        each.isOnce = true;
        each.onceUntil = now + (t.call.deadline - now) / (order.size() - place);
        each.made = made / order.size();
        return takeFrom(counter, each, count).handle((ids, failed) -> {
            t.made++;
            t.lost = each.lost;
            if (failed == null) {
                counter.isLeftOut = false;
                last.accumulateAndGet(ids.last(), Math::max);
                return CompletableFuture.completedFuture(ids);
            }
            SeqException error = Async.errorOf(failed);
            error.mayHaveApplied |= mayHaveApplied;
            if (!error.isRetryable || each.route == null) {
                return Async.<Ids>failed(error);
            }
            counter.leftOutUntil = System.nanoTime() + LEFT_OUT_FOR;
            counter.isLeftOut = true;
            // Within one round, the next counter is tried without a pause.
            boolean isLast = place + 1 == order.size();
            boolean applied = error.mayHaveApplied;
            return each.pause(error, isLast ? error.retryAfterMs : 0, !isLast)
                    .thenCompose(over -> round(t, order, count, made + 1, applied));
        }).thenCompose(future -> future);
    }

    /** Takes ids of one counter. A counter that is so far behind the others that the call is refused is raised first. */
    private CompletableFuture<Ids> takeFrom(Counter counter, Attempts t, int count) {
        Series series = counter.series.after(last.get());
        return Async.run(() -> series.take(t, count)).handle((ids, failed) -> {
            if (failed == null) {
                return CompletableFuture.completedFuture(ids);
            }
            SeqException error = Async.errorOf(failed);
            long to = counter.shape.atMost(series.after);
            if (!error.reason.equals(Reasons.AFTER_TOO_FAR) || to == 0) {
                return Async.<Ids>failed(error);
            }
            return series.advance(t, to).handle((epoch, refused) -> {
                boolean isPast = refused != null && Async.errorOf(refused).reason.equals(Reasons.ALREADY_PAST);
                return refused == null || isPast ? series.take(t, count) : Async.<Ids>failed(Async.errorOf(refused));
            }).thenCompose(future -> future);
        }).thenCompose(future -> future);
    }

    /** Returns the counters in the order in which a call tries them: in rotation, with those left out at the end. */
    private List<Counter> order() {
        int first = Math.floorMod(turn.getAndIncrement(), counters.size());
        List<Counter> order = new ArrayList<>(counters.subList(first, counters.size()));
        order.addAll(counters.subList(0, first));
        long now = System.nanoTime();
        order.sort(Comparator.comparing(counter -> counter.isLeftOut(now)));
        return order;
    }
}
