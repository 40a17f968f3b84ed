package seqsvr.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.Route;
import seqsvr.client.internal.wire.Sequence.ItemError;

/**
 * Sends items until each has a result or a permanent refusal, or until the deadline or the retry budget allows no retry.
 *
 * <p>Invariant: items of different sets are retried separately, each under the budget of its own set. So a set that is down
 * does not delay items of another set.
 *
 * @param <T> type of a value
 */
final class ManySender<T> {
    private final ManyMethod<T> method;
    private final ManyResults<T> results;

    ManySender(ManyMethod<T> method, ManyResults<T> results) {
        this.method = method;
        this.results = results;
    }

    /**
     * Key of items that are sent again in one request.
     *
     * @param set index of their set
     * @param charged index of the set whose budget pays; -1 for the set of the last attempt
     * @param moved whether they are sent without a backoff, because their sections moved to another set
     */
    private record Again(int set, int charged, boolean moved) { }

    /** Items that are sent again, with an error of them and the longest of their hints. */
    private static final class Items {
        final List<Integer> places = new ArrayList<>();
        SeqException error;
        long hintMs;

        void add(int place, SeqException of) {
            places.add(place);
            if (of != null) {
                error = error == null ? of : error;
                hintMs = Math.max(hintMs, of.retryAfterMs);
            }
        }
    }

    /** Sends items and writes their results. The future never fails. */
    CompletableFuture<Void> sendAll(Attempts t, Many.Group group) {
        return send(t, group).thenRun(() -> results.addLost(group, method));
    }

    /**
     * Sends items in one request, and those that are to be retried again, in one request for each set, because any node of
     * a set forwards items to their owners.
     */
    private CompletableFuture<Void> send(Attempts t, Many.Group group) {
        Target to;
        try {
            to = t.target(group.items[0]);
        } catch (SeqException e) {
            fail(group, e);
            return Async.DONE;
        }
        Directory directory = t.core.routes.load();
        long[] epochs = new long[group.size()];
        for (int i = 0; i < epochs.length; i++) {
            Route route = t.routeOf(directory, group.items[i]);
            epochs[i] = route == null ? 0 : route.epoch();
        }
        return method.send(t, to, group, epochs).handle((response, error) -> {
            if (error != null) {
                return afterFailure(t, to, group, error);
            }
            t.core.adopt(response.routes(), to.addr());
            return sendAgain(t, group, read(t, to, group, response, epochs));
        }).thenCompose(future -> future).exceptionally(error -> {
            fail(group, Async.errorOf(error));
            return null;
        });
    }

    private CompletableFuture<Void> afterFailure(Attempts t, Target to, Many.Group group, Throwable error) {
        return Retries.prepare(t, group.items[0], to.addr(), Attempts.failureOf(error)).handle((ready, failed) -> {
            if (failed != null) {
                fail(group, Async.errorOf(failed));
                return Async.DONE;
            }
            Map<Again, Items> again = new LinkedHashMap<>();
            for (int place = 0; place < group.size(); place++) {
                // The backoff is over already.
                int set = t.routeOf(t.core.routes.load(), group.items[place]).set();
                Again key = new Again(set, -1, true);
                again.computeIfAbsent(key, of -> new Items()).add(place, null);
            }
            return sendAgain(t, group, again);
        }).thenCompose(future -> future);
    }

    private record Refused(int place, Retries.Classified found) { }

    /** Writes the results of a response, and returns the items to send again. */
    private Map<Again, Items> read(Attempts t, Target to, Many.Group group, ManyMethod.Response<T> response, long[] epochs) {
        String invalid = response.invalid();
        for (ItemError item : response.errors()) {
            if (item.index < 0 || item.index >= group.size()) {
                invalid = "an error of an item that was not sent";
            }
        }
        if (invalid != null) {
            fail(group, Errors.badAnswer(to.addr(), invalid));
            return Map.of();
        }
        List<Result<T>> got = new ArrayList<>(response.results());
        List<Refused> retries = new ArrayList<>();
        boolean moved = false;
        for (ItemError item : response.errors()) {
            int place = item.index;
            long of = group.items[place];
            SeqException refused = t.errors.item(of, item);
            Retries.Classified found = Retries.classify(t, of, refused, item.setId, item.since, epochs[place]);
            if (found.error().isRetryable && !Retries.isFinal(t, found.error())) {
                retries.add(new Refused(place, found));
                moved |= found.moved();
                if (Errors.isOutcomeUnknown(item.reason)) {
                    results.addUnknown(group.indexes[place]);
                }
            }
            got.set(place, failed(t, found.error()));
        }
        for (int place = 0; place < group.size(); place++) {
            Result<T> result = got.get(place);
            if (!result.isOk()) {
                result = failed(t, result.errorOrNull());
            } else if (t.lost > 0) {
                result = method.plusLost(result, t.lost);
            }
            results.set(group.indexes[place], result);
        }
        t.followed += moved ? 1 : 0;
        // The sets are those after the response's routes and all its statements about moved sections were adopted.
        Map<Again, Items> again = new LinkedHashMap<>();
        for (Refused retry : retries) {
            int set = t.routeOf(t.core.routes.load(), group.items[retry.place]).set();
            Again key = new Again(set, retry.found.charged(), retry.found.moved());
            again.computeIfAbsent(key, of -> new Items()).add(retry.place, retry.found.error());
        }
        return again;
    }

    private Result<T> failed(Attempts t, SeqException error) {
        error.mayHaveApplied &= !t.call.reads;
        return Result.failed(error);
    }

    /** Sends the items of each group again, after a backoff unless they moved. */
    private CompletableFuture<Void> sendAgain(Attempts t, Many.Group group, Map<Again, Items> again) {
        List<CompletableFuture<Void>> running = new ArrayList<>();
        again.forEach((key, items) -> {
            Attempts fork = t.fork();
            Many.Group part = group.part(items.places);
            if (key.charged >= 0) {
                fork.route = new Route(t.route.epoch(), t.route.owner(), key.charged, t.route.isClaim());
            }
            CompletableFuture<Void> waited = key.moved ? Async.DONE : fork.pause(items.error, items.hintMs, false);
            running.add(waited.handle((over, error) -> {
                if (error == null) {
                    return send(fork, part).thenRun(() -> join(t, fork));
                }
                // The items keep their errors, unless the call was interrupted.
                if (Async.unwrap(error) != items.error) {
                    fail(part, Async.errorOf(error));
                }
                return Async.DONE;
            }).thenCompose(future -> future));
        });
        return CompletableFuture.allOf(running.toArray(new CompletableFuture<?>[0]));
    }

    private static void join(Attempts t, Attempts fork) {
        synchronized (t) {
            t.made = Math.max(t.made, fork.made);
        }
    }

    /** Sets an error as the result of items. */
    private void fail(Many.Group group, SeqException error) {
        for (int place = 0; place < group.size(); place++) {
            SeqException copied = error.copy();
            if (copied.uid != null || copied.kind == Kind.UID_OUTSIDE) {
                copied.uid = group.items[place];
            }
            results.set(group.indexes[place], Result.failed(copied));
        }
    }
}
