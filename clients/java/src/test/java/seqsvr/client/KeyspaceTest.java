package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.Fixtures.join;
import static seqsvr.client.Fixtures.open;
import static seqsvr.client.Fixtures.refusals;
import static seqsvr.client.cluster.Eventually.eventually;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import seqsvr.client.fake.FakeNode;
import seqsvr.client.fake.World;
import seqsvr.client.internal.routes.Buckets;
import seqsvr.client.internal.wire.Sequence;

class KeyspaceTest {
    /** Returns a key whose bucket belongs to the node with an index among all nodes of a new world. */
    private static String keyOf(int node, int nodes) {
        return IntStream.range(0, 10_000).mapToObj(i -> "conv:" + i)
                .filter(key -> Buckets.bucket(key.getBytes(StandardCharsets.UTF_8)) * nodes / Buckets.COUNT == node)
                .findFirst().orElseThrow();
    }

    private static World world(int sets, int nodes) throws Exception {
        World world = new World(sets, nodes);
        world.addKeyspace("main");
        return world;
    }

    private static List<Long> values(List<Result<Allocation>> results) {
        return results.stream().map(result -> result.value().value()).toList();
    }

    @Test
    void aCallForAKeyIsSentToTheOwnerOfItsBucket() throws Exception {
        try (World world = world(2, 2); SeqClient client = open(world)) {
            Keyspace keys = client.keyspace("main");
            assertEquals("main", keys.name());
            for (int n = 0; n < 4; n++) {
                String key = keyOf(n, 4);
                byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
                assertEquals(new Allocation(1, 0, 1, 1, 0), keys.next(key));
                assertEquals(new Allocation(4, 1, 1, 3, 0), keys.next(bytes, 3));
                assertEquals(new Current(4, true, 1), keys.current(bytes));
                assertEquals(1, keys.advance(key, 100));
                assertEquals(101, keys.next(bytes).value());
                FakeNode node = world.node(n / 2, n % 2);
                assertEquals(List.of("KeyNext", "KeyNext", "KeyCurrent", "KeyAdvance", "KeyNext"), node.methods());
                node.seen().forEach(seen -> {
                    assertEquals(List.of(1L), seen.epochs());
                    assertEquals(List.of(key), seen.keys());
                });
            }
        }
    }

    @Test
    void eachCallHasAFutureAndBothKindsOfKeys() throws Exception {
        try (World world = world(1, 1); SeqClient client = open(world)) {
            Keyspace keys = client.keyspace("main").withDeadline(Duration.ofSeconds(50));
            byte[] key = "\u00fc".getBytes(StandardCharsets.UTF_8);
            assertEquals(1, join(keys.nextAsync("\u00fc")).value());
            assertEquals(2, join(keys.nextAsync(key)).value());
            assertEquals(4, join(keys.nextAsync("\u00fc", 2)).value());
            assertEquals(7, join(keys.nextAsync(key, 3)).value());
            assertEquals(9, keys.next("\u00fc", 2).value());
            assertEquals(List.of(10L, 11L), values(join(keys.nextManyAsync("\u00fc", "\u00fc"))));
            assertEquals(List.of(12L, 1L), values(join(keys.nextManyAsync(key, new byte[] {-1, 0}))));
            assertEquals(List.of(15L), values(join(keys.nextManyAsync(List.of(new KeyItem(key, 3))))));
            assertEquals(List.of(16L, 2L), values(keys.nextMany(key, new byte[] {-1, 0})));
            assertEquals(16, join(keys.currentAsync("\u00fc")).value());
            assertEquals(16, join(keys.currentAsync(key)).value());
            assertEquals(16, keys.current("\u00fc").value());
            assertEquals(2, keys.currentMany(new byte[] {-1, 0}).get(0).value().value());
            assertEquals(16, join(keys.currentManyAsync("\u00fc")).get(0).value().value());
            assertEquals(16, join(keys.currentManyAsync(key)).get(0).value().value());
            assertEquals(1, join(keys.advanceAsync("\u00fc", 20)));
            assertEquals(1, join(keys.advanceAsync(key, 21)));
            assertEquals(1, keys.advance(key, 22));
            assertEquals(23, keys.next("\u00fc").value());
            assertEquals(new KeyItem("\u00fc", 1), new KeyItem(key, 1));
            // A key is copied: the caller may use its bytes for something else at once, also while attempts follow.
            world.node(0, 0).hang(true);
            world.node(0, 0).refuse(refusals("UNSERVED", 14, 1, 2));
            CompletableFuture<Allocation> later = keys.nextAsync(key);
            Arrays.fill(key, (byte) 'x');
            world.node(0, 0).hang(false);
            assertEquals(24, join(later).value());
            world.node(0, 0).hang(true);
            SeqException late = fails(Kind.DEADLINE, () -> keys.withDeadline(Duration.ofMillis(50)).next("a"));
            assertTrue(late.mayHaveApplied() && late.uid().isEmpty());
        }
    }

    @Test
    void aBatchOfKeysIsSentToEachOwner() throws Exception {
        try (World world = world(2, 1); SeqClient client = open(world)) {
            Keyspace keys = client.keyspace("main");
            String a = keyOf(0, 2);
            String b = keyOf(1, 2);
            assertEquals(List.of(1L, 1L, 2L, 1L), values(keys.nextMany(a, b, a, "{" + b + "}")));
            List<Result<Allocation>> counted =
                    keys.nextMany(List.of(new KeyItem(a, 5), new KeyItem(b, 1), new KeyItem(a, 2)));
            assertEquals(new Allocation(7, 2, 1, 5, 0), counted.get(0).value());
            assertEquals(new Allocation(2, 1, 1, 1, 0), counted.get(1).value());
            assertEquals(new Allocation(9, 7, 1, 2, 0), counted.get(2).value());
            List<Result<Current>> current = keys.currentMany(b, "none", a);
            assertEquals(List.of(2L, 0L, 9L), current.stream().map(result -> result.value().value()).toList());
            for (int set = 0; set < 2; set++) {
                FakeNode.Seen first = world.node(set, 0).seen().get(0);
                assertEquals("NextKeys", first.method());
                assertTrue(first.keys().contains(set == 0 ? a : b) && first.epochs().get(0) == 1, first::toString);
            }
            assertEquals(List.of(), keys.nextMany(List.of()));
        }
    }

    @Test
    void aLargeBatchOfKeysIsSentInParts() throws Exception {
        try (World world = world(1, 1); SeqClient client = open(world)) {
            Keyspace keys = client.keyspace("main");
            List<Long> shorts = values(keys.nextMany(IntStream.range(0, 10_001).mapToObj(i -> "abc".substring(i % 3, i % 3 + 1))
                    .toArray(String[]::new)));
            for (int i = 0; i < shorts.size(); i++) {
                assertEquals(i / 3 + 1, shorts.get(i));
            }
            String longest = "x".repeat(Keyspace.MAX_KEY_BYTES);
            List<Long> longs = values(keys.nextMany(Collections.nCopies(600, longest).toArray(String[]::new)));
            for (int i = 0; i < longs.size(); i++) {
                assertEquals(i + 1, longs.get(i));
            }
            assertEquals(List.of(10_000, 1, 256, 256, 88),
                    world.node(0, 0).seen().stream().map(seen -> seen.keys().size()).toList());
        }
    }

    private static void refused(String reason, Executable call) {
        refused(reason, fails(Kind.REFUSED, call));
    }

    private static void refused(String reason, SeqException error) {
        assertEquals(reason, error.reason());
        assertFalse(error.retryable() || error.mayHaveApplied() || error.uid().isPresent(), error::toString);
        assertEquals(0, error.attempts());
    }

    @Test
    void keysOfOtherSizesRefuseTheirOwnItems() throws Exception {
        try (World world = world(1, 1); SeqClient client = open(world)) {
            Keyspace keys = client.keyspace("main");
            String tooLong = "\u00fc".repeat(Keyspace.MAX_KEY_BYTES / 2 + 1);
            for (String wrong : List.of("", tooLong)) {
                refused(Reasons.KEY_SIZE, () -> keys.next(wrong));
                refused(Reasons.KEY_SIZE, () -> keys.current(wrong));
                refused(Reasons.KEY_SIZE, () -> keys.advance(wrong, 5));
                refused(Reasons.KEY_SIZE, keys.nextMany(wrong).get(0).error().orElseThrow());
                refused(Reasons.KEY_SIZE, keys.currentMany(wrong).get(0).error().orElseThrow());
            }
            assertEquals("the key has 514 bytes: a key has 1 to 512",
                    fails(Kind.REFUSED, () -> keys.next(tooLong)).getMessage());
            for (int count : new int[] {0, Allocation.MAX_COUNT + 1}) {
                assertTrue(fails(Kind.COUNT, () -> keys.next("a", count)).uid().isEmpty());
                fails(Kind.COUNT, () -> keys.nextMany(List.of(new KeyItem("a", 1), new KeyItem("b", count))));
            }
            IllegalArgumentException half = assertThrows(IllegalArgumentException.class, () -> keys.next("a\ud800"));
            assertTrue(half.getMessage().contains("pass bytes"), half::getMessage);
            assertEquals(List.of(), world.node(0, 0).seen());
            // The other items of a batch are served, with their own counts.
            List<Result<Allocation>> mixed = keys.nextMany(List.of(new KeyItem("a", 2), new KeyItem("", 1), new KeyItem("b", 3),
                    new KeyItem(tooLong, 1), new KeyItem("a", 1)));
            refused(Reasons.KEY_SIZE, mixed.get(1).error().orElseThrow());
            refused(Reasons.KEY_SIZE, mixed.get(3).error().orElseThrow());
            assertEquals(List.of(2L, 3L, 3L), values(List.of(mixed.get(0), mixed.get(2), mixed.get(4))));
            assertEquals(List.of("a", "b", "a"), world.node(0, 0).seen().get(0).keys());
        }
    }

    @Test
    void unknownKeyspacesAreRefusedUntilTheyAreKnown() throws Exception {
        try (World world = new World(1, 1)) {
            world.addCounter("orders", 1, 1);
            SeqClient client = open(world);
            Keyspace keys = client.keyspace("main");
            refused(Reasons.UNKNOWN_KEYSPACE, () -> keys.next("a"));
            refused(Reasons.UNKNOWN_KEYSPACE, () -> keys.nextMany("a"));
            refused(Reasons.UNKNOWN_KEYSPACE, () -> keys.current("a"));
            refused(Reasons.UNKNOWN_KEYSPACE, () -> client.keyspace("orders").next("a"));
            assertEquals(List.of(), world.node(0, 0).seen());
            // A keyspace that the client does not know yet is found. It is no series.
            world.addKeyspace("main");
            eventually("a new keyspace is found", () -> keys.next(new byte[] {-1, 0}));
            refused(Reasons.UNKNOWN_SERIES, () -> client.series("main").next());
            client.close();
            fails(Kind.CLOSED, () -> keys.next("a"));
        }
    }

    @Test
    void callsForKeysAreRetriedAsThoseForUids() throws Exception {
        try (World world = world(1, 2);
                SeqClient client = Fixtures.settings(world).seed(world.node(0, 1).addr()).build()) {
            Keyspace keys = client.keyspace("main");
            String key = keyOf(0, 2);
            FakeNode node = world.node(0, 0);
            node.refuse(refusals("UNSERVED", 14, 1, 3));
            assertEquals(new Allocation(1, 0, 1, 1, 0), keys.next(key));
            assertEquals(4, node.seen().size());
            node.refuse(refusals("OTHER_TENANTS_KEY", 7, 0, 1));
            SeqException tenant = fails(Kind.REFUSED, () -> keys.next(key));
            assertEquals("refused: OTHER_TENANTS_KEY", tenant.getMessage());
            assertEquals(1, tenant.attempts());
            assertFalse(tenant.retryable() || tenant.uid().isPresent());
            node.refuse(refusals("OWNER_CONNECTION_LOST", 14, 1, 1));
            Allocation lost = keys.next(key);
            assertEquals(List.of(2L, 1L), List.of(lost.value(), (long) lost.lost()));
            assertTrue(client.core().pool.isSuspect(node.addr()), "the owner that a node could not reach is not suspect");
            recovers(client, node);
            node.cut(1);
            Allocation cut = keys.next(key);
            assertEquals(List.of(4L, 1L), List.of(cut.value(), (long) cut.lost()));
            recovers(client, node);
            node.cut(1);
            List<Result<Allocation>> many = keys.nextMany(key, key);
            assertEquals(List.of(7L, 8L), values(many));
            many.forEach(result -> assertEquals(1, result.value().lost()));
            recovers(client, node);
            // After this call the connection is known to work, so the next request is sent at once.
            assertEquals(9, keys.next(key).value());
            node.hang(true);
            assertEquals(1, keys.withDeadline(Duration.ofMillis(2500)).next(key).lost());
            node.stop();
            Current before = keys.current(key);
            Allocation next = keys.next(key);
            assertEquals(List.of(before.value() + 1, before.value()), List.of(next.value(), next.prev()));
        }
    }

    private static void recovers(SeqClient client, FakeNode node) {
        eventually("the owner recovers", () -> assertFalse(client.core().pool.isSuspect(node.addr())));
    }

    @Test
    void itemsOfKeysThatAreRefusedAreSentAgain() throws Exception {
        try (World world = world(1, 1); SeqClient client = open(world)) {
            Keyspace keys = client.keyspace("main");
            FakeNode node = world.node(0, 0);
            keys.nextMany("a", "b");
            // The bucket of b has no owner for a while.
            world.moveBucket("b", 0, -1, true);
            AtomicInteger refused = new AtomicInteger();
            node.change(m -> {
                if (m instanceof Sequence.NextManyResponse many && !many.errors.isEmpty() && refused.incrementAndGet() == 3) {
                    world.moveBucket("b", 0, 0, true);
                }
            });
            List<Result<Allocation>> results = keys.nextMany(
                    List.of(new KeyItem("a", 1), new KeyItem("b", 2), new KeyItem("c", 3), new KeyItem("{b}", 4)));
            assertEquals(List.of(2L, 3L, 3L, 4L), values(results));
            results.forEach(result -> assertEquals(0, result.value().lost()));
            assertEquals(List.of("b", "{b}"), node.seen().get(node.seen().size() - 1).keys());
            node.change(null);
            node.refuse(refusals("KEYS_EXHAUSTED", 8, 0, 1));
            keys.nextMany("a", "b").forEach(result -> {
                SeqException error = result.error().orElseThrow();
                assertEquals(Reasons.KEYS_EXHAUSTED, error.reason());
                assertTrue(error.uid().isEmpty());
            });
            node.refuse(refusals("OWNER_CONNECTION_LOST", 14, 1, 1));
            keys.nextMany("a", "b").forEach(result -> assertEquals(1, result.value().lost()));
            node.refuse(refusals("KEYS_EXHAUSTED", 8, 0, 1));
            keys.currentMany("a", "b").forEach(result -> assertFalse(result.error().orElseThrow().mayHaveApplied()));
            node.stop();
            Keyspace brief = keys.withDeadline(Duration.ofMillis(500));
            assertTrue(fails(Kind.UNREACHABLE, () -> brief.nextMany("a", "b")).uid().isEmpty());
        }
    }

    @Test
    void aBucketThatMovedIsFollowed() throws Exception {
        for (boolean isKnown : new boolean[] {true, false}) {
            try (World world = world(2, 1); SeqClient client = open(world)) {
                world.node(0, 0).isolate(true);
                Keyspace keys = client.keyspace("main");
                String key = keyOf(0, 2);
                keys.next(key);
                // The refusal states the set, whether the routes of a response state it as well or not.
                world.moveBucket(key, 1, 0, isKnown);
                Allocation moved = keys.next(key);
                assertEquals(new Allocation(2, 1, 2, 1, 0), moved);
                int before = world.node(0, 0).seen().size();
                assertEquals(2, keys.nextMany(key).get(0).value().epoch());
                assertEquals(before, world.node(0, 0).seen().size());
                assertEquals(0, client.stats().retries(), "retries were charged");
                // The items of a batch follow their bucket as well.
                world.moveBucket(key, 0, 0, isKnown);
                world.node(1, 0).isolate(true);
                assertEquals(3, keys.nextMany(key).get(0).value().epoch());
                assertEquals(0, client.stats().retries(), "retries of a batch were charged");
            }
        }
    }
}
