package seqsvr.client;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Function;
import seqsvr.client.internal.http.Pool;
import seqsvr.client.internal.http.Timers;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.Routes;
import seqsvr.client.internal.routes.RoutesException;
import seqsvr.client.internal.wire.RouteTable;

/** The state that all handles of a client share. */
final class Core {
    static final System.Logger LOG = System.getLogger("seqsvr.client");

    /** Time for which closing waits for the ends of calls. They end at once, unless a thread of the process starves. */
    private static final long CLOSE_SECONDS = 10;

    private static final AtomicInteger CLIENTS = new AtomicInteger();

    /** Counts for {@link Stats}. */
    static final class Counters {
        final LongAdder calls = new LongAdder();
        final LongAdder attempts = new LongAdder();
        final LongAdder retries = new LongAdder();
        final LongAdder budgetRefused = new LongAdder();
        final LongAdder messages = new LongAdder();
        final LongAdder routeAdoptions = new LongAdder();
    }

    final Options options;
    final List<String> seeds;
    final Routes routes = new Routes();
    final Timers timers = new Timers("seqsvr-timer-" + CLIENTS.incrementAndGet());
    final Credentials credentials;
    final Pool pool;
    final Discovery discovery;
    final SlowSections slow = new SlowSections();
    final Counters counters = new Counters();
    /** Calls in progress. */
    final Set<Call<?>> active = ConcurrentHashMap.newKeySet();
    volatile boolean isClosing;
    volatile boolean isClosed;

    private final Map<String, Batcher> batchers = new ConcurrentHashMap<>();
    /** Ends when no call is in progress after closing has begun. */
    private final CompletableFuture<Void> idle = new CompletableFuture<>();

    /** Creates a client without routes. Throws the error of an invalid setting. */
    Core(Options options) {
        this.options = options;
        seeds = options.addresses();
        credentials = options.tls == null ? null : new Credentials(options.tls);
        pool = new Pool(timers, credentials == null ? null : credentials::context,
                options.token() == null ? null : options::token,
                (addr, error) -> LOG.log(Level.WARNING,
                        () -> addr + " does not respond; requests are sent to other nodes for a second: " + error));
        discovery = new Discovery(this);
    }

    /** Calls a function of the observer; does nothing without an observer. The result is null if it fails. */
    Object observe(Function<Observer, Object> event) {
        if (options.observer == null) {
            return null;
        }
        try {
            return event.apply(options.observer);
        } catch (RuntimeException e) {
            LOG.log(Level.WARNING, "the observer of the client has failed", e);
            return null;
        }
    }

    /** Returns the batcher of a node, which its first call creates. */
    Batcher batcher(String addr) {
        return batchers.computeIfAbsent(addr, at -> new Batcher(this, at));
    }

    int pending() {
        return batchers.values().stream().mapToInt(Batcher::pending).sum();
    }

    boolean hasBatcher(String addr) {
        return batchers.containsKey(addr);
    }

    /**
     * Adopts the routes of a response, which may be null. Invalid routes are logged and ignored, because the rest of the
     * response is valid.
     */
    void adopt(RouteTable.Routes table, String from) {
        if (table == null) {
            return;
        }
        try {
            adopt(table, "", from);
        } catch (RoutesException e) {
            LOG.log(Level.WARNING, () -> "routes in a response of " + from + " were not adopted: " + e.getMessage());
        }
    }

    /** Adopts the routes of a seed, or of any other sender if the seed is empty. */
    void adopt(RouteTable.Routes table, String seed, String from) throws RoutesException {
        Directory.Change change = routes.adopt(table, seed);
        if (change.any()) {
            counters.routeAdoptions.increment();
            observe(observer -> {
                observer.routesAdopted(table.set, table.version);
                return null;
            });
        }
        if (change.addrs()) {
            followAddrs();
        }
    }

    /** Drops the addresses that are no longer in the routes of any set. */
    private synchronized void followAddrs() {
        Set<String> used = routes.load().addrs();
        used.addAll(seeds);
        pool.retain(used::contains);
        batchers.keySet().retainAll(used);
    }

    /** Notes the end of a call. */
    void ended(Call<?> call) {
        active.remove(call);
        if (isClosing && active.isEmpty()) {
            idle.complete(null);
        }
    }

    /**
     * Closes the client. New calls are refused at once; those in progress may complete within a time. Returns whether
     * they did.
     */
    boolean close(Duration drain) {
        isClosing = true;
        boolean isDrained = active.isEmpty() || drain.toNanos() > 0 && awaitIdle(drain.toNanos());
        isClosed = true;
        active.forEach(Call::close);
        if (!active.isEmpty()) {
            awaitIdle(TimeUnit.SECONDS.toNanos(CLOSE_SECONDS));
        }
        pool.close();
        timers.close();
        return isDrained;
    }

    private boolean awaitIdle(long nanos) {
        boolean wasInterrupted = false;
        long end = System.nanoTime() + nanos;
        try {
            while (!active.isEmpty()) {
                try {
                    idle.get(Math.max(end - System.nanoTime(), 0), TimeUnit.NANOSECONDS);
                    break;
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                    end = System.nanoTime();
                } catch (TimeoutException e) {
                    return active.isEmpty();
                } catch (ExecutionException e) {
                    throw new IllegalStateException(e);
                }
            }
            return true;
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
