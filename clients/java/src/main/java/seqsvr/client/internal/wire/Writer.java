package seqsvr.client.internal.wire;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** An encoder of protobuf. A number of 0, an empty text and an empty list are left out, as proto3 defines it. */
final class Writer {
    private byte[] out;
    private int size;

    Writer(int capacity) {
        out = new byte[capacity];
    }

    byte[] toBytes() {
        return size == out.length ? out : Arrays.copyOf(out, size);
    }

    private void reserve(int more) {
        if (out.length - size < more) {
            out = Arrays.copyOf(out, Math.max(out.length * 2, size + more));
        }
    }

    private void rawVarint(long value) {
        reserve(10);
        while ((value & ~0x7fL) != 0) {
            out[size++] = (byte) (value | 0x80);
            value >>>= 7;
        }
        out[size++] = (byte) value;
    }

    private void tag(int number, int kind) {
        rawVarint((long) number << 3 | kind);
    }

    private void rawBytes(int number, byte[] bytes) {
        tag(number, Reader.BYTES);
        rawVarint(bytes.length);
        reserve(bytes.length);
        System.arraycopy(bytes, 0, out, size, bytes.length);
        size += bytes.length;
    }

    void int64(int number, long value) {
        if (value != 0) {
            tag(number, Reader.VARINT);
            rawVarint(value);
        }
    }

    void uint32(int number, int value) {
        int64(number, Integer.toUnsignedLong(value));
    }

    /** Writes a field of type int32 or of an enumeration. A negative number is encoded as a 64-bit number. */
    void int32(int number, int value) {
        int64(number, value);
    }

    void bool(int number, boolean value) {
        int64(number, value ? 1 : 0);
    }

    void optional(int number, Long value) {
        if (value != null) {
            tag(number, Reader.VARINT);
            rawVarint(value);
        }
    }

    void fixed64(int number, long value) {
        if (value != 0) {
            optionalFixed64(number, value);
        }
    }

    void optionalFixed64(int number, Long value) {
        if (value != null) {
            tag(number, Reader.FIXED64);
            reserve(8);
            for (int i = 0; i < 8; i++) {
                out[size++] = (byte) (value >>> 8 * i);
            }
        }
    }

    void string(int number, String value) {
        if (!value.isEmpty()) {
            rawBytes(number, value.getBytes(StandardCharsets.UTF_8));
        }
    }

    void strings(int number, List<String> values) {
        for (String value : values) {
            rawBytes(number, value.getBytes(StandardCharsets.UTF_8));
        }
    }

    void bytes(int number, byte[] value) {
        if (value.length > 0) {
            rawBytes(number, value);
        }
    }

    void bytesList(int number, List<byte[]> values) {
        for (byte[] value : values) {
            rawBytes(number, value);
        }
    }

    /** Writes a packed list of unsigned 64-bit numbers. */
    void list(int number, long[] values) {
        if (values.length == 0) {
            return;
        }
        int bytes = 0;
        for (long value : values) {
            bytes += varintSize(value);
        }
        tag(number, Reader.BYTES);
        rawVarint(bytes);
        for (long value : values) {
            rawVarint(value);
        }
    }

    /** Writes a packed list of 32-bit numbers, which are not negative if they are signed. */
    void list(int number, int[] values) {
        long[] wide = new long[values.length];
        for (int i = 0; i < values.length; i++) {
            wide[i] = Integer.toUnsignedLong(values[i]);
        }
        list(number, wide);
    }

    /** Writes a message inside a field; nothing for null. */
    void message(int number, Message message) {
        if (message != null) {
            rawBytes(number, message.encode());
        }
    }

    void messages(int number, List<? extends Message> messages) {
        for (Message message : messages) {
            message(number, message);
        }
    }

    /** Returns the number of bytes of a varint. */
    static int varintSize(long value) {
        return (Long.SIZE - Long.numberOfLeadingZeros(value | 1) + 6) / 7;
    }
}
