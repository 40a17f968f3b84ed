package seqsvr.client.internal.http;

import java.net.ConnectException;
import java.net.UnknownHostException;
import java.net.http.HttpConnectTimeoutException;
import java.nio.channels.UnresolvedAddressException;
import javax.net.ssl.SSLHandshakeException;

/**
 * The failure of a request before a response arrived: the connection failed, or the time of the request was over.
 *
 * <p>Invariant: it counts as not sent only if the connection proves that no server processed the request.
 */
public final class TransportException extends AttemptException {
    private static final long serialVersionUID = 1;

    /** Whether a server may have processed the request. */
    public final boolean sent;
    /** Whether the request used up its time. */
    public final boolean isLate;

    private TransportException(String message, Throwable cause, boolean sent, boolean isLate) {
        super(message, cause);
        this.sent = sent;
        this.isLate = isLate;
    }

    /** Returns the failure of a request that used up its time. */
    public static TransportException late(boolean sent) {
        return new TransportException("no response in its time", null, sent, true);
    }

    /** Returns the failure of a request that was ended by its caller, or at the end of the client. */
    public static TransportException aborted(boolean sent) {
        return new TransportException("the request was ended", null, sent, false);
    }

    static TransportException unsent(Throwable cause) {
        return new TransportException(text(cause), cause, false, false);
    }

    static TransportException broken(Throwable cause) {
        return new TransportException(text(cause), cause, !provesUnsent(cause), false);
    }

    static TransportException silent(Throwable cause) {
        return new TransportException("the node responds to no ping", cause, true, false);
    }

    /** Returns the text of an exception, with those of its causes if they add something. */
    static String text(Throwable error) {
        String text = error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
        Throwable cause = error.getCause();
        for (int depth = 0; cause != null && depth < 8; depth++, cause = cause.getCause()) {
            String more = cause.getMessage();
            if (more != null && !text.contains(more)) {
                text += ": " + more;
            }
        }
        return text;
    }

    /**
     * Returns whether an exception proves that the request did not reach a server: no connection was made, or the server
     * rejected the request's stream. A text that is not recognized counts as a request that may have been processed.
     */
    static boolean provesUnsent(Throwable error) {
        for (Throwable at = error; at != null; at = at.getCause() == at ? null : at.getCause()) {
            if (at instanceof ConnectException || at instanceof HttpConnectTimeoutException
                    || at instanceof UnknownHostException || at instanceof UnresolvedAddressException
                    || at instanceof SSLHandshakeException) {
                return true;
            }
            String text = at.getMessage();
            if (text != null && (text.contains("Stream not processed") || text.contains("REFUSED_STREAM")
                    || isTooManyStreams(at))) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether a request was not sent because its connection has as many streams as the server allows. */
    static boolean isTooManyStreams(Throwable error) {
        return error.getMessage() != null && error.getMessage().contains("too many concurrent streams");
    }
}
