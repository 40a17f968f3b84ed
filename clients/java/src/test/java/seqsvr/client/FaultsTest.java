package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import seqsvr.client.cluster.Cluster;
import seqsvr.client.cluster.Eventually;
import seqsvr.client.cluster.Load;

/**
 * Faults of real nodes under load, without TLS over HTTP/1.1, and with TLS over HTTP/2. No call may fail with the default
 * deadline, and the order of all numbers is checked.
 */
class FaultsTest {
    static final long[] ONE_OF_EACH_SECTION =
            LongStream.iterate(0, uid -> uid < Cluster.UIDS, uid -> uid + Cluster.SECTION_SIZE).toArray();

    static SeqClient.Builder settings(Cluster cluster, boolean isSecure) {
        SeqClient.Builder builder = SeqClient.builder().seeds(cluster.seeds());
        return isSecure ? builder.tls(cluster.tls()) : builder;
    }

    /** Opens a client once each section is served. */
    static SeqClient open(Cluster cluster, boolean isSecure) {
        Eventually.eventually("each section is served", () -> {
            try (SeqClient client = settings(cluster, isSecure).build()) {
                client.currentMany(ONE_OF_EACH_SECTION).forEach(Result::value);
            }
        });
        return settings(cluster, isSecure).build();
    }

    private static void awaitNode(Cluster cluster, boolean isSecure, int node) {
        Eventually.eventually("the node responds again", () -> {
            SeqClient.Builder again = SeqClient.builder().seed(cluster.seeds().get(node));
            (isSecure ? again.tls(cluster.tls()) : again).build().close();
        });
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anOwnerIsKilledUnderLoad(boolean isSecure) throws Exception {
        try (Cluster cluster = Cluster.start(isSecure, "", 0); SeqClient client = open(cluster, isSecure);
                Load load = new Load(client, ONE_OF_EACH_SECTION, 8)) {
            for (String name : List.of("a1", "a2")) {
                load.awaitMore("each section is served", 5);
                cluster.node(name).kill();
                // The sections of the owner that was killed are taken over by the other one.
                load.awaitMore("each section is served after " + name + " was killed", 5);
                cluster.startNode(name);
                awaitNode(cluster, isSecure, name.equals("a1") ? 0 : 1);
            }
            load.check("SIGKILL of each owner" + (isSecure ? ", TLS" : ""));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anOwnerHangsUnderLoad(boolean isSecure) throws Exception {
        try (Cluster cluster = Cluster.start(isSecure, "", 0); SeqClient client = open(cluster, isSecure);
                Load load = new Load(client, ONE_OF_EACH_SECTION, 8)) {
            load.awaitMore("each section is served", 5);
            cluster.node("a1").signal("STOP");
            load.awaitMore("each section is served while a1 hangs", 5);
            cluster.node("a1").signal("CONT");
            load.awaitMore("each section is served after a1 continued", 50);
            load.check("SIGSTOP of an owner" + (isSecure ? ", TLS" : ""));
        }
    }

    /** The items of a message wait for each other, so one that has to wait leaves its message. */
    @Test
    void aSectionWhoseCeilingIsNotRaisedHoldsUpNoOther() throws Exception {
        AtomicInteger retries = new AtomicInteger();
        AtomicInteger retriesBefore = new AtomicInteger(-1);
        Observer observer = new Observer() {
            @Override
            public void attemptStarted(Object context, Attempt attempt) {
                if (attempt.number() == 2) {
                    retriesBefore.compareAndSet(-1, retries.get());
                }
            }

            @Override
            public void retried(Object context, Retry retry) {
                retries.incrementAndGet();
            }
        };
        try (Cluster cluster = Cluster.start(false, "", 0); SeqClient opened = open(cluster, false);
                SeqClient client = settings(cluster, false).deadline(Fixtures.LONG).observer(observer).build()) {
            for (long uid : ONE_OF_EACH_SECTION) {
                client.next(uid);
            }
            // Without its store an owner raises no ceiling, which is 1,000 numbers away, but serves on while its lease lasts.
            cluster.node("s1").signal("STOP");
            List<CompletableFuture<Allocation>> stalled = new ArrayList<>();
            List<CompletableFuture<Allocation>> others = new ArrayList<>();
            for (int i = 0; i < 6; i++) {
                stalled.add(client.nextAsync(0, 900));
            }
            for (int i = 1; i < ONE_OF_EACH_SECTION.length; i++) {
                others.add(client.nextAsync(ONE_OF_EACH_SECTION[i]));
            }
            for (CompletableFuture<Allocation> call : others) {
                assertEquals(0, Fixtures.join(call).lost());
            }
            assertTrue(stalled.stream().anyMatch(call -> !call.isDone()), "no call waits for a ceiling");
            // The calls that wait were sent again, which is no retry: their first message had ended before any refusal.
            Eventually.eventually("a call goes on alone", () -> assertTrue(retriesBefore.get() >= 0));
            assertEquals(0, retriesBefore.get());
            cluster.node("s1").signal("CONT");
            for (CompletableFuture<Allocation> call : stalled) {
                assertEquals(0, Fixtures.join(call).lost());
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void anOrderlyRestartFailsNoCall(boolean isSecure) throws Exception {
        try (Cluster cluster = Cluster.start(isSecure, "", 0); SeqClient client = open(cluster, isSecure);
                Load load = new Load(client, ONE_OF_EACH_SECTION, 8)) {
            load.awaitMore("each section is served", 5);
            cluster.node("a2").terminate();
            cluster.startNode("a2");
            load.awaitMore("each section is served after the restart", 50);
            load.check("orderly restart" + (isSecure ? ", TLS" : ""));
        }
    }
}
