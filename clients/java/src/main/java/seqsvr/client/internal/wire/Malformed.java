package seqsvr.client.internal.wire;

/** The error of bytes that are not a message. */
public final class Malformed extends Exception {
    private static final long serialVersionUID = 1;

    Malformed() {
        super("the message is not valid protobuf", null, false, false);
    }
}
