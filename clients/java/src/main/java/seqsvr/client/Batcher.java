package seqsvr.client;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import seqsvr.client.internal.http.AttemptException;
import seqsvr.client.internal.http.Exchange;
import seqsvr.client.internal.http.StatusException;
import seqsvr.client.internal.http.TransportException;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.Sequence.ItemError;
import seqsvr.client.internal.wire.Sequence.NextManyRequest;
import seqsvr.client.internal.wire.Sequence.NextManyResponse;

/**
 * Coalesces calls for numbers: concurrent calls to a node share requests of NextMany.
 *
 * <p>No call is delayed to fill a message: a call is sent at once while fewer than {@link #MAX_YOUNG} messages are in
 * flight, and calls that arrive later are sent together when one of them has its response. A message that takes long does
 * not count for this, so it does not hold up the others.
 *
 * <p>The items of a request wait for each other. Therefore its timeout is short: an item that has to wait longer is refused
 * and has changed nothing, and its caller sends it in a request of its own.
 *
 * <p>Invariant: a call gets exactly one outcome. A call that was in a message never becomes pending again, so a call is
 * sent at most once.
 */
final class Batcher {
    /** Limit on the calls in a message, so that the response to the first one does not wait long for the last one. */
    private static final int MAX_ITEMS = 1024;

    /** Number of young messages in flight from which on calls gather. */
    static final int MAX_YOUNG = 4;

    /** Time after which a message in flight is not young any more. */
    private static final long YOUNG_NANOS = 20_000_000;

    /** Limit on the messages in flight. */
    private static final int MAX_IN_FLIGHT = 32;

    /** Timeout of a message. It is longer than a node usually takes to raise a ceiling. */
    private static final long TIMEOUT = 250_000_000;

    /**
     * The outcome of a call. Exactly one of {@code value}, {@code refused}, {@code failed} and {@code invalid} is set.
     *
     * @param value last number; 0 if there is none
     * @param prev number before the first one
     * @param epoch epoch of the ownership
     * @param lost attempts of the node with unknown outcome
     * @param refused refusal of the item
     * @param failed failure of the message
     * @param invalid description of a response that violates the protocol
     */
    record Outcome(long value, long prev, long epoch, int lost, ItemError refused, AttemptException failed,
            String invalid) {
        static Outcome refused(ItemError item) {
            return new Outcome(0, 0, 0, 0, item, null, null);
        }

        static Outcome failed(AttemptException error) {
            return new Outcome(0, 0, 0, 0, null, error, null);
        }

        static Outcome invalid(String what) {
            return new Outcome(0, 0, 0, 0, null, null, what);
        }
    }

    /** A call for numbers of one uid. */
    static final class Entry {
        final long uid;
        final int count;
        final long epoch;
        final Long routeVersion;
        /** Time at which the caller stops to wait. */
        final long until;
        /** Never fails. */
        final CompletableFuture<Outcome> outcome = new CompletableFuture<>();
        /** Message that has the call; null while it is pending. Guarded by the lock of the batcher. */
        private InFlight message;
        /** Whether the caller stopped to wait. Guarded by the lock of the batcher. */
        private boolean isAbandoned;

        Entry(long uid, int count, long epoch, Long routeVersion, long until) {
            this.uid = uid;
            this.count = count;
            this.epoch = epoch;
            this.routeVersion = routeVersion;
            this.until = until;
        }
    }

    /** A message in flight. Its fields are guarded by the lock of the batcher. */
    private static final class InFlight {
        final List<Entry> entries;
        final long sentAt = System.nanoTime();
        boolean isYoung = true;
        /** Number of callers that wait. */
        int waiting;
        Exchange exchange;

        InFlight(List<Entry> entries) {
            this.entries = entries;
            this.waiting = entries.size();
        }
    }

    private final Core core;
    private final String addr;

    // Guarded by the lock of this object.
    private final ArrayDeque<Entry> pending = new ArrayDeque<>();
    private final List<InFlight> inFlight = new ArrayList<>();
    private int abandoned;
    private int young;
    private boolean isAging;

    Batcher(Core core, String addr) {
        this.core = core;
        this.addr = addr;
    }

    /** Returns the number of calls whose callers wait. */
    synchronized int pending() {
        return pending.size() - abandoned + inFlight.stream().mapToInt(message -> message.waiting).sum();
    }

    /** Adds a call, and sends it as soon as possible. */
    void add(Entry entry) {
        synchronized (this) {
            pending.add(entry);
        }
        pump();
    }

    /** Ends the wait of a caller, because its time is over or its call was interrupted. */
    void abandon(Entry entry, boolean isLate) {
        Exchange useless = null;
        boolean sent;
        synchronized (this) {
            if (entry.outcome.isDone() || entry.isAbandoned) {
                return;
            }
            entry.isAbandoned = true;
            InFlight message = entry.message;
            sent = message != null && message.exchange != null && message.exchange.wasSent();
            if (message != null) {
                message.waiting = Math.max(message.waiting - 1, 0);
                useless = message.waiting == 0 ? message.exchange : null;
            } else if (++abandoned > pending.size() / 2 + 64) {
                pending.removeIf(other -> other.isAbandoned);
                abandoned = 0;
            }
        }
        entry.outcome.complete(Outcome.failed(isLate ? TransportException.late(sent) : TransportException.aborted(sent)));
        if (useless != null) {
            useless.abort();
        }
    }

    /** Sends messages while there are calls to send and too few messages are in flight. */
    private void pump() {
        while (true) {
            InFlight message;
            synchronized (this) {
                if (pending.isEmpty() || inFlight.size() >= MAX_IN_FLIGHT) {
                    return;
                }
                if (young >= MAX_YOUNG) {
                    if (!isAging) {
                        isAging = true;
                        core.timers.after(YOUNG_NANOS, this::age);
                    }
                    return;
                }
                message = take();
                if (message == null) {
                    return;
                }
            }
            send(message);
        }
    }

    /** Lets messages that take long count no more. */
    private void age() {
        synchronized (this) {
            isAging = false;
            long now = System.nanoTime();
            for (InFlight message : inFlight) {
                if (message.isYoung && now - message.sentAt >= YOUNG_NANOS) {
                    message.isYoung = false;
                    young--;
                }
            }
        }
        pump();
    }

    /** Takes the calls of the next message; null if none waits. */
    private InFlight take() {
        List<Entry> entries = new ArrayList<>();
        while (entries.size() < MAX_ITEMS && !pending.isEmpty()) {
            Entry entry = pending.poll();
            if (entry.isAbandoned) {
                abandoned--;
            } else {
                entries.add(entry);
            }
        }
        if (entries.isEmpty()) {
            return null;
        }
        InFlight message = new InFlight(entries);
        entries.forEach(entry -> entry.message = message);
        inFlight.add(message);
        young++;
        return message;
    }

    private void send(InFlight message) {
        NextManyRequest request = new NextManyRequest();
        int items = message.entries.size();
        request.uids = new long[items];
        long[] epochs = new long[items];
        int[] counts = new int[items];
        boolean hasEpochs = false;
        boolean hasCounts = false;
        long now = System.nanoTime();
        long longest = 1;
        for (int i = 0; i < items; i++) {
            Entry entry = message.entries.get(i);
            request.uids[i] = entry.uid;
            epochs[i] = entry.epoch;
            counts[i] = entry.count;
            hasEpochs |= entry.epoch != 0;
            hasCounts |= entry.count != 1;
            // The oldest version of any caller's routes; 0 asks for the whole table.
            boolean isOlder = request.routeVersion == null
                    || entry.routeVersion != null && Long.compareUnsigned(entry.routeVersion, request.routeVersion) < 0;
            request.routeVersion = isOlder ? entry.routeVersion : request.routeVersion;
            longest = Math.max(longest, entry.until - now);
        }
        request.knownEpochs = hasEpochs ? epochs : request.knownEpochs;
        request.counts = hasCounts ? counts : request.counts;
        core.counters.messages.increment();
        Exchange exchange;
        try {
            exchange = core.pool.node(addr).sendShared("SequenceService/NextMany", request.encode(),
                    Math.min(longest, TIMEOUT), longest + Attempts.ATTEMPT_GRACE);
        } catch (TransportException e) {
            ended(message, null, e);
            return;
        }
        synchronized (this) {
            message.exchange = exchange;
        }
        exchange.outcome().whenComplete((bytes, error) -> {
            AttemptException failed = error == null ? null : Attempts.failureOf(error);
            NextManyResponse response = new NextManyResponse();
            if (failed == null) {
                try {
                    response.decode(bytes);
                } catch (Malformed e) {
                    failed = StatusException.bad(e.getMessage());
                }
            }
            ended(message, response, failed);
        });
    }

    private void ended(InFlight message, NextManyResponse response, AttemptException failed) {
        synchronized (this) {
            inFlight.remove(message);
            if (message.isYoung) {
                young--;
            }
            message.waiting = 0;
        }
        // The next message is on its way while the callers of this one go on.
        pump();
        if (failed != null) {
            message.entries.forEach(entry -> entry.outcome.complete(Outcome.failed(failed)));
            return;
        }
        core.adopt(response.routes, addr);
        String invalid = invalid(response, message.entries.size());
        if (invalid != null) {
            message.entries.forEach(entry -> entry.outcome.complete(Outcome.invalid(invalid)));
            return;
        }
        deliver(message.entries, response);
    }

    /** Completes the calls of a message with its response, which is valid. */
    private static void deliver(List<Entry> entries, NextManyResponse response) {
        int refused = 0;
        int lost = 0;
        for (int i = 0; i < entries.size(); i++) {
            int attempts = 0;
            if (response.lost != null && lost < response.lost.indexes.length && response.lost.indexes[lost] == i) {
                attempts = response.lost.attempts[lost++];
            }
            Outcome outcome;
            if (refused < response.errors.size() && response.errors.get(refused).index == i) {
                outcome = Outcome.refused(response.errors.get(refused++));
            } else {
                outcome = new Outcome(response.values[i], response.prevs[i], response.epochs[i], attempts, null, null, null);
            }
            entries.get(i).outcome.complete(outcome);
        }
    }

    /** Describes how a response to a message with so many items violates the protocol; null if it does not. */
    static String invalid(NextManyResponse response, int items) {
        if (response.values.length != items || response.prevs.length != items || response.epochs.length != items) {
            return "lists of other lengths than the request's";
        }
        int last = -1;
        for (ItemError error : response.errors) {
            if (error.index < 0 || error.index >= items) {
                return "an error of an item that was not sent";
            }
            if (error.index <= last) {
                return "errors that are not in order of index";
            }
            last = error.index;
        }
        if (response.lost == null) {
            return null;
        }
        last = -1;
        for (int index : response.lost.indexes) {
            if (index <= last || response.lost.attempts.length != response.lost.indexes.length) {
                return "lost attempts that are not in order of index";
            }
            last = index;
        }
        return null;
    }
}
