package seqsvr.client.internal.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.HexFormat;
import java.util.Map;
import org.junit.jupiter.api.Test;

class CodecTest {
    private static byte[] hex(String text) {
        return HexFormat.of().parseHex(text.replace(" ", ""));
    }

    @Test
    void nestedMessagesAndListsOfEachLengthAreRead() throws Malformed {
        for (int items : new int[] {0, 1, 100, 126, 127, 128, 200, 16_381, 16_383, 40_000}) {
            Sequence.NextManyResponse want = new Sequence.NextManyResponse();
            want.values = new long[items];
            want.lost = new Sequence.LostAttempts();
            want.lost.indexes = new int[items];
            for (int i = 0; i < items; i++) {
                want.values[i] = (long) i << i % 63;
                want.lost.indexes[i] = i;
            }
            Sequence.NextManyResponse got = new Sequence.NextManyResponse();
            got.decode(want.encode());
            assertArrayEquals(want.values, got.values);
            assertArrayEquals(want.lost.indexes, got.lost.indexes);
        }
    }

    @Test
    void listsThatAreNotPackedAndRepeatedFieldsAreMerged() throws Malformed {
        Sequence.NextManyRequest got = new Sequence.NextManyRequest();
        // The uids 1, packed 2 and 3, and 4; a route version twice, of which the last one counts.
        got.decode(hex("0801 0a020203 0804 1805 1806"));
        assertArrayEquals(new long[] {1, 2, 3, 4}, got.uids);
        assertEquals(6, got.routeVersion);
        // Two kinds of a shape, of which the last one counts; and one kind twice, which is merged.
        RouteTable.Shape shape = new RouteTable.Shape();
        shape.decode(hex("0a020801 12020801"));
        assertNull(shape.counter);
        assertEquals(1, shape.timed.epochMs);
        shape.decode(hex("0a020801 0a021002"));
        assertNull(shape.timed);
        assertEquals(1, shape.counter.offset);
        assertEquals(2, shape.counter.increment);
    }

    @Test
    void unknownFieldsOfEachWireTypeAreSkipped() throws Malformed {
        String unknown = "f80701" // field 127, varint
                + "f907 0102030405060708" // fixed64
                + "fa07 02 ffff" // bytes
                + "fd07 01020304" // fixed32
                + "fb07 0801 13 0802 14 fc07" // a group with a field and a group
                + "09 0102030405060708" // field 1 with other wire types
                + "0a 0108";
        Sequence.AdvanceResponse got = new Sequence.AdvanceResponse();
        got.decode(hex(unknown + "0804"));
        assertEquals(4, got.epoch);
    }

    @Test
    void bytesThatAreNoMessageAreRefused() {
        Map<String, String> cases = Map.ofEntries(
                Map.entry("a tag without a value", "08"),
                Map.entry("a varint without an end", "08ff"),
                Map.entry("a varint of eleven bytes", "08ffffffffffffffffffff01"),
                Map.entry("a varint above 64 bits", "08ffffffffffffffffff02"),
                Map.entry("field 0", "0001"),
                Map.entry("a field above the range", "808080801001"),
                Map.entry("a length past the end", "120501"),
                Map.entry("a length near 2^64", "12ffffffffffffffffff01"),
                Map.entry("fixed64 that ends early", "090102"),
                Map.entry("fixed32 that ends early", "0d0102"),
                Map.entry("a wire type that is not one", "0e01"),
                Map.entry("the end of no group", "0c"),
                Map.entry("a group without an end", "0b0801"),
                Map.entry("the end of another group", "0b14"),
                Map.entry("groups nested too deep", "0b".repeat(100) + "0c".repeat(100)),
                Map.entry("a nested message that is none", "1201ff"));
        cases.forEach((name, data) ->
                assertThrows(Malformed.class, () -> new Sequence.AdvanceResponse().decode(hex(data)), name));
        assertThrows(Malformed.class, () -> new Sequence.ItemError().decode(hex("1a01ff")), "a text that is not UTF-8");
        assertThrows(Malformed.class, () -> new RouteTable.RouteSet().decode(hex("1a01ff")), "a text of a list");
        assertThrows(Malformed.class, () -> new Sequence.NextManyRequest().decode(hex("0a01ff")), "a list that ends early");
    }

    @Test
    void groupsMayNestWithinTheLimit() throws Malformed {
        new Sequence.AdvanceResponse().decode(hex("0b".repeat(30) + "0c".repeat(30)));
    }
}
