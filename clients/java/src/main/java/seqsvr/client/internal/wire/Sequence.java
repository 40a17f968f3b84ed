package seqsvr.client.internal.wire;

import java.util.ArrayList;
import java.util.List;

/** Messages of proto/seqsvr/v1/sequence.proto. The comments of their fields are in the protos. */
public final class Sequence {
    private Sequence() { }

    /** Requests numbers of one uid. */
    public static final class NextRequest extends Message {
        public Long uid;
        public int count;
        public Long routeVersion;
        public long epoch;
        public int hops;

        @Override
        protected void write(Writer out) {
            out.optional(1, uid);
            out.uint32(2, count);
            out.optional(3, routeVersion);
            out.int64(4, epoch);
            out.uint32(5, hops);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> uid = from.optional(uid);
                case 2 -> count = from.int32(count);
                case 3 -> routeVersion = from.optional(routeVersion);
                case 4 -> epoch = from.int64(epoch);
                case 5 -> hops = from.int32(hops);
                default -> { }
            }
        }
    }

    /** Numbers of one uid. */
    public static final class NextResponse extends Message {
        public long value;
        public long prev;
        public long epoch;
        public RouteTable.Routes routes;
        public Long lost;

        @Override
        protected void write(Writer out) {
            out.int64(1, value);
            out.int64(2, prev);
            out.int64(3, epoch);
            out.message(4, routes);
            out.optional(5, lost);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> value = from.int64(value);
                case 2 -> prev = from.int64(prev);
                case 3 -> epoch = from.int64(epoch);
                case 4 -> routes = from.message(routes, RouteTable.Routes::new);
                case 5 -> lost = from.optionalUint32(lost);
                default -> { }
            }
        }
    }

    /** Requests numbers of many uids. */
    public static final class NextManyRequest extends Message {
        public long[] uids = new long[0];
        public int[] counts = new int[0];
        public Long routeVersion;
        public int hops;
        public long[] knownEpochs = new long[0];

        @Override
        protected void write(Writer out) {
            out.list(1, uids);
            out.list(2, counts);
            out.optional(3, routeVersion);
            out.uint32(4, hops);
            out.list(5, knownEpochs);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> uids = from.list(uids);
                case 2 -> counts = from.list(counts);
                case 3 -> routeVersion = from.optional(routeVersion);
                case 4 -> hops = from.int32(hops);
                case 5 -> knownEpochs = from.list(knownEpochs);
                default -> { }
            }
        }
    }

    /** Results of many uids. */
    public static final class NextManyResponse extends Message {
        public long[] values = new long[0];
        public long[] prevs = new long[0];
        public long[] epochs = new long[0];
        public final List<ItemError> errors = new ArrayList<>();
        public RouteTable.Routes routes;
        public LostAttempts lost;

        @Override
        protected void write(Writer out) {
            out.list(1, values);
            out.list(2, prevs);
            out.list(3, epochs);
            out.messages(4, errors);
            out.message(5, routes);
            out.message(6, lost);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> values = from.list(values);
                case 2 -> prevs = from.list(prevs);
                case 3 -> epochs = from.list(epochs);
                case 4 -> from.messages(errors, ItemError::new);
                case 5 -> routes = from.message(routes, RouteTable.Routes::new);
                case 6 -> lost = from.message(lost, LostAttempts::new);
                default -> { }
            }
        }
    }

    /** Numbers of attempts with unknown outcome, of some items. */
    public static final class LostAttempts extends Message {
        public int[] indexes = new int[0];
        public int[] attempts = new int[0];

        @Override
        protected void write(Writer out) {
            out.list(1, indexes);
            out.list(2, attempts);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> indexes = from.list(indexes);
                case 2 -> attempts = from.list(attempts);
                default -> { }
            }
        }
    }

    /** Refusal of one item of a batch. */
    public static final class ItemError extends Message {
        public int index;
        public int code;
        public String reason = "";
        public String message = "";
        public int retryAfterMs;
        public Long setId;
        public Long since;

        @Override
        protected void write(Writer out) {
            out.uint32(1, index);
            out.uint32(2, code);
            out.string(3, reason);
            out.string(4, message);
            out.uint32(5, retryAfterMs);
            out.optionalFixed64(6, setId);
            out.optional(7, since);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> index = from.int32(index);
                case 2 -> code = from.int32(code);
                case 3 -> reason = from.string(reason);
                case 4 -> message = from.string(message);
                case 5 -> retryAfterMs = from.int32(retryAfterMs);
                case 6 -> setId = from.optionalFixed64(setId);
                case 7 -> since = from.optional(since);
                default -> { }
            }
        }
    }

    /** Requests the last number of one uid. */
    public static final class CurrentRequest extends Message {
        public Long uid;
        public Long routeVersion;
        public long epoch;
        public int hops;

        @Override
        protected void write(Writer out) {
            out.optional(1, uid);
            out.optional(2, routeVersion);
            out.int64(3, epoch);
            out.uint32(4, hops);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> uid = from.optional(uid);
                case 2 -> routeVersion = from.optional(routeVersion);
                case 3 -> epoch = from.int64(epoch);
                case 4 -> hops = from.int32(hops);
                default -> { }
            }
        }
    }

    /** Last number of one uid. */
    public static final class CurrentResponse extends Message {
        public long value;
        public int exactness;
        public long epoch;
        public RouteTable.Routes routes;

        @Override
        protected void write(Writer out) {
            out.int64(1, value);
            out.int32(2, exactness);
            out.int64(3, epoch);
            out.message(4, routes);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> value = from.int64(value);
                case 2 -> exactness = from.int32(exactness);
                case 3 -> epoch = from.int64(epoch);
                case 4 -> routes = from.message(routes, RouteTable.Routes::new);
                default -> { }
            }
        }
    }

    /** Requests the last numbers of many uids. */
    public static final class CurrentManyRequest extends Message {
        public long[] uids = new long[0];
        public Long routeVersion;
        public int hops;
        public long[] knownEpochs = new long[0];

        @Override
        protected void write(Writer out) {
            out.list(1, uids);
            out.optional(2, routeVersion);
            out.uint32(3, hops);
            out.list(4, knownEpochs);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> uids = from.list(uids);
                case 2 -> routeVersion = from.optional(routeVersion);
                case 3 -> hops = from.int32(hops);
                case 4 -> knownEpochs = from.list(knownEpochs);
                default -> { }
            }
        }
    }

    /** Last numbers of many uids. */
    public static final class CurrentManyResponse extends Message {
        public long[] values = new long[0];
        public int[] exactness = new int[0];
        public long[] epochs = new long[0];
        public final List<ItemError> errors = new ArrayList<>();
        public RouteTable.Routes routes;

        @Override
        protected void write(Writer out) {
            out.list(1, values);
            out.list(2, exactness);
            out.list(3, epochs);
            out.messages(4, errors);
            out.message(5, routes);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> values = from.list(values);
                case 2 -> exactness = from.list(exactness);
                case 3 -> epochs = from.list(epochs);
                case 4 -> from.messages(errors, ItemError::new);
                case 5 -> routes = from.message(routes, RouteTable.Routes::new);
                default -> { }
            }
        }
    }

    /** Requests that one uid be raised to a number. */
    public static final class AdvanceRequest extends Message {
        public Long uid;
        public Long to;
        public Long routeVersion;
        public long epoch;
        public int hops;

        @Override
        protected void write(Writer out) {
            out.optional(1, uid);
            out.optional(2, to);
            out.optional(3, routeVersion);
            out.int64(4, epoch);
            out.uint32(5, hops);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> uid = from.optional(uid);
                case 2 -> to = from.optional(to);
                case 3 -> routeVersion = from.optional(routeVersion);
                case 4 -> epoch = from.int64(epoch);
                case 5 -> hops = from.int32(hops);
                default -> { }
            }
        }
    }

    /** States that a uid is at a number or above it. */
    public static final class AdvanceResponse extends Message {
        public long epoch;
        public RouteTable.Routes routes;

        @Override
        protected void write(Writer out) {
            out.int64(1, epoch);
            out.message(2, routes);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> epoch = from.int64(epoch);
                case 2 -> routes = from.message(routes, RouteTable.Routes::new);
                default -> { }
            }
        }
    }

    /** Requests the route table. */
    public static final class GetRoutesRequest extends Message {
        public long knownVersion;

        @Override
        protected void write(Writer out) {
            out.int64(1, knownVersion);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> knownVersion = from.int64(knownVersion);
                default -> { }
            }
        }
    }

    /** Route table of a node. */
    public static final class GetRoutesResponse extends Message {
        public RouteTable.Routes routes;

        @Override
        protected void write(Writer out) {
            out.message(1, routes);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> routes = from.message(routes, RouteTable.Routes::new);
                default -> { }
            }
        }
    }
}
