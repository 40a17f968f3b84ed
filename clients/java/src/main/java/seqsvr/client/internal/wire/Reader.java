package seqsvr.client.internal.wire;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;

/**
 * A decoder of protobuf. It reads one field after another; the methods named after types return the value of the field
 * that was read, or the present value if the field has another wire type.
 *
 * <p>Invariant: decoding ends with {@link Malformed} or succeeds, and allocates memory in proportion to its input.
 */
final class Reader {
    static final int VARINT = 0;
    static final int FIXED64 = 1;
    static final int BYTES = 2;
    private static final int GROUP = 3;
    private static final int GROUP_END = 4;
    private static final int FIXED32 = 5;

    /** Limit on nested messages and groups. The messages of the service nest four levels deep. */
    private static final int MAX_DEPTH = 32;
    private static final int MAX_NUMBER = (1 << 29) - 1;

    private final byte[] data;
    private int at;
    private int end;
    private int depth;

    /** Number and wire type of the field that was read. */
    private int number;
    private int kind;
    /** Value of the field, if it is a number. */
    private long value;
    /** Place of the field's content, if it is of type BYTES. */
    private int from;
    private int to;

    Reader(byte[] data) {
        this.data = data;
        this.end = data.length;
    }

    /** Returns the number of the field that was read. */
    int number() {
        return number;
    }

    /** Reads every field up to the end into a message. */
    void message(Message into) throws Malformed {
        while (at < end) {
            field();
            into.read(this);
        }
    }

    private void field() throws Malformed {
        long tag = varint();
        if (tag >>> 3 == 0 || tag >>> 3 > MAX_NUMBER) {
            throw new Malformed();
        }
        number = (int) (tag >>> 3);
        kind = (int) (tag & 7);
        switch (kind) {
            case VARINT -> value = varint();
            case FIXED64 -> value = fixed(8);
            case FIXED32 -> value = fixed(4);
            case BYTES -> {
                long size = varint();
                if (size < 0 || size > end - at) {
                    throw new Malformed();
                }
                from = at;
                at += (int) size;
                to = at;
            }
            case GROUP -> {
                // No message has a group: the field is unknown, whatever its number is.
                skipGroup(number);
                kind = GROUP;
            }
            default -> throw new Malformed();
        }
    }

    private void skipGroup(int opened) throws Malformed {
        if (++depth > MAX_DEPTH) {
            throw new Malformed();
        }
        while (true) {
            int before = at;
            long tag = varint();
            if ((tag & 7) == GROUP_END) {
                if (tag >>> 3 != opened) {
                    throw new Malformed();
                }
                break;
            }
            at = before;
            field();
        }
        depth--;
    }

    private long varint() throws Malformed {
        long result = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at >= end) {
                throw new Malformed();
            }
            byte b = data[at++];
            if (shift == 63 && (b & 0xff) > 1) {
                throw new Malformed();
            }
            result |= (long) (b & 0x7f) << shift;
            if (b >= 0) {
                return result;
            }
        }
        throw new Malformed();
    }

    private long fixed(int bytes) throws Malformed {
        if (end - at < bytes) {
            throw new Malformed();
        }
        long result = 0;
        for (int i = 0; i < bytes; i++) {
            result |= (data[at++] & 0xffL) << 8 * i;
        }
        return result;
    }

    long int64(long present) {
        return kind == VARINT ? value : present;
    }

    int int32(int present) {
        return kind == VARINT ? (int) value : present;
    }

    boolean bool(boolean present) {
        return kind == VARINT ? value != 0 : present;
    }

    Long optional(Long present) {
        return kind == VARINT ? Long.valueOf(value) : present;
    }

    Long optionalUint32(Long present) {
        return kind == VARINT ? Long.valueOf(value & 0xffff_ffffL) : present;
    }

    long fixed64(long present) {
        return kind == FIXED64 ? value : present;
    }

    Long optionalFixed64(Long present) {
        return kind == FIXED64 ? Long.valueOf(value) : present;
    }

    String string(String present) throws Malformed {
        return kind == BYTES ? text() : present;
    }

    void strings(List<String> list) throws Malformed {
        if (kind == BYTES) {
            list.add(text());
        }
    }

    private String text() throws Malformed {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data, from, to - from)).toString();
        } catch (CharacterCodingException e) {
            throw new Malformed();
        }
    }

    byte[] bytes(byte[] present) {
        return kind == BYTES ? Arrays.copyOfRange(data, from, to) : present;
    }

    void bytesList(List<byte[]> list) {
        if (kind == BYTES) {
            list.add(Arrays.copyOfRange(data, from, to));
        }
    }

    /** Reads a repeated field of numbers, packed or not, after those that are present. */
    long[] list(long[] present) throws Malformed {
        if (kind == VARINT) {
            long[] longer = Arrays.copyOf(present, present.length + 1);
            longer[present.length] = value;
            return longer;
        }
        if (kind != BYTES) {
            return present;
        }
        int count = 0;
        for (int i = from; i < to; i++) {
            if (data[i] >= 0) {
                count++;
            }
        }
        long[] longer = Arrays.copyOf(present, present.length + count);
        int after = at;
        int outer = end;
        at = from;
        end = to;
        int next = present.length;
        while (at < end) {
            longer[next++] = varint();
        }
        at = after;
        end = outer;
        return longer;
    }

    int[] list(int[] present) throws Malformed {
        long[] read = list(new long[0]);
        int[] longer = Arrays.copyOf(present, present.length + read.length);
        for (int i = 0; i < read.length; i++) {
            longer[present.length + i] = (int) read[i];
        }
        return longer;
    }

    /** Reads a message inside a field. A field that occurs twice is merged. */
    <M extends Message> M message(M present, Supplier<M> create) throws Malformed {
        if (kind != BYTES) {
            return present;
        }
        M message = present == null ? create.get() : present;
        nested(message);
        return message;
    }

    <M extends Message> void messages(List<M> list, Supplier<M> create) throws Malformed {
        if (kind == BYTES) {
            M message = create.get();
            list.add(message);
            nested(message);
        }
    }

    private void nested(Message message) throws Malformed {
        if (++depth > MAX_DEPTH) {
            throw new Malformed();
        }
        int after = at;
        int outer = end;
        at = from;
        end = to;
        message(message);
        at = after;
        end = outer;
        depth--;
    }
}
