package seqsvr.client.tools;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import seqsvr.client.internal.json.Json;

/**
 * Writes Reasons.java and ReasonTable.java from the output of {@code seqsvr explain -o json} on its standard input, into
 * the directory that the first argument names; with a second argument, {@code --check}, it compares them instead.
 *
 * <p>The table is committed, so that a build needs no server, and a check compares it, so that it is never stale.
 */
public final class GenerateReasons {
    /** Subjects whose reasons have a constant, because a caller can meet them. */
    private static final Set<String> NAMED = Set.of("Allocation", "Ids", "Keys", "Endpoints", "Roles", "Tenants", "Clients");

    private static final int WIDTH = 118;

    private GenerateReasons() { }

    public static void main(String[] args) throws IOException {
        List<?> items = Json.array(Json.object(Json.parse(read(System.in))).get("items"));
        if (items.isEmpty()) {
            throw new IllegalStateException("the output of seqsvr explain has no items");
        }
        boolean isCheck = args.length > 1 && args[1].equals("--check");
        Map<String, String> files = Map.of("Reasons.java", constants(items), "ReasonTable.java", table(items));
        for (Map.Entry<String, String> file : files.entrySet()) {
            Path path = Path.of(args[0], file.getKey());
            if (!isCheck) {
                Files.writeString(path, file.getValue());
            } else if (!Files.readString(path).equals(file.getValue())) {
                System.err.println(path + " is stale: run clients/java/generate");
                System.exit(1);
            }
        }
    }

    private static String read(InputStream in) throws IOException {
        return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }

    private static String constants(List<?> items) {
        StringBuilder out = new StringBuilder("// Generated from `seqsvr explain -o json` by GenerateReasons. Do not edit.\n\n"
                + "package seqsvr.client;\n\n"
                + "/** Reasons that a caller can meet, as in {@link SeqException#reason}. {@link Reason#lookup} has all of"
                + " them. */\npublic final class Reasons {\n");
        for (Object item : items) {
            Map<String, Object> entry = Json.object(item);
            if (NAMED.contains(entry.get("subject"))) {
                String meaning = entry.get("meaning").toString().replace("&", "&amp;").replace("<", "&lt;")
                        .replace(">", "&gt;").replaceAll("`([^`]*)`", "{@code $1}");
                out.append(comment(meaning));
                out.append("    public static final String ").append(entry.get("reason")).append(" = \"")
                        .append(entry.get("reason")).append("\";\n");
            }
        }
        return out.append("\n    private Reasons() { }\n}\n").toString();
    }

    private static String comment(String text) {
        String line = "    /** " + text + " */";
        if (line.length() <= WIDTH) {
            return line + "\n";
        }
        StringBuilder out = new StringBuilder("    /**\n");
        for (String part : wrapped(text, WIDTH - 7)) {
            out.append("     * ").append(part.strip()).append('\n');
        }
        return out.append("     */\n").toString();
    }

    private static String table(List<?> items) {
        StringBuilder out = new StringBuilder("// Generated from `seqsvr explain -o json` by GenerateReasons. Do not edit.\n\n"
                + "package seqsvr.client;\n\n"
                + "import java.time.Duration;\nimport java.util.HashMap;\nimport java.util.Map;\n\n"
                + "/** The properties of all reasons. */\nfinal class ReasonTable {\n"
                + "    static final Map<String, Reason> ALL = new HashMap<>();\n\n    static {\n");
        for (Object item : items) {
            Map<String, Object> entry = Json.object(item);
            Object after = entry.get("retry_after_ms");
            String start = "        add(\"" + entry.get("reason") + "\", \"" + entry.get("subject") + "\", "
                    + entry.get("retryable") + ", " + (after instanceof Number ? after : 0) + ", "
                    + "unknown".equals(entry.get("outcome")) + ",";
            out.append(start);
            String separator = "\n                \"";
            for (String part : wrapped(entry.get("meaning").toString(), WIDTH - 24)) {
                out.append(separator).append(part.replace("\\", "\\\\").replace("\"", "\\\"")).append('"');
                separator = "\n                + \"";
            }
            out.append(");\n");
        }
        return out.append("    }\n\n    private ReasonTable() { }\n\n"
                + "    private static void add(String name, String subject, boolean retryable, long afterMs, boolean unknown,\n"
                + "            String meaning) {\n"
                + "        ALL.put(name, new Reason(name, subject, retryable, Duration.ofMillis(afterMs), unknown, meaning));\n"
                + "    }\n}\n").toString();
    }

    /** Returns a text in parts of at most so many characters, each of which but the last ends with a space. */
    private static List<String> wrapped(String text, int width) {
        List<String> parts = new ArrayList<>();
        StringBuilder part = new StringBuilder();
        for (String word : text.split("(?<= )")) {
            if (part.length() > 0 && part.length() + word.length() > width) {
                parts.add(part.toString());
                part.setLength(0);
            }
            part.append(word);
        }
        parts.add(part.toString());
        return parts;
    }
}
