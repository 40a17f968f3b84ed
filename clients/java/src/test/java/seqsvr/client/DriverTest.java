package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static seqsvr.client.cluster.Eventually.eventually;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import seqsvr.client.cluster.Dev;
import seqsvr.client.fake.World;
import seqsvr.client.internal.json.Json;
import seqsvr.driver.Driver;

class DriverTest {
    /** A driver in a process of its own. */
    private static final class Pipe {
        private final Process process;
        private final OutputStream in;
        private final BufferedReader lines;

        Pipe() throws IOException {
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), Driver.class.getName()).start();
            in = process.getOutputStream();
            lines = process.inputReader(StandardCharsets.UTF_8);
            Map<String, Object> hello = line();
            assertEquals(1L, hello.get("hello"));
            assertEquals("java", hello.get("sdk"));
            assertEquals(8, Json.array(hello.get("features")).size());
        }

        Map<String, Object> line() throws IOException {
            return Json.object(Json.parse(lines.readLine()));
        }

        void send(String line) throws IOException {
            in.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            in.flush();
        }

        /** Sends a request, and checks fields of the part ok or error of its response. */
        Map<String, Object> ask(String part, Map<String, Object> want, String request) throws IOException {
            send(request);
            Map<String, Object> line = line();
            assertNotNull(line.get(part), line::toString);
            Map<String, Object> got = Json.object(line.get(part));
            want.forEach((name, value) -> assertEquals(value, got.get(name), () -> name + " of " + line));
            return got;
        }

        /** Waits for the end of the driver, and returns its log. */
        String end(int code) throws IOException, InterruptedException {
            in.close();
            String log = new String(process.getErrorStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(code, process.waitFor(), log);
            assertNull(lines.readLine());
            return log;
        }
    }

    @Test
    void aDriverIsDrivenThroughAPipe() throws Exception {
        try (Dev dev = Dev.start()) {
            Pipe p = new Pipe();
            p.ask("error", Map.of("kind", "closed"), "{\"id\":\"0\",\"op\":\"next\",\"client\":\"c\",\"uid\":\"1\"}");
            p.ask("error", Map.of("kind", "connect", "retryable", true, "may_have_applied", false),
                    "{\"id\":\"1\",\"op\":\"open\",\"client\":\"c\",\"seeds\":[\"http://127.0.0.1:1\"],\"deadline_ms\":2000}");
            p.ask("ok", Map.of(), "{\"id\":\"2\",\"op\":\"open\",\"client\":\"c\",\"seeds\":[\"http://" + dev.allocs.get(0)
                    + "\"],\"deadline_ms\":60000,\"coalesce\":true}");
            p.ask("ok", Map.of("first", "1", "value", "3", "prev", "0", "count", 3L, "lost", 0L),
                    "{\"id\":\"3\",\"op\":\"next\",\"client\":\"c\",\"uid\":\"42\",\"count\":3,\"unknown\":true}");
            p.ask("ok", Map.of("value", "3", "exact", true), call("4", "current", "\"uid\":\"42\""));
            List<?> items = Json.array(p.ask("ok", Map.of(),
                    call("5", "next_many", "\"uids\":[\"42\",\"18446744073709551615\"],\"counts\":[2,1]")).get("items"));
            assertEquals("5", Json.object(Json.object(items.get(0)).get("ok")).get("value"));
            assertEquals("uid_outside", Json.object(Json.object(items.get(1)).get("error")).get("kind"));
            p.ask("ok", Map.of("items", List.of()), call("6", "next_many", "\"uids\":[]"));
            assertEquals(2, Json.array(p.ask("ok", Map.of(),
                    call("7", "current_many", "\"uids\":[\"42\",\"7\"]")).get("items")).size());
            p.ask("ok", Map.of(), call("8", "advance", "\"uid\":\"42\",\"to\":\"1000\""));
            p.ask("error", Map.of("kind", "refused", "reason", "ALREADY_PAST", "code", "FAILED_PRECONDITION", "retryable",
                    false, "attempts", 1L), call("9", "advance", "\"uid\":\"42\",\"to\":\"5\""));
            p.ask("error", Map.of("kind", "count"), call("10", "next", "\"uid\":\"42\",\"count\":0"));
            p.ask("error", Map.of("kind", "unsupported"), call("11", "fork", "\"uid\":\"42\""));
            p.ask("ok", Map.of("pending", 0L), call("12", "stats", "\"x\":1"));
            p.ask("ok", Map.of(), call("13", "reload", "\"x\":1"));
            p.ask("ok", Map.of(), call("14", "cancel", "\"target\":\"none\""));
            burst(p, "");
            dev.createKeyspace("main");
            keys(p);
            burst(p, ",\"keyspace\":\"main\"");
            long taken = 0;
            for (Object item : Json.array(p.ask("ok", Map.of(), call("27", "current_keys",
                    "\"keyspace\":\"main\",\"keys\":[\"key:1\",\"key:2\"]")).get("items"))) {
                taken += Long.parseLong(Json.object(Json.object(item).get("ok")).get("value").toString());
            }
            assertEquals(50, taken);
            p.ask("ok", Map.of(), call("16", "close", "\"x\":1"));
            p.ask("ok", Map.of(), call("17", "close", "\"x\":1"));
            p.ask("error", Map.of("kind", "closed", "retryable", false), call("18", "next", "\"uid\":\"42\""));
            p.end(0);
        }
    }

    private static String call(String id, String op, String arguments) {
        return "{\"id\":\"" + id + "\",\"op\":\"" + op + "\",\"client\":\"c\"," + arguments + "}";
    }

    private static void keys(Pipe p) throws IOException {
        String main = "\"keyspace\":\"main\",";
        eventually("the keyspace is served", () -> p.ask("ok", Map.of("value", "0", "exact", true),
                call("20", "current_key", main + "\"key\":\"key:1\"")));
        p.ask("ok", Map.of("first", "1", "value", "3"), call("21", "next_key", main + "\"key\":\"\u00fc\",\"count\":3"));
        p.ask("ok", Map.of("first", "4", "value", "4", "prev", "3"), call("22", "next_key", main + "\"key\":{\"hex\":\"c3bc\"}"));
        for (String count : List.of("", ",\"count\":2")) {
            List<?> items = Json.array(p.ask("ok", Map.of(),
                    call("23", "next_keys", main + "\"keys\":[{\"hex\":\"ff00\"},\"\"]" + count)).get("items"));
            assertEquals(count.isEmpty() ? "1" : "3", Json.object(Json.object(items.get(0)).get("ok")).get("value"));
            assertEquals("KEY_SIZE", Json.object(Json.object(items.get(1)).get("error")).get("reason"));
        }
        p.ask("ok", Map.of(), call("24", "advance_key", main + "\"key\":{\"hex\":\"ff00\"},\"to\":\"500\""));
        List<?> read = Json.array(p.ask("ok", Map.of(),
                call("25", "current_keys", main + "\"keys\":[{\"hex\":\"ff00\"},\"\u00fc\"]")).get("items"));
        assertEquals("500", Json.object(Json.object(read.get(0)).get("ok")).get("value"));
        assertEquals("4", Json.object(Json.object(read.get(1)).get("ok")).get("value"));
        p.ask("error", Map.of("kind", "refused", "reason", "UNKNOWN_KEYSPACE", "code", "NOT_FOUND", "retryable", false),
                call("26", "next_key", "\"keyspace\":\"none\",\"key\":\"a\""));
    }

    private static void burst(Pipe p, String more) throws IOException {
        long before = System.nanoTime();
        p.send(call("15", "burst",
                "\"uids\":[\"1\",\"2\"],\"calls\":50,\"concurrency\":8,\"seed\":\"18446744073709551615\"" + more));
        for (int calls = 0;; calls++) {
            Map<String, Object> line = p.line();
            if (!line.containsKey("call")) {
                assertEquals(Map.of("id", "15", "ok", Map.of("done", 50L, "failed", 0L)), line);
                assertEquals(50, calls);
                return;
            }
            Map<String, Object> call = Json.object(line.get("call"));
            long start = Long.parseLong(call.get("start_ns").toString());
            long end = Long.parseLong(call.get("end_ns").toString());
            assertNotNull(call.get("ok"), line::toString);
            assertTrue(before <= start && start <= end && end <= System.nanoTime(), line::toString);
        }
    }

    @Test
    void aCallIsCancelledAndTheEndOfTheInputEndsTheDriver() throws Exception {
        try (World world = new World(1, 1)) {
            Pipe p = new Pipe();
            p.ask("ok", Map.of(), "{\"id\":\"1\",\"op\":\"open\",\"client\":\"c\",\"seeds\":[\"" + world.seeds().get(0) + "\"]}");
            p.ask("ok", Map.of(), call("2", "current", "\"uid\":\"1\""));
            world.node(0, 0).hang(true);
            p.send(call("3", "next", "\"uid\":\"1\",\"deadline_ms\":60000"));
            eventually("the request is sent", () -> assertEquals(2, world.node(0, 0).seen().size()));
            p.send(call("4", "cancel", "\"target\":\"3\""));
            for (int i = 0; i < 2; i++) {
                Map<String, Object> line = p.line();
                if (line.get("id").equals("3")) {
                    assertEquals("cancelled", Json.object(line.get("error")).get("kind"));
                    assertEquals(true, Json.object(line.get("error")).get("may_have_applied"));
                } else {
                    assertNotNull(line.get("ok"), line::toString);
                }
            }
            p.ask("error", Map.of("kind", "deadline", "retryable", true),
                    call("5", "next", "\"uid\":\"1\",\"deadline_ms\":50"));
            world.node(0, 0).hang(false);
            p.end(0);

            Pipe broken = new Pipe();
            broken.send("no JSON");
            assertTrue(broken.end(1).contains("no JSON"));
        }
    }
}
