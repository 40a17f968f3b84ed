package seqsvr.client;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import javax.net.ssl.SSLContext;

/** The contents of the files of {@link Tls}, which are read again when the files change. */
final class Credentials {
    /** Minimum interval between two looks at the files. */
    private static final long LOOK_INTERVAL = 1_000_000_000;

    /** The part of a file's metadata that changes with its contents. */
    private record State(long size, FileTime modified, Object key) { }

    private final Tls files;
    private volatile SSLContext current;
    private volatile long lookedAt;
    /** State of the files when they were last read. Guarded by the lock of this object. */
    private List<Optional<State>> seen = List.of();

    /** Reads the files. Throws the error of files that cannot be used. */
    Credentials(Tls files) {
        this.files = files;
        try {
            read();
        } catch (IOException | GeneralSecurityException e) {
            throw Errors.connect(false, e, "the certificates cannot be used");
        }
    }

    /** Reads the files now. On an error the former contents stay in use. */
    void reload() {
        try {
            read();
        } catch (IOException | GeneralSecurityException e) {
            throw Errors.connect(false, e, "the certificates cannot be used; the former ones stay in use");
        }
    }

    /** Returns the contents of the files, which are read again if the files have changed a second ago. */
    SSLContext context() {
        long now = System.nanoTime();
        if (now - lookedAt >= LOOK_INTERVAL) {
            look(now);
        }
        return current;
    }

    private synchronized void look(long now) {
        if (now - lookedAt < LOOK_INTERVAL) {
            return;
        }
        lookedAt = now;
        if (states().equals(seen)) {
            return;
        }
        try {
            read();
            Core.LOG.log(Level.INFO, "certificate files were read again");
        } catch (IOException | GeneralSecurityException e) {
            Core.LOG.log(Level.WARNING,
                    () -> "changed certificate files are not valid; the former ones stay in use: " + e.getMessage());
        }
    }

    private synchronized void read() throws IOException, GeneralSecurityException {
        lookedAt = System.nanoTime();
        seen = states();
        current = Trust.read(files).context();
    }

    private List<Optional<State>> states() {
        List<Optional<State>> states = new ArrayList<>();
        states.add(state(files.ca()));
        files.certificate().ifPresent(path -> states.add(state(path)));
        files.revocations().ifPresent(path -> states.add(state(path)));
        return states;
    }

    private static Optional<State> state(Path path) {
        try {
            BasicFileAttributes attributes = Files.readAttributes(path, BasicFileAttributes.class);
            return Optional.of(new State(attributes.size(), attributes.lastModifiedTime(), attributes.fileKey()));
        } catch (IOException e) {
            return Optional.empty();
        }
    }
}
