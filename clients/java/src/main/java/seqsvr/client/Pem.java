package seqsvr.client;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A file in PEM. */
record Pem(Path path, String text) {
    /** Limit on the length of a file. Valid files are far shorter. */
    private static final int MAX_BYTES = 1 << 20;

    /** Reads a file that has all of these sections. */
    static Pem read(Path path, String... sections) throws IOException {
        if (!Files.exists(path)) {
            throw new IOException(path + ": no such file");
        }
        if (!Files.isRegularFile(path) || Files.size(path) > MAX_BYTES) {
            throw new IOException(path + " is no file of at most " + MAX_BYTES + " bytes");
        }
        Pem pem = new Pem(path, new String(Files.readAllBytes(path), StandardCharsets.ISO_8859_1));
        for (String section : sections) {
            if (pem.sections(section).isEmpty()) {
                throw new IOException(path + " has no section -----BEGIN " + section + "-----");
            }
        }
        return pem;
    }

    /** Returns the contents of each section of a kind. */
    List<byte[]> sections(String kind) throws IOException {
        Pattern pattern = Pattern.compile("-----BEGIN " + kind + "-----([^-]*)-----END " + kind + "-----");
        List<byte[]> contents = new ArrayList<>();
        Matcher matcher = pattern.matcher(text);
        while (matcher.find()) {
            try {
                contents.add(Base64.getDecoder().decode(matcher.group(1).replaceAll("\\s", "")));
            } catch (IllegalArgumentException e) {
                throw new IOException(path + " has a damaged section -----BEGIN " + kind + "-----", e);
            }
        }
        return contents;
    }

    /** Returns the path, because the text may have a key. */
    @Override
    public String toString() {
        return path.toString();
    }
}
