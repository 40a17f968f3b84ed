package seqsvr.client;

/**
 * The ids that were fetched but not used. It has no I/O and no clock: times are in nanoseconds.
 *
 * <p>Invariants: ids are unique and increase, because a fetch is for ids above all ids that were fetched before, and one
 * fetch is in flight at a time. The number of ids that were fetched but not used is at most twice that of the used ids,
 * plus 2. If ids are dropped because of their age, each fetch can exceed this bound by 1.
 */
final class IdBuffer {
    private static final long FIRST_PAUSE = 100_000_000;
    private static final long MAX_PAUSE = 1_000_000_000;

    private final long hold;
    /** Age above which a range is dropped; 0 for ids without a time. */
    private final long maxAge;
    private final int maxSize;

    private Range present;
    private Range spare;
    private boolean isFetching;
    private long given;
    private long dropped;
    private int lastSize;
    private long highest;
    /** Whether a fetch was made, the time of the last one, and the number of ids that had been given until then. */
    private boolean wasMeasured;
    private long measuredAt;
    private long measured;
    private boolean hasPause;
    private long retryAt;
    private int failures;

    /** A range of ids from one fetch. */
    private static final class Range {
        final Ids ids;
        final long at;
        int left;

        Range(Ids ids, long at) {
            this.ids = ids;
            this.at = at;
            this.left = ids.size();
        }
    }

    /**
     * What {@link #take} returns.
     *
     * @param id next id; 0 if none is left
     * @param fetch number of ids that the caller is to fetch, and to report; 0 for none
     */
    record Taken(long id, int fetch) { }

    IdBuffer(long hold, long maxAge, int maxSize, long highest) {
        this.hold = hold;
        this.maxAge = maxAge;
        this.maxSize = maxSize;
        this.highest = highest;
    }

    /** Returns the number above which the next ids are fetched; 0 for none. */
    long highest() {
        return highest;
    }

    /** Returns the time until the pause after a failed fetch is over. */
    long pause(long now) {
        return hasPause ? Math.max(retryAt - now, 0) : 0;
    }

    /** Takes the next id, and begins a fetch if one is due. */
    Taken take(long now) {
        present = dropIfOld(present, now);
        spare = dropIfOld(spare, now);
        if (present == null || present.left == 0) {
            present = spare;
            spare = null;
        }
        long id = 0;
        if (present != null && present.left > 0) {
            id = present.ids.at(present.ids.size() - present.left);
            present.left--;
            given++;
        }
        return new Taken(id, due(now, id == 0));
    }

    /** Adds the ids of a fetch, of a response at a time. */
    void fetched(Ids ids, long at) {
        isFetching = false;
        failures = 0;
        hasPause = false;
        lastSize = ids.size();
        highest = ids.last();
        spare = new Range(ids, at);
    }

    /** Ends a fetch without ids. The next one begins after a pause. */
    void failed(long now) {
        isFetching = false;
        hasPause = true;
        retryAt = now + Math.min(FIRST_PAUSE << Math.min(failures, 16), MAX_PAUSE);
        failures++;
    }

    /** Returns the number of ids that were fetched but not used. */
    long unused() {
        return dropped + (present == null ? 0 : present.left) + (spare == null ? 0 : spare.left);
    }

    private Range dropIfOld(Range range, long now) {
        if (maxAge > 0 && range != null && now - range.at > maxAge) {
            dropped += range.left;
            return null;
        }
        return range;
    }

    /**
     * Begins a fetch if one is due, and returns its size: if a caller waits, or if half of the present range is used and
     * there is no spare range. The first id of a handle begins none, because the handle may never need a second one.
     */
    private int due(long now, boolean waits) {
        if (isFetching || spare != null || pause(now) > 0) {
            return 0;
        }
        boolean isHalfUsed = present == null || present.left * 2L <= present.ids.size();
        if (!waits && (given < 2 || !isHalfUsed)) {
            return 0;
        }
        int size = size(now);
        isFetching = true;
        wasMeasured = true;
        measuredAt = now;
        measured = given;
        return size;
    }

    /**
     * Returns the number of ids that are used during {@link #hold} at the present rate, at most twice the last range, and
     * at most so many that the bound on unused ids holds.
     */
    private int size(long now) {
        long most = Math.min(Math.min(lastSize * 2L, Math.max(given * 2 + 2 - unused(), 0)), maxSize);
        if (!wasMeasured) {
            return 1;
        }
        // As a double, because the product can exceed 64 bits. The size need not be exact.
        double used = (double) (given - measured) * hold / Math.max(now - measuredAt, 1);
        return (int) Math.max(Math.min(used, most), 1);
    }
}
