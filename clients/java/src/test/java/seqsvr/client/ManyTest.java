package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.Fixtures.join;
import static seqsvr.client.Fixtures.open;
import static seqsvr.client.Fixtures.refusals;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import seqsvr.client.fake.FakeNode;
import seqsvr.client.fake.World;
import seqsvr.client.internal.wire.Sequence;

class ManyTest {
    private static List<Long> values(List<Result<Allocation>> results) {
        return results.stream().map(result -> result.isOk() ? result.value().value() : 0).toList();
    }

    @Test
    void aBatchIsSentToEachOwner() throws Exception {
        try (World world = new World(2, 2); SeqClient client = open(world)) {
            long[] uids = {1, 25, 1, 999, 45, 65, 1};
            List<Result<Allocation>> results = client.nextMany(uids);
            assertEquals(List.of(1L, 1L, 2L, 0L, 1L, 1L, 3L), values(results));
            SeqException outside = results.get(3).error().orElseThrow();
            assertEquals(Kind.UID_OUTSIDE, outside.kind());
            assertEquals(999, outside.uid().getAsLong());
            for (int set = 0; set < 2; set++) {
                for (int node = 0; node < 2; node++) {
                    assertEquals(List.of("NextMany"), world.node(set, node).methods());
                }
            }
            List<Result<Allocation>> counted = client.nextMany(List.of(new Item(1, 5), new Item(25, 1), new Item(1, 2)));
            assertEquals(new Allocation(8, 3, 1, 5, 0), counted.get(0).value());
            assertEquals(new Allocation(2, 1, 1, 1, 0), counted.get(1).value());
            assertEquals(new Allocation(10, 8, 1, 2, 0), counted.get(2).value());
            List<Result<Current>> current = client.currentMany(uids);
            long[] want = {10, 2, 10, 0, 1, 1, 10};
            for (int i = 0; i < want.length; i++) {
                assertEquals(i != 3, current.get(i).isOk());
                assertEquals(want[i], i == 3 ? 0 : current.get(i).value().value());
            }
        }
    }

    @Test
    void aLargeBatchIsSentInParts() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            long[] uids = new long[10_001];
            for (int i = 0; i < uids.length; i++) {
                uids[i] = i % 3;
            }
            List<Long> values = values(join(client.nextManyAsync(uids)));
            for (int i = 0; i < uids.length; i++) {
                assertEquals(i / 3 + 1, values.get(i));
            }
            List<FakeNode.Seen> seen = world.node(0, 0).seen();
            assertEquals(List.of(10_000, 1), seen.stream().map(request -> request.uids().size()).toList());
        }
    }

    @Test
    void itemsThatAreRefusedAreSentAgain() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            FakeNode node = world.node(0, 0);
            client.nextMany(1, 11);
            // The second section has no owner for a while.
            world.move(11, 0, -1);
            AtomicInteger refused = new AtomicInteger();
            node.change(m -> {
                if (m instanceof Sequence.NextManyResponse many && !many.errors.isEmpty() && refused.incrementAndGet() == 3) {
                    world.move(11, 0, 0);
                }
            });
            List<Result<Allocation>> results = client.nextMany(1, 11, 2, 12);
            assertEquals(List.of(2L, 2L, 1L, 1L), values(results));
            results.forEach(result -> assertEquals(0, result.value().lost()));
            assertEquals(List.of(11L, 12L), node.seen().get(node.seen().size() - 1).uids());
            node.change(null);
            // Permanent refusals are not retried, and unknown outcomes are counted.
            node.refuse(refusals("EXHAUSTED", 8, 0, 1));
            int before = node.seen().size();
            List<Result<Allocation>> exhausted = client.nextMany(1, 2);
            for (int i = 0; i < 2; i++) {
                SeqException error = exhausted.get(i).error().orElseThrow();
                assertEquals(Reasons.EXHAUSTED, error.reason());
                assertEquals(i + 1, error.uid().getAsLong());
                assertFalse(error.retryable());
            }
            assertEquals(before + 1, node.seen().size());
            node.refuse(refusals("OWNER_CONNECTION_LOST", 14, 1, 1));
            client.nextMany(1, 2).forEach(result -> assertEquals(1, result.value().lost()));
            // A read counts nothing as lost.
            node.refuse(refusals("EXHAUSTED", 8, 0, 1));
            client.currentMany(1, 2).forEach(result -> assertFalse(result.error().orElseThrow().mayHaveApplied()));
        }
    }

    @Test
    void aBatchWhoseResponseIsLostIsSentAgain() throws Exception {
        try (World world = new World(1, 2);
                SeqClient client = SeqClient.builder().seed(world.node(0, 0).addr()).seed(world.node(0, 1).addr()).build()) {
            world.node(0, 0).cut(1);
            List<Result<Allocation>> results = client.nextMany(1, 2, 1);
            assertEquals(List.of(3L, 2L, 4L), values(results));
            results.forEach(result -> assertEquals(1, result.value().lost()));
        }
    }

    @Test
    void aBatchWithoutAnyResponseFailsAsAWhole() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            world.node(0, 0).stop();
            SeqClient brief = client.withDeadline(Duration.ofMillis(500));
            assertTrue(fails(Kind.UNREACHABLE, () -> brief.nextMany(1, 2)).retryable());
            fails(Kind.UNREACHABLE, () -> brief.currentMany(1, 2));
        }
    }

    @Test
    void itemsThatMovedAreSentToTheirSet() throws Exception {
        try (World world = new World(2, 1); SeqClient client = open(world)) {
            world.node(0, 0).isolate(true);
            world.learn(0, false);
            client.nextMany(1, 11);
            world.move(11, 1, 0);
            List<Result<Allocation>> results = client.nextMany(1, 11, 12);
            assertEquals(List.of(1L, 2L, 2L), results.stream().map(result -> result.value().epoch()).toList());
            assertEquals(0, client.stats().retries(), "retries were charged");
        }
    }
}
