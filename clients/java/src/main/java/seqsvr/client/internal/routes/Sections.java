package seqsvr.client.internal.routes;

import java.util.Arrays;
import java.util.function.IntToLongFunction;

/**
 * The routes of all sections of a cluster, in chunks of neighbours. A copy shares its chunks with the original until it
 * changes them.
 *
 * <p>Invariant: a route is only ever replaced by a newer one. So merging is commutative and idempotent, and messages
 * that arrive in another order never take a route backwards.
 */
final class Sections {
    /** Number of sections in a chunk. The table of the largest layout has 4,096 chunks. */
    static final int CHUNK = 256;

    private static final Route[] EMPTY = new Route[CHUNK];

    private Route[][] chunks;
    /** Whether the chunk at the same index belongs to this copy alone; null in a published table. */
    private boolean[] owned;

    Sections(int count) {
        chunks = new Route[0][];
        owned = new boolean[0];
        extend(count);
    }

    private Sections(Sections of) {
        chunks = of.chunks.clone();
        owned = new boolean[chunks.length];
    }

    /** Returns a copy that can be changed. */
    Sections copy() {
        return new Sections(this);
    }

    /** Makes place for the sections below {@code end}, in a copy that can be changed. */
    void extend(int end) {
        int before = chunks.length;
        int needed = (end + CHUNK - 1) / CHUNK;
        if (needed > before) {
            chunks = Arrays.copyOf(chunks, needed);
            Arrays.fill(chunks, before, needed, EMPTY);
            owned = Arrays.copyOf(owned, needed);
        }
    }

    /** Ends the changes of a copy. */
    void publish() {
        owned = null;
    }

    /** Returns the route of a section; null if no set sent one. */
    Route get(int section) {
        int chunk = section / CHUNK;
        return section < 0 || chunk >= chunks.length ? null : chunks[chunk][section % CHUNK];
    }

    /** Returns whether a chunk is the same object as that of another table. */
    boolean shares(Sections other, int chunk) {
        return chunks[chunk] == other.chunks[chunk];
    }

    /** Merges a route into each of count neighbouring sections from first on. The function maps a set's index to its id. */
    void merge(int first, int count, Route route, IntToLongFunction id) {
        for (int at = first; at < first + count; at++) {
            int chunk = at / CHUNK;
            if (!route.isNewer(chunks[chunk][at % CHUNK], id)) {
                continue;
            }
            if (!owned[chunk]) {
                chunks[chunk] = chunks[chunk].clone();
                owned[chunk] = true;
            }
            chunks[chunk][at % CHUNK] = route;
        }
    }
}
