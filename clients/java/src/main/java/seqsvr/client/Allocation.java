package seqsvr.client;

import java.util.stream.LongStream;

/**
 * The numbers allocated for one uid or key: all numbers from {@link #first} to {@link #value}. No other call gets any of
 * them.
 *
 * @param value last of the numbers, 1 to 2^63-1. With a count of 1 it is the only one
 * @param prev number that was allocated directly before the first one; 0 if there was none, if the owner does not know
 *     it, or if the uid or key was advanced since. A receiver that has not seen it has missed a message, unless it was
 *     consumed by an attempt that {@code lost} counts
 * @param epoch epoch of the ownership that allocated the numbers, 1 or above. For one uid or key it never falls
 * @param count count of the numbers, 1 to {@link #MAX_COUNT}
 * @param lost number of earlier attempts of this call that got no response, of this client or of a node that forwarded
 *     the call. Each may have consumed {@code count} numbers, which are then skipped. It is 0 unless a failure occurred
 */
public record Allocation(long value, long prev, long epoch, int count, int lost) {
    /** The limit on the numbers of one item. */
    public static final int MAX_COUNT = 1_000_000;

    /** Returns the first number. */
    public long first() {
        return value - count + 1;
    }

    /** Returns all numbers, in order. */
    public LongStream numbers() {
        return LongStream.rangeClosed(first(), value);
    }

    Allocation plusLost(int more) {
        return more == 0 ? this : new Allocation(value, prev, epoch, count, lost + more);
    }

    /** Returns the allocation in a response. Throws the error of numbers that do not follow each other. */
    static Allocation checked(String addr, long value, long prev, long epoch, int count, int lost) {
        // A number above 2^63-1 is negative here.
        if (value < 0 || prev < 0 || prev > value || value - prev < count) {
            throw Errors.badAnswer(addr, "numbers that do not follow each other");
        }
        return new Allocation(value, prev, epoch, count, lost);
    }
}
