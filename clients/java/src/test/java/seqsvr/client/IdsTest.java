package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import seqsvr.client.internal.wire.IdMessages;
import seqsvr.client.internal.wire.RouteTable;

class IdsTest {
    static IdMessages.NextIdsResponse response(long step, long... firstAndCount) {
        IdMessages.NextIdsResponse response = new IdMessages.NextIdsResponse();
        response.step = step;
        response.epoch = 3;
        response.lane = 7;
        for (int i = 0; i < firstAndCount.length; i += 2) {
            IdMessages.IdRun run = new IdMessages.IdRun();
            run.first = firstAndCount[i];
            run.count = (int) firstAndCount[i + 1];
            response.runs.add(run);
        }
        return response;
    }

    @Test
    void runsAreExpandedInOrder() {
        Ids ids = Ids.checked("a:1", response(10, 5, 2, 25, 3), 5, 4);
        assertEquals(List.of(5L, 15L, 25L, 35L, 45L), ids.stream().boxed().toList());
        assertEquals(List.of(5, 45L, 7, 3L), List.of(ids.size(), ids.last(), ids.lane(), ids.epoch()));
        assertEquals(35, ids.at(3));
        assertEquals(Long.MAX_VALUE, Ids.checked("a:1", response(1, Long.MAX_VALUE, 1), 1, 0).last());
    }

    @Test
    void idsThatDoNotFitAreRefused() {
        record Case(IdMessages.NextIdsResponse response, int count, long after) { }

        for (Case test : List.of(new Case(response(1), 1, 0), new Case(response(1, 0, 1), 1, 0),
                new Case(response(1, 5, 1), 2, 0), new Case(response(1, 5, 3), 2, 0), new Case(response(1, 5, 0, 6, 1), 1, 0),
                new Case(response(0, 5, 1), 1, 0), new Case(response(1, 5, 1), 1, 5), new Case(response(1, 5, 2, 6, 1), 3, 0),
                new Case(response(1, Long.MAX_VALUE, 2), 2, 0), new Case(response(-1, 1, 2), 2, 0),
                new Case(response(1, -1, 1), 1, 0), new Case(response(1, 5, -1), 1, 0))) {
            SeqException error = assertThrows(SeqException.class,
                    () -> Ids.checked("a:1", test.response, test.count, test.after));
            assertEquals(Kind.BAD_ANSWER, error.kind());
        }
    }

    @Test
    void idsAreDecoded() {
        Shape.Counter counter = new Shape.Counter(2, 10, 1000);
        Map.of(2L, 1L, 12L, 2L, 992L, 100L)
                .forEach((id, number) -> assertEquals(number, counter.decode(id).orElseThrow().number()));
        for (long id : new long[] {0, 1, 3, 1002, Long.MAX_VALUE, -8}) {
            assertEquals(Optional.empty(), counter.decode(id));
        }
        Map.of(1L, 0L, 2L, 2L, 11L, 2L, 12L, 12L, 40L, 32L, 5000L, 992L)
                .forEach((id, most) -> assertEquals(most, counter.atMost(id)));
        Shape.Timed twitter = new Shape.Timed(Instant.ofEpochMilli(1_288_834_974_657L), Duration.ofMillis(1), 41, 10, 12, false);
        assertEquals(new DecodedId(26, 1 << 12 | 7, Optional.of(Instant.ofEpochMilli(1_288_834_974_658L)), 7),
                twitter.decode(1L << 22 | 26 << 12 | 7).orElseThrow());
        assertTrue(twitter.decode(Long.MAX_VALUE).isPresent());
        assertTrue(twitter.decode(-1).isEmpty());
        assertTrue(new Shape.Timed(Instant.EPOCH, Duration.ofSeconds(1), 10, 0, 12, false).decode(1 << 22).isEmpty());
    }

    @Test
    void shapesThatCannotBeUsedAreUnknown() {
        assertNotNull(Shapes.of(timed(t -> { })));
        Map<String, Consumer<RouteTable.TimedShape>> timed = Map.of("no unit", t -> t.unitMs = 0, "no time",
                t -> t.timeBits = 0, "a sum", t -> t.seqBits = 13, "a lane", t -> {
                    t.timeBits = 10;
                    t.laneBits = 21;
                }, "wrapping", t -> t.timeBits = -1, "the end", t -> t.unitMs = 86_400_000, "the epoch", t -> t.epochMs = -1,
                "a day long", t -> t.unitMs = 86_400_001);
        timed.forEach((name, change) -> assertNull(Shapes.of(timed(change)), name));
        assertNotNull(Shapes.of(counter(1, 1, 5)));
        for (long[] c : new long[][] {{1, 0, 5}, {0, 1, 5}, {3, 2, 5}, {2, 2, 1}, {1, 1, Long.MIN_VALUE},
            {1, (1L << 32) + 1, 5}}) {
            assertNull(Shapes.of(counter(c[0], c[1], c[2])));
        }
        for (byte[] data : new byte[][] {{}, {-1}, {0x1a, 0}}) {
            assertNull(Shapes.of(data));
        }
    }

    private static byte[] timed(Consumer<RouteTable.TimedShape> change) {
        RouteTable.Shape shape = new RouteTable.Shape();
        shape.timed = new RouteTable.TimedShape();
        shape.timed.epochMs = 1_288_834_974_657L;
        shape.timed.unitMs = 1;
        shape.timed.timeBits = 41;
        shape.timed.laneBits = 10;
        shape.timed.seqBits = 12;
        change.accept(shape.timed);
        return shape.encode();
    }

    private static byte[] counter(long offset, long increment, long max) {
        RouteTable.Shape shape = new RouteTable.Shape();
        shape.counter = new RouteTable.CounterShape();
        shape.counter.offset = offset;
        shape.counter.increment = increment;
        shape.counter.maxId = max;
        return shape.encode();
    }

    @Test
    void countersOverlapIfAnIdCouldBeOfBoth() {
        for (int one = 1; one <= 6; one++) {
            for (int other = 1; other <= 6; other++) {
                for (int a = 1; a <= one; a++) {
                    for (int b = 1; b <= other; b++) {
                        Set<Integer> common = ids(a, one);
                        common.retainAll(ids(b, other));
                        assertEquals(!common.isEmpty(),
                                new Shape.Counter(a, one, 999).overlaps(new Shape.Counter(b, other, 999)));
                    }
                }
            }
        }
    }

    private static Set<Integer> ids(int offset, int increment) {
        Set<Integer> ids = new HashSet<>();
        for (int id = offset; id < 200; id += increment) {
            ids.add(id);
        }
        return ids;
    }

    /** Takes ids at different rates, with fetches that take time. */
    @Test
    void theBufferSkipsAtMostTwiceTheUsedIds() {
        for (long pause : new long[] {0, 1_000, 1_000_000, 100_000_000, 60_000_000_000L}) {
            IdBuffer buffer = new IdBuffer(10_000_000_000L, 0, Allocation.MAX_COUNT, 0);
            long now = 0;
            long last = 0;
            long next = 1;
            long given = 0;
            int pending = 0;
            int requests = 0;
            for (int i = 0; i < 20_000; i++) {
                IdBuffer.Taken taken = buffer.take(now);
                if (taken.id() != 0) {
                    assertTrue(taken.id() > last);
                    last = taken.id();
                    given++;
                }
                if (taken.fetch() > 0) {
                    assertEquals(0, pending, "two fetches are in flight");
                    pending = taken.fetch();
                    requests++;
                }
                now += pause;
                if (pending > 0 && (taken.id() == 0 || given % 3 == 0)) {
                    buffer.fetched(Ids.checked("a:1", response(1, next, pending), pending, 0), now);
                    next += pending;
                    pending = 0;
                }
                assertTrue(buffer.unused() <= 2 * given + 2, buffer.unused() + " unused ids for " + given + " used ones");
            }
            assertTrue(pause != 1_000 || requests <= 100, requests + " requests");
        }
    }

    @Test
    void theBufferDropsOldIdsAndPausesAfterFailures() {
        long second = 1_000_000_000;
        IdBuffer buffer = new IdBuffer(second, second, 10_000, 0);
        long now = 5;
        assertEquals(new IdBuffer.Taken(0, 1), buffer.take(now));
        buffer.fetched(Ids.checked("a:1", response(1, 5, 10), 10, 0), now);
        assertEquals(5, buffer.take(now).id());
        now += second + 1;
        IdBuffer.Taken old = buffer.take(now);
        assertEquals(0, old.id());
        assertTrue(old.fetch() > 0);
        assertEquals(9, buffer.unused());
        for (long millis : new long[] {100, 200, 400, 800, 1000, 1000}) {
            buffer.failed(now);
            now += millis * 1_000_000 - 1;
            assertEquals(0, buffer.take(now).fetch());
            now++;
            assertTrue(buffer.take(now).fetch() > 0, "no fetch after the pause of " + millis + " ms");
        }
    }
}
