package seqsvr.client;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The sections whose calls share no messages, because a call for them had to wait at its node: the items of a message wait
 * for each other. A section leaves the set when a call for it succeeds.
 */
final class SlowSections {
    /** Limit on the sections. Beyond it all are forgotten, which costs one slow message for each. */
    private static final int MAX_SECTIONS = 1 << 16;

    /** First uids of the sections. */
    private final Set<Long> starts = ConcurrentHashMap.newKeySet();

    boolean contains(long start) {
        return !starts.isEmpty() && starts.contains(start);
    }

    void add(long start) {
        if (starts.size() >= MAX_SECTIONS) {
            starts.clear();
        }
        starts.add(start);
    }

    void remove(long start) {
        starts.remove(start);
    }
}
