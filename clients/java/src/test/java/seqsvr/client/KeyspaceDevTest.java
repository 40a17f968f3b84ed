package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.cluster.Eventually.eventually;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import seqsvr.client.cluster.Dev;

/** Calls for keys and for sparse uids to a real cluster in one process. */
class KeyspaceDevTest {
    private static Dev dev;
    private static SeqClient client;

    @BeforeAll
    static void start() throws Exception {
        dev = Dev.start();
        client = SeqClient.builder().seed(dev.allocs.get(0)).deadline(Fixtures.LONG).build();
        dev.createKeyspace("main");
        eventually("the keyspace is served", () -> client.keyspace("main").current("none"));
    }

    @AfterAll
    static void stop() {
        client.close();
        dev.close();
    }

    @Test
    void eachMethodIsServed() {
        Keyspace keys = client.keyspace("main");
        assertEquals(new Current(0, true, keys.current("conv:42").epoch()), keys.current("conv:42"));
        Allocation first = keys.next("conv:42");
        assertEquals(List.of(1L, 0L), List.of(first.value(), first.prev()));
        assertTrue(first.epoch() > 0 && first.lost() == 0);
        assertEquals(1_000_001, keys.next("conv:42".getBytes(StandardCharsets.UTF_8), Allocation.MAX_COUNT).value());
        assertTrue(keys.advance("conv:42", 2_000_000) > 0);
        Allocation advanced = keys.next("conv:42");
        assertEquals(List.of(2_000_001L, 0L), List.of(advanced.value(), advanced.prev()));
        SeqException past = fails(Kind.REFUSED, () -> keys.advance("conv:42", 5));
        assertEquals(Reasons.ALREADY_PAST, past.reason());
        assertFalse(past.retryable() || past.uid().isPresent());
        // Keys of both owners, one of them twice, and more than fit into a request.
        String[] many = IntStream.range(0, 10_001).mapToObj(i -> "many:" + i % 10_000).toArray(String[]::new);
        List<Result<Allocation>> results = keys.nextMany(many);
        for (int i = 0; i < many.length; i++) {
            assertEquals(i / 10_000 + 1, results.get(i).value().value());
        }
        byte[][] bytes = {{-1, 0}, {' '}, {'\r', '\n'}, "\u00fc".getBytes(StandardCharsets.UTF_8),
            "x".repeat(Keyspace.MAX_KEY_BYTES).getBytes(StandardCharsets.UTF_8)};
        keys.nextMany(bytes).forEach(result -> assertEquals(1, result.value().value()));
        assertEquals(2, keys.next("\u00fc").value());
        List<Result<Current>> current = keys.currentMany("many:0", "\u00fc", "none");
        assertEquals(List.of(2L, 2L, 0L), current.stream().map(result -> result.value().value()).toList());
        assertEquals(Reasons.UNKNOWN_KEYSPACE, fails(Kind.REFUSED, () -> client.keyspace("orders").next("a")).reason());
        assertEquals(0, client.stats().budgetRefused());
    }

    @Test
    void sparseUidsAreServedOnceTheClusterHasAKeyspaceOfThem() throws Exception {
        long uid = 1_234_567_890_123_456_789L;
        fails(Kind.UID_OUTSIDE, () -> client.next(uid));
        dev.createKeyspace("users", "--uids");
        eventually("sparse uids are served", () -> client.current(uid));
        assertEquals(List.of(1L, 2L), List.of(client.next(uid).value(), client.next(uid).value()));
        assertTrue(client.core().routes.load().route(uid).owner() != 0, "the owner of the uid's bucket is not known");
        List<Result<Allocation>> results = client.nextMany(uid, -1, 42);
        assertEquals(3, results.get(0).value().value());
        assertEquals(1, results.get(1).value().value());
        assertTrue(client.advance(uid, 100) > 0);
        assertEquals(100, client.current(uid).value());
        assertEquals(Reasons.UNKNOWN_KEYSPACE, fails(Kind.REFUSED, () -> client.keyspace("users").next("a")).reason());
    }
}
