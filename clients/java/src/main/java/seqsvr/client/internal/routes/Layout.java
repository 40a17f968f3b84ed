package seqsvr.client.internal.routes;

/**
 * The division of a cluster's uids into sections. Uids are unsigned.
 *
 * @param start first uid
 * @param end uid after the last one
 * @param sectionSize number of uids in a section
 */
record Layout(long start, long end, int sectionSize) {
    int sections() {
        return (int) (Long.divideUnsigned(end - start - 1, sectionSize) + 1);
    }

    boolean contains(long uid) {
        return Long.compareUnsigned(uid, start) >= 0 && Long.compareUnsigned(uid, end) < 0;
    }

    int sectionOf(long uid) {
        return (int) Long.divideUnsigned(uid - start, sectionSize);
    }

    boolean overlaps(Layout other) {
        return Long.compareUnsigned(start, other.end) < 0 && Long.compareUnsigned(other.start, end) < 0;
    }
}
