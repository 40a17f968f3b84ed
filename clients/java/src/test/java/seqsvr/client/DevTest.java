package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.cluster.Eventually.eventually;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import seqsvr.client.cluster.Cluster;
import seqsvr.client.cluster.Dev;

/** Calls to a real cluster in one process, and to one whose uids are no doubles. */
class DevTest {
    private static Dev dev;
    private static SeqClient client;

    @BeforeAll
    static void start() throws Exception {
        dev = Dev.start();
        client = SeqClient.builder().seed(dev.allocs.get(0)).deadline(Fixtures.LONG).build();
    }

    @AfterAll
    static void stop() {
        client.close();
        dev.close();
    }

    @Test
    void eachMethodIsServed() {
        Allocation first = client.next(42);
        assertEquals(1, first.value());
        assertEquals(0, first.prev());
        assertTrue(first.epoch() > 0 && first.lost() == 0);
        Allocation many = client.next(42, Allocation.MAX_COUNT);
        assertEquals(List.of(2L, 1_000_001L, 1L), List.of(many.first(), many.value(), many.prev()));
        // Uids of all sections, one of them twice, and more than fit into a request.
        long[] uids = new long[10_001];
        for (int i = 0; i < uids.length; i++) {
            uids[i] = i * 97L % dev.uidEnd;
        }
        uids[10_000] = uids[0];
        List<Result<Allocation>> results = client.nextMany(uids);
        for (int i = 0; i < uids.length; i++) {
            assertEquals(1 + i / 10_000, results.get(i).value().value());
            assertEquals(i / 10_000, results.get(i).value().prev());
        }
        List<Result<Current>> current = client.currentMany(42, uids[0], uids[5], 7);
        long[] want = {1_000_001, 2, 1, 0};
        for (int i = 0; i < want.length; i++) {
            assertEquals(want[i], current.get(i).value().value());
            assertTrue(current.get(i).value().exact());
        }
        assertTrue(client.advance(7, 500) > 0);
        Allocation advanced = client.next(7);
        assertEquals(501, advanced.value());
        assertEquals(0, advanced.prev());
        SeqException past = fails(Kind.REFUSED, () -> client.advance(42, 5));
        assertEquals(Reasons.ALREADY_PAST, past.reason());
        assertEquals(Code.FAILED_PRECONDITION, past.code().orElseThrow());
        assertFalse(past.retryable());
        SeqException far = fails(Kind.REFUSED, () -> client.advance(7, 1L << 61));
        assertEquals(Reasons.ADVANCE_TOO_FAR, far.reason());
        assertTrue(far.bound() >= 1_000_000_000 && far.bound() < 1L << 61, () -> "" + far.bound());
        for (long uid : new long[] {dev.uidEnd, -1}) {
            fails(Kind.UID_OUTSIDE, () -> client.next(uid));
        }
        assertEquals(0, client.stats().budgetRefused());
    }

    @Test
    void callsOfManyThreadsShareMessages() throws Exception {
        int callers = 256;
        int calls = 20;
        long before = client.stats().messages();
        List<String> wrong = new ArrayList<>();
        CountDownLatch ended = new CountDownLatch(callers);
        for (int i = 0; i < callers; i++) {
            long start = 500_000 + i * 1000L;
            new Thread(() -> {
                for (int n = 0; n < calls; n++) {
                    Allocation got = client.next(start + n);
                    if (got.prev() + 1 != got.value() || got.lost() != 0) {
                        synchronized (wrong) {
                            wrong.add(got.toString());
                        }
                    }
                }
                ended.countDown();
            }).start();
        }
        ended.await();
        assertEquals(List.of(), wrong);
        long messages = client.stats().messages() - before;
        System.out.printf("coalescing: %d messages for %d calls%n", messages, callers * calls);
        assertTrue(messages > 0 && messages <= callers * calls / 2, messages + " messages");
    }

    @Test
    void idsOfEachSeriesAreTaken() {
        Series tweets = client.series("tweets");
        Series media = client.series("media");
        Series orders = client.series("orders");
        long id = tweets.next();
        long last = id;
        for (long next : tweets.after(id).take(3).stream().toArray()) {
            assertTrue(next > last);
            last = next;
        }
        Duration age = Duration.between(tweets.decode(id).time().orElseThrow(), Instant.now());
        assertTrue(age.abs().compareTo(Duration.ofHours(1)) < 0, age::toString);
        assertEquals(1341, media.decode(media.lane(1341).next()).lane());
        assertEquals(Reasons.LANE_REQUIRED, fails(Kind.REFUSED, media::next).reason());
        long first = orders.next();
        CurrentId current = orders.current();
        assertEquals(first, current.id());
        assertTrue(current.exact() && current.epoch() > 0);
        orders.advance(first + 100);
        assertTrue(orders.next() > first + 100);
        assertEquals(Reasons.NOT_A_COUNTER, fails(Kind.REFUSED, tweets::current).reason());
        assertTrue(tweets.shape() instanceof Shape.Timed && orders.shape() instanceof Shape.Counter);
        try (Segments segments = orders.segments(Duration.ofSeconds(1))) {
            TreeSet<Long> taken = new TreeSet<>();
            for (int i = 0; i < 100; i++) {
                long next = segments.next();
                assertTrue(taken.isEmpty() || next > taken.last());
                taken.add(next);
            }
        }
    }

    @Test
    void portsOfOtherServersAreNamed() {
        Map.of(dev.stores.get(0), "no seed responded", dev.http, "it is no AllocSvr").forEach((addr, text) -> {
            SeqException error = fails(Kind.CONNECT, () -> SeqClient.builder().seed(addr).build());
            assertTrue(error.getMessage().contains(text), error::getMessage);
        });
    }

    @Test
    void uidsThatAreNoDoubles() throws Exception {
        long uid = (1L << 53) + 1;
        long to = 900_000_001;
        try (Cluster cluster = Cluster.start(false, "", (1L << 53) - 1000)) {
            eventually("the cluster is open", () -> SeqClient.builder().seeds(cluster.seeds()).build().close());
            try (SeqClient own = SeqClient.builder().seeds(cluster.seeds()).deadline(Fixtures.LONG).build()) {
                // As doubles, these two uids are equal.
                own.nextMany(uid, uid - 1).forEach(Result::value);
                own.advance(uid, to);
                Allocation got = own.next(uid, 2);
                assertEquals(to + 1, got.first());
                List<Result<Current>> read = own.currentMany(uid, uid - 1);
                assertEquals(to + 2, read.get(0).value().value());
                assertTrue(read.get(0).value().exact() && read.get(1).value().value() < to);
                SeqException error = fails(Kind.REFUSED, () -> own.advance(uid, -1));
                assertFalse(error.retryable());
                assertEquals(uid, error.uid().getAsLong());
            }
        }
    }
}
