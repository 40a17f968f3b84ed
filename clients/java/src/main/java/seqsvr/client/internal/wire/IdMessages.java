package seqsvr.client.internal.wire;

import java.util.ArrayList;
import java.util.List;

/** Messages of proto/seqsvr/v1/ids.proto. */
public final class IdMessages {
    private IdMessages() { }

    /** Requests ids of a series. */
    public static final class NextIdsRequest extends Message {
        public String series = "";
        public int count;
        public Long lane;
        public Long after;

        @Override
        protected void write(Writer out) {
            out.string(1, series);
            out.uint32(2, count);
            out.optional(3, lane);
            out.optional(4, after);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> series = from.string(series);
                case 2 -> count = from.int32(count);
                case 3 -> lane = from.optionalUint32(lane);
                case 4 -> after = from.optional(after);
                default -> { }
            }
        }
    }

    /** Ids of a series. */
    public static final class NextIdsResponse extends Message {
        public final List<IdRun> runs = new ArrayList<>();
        public long step;
        public long epoch;
        public int lane;

        @Override
        protected void write(Writer out) {
            out.messages(1, runs);
            out.int64(2, step);
            out.int64(3, epoch);
            out.uint32(4, lane);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> from.messages(runs, IdRun::new);
                case 2 -> step = from.int64(step);
                case 3 -> epoch = from.int64(epoch);
                case 4 -> lane = from.int32(lane);
                default -> { }
            }
        }
    }

    /** Run of count ids from first on. */
    public static final class IdRun extends Message {
        public long first;
        public int count;

        @Override
        protected void write(Writer out) {
            out.int64(1, first);
            out.uint32(2, count);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> first = from.int64(first);
                case 2 -> count = from.int32(count);
                default -> { }
            }
        }
    }

    /** Requests the last id of a counter. */
    public static final class CurrentIdRequest extends Message {
        public String series = "";

        @Override
        protected void write(Writer out) {
            out.string(1, series);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> series = from.string(series);
                default -> { }
            }
        }
    }

    /** Last id of a counter. */
    public static final class CurrentIdResponse extends Message {
        public long id;
        public boolean exact;
        public long epoch;

        @Override
        protected void write(Writer out) {
            out.int64(1, id);
            out.bool(2, exact);
            out.int64(3, epoch);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> id = from.int64(id);
                case 2 -> exact = from.bool(exact);
                case 3 -> epoch = from.int64(epoch);
                default -> { }
            }
        }
    }

    /** Requests that a counter be raised to an id. */
    public static final class AdvanceIdRequest extends Message {
        public String series = "";
        public long to;

        @Override
        protected void write(Writer out) {
            out.string(1, series);
            out.int64(2, to);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> series = from.string(series);
                case 2 -> to = from.int64(to);
                default -> { }
            }
        }
    }

    /** States that a counter is at an id or above it. */
    public static final class AdvanceIdResponse extends Message {
        public long epoch;

        @Override
        protected void write(Writer out) {
            out.int64(1, epoch);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> epoch = from.int64(epoch);
                default -> { }
            }
        }
    }
}
