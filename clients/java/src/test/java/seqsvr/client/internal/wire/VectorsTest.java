package seqsvr.client.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import seqsvr.client.internal.json.Json;

/**
 * Compares the codec with messages that the Python library of protobuf has encoded. The Go client has their file, and its
 * check compares it with that library.
 */
class VectorsTest {
    /** Messages of streams, and those in trailers of gRPC, which this client does not have. */
    private static final Set<String> OTHERS = Set.of("NextStreamRequest", "NextStreamRequest/long", "NextStreamResponse",
            "NextStreamResponse/refusal", "Status", "Status/negative");

    private static final long MAX = -1;

    static Map<String, byte[]> read() throws Exception {
        Map<String, byte[]> vectors = new LinkedHashMap<>();
        String text = Files.readString(Path.of("../go/internal/wire/testdata/vectors.json"));
        Json.object(Json.parse(text)).forEach((name, hex) -> vectors.put(name, HexFormat.of().parseHex((String) hex)));
        vectors.keySet().removeAll(OTHERS);
        return vectors;
    }

    private static <M extends Message> M with(M message, Consumer<M> change) {
        change.accept(message);
        return message;
    }

    static RouteTable.Routes routes() {
        RouteTable.Routes t = new RouteTable.Routes();
        t.set = "set-a";
        t.version = 7;
        t.baseVersion = 6;
        t.uidStart = 100;
        t.uidEnd = 1L << 40;
        t.sectionSize = 100_000;
        t.setId = 0x1122334455667788L;
        for (int i = 1; i <= 2; i++) {
            RouteTable.RouteNode node = new RouteTable.RouteNode();
            node.id = i;
            node.name = "a" + i;
            node.addr = i == 1 ? "127.0.0.1:7100" : "[::1]:1";
            t.nodes.add(node);
        }
        t.runs.add(with(new RouteTable.RouteRun(), run -> {
            run.sections = 3;
            run.owner = 1;
            run.epoch = 9;
        }));
        t.runs.add(with(new RouteTable.RouteRun(), run -> {
            run.firstSection = 3;
            run.sections = 300;
            run.epoch = 1L << 62;
            run.awaySetId = MAX;
        }));
        t.sets.add(with(new RouteTable.RouteSet(), set -> {
            set.id = 5;
            set.name = "b";
            set.allocs.addAll(List.of("x:1", "y:2"));
        }));
        t.series.add(with(new RouteTable.StoredSeries(), series -> {
            series.name = "tweets";
            series.shape = new byte[] {0x12, 0};
            series.createdMs = 1;
            series.retired = true;
            series.homeSetId = 3;
        }));
        return t;
    }

    /** Returns the same with a keyspace and the routes of its buckets. */
    private static RouteTable.Routes routesWithBuckets() {
        RouteTable.Routes t = routes();
        t.series.add(with(new RouteTable.StoredSeries(), series -> {
            series.name = "main";
            series.createdMs = 2;
            series.homeSetId = 3;
            series.lanes = new RouteTable.Lanes();
            series.lanes.count = 16_384;
            series.lanes.perSection = 1;
            series.lanes.firstSection = 400;
            series.lanes.keys = new RouteTable.Hashing();
            series.lanes.keys.digest = MAX;
        }));
        t.laneRuns.add(with(new RouteTable.RouteRun(), run -> {
            run.firstSection = 400;
            run.sections = 16;
            run.owner = 2;
            run.epoch = 1;
        }));
        return t;
    }

    /** Returns the messages of the file, stated a second time. */
    static Map<String, Message> messages() {
        Map<String, Message> m = new LinkedHashMap<>();
        m.put("NextRequest", with(new Sequence.NextRequest(), r -> {
            r.uid = 0L;
            r.count = 1_000_000;
            r.routeVersion = 0L;
            r.epoch = MAX;
            r.hops = 2;
        }));
        m.put("NextRequest/absent", new Sequence.NextRequest());
        m.put("NextResponse", with(new Sequence.NextResponse(), r -> {
            r.value = Long.MAX_VALUE;
            r.prev = (1L << 53) + 1;
            r.epoch = 3;
            r.routes = routes();
            r.lost = 0L;
        }));
        m.put("NextManyRequest", with(new Sequence.NextManyRequest(), r -> {
            r.uids = new long[] {0, 1, 127, 128, MAX};
            r.counts = new int[] {1, 2, 300};
            r.routeVersion = 5L;
            r.knownEpochs = new long[] {1L << 32};
        }));
        m.put("NextManyResponse", with(new Sequence.NextManyResponse(), r -> {
            r.values = new long[] {1, 0, 1L << 62};
            r.prevs = new long[] {0, 0, 5};
            r.epochs = new long[] {1, 0, 1};
            r.errors.add(with(new Sequence.ItemError(), e -> {
                e.index = 1;
                e.code = 14;
                e.reason = "MOVED";
                e.message = "away";
                e.retryAfterMs = 1;
                e.setId = 0L;
                e.since = MAX;
            }));
            r.lost = new Sequence.LostAttempts();
            r.lost.indexes = new int[] {0, 2};
            r.lost.attempts = new int[] {1, 300};
        }));
        m.put("CurrentRequest", with(new Sequence.CurrentRequest(), r -> {
            r.uid = MAX;
            r.routeVersion = 1L;
            r.epoch = 2;
        }));
        m.put("CurrentResponse", with(new Sequence.CurrentResponse(), r -> {
            r.value = 8;
            r.exactness = 2;
            r.epoch = 2;
        }));
        m.put("CurrentManyRequest", with(new Sequence.CurrentManyRequest(), r -> {
            r.uids = new long[] {1, 2};
            r.routeVersion = 0L;
            r.knownEpochs = new long[] {0, 7};
        }));
        m.put("CurrentManyResponse", with(new Sequence.CurrentManyResponse(), r -> {
            r.values = new long[] {4, 0};
            r.exactness = new int[] {1, 2};
            r.epochs = new long[] {1, 1};
        }));
        m.put("AdvanceRequest", with(new Sequence.AdvanceRequest(), r -> {
            r.uid = 0L;
            r.to = (1L << 62) - 1;
            r.epoch = 1;
        }));
        m.put("AdvanceResponse", with(new Sequence.AdvanceResponse(), r -> r.epoch = 4));
        m.put("GetRoutesRequest", with(new Sequence.GetRoutesRequest(), r -> r.knownVersion = 1L << 32));
        m.put("GetRoutesResponse", with(new Sequence.GetRoutesResponse(), r -> r.routes = routes()));
        for (String name : List.of("GetRoutesResponse/buckets", "GetRoutesResponse/skipped")) {
            m.put(name, with(new Sequence.GetRoutesResponse(), r -> r.routes = routesWithBuckets()));
        }
        m.put("Shape/counter", with(new RouteTable.Shape(), r -> {
            r.counter = new RouteTable.CounterShape();
            r.counter.offset = 1;
            r.counter.increment = 10;
            r.counter.maxId = Long.MAX_VALUE;
        }));
        m.put("Shape/timed", with(new RouteTable.Shape(), r -> {
            r.timed = new RouteTable.TimedShape();
            r.timed.epochMs = 1_288_834_974_657L;
            r.timed.unitMs = 1;
            r.timed.timeBits = 41;
            r.timed.laneBits = 10;
            r.timed.seqBits = 12;
            r.timed.spread = true;
            r.timed.namedLanes = true;
            r.timed.aheadMs = 1000;
        }));
        m.put("NextIdsRequest", with(new IdMessages.NextIdsRequest(), r -> {
            r.series = "media";
            r.count = 3;
            r.lane = 0L;
            r.after = Long.MAX_VALUE;
        }));
        m.put("NextIdsResponse", with(new IdMessages.NextIdsResponse(), r -> {
            for (long first : new long[] {5, 1L << 62}) {
                r.runs.add(with(new IdMessages.IdRun(), run -> {
                    run.first = first;
                    run.count = first == 5 ? 2 : 1;
                }));
            }
            r.step = 10;
            r.epoch = 2;
            r.lane = 1341;
        }));
        m.put("CurrentIdRequest", with(new IdMessages.CurrentIdRequest(), r -> r.series = "orders"));
        m.put("CurrentIdResponse", with(new IdMessages.CurrentIdResponse(), r -> {
            r.id = Long.MAX_VALUE;
            r.exact = true;
            r.epoch = 1;
        }));
        m.put("AdvanceIdRequest", with(new IdMessages.AdvanceIdRequest(), r -> {
            r.series = "orders";
            r.to = (1L << 53) + 1;
        }));
        m.put("AdvanceIdResponse", with(new IdMessages.AdvanceIdResponse(), r -> r.epoch = 1));
        putKeys(m);
        m.put("RetryInfo/negative", with(new ErrorDetails.RetryInfo(), r -> {
            r.retryDelay = new ErrorDetails.Duration();
            r.retryDelay.seconds = -1;
            r.retryDelay.nanos = -5;
        }));
        return m;
    }

    private static void putKeys(Map<String, Message> m) {
        m.put("NextKeyRequest", with(new KeyMessages.NextKeyRequest(), r -> {
            r.keyspace = "main";
            r.rawKey = latin1("conv:\u00ff\0");
            r.count = 1_000_000;
            r.routeVersion = 0L;
            r.epoch = MAX;
        }));
        m.put("NextKeysRequest", with(new KeyMessages.NextKeysRequest(), r -> {
            r.keyspace = "main";
            r.rawKeys.addAll(List.of(latin1("a"), latin1(""), latin1("\u00ff")));
            r.counts = new int[] {1, 2, 300};
            r.routeVersion = 5L;
            r.knownEpochs = new long[] {0, 1, 1L << 32};
        }));
        m.put("CurrentKeyRequest", with(new KeyMessages.CurrentKeyRequest(), r -> {
            r.keyspace = "main";
            r.rawKey = latin1("\r\n");
            r.routeVersion = 1L;
            r.epoch = 2;
        }));
        m.put("CurrentKeysRequest", with(new KeyMessages.CurrentKeysRequest(), r -> {
            r.keyspace = "main";
            r.rawKeys.add(latin1("k".repeat(512)));
            r.routeVersion = 0L;
            r.knownEpochs = new long[] {7};
        }));
        m.put("AdvanceKeyRequest", with(new KeyMessages.AdvanceKeyRequest(), r -> {
            r.keyspace = "main";
            r.rawKey = latin1("\0");
            r.to = (1L << 62) - 1;
            r.routeVersion = 0L;
            r.epoch = 1;
        }));
    }

    /** Returns the bytes that the characters of a text are. */
    private static byte[] latin1(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static Message empty(Message of) {
        try {
            return of.getClass().getConstructor().newInstance();
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Returns every field of a message as text. */
    static String describe(Object value) {
        if (value instanceof Message message) {
            Map<String, String> fields = new LinkedHashMap<>();
            for (Field field : message.getClass().getFields()) {
                try {
                    fields.put(field.getName(), describe(field.get(message)));
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(e);
                }
            }
            return message.getClass().getSimpleName() + fields;
        }
        List<String> elements = new ArrayList<>();
        if (value instanceof List<?> list) {
            list.forEach(element -> elements.add(describe(element)));
            return elements.toString();
        }
        if (value != null && value.getClass().isArray()) {
            for (int i = 0; i < Array.getLength(value); i++) {
                elements.add(describe(Array.get(value, i)));
            }
            return elements.toString();
        }
        return String.valueOf(value);
    }

    @Test
    void messagesAreEncodedAndDecodedAsByTheLibraryOfPython() throws Exception {
        Map<String, byte[]> encoded = read();
        assertEquals(new TreeSet<>(encoded.keySet()), new TreeSet<>(messages().keySet()));
        for (Map.Entry<String, Message> entry : messages().entrySet()) {
            byte[] data = encoded.get(entry.getKey());
            if (!entry.getKey().endsWith("/skipped")) {
                assertArrayEquals(data, entry.getValue().encode(), entry.getKey());
            }
            Message decoded = empty(entry.getValue());
            decoded.decode(data);
            assertEquals(describe(entry.getValue()), describe(decoded), entry.getKey());
        }
    }

    /** Each part of a message, and each with a changed bit, is refused or decoded to a message that is stable. */
    @Test
    void decodingIsStable() {
        Random random = new Random(1);
        messages().forEach((name, message) -> {
            byte[] data = message.encode();
            for (int end = 0; end < data.length; end++) {
                stable(message, Arrays.copyOf(data, end));
            }
            for (int i = 0; i < 500 && data.length > 0; i++) {
                byte[] changed = data.clone();
                for (int bits = random.nextInt(4); bits >= 0; bits--) {
                    changed[random.nextInt(changed.length)] ^= (byte) (1 << random.nextInt(8));
                }
                stable(message, changed);
            }
        });
        byte[] noise = new byte[64];
        for (int i = 0; i < 2_000; i++) {
            random.nextBytes(noise);
            messages().values().forEach(message -> stable(message, noise));
        }
    }

    private static void stable(Message kind, byte[] data) {
        Message first = empty(kind);
        try {
            first.decode(data);
        } catch (Malformed e) {
            return;
        }
        Message second = empty(kind);
        try {
            second.decode(first.encode());
        } catch (Malformed e) {
            throw new AssertionError(HexFormat.of().formatHex(data), e);
        }
        assertEquals(describe(first), describe(second), () -> HexFormat.of().formatHex(data));
    }
}
