package seqsvr.client.internal.http;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Flow;
import javax.net.ssl.SSLHandshakeException;
import org.junit.jupiter.api.Test;
import seqsvr.client.internal.json.Json;
import seqsvr.client.internal.wire.ErrorDetails;
import seqsvr.client.internal.wire.Message;

class StatusTest {
    private static StatusException status(int http, Object body) {
        return StatusException.of(http, "application/json", Json.write(body).getBytes());
    }

    private static Map<String, Object> detail(String type, Message message, boolean pads) {
        Base64.Encoder encoder = pads ? Base64.getEncoder() : Base64.getEncoder().withoutPadding();
        return Map.of("type", type, "value", encoder.encodeToString(message.encode()), "debug", Map.of());
    }

    private static ErrorDetails.ErrorInfo info(String domain) {
        ErrorDetails.ErrorInfo info = new ErrorDetails.ErrorInfo();
        info.reason = "MOVED";
        info.domain = domain;
        Map.of("set", "18446744073709551615", "since", "0", "bound", "-1").forEach((key, value) -> {
            ErrorDetails.Entry entry = new ErrorDetails.Entry();
            entry.key = key;
            entry.value = value;
            info.metadata.add(entry);
        });
        return info;
    }

    @Test
    void theReasonOfARefusalIsRead() {
        ErrorDetails.RetryInfo retry = new ErrorDetails.RetryInfo();
        retry.retryDelay = new ErrorDetails.Duration();
        retry.retryDelay.seconds = 1;
        retry.retryDelay.nanos = 5;
        for (boolean pads : new boolean[] {true, false}) {
            StatusException got = status(503, Map.of("code", "unavailable", "message", "a b …", "details", List.of(
                    detail("google.rpc.ErrorInfo", info("seqsvr"), pads), detail("google.rpc.RetryInfo", retry, pads),
                    detail("other", retry, pads), "no object")));
            assertEquals(StatusException.UNAVAILABLE, got.code);
            assertEquals("a b …", got.getMessage());
            assertEquals("MOVED", got.reason);
            assertEquals(1001, got.retryAfterMs);
            assertEquals(-1, got.set);
            assertEquals(0, got.since);
            assertNull(got.bound);
            assertEquals(0, got.http);
        }
        // A reason of another domain, and details that are not valid, leave the code.
        for (Object details : List.of(List.of(detail("google.rpc.ErrorInfo", info("other"), true)),
                List.of(Map.of("type", "google.rpc.ErrorInfo", "value", "%%%")),
                List.of(Map.of("type", "google.rpc.ErrorInfo", "value", "/w")), "text")) {
            StatusException got = status(403, Map.of("code", "permission_denied", "details", details));
            assertEquals(StatusException.PERMISSION_DENIED, got.code);
            assertEquals("", got.reason);
        }
        assertEquals(4096, status(500, Map.of("code", "internal", "message", "x".repeat(10_000))).getMessage().length());
    }

    @Test
    void hintsAreBounded() {
        long[][] cases = {{0, 0, 0}, {-1, 0, 0}, {0, -1, 0}, {1L << 62, 0, 86_400_000}, {0, 1, 1}, {86_400, 999, 86_400_000}};
        for (long[] test : cases) {
            ErrorDetails.Duration delay = new ErrorDetails.Duration();
            delay.seconds = test[0];
            delay.nanos = (int) test[1];
            assertEquals(test[2], StatusException.bounded(delay));
        }
    }

    @Test
    void aResponseOfAnotherProtocolHasTheCodeOfItsStatus() {
        Map.of(404, 12, 503, 14, 401, 16, 200, 2).forEach((http, code) -> {
            StatusException got = StatusException.of(http, "text/html", new byte[0]);
            assertEquals(code, got.code);
            assertEquals(http, got.http);
            assertTrue(got.getMessage().contains("text/html"));
        });
        for (Object body : List.of("text", Map.of("code", "nonsense"), Map.of("code", 7))) {
            assertEquals(503, status(503, body).http);
        }
        assertEquals(503, StatusException.of(503, "application/json", "{".getBytes()).http);
    }

    @Test
    void onlyProofsCountAsNotSent() {
        for (Throwable proof : List.of(new ConnectException("refused"), new IOException(new ConnectException("refused")),
                new SSLHandshakeException("unknown_ca"), new IOException("Received RST_STREAM: Stream not processed"),
                new IOException("too many concurrent streams"))) {
            assertFalse(TransportException.broken(proof).sent, proof::toString);
        }
        for (Throwable other : List.of(new IOException("connection reset"), new IOException("GOAWAY received"),
                new IOException((String) null))) {
            assertTrue(TransportException.broken(other).sent, other::toString);
        }
        assertEquals("a: b", TransportException.text(new IOException("a", new IOException("b", new IOException("b")))));
    }

    @Test
    void addressesHaveAHostAndAPort() {
        for (String addr : List.of("a:1", "127.0.0.1:7100", "[::1]:65535", "[fe80::1%eth0]:1", "x.example.org:80")) {
            assertTrue(Pool.isAddr(addr), addr);
        }
        for (String addr : List.of("", "a", ":1", "a:", "a:0", "a:65536", "a:1/path", "user@a:1", "a b:1", "::1:5", "[::1:5",
                "a:+1", "x".repeat(300) + ":1")) {
            assertFalse(Pool.isAddr(addr), addr);
        }
    }

    @Test
    void tasksGetPermitsInOrder() {
        Permits permits = new Permits(1);
        List<Integer> ran = new ArrayList<>();
        Runnable forgotten = () -> ran.add(9);
        permits.acquire(() -> ran.add(1));
        permits.acquire(() -> ran.add(2));
        permits.acquire(forgotten);
        permits.acquire(() -> ran.add(3));
        permits.forget(forgotten);
        assertEquals(List.of(1), ran);
        permits.release();
        permits.release();
        permits.release();
        assertEquals(List.of(1, 2, 3), ran);
        permits.acquire(() -> ran.add(4));
        assertEquals(4, ran.get(3));
    }

    @Test
    void aBodyIsCollectedUpToItsLimit() {
        boolean[] cancelled = new boolean[1];
        Flow.Subscription subscription = new Flow.Subscription() {
            @Override
            public void request(long n) { }

            @Override
            public void cancel() {
                cancelled[0] = true;
            }
        };
        LimitedBody body = new LimitedBody(1000, -1);
        body.onSubscribe(subscription);
        for (int i = 0; i < 10; i++) {
            body.onNext(List.of(ByteBuffer.wrap(new byte[50]), ByteBuffer.wrap(new byte[50])));
        }
        body.onComplete();
        assertEquals(1000, body.getBody().toCompletableFuture().join().length);
        LimitedBody large = new LimitedBody(99, -1);
        large.onSubscribe(subscription);
        large.onNext(List.of(ByteBuffer.wrap(new byte[100])));
        assertTrue(cancelled[0] && large.getBody().toCompletableFuture().isCompletedExceptionally());
        // A length above the limit is refused before a byte arrives.
        cancelled[0] = false;
        LimitedBody stated = new LimitedBody(99, 100);
        stated.onSubscribe(subscription);
        assertTrue(cancelled[0] && stated.getBody().toCompletableFuture().isCompletedExceptionally());
    }
}
