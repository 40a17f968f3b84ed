package seqsvr.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/** The rule by which the number of a lane becomes an id. */
public sealed interface Shape {
    /** Returns the parts of an id; empty for a number that is no id of the shape. */
    Optional<DecodedId> decode(long id);

    /**
     * The shape of the ids {@code offset}, {@code offset + increment}, and so on.
     *
     * @param offset first id, 1 to {@code increment}
     * @param increment distance of two ids, 1 to 2^32
     * @param max limit on the ids
     */
    record Counter(long offset, long increment, long max) implements Shape {
        @Override
        public Optional<DecodedId> decode(long id) {
            if (id < offset || id > max || (id - offset) % increment != 0) {
                return Optional.empty();
            }
            return Optional.of(new DecodedId(0, (id - offset) / increment + 1, Optional.empty(), 0));
        }

        /** Returns the highest id up to a number; 0 if there is none. */
        long atMost(long number) {
            long id = Math.min(number, max);
            return id < offset ? 0 : offset + (id - offset) / increment * increment;
        }

        /** Returns whether two counters would have an id in common if their ids had no end. */
        boolean overlaps(Counter other) {
            long a = increment;
            long b = other.increment;
            while (b > 0) {
                long rest = a % b;
                a = b;
                b = rest;
            }
            return offset % a == other.offset % a;
        }
    }

    /**
     * The shape of ids of a time, a lane and a sequence number, from the highest bit to the lowest.
     *
     * @param epoch time 0
     * @param unit unit of time, 1 ms to a day
     * @param timeBits number of bits of the time
     * @param laneBits number of bits of the lane, 0 to 20
     * @param seqBits number of bits of the sequence number; the three parts have at most 63 bits in sum
     * @param namedLanes whether callers name the lane, instead of the server
     */
    record Timed(Instant epoch, Duration unit, int timeBits, int laneBits, int seqBits, boolean namedLanes)
            implements Shape {
        @Override
        public Optional<DecodedId> decode(long id) {
            long units = id >>> laneBits + seqBits;
            if (id <= 0 || timeBits < 63 && units >>> timeBits != 0) {
                return Optional.empty();
            }
            long seq = id & (1L << seqBits) - 1;
            int lane = (int) (id >>> seqBits & (1L << laneBits) - 1);
            Instant time = Instant.ofEpochMilli(epoch.toEpochMilli() + units * unit.toMillis());
            return Optional.of(new DecodedId(lane, units << seqBits | seq, Optional.of(time), seq));
        }
    }
}
