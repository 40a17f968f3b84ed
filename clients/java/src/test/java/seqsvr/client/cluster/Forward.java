package seqsvr.client.cluster;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Forwards connections at a port of a host to a node, byte for byte. */
public final class Forward implements AutoCloseable {
    private final ServerSocket listener;
    private final String host;
    private final InetSocketAddress node;
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();

    /** Listens at a free port of a host. */
    public Forward(String host, String node) throws IOException {
        this.host = host;
        int colon = node.lastIndexOf(':');
        this.node = new InetSocketAddress(node.substring(0, colon), Integer.parseInt(node.substring(colon + 1)));
        listener = new ServerSocket();
        listener.bind(new InetSocketAddress(InetAddress.getByName(host), 0));
        start(() -> {
            while (true) {
                Socket client = listener.accept();
                Socket server = new Socket(this.node.getAddress(), this.node.getPort());
                open.add(client);
                open.add(server);
                start(() -> pump(client, server));
                start(() -> pump(server, client));
            }
        });
    }

    /** Returns the address at which it listens. */
    public String addr() {
        return host + ":" + listener.getLocalPort();
    }

    private interface Task {
        void run() throws IOException;
    }

    /** Starts a thread, which ends with its sockets. */
    private static void start(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException e) {
                // A socket was closed.
            }
        }, "forward");
        thread.setDaemon(true);
        thread.start();
    }

    private static void pump(Socket from, Socket to) throws IOException {
        try (from; to) {
            from.getInputStream().transferTo(to.getOutputStream());
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket socket : open) {
            socket.close();
        }
    }
}
