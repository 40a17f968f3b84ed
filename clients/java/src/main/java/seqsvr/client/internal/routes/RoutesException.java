package seqsvr.client.internal.routes;

/** The error of a route table that is not adopted. */
public final class RoutesException extends Exception {
    private static final long serialVersionUID = 1;

    /** Whether the table has only the changes since a version that is not known here. */
    final boolean isMismatch;

    RoutesException(String text, boolean isMismatch) {
        super(text);
        this.isMismatch = isMismatch;
    }
}
