package seqsvr.client;

import java.util.List;
import java.util.stream.LongStream;
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
