package seqsvr.client.cluster;

/** Waits for conditions, with a timeout that only a hang exceeds. */
public final class Eventually {
    /** A condition: it holds if it throws nothing. */
    public interface Condition {
        void check() throws Exception;
    }

    private Eventually() { }

    /** Waits until a condition holds. */
    public static void eventually(String what, Condition condition) {
        long end = System.nanoTime() + Servers.TIMEOUT.toNanos();
        while (true) {
            Throwable last;
            try {
                condition.check();
                return;
            } catch (Exception | AssertionError e) {
                last = e;
            }
            if (System.nanoTime() - end > 0) {
                throw new AssertionError("never: " + what, last);
            }
            try {
                Thread.sleep(2);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
