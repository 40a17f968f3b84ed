package seqsvr.client.internal.wire;

import java.util.ArrayList;
import java.util.List;

/** Messages of google/rpc/error_details.proto, in which a refusal states its reason. */
public final class ErrorDetails {
    private ErrorDetails() { }

    /** Reason of a refusal. */
    public static final class ErrorInfo extends Message {
        public String reason = "";
        public String domain = "";
        public final List<Entry> metadata = new ArrayList<>();

        @Override
        protected void write(Writer out) {
            out.string(1, reason);
            out.string(2, domain);
            out.messages(3, metadata);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> reason = from.string(reason);
                case 2 -> domain = from.string(domain);
                case 3 -> from.messages(metadata, Entry::new);
                default -> { }
            }
        }

        /** Returns the metadata with a key; empty if there is none. */
        public String get(String key) {
            for (Entry entry : metadata) {
                if (entry.key.equals(key)) {
                    return entry.value;
                }
            }
            return "";
        }
    }

    /** Entry of a map. */
    public static final class Entry extends Message {
        public String key = "";
        public String value = "";

        @Override
        protected void write(Writer out) {
            out.string(1, key);
            out.string(2, value);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> key = from.string(key);
                case 2 -> value = from.string(value);
                default -> { }
            }
        }
    }

    /** Time after which a retry can succeed. */
    public static final class RetryInfo extends Message {
        public Duration retryDelay;

        @Override
        protected void write(Writer out) {
            out.message(1, retryDelay);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> retryDelay = from.message(retryDelay, Duration::new);
                default -> { }
            }
        }
    }

    /** Message google.protobuf.Duration. */
    public static final class Duration extends Message {
        public long seconds;
        public int nanos;

        @Override
        protected void write(Writer out) {
            out.int64(1, seconds);
            out.int32(2, nanos);
        }

        @Override
        protected void read(Reader from) throws Malformed {
            switch (from.number()) {
                case 1 -> seconds = from.int64(seconds);
                case 2 -> nanos = from.int32(nanos);
                default -> { }
            }
        }
    }
}
