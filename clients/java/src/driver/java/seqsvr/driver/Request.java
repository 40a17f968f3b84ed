package seqsvr.driver;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import seqsvr.client.Item;
import seqsvr.client.KeyItem;
import seqsvr.client.internal.json.Json;

/** A request. 64-bit values are strings of decimal digits. */
record Request(Map<String, Object> fields) {
    boolean has(String name) {
        return fields.get(name) != null;
    }

    String text(String name) {
        return has(name) ? fields.get(name).toString() : "";
    }

    String id() {
        return text("id");
    }

    String op() {
        return text("op");
    }

    String client() {
        return text("client");
    }

    long number(String name) {
        return has(name) ? Long.parseUnsignedLong(text(name)) : 0;
    }

    int integer(String name, int absent) {
        return has(name) ? Integer.parseUnsignedInt(text(name)) : absent;
    }

    boolean isTrue(String name) {
        return Boolean.TRUE.equals(fields.get(name));
    }

    boolean isNotFalse(String name) {
        return !Boolean.FALSE.equals(fields.get(name));
    }

    boolean hasDeadline() {
        return number("deadline_ms") > 0;
    }

    Duration deadline() {
        return Duration.ofMillis(number("deadline_ms"));
    }

    Map<String, Object> object(String name) {
        return Json.object(fields.get(name));
    }

    List<String> texts(String name) {
        return Json.array(fields.get(name)).stream().map(Object::toString).toList();
    }

    long[] uids() {
        return texts("uids").stream().mapToLong(Long::parseUnsignedLong).toArray();
    }

    /** Calls the first function with a key that is a text, and the second one with a key that is stated as bytes. */
    <T> T key(Function<String, T> ofText, Function<byte[], T> ofBytes) {
        Object key = fields.get("key");
        return key instanceof String text ? ofText.apply(text) : ofBytes.apply(bytes(key));
    }

    /** Returns the bytes of each key. */
    byte[][] keys() {
        return Json.array(fields.get("keys")).stream().map(Request::bytes).toArray(byte[][]::new);
    }

    /** Returns an item of each key, with the count of the request. */
    List<KeyItem> keyItems() {
        int count = integer("count", 1);
        return Arrays.stream(keys()).map(key -> new KeyItem(key, count)).toList();
    }

    /** Returns the bytes of a key: a text, or an object with them in hex. */
    private static byte[] bytes(Object key) {
        return key instanceof String text ? text.getBytes(StandardCharsets.UTF_8)
                : HexFormat.of().parseHex(Json.object(key).get("hex").toString());
    }

    List<Item> items() {
        List<?> counts = Json.array(fields.get("counts"));
        long[] uids = uids();
        List<Item> items = new ArrayList<>();
        for (int i = 0; i < uids.length; i++) {
            items.add(new Item(uids[i], Integer.parseUnsignedInt(counts.get(i).toString())));
        }
        return items;
    }
}
