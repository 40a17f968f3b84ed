package seqsvr.driver;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import seqsvr.client.Allocation;
import seqsvr.client.Current;
import seqsvr.client.Keyspace;
import seqsvr.client.Result;
import seqsvr.client.SeqClient;
import seqsvr.client.SeqException;
import seqsvr.client.Stats;
import seqsvr.client.Tls;
import seqsvr.client.internal.json.Json;

/**
 * The driver of this client for the conformance suite: it carries out one request for each line of its standard input, and
 * writes one response for each to its standard output. The suite has the protocol, version 1.
 */
public final class Driver {
    private static final Map<String, Object> HELLO = Map.of("hello", 1, "sdk", "java", "version", SeqClient.VERSION,
            "features", List.of("coalesce", "advance", "tls", "token", "reload", "cancel", "stats", "keys"));

    private final OutputStream out;
    private final Map<String, SeqClient> clients = new ConcurrentHashMap<>();
    /** Thread of each request. */
    private final Map<String, Thread> calls = new ConcurrentHashMap<>();

    private Driver(OutputStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        run(System.in, System.out);
    }

    /** Serves requests until the end of the input. */
    public static void run(InputStream in, OutputStream out) throws IOException, InterruptedException {
        Driver driver = new Driver(out);
        driver.write(HELLO);
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        List<Thread> running = new ArrayList<>();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Request request;
            try {
                request = new Request(Json.object(Json.parse(line)));
            } catch (IllegalArgumentException e) {
                throw new IOException("\"" + line + "\" is no request: " + e.getMessage(), e);
            }
            Thread thread = new Thread(() -> driver.serve(request), "request-" + request.id());
            // A call is known before the next line is read, which may cancel it.
            driver.calls.put(request.id(), thread);
            running.removeIf(other -> !other.isAlive());
            running.add(thread);
            thread.start();
        }
        driver.clients.values().forEach(SeqClient::close);
        for (Thread thread : running) {
            thread.join();
        }
    }

    private void write(Map<String, Object> line) {
        // A call that was cancelled leaves its thread interrupted, which must not end the write.
        Thread.interrupted();
        byte[] text = (Json.write(line) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (out) {
            try {
                out.write(text);
                out.flush();
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    private void serve(Request request) {
        try {
            write(Map.of("id", request.id(), "ok", respond(request)));
        } catch (SeqException e) {
            write(Map.of("id", request.id(), "error", failure(e)));
        } catch (RuntimeException e) {
            String kind = e instanceof ClosedClient ? "closed"
                    : e instanceof UnsupportedOperationException ? "unsupported" : "other";
            write(Map.of("id", request.id(), "error",
                    Map.of("kind", kind, "retryable", false, "may_have_applied", false, "message", e.toString())));
        } finally {
            calls.remove(request.id());
        }
    }

    private Object respond(Request r) {
        switch (r.op()) {
            case "open" -> {
                clients.put(r.client(), open(r));
                return Map.of();
            }
            case "cancel" -> {
                Thread thread = calls.get(r.text("target"));
                if (thread != null) {
                    thread.interrupt();
                }
                return Map.of();
            }
            default -> { }
        }
        SeqClient client = clients.get(r.client());
        if (client == null) {
            throw new ClosedClient();
        }
        client = r.hasDeadline() && !r.op().equals("burst") ? client.withDeadline(r.deadline()) : client;
        return switch (r.op()) {
            case "close" -> {
                client.close();
                if (Runtime.version().feature() < 21) {
                    // Connections of a closed client end when the garbage collector has found it.
                    System.gc();
                }
                yield Map.of();
            }
            case "reload" -> {
                client.reload();
                yield Map.of();
            }
            case "stats" -> stats(client.stats());
            case "burst" -> burst(client, r);
            default -> call(client, r);
        };
    }

    /** The error of a call of a client that was never opened, which counts as closed. */
    private static final class ClosedClient extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    private static SeqClient open(Request r) {
        SeqClient.Builder builder = SeqClient.builder().seeds(r.texts("seeds")).coalescing(r.isNotFalse("coalesce"));
        if (r.hasDeadline()) {
            builder.deadline(r.deadline());
        }
        Map<String, Object> tls = r.object("tls");
        if (!tls.isEmpty()) {
            Path ca = Path.of(tls.get("ca").toString());
            Object cert = tls.get("cert");
            Tls files = cert == null || cert.toString().isEmpty() ? Tls.of(ca) : Tls.of(ca, Path.of(cert.toString()));
            // A list of revocations is beside the authorities, if there is one.
            builder.tls(files.withRevocations(ca.resolveSibling("crl.pem")));
        }
        if (!r.text("token").isEmpty()) {
            builder.token(r.text("token"));
        }
        return builder.build();
    }

    private static Object call(SeqClient client, Request r) {
        return switch (r.op()) {
            case "next" -> allocation(client.next(r.number("uid"), r.integer("count", 1)));
            case "next_many" -> items(r.has("counts") ? client.nextMany(r.items()) : client.nextMany(r.uids()));
            case "current" -> current(client.current(r.number("uid")));
            case "current_many" -> items(client.currentMany(r.uids()));
            case "advance" -> Map.of("epoch", Long.toUnsignedString(client.advance(r.number("uid"), r.number("to"))));
            default -> callOfKeys(client.keyspace(r.text("keyspace")), r);
        };
    }

    private static Object callOfKeys(Keyspace keys, Request r) {
        int count = r.integer("count", 1);
        return switch (r.op()) {
            case "next_key" -> allocation(r.key(text -> keys.next(text, count), bytes -> keys.next(bytes, count)));
            case "next_keys" -> items(r.has("count") ? keys.nextMany(r.keyItems()) : keys.nextMany(r.keys()));
            case "current_key" -> current(r.key(keys::current, keys::current));
            case "current_keys" -> items(keys.currentMany(r.keys()));
            case "advance_key" -> {
                long to = r.number("to");
                long epoch = r.key(text -> keys.advance(text, to), bytes -> keys.advance(bytes, to));
                yield Map.of("epoch", Long.toUnsignedString(epoch));
            }
            default -> throw new UnsupportedOperationException("the driver does not have the op \"" + r.op() + "\"");
        };
    }

    /** Makes the calls of a burst, and writes a line for each of them unless the burst is quiet. */
    private Object burst(SeqClient client, Request r) {
        SeqClient with = r.hasDeadline() ? client.withDeadline(r.deadline()) : client;
        long[] uids = r.uids();
        int calls = r.integer("calls", 0);
        boolean isQuiet = r.isTrue("quiet");
        AtomicLong failed = new AtomicLong();
        Random random = new Random(r.number("seed"));
        Queue<Long> chosen = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < calls; i++) {
            chosen.add(uids[random.nextInt(uids.length)]);
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < Math.max(Math.min(r.integer("concurrency", 1), calls), 1); i++) {
            Thread thread = new Thread(() -> {
                for (Long uid = chosen.poll(); uid != null; uid = chosen.poll()) {
                    Map<String, Object> call = one(with, r.text("keyspace"), uid);
                    if (call.containsKey("error")) {
                        failed.incrementAndGet();
                    }
                    if (!isQuiet) {
                        write(Map.of("id", r.id(), "call", call));
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        boolean wasInterrupted = false;
        for (Thread thread : threads) {
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                    chosen.clear();
                    threads.forEach(Thread::interrupt);
                }
            }
        }
        return Map.of("done", wasInterrupted ? calls - chosen.size() : calls, "failed", failed.get());
    }

    /** Makes a call of a burst. The times are those of CLOCK_MONOTONIC, which System.nanoTime reads on Linux. */
    private static Map<String, Object> one(SeqClient client, String keyspace, long uid) {
        long start = System.nanoTime();
        String part = "ok";
        Object outcome;
        try {
            outcome = allocation(keyspace.isEmpty() ? client.next(uid)
                    : client.keyspace(keyspace).next("key:" + Long.toUnsignedString(uid)));
        } catch (SeqException e) {
            part = "error";
            outcome = failure(e);
        }
        long end = System.nanoTime();
        return Map.of("uid", Long.toUnsignedString(uid), "start_ns", Long.toString(start), "end_ns", Long.toString(end),
                part, outcome);
    }

    private static Map<String, Object> items(List<? extends Result<?>> results) {
        List<Object> items = new ArrayList<>();
        for (Result<?> result : results) {
            items.add(result.error().<Object>map(e -> Map.of("error", failure(e))).orElseGet(() -> Map.of("ok",
                    result.value() instanceof Allocation a ? allocation(a) : current((Current) result.value()))));
        }
        return Map.of("items", items);
    }

    private static Map<String, Object> allocation(Allocation a) {
        return Map.of("first", Long.toString(a.first()), "value", Long.toString(a.value()), "prev", Long.toString(a.prev()),
                "epoch", Long.toUnsignedString(a.epoch()), "count", a.count(), "lost", a.lost());
    }

    private static Map<String, Object> current(Current c) {
        return Map.of("value", Long.toString(c.value()), "exact", c.exact(), "epoch", Long.toUnsignedString(c.epoch()));
    }

    private static Map<String, Object> failure(SeqException e) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("kind", e.kind().label());
        fields.put("retryable", e.retryable());
        fields.put("may_have_applied", e.mayHaveApplied());
        fields.put("message", e.getMessage());
        fields.put("attempts", e.attempts());
        switch (e.kind()) {
            case REFUSED, SET_UNAVAILABLE -> {
                fields.put("reason", e.reason().equals("REFUSED_BY_OTHERS") ? "" : e.reason());
                fields.put("code", e.code().map(Enum::name).orElse("OK"));
                if (!e.retryAfter().isZero()) {
                    fields.put("retry_after_ms", e.retryAfter().toMillis());
                }
            }
            default -> { }
        }
        return fields;
    }

    /** The counts of a client. Connections are left out, because java.net.http does not state them. */
    private static Map<String, Object> stats(Stats s) {
        return Map.of("calls", s.calls(), "attempts", s.attempts(), "retries", s.retries(), "budget_refused",
                s.budgetRefused(), "pending", s.pending(), "route_adoptions", s.routeAdoptions(), "threads",
                Thread.activeCount());
    }
}
