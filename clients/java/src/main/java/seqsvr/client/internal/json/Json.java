package seqsvr.client.internal.json;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON, in which the Connect protocol encodes refusals. Values are {@link Map}, {@link List}, {@link
 * String}, {@link Number} as {@link Long} or {@link Double}, {@link Boolean} and null.
 */
public final class Json {
    /** Limit on nested objects and arrays. A refusal nests four levels deep. */
    private static final int MAX_DEPTH = 64;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** Returns the value in a text. Throws {@link IllegalArgumentException} for a text that is not JSON. */
    public static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at < text.length()) {
            throw json.wrong();
        }
        return value;
    }

    /** Returns an object as a map without a checked type; an empty one for any other value. */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> object(Object value) {
        return value instanceof Map<?, ?> map ? (Map<String, Object>) map : Map.of();
    }

    /** Returns an array as a list; an empty one for any other value. */
    public static List<?> array(Object value) {
        return value instanceof List<?> list ? list : List.of();
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("invalid JSON at character " + at);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean accept(String token) {
        boolean found = text.startsWith(token, at);
        at += found ? token.length() : 0;
        return found;
    }

    private void expect(String token) {
        space();
        if (!accept(token)) {
            throw wrong();
        }
    }

    private Object value() {
        space();
        if (at >= text.length() || ++depth > MAX_DEPTH) {
            throw wrong();
        }
        Object value = switch (text.charAt(at)) {
            case '{' -> members();
            case '[' -> elements();
            case '"' -> string();
            default -> word();
        };
        depth--;
        return value;
    }

    private Object word() {
        if (accept("true")) {
            return true;
        }
        if (accept("false")) {
            return false;
        }
        return accept("null") ? null : number();
    }

    private Map<String, Object> members() {
        Map<String, Object> members = new LinkedHashMap<>();
        expect("{");
        space();
        if (accept("}")) {
            return members;
        }
        do {
            space();
            String name = string();
            expect(":");
            members.put(name, value());
            space();
        } while (accept(","));
        expect("}");
        return members;
    }

    private List<Object> elements() {
        List<Object> elements = new ArrayList<>();
        expect("[");
        space();
        if (accept("]")) {
            return elements;
        }
        do {
            elements.add(value());
            space();
        } while (accept(","));
        expect("]");
        return elements;
    }

    private Number number() {
        int start = at;
        while (at < text.length() && "+-0123456789.eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        try {
            if (digits.matches("-?(0|[1-9][0-9]*)")) {
                return Long.valueOf(digits);
            }
            if (digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
                return Double.valueOf(digits);
            }
        } catch (NumberFormatException e) {
            // An integer that is longer than 64 bits.
            return Double.valueOf(digits);
        }
        throw wrong();
    }

    private String string() {
        if (!accept("\"")) {
            throw wrong();
        }
        StringBuilder out = new StringBuilder();
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                return out.toString();
            }
            if (c < ' ') {
                throw wrong();
            }
            out.append(c == '\\' ? escaped() : c);
        }
        throw wrong();
    }

    private char escaped() {
        if (at >= text.length()) {
            throw wrong();
        }
        char c = text.charAt(at++);
        switch (c) {
            case '"', '\\', '/' -> {
                return c;
            }
            case 'b' -> {
                return '\b';
            }
            case 'f' -> {
                return '\f';
            }
            case 'n' -> {
                return '\n';
            }
            case 'r' -> {
                return '\r';
            }
            case 't' -> {
                return '\t';
            }
            case 'u' -> {
                int unit = 0;
                for (int i = 0; i < 4; i++, at++) {
                    int digit = at < text.length() ? Character.digit(text.charAt(at), 16) : -1;
                    if (digit < 0) {
                        throw wrong();
                    }
                    unit = unit * 16 + digit;
                }
                return (char) unit;
            }
            default -> throw wrong();
        }
    }

    /** Returns a value as JSON, in one line. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                quote(entry.getKey().toString(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Iterable<?> list) {
            String separator = "[";
            for (Object element : list) {
                out.append(separator);
                write(element, out);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(value.toString(), out);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || Character.isSurrogate(c)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
