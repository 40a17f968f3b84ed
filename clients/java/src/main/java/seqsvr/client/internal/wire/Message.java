package seqsvr.client.internal.wire;

/**
 * A protobuf message. Its fields are public, and a field of type {@link Long} is null if the number is absent, which
 * differs from 0. Numbers of 64 bits are unsigned.
 *
 * <p>Only the messages and fields that a client needs exist here. Unknown fields are skipped, so a message of a later
 * release is read as far as this release knows it.
 */
public abstract class Message {
    /** Writes every field that is not empty. */
    protected abstract void write(Writer out);

    /** Reads one field, whose tag and value are in the reader. Does nothing for an unknown field. */
    protected abstract void read(Reader from) throws Malformed;

    /** Returns the encoding of the message. */
    public final byte[] encode() {
        Writer writer = new Writer(64);
        write(writer);
        return writer.toBytes();
    }

    /** Decodes bytes into the message, which should be empty. The message does not refer to the bytes afterwards. */
    public final void decode(byte[] data) throws Malformed {
        new Reader(data).message(this);
    }
}
