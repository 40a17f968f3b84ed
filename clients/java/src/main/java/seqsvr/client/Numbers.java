package seqsvr.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.Supplier;
import seqsvr.client.internal.http.StatusException;
import seqsvr.client.internal.http.Timers;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.KnownSet;
import seqsvr.client.internal.routes.Route;
import seqsvr.client.internal.wire.Message;
import seqsvr.client.internal.wire.RouteTable;
import seqsvr.client.internal.wire.Sequence.AdvanceRequest;
import seqsvr.client.internal.wire.Sequence.AdvanceResponse;
import seqsvr.client.internal.wire.Sequence.CurrentRequest;
import seqsvr.client.internal.wire.Sequence.CurrentResponse;
import seqsvr.client.internal.wire.Sequence.NextRequest;
import seqsvr.client.internal.wire.Sequence.NextResponse;

/** Makes the attempts of calls for one uid. */
final class Numbers {
    private Numbers() { }

    /**
     * Allocates numbers. The first attempt is made in a message that calls share, if the owner is known, and the others
     * are requests of their own.
     */
    static CompletableFuture<Allocation> next(Attempts t, long uid, int count) {
        long section = t.core.routes.load().sectionStart(uid);
        boolean isSlow = t.core.slow.contains(section);
        CompletableFuture<Allocation> shared = isSlow ? unshared() : nextInMessage(t, uid, count);
        return shared.thenCompose(allocation -> {
            if (allocation != null) {
                return CompletableFuture.completedFuture(allocation);
            }
            return nextAlone(t, uid, count).thenApply(alone -> {
                t.core.slow.remove(section);
                return alone;
            });
        });
    }

    private static CompletableFuture<Allocation> nextAlone(Attempts t, long uid, int count) {
        return unary(t, uid, "SequenceService/Next", to -> {
            NextRequest request = new NextRequest();
            request.uid = uid;
            request.count = count;
            request.routeVersion = to.routeVersion();
            request.epoch = to.epoch();
            return request;
        }, NextResponse::new, response -> response.routes, (addr, response) -> allocation(t, addr, response, count));
    }

    /** Returns the allocation in a response. Throws the error of numbers that do not follow each other. */
    static Allocation allocation(Attempts t, String addr, NextResponse response, int count) {
        int lost = (response.lost == null ? 0 : response.lost.intValue()) + t.lost;
        return Allocation.checked(addr, response.value, response.prev, response.epoch, count, lost);
    }

    static CompletableFuture<Current> current(Attempts t, long uid) {
        return unary(t, uid, "SequenceService/Current", to -> {
            CurrentRequest request = new CurrentRequest();
            request.uid = uid;
            request.routeVersion = to.routeVersion();
            request.epoch = to.epoch();
            return request;
        }, CurrentResponse::new, response -> response.routes,
                (addr, response) -> Current.checked(addr, response.value, response.exactness, response.epoch));
    }

    static CompletableFuture<Long> advance(Attempts t, long uid, long number) {
        return unary(t, uid, "SequenceService/Advance", to -> {
            AdvanceRequest request = new AdvanceRequest();
            request.uid = uid;
            request.to = number;
            request.routeVersion = to.routeVersion();
            request.epoch = to.epoch();
            return request;
        }, AdvanceResponse::new, response -> response.routes, (addr, response) -> response.epoch);
    }

    /** Makes the attempts of a call for an item, as in {@link Attempts#routeOf}, with requests of its own. */
    static <R extends Message, V> CompletableFuture<V> unary(Attempts t, long item, String method,
            Function<Target, Message> request, Supplier<R> response, Function<R, RouteTable.Routes> routes,
            BiFunction<String, R, V> read) {
        boolean isOfKey = t.buckets != null;
        return (isOfKey ? Async.DONE : t.core.discovery.refreshIfOutside(t.call, item))
                .thenCompose(refreshed -> attempt(t, item, method, request, response, routes, read));
    }

    private static <R extends Message, V> CompletableFuture<V> attempt(Attempts t, long item, String method,
            Function<Target, Message> request, Supplier<R> response, Function<R, RouteTable.Routes> routes,
            BiFunction<String, R, V> read) {
        Target to = t.target(item);
        return t.attempt(to, method, request.apply(to), response.get()).handle((got, error) -> {
            if (error != null) {
                return Retries.prepare(t, item, to.addr(), Attempts.failureOf(error))
                        .thenCompose(again -> attempt(t, item, method, request, response, routes, read));
            }
            t.core.adopt(routes.apply(got), to.addr());
            return CompletableFuture.completedFuture(read.apply(to.addr(), got));
        }).thenCompose(future -> future);
    }

    private static CompletableFuture<Allocation> unshared() {
        return CompletableFuture.completedFuture(null);
    }

    /**
     * Makes the first attempt in a message to the owner. The value of the future is null if the call continues with
     * requests of its own.
     */
    private static CompletableFuture<Allocation> nextInMessage(Attempts t, long uid, int count) {
        Directory directory = t.core.routes.load();
        Route route = directory.route(uid);
        if (!t.core.options.coalesces || route == null || route.owner() == 0) {
            return unshared();
        }
        KnownSet set = directory.set(route.set());
        String addr = set.addr(route.owner());
        if (addr.isEmpty() || t.core.pool.isSuspect(addr)) {
            return unshared();
        }
        t.sendBy(directory, route);
        long until = t.until(t.hasOther(set, addr));
        Batcher batcher = t.core.batcher(addr);
        Batcher.Entry entry = new Batcher.Entry(uid, count, route.epoch(), set.knownVersion(), until);
        Attempts.Observation observation = t.observe(addr, set, true);
        batcher.add(entry);
        Future<?> timer = t.core.timers.after(until - System.nanoTime(), () -> batcher.abandon(entry, true));
        t.call.onInterruption(() -> batcher.abandon(entry, false));
        return entry.outcome.thenCompose(outcome -> {
            Timers.cancel(timer);
            observation.end(outcome.failed());
            return afterMessage(t, uid, count, addr, outcome);
        });
    }

    private static CompletableFuture<Allocation> afterMessage(Attempts t, long uid, int count, String addr,
            Batcher.Outcome outcome) {
        if (outcome.failed() != null) {
            return Retries.prepare(t, uid, addr, outcome.failed()).thenCompose(again -> unshared());
        }
        if (outcome.invalid() != null) {
            throw Errors.badAnswer(addr, outcome.invalid());
        }
        if (outcome.refused() == null) {
            return CompletableFuture.completedFuture(Allocation.checked(addr, outcome.value(), outcome.prev(),
                    outcome.epoch(), count, outcome.lost()));
        }
        boolean hadToWait = outcome.refused().code == StatusException.DEADLINE_EXCEEDED
                && !Errors.isOutcomeUnknown(outcome.refused().reason);
        if (hadToWait && t.interrupted() == null) {
            // The item would have delayed the others. It was refused in their place, and waits in a request of its own.
            t.core.slow.add(t.core.routes.load().sectionStart(uid));
            return unshared();
        }
        return Retries.afterItem(t, uid, addr, outcome.refused()).thenCompose(again -> unshared());
    }
}
