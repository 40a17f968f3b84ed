package seqsvr.client;

import java.time.Duration;
import java.time.Instant;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.RouteTable;

/** Decodes and validates shapes of series. */
final class Shapes {
    private static final long MAX_INCREMENT = 1L << 32;
    private static final int MAX_UNIT_MS = 86_400_000;
    private static final int MAX_LANE_BITS = 20;
    private static final int MAX_BITS = 63;

    /** The last millisecond of the year 9999. */
    private static final long LAST_MS = 253_402_300_799_999L;

    private Shapes() { }

    /** Decodes the shape of a series; null for a shape that only later releases know. */
    static Shape of(byte[] data) {
        RouteTable.Shape shape = new RouteTable.Shape();
        try {
            shape.decode(data);
        } catch (Malformed e) {
            return null;
        }
        return shape.counter != null ? counter(shape.counter) : timed(shape.timed);
    }

    /** Returns a counter; null if it is not valid. Numbers above 2^63-1 are negative here. */
    private static Shape counter(RouteTable.CounterShape c) {
        boolean isValid = c.increment > 0 && c.increment <= MAX_INCREMENT && c.offset > 0 && c.offset <= c.increment
                && c.maxId >= c.offset;
        return isValid ? new Shape.Counter(c.offset, c.increment, c.maxId) : null;
    }

    /** Returns a shape with a time; null if it is absent or not valid. */
    private static Shape timed(RouteTable.TimedShape t) {
        if (t == null || t.unitMs <= 0 || t.unitMs > MAX_UNIT_MS || t.timeBits <= 0 || t.timeBits > MAX_BITS
                || t.laneBits < 0 || t.laneBits > MAX_LANE_BITS || t.seqBits < 0 || t.seqBits > MAX_BITS
                || t.timeBits + t.laneBits + t.seqBits > MAX_BITS) {
            return null;
        }
        if (t.epochMs < 0 || t.epochMs > LAST_MS) {
            return null;
        }
        // 2^63 is negative, and larger than every number of units.
        long units = 1L << t.timeBits;
        if (units < 0 || units > (LAST_MS + 1 - t.epochMs) / t.unitMs) {
            return null;
        }
        return new Shape.Timed(Instant.ofEpochMilli(t.epochMs), Duration.ofMillis(t.unitMs), t.timeBits, t.laneBits,
                t.seqBits, t.namedLanes);
    }
}
