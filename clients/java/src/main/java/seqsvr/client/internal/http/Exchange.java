package seqsvr.client.internal.http;

import java.net.http.HttpResponse;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;

/**
 * One request to a node. It waits until the node is ready and has a permit, is sent, and ends with the bytes of its
 * response, or with an {@link AttemptException}.
 */
public final class Exchange {
    /** Time after which a request is sent again that found no free stream of its connection. */
    private static final long BUSY_NANOS = 5_000_000;

    /** Use of a request. */
    enum Use {
        /** A request of a call, of which only so many are in flight. */
        CALL,
        /** A message with calls that share it, whose number is limited elsewhere. */
        SHARED,
        /** A request that is sent whether or not the node is ready. */
        PROBE
    }

    private final Node node;
    private final String method;
    private final byte[] message;
    /** Timeout for the server. */
    private final long timeoutNanos;
    private final long created = System.nanoTime();
    private final CompletableFuture<byte[]> outcome = new CompletableFuture<>();
    private final Runnable launch = this::launch;
    private final Use use;

    private volatile boolean sent;
    private volatile CompletableFuture<HttpResponse<byte[]>> inner;
    private volatile Future<?> timer;

    Exchange(Node node, String method, byte[] message, long timeoutNanos, Use use) {
        this.node = node;
        this.method = method;
        this.message = message;
        this.timeoutNanos = timeoutNanos;
        this.use = use;
        outcome.whenComplete((response, error) -> {
            Timers.cancel(timer);
            CompletableFuture<?> running = inner;
            if (running != null) {
                running.cancel(true);
            }
        });
    }

    /** Returns the future of the response. */
    public CompletableFuture<byte[]> outcome() {
        return outcome;
    }

    /** Returns whether a server may have received the request. */
    public boolean wasSent() {
        return sent;
    }

    /** Ends the request, because nobody waits for it any more. */
    public void abort() {
        fail(TransportException.aborted(sent));
    }

    void fail(AttemptException error) {
        if (outcome.completeExceptionally(error) && !sent) {
            node.permits.forget(launch);
        }
    }

    /** Starts the timer that ends the request after some time. */
    void endAfter(long nanos) {
        timer = node.pool.timers.after(nanos, () -> {
            boolean wasSent = sent;
            if (!outcome.isDone()) {
                fail(TransportException.late(wasSent));
                if (wasSent && use != Use.PROBE) {
                    node.verify();
                }
            }
        });
        if (outcome.isDone()) {
            Timers.cancel(timer);
        }
    }

    /** Sends the request once the node is ready and has a permit. */
    void await() {
        node.ready().whenComplete((ready, error) -> {
            if (error != null) {
                fail(TransportException.unsent(error));
            } else if (use == Use.CALL) {
                node.permits.acquire(launch);
            } else {
                launch();
            }
        });
    }

    /** Sends the request; with a permit, if it needs one. */
    void launch() {
        if (outcome.isDone()) {
            release();
            return;
        }
        CompletableFuture<HttpResponse<byte[]>> running;
        try {
            long left = timeoutNanos - (System.nanoTime() - created);
            running = node.http().sendAsync(node.pool.request(node.addr, method, message, left),
                    info -> new LimitedBody(Pool.MAX_RESPONSE_BYTES,
                            info.headers().firstValueAsLong("content-length").orElse(-1)));
        } catch (RuntimeException e) {
            release();
            fail(TransportException.unsent(e));
            return;
        }
        sent = true;
        if (use != Use.PROBE) {
            node.begin(this);
        }
        inner = running;
        running.whenComplete(this::ended);
        if (outcome.isDone()) {
            running.cancel(true);
        }
    }

    private void release() {
        if (use == Use.CALL) {
            node.permits.release();
        }
    }

    private void ended(HttpResponse<byte[]> response, Throwable error) {
        if (use != Use.PROBE) {
            node.end(this);
        }
        release();
        if (error == null) {
            node.heard(use == Use.PROBE);
            String type = response.headers().firstValue("content-type").orElse("").split(";", 2)[0].trim();
            if (response.statusCode() == 200 && type.equals("application/proto")) {
                outcome.complete(response.body());
            } else {
                fail(StatusException.of(response.statusCode(), type, response.body()));
            }
            return;
        }
        Throwable cause = error;
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (outcome.isDone() || cause instanceof CancellationException) {
            fail(TransportException.aborted(true));
        } else if (cause instanceof LimitedBody.TooLarge) {
            fail(StatusException.bad(cause.getMessage()));
        } else if (TransportException.isTooManyStreams(cause) && use != Use.PROBE) {
            sent = false;
            inner = null;
            node.pool.timers.after(BUSY_NANOS, this::await);
        } else {
            node.broke();
            fail(TransportException.broken(cause));
        }
    }
}
