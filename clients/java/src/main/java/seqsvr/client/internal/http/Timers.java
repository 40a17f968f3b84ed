package seqsvr.client.internal.http;

import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The timers of a client, in one daemon thread, which runs short tasks that do not block. */
public final class Timers {
    private final ScheduledThreadPoolExecutor executor;

    public Timers(String name) {
        executor = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
        executor.setRemoveOnCancelPolicy(true);
    }

    /** Runs a task after a time; never after the end of the timers, in which case the result is null. */
    public Future<?> after(long nanos, Runnable task) {
        try {
            return executor.schedule(task, Math.max(nanos, 0), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            return null;
        }
    }

    /** Cancels a timer, which may be null. */
    public static void cancel(Future<?> timer) {
        if (timer != null) {
            timer.cancel(false);
        }
    }

    /** Ends the timers. Tasks that are due later do not run. */
    public void close() {
        executor.shutdownNow();
    }
}
