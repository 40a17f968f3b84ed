package seqsvr.client.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import seqsvr.client.Allocation;
import seqsvr.client.SeqClient;
import seqsvr.client.SeqException;

/** Calls next from several threads until it is stopped, with the default deadline, and records the calls. */
public final class Load implements AutoCloseable {
    private final SeqClient client;
    private final long[] uids;
    private final History history = new History();
    private final List<Thread> threads = new ArrayList<>();
    private final List<String> failed = new ArrayList<>();
    private final AtomicLong longest = new AtomicLong();
    private final AtomicLong lost = new AtomicLong();
    private final AtomicLongArray calls = new AtomicLongArray(Cluster.UIDS);
    private volatile boolean isStopped;

    public Load(SeqClient client, long[] uids, int callers) {
        this.client = client;
        this.uids = uids;
        for (int i = 0; i < callers; i++) {
            int first = i;
            Thread thread = new Thread(() -> run(first), "load-" + i);
            thread.start();
            threads.add(thread);
        }
    }

    private void run(int first) {
        for (int n = first; !isStopped; n++) {
            long uid = uids[n % uids.length];
            long start = System.nanoTime();
            try {
                Allocation got = client.next(uid);
                long end = System.nanoTime();
                history.add(new History.Call(uid, start, end, got.first(), got.value(), got.prev()));
                lost.addAndGet(got.lost());
                longest.accumulateAndGet(end - start, Math::max);
                calls.incrementAndGet((int) uid);
            } catch (SeqException e) {
                synchronized (failed) {
                    failed.add("after " + (System.nanoTime() - start) / 1_000_000 + " ms: " + e.getMessage());
                }
                isStopped = true;
            }
        }
    }

    /** Waits until each uid has had so many more calls. */
    public void awaitMore(String what, int more) {
        long[] since = new long[uids.length];
        for (int i = 0; i < uids.length; i++) {
            since[i] = calls.get((int) uids[i]);
        }
        Eventually.eventually(what, () -> {
            synchronized (failed) {
                assertEquals(List.of(), failed);
            }
            for (int i = 0; i < uids.length; i++) {
                assertTrue(calls.get((int) uids[i]) >= since[i] + more, "uid " + uids[i] + " waits");
            }
        });
    }

    /** Stops the load, checks the order of all numbers, and prints figures. */
    public void check(String what) {
        close();
        assertEquals(List.of(), failed);
        assertEquals(List.of(), history.check());
        System.out.printf("%s: %d calls, 0 failed, %d lost attempts, the longest took %s%n", what, history.size(), lost.get(),
                Duration.ofMillis(longest.get() / 1_000_000));
    }

    @Override
    public void close() {
        isStopped = true;
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
