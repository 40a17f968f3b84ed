package seqsvr.client;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Function;
import seqsvr.client.internal.http.Timers;

/**
 * One call under one deadline. It ends exactly once, with a value or a {@link SeqException}: also when its future is
 * cancelled, its thread is interrupted, or the client is closed.
 *
 * @param <T> type of the value
 */
final class Call<T> {
    /** The longest deadline. A longer one is reduced to it. */
    static final Duration MAX_DEADLINE = Duration.ofDays(1);

    /** Minimum time after which an attempt without a response ends, if another node could serve. */
    private static final long MIN_ATTEMPT = 1_000_000_000;

    /** Number of such attempts that fit into the deadline. */
    private static final long ATTEMPT_SHARE = 3;

    final Core core;
    final Observer.Call info;
    /** Whether the call changes no counter. */
    final boolean reads;
    final long started = System.nanoTime();
    /** Time at which the call ends, by {@link System#nanoTime}. */
    final long deadline;
    /** Limit on the time of an attempt while another node can serve. */
    final long limit;
    /** Object that the observer returned. */
    final Object context;

    private final CompletableFuture<T> result = new CompletableFuture<>();
    private final CompletableFuture<Void> interruption = new CompletableFuture<>();
    private volatile boolean isCancelled;

    private Call(Core core, Observer.Call info, boolean reads, Duration deadline) {
        this.core = core;
        this.info = info;
        this.reads = reads;
        Duration bounded = deadline.compareTo(MAX_DEADLINE) > 0 ? MAX_DEADLINE : deadline;
        long nanos = Math.max(bounded.toNanos(), 0);
        this.deadline = started + nanos;
        this.limit = Math.max(MIN_ATTEMPT, nanos / ATTEMPT_SHARE);
        this.context = core.observe(observer -> observer.callStarted(info));
    }

    /** Starts a call. Its body makes attempts and returns the future of the value. */
    static <T> Call<T> start(Core core, Observer.Call info, boolean reads, Duration deadline,
            Function<Attempts, CompletableFuture<T>> body) {
        Call<T> call = new Call<>(core, info, reads, deadline);
        Attempts attempts = new Attempts(call);
        core.counters.calls.increment();
        core.active.add(call);
        SeqException error = core.isClosing ? attempts.errors.closed() : call.interrupted(attempts);
        CompletableFuture<T> running = error != null ? Async.failed(error) : Async.run(() -> body.apply(attempts));
        running.whenComplete((value, failed) -> call.end(attempts, value, failed));
        call.result.whenComplete((value, failed) -> {
            if (call.result.isCancelled()) {
                call.cancel();
            }
        });
        return call;
    }

    private void end(Attempts attempts, T value, Throwable failed) {
        SeqException error = failed == null ? null : Async.errorOf(failed);
        if (error != null && reads) {
            error.mayHaveApplied = false;
        }
        core.observe(observer -> {
            Duration duration = Duration.ofNanos(System.nanoTime() - started);
            observer.callEnded(context, info,
                    new Observer.CallEnd(duration, attempts.made, attempts.lost, Optional.ofNullable(error)));
            return null;
        });
        core.ended(this);
        if (error == null) {
            result.complete(value);
        } else {
            result.completeExceptionally(error);
        }
    }

    /** Returns the future of the call. Its cancellation ends the call. */
    CompletableFuture<T> result() {
        return result;
    }

    /** Waits for the end of the call. An interrupt of the thread ends it. */
    T await() {
        boolean wasInterrupted = false;
        try {
            while (true) {
                try {
                    return result.get();
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                    cancel();
                }
            }
        } catch (ExecutionException e) {
            throw Async.errorOf(e.getCause()).here();
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Ends the call with the error of a cancelled one. */
    void cancel() {
        isCancelled = true;
        interruption.complete(null);
    }

    /** Ends the call because the client was closed. */
    void close() {
        interruption.complete(null);
    }

    /** Runs a task when the call is cancelled or the client is closed; now, if that has happened. */
    void onInterruption(Runnable task) {
        interruption.thenRun(task);
    }

    /** Returns an error if the client was closed, the call was cancelled, or its deadline has passed; otherwise null. */
    SeqException interrupted(Attempts attempts) {
        if (core.isClosed) {
            return attempts.errors.closed();
        }
        if (isCancelled) {
            return attempts.errors.cancelled();
        }
        return System.nanoTime() - deadline >= 0 ? attempts.errors.deadline() : null;
    }

    /**
     * Returns a future that ends with another one, but at the latest after some time, and when the call is interrupted.
     * It never fails.
     */
    CompletableFuture<Void> atMost(CompletableFuture<?> other, long nanos) {
        CompletableFuture<Void> bounded = new CompletableFuture<>();
        Future<?> timer = core.timers.after(nanos, () -> bounded.complete(null));
        if (timer == null) {
            bounded.complete(null);
        }
        other.whenComplete((value, error) -> bounded.complete(null));
        onInterruption(() -> bounded.complete(null));
        return bounded.whenComplete((value, error) -> Timers.cancel(timer));
    }
}
