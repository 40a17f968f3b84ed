package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.Fixtures.fails;
import static seqsvr.client.Fixtures.join;
import static seqsvr.client.Fixtures.open;
import static seqsvr.client.Fixtures.settings;

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import seqsvr.client.fake.World;
import seqsvr.client.internal.wire.Sequence;

class ConnectTest {
    private static SeqException refused(SeqClient.Builder builder) {
        return fails(Kind.CONNECT, () -> builder.build().close());
    }

    private static void says(String text, SeqException error) {
        assertTrue(error.getMessage().contains(text), () -> error.getMessage() + " lacks " + text);
    }

    @Test
    void oneSeedOfSeveralIsEnough() throws Exception {
        try (World world = new World(2, 1); ServerSocket hung = new ServerSocket(0);
                SeqClient client = SeqClient.builder().seed("http://127.0.0.1:" + hung.getLocalPort()).seed("127.0.0.1:1")
                        .seed(world.node(0, 0).addr()).build()) {
            // The routes of the seed name the other set.
            assertEquals(1, client.next(25).value());
        }
    }

    @Test
    void seedsThatAreNotUsableAreNamed() {
        Map<String, String> cases = Map.of("", "seed \"\" is not of the form", "host", "not of the form http://host:port",
                "ftp://a:1", "only http:// and https://", "https://a:1", "needs the setting tls", "http://a:1/path",
                "not of the form", "http://user@a:1", "not of the form", "127.0.0.1:1",
                "no seed responded; 127.0.0.1:1 failed last", "http://127.0.0.1:", "not of the form");
        cases.forEach((seed, text) -> says(text, refused(SeqClient.builder().seed(seed))));
        says("no seed was given", refused(SeqClient.builder()));
        says("more than the 2048", refused(SeqClient.builder().seeds(Collections.nCopies(2049, "a:1"))));
    }

    @Test
    void portsOfOtherServersAreNamed() throws Exception {
        for (boolean isConnect : new boolean[] {false, true}) {
            HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
            byte[] body = isConnect ? "{\"code\":\"unimplemented\",\"message\":\"no\"}".getBytes() : "no".getBytes();
            server.createContext("/", exchange -> {
                exchange.getResponseHeaders().set("content-type", isConnect ? "application/json" : "text/plain");
                exchange.sendResponseHeaders(isConnect ? 501 : 404, body.length);
                exchange.getResponseBody().write(body);
                exchange.close();
            });
            server.start();
            try {
                says(isConnect ? "it is another server" : "it is no AllocSvr",
                        refused(SeqClient.builder().seed("127.0.0.1:" + server.getAddress().getPort())));
            } finally {
                server.stop(0);
            }
        }
    }

    @Test
    void openingWaitsForRoutes() throws Exception {
        try (World world = new World(1, 1)) {
            world.node(0, 0).knowRoutes(false);
            SeqException error = refused(settings(world).deadline(Duration.ofMillis(300)));
            says("has no routes yet", error);
            assertTrue(error.retryable());
            CompletableFuture<SeqClient> opened = CompletableFuture.supplyAsync(() -> open(world));
            world.node(0, 0).knowRoutes(true);
            join(opened).close();
        }
    }

    @Test
    void openingEndsWithItsDeadlineAndWithAnInterrupt() throws Exception {
        try (World world = new World(1, 1)) {
            world.node(0, 0).hang(true);
            says("before the deadline", refused(settings(world).deadline(Duration.ofMillis(50))));
            AtomicReference<SeqException> error = new AtomicReference<>();
            Thread thread = new Thread(() -> error.set(fails(Kind.CANCELLED, () -> open(world))));
            thread.start();
            thread.interrupt();
            thread.join();
            assertEquals(Kind.CANCELLED, error.get().kind());
            world.node(0, 0).hang(false);
        }
    }

    @Test
    void invalidRoutesOfASeedAreRefused() throws Exception {
        try (World world = new World(1, 1)) {
            world.node(0, 0).change(m -> ((Sequence.GetRoutesResponse) m).routes.sectionSize = 0);
            SeqException error = refused(settings(world));
            says("in sections of 0", error);
            assertFalse(error.retryable());
        }
    }

    @Test
    void aTokenNeedsTlsAndIsInNoText() {
        String secret = "im.S3CRET";
        says("a token needs TLS", refused(SeqClient.builder().seed("127.0.0.1:1").token(secret)));
        for (String token : List.of("", "im", "im.se cret", "im.s\u00e4", "im.x\n")) {
            SeqException error = refused(SeqClient.builder().seed("127.0.0.1:1").tls(Tls.of(Path.of("ca"))).token(token));
            says("visible ASCII", error);
        }
        SeqException missing = refused(SeqClient.builder().seed("127.0.0.1:1").tls(Tls.of(Path.of("nowhere"))).token(secret));
        says("no such file", missing);
        assertFalse(missing.getMessage().contains("S3CRET"));
    }

    @Test
    void addressesThatAreGoneAreDropped() throws Exception {
        try (World world = new World(1, 2); SeqClient client = open(world)) {
            client.next(1);
            client.next(25);
            String gone = world.node(0, 1).addr();
            assertTrue(client.core().hasBatcher(gone));
            world.node(0, 0).change(m -> {
                if (m instanceof Sequence.CurrentResponse current && current.routes != null) {
                    current.routes.nodes.get(1).addr = "127.0.0.1:1";
                }
            });
            world.move(1, 0, 0);
            client.current(1);
            assertFalse(client.core().hasBatcher(gone));
            assertFalse(client.core().pool.addrs().contains(gone));
        }
    }
}
