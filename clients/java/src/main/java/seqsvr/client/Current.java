package seqsvr.client;

/**
 * The last number of a uid or key, or an upper bound of it.
 *
 * @param value last number allocated, or an upper bound of it, 0 to 2^63-1. It is never smaller than a value that was
 *     returned earlier for the same uid or key
 * @param exact whether the value is exactly the last number; an exact 0 means that there never was one. Otherwise no
 *     number above the value was allocated. This is so after a crash of the section's owner, until the next number
 * @param epoch epoch of the ownership that responded, 1 or above
 */
public record Current(long value, boolean exact, long epoch) {
    private static final int EXACT = 1;
    private static final int UPPER_BOUND = 2;

    /** Returns the number in a response. Throws the error of a value that is neither exact nor a bound. */
    static Current checked(String addr, long value, int exactness, long epoch) {
        if (value < 0 || exactness != EXACT && exactness != UPPER_BOUND) {
            throw Errors.badAnswer(addr, "a value that is neither exact nor a bound");
        }
        return new Current(value, exactness == EXACT, epoch);
    }
}
