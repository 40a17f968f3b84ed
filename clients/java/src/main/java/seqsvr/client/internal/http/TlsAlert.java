package seqsvr.client.internal.http;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/**
 * The TLS alert of a node that refuses the certificate of this client, for example because it is revoked.
 *
 * <p>In TLS 1.3 a server verifies the certificate of a client after the handshake has ended for the client (RFC 8446,
 * section 4.4.4). {@code java.net.http} sometimes reports only that such a connection ended, and not the alert.
 */
final class TlsAlert {
    /** Timeout of the connection and of each read, in milliseconds. An alert follows the handshake at once. */
    private static final int TIMEOUT = 500;

    private TlsAlert() { }

    /**
     * Makes a connection to a node, sends nothing over it, and returns the failure of TLS; null if TLS does not fail, or
     * if the node cannot be reached. Blocks for at most three timeouts.
     */
    static SSLException of(SSLContext tls, String addr) {
        URI node = URI.create("https://" + addr);
        try (Socket plain = new Socket()) {
            plain.connect(new InetSocketAddress(node.getHost(), node.getPort()), TIMEOUT);
            plain.setSoTimeout(TIMEOUT);
            try (SSLSocket socket = (SSLSocket) tls.getSocketFactory()
                    .createSocket(plain, node.getHost(), node.getPort(), true)) {
                SSLParameters parameters = socket.getSSLParameters();
                parameters.setProtocols(new String[] {"TLSv1.3"});
                parameters.setApplicationProtocols(new String[] {"h2"});
                socket.setSSLParameters(parameters);
                socket.startHandshake();
                socket.getInputStream().read();
                return null;
            }
        } catch (SSLException e) {
            return e;
        } catch (IOException e) {
            return null;
        }
    }
}
