package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.Fixtures.join;
import static seqsvr.client.Fixtures.open;
import static seqsvr.client.Fixtures.refusals;
import static seqsvr.client.cluster.Eventually.eventually;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import seqsvr.client.fake.World;

class SeriesTest {
    @Test
    void idsAreTakenFromAnyNode() throws Exception {
        try (World world = new World(1, 2)) {
            world.addCounter("orders", 1, 10);
            try (SeqClient client = open(world)) {
                Series orders = client.series("orders");
                assertEquals(1, orders.next());
                assertEquals(List.of(11L, 21L, 31L), orders.take(3).stream().boxed().toList());
                assertTrue(orders.after(75).next() > 75);
                assertEquals(4, orders.decode(31).number());
                SeqException unknown = fails(Kind.REFUSED, () -> client.series("none").next());
                assertEquals(Reasons.UNKNOWN_SERIES, unknown.reason());
                assertTrue(unknown.uid().isEmpty() && !unknown.retryable());
                assertEquals(Reasons.NOT_AN_ID, fails(Kind.REFUSED, () -> orders.decode(32)).reason());
                assertEquals(Reasons.NOT_AN_ID, fails(Kind.REFUSED, () -> orders.after(-1).next()).reason());
                assertEquals(Reasons.NOT_AN_ID, fails(Kind.REFUSED, () -> orders.advance(0)).reason());
                // A series that the client does not know yet is found.
                world.addCounter("bills", 1, 1);
                eventually("a new series is found", () -> client.series("bills").next());
            }
        }
    }

    @Test
    void callsForIdsAreRetriedAtAnotherNode() throws Exception {
        try (World world = new World(2, 1)) {
            world.addCounter("orders", 1, 1);
            try (SeqClient client = open(world)) {
                Series orders = client.series("orders");
                orders.next();
                world.node(0, 0).refuse(refusals("LANE_AHEAD", 14, 1, 2));
                orders.next();
                world.node(0, 0).cut(1);
                long before = join(orders.nextAsync());
                world.node(0, 0).stop();
                assertTrue(orders.next() > before);
                assertFalse(world.node(1, 0).seen().isEmpty());
            }
        }
    }

    @Test
    void segmentsFetchAheadAndIncrease() throws Exception {
        try (World world = new World(1, 1)) {
            world.addCounter("orders", 1, 1);
            try (SeqClient client = open(world)) {
                Segments segments = client.series("orders").segments();
                assertEquals(OptionalLong.empty(), segments.tryNext());
                long last = 0;
                for (int i = 0; i < 2000; i++) {
                    long id = segments.next();
                    assertTrue(id > last);
                    last = id;
                }
                assertTrue(world.node(0, 0).seen().size() < 100);
                List<CompletableFuture<Long>> running = new ArrayList<>();
                IntStream.range(0, 400).forEach(i -> running.add(segments.nextAsync()));
                List<Long> more = running.stream().map(Fixtures::join).toList();
                assertEquals(400, more.stream().distinct().count());
                long highest = last;
                more.forEach(id -> assertTrue(id > highest));
                assertTrue(segments.unused() <= 2 * 2400 + 2);
                segments.close();
                assertEquals(OptionalLong.empty(), segments.tryNext());
                fails(Kind.CLOSED, segments::next);
            }
        }
    }

    @Test
    void segmentsReportAFailureAndGoOn() throws Exception {
        try (World world = new World(1, 1)) {
            world.addCounter("orders", 1, 1);
            SeqClient client = open(world);
            try (Segments segments = client.series("orders").segments(Duration.ofSeconds(1))) {
                world.node(0, 0).refuse(refusals("SERIES_ENDED", 11, 0, 1));
                assertEquals(Reasons.SERIES_ENDED, fails(Kind.REFUSED, segments::next).reason());
                assertEquals(1, segments.next());
                world.node(0, 0).hang(true);
                CompletableFuture<Long> waits = segments.nextAsync();
                for (int i = 0; i < 10 && waits.isDone(); i++) {
                    waits = segments.nextAsync();
                }
                eventually("a fetch is in flight", () -> assertTrue(world.node(0, 0).seen().size() >= 3));
                client.close();
                fails(Kind.CLOSED, waits);
                world.node(0, 0).hang(false);
            }
        }
    }

    @Test
    void ticketsGoOnWhileACounterIsDown() throws Exception {
        try (World one = new World(1, 1); World other = new World(1, 1)) {
            one.addCounter("photos.1", 1, 2);
            other.addCounter("photos.2", 2, 2);
            try (SeqClient first = open(one); SeqClient second = open(other)) {
                Series a = first.series("photos.1");
                Tickets tickets = Tickets.of(List.of(a, second.series("photos.2")));
                long last = takeTen(tickets, 0);
                assertTrue(one.node(0, 0).seen().size() >= 4 && other.node(0, 0).seen().size() >= 4);
                other.node(0, 0).stop();
                takeTen(tickets, last);
                // A refusal that a retry would not change is the error of the call.
                one.node(0, 0).refuse(refusals("SERIES_RETIRED", 9, 0, 1));
                assertEquals(Reasons.SERIES_RETIRED, fails(Kind.REFUSED, tickets::next).reason());
                assertEquals(Reasons.LANES_OVERLAP, fails(Kind.REFUSED, () -> Tickets.of(List.of(a, a))).reason());
                assertEquals(Reasons.UNKNOWN_SERIES, fails(Kind.REFUSED, () -> Tickets.of(List.of())).reason());
            }
        }
    }

    private static long takeTen(Tickets tickets, long after) {
        long last = after;
        for (int i = 0; i < 10; i++) {
            long id = tickets.next();
            assertTrue(id > last, id + " after " + last);
            last = id;
        }
        return last;
    }

    @Test
    void ticketsRaiseACounterThatIsFarBehind() throws Exception {
        try (World world = new World(1, 1)) {
            world.addCounter("a", 1, 2);
            world.addCounter("b", 2, 2);
            try (SeqClient client = open(world)) {
                Series a = client.series("a");
                Tickets tickets = Tickets.of(List.of(a, client.series("b")));
                a.take(900);
                a.take(900);
                assertTrue(takeTen(tickets, 0) > 1800);
            }
        }
    }
}
