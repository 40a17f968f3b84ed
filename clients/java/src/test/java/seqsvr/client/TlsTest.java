package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.cluster.Eventually.eventually;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import seqsvr.client.cluster.Cluster;
import seqsvr.client.cluster.Forward;
import seqsvr.client.cluster.Load;
import seqsvr.client.cluster.Servers;
import seqsvr.client.internal.json.Json;

/** Certificates and tokens, at real nodes with TLS. */
class TlsTest {
    @TempDir
    Path other;

    /** Returns the error of opening a client, or of its first call. */
    private static SeqException refused(SeqClient.Builder builder) {
        try (SeqClient client = builder.deadline(Duration.ofSeconds(5)).build()) {
            client.next(1);
        } catch (SeqException e) {
            return e;
        }
        throw new AssertionError("a call is served");
    }

    private static void says(String text, SeqException error) {
        assertTrue(error.getMessage().contains(text), () -> error.getMessage() + " lacks " + text);
    }

    @Test
    void certificatesAndTokens() throws Exception {
        Map<String, Object> made =
                Json.object(Json.parse(Servers.run(Map.of(), "tenant", "token", "push", "-o", "json")));
        String tenants = "[[tenant]]\nname = \"push\"\nuids = [\"0..1000\"]\ntokens = [\"" + made.get("hash") + "\"]\n\n"
                + "[[tenant]]\nname = \"chat\"\nuids = [\"0..2000\"]\ncertificates = [\"backend\"]\n";
        try (Cluster cluster = Cluster.start(true, tenants, 0); SeqClient client = FaultsTest.open(cluster, true)) {
            Allocation before = client.next(42);
            assertTrue(client.next(42).value() > before.value());
            Tls authorities = Tls.of(cluster.path("certs/ca.crt"));
            SeqClient.Builder holder =
                    SeqClient.builder().seeds(cluster.seeds()).tls(authorities).token(made.get("token").toString());
            try (SeqClient tenant = holder.build()) {
                tenant.next(43);
                SeqException others = fails(Kind.REFUSED, () -> tenant.next(1500));
                assertEquals(Reasons.OTHER_TENANTS_UID, others.reason());
                assertEquals(Code.PERMISSION_DENIED, others.code().orElseThrow());
                assertFalse(others.retryable());
                List<Result<Allocation>> results = tenant.nextMany(44, 1500);
                assertTrue(results.get(0).isOk());
                assertEquals(Reasons.OTHER_TENANTS_UID, results.get(1).error().orElseThrow().reason());
            }
            SeqException wrong =
                    refused(SeqClient.builder().seeds(cluster.seeds()).tls(authorities).token("push.wrong"));
            says("token", wrong);
            assertFalse(wrong.retryable(), "the same token is refused again");
            assertFalse(wrong.getMessage().contains("push.wrong"), "the error has the token");
            says("token", refused(SeqClient.builder().seeds(cluster.seeds()).tls(authorities)));
            strangers(cluster);
        }
    }

    private void strangers(Cluster cluster) throws Exception {
        Tls good = cluster.tls();
        // A client that expects a server in plain text.
        SeqException plain = refused(SeqClient.builder().seeds(cluster.allocs));
        assertEquals(Kind.CONNECT, plain.kind());
        // Authorities of another cluster, and a certificate of another authority.
        Map<String, String> environment = Map.of("SEQSVR_CERTS", other.toString());
        Servers.run(environment, "cert", "ca", "--cluster", "java");
        Servers.run(environment, "cert", "issue", "client/backend");
        Path certificate = other.resolve("client.backend.pem");
        SeqException authority = refused(SeqClient.builder().seeds(cluster.seeds()).tls(other.resolve("ca.crt"), certificate));
        assertEquals(Kind.CONNECT, authority.kind());
        says("PKIX path", authority);
        refused(SeqClient.builder().seeds(cluster.seeds()).tls(good.ca(), certificate));
        otherHost(cluster);
        // A host without an address.
        SeqException unknown = refused(SeqClient.builder().seed("https://seqsvr.invalid:7400").tls(good));
        assertEquals(Kind.CONNECT, unknown.kind());
        says("seqsvr.invalid", unknown);
        Map<String, Tls> cases = Map.of(
                "no such file", Tls.of(Path.of("nowhere")),
                "no section -----BEGIN PRIVATE KEY", Tls.of(good.ca(), good.ca()),
                "is no file of at most", Tls.of(other),
                "no section -----BEGIN X509 CRL", Tls.of(good.ca()).withRevocations(good.ca()),
                "the key is not that of the certificate", Tls.of(good.ca(), mixed(good, certificate)));
        cases.forEach((text, files) -> says(text,
                fails(Kind.CONNECT, () -> SeqClient.builder().seeds(cluster.seeds()).tls(files).build())));
    }

    /** Dials a node by a host that its certificate does not name, and by another port of the host that it names. */
    private static void otherHost(Cluster cluster) throws Exception {
        String node = cluster.allocs.get(0);
        String host = node.substring(0, node.lastIndexOf(':'));
        try (Forward named = new Forward(host, node); Forward other = new Forward("127.0.0.1", node)) {
            SeqClient.Builder builder = SeqClient.builder().tls(cluster.tls()).deadline(Duration.ofSeconds(5));
            // The port makes no difference.
            try (SeqClient client = builder.seed("https://" + named.addr()).build()) {
                client.next(1);
            }
            SeqException error = refused(SeqClient.builder().tls(cluster.tls()).seed("https://" + other.addr()));
            assertEquals(Kind.CONNECT, error.kind());
            says("certificate is not accepted: No subject alternative names matching IP address 127.0.0.1", error);
            says(other.addr(), error);
            assertFalse(error.mayHaveApplied());
        }
    }

    /** Returns a file with the key of one certificate and the other certificate. */
    private Path mixed(Tls good, Path stranger) throws Exception {
        String key = Files.readString(stranger).replaceAll("(?s)-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", "");
        String text = Files.readString(good.certificate().orElseThrow());
        String own = text.substring(text.indexOf("-----BEGIN CERTIFICATE-----"));
        own = own.substring(0, own.indexOf("-----END CERTIFICATE-----") + 25);
        return Files.writeString(other.resolve("mixed.pem"), key + "\n" + own + "\n");
    }

    @Test
    void certificatesAndTheirAuthorityAreRotatedUnderLoad() throws Exception {
        try (Cluster cluster = Cluster.start(true, "", 0); SeqClient client = FaultsTest.open(cluster, true);
                Load load = new Load(client, FaultsTest.ONE_OF_EACH_SECTION, 4)) {
            for (List<String> step : List.of(List.of("cert", "rotate", "--ca"), List.of("cert", "rotate"))) {
                load.awaitMore("each section is served", 5);
                cluster.run(step.toArray(String[]::new));
                // The restarted node has the new files, and the client needs new connections to it.
                cluster.node("a1").terminate();
                cluster.startNode("a1");
                eventually("a client with the new files is served by a1", () -> {
                    try (SeqClient fresh = SeqClient.builder().seed(cluster.seeds().get(0)).tls(cluster.tls()).build()) {
                        fresh.next(1);
                    }
                });
                load.awaitMore("each section is served after " + step, 20);
            }
            load.check("rotation of certificates");

            // A damaged file changes nothing.
            String text = Files.readString(cluster.path("certs/ca.crt"));
            cluster.write("certs/ca.crt", "damaged");
            says("ca.crt", fails(Kind.CONNECT, client::reload));
            client.next(1);
            cluster.write("certs/ca.crt", text);
            client.reload();
            client.next(1);

            // The certificate of a server that is revoked is refused.
            cluster.run("cert", "revoke", "alloc/java/a1");
            eventually("a1 is refused", () -> says("revoked", refused(
                    SeqClient.builder().seed(cluster.seeds().get(0)).tls(cluster.tls()))));
        }
    }

    @Test
    void filesThatChangeAreReadAgain() throws Exception {
        Map<String, String> environment = Map.of("SEQSVR_CERTS", other.toString());
        Servers.run(environment, "cert", "ca", "--cluster", "java");
        Servers.run(environment, "cert", "issue", "client/backend");
        Credentials credentials = new Credentials(Tls.of(other.resolve("ca.crt"), other.resolve("client.backend.pem")));
        Object first = credentials.context();
        assertEquals(first, credentials.context());
        Servers.run(environment, "cert", "rotate");
        eventually("the changed files are read", () -> assertFalse(first == credentials.context()));
        Object second = credentials.context();
        Files.writeString(other.resolve("ca.crt"), "damaged");
        fails(Kind.CONNECT, credentials::reload);
        assertEquals(second, credentials.context(), "the former contents stay in use");
    }
}
