package seqsvr.client.cluster;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Starts real servers for tests: the program is {@code $SEQSVR}, or the one that cargo has built in target/debug. It never
 * downloads anything.
 */
public final class Servers {
    /** Timeout of waits for servers. Far longer than they take, so only a hang fails. */
    public static final Duration TIMEOUT = Duration.ofMinutes(2);

    private Servers() { }

    /** Returns the path of the server's program. */
    public static Path program() {
        String named = System.getenv("SEQSVR");
        Path program = Path.of(named == null ? "../../target/debug/seqsvr" : named).toAbsolutePath().normalize();
        if (!Files.isExecutable(program)) {
            throw new IllegalStateException("no program at " + program + ": cargo build, or name one in SEQSVR");
        }
        return program;
    }

    /** A process of the program. */
    public static final class Server {
        private final Process process;

        private Server(Process process) {
            this.process = process;
        }

        /** Sends a signal, e.g. STOP. */
        public void signal(String name) {
            try {
                new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
            } catch (IOException e) {
                throw new IllegalStateException(e);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        /** Kills the process, and returns when it has ended. */
        public void kill() {
            process.destroyForcibly();
            await();
        }

        /** Requests an orderly stop, and returns when the process has ended. */
        public void terminate() {
            process.destroy();
            await();
        }

        private void await() {
            try {
                if (!process.waitFor(TIMEOUT.toSeconds(), TimeUnit.SECONDS)) {
                    throw new IllegalStateException("the process has not ended");
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        /** Returns the first line of the standard output; null if the process ended before. */
        String firstLine() throws IOException {
            return new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)).readLine();
        }
    }

    /** Starts a server whose log goes to a file. */
    static Server start(Path log, List<String> args) throws IOException {
        List<String> command = new ArrayList<>(List.of(program().toString()));
        command.addAll(args);
        return new Server(new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start());
    }

    /** Runs a command of the program, which must succeed, and returns its output. */
    public static String run(Map<String, String> environment, String... args) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(program().toString()));
        command.addAll(List.of(args));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().putAll(environment);
        Path errors = Files.createTempFile("seqsvr-java", ".log");
        try {
            Process process = builder.redirectError(errors.toFile()).start();
            String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (process.waitFor() != 0) {
                throw new IllegalStateException(List.of(args) + ": " + Files.readString(errors));
            }
            return out;
        } finally {
            Files.delete(errors);
        }
    }
}
