package seqsvr.client.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import seqsvr.client.internal.json.Json;

/** A cluster in one process, as {@code seqsvr dev} starts it: three stores and two allocators. */
public final class Dev implements AutoCloseable {
    public final List<String> allocs;
    public final List<String> stores;
    public final String http;
    public final long uidEnd;
    private final Servers.Server server;

    private Dev(Servers.Server server, Map<String, Object> ready) {
        this.server = server;
        allocs = addrs(ready.get("allocs"));
        stores = addrs(ready.get("stores"));
        http = ready.get("http").toString().replaceFirst("^http://", "");
        uidEnd = Long.parseUnsignedLong(ready.get("uid_end").toString());
    }

    /** Starts it on random ports; again if the machine is so busy that its stores find no quorum. */
    public static Dev start() throws IOException {
        Path log = Files.createTempFile("seqsvr-java-dev", ".log");
        String line = null;
        for (int i = 0; i < 3; i++) {
            Servers.Server server = Servers.start(log, List.of("dev", "--ports", "random", "-o", "json"));
            line = server.firstLine();
            Map<String, Object> ready = line == null ? Map.of() : Json.object(Json.parse(line));
            if (ready.containsKey("allocs")) {
                return new Dev(server, ready);
            }
            server.kill();
        }
        throw new IllegalStateException("\"" + line + "\" is no ready line; the log is " + log);
    }

    private static List<String> addrs(Object nodes) {
        return Json.array(nodes).stream().map(node -> Json.object(node).get("grpc").toString().replaceFirst("^http://", ""))
                .toList();
    }

    /** Creates a keyspace, with further arguments of the command. A client knows it within a second. */
    public void createKeyspace(String name, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("keyspace", "create", name, "--yes", "--addr", "http://" + allocs.get(0)));
        command.addAll(List.of(arguments));
        Servers.run(Map.of(), command.toArray(String[]::new));
    }

    @Override
    public void close() {
        server.kill();
    }
}
