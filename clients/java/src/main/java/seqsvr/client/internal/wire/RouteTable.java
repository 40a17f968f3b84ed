package seqsvr.client.internal.wire;

import java.util.ArrayList;
import java.util.List;

/**
 * Messages of proto/seqsvr/v1/route.proto and series.proto. Of lanes a client needs those that are buckets of keyspaces,
 * because calls for ids may be sent to any node. Therefore the fields that only lanes of series have are left out.
 */
public final class RouteTable {
    private RouteTable() { }

    /** Whole route table, or the part of it that is newer than the base version. */
    public static final class Routes extends Message {
        public String set = "";
        public long version;
        public long baseVersion;
        public long uidStart;
        public long uidEnd;
        public int sectionSize;
        public final List<RouteNode> nodes = new ArrayList<>();
        public final List<RouteRun> runs = new ArrayList<>();
        public long setId;
        public final List<RouteSet> sets = new ArrayList<>();
        public final List<StoredSeries> series = new ArrayList<>();
        /** Runs of lanes and buckets, in the numbers of sections after those of the uids. */
        public final List<RouteRun> laneRuns = new ArrayList<>();

        @Override
        protected void write(Writer out) {
            out.string(1, set);
            out.int64(2, version);
            out.int64(3, baseVersion);
            out.int64(4, uidStart);
            out.int64(5, uidEnd);
            out.uint32(6, sectionSize);
            out.messages(7, nodes);
            out.messages(8, runs);
            out.fixed64(9, setId);
            out.messages(10, sets);
            out.messages(11, series);
            out.messages(12, laneRuns);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> set = from.string(set);
                case 2 -> version = from.int64(version);
                case 3 -> baseVersion = from.int64(baseVersion);
                case 4 -> uidStart = from.int64(uidStart);
                case 5 -> uidEnd = from.int64(uidEnd);
                case 6 -> sectionSize = from.int32(sectionSize);
                case 7 -> from.messages(nodes, RouteNode::new);
                case 8 -> from.messages(runs, RouteRun::new);
                case 9 -> setId = from.fixed64(setId);
                case 10 -> from.messages(sets, RouteSet::new);
                case 11 -> from.messages(series, StoredSeries::new);
                case 12 -> from.messages(laneRuns, RouteRun::new);
                default -> { }
            }
        }
    }

    /** Another set of the cluster. */
    public static final class RouteSet extends Message {
        public long id;
        public String name = "";
        public final List<String> allocs = new ArrayList<>();

        @Override
        protected void write(Writer out) {
            out.fixed64(1, id);
            out.string(2, name);
            out.strings(3, allocs);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> id = from.fixed64(id);
                case 2 -> name = from.string(name);
                case 3 -> from.strings(allocs);
                default -> { }
            }
        }
    }

    /** AllocSvr that may own sections. */
    public static final class RouteNode extends Message {
        public int id;
        public String name = "";
        public String addr = "";

        @Override
        protected void write(Writer out) {
            out.uint32(1, id);
            out.string(2, name);
            out.string(3, addr);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> id = from.int32(id);
                case 2 -> name = from.string(name);
                case 3 -> addr = from.string(addr);
                default -> { }
            }
        }
    }

    /** Run of neighbouring sections with the same owner and epoch. */
    public static final class RouteRun extends Message {
        public int firstSection;
        public int sections;
        public int owner;
        public long epoch;
        public long awaySetId;

        @Override
        protected void write(Writer out) {
            out.uint32(1, firstSection);
            out.uint32(2, sections);
            out.uint32(3, owner);
            out.int64(4, epoch);
            out.fixed64(5, awaySetId);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> firstSection = from.int32(firstSection);
                case 2 -> sections = from.int32(sections);
                case 3 -> owner = from.int32(owner);
                case 4 -> epoch = from.int64(epoch);
                case 5 -> awaySetId = from.fixed64(awaySetId);
                default -> { }
            }
        }
    }

    /** Series of a cluster. */
    public static final class StoredSeries extends Message {
        public String name = "";
        public byte[] shape = new byte[0];
        public Lanes lanes;
        public long createdMs;
        public boolean retired;
        public long homeSetId;

        @Override
        protected void write(Writer out) {
            out.string(1, name);
            out.bytes(2, shape);
            out.message(3, lanes);
            out.int64(4, createdMs);
            out.bool(5, retired);
            out.fixed64(6, homeSetId);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> name = from.string(name);
                case 2 -> shape = from.bytes(shape);
                case 3 -> lanes = from.message(lanes, Lanes::new);
                case 4 -> createdMs = from.int64(createdMs);
                case 5 -> retired = from.bool(retired);
                case 6 -> homeSetId = from.fixed64(homeSetId);
                default -> { }
            }
        }
    }

    /** Sections of the lanes of a series, or of the buckets of a keyspace. */
    public static final class Lanes extends Message {
        public int count;
        public int perSection;
        public int firstSection;
        /** Hashing of the keys of a keyspace; null for a series. */
        public Hashing keys;

        @Override
        protected void write(Writer out) {
            out.uint32(1, count);
            out.uint32(2, perSection);
            out.uint32(6, firstSection);
            out.message(7, keys);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> count = from.int32(count);
                case 2 -> perSection = from.int32(perSection);
                case 6 -> firstSection = from.int32(firstSection);
                case 7 -> keys = from.message(keys, Hashing::new);
                default -> { }
            }
        }
    }

    /** Hashing of the keys of a keyspace. */
    public static final class Hashing extends Message {
        /** Digest of the seed, which only servers know. */
        public long digest;
        /** Whether the keys are the uids that no set file declares. */
        public boolean ofUids;

        @Override
        protected void write(Writer out) {
            out.fixed64(1, digest);
            out.bool(3, ofUids);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> digest = from.fixed64(digest);
                case 3 -> ofUids = from.bool(ofUids);
                default -> { }
            }
        }
    }

    /** Rule by which the number of a lane becomes an id. At most one of its fields is set. */
    public static final class Shape extends Message {
        public CounterShape counter;
        public TimedShape timed;

        @Override
        protected void write(Writer out) {
            out.message(1, counter);
            out.message(2, timed);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            // The last kind on the wire replaces an earlier one.
            switch (from.number()) {
                case 1 -> {
                    counter = from.message(counter, CounterShape::new);
                    timed = counter == null ? timed : null;
                }
                case 2 -> {
                    timed = from.message(timed, TimedShape::new);
                    counter = timed == null ? counter : null;
                }
                default -> { }
            }
        }
    }

    /** Shape of the ids offset, offset + increment, and so on. */
    public static final class CounterShape extends Message {
        public long offset;
        public long increment;
        public long maxId;

        @Override
        protected void write(Writer out) {
            out.int64(1, offset);
            out.int64(2, increment);
            out.int64(3, maxId);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> offset = from.int64(offset);
                case 2 -> increment = from.int64(increment);
                case 3 -> maxId = from.int64(maxId);
                default -> { }
            }
        }
    }

    /** Shape of ids of a time, a lane and a sequence number. */
    public static final class TimedShape extends Message {
        public long epochMs;
        public int unitMs;
        public int timeBits;
        public int laneBits;
        public int seqBits;
        public boolean spread;
        public boolean namedLanes;
        public int aheadMs;

        @Override
        protected void write(Writer out) {
            out.int64(1, epochMs);
            out.uint32(2, unitMs);
            out.uint32(3, timeBits);
            out.uint32(4, laneBits);
            out.uint32(5, seqBits);
            out.bool(6, spread);
            out.bool(7, namedLanes);
            out.uint32(8, aheadMs);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> epochMs = from.int64(epochMs);
                case 2 -> unitMs = from.int32(unitMs);
                case 3 -> timeBits = from.int32(timeBits);
                case 4 -> laneBits = from.int32(laneBits);
                case 5 -> seqBits = from.int32(seqBits);
                case 6 -> spread = from.bool(spread);
                case 7 -> namedLanes = from.bool(namedLanes);
                case 8 -> aheadMs = from.int32(aheadMs);
                default -> { }
            }
        }
    }
}
