package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.Fixtures.join;
import static seqsvr.client.Fixtures.open;
import static seqsvr.client.Fixtures.openAlone;
import static seqsvr.client.Fixtures.refusals;
import static seqsvr.client.Fixtures.settings;
import static seqsvr.client.cluster.Eventually.eventually;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import seqsvr.client.fake.FakeNode;
import seqsvr.client.fake.Refusal;
import seqsvr.client.fake.World;

class RetriesTest {
    @Test
    void backoffDoublesIsJitteredAndIsNeverShorterThanRequested() {
        double[][] cases = {{1, 0, 0, 10}, {2, 0, 0, 20}, {3, 0, 0, 40}, {7, 0, 0, 500}, {90, 0, 0, 500}, {0, 0, 0, 10},
            {2, 0, 1, 10}, {1, 100, 0, 100}, {1, 100, 1, 150}, {20, 100, 0, 500}};
        for (double[] test : cases) {
            assertEquals(test[3], Attempts.backoff((int) test[0], (long) test[1], test[2]));
        }
    }

    @Test
    void retryableRefusalsAreRetriedAndOthersAreNot() throws Exception {
        try (World world = new World(1, 1); SeqClient client = openAlone(world)) {
            FakeNode node = world.node(0, 0);
            node.refuse(refusals("UNSERVED", 14, 1, 3));
            assertEquals(new Allocation(1, 0, 1, 1, 0), client.next(1));
            assertEquals(4, node.seen().size());
            node.refuse(new Refusal("ALREADY_PAST", 9, 0));
            SeqException past = fails(Kind.REFUSED, () -> client.advance(1, 5));
            assertEquals("uid 1: refused: ALREADY_PAST", past.getMessage());
            assertEquals(Reasons.ALREADY_PAST, past.reason());
            assertEquals(Code.FAILED_PRECONDITION, past.code().orElseThrow());
            assertEquals(1, past.attempts());
            assertFalse(past.retryable() || past.mayHaveApplied());
            // An unknown reason is judged by its hint and its code.
            node.refuse(new Refusal("OF_A_LATER_RELEASE", 8, 1));
            node.refuse(new Refusal("OF_A_LATER_RELEASE", 14, 0));
            client.next(1);
            node.refuse(new Refusal("OF_A_LATER_RELEASE", 8, 0));
            fails(Kind.REFUSED, () -> client.next(1));
        }
    }

    @Test
    void refusalsWithUnknownOutcomeCountAsLost() throws Exception {
        for (boolean coalesces : new boolean[] {false, true}) {
            try (World world = new World(1, 2); SeqClient client = settings(world).coalescing(coalesces).build()) {
                FakeNode node = world.node(0, 0);
                node.refuse(new Refusal("OWNER_TIMED_OUT", 4, 1));
                assertEquals(1, client.next(1).lost());
                assertTrue(client.core().pool.isSuspect(node.addr()), "the owner that a node could not reach is suspect");
                eventually("the owner recovers", () -> assertFalse(client.core().pool.isSuspect(node.addr())));
                // A server that ended the attempt has not stated whether it was applied.
                node.refuse(new Refusal("", 4, 0));
                assertTrue(client.current(1).value() > 0);
                // A refusal without a reason is not of the service itself.
                node.refuse(new Refusal("", 13, 0));
                SeqException error = fails(Kind.REFUSED, () -> client.next(1));
                assertEquals(Reasons.REFUSED_BY_OTHERS, error.reason());
                assertTrue(error.mayHaveApplied() && !error.retryable());
                // A read changes nothing, so nothing is lost.
                node.refuse(new Refusal("", 13, 0));
                assertFalse(fails(Kind.REFUSED, () -> client.current(1)).mayHaveApplied());
            }
        }
    }

    @Test
    void aLostResponseIsCounted() throws Exception {
        for (boolean coalesces : new boolean[] {false, true}) {
            try (World world = new World(1, 2); SeqClient client = settings(world).coalescing(coalesces).build()) {
                FakeNode node = world.node(0, 0);
                Allocation before = client.next(1);
                node.cut(1);
                Allocation got = client.next(1);
                assertEquals(1, got.lost());
                assertEquals(before.value() + 2, got.value());
            }
        }
    }

    @Test
    void aNodeThatIsDownIsReplacedByAnother() throws Exception {
        try (World world = new World(1, 2);
                SeqClient client = SeqClient.builder().seed(world.node(0, 0).addr()).seed(world.node(0, 1).addr())
                        .deadline(Fixtures.LONG).build()) {
            client.next(1);
            world.node(0, 0).stop();
            // The other node forwards.
            assertTrue(client.next(1).lost() <= 1);
            assertEquals(2, client.current(1).value());
            world.node(0, 0).restart();
            eventually("the owner is used again", () -> {
                int before = world.node(0, 0).seen().size();
                client.next(1);
                assertTrue(world.node(0, 0).seen().size() > before);
            });
        }
    }

    @Test
    void nothingIsLostAtANodeThatDoesNotRespondToAProbe() throws Exception {
        try (World world = new World(1, 2); SeqClient client = open(world)) {
            // The node hangs before the client has a connection to it.
            world.node(0, 1).hang(true);
            Allocation got = client.next(25);
            assertEquals(0, got.lost());
            assertEquals(List.of(), world.node(0, 1).seen());
            world.node(0, 1).hang(false);
        }
    }

    @Test
    void aNodeThatHangsIsFoundByPings() throws Exception {
        for (boolean coalesces : new boolean[] {false, true}) {
            // A third of the deadline would be 20 s.
            try (World world = new World(1, 2); SeqClient client = settings(world).coalescing(coalesces).build()) {
                FakeNode node = world.node(0, 0);
                client.next(1);
                node.hang(true);
                long start = System.nanoTime();
                Allocation got = client.next(1);
                assertEquals(1, got.lost());
                assertTrue(System.nanoTime() - start < Fixtures.LONG.toNanos() / 3, "the attempt used up its time");
                assertTrue(client.core().pool.isSuspect(node.addr()));
                node.hang(false);
            }
        }
    }

    @Test
    void anAttemptAtANodeThatHangsEndsBeforeTheDeadline() throws Exception {
        for (boolean coalesces : new boolean[] {false, true}) {
            try (World world = new World(1, 2); SeqClient client = settings(world).coalescing(coalesces).build()) {
                client.next(1);
                world.node(0, 0).hang(true);
                // The attempt ends after a second, which is before a ping fails.
                assertEquals(1, client.withDeadline(Duration.ofMillis(2500)).next(1).lost());
                world.node(0, 0).hang(false);
            }
        }
    }

    @Test
    void theDeadlineEndsACall() throws Exception {
        for (boolean coalesces : new boolean[] {false, true}) {
            try (World world = new World(1, 1); SeqClient client = settings(world).coalescing(coalesces).build()) {
                client.next(1);
                world.node(0, 0).hang(true);
                SeqException error = fails(Kind.DEADLINE, () -> client.withDeadline(Duration.ofMillis(200)).next(1));
                assertTrue(error.mayHaveApplied() && error.retryable() && error.attempts() > 0);
                assertEquals(Reasons.DEADLINE_EXCEEDED, error.reason());
                world.node(0, 0).hang(false);
                client.next(1);
                fails(Kind.DEADLINE, () -> client.withDeadline(Duration.ZERO).next(1));
                // With too little time for another attempt, the call has the refusal that it got.
                world.node(0, 0).refuse(new Refusal("UNSERVED", 14, 60_000));
                SeqException refused = fails(Kind.REFUSED, () -> client.withDeadline(Duration.ofSeconds(30)).next(1));
                assertEquals(Duration.ofMinutes(1), refused.retryAfter());
                assertTrue(refused.retryable());
            }
        }
    }

    @Test
    void aCancelledCallEnds() throws Exception {
        for (boolean coalesces : new boolean[] {false, true}) {
            try (World world = new World(1, 1); SeqClient client = settings(world).coalescing(coalesces).build()) {
                FakeNode node = world.node(0, 0);
                client.next(1);
                node.hang(true);
                CompletableFuture<Allocation> future = client.nextAsync(1);
                eventually("the request is sent", () -> assertEquals(2, node.seen().size()));
                future.cancel(true);
                eventually("the call ends", () -> assertTrue(client.core().active.isEmpty()));
                // A thread that is interrupted gets an error, and stays interrupted.
                AtomicReference<SeqException> error = new AtomicReference<>();
                AtomicReference<Boolean> isInterrupted = new AtomicReference<>();
                Thread thread = new Thread(() -> {
                    error.set(fails(Kind.CANCELLED, () -> client.next(1)));
                    isInterrupted.set(Thread.currentThread().isInterrupted());
                });
                thread.start();
                eventually("the request is sent", () -> assertEquals(3, node.seen().size()));
                thread.interrupt();
                thread.join();
                assertTrue(error.get().mayHaveApplied() && isInterrupted.get());
                node.hang(false);
                client.next(1);
            }
        }
    }

    @Test
    void theBudgetLimitsRetries() throws Exception {
        int calls = 300;
        AtomicInteger refused = new AtomicInteger();
        Observer observer = new Observer() {
            @Override
            public void budgetRefused(Object context, String set) {
                refused.incrementAndGet();
            }
        };
        try (World world = new World(1, 1);
                SeqClient client = settings(world).coalescing(false).observer(observer).build()) {
            world.node(0, 0).refuseAll(new Refusal("OUT_OF_MEMORY", 8, 1));
            long began = System.nanoTime();
            List<CompletableFuture<Allocation>> running = new ArrayList<>();
            for (int i = 0; i < calls; i++) {
                running.add(client.nextAsync(1));
            }
            // The last calls could go on for long with the retries that each second adds.
            eventually("the budget is exhausted", () -> assertTrue(refused.get() > calls / 2));
            client.close();
            int failed = 0;
            for (CompletableFuture<Allocation> call : running) {
                try {
                    call.join();
                } catch (CompletionException e) {
                    failed++;
                }
            }
            assertEquals(calls, failed);
            // The budget of a new client, a fifth of the calls, and ten each second.
            double most = 1000 + calls / 5.0 + 10 * (System.nanoTime() - began) / 1e9 + 1;
            Stats stats = client.stats();
            assertTrue(stats.retries() <= most, () -> stats + ", " + most + " retries allowed");
            assertTrue(stats.attempts() <= calls + stats.retries(), stats::toString);
            assertEquals(refused.get(), stats.budgetRefused());
        }
    }

    @Test
    void aMoveIsFollowedWithoutBudgetOnlyIfItIsNewer() throws Exception {
        try (World world = new World(2, 1); SeqClient client = openAlone(world)) {
            world.node(0, 0).isolate(true);
            client.next(1);
            // A statement that is not newer than the route of the request is retried as any refusal.
            world.node(0, 0).refuse(new Refusal("MOVED", 14, 1, world.setId(1), 1L));
            client.next(1);
            assertEquals(1, client.stats().retries());
            world.move(1, 1, 0);
            Allocation got = client.next(1);
            assertEquals(2, got.epoch());
            assertEquals(0, got.lost());
            assertEquals(1, client.stats().retries(), "the move was charged");
            assertEquals(4, world.node(0, 0).seen().size());
        }
    }

    @Test
    void movesThatACallFollowsAreBounded() throws Exception {
        try (World world = new World(2, 1); SeqClient client = openAlone(world)) {
            // Each node states a newer move to the other one.
            int moves = Retries.MAX_FOLLOWED + 3;
            for (int hop = 0; hop < moves; hop++) {
                world.node(hop % 2, 0).refuse(new Refusal("MOVED", 14, 1, world.setId(1 - hop % 2), 2L + hop));
            }
            client.next(1);
            assertEquals(moves - Retries.MAX_FOLLOWED, client.stats().retries());
        }
    }

    @Test
    void aSetThatIsDownFailsItsOwnCallsOnly() throws Exception {
        try (World world = new World(2, 1); SeqClient client = open(world)) {
            client.nextMany(1, 25);
            world.node(1, 0).stop();
            List<Result<Allocation>> results = client.nextMany(1, 25, 2);
            assertTrue(results.get(0).isOk() && results.get(2).isOk());
            SeqException error = results.get(1).error().orElseThrow();
            assertEquals(Kind.SET_UNAVAILABLE, error.kind());
            assertEquals(world.setId(1), error.setId());
            assertEquals("set-1", error.setName());
            assertTrue(error.retryable());
            assertTrue(error.getMessage().startsWith(
                    "uid 25: the section is in set \"set-1\", of which no node can be reached"), error::getMessage);
            // The section moves to the set that is up, whose routes are fetched.
            world.move(25, 0, 0);
            eventually("the section is found in its new set", () -> client.next(25));
        }
    }

    @Test
    void theFailureOfAMessageEndsEachOfItsCalls() throws Exception {
        try (World world = new World(1, 2);
                SeqClient client = SeqClient.builder().seed(world.node(0, 0).addr()).seed(world.node(0, 1).addr())
                        .deadline(Fixtures.LONG).build()) {
            client.next(1);
            world.node(0, 0).hang(true);
            int callers = 300;
            List<CompletableFuture<Allocation>> running = new ArrayList<>();
            for (int i = 0; i < callers; i++) {
                running.add(client.nextAsync(i % 20));
            }
            eventually("all callers wait", () -> {
                assertEquals(callers, client.stats().pending());
                assertTrue(world.node(0, 0).seen().size() > 1);
            });
            world.node(0, 0).stop();
            int lost = 0;
            for (CompletableFuture<Allocation> call : running) {
                lost += join(call).lost();
            }
            // The messages that the node held were sent, and calls that were not sent in any message are not lost.
            assertTrue(lost > 0 && lost <= callers, lost + " lost attempts");
            assertEquals(0, client.stats().pending());
        }
    }
}
