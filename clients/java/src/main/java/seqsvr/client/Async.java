package seqsvr.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Supplier;

/** Helpers for futures, whose errors are each a {@link SeqException}. */
final class Async {
    static final CompletableFuture<Void> DONE = CompletableFuture.completedFuture(null);

    private Async() { }

    static <T> CompletableFuture<T> failed(Throwable error) {
        return CompletableFuture.failedFuture(error);
    }

    /** Returns the future of a function, which may throw a {@link SeqException} instead. */
    static <T> CompletableFuture<T> run(Supplier<CompletableFuture<T>> function) {
        try {
            return function.get();
        } catch (SeqException e) {
            return failed(e);
        }
    }

    /** Returns the exception in the wrappers of futures. */
    static Throwable unwrap(Throwable error) {
        Throwable at = error;
        while (at instanceof CompletionException && at.getCause() != null) {
            at = at.getCause();
        }
        return at;
    }

    /** Returns the error of a call. Any exception that is not one of the client is a bug of it. */
    static SeqException errorOf(Throwable error) {
        Throwable cause = unwrap(error);
        if (cause instanceof SeqException e) {
            return e;
        }
        SeqException bug = new SeqException(Kind.BAD_ANSWER, Reasons.OTHER, "the client has failed").causedBy(cause);
        bug.mayHaveApplied = true;
        return bug;
    }
}
