package seqsvr.client.fake;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.Message;

/** A server of a set. Its faults can be changed at any time. */
public final class FakeNode {
    /** A request that a node received. Each byte of a key is a character of its text. */
    public record Seen(String method, List<Long> uids, List<String> keys, List<Long> epochs) {
        Seen(String method, List<Long> uids, List<Long> epochs) {
            this(method, uids, List.of(), epochs);
        }
    }

    /** The outcome of a request: a response or a refusal. */
    record Answer(Message response, Refusal refusal) { }

    final int id;
    final World world;
    final int set;
    private final int port;
    private HttpServer server;
    private ExecutorService threads;

    // Guarded by the lock of the node.
    /** Ends while the node handles requests, and is open while it hangs. */
    private CompletableFuture<Void> held = CompletableFuture.completedFuture(null);
    private final ArrayDeque<Refusal> refusals = new ArrayDeque<>();
    private Refusal always;
    private int cuts;
    private boolean hasNoRoutes;
    private boolean isIsolated;
    private Consumer<Message> change = message -> { };
    private final List<Seen> seen = new ArrayList<>();
    private Headers header = new Headers();
    private int probes;

    FakeNode(World world, int set, int id) throws IOException {
        this.world = world;
        this.set = set;
        this.id = id;
        serve(0);
        port = server.getAddress().getPort();
    }

    private void serve(int at) throws IOException {
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", at), 256);
        threads = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "fake-node");
            thread.setDaemon(true);
            return thread;
        });
        server.setExecutor(threads);
        server.createContext("/", this::handle);
        server.start();
    }

    /** Returns the address of the node. */
    public String addr() {
        return "127.0.0.1:" + port;
    }

    /** Closes the node and its connections at once. */
    public void stop() {
        server.stop(0);
        threads.shutdownNow();
    }

    /** Starts the node at its address again. */
    public void restart() throws IOException {
        serve(port);
    }

    /** Makes the node hold requests after it has recorded them, or continue. */
    public synchronized void hang(boolean hangs) {
        if (hangs && held.isDone()) {
            held = new CompletableFuture<>();
        } else if (!hangs) {
            held.complete(null);
        }
    }

    /** Makes the node refuse the next requests. */
    public synchronized void refuse(Collection<Refusal> next) {
        refusals.addAll(next);
    }

    /** Makes the node refuse the next request. */
    public void refuse(Refusal next) {
        refuse(List.of(next));
    }

    /** Makes the node refuse every request, or none if it is null. */
    public synchronized void refuseAll(Refusal refusal) {
        always = refusal;
    }

    /** Makes the node close the connections of the next requests after it has processed them. */
    public synchronized void cut(int requests) {
        cuts = requests;
    }

    /** Sets whether the node has routes. */
    public synchronized void knowRoutes(boolean knows) {
        hasNoRoutes = !knows;
    }

    /** Sets whether the node refuses requests for other sets with MOVED instead of forwarding them. */
    public synchronized void isolate(boolean isolated) {
        isIsolated = isolated;
    }

    /** Sets a function that changes responses before they are sent. */
    public synchronized void change(Consumer<Message> function) {
        change = function == null ? message -> { } : function;
    }

    /** Returns the requests for numbers, reads and ids, of uids and of keys, that the node received. */
    public synchronized List<Seen> seen() {
        return List.copyOf(seen);
    }

    /** Returns the methods of these requests. */
    public List<String> methods() {
        return seen().stream().map(Seen::method).toList();
    }

    /** Returns the number of requests for no routes at all, by which a client finds out whether the node responds. */
    public synchronized int probes() {
        return probes;
    }

    /** Returns the header of the last request. */
    public synchronized Headers header() {
        return header;
    }

    synchronized boolean hasNoRoutes() {
        return hasNoRoutes;
    }

    synchronized boolean isIsolated() {
        return isIsolated;
    }

    synchronized void probed() {
        probes++;
    }

    /** Waits while the node hangs. */
    void await() {
        CompletableFuture<Void> until;
        synchronized (this) {
            until = held;
        }
        until.join();
    }

    /** Records a request, waits while the node hangs, and returns the refusal that is due; null for none. */
    Refusal see(Seen request) {
        synchronized (this) {
            seen.add(request);
        }
        await();
        synchronized (this) {
            return refusals.isEmpty() ? always : refusals.poll();
        }
    }

    private synchronized boolean isCut() {
        return --cuts >= 0;
    }

    private void handle(HttpExchange exchange) throws IOException {
        byte[] body = exchange.getRequestBody().readAllBytes();
        synchronized (this) {
            header = exchange.getRequestHeaders();
        }
        String method = exchange.getRequestURI().getPath().replaceFirst("^/seqsvr\\.v1\\.", "");
        Answer answer;
        try {
            answer = Handlers.handle(this, method, body);
        } catch (Malformed e) {
            exchange.close();
            return;
        }
        if (answer == null) {
            respond(exchange, 501, "application/json", "{\"code\":\"unimplemented\",\"message\":\"no\"}".getBytes());
        } else if (answer.refusal != null) {
            respond(exchange, answer.refusal.http(), "application/json", answer.refusal.json().getBytes());
        } else if (!method.equals("SequenceService/GetRoutes") && isCut()) {
            exchange.close();
        } else {
            Consumer<Message> changed;
            synchronized (this) {
                changed = change;
            }
            changed.accept(answer.response);
            respond(exchange, 200, "application/proto", answer.response.encode());
        }
    }

    private static void respond(HttpExchange exchange, int status, String type, byte[] body) {
        try {
            exchange.getResponseHeaders().set("content-type", type);
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        } catch (IOException e) {
            // The client has left.
            exchange.close();
        }
    }
}
