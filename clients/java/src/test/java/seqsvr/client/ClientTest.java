package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.Fixtures.join;
import static seqsvr.client.Fixtures.open;
import static seqsvr.client.Fixtures.openAlone;
import static seqsvr.client.Fixtures.settings;
import static seqsvr.client.cluster.Eventually.eventually;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import seqsvr.client.fake.FakeNode;
import seqsvr.client.fake.Refusal;
import seqsvr.client.fake.World;
import seqsvr.client.internal.wire.Sequence;

class ClientTest {
    @Test
    void eachMethodIsServedByTheOwner() throws Exception {
        try (World world = new World(1, 2); SeqClient client = open(world)) {
            assertEquals(new Allocation(1, 0, 1, 1, 0), client.next(25));
            Allocation three = client.next(25, 3);
            assertEquals(new Allocation(4, 1, 1, 3, 0), three);
            assertEquals(List.of(2L, 3L, 4L), three.numbers().boxed().toList());
            assertEquals(new Current(4, true, 1), client.current(25));
            assertEquals(1, client.advance(25, (1L << 62) - 1));
            assertEquals((1L << 62) - 1, join(client.currentAsync(25)).value());
            assertEquals(1L << 62, join(client.nextAsync(25)).value());
            assertEquals(List.of(), world.node(0, 0).seen());
            assertEquals(List.of("NextMany", "NextMany", "Current", "Advance", "Current", "NextMany"),
                    world.node(0, 1).methods());
            // The node was asked once whether it responds, before the first request.
            assertEquals(1, world.node(0, 1).probes());
        }
    }

    @Test
    void numbersAreExactTo64Bits() throws Exception {
        try (World world = new World(1, 1); SeqClient client = openAlone(world)) {
            for (long to : new long[] {(1L << 53) + 1, (1L << 62) - 1, Long.MAX_VALUE - 1}) {
                client.advance(1, to);
                assertEquals(to + 1, client.next(1).value());
                assertEquals(to + 1, client.current(1).value());
            }
            fails(Kind.BAD_ANSWER, () -> client.next(1));
        }
    }

    @Test
    void headersNameTheClient() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            client.current(1);
            assertEquals("java/" + SeqClient.VERSION, world.node(0, 0).header().getFirst("seqsvr-client"));
            assertEquals("application/proto", world.node(0, 0).header().getFirst("content-type"));
            assertNull(world.node(0, 0).header().getFirst("authorization"));
            long timeout = Long.parseLong(world.node(0, 0).header().getFirst("connect-timeout-ms"));
            assertTrue(timeout > 0 && timeout <= Fixtures.LONG.toMillis());
        }
    }

    @Test
    void invalidArgumentsAreRefusedBeforeAnythingIsSent() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            fails(Kind.COUNT, () -> client.next(1, 0));
            fails(Kind.COUNT, () -> client.next(1, -1));
            SeqException many = fails(Kind.COUNT,
                    () -> client.nextMany(List.of(new Item(1, 1), new Item(2, Allocation.MAX_COUNT + 1))));
            assertEquals(2, many.uid().getAsLong());
            assertEquals(Reasons.COUNT_OUT_OF_RANGE, many.reason());
            fails(Kind.COUNT, () -> client.series("s").take(0));
            for (long uid : new long[] {20, -1}) {
                SeqException outside = fails(Kind.UID_OUTSIDE, () -> client.next(uid));
                assertEquals(uid, outside.uid().getAsLong());
                assertTrue(outside.getMessage().startsWith("uid " + Long.toUnsignedString(uid)));
                assertFalse(outside.retryable());
            }
            assertEquals(List.of(), client.nextMany());
            assertEquals(List.of(), world.node(0, 0).seen());
        }
    }

    @Test
    void anErrorHasTheStackOfItsCaller() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            SeqException error = fails(Kind.UID_OUTSIDE, () -> client.next(999));
            List<String> methods = Arrays.stream(error.getStackTrace()).map(StackTraceElement::getClassName).toList();
            assertTrue(methods.contains(ClientTest.class.getName()), methods::toString);
            Result<Allocation> item = client.nextMany(1, 999).get(1);
            SeqException thrown = fails(Kind.UID_OUTSIDE, item::value);
            assertEquals(item.error().orElseThrow().getMessage(), thrown.getMessage());
            assertTrue(thrown.getStackTrace().length > 0);
        }
    }

    @Test
    void newerRoutesAreAdoptedFromResponses() throws Exception {
        List<Long> adopted = Collections.synchronizedList(new ArrayList<>());
        Observer observer = new Observer() {
            @Override
            public void routesAdopted(String set, long version) {
                adopted.add(version);
            }
        };
        try (World world = new World(1, 2); SeqClient client = settings(world).observer(observer).build()) {
            client.next(5);
            world.move(5, 0, 1);
            // The former owner forwards, and its response has newer routes.
            Allocation got = client.next(5);
            assertEquals(2, got.value());
            assertEquals(2, got.epoch());
            int before = world.node(0, 0).seen().size();
            assertEquals(3, client.next(5).value());
            assertEquals(before, world.node(0, 0).seen().size());
            assertEquals(List.of("NextMany"), world.node(0, 1).methods());
            assertEquals(List.of(1L, 2L), adopted);
            Stats stats = client.stats();
            assertEquals(2, stats.routeAdoptions());
            assertEquals(3, stats.calls());
            assertEquals(0, stats.retries());
        }
    }

    @Test
    void concurrentCallsShareMessages() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            client.next(0);
            FakeNode node = world.node(0, 0);
            // While the node hangs, the messages in flight reach their limit, and further calls gather.
            node.hang(true);
            int callers = 256;
            int calls = 8;
            List<CompletableFuture<List<Long>>> running = new ArrayList<>();
            for (int i = 0; i < callers; i++) {
                running.add(calls(client, i % 20, calls, new ArrayList<>()));
            }
            eventually("all callers wait", () -> assertEquals(callers, client.stats().pending()));
            node.hang(false);
            Set<String> seen = new HashSet<>();
            for (int i = 0; i < callers; i++) {
                List<Long> values = join(running.get(i));
                assertEquals(values.stream().sorted().toList(), values);
                for (long value : values) {
                    seen.add(i % 20 + "/" + value);
                }
            }
            assertEquals(callers * calls, seen.size());
            assertTrue(node.seen().size() < callers * calls / 2, () -> node.seen().size() + " messages");
            assertEquals(0, client.stats().pending());
            assertEquals(node.seen().size(), client.stats().messages());
        }
    }

    private static CompletableFuture<List<Long>> calls(SeqClient client, long uid, int left, List<Long> values) {
        if (left == 0) {
            return CompletableFuture.completedFuture(values);
        }
        return client.nextAsync(uid).thenCompose(got -> {
            values.add(got.value());
            return calls(client, uid, left - 1, values);
        });
    }

    @Test
    void withoutCoalescingEachCallIsARequest() throws Exception {
        try (World world = new World(1, 1); SeqClient client = openAlone(world)) {
            client.next(1);
            assertEquals(List.of("Next"), world.node(0, 0).methods());
            assertEquals(0, client.stats().messages());
        }
    }

    @Test
    void anItemThatHadToWaitIsSentAlone() throws Exception {
        try (World world = new World(1, 1); SeqClient client = open(world)) {
            FakeNode node = world.node(0, 0);
            // So a node refuses an item whose ceiling was not raised within the short timeout of a message.
            node.refuse(new Refusal("CEILING_STALLED", 4, 0));
            assertEquals(0, client.next(1).lost());
            assertEquals(List.of("NextMany", "Next"), node.methods());
            assertEquals(0, client.stats().retries());
            long timeout = Long.parseLong(node.header().getFirst("connect-timeout-ms"));
            assertTrue(timeout > 10_000, "the request of its own has the time of the call");
            // The call succeeded, so the next ones share messages again; while it waits, others are sent alone.
            client.next(1);
            node.refuse(List.of(new Refusal("CEILING_STALLED", 4, 0), new Refusal("CEILING_STALLED", 8, 0)));
            fails(Kind.REFUSED, () -> client.next(1));
            client.next(2);
            client.next(11);
            client.next(1);
            assertEquals(List.of("NextMany", "NextMany", "Next", "Next", "NextMany", "NextMany"), node.methods().subList(2, 8));
        }
    }

    @Test
    void aClosedClientEndsItsCalls() throws Exception {
        try (World world = new World(1, 1)) {
            SeqClient client = openAlone(world);
            SeqClient sharing = open(world);
            FakeNode node = world.node(0, 0);
            client.current(1);
            sharing.current(1);
            node.hang(true);
            List<CompletableFuture<?>> calls = List.of(client.nextAsync(1), client.nextManyAsync(1, 2), sharing.nextAsync(1));
            eventually("the requests are sent", () -> assertEquals(5, node.seen().size()));
            client.close();
            sharing.close();
            for (CompletableFuture<?> call : calls) {
                SeqException error = fails(Kind.CLOSED, call);
                assertTrue(error.mayHaveApplied());
                assertFalse(error.retryable());
            }
            client.close();
            assertFalse(fails(Kind.CLOSED, () -> client.next(1)).mayHaveApplied());
            node.hang(false);
        }
    }

    @Test
    void aShutdownLetsCallsComplete() throws Exception {
        try (World world = new World(1, 1)) {
            FakeNode node = world.node(0, 0);
            SeqClient client = open(world);
            client.current(1);
            node.hang(true);
            CompletableFuture<Allocation> call = client.nextAsync(1);
            eventually("the request is sent", () -> assertEquals(2, node.seen().size()));
            CompletableFuture<Boolean> ended = CompletableFuture.supplyAsync(() -> client.shutdown(Fixtures.LONG));
            eventually("the shutdown begins", () -> assertTrue(client.core().isClosing));
            fails(Kind.CLOSED, () -> client.current(1));
            node.hang(false);
            assertEquals(1, join(call).value());
            assertTrue(join(ended));

            SeqClient hung = open(world);
            hung.current(1);
            node.hang(true);
            CompletableFuture<Allocation> lost = hung.nextAsync(1);
            eventually("the request is sent", () -> assertEquals(4, node.seen().size()));
            assertFalse(hung.shutdown(Duration.ofMillis(10)));
            fails(Kind.CLOSED, lost);
            node.hang(false);
        }
    }

    @Test
    void nothingOutlivesAClient() throws Exception {
        try (World world = new World(2, 2)) {
            Set<Thread> before = Thread.getAllStackTraces().keySet();
            for (int i = 0; i < 20; i++) {
                SeqClient client = open(world);
                client.next(1);
                client.nextMany(1, 25, 45, 65);
                client.close();
            }
            // Before JDK 21 the connections end when the garbage collector has found the clients.
            eventually("the threads of the clients end", () -> {
                System.gc();
                List<String> left = Thread.getAllStackTraces().keySet().stream().filter(thread -> !before.contains(thread))
                        .map(Thread::getName).filter(name -> name.startsWith("HttpClient-") || name.startsWith("seqsvr-"))
                        .toList();
                assertEquals(List.of(), left);
            });
        }
    }

    @Test
    void eachEventIsObserved() throws Exception {
        List<String> events = Collections.synchronizedList(new ArrayList<>());
        Observer observer = new Recorder(events);
        try (World world = new World(1, 1)) {
            SeqClient client = settings(world).coalescing(false).observer(observer).build();
            world.node(0, 0).refuse(new Refusal("CEILING_STALLED", 14, 1));
            client.next(1);
            fails(Kind.UID_OUTSIDE, () -> client.next(99));
            client.close();
        }
        assertEquals(List.of("start Next", "attempt 1 at set-0", "attempt refused CEILING_STALLED", "retry CEILING_STALLED",
                "attempt 2 at set-0", "attempt ok ", "end span ok ", "start Next", "end span uid_outside UID_OUTSIDE"), events);
    }

    private record Recorder(List<String> events) implements Observer {
        @Override
        public Object callStarted(Call call) {
            events.add("start " + call.method());
            return "span";
        }

        @Override
        public void callEnded(Object context, Call call, CallEnd end) {
            events.add("end " + context + " " + end.outcome().label() + " " + end.outcome().reason());
            throw new IllegalStateException("a failure of an observer has no effect");
        }

        @Override
        public void attemptStarted(Object context, Attempt attempt) {
            events.add("attempt " + attempt.number() + " at " + attempt.set());
        }

        @Override
        public void attemptEnded(Object context, Attempt attempt, AttemptEnd end) {
            events.add("attempt " + end.outcome().label() + " " + end.outcome().reason());
        }

        @Override
        public void retried(Object context, Retry retry) {
            events.add("retry " + retry.reason());
        }
    }

    @Test
    void responsesThatDoNotFitAreRefused() throws Exception {
        try (World world = new World(1, 1); SeqClient alone = openAlone(world); SeqClient sharing = open(world)) {
            FakeNode node = world.node(0, 0);
            Map<String, Consumer<Sequence.NextResponse>> alones = Map.of(
                    "below the count", m -> set(m, 1, 0),
                    "not above prev", m -> set(m, 10, 9),
                    "prev above value", m -> set(m, 10, -1),
                    "above the last seq", m -> set(m, Long.MIN_VALUE, 0),
                    "no number", m -> set(m, 0, 0));
            alones.forEach((name, change) -> {
                node.change(m -> change.accept((Sequence.NextResponse) m));
                SeqException error = fails(Kind.BAD_ANSWER, () -> alone.next(1, 2));
                assertEquals(node.addr(), error.address());
                assertTrue(error.mayHaveApplied(), name);
            });
            Map<String, Consumer<Sequence.NextManyResponse>> shared = Map.of(
                    "another length", m -> m.prevs = new long[0],
                    "an unknown item", m -> m.errors.add(item(1)),
                    "items in no order", m -> m.errors.addAll(List.of(item(0), item(0))),
                    "a value of 0", m -> m.values[0] = 0,
                    "lost without counts", m -> {
                        m.lost = new Sequence.LostAttempts();
                        m.lost.indexes = new int[] {0};
                    });
            shared.forEach((name, change) -> {
                node.change(m -> change.accept((Sequence.NextManyResponse) m));
                fails(Kind.BAD_ANSWER, () -> sharing.next(1, 2));
            });
            node.change(m -> ((Sequence.CurrentResponse) m).exactness = 7);
            fails(Kind.BAD_ANSWER, () -> alone.current(1));
            node.change(m -> ((Sequence.NextManyResponse) m).errors.add(item(9)));
            fails(Kind.BAD_ANSWER, () -> alone.nextMany(1, 2));
            node.change(null);
            sharing.next(1, 2);
        }
    }

    private static void set(Sequence.NextResponse response, long value, long prev) {
        response.value = value;
        response.prev = prev;
    }

    private static Sequence.ItemError item(int index) {
        Sequence.ItemError item = new Sequence.ItemError();
        item.index = index;
        return item;
    }
}
