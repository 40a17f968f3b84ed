package seqsvr.client.internal.http;

import java.util.ArrayDeque;

/** A semaphore whose tasks wait in order without a thread. */
final class Permits {
    private final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
    private int free;

    Permits(int count) {
        free = count;
    }

    /** Runs a task once it has a permit, which it releases itself: now, or in the thread that releases the permit. */
    void acquire(Runnable task) {
        synchronized (this) {
            if (free == 0) {
                waiting.add(task);
                return;
            }
            free--;
        }
        task.run();
    }

    /** Forgets a task that waits. */
    synchronized void forget(Runnable task) {
        waiting.remove(task);
    }

    void release() {
        Runnable next;
        synchronized (this) {
            next = waiting.poll();
            if (next == null) {
                free++;
                return;
            }
        }
        next.run();
    }
}
