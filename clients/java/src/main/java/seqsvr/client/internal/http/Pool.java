package seqsvr.client.internal.http;

import java.lang.reflect.Method;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/**
 * The nodes of a client, by address, with their connections. An address that was recently unreachable is suspect:
 * requests are sent to another address if possible.
 *
 * <p>All nodes share one {@link HttpClient}: over TLS it has one connection of HTTP/2 for each node, and without TLS
 * connections of HTTP/1.1, as many as there are requests in flight. Changed certificates and nodes that hung get another
 * one, because the connections of a client cannot be closed one by one.
 */
public final class Pool {
    /** Limit on the addresses in a pool. */
    public static final int MAX_ADDRESSES = 4096;
    /** Version of this client. */
    public static final String VERSION = "0.1.0";
    /** Limit on the bytes of a response. A whole route table of the largest layout is smaller. */
    static final int MAX_RESPONSE_BYTES = 64 << 20;

    /** Timeout for making a connection. It is short, because another node can serve the request instead. */
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(1);
    /**
     * Time for which an address is suspect after a failure. So about one request per second is sent to a node that stays
     * unreachable.
     */
    private static final long SUSPECT_FOR = 1_000_000_000;
    /** Minimum interval between two reports that the same address is suspect. */
    private static final long REPORT_INTERVAL = 60_000_000_000L;
    /** Limit on the length of an address: a DNS name and a port. */
    private static final int MAX_ADDR = 261;
    private static final String AGENT = "java/" + VERSION;
    private static final AtomicInteger THREADS = new AtomicInteger();
    private static final Method SHUTDOWN = findShutdown();

    /** A client whose connections have the same certificates. */
    record Generation(SSLContext tls, HttpClient client) { }

    /** Timers of the client. */
    public final Timers timers;
    private final ThreadPoolExecutor executor;
    private final Supplier<SSLContext> tls;
    private final Supplier<String> token;
    private final BiConsumer<String, Throwable> suspected;
    private final Map<String, Node> nodes = new ConcurrentHashMap<>();
    private volatile Generation generation;
    private volatile boolean closed;

    /**
     * Creates a pool.
     *
     * @param timers timers of the client
     * @param tls returns the certificates for the next connection, the same object while they do not change; null
     *     without TLS
     * @param token returns the token of a tenant; null without a token. It is a function so that no dump of an object
     *     shows the token
     * @param suspected is called when an address becomes suspect, at most once a minute for each address
     */
    public Pool(Timers timers, Supplier<SSLContext> tls, Supplier<String> token,
            BiConsumer<String, Throwable> suspected) {
        this.timers = timers;
        this.tls = tls;
        this.token = token;
        this.suspected = suspected;
        executor = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 2, TimeUnit.SECONDS, new SynchronousQueue<>(), task -> {
            Thread thread = new Thread(task, "seqsvr-" + THREADS.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
    }

    /** Returns the client of the newest certificates. */
    Generation generation() {
        Generation now = generation;
        SSLContext newest = tls == null ? null : tls.get();
        if (now != null && now.tls == newest) {
            return now;
        }
        synchronized (this) {
            if (generation == null || generation.tls != newest) {
                generation = new Generation(newest, create(newest));
            }
            return generation;
        }
    }

    /**
     * Returns a future that fails with the failure of a request, or with the alert by which the node refuses this
     * client if the failure is the end of a TLS connection.
     */
    public <T> CompletableFuture<T> explain(String addr, Throwable failure) {
        SSLContext context = generation().tls;
        if (context == null || !(failure instanceof TransportException broken) || !broken.sent || broken.isLate) {
            return CompletableFuture.failedFuture(failure);
        }
        try {
            return CompletableFuture.supplyAsync(() -> TlsAlert.of(context, addr), executor)
                    .thenCompose(alert -> CompletableFuture.failedFuture(
                            alert == null ? failure : TransportException.unsent(alert)));
        } catch (RejectedExecutionException e) {
            return CompletableFuture.failedFuture(failure);
        }
    }

    HttpClient newClient(Generation of) {
        return create(of.tls);
    }

    private HttpClient create(SSLContext context) {
        HttpClient.Builder builder = HttpClient.newBuilder().executor(executor).connectTimeout(CONNECT_TIMEOUT)
                .followRedirects(HttpClient.Redirect.NEVER).proxy(HttpClient.Builder.NO_PROXY);
        if (context == null) {
            return builder.version(HttpClient.Version.HTTP_1_1).build();
        }
        SSLParameters parameters = new SSLParameters();
        parameters.setProtocols(new String[] {"TLSv1.3"});
        return builder.version(HttpClient.Version.HTTP_2).sslContext(context).sslParameters(parameters).build();
    }

    HttpRequest request(String addr, String method, byte[] message, long timeoutNanos) {
        long millis = Math.max(TimeUnit.NANOSECONDS.toMillis(timeoutNanos), 1);
        HttpRequest.Builder builder = HttpRequest
                .newBuilder(URI.create((tls == null ? "http://" : "https://") + addr + "/seqsvr.v1." + method))
                .POST(HttpRequest.BodyPublishers.ofByteArray(message))
                .header("content-type", "application/proto")
                .header("connect-protocol-version", "1")
                .header("connect-timeout-ms", Long.toString(millis))
                .header("user-agent", "seqsvr-" + AGENT)
                .header("seqsvr-client", AGENT);
        if (token != null) {
            builder.header("authorization", "Bearer " + token.get());
        }
        return builder.build();
    }

    /** Returns the node at an address, which must be of the form host:port. */
    public Node node(String addr) throws TransportException {
        Node node = nodes.get(addr);
        if (node != null) {
            return node;
        }
        if (closed) {
            throw TransportException.aborted(false);
        }
        if (!isAddr(addr)) {
            throw TransportException.unsent(new IllegalArgumentException("\"" + addr + "\" is not host:port"));
        }
        if (nodes.size() >= MAX_ADDRESSES) {
            throw TransportException.unsent(new IllegalStateException(
                    "no room for \"" + addr + "\": the client has connections to " + MAX_ADDRESSES + " addresses"));
        }
        return nodes.computeIfAbsent(addr, at -> new Node(this, at));
    }

    /** Returns whether a text is host:port. */
    public static boolean isAddr(String addr) {
        int colon = addr.lastIndexOf(':');
        if (colon <= 0 || addr.length() > MAX_ADDR || !addr.substring(colon + 1).matches("[0-9]{1,5}")) {
            return false;
        }
        int port = Integer.parseInt(addr.substring(colon + 1));
        String host = addr.substring(0, colon);
        boolean isHost = host.matches("[A-Za-z0-9._-]+") || host.matches("\\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\\]");
        return isHost && port > 0 && port <= 65_535;
    }

    /** Marks an address as suspect, because it has just been unreachable. */
    public void suspect(String addr, Throwable error) {
        Node node = nodes.get(addr);
        if (node == null) {
            return;
        }
        long now = System.nanoTime();
        node.suspectUntil = now + SUSPECT_FOR;
        node.isSuspected = true;
        boolean isDue;
        synchronized (node) {
            isDue = !node.wasReported || now - node.reportedAt >= REPORT_INTERVAL;
            if (isDue) {
                node.wasReported = true;
                node.reportedAt = now;
            }
        }
        if (isDue) {
            suspected.accept(addr, error);
        }
    }

    /** Returns whether an address was recently unreachable. */
    public boolean isSuspect(String addr) {
        Node node = nodes.get(addr);
        return node != null && node.isSuspected && System.nanoTime() - node.suspectUntil < 0;
    }

    /** Drops the addresses for which the predicate is false. Requests in flight to them still run to completion. */
    public void retain(Predicate<String> keep) {
        nodes.keySet().removeIf(addr -> !keep.test(addr));
    }

    /** Returns the addresses in the pool. */
    public Collection<String> addrs() {
        return List.copyOf(nodes.keySet());
    }

    /**
     * Ends every request. From JDK 21 on it closes the connections as well; before, they end when the garbage collector
     * has found the clients.
     */
    public void close() {
        closed = true;
        Collection<Node> all = List.copyOf(nodes.values());
        nodes.clear();
        for (Node node : all) {
            node.close();
            shutdown(node.takeOwn());
        }
        synchronized (this) {
            if (generation != null) {
                shutdown(generation.client);
                generation = new Generation(generation.tls, null);
            }
        }
    }

    private static Method findShutdown() {
        try {
            return HttpClient.class.getMethod("shutdownNow");
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    private static void shutdown(HttpClient client) {
        if (client != null && SHUTDOWN != null) {
            try {
                SHUTDOWN.invoke(client);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
