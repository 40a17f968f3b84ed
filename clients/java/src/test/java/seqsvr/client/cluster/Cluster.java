package seqsvr.client.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import seqsvr.client.Tls;

/** A store and two allocators as processes of their own, on a loopback address of their own. */
public final class Cluster implements AutoCloseable {
    /** Number of uids of a cluster. */
    public static final int UIDS = 2000;
    /** Number of uids of a section. */
    public static final int SECTION_SIZE = 100;

    private static final AtomicInteger PLACES = new AtomicInteger();

    /** Directory with the set file, set.toml, the certificates, certs, and the logs. */
    public final Path dir;
    /** Addresses of the allocators a1 and a2. */
    public final List<String> allocs;
    private final boolean isSecure;
    private final Map<String, List<String>> args = new LinkedHashMap<>();
    private final Map<String, Servers.Server> nodes = new LinkedHashMap<>();

    private Cluster(Path dir, String host, boolean isSecure) {
        this.dir = dir;
        this.isSecure = isSecure;
        allocs = List.of(host + ":7400", host + ":7401");
    }

    /** Starts a cluster. The certificate of client/backend is issued if it is secure; tenants is empty for none. */
    public static Cluster start(boolean isSecure, String tenants, long firstUid) throws IOException, InterruptedException {
        long pid = ProcessHandle.current().pid();
        String host = "127." + (192 + (pid >> 8 & 31)) + "." + (pid & 255) + "." + PLACES.incrementAndGet();
        Cluster cluster = new Cluster(Files.createTempDirectory("seqsvr-java"), host, isSecure);
        StringBuilder set = new StringBuilder("name = \"java\"\n").append(isSecure ? "" : "plaintext = true\n");
        set.append("uids = \"").append(firstUid).append("..").append(firstUid + UIDS).append("\"\nsection_size = ")
                .append(SECTION_SIZE).append("\nstep = 1000\n");
        set.append("[[store]]\nid = 1\nname = \"s1\"\n").append(port("addr", host, 7301)).append(port("raft", host, 7307))
                .append(port("http", host, 7311));
        for (int i = 0; i < 2; i++) {
            set.append("[[alloc]]\nname = \"a").append(i + 1).append("\"\n").append(port("addr", host, 7400 + i))
                    .append(port("peer", host, 7410 + i)).append(port("http", host, 7480 + i));
        }
        cluster.write("set.toml", set.toString());
        cluster.write("tenants.toml", tenants);
        cluster.write("config.toml",
                tenants.isEmpty() ? "" : "[tenants]\nfile = \"" + cluster.path("tenants.toml") + "\"\n");
        List<String> at = List.of("--set", cluster.path("set.toml").toString(), "--certs", cluster.path("certs").toString());
        if (isSecure) {
            cluster.run("cert", "issue", "client/backend", at.get(0), at.get(1), at.get(2), at.get(3));
        }
        cluster.put("s1", List.of("store", "--id", "1", "--form", "--data", cluster.path("s1").toString()), at);
        for (String name : List.of("a1", "a2")) {
            cluster.put(name, List.of("alloc", "--name", name, "--cores", "1", "--config",
                    cluster.path("config.toml").toString()), at);
        }
        for (String name : cluster.args.keySet()) {
            cluster.startNode(name);
        }
        return cluster;
    }

    private static String port(String name, String host, int port) {
        return name + " = \"" + host + ":" + port + "\"\n";
    }

    private void put(String name, List<String> command, List<String> at) {
        List<String> all = new ArrayList<>(command);
        all.addAll(at);
        args.put(name, all);
    }

    /** Starts a node, for the first time or again. */
    public void startNode(String name) throws IOException {
        nodes.put(name, Servers.start(path(name + ".log"), args.get(name)));
    }

    /** Returns the process of a node. */
    public Servers.Server node(String name) {
        return nodes.get(name);
    }

    /** Returns the path of a file of the cluster. */
    public Path path(String name) {
        return dir.resolve(name);
    }

    /** Writes a file of the cluster. */
    public void write(String name, String text) throws IOException {
        Files.writeString(path(name), text);
    }

    /** Runs a command of the program with the cluster's certificates. */
    public String run(String... command) throws IOException, InterruptedException {
        return Servers.run(Map.of("SEQSVR_CERTS", path("certs").toString()), command);
    }

    /** Returns the seeds. */
    public List<String> seeds() {
        return allocs.stream().map(addr -> (isSecure ? "https://" : "http://") + addr).toList();
    }

    /** Returns the files of the client. */
    public Tls tls() {
        return Tls.of(path("certs/ca.crt"), path("certs/client.backend.pem")).withRevocations(path("certs/crl.pem"));
    }

    @Override
    public void close() {
        nodes.values().forEach(Servers.Server::kill);
    }
}
