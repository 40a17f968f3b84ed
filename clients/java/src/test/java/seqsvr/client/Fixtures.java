package seqsvr.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.function.Executable;
import seqsvr.client.fake.Refusal;
import seqsvr.client.fake.World;

/** Helpers of tests with servers in this process. */
final class Fixtures {
    /** Deadline of calls that must not end by it. Far longer than they take, so only a hang fails. */
    static final Duration LONG = Duration.ofMinutes(1);

    private Fixtures() { }

    static SeqClient.Builder settings(World world) {
        return SeqClient.builder().seeds(world.seeds()).deadline(LONG);
    }

    static SeqClient open(World world) {
        return settings(world).build();
    }

    static SeqClient openAlone(World world) {
        return settings(world).coalescing(false).build();
    }

    /** Returns the error of a call, which must be of a kind. */
    static SeqException fails(Kind kind, Executable call) {
        SeqException error = assertThrows(SeqException.class, call);
        assertEquals(kind, error.kind(), error::toString);
        return error;
    }

    /** Returns the error with which a future ends. */
    static SeqException fails(Kind kind, CompletableFuture<?> future) {
        return fails(kind, () -> {
            try {
                future.orTimeout(LONG.toSeconds(), TimeUnit.SECONDS).join();
            } catch (CompletionException e) {
                throw e.getCause();
            }
        });
    }

    static <T> T join(CompletableFuture<T> future) {
        return future.orTimeout(LONG.toSeconds(), TimeUnit.SECONDS).join();
    }

    static List<Refusal> refusals(String reason, int code, int hintMs, int times) {
        return Collections.nCopies(times, new Refusal(reason, code, hintMs));
    }
}
