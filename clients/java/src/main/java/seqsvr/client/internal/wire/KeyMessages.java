package seqsvr.client.internal.wire;

import java.util.ArrayList;
import java.util.List;

/** Messages of proto/seqsvr/v1/keys.proto. Keys are any bytes, so the fields of keys as text are left out. */
public final class KeyMessages {
    private KeyMessages() { }

    /** Requests numbers of one key. */
    public static final class NextKeyRequest extends Message {
        public String keyspace = "";
        public byte[] rawKey = new byte[0];
        public int count;
        public Long routeVersion;
        public long epoch;

        @Override
        protected void write(Writer out) {
            out.string(1, keyspace);
            out.bytes(3, rawKey);
            out.uint32(4, count);
            out.optional(5, routeVersion);
            out.int64(6, epoch);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> keyspace = from.string(keyspace);
                case 3 -> rawKey = from.bytes(rawKey);
                case 4 -> count = from.int32(count);
                case 5 -> routeVersion = from.optional(routeVersion);
                case 6 -> epoch = from.int64(epoch);
                default -> { }
            }
        }
    }

    /** Requests numbers of many keys of one keyspace. */
    public static final class NextKeysRequest extends Message {
        public String keyspace = "";
        public final List<byte[]> rawKeys = new ArrayList<>();
        public int[] counts = new int[0];
        public Long routeVersion;
        public long[] knownEpochs = new long[0];

        @Override
        protected void write(Writer out) {
            out.string(1, keyspace);
            out.bytesList(3, rawKeys);
            out.list(4, counts);
            out.optional(5, routeVersion);
            out.list(6, knownEpochs);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> keyspace = from.string(keyspace);
                case 3 -> from.bytesList(rawKeys);
                case 4 -> counts = from.list(counts);
                case 5 -> routeVersion = from.optional(routeVersion);
                case 6 -> knownEpochs = from.list(knownEpochs);
                default -> { }
            }
        }
    }

    /** Requests the last number of one key. */
    public static final class CurrentKeyRequest extends Message {
        public String keyspace = "";
        public byte[] rawKey = new byte[0];
        public Long routeVersion;
        public long epoch;

        @Override
        protected void write(Writer out) {
            out.string(1, keyspace);
            out.bytes(3, rawKey);
            out.optional(4, routeVersion);
            out.int64(5, epoch);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> keyspace = from.string(keyspace);
                case 3 -> rawKey = from.bytes(rawKey);
                case 4 -> routeVersion = from.optional(routeVersion);
                case 5 -> epoch = from.int64(epoch);
                default -> { }
            }
        }
    }

    /** Requests the last numbers of many keys of one keyspace. */
    public static final class CurrentKeysRequest extends Message {
        public String keyspace = "";
        public final List<byte[]> rawKeys = new ArrayList<>();
        public Long routeVersion;
        public long[] knownEpochs = new long[0];

        @Override
        protected void write(Writer out) {
            out.string(1, keyspace);
            out.bytesList(3, rawKeys);
            out.optional(4, routeVersion);
            out.list(5, knownEpochs);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> keyspace = from.string(keyspace);
                case 3 -> from.bytesList(rawKeys);
                case 4 -> routeVersion = from.optional(routeVersion);
                case 5 -> knownEpochs = from.list(knownEpochs);
                default -> { }
            }
        }
    }

    /** Requests that one key be raised to a number. */
    public static final class AdvanceKeyRequest extends Message {
        public String keyspace = "";
        public byte[] rawKey = new byte[0];
        public Long to;
        public Long routeVersion;
        public long epoch;

        @Override
        protected void write(Writer out) {
            out.string(1, keyspace);
            out.bytes(3, rawKey);
            out.optional(4, to);
            out.optional(5, routeVersion);
            out.int64(6, epoch);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> keyspace = from.string(keyspace);
                case 3 -> rawKey = from.bytes(rawKey);
                case 4 -> to = from.optional(to);
                case 5 -> routeVersion = from.optional(routeVersion);
                case 6 -> epoch = from.int64(epoch);
                default -> { }
            }
        }
    }
}
