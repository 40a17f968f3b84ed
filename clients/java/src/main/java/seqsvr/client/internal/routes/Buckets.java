package seqsvr.client.internal.routes;

import java.util.function.Consumer;
import seqsvr.client.internal.wire.RouteTable;

/**
 * The buckets of a keyspace in the routes, which are sections after the sections of the uids.
 *
 * @param home index of the set that was the first to send the layout of the keyspace's cluster
 * @param first section of the first bucket
 */
public record Buckets(int home, int first) {
    /** Number of buckets of each keyspace. */
    public static final int COUNT = 16_384;

    /** Checksum of each byte. */
    private static final int[] CRC = table();

    /** Returns the section of the bucket of a key. */
    public int section(byte[] key) {
        return first + bucket(key);
    }

    /**
     * Returns the bucket of a key, which is its slot in Redis Cluster: CRC16 (XMODEM) modulo {@link #COUNT}, of the key's
     * hash tag if it has one. The hash tag is the part between the first { and the next }, unless it is empty.
     */
    public static int bucket(byte[] key) {
        int open = indexOf(key, '{', 0);
        int close = open < 0 ? -1 : indexOf(key, '}', open + 1);
        boolean hasTag = close > open + 1;
        return (hasTag ? crc16(key, open + 1, close) : crc16(key, 0, key.length)) % COUNT;
    }

    private static int indexOf(byte[] key, char b, int from) {
        for (int i = from; i < key.length; i++) {
            if (key[i] == b) {
                return i;
            }
        }
        return -1;
    }

    /** Returns the checksum with the polynomial 0x1021, the highest bit first, and 0 as the initial value. */
    static int crc16(byte[] key, int from, int to) {
        int crc = 0;
        for (int i = from; i < to; i++) {
            crc = (crc << 8 & 0xffff) ^ CRC[crc >>> 8 ^ key[i] & 0xff];
        }
        return crc;
    }

    private static int[] table() {
        int[] table = new int[256];
        for (int b = 0; b < table.length; b++) {
            int crc = b << 8;
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1;
            }
            table[b] = crc & 0xffff;
        }
        return table;
    }

    /** Returns the buckets of a record; null if it describes no keyspace whose keys this client can map to buckets. */
    static Buckets of(RouteTable.StoredSeries series, int home) {
        RouteTable.Lanes lanes = series.lanes;
        boolean isKeyspace = lanes != null && lanes.keys != null && lanes.count == COUNT && lanes.perSection == 1
                && lanes.firstSection >= 0 && lanes.firstSection <= TableCheck.MAX_SECTIONS - COUNT;
        return isKeyspace ? new Buckets(home, lanes.firstSection) : null;
    }

    /** Calls a function with the runs of a table, which is valid, as far as they are of buckets of its keyspaces. */
    static void runs(RouteTable.Routes table, Consumer<RouteTable.RouteRun> each) {
        for (RouteTable.StoredSeries series : table.series) {
            Buckets buckets = of(series, 0);
            if (buckets == null) {
                continue;
            }
            for (RouteTable.RouteRun run : table.laneRuns) {
                int from = Math.max(run.firstSection, buckets.first);
                int end = Math.min(run.firstSection + run.sections, buckets.first + COUNT);
                if (from < end) {
                    RouteTable.RouteRun part = new RouteTable.RouteRun();
                    part.firstSection = from;
                    part.sections = end - from;
                    part.owner = run.owner;
                    part.epoch = run.epoch;
                    part.awaySetId = run.awaySetId;
                    each.accept(part);
                }
            }
        }
    }
}
