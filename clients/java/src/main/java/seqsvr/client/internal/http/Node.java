package seqsvr.client.internal.http;

import java.net.http.HttpClient;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import seqsvr.client.internal.wire.Sequence;

/**
 * A node with the state of the connection to it.
 *
 * <p>{@code java.net.http} has no pings, and does not state whether a request was sent on a connection that was alive.
 * Therefore, before the first request of a connection and after each failure, a request for routes that changes nothing
 * is sent alone, and the others wait for its end: if it fails, none of them was sent. The same request serves as ping
 * while requests wait for a node that is silent.
 *
 * <p>Invariant: at most one probe is in flight.
 */
public final class Node {
    /** Time without a response from the node, while requests wait for it, after which a ping is sent. */
    private static final long PING_INTERVAL = 500_000_000;

    /**
     * Timeout of a probe or a ping. It is longer than the time for which a busy node may leave its sockets unread.
     */
    private static final long PING_TIMEOUT = 1_500_000_000;

    /**
     * Longest wait before a lost connection is made again, so that the clients of a node that restarts do not all
     * connect at once.
     */
    private static final long RECONNECT_JITTER = 100_000_000;

    /**
     * Limit on requests in flight to a node, beside the messages that calls share. Over TLS they share a connection, on
     * which a node accepts 256 requests; without TLS each has a connection of its own.
     */
    private static final int MAX_REQUESTS = 128;

    private static final CompletableFuture<Void> READY = CompletableFuture.completedFuture(null);

    final Pool pool;
    final String addr;
    final Permits permits = new Permits(MAX_REQUESTS);

    /** Time until which the node is suspect, and that of the last report of it; 0 if there is none. */
    volatile long suspectUntil;
    volatile boolean isSuspected;
    volatile long reportedAt;
    volatile boolean wasReported;

    /** Requests of calls that were sent, and requests that were sent whether or not the node was ready. */
    private final Set<Exchange> inFlight = ConcurrentHashMap.newKeySet();
    private final Set<Exchange> asked = ConcurrentHashMap.newKeySet();
    private volatile boolean isClosed;
    private volatile long heardAt;
    /** Generation of certificates with which the node has responded; null if the connection must be verified. */
    private volatile Pool.Generation readyWith;

    // The fields below are guarded by the lock of the node.
    private CompletableFuture<Void> probe;
    /** Whether the last connection broke, so that the next one is jittered. */
    private boolean isLost;
    private boolean isTicking;
    /** The client of a node that hung, whose connection in the shared client is not used again; null if there is none. */
    private HttpClient own;
    private Pool.Generation ownOf;

    Node(Pool pool, String addr) {
        this.pool = pool;
        this.addr = addr;
    }

    /**
     * Sends a request, once the node is known to respond. The server stops to work on it after {@code timeoutNanos}, and
     * it ends here after {@code endNanos}.
     */
    public Exchange send(String method, byte[] message, long timeoutNanos, long endNanos) {
        return start(new Exchange(this, method, message, timeoutNanos, Exchange.Use.CALL), endNanos);
    }

    /** Sends a message with calls that share it, as {@link #send}. The caller limits the number of these. */
    public Exchange sendShared(String method, byte[] message, long timeoutNanos, long endNanos) {
        return start(new Exchange(this, method, message, timeoutNanos, Exchange.Use.SHARED), endNanos);
    }

    private static Exchange start(Exchange exchange, long endNanos) {
        exchange.endAfter(endNanos);
        exchange.await();
        return exchange;
    }

    /** Sends a request that changes nothing, whether or not the node is known to respond. */
    public Exchange ask(String method, byte[] message, long timeoutNanos) {
        Exchange exchange = new Exchange(this, method, message, timeoutNanos, Exchange.Use.PROBE);
        asked.add(exchange);
        exchange.outcome().whenComplete((response, error) -> asked.remove(exchange));
        exchange.endAfter(timeoutNanos);
        exchange.launch();
        if (isClosed) {
            exchange.abort();
        }
        return exchange;
    }

    HttpClient http() {
        Pool.Generation now = pool.generation();
        synchronized (this) {
            return own != null && ownOf == now ? own : now.client();
        }
    }

    /** Returns a future that ends when the node has responded to a probe, or now if it is known to respond. */
    CompletableFuture<Void> ready() {
        Pool.Generation with = readyWith;
        if (with != null && with == pool.generation()) {
            return READY;
        }
        return verify();
    }

    /** Sends a probe, unless one is in flight, and returns its future. */
    CompletableFuture<Void> verify() {
        CompletableFuture<Void> started;
        long wait;
        synchronized (this) {
            if (probe != null) {
                return probe;
            }
            started = new CompletableFuture<>();
            probe = started;
            readyWith = null;
            wait = isLost ? ThreadLocalRandom.current().nextLong(RECONNECT_JITTER) : 0;
            isLost = false;
        }
        if (wait == 0) {
            startProbe(started);
        } else if (pool.timers.after(wait, () -> startProbe(started)) == null) {
            endProbe(started, TransportException.aborted(false));
        }
        return started;
    }

    private void startProbe(CompletableFuture<Void> started) {
        Sequence.GetRoutesRequest request = new Sequence.GetRoutesRequest();
        // No routes are newer than these, so the response is empty.
        request.knownVersion = -1;
        ask("SequenceService/GetRoutes", request.encode(), PING_TIMEOUT).outcome().whenComplete((response, error) -> {
            // A refusal is a response, too.
            endProbe(started, error instanceof StatusException ? null : error);
        });
    }

    private void endProbe(CompletableFuture<Void> started, Throwable error) {
        boolean isSilent = error instanceof TransportException e && e.isLate;
        synchronized (this) {
            probe = null;
            isLost = isSilent;
            if (isSilent) {
                // The connection may be dead without an error; a new one is made.
                ownOf = pool.generation();
                own = pool.newClient(ownOf);
            }
        }
        if (error == null) {
            started.complete(null);
            return;
        }
        if (isSilent) {
            inFlight.forEach(exchange -> exchange.fail(TransportException.silent(error)));
        }
        started.completeExceptionally(error);
    }

    /** Notes that the node has responded; to a request that was sent whether or not it was ready, if {@code asked}. */
    void heard(boolean asked) {
        heardAt = System.nanoTime();
        if (asked) {
            readyWith = pool.generation();
        }
    }

    /** Notes that the connection has failed. */
    void broke() {
        synchronized (this) {
            readyWith = null;
            isLost = true;
        }
    }

    /** Notes that a request was sent, for which pings are sent while it waits. */
    void begin(Exchange exchange) {
        inFlight.add(exchange);
        synchronized (this) {
            if (isTicking) {
                return;
            }
            isTicking = true;
        }
        tickAfter(PING_INTERVAL);
    }

    void end(Exchange exchange) {
        inFlight.remove(exchange);
    }

    private void tickAfter(long nanos) {
        pool.timers.after(nanos, this::tick);
    }

    /** Sends a ping if requests wait for a node that has been silent for the interval. */
    private void tick() {
        synchronized (this) {
            if (inFlight.isEmpty() || isClosed) {
                isTicking = false;
                return;
            }
        }
        long silent = System.nanoTime() - heardAt;
        if (silent < PING_INTERVAL) {
            tickAfter(PING_INTERVAL - silent);
        } else {
            verify().whenComplete((ready, error) -> tickAfter(PING_INTERVAL));
        }
    }

    /** Ends the requests of the node. */
    void close() {
        isClosed = true;
        asked.forEach(Exchange::abort);
        inFlight.forEach(Exchange::abort);
    }

    /** Returns the client of the node's own, which is to be closed with it; null if there is none. */
    synchronized HttpClient takeOwn() {
        HttpClient taken = own;
        own = null;
        return taken;
    }
}
