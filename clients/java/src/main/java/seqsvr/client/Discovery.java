package seqsvr.client;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import seqsvr.client.internal.http.AttemptException;
import seqsvr.client.internal.http.Exchange;
import seqsvr.client.internal.http.StatusException;
import seqsvr.client.internal.http.TransportException;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.KnownSet;
import seqsvr.client.internal.routes.RoutesException;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.RouteTable;
import seqsvr.client.internal.wire.Sequence;

/** Fetches routes from the seeds, and from other sets while a set is down. */
final class Discovery {
    /**
     * Minimum interval between two fetches of routes that are made because a uid is in no known set, or because a set is
     * down.
     */
    private static final Duration REFRESH_INTERVAL = Duration.ofSeconds(1);

    /** Timeout of a request for routes to another set. It is short, because a call waits for it. */
    private static final long OTHERS_TIMEOUT = 250_000_000;

    private final Core core;

    // Guarded by the lock of this object.
    private CompletableFuture<Void> refreshing;
    private boolean wasRefreshed;
    private long refreshedAt;

    Discovery(Core core) {
        this.core = core;
    }

    /** Fetches the routes of the seeds, until one has some or the deadline passes. Throws the error of the last fetch. */
    void connect(Duration deadline) throws InterruptedException {
        Duration bounded = deadline.compareTo(Call.MAX_DEADLINE) > 0 ? Call.MAX_DEADLINE : deadline;
        long end = System.nanoTime() + bounded.toNanos();
        for (int made = 1;; made++) {
            SeedFetch fetch = fetch(end);
            try {
                fetch.done.get();
            } catch (ExecutionException e) {
                throw Async.errorOf(e.getCause());
            }
            if (fetch.failed() == null) {
                return;
            }
            long pause = (long) (Attempts.backoff(made, 0, ThreadLocalRandom.current().nextDouble()) * 1e6);
            if (!fetch.isStarting() || System.nanoTime() + pause - end >= 0) {
                throw fetch.failed();
            }
            TimeUnit.NANOSECONDS.sleep(pause);
        }
    }

    /** Starts to fetch the routes of every seed. */
    private SeedFetch fetch(long end) {
        SeedFetch fetch = new SeedFetch(core, end);
        for (String seed : core.seeds) {
            fetchFrom(seed, end).thenAccept(fetch::add);
        }
        return fetch;
    }

    /** Fetches the routes of a seed and adopts them. */
    private CompletableFuture<SeedFetch.Response> fetchFrom(String seed, long end) {
        CompletableFuture<RouteTable.Routes> request = getRoutes(seed, 0, end - System.nanoTime()).request
                .exceptionallyCompose(error -> core.pool.explain(seed, Async.unwrap(error)));
        return request.handle((table, error) -> {
            if (error != null) {
                Throwable cause = Async.unwrap(error);
                if (cause instanceof StatusException status) {
                    boolean isStarting = status.code == StatusException.UNAVAILABLE && status.http == 0;
                    boolean isFinal = Reason.lookup(status.reason).map(reason -> !reason.retryable()).orElse(false);
                    return new SeedFetch.Response(seed, described(status), SeedFetch.Outcome.of(isStarting, isFinal));
                }
                core.pool.suspect(seed, cause);
                return new SeedFetch.Response(seed, cause, SeedFetch.Outcome.FAILED);
            }
            if (table == null) {
                return new SeedFetch.Response(seed, null, SeedFetch.Outcome.STARTING);
            }
            try {
                core.adopt(table, seed, seed);
                return new SeedFetch.Response(seed, null, SeedFetch.Outcome.ADOPTED);
            } catch (RoutesException e) {
                return new SeedFetch.Response(seed, e, SeedFetch.Outcome.BAD_ROUTES);
            }
        });
    }

    /** Adds to the status of a seed what the seed is, if the status shows that it is no AllocSvr. */
    private static Throwable described(StatusException status) {
        if (status.http != 0) {
            return new IllegalStateException(
                    "it is no AllocSvr; name the gRPC port of an AllocSvr: " + status.getMessage(), status);
        }
        if (status.code == StatusException.UNIMPLEMENTED) {
            return new IllegalStateException("it is another server; name an AllocSvr: " + status.getMessage(), status);
        }
        return status.reason.isEmpty() ? status
                : new IllegalStateException(status.reason + ": " + status.getMessage(), status);
    }

    /** A request for routes: the future of the table, which is null if there is none that is newer. */
    private record Asked(Exchange exchange, CompletableFuture<RouteTable.Routes> request) { }

    /** Requests the routes of a node that are newer than a version. */
    private Asked getRoutes(String addr, long known, long timeoutNanos) {
        Sequence.GetRoutesRequest request = new Sequence.GetRoutesRequest();
        request.knownVersion = known;
        Exchange exchange;
        try {
            exchange = core.pool.node(addr).ask("SequenceService/GetRoutes", request.encode(), timeoutNanos);
        } catch (TransportException e) {
            return new Asked(null, CompletableFuture.failedFuture(e));
        }
        return new Asked(exchange, exchange.outcome().thenCompose(bytes -> {
            Sequence.GetRoutesResponse response = new Sequence.GetRoutesResponse();
            try {
                response.decode(bytes);
                return CompletableFuture.completedFuture(response.routes);
            } catch (Malformed e) {
                AttemptException bad = StatusException.bad(e.getMessage());
                return CompletableFuture.failedFuture(bad);
            }
        }));
    }

    /** Fetches routes from the seeds again if a uid is in no known set, because the cluster may have new ones. */
    CompletableFuture<Void> refreshIfOutside(Call<?> call, long uid) {
        return core.routes.load().route(uid) == null ? refresh(call) : Async.DONE;
    }

    /**
     * Fetches routes from the seeds again. If such a fetch is in progress, the future ends with it instead. If the last
     * one ended less than the interval ago, nothing is done. A fetch that fails leaves the known routes.
     */
    CompletableFuture<Void> refresh(Call<?> call) {
        CompletableFuture<Void> running;
        boolean starts = false;
        synchronized (this) {
            if (refreshing == null) {
                if (wasRefreshed && System.nanoTime() - refreshedAt < REFRESH_INTERVAL.toNanos()) {
                    return Async.DONE;
                }
                refreshing = new CompletableFuture<>();
                starts = true;
            }
            running = refreshing;
        }
        if (starts) {
            SeedFetch fetch = fetch(call.deadline);
            fetch.done.whenComplete((done, error) -> {
                synchronized (this) {
                    refreshing = null;
                    wasRefreshed = true;
                    refreshedAt = System.nanoTime();
                }
                if (fetch.failed() != null) {
                    Core.LOG.log(Level.DEBUG, () -> "fetching routes from the seeds failed: " + fetch.failed());
                }
                running.complete(null);
            });
        }
        return call.atMost(running, call.deadline - System.nanoTime());
    }

    /**
     * Fetches newer routes because no node of the set with the index {@code down} can be reached: from the node
     * {@code addr} of the set with the index {@code from}, or, if that is -1, from another set. It does nothing while such
     * a fetch for the set is in progress, or if the last one began less than the interval ago. So a set that is down
     * causes one small request per second.
     */
    CompletableFuture<Void> refreshFromOthers(Call<?> call, int down, int from, String addr) {
        Directory directory = core.routes.load();
        KnownSet set = directory.set(down);
        KnownSet via;
        String at = addr;
        if (from >= 0) {
            via = directory.set(from);
        } else {
            List<KnownSet> up = directory.others(set).stream().filter(other -> !other.isDown(core.pool::isSuspect)).toList();
            if (up.isEmpty()) {
                return Async.DONE;
            }
            via = up.get(ThreadLocalRandom.current().nextInt(up.size()));
            at = via.host(0, "", core.pool::isSuspect);
        }
        if (at.isEmpty() || !set.state.refresh.tryAcquire(REFRESH_INTERVAL)) {
            return Async.DONE;
        }
        String asked = at;
        Asked get = getRoutes(asked, via.version(), OTHERS_TIMEOUT);
        if (get.exchange != null) {
            call.onInterruption(get.exchange::abort);
        }
        return get.request.handle((table, error) -> {
            set.state.refresh.release();
            if (error == null) {
                core.adopt(table, asked);
            } else {
                Core.LOG.log(Level.DEBUG, () -> "fetching routes from another set failed: " + error);
            }
            return null;
        });
    }
}
