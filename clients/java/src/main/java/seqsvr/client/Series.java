package seqsvr.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.wire.IdMessages.AdvanceIdRequest;
import seqsvr.client.internal.wire.IdMessages.AdvanceIdResponse;
import seqsvr.client.internal.wire.IdMessages.CurrentIdRequest;
import seqsvr.client.internal.wire.IdMessages.CurrentIdResponse;
import seqsvr.client.internal.wire.IdMessages.NextIdsRequest;
import seqsvr.client.internal.wire.IdMessages.NextIdsResponse;
import seqsvr.client.internal.wire.Message;

/**
 * A handle of a series of ids, for any number of threads. {@link #lane} and {@link #after} return handles of the same series
 * with other settings. Any node serves a call. Failed attempts are repeated as those of {@link SeqClient}; ids of a lost
 * response are skipped and never allocated again.
 *
 * <p>The error of each call is a {@link SeqException}. If its {@link SeqException#mayHaveApplied} is true, ids may have been
 * consumed, which are then skipped.
 */
public final class Series {
    final Core core;
    private final Duration deadline;
    private final String name;
    private final Integer lane;
    /** Number above which all ids of this handle are; 0 if there is no such bound. */
    final long after;

    private Series(Core core, Duration deadline, String name, Integer lane, long after) {
        this.core = core;
        this.deadline = deadline;
        this.name = name;
        this.lane = lane;
        this.after = after;
    }

    Series(Core core, Duration deadline, String name) {
        this(core, deadline, name, null, 0);
    }

    Duration deadline() {
        return deadline;
    }

    /** Returns the name of the series. */
    public String name() {
        return name;
    }

    /**
     * Returns a handle of the same series for the ids of one lane. In a series whose callers name lanes, calls without a
     * lane are refused; in any other series, calls with one are.
     */
    public Series lane(int ofLane) {
        return new Series(core, deadline, name, ofLane, after);
    }

    /** Returns a handle of the same series for ids above an id. */
    public Series after(long id) {
        return new Series(core, deadline, name, lane, id);
    }

    /** Returns a handle of the same series whose calls have another deadline, over all attempts. */
    public Series withDeadline(Duration other) {
        return new Series(core, other, name, lane, after);
    }

    /** Takes the next id. */
    public long next() {
        return startTake(1).await().last();
    }

    /** Takes the next id, as {@link #next}. */
    public CompletableFuture<Long> nextAsync() {
        Call<Long> call = Call.start(core, new Observer.Call("Series.Next", 1), false, deadline,
                t -> take(t, 1).thenApply(Ids::last));
        return call.result();
    }

    /**
     * Takes the next ids: 1 to {@link Allocation#MAX_COUNT}, or to 10,000 if the ids contain a time. They are of the same
     * lane and in ascending order.
     */
    public Ids take(int count) {
        return startTake(count).await();
    }

    /** Takes the next ids, as {@link #take(int)}. */
    public CompletableFuture<Ids> takeAsync(int count) {
        return startTake(count).result();
    }

    private Call<Ids> startTake(int count) {
        return Call.start(core, new Observer.Call("Series.Next", 1), false, deadline, t -> take(t, count));
    }

    CompletableFuture<Ids> take(Attempts t, int count) {
        if (!Errors.isCount(count)) {
            throw Errors.count(null, count);
        }
        if (after < 0) {
            throw noId(after);
        }
        NextIdsRequest request = new NextIdsRequest();
        request.series = name;
        request.count = count;
        request.lane = lane == null ? null : Integer.toUnsignedLong(lane);
        request.after = after == 0 ? null : after;
        return call(t, "IdService/Next", request, NextIdsResponse::new,
                (addr, response) -> Ids.checked(addr, response, count, after));
    }

    /** Reads the last id of a counter. A series whose ids contain a time is refused with {@code NOT_A_COUNTER}. */
    public CurrentId current() {
        return startCurrent().await();
    }

    /** Reads the last id of a counter, as {@link #current}. */
    public CompletableFuture<CurrentId> currentAsync() {
        return startCurrent().result();
    }

    private Call<CurrentId> startCurrent() {
        CurrentIdRequest request = new CurrentIdRequest();
        request.series = name;
        return Call.start(core, new Observer.Call("Series.Current", 1), true, deadline,
                t -> call(t, "IdService/Current", request, CurrentIdResponse::new, (addr, response) -> {
                    if (response.id < 0) {
                        throw Errors.badAnswer(addr, "a last id above 2^63-1");
                    }
                    return new CurrentId(response.id, response.exact, response.epoch);
                }));
    }

    /**
     * Raises a counter to one of its ids, so that its next id is above it: for imports of counters. It is idempotent.
     * {@code ALREADY_PAST} means that the last id is above it, as in {@link SeqClient#advance}.
     *
     * @return the epoch of the ownership that applied the advance
     */
    public long advance(long id) {
        return startAdvance(id).await();
    }

    /** Raises a counter, as {@link #advance(long)}. */
    public CompletableFuture<Long> advanceAsync(long id) {
        return startAdvance(id).result();
    }

    private Call<Long> startAdvance(long id) {
        return Call.start(core, new Observer.Call("Series.Advance", 1), false, deadline, t -> advance(t, id));
    }

    CompletableFuture<Long> advance(Attempts t, long id) {
        if (id <= 0) {
            throw noId(id);
        }
        AdvanceIdRequest request = new AdvanceIdRequest();
        request.series = name;
        request.to = id;
        return call(t, "IdService/Advance", request, AdvanceIdResponse::new, (addr, response) -> response.epoch);
    }

    /** Returns the shape of the ids. It sends a request only if the client does not know the series yet. */
    public Shape shape() {
        return Call.start(core, new Observer.Call("Series.Shape", 1), true, deadline, this::shape).await();
    }

    CompletableFuture<Shape> shape(Attempts t) {
        return known(t, false).thenApply(Known::shape);
    }

    /** Returns the parts of an id. The reason {@code NOT_AN_ID} means that the number is no id of the series. */
    public DecodedId decode(long id) {
        return shape().decode(id).orElseThrow(() -> noId(id).here());
    }

    /**
     * Returns a handle that fetches ids of the series before they are needed, in ranges that last for a time at the present
     * rate of use. It sends nothing before its first id is taken. Close the handle after use.
     */
    public Segments segments(Duration hold) {
        return new Segments(this, hold);
    }

    /** Returns a handle that fetches ids before they are needed, in ranges that last for 10 s. */
    public Segments segments() {
        return new Segments(this, Segments.DEFAULT_HOLD);
    }

    private SeqException noId(long id) {
        return Errors.refusal(Reasons.NOT_AN_ID, Code.INVALID_ARGUMENT,
                Long.toUnsignedString(id) + " is no id of series \"" + name + "\"");
    }

    /** A series in the routes, with the set that was the first to send the routes of its cluster. */
    private record Known(int home, Shape shape) { }

    /** Returns the series in the newest routes. Routes are fetched if they do not have it. */
    private CompletableFuture<Known> known(Attempts t, boolean wasFetched) {
        Directory.FoundSeries found = t.core.routes.load().series(name);
        Shape shape = found == null ? null : Shapes.of(found.series().shape);
        if (shape != null) {
            return CompletableFuture.completedFuture(new Known(found.home(), shape));
        }
        if (found != null || wasFetched) {
            throw Errors.refusal(Reasons.UNKNOWN_SERIES, Code.NOT_FOUND,
                    "no series that this client can use is named \"" + name + "\": `seqsvr series list` lists them");
        }
        return t.core.discovery.refresh(t.call).thenCompose(refreshed -> {
            SeqException interrupted = t.interrupted();
            return interrupted == null ? known(t, true) : Async.failed(interrupted);
        });
    }

    /** Sends a request to one node of the cluster after another until a node responds. */
    private <R extends Message, V> CompletableFuture<V> call(Attempts t, String method, Message request,
            Supplier<R> response, BiFunction<String, R, V> read) {
        return known(t, false).thenCompose(known -> attempt(t, known.home, method, request, response, read));
    }

    private <R extends Message, V> CompletableFuture<V> attempt(Attempts t, int home, String method, Message request,
            Supplier<R> response, BiFunction<String, R, V> read) {
        Target to = t.targetOfIds(home);
        return t.attempt(to, method, request, response.get()).handle((got, error) -> {
            if (error == null) {
                return CompletableFuture.completedFuture(read.apply(to.addr(), got));
            }
            return Retries.prepare(t, null, to.addr(), Attempts.failureOf(error))
                    .thenCompose(again -> attempt(t, home, method, request, response, read));
        }).thenCompose(future -> future);
    }
}
