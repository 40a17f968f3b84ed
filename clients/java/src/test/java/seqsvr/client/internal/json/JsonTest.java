package seqsvr.client.internal.json;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
    @Test
    void valuesAreReadAndWritten() {
        String text = " {\"a\" : [1, -2.5, true, false, null, \"\\u00e4\\n\\\"\\/\" ], \"b\":{}, \"c\":[], \"d\":9223372036854775807 }";
        Object value = Json.parse(text);
        assertEquals(Map.of("a", Arrays.asList(1L, -2.5, true, false, null, "\u00e4\n\"/"), "b", Map.of(), "c", List.of(), "d",
                Long.MAX_VALUE), value);
        assertEquals(value, Json.parse(Json.write(value)));
        assertEquals(1.8446744073709552e19, Json.parse("18446744073709551615"));
        assertEquals("\"\\ud800x\\u0001\"", Json.write("\ud800x\u0001"));
    }

    @Test
    void otherTextsAreRefused() {
        for (String text : List.of("", "{", "[1,]", "{\"a\"}", "{a:1}", "01", "+1", "1.", "nul", "\"", "\"\\x\"", "\"\\u12\"",
                "\"\n\"", "1 2", "[".repeat(1000))) {
            assertThrows(IllegalArgumentException.class, () -> Json.parse(text), text);
        }
    }

    @Test
    void otherKindsOfValuesAreEmpty() {
        assertEquals(Map.of(), Json.object(List.of()));
        assertEquals(List.of(), Json.array("text"));
    }
}
