package seqsvr.client;

import java.util.List;
import java.util.stream.LongStream;
import seqsvr.client.internal.wire.IdMessages.IdRun;
import seqsvr.client.internal.wire.IdMessages.NextIdsResponse;

/** Ids that one call allocated, in ascending order, each 1 to 2^63-1. No other call gets any of them. It is immutable. */
public final class Ids {
    private final List<IdRun> runs;
    private final long step;
    private final int count;
    private final long last;
    private final int lane;
    private final long epoch;

    private Ids(NextIdsResponse response, int count, long last) {
        this.runs = List.copyOf(response.runs);
        this.step = response.step;
        this.count = count;
        this.last = last;
        this.lane = response.lane;
        this.epoch = response.epoch;
    }

    /** Returns the number of ids. */
    public int size() {
        return count;
    }

    /** Returns the last id. */
    public long last() {
        return last;
    }

    /** Returns the lane of the ids; 0 for a counter. */
    public int lane() {
        return lane;
    }

    /** Returns the epoch of the ownership that allocated the ids, 1 or above. */
    public long epoch() {
        return epoch;
    }

    /** Returns the ids in order. */
    public LongStream stream() {
        return runs.stream().flatMapToLong(run -> LongStream.range(0, run.count).map(i -> run.first + i * step));
    }

    /** Returns the id at a place, from 0. */
    long at(int place) {
        int left = place;
        for (IdRun run : runs) {
            if (left < run.count) {
                return run.first + left * step;
            }
            left -= run.count;
        }
        throw new IndexOutOfBoundsException(place);
    }

    /**
     * Returns the ids in a response. Throws the error of a response that has not {@code count} ids in ascending order, all
     * of them above {@code after}.
     */
    static Ids checked(String addr, NextIdsResponse response, int count, long after) {
        int left = count;
        long last = after;
        for (IdRun run : response.runs) {
            // Numbers above 2^63-1 are negative here.
            boolean isBad = run.count <= 0 || run.count > left || response.step <= 0 || run.first <= last;
            if (isBad || run.count - 1 > (Long.MAX_VALUE - run.first) / response.step) {
                throw Errors.badAnswer(addr, "runs that are no ascending ids");
            }
            left -= run.count;
            last = run.first + (run.count - 1) * response.step;
        }
        if (left > 0) {
            throw Errors.badAnswer(addr, "another number of ids than requested");
        }
        return new Ids(response, count, last);
    }
}
