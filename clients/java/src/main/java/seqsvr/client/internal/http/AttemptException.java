package seqsvr.client.internal.http;

/** The failure of one request. It has no stack trace, because it is a value and not a fault of the program. */
public abstract sealed class AttemptException extends Exception permits StatusException, TransportException {
    private static final long serialVersionUID = 1;

    AttemptException(String message, Throwable cause) {
        super(message, cause, false, false);
    }
}
