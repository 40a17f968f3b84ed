package seqsvr.client;

import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import seqsvr.client.internal.http.AttemptException;
import seqsvr.client.internal.http.StatusException;
import seqsvr.client.internal.http.TransportException;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.KnownSet;
import seqsvr.client.internal.routes.Route;
import seqsvr.client.internal.wire.Sequence.ItemError;

/**
 * Decides after each failed attempt. A future of this class ends after the backoff if the call has another attempt, and
 * otherwise fails with the error of the call.
 *
 * <p>A call continues at once, and does not spend from the retry budget, if a refusal states that a section moved to
 * another set under a newer epoch than that of the route by which the request was sent. So a call cannot circle between
 * two nodes with outdated routes.
 */
final class Retries {
    /** Number of times that one call continues at once in the set to which a section moved. */
    static final int MAX_FOLLOWED = 8;

    private Retries() { }

    /**
     * The refusal of an item with the consequences for its retry.
     *
     * @param error error of the item
     * @param moved whether the call continues at once in the set to which the section moved
     * @param charged index of the set whose budget pays for a retry; -1 for that of the last attempt
     */
    record Classified(SeqException error, boolean moved, int charged) { }

    /** Handles the failure of an attempt. The item is as in {@link Attempts#routeOf}, and null for a call for ids. */
    static CompletableFuture<Void> prepare(Attempts t, Long item, String addr, AttemptException failed) {
        if (failed instanceof StatusException status) {
            return afterStatus(t, item, addr, status);
        }
        TransportException broken = (TransportException) failed;
        return broken.isLate ? afterHang(t, item, addr, broken.sent) : afterBreak(t, item, addr, broken);
    }

    private static CompletableFuture<Void> afterStatus(Attempts t, Long item, String addr, StatusException status) {
        if (status.isBadMessage) {
            return Async.failed(t.errors.of(Errors.badAnswer(addr, status.getMessage()), item));
        }
        boolean isTimeout = status.code == StatusException.CANCELLED || status.code == StatusException.DEADLINE_EXCEEDED;
        if (!status.reason.isEmpty() || !isTimeout) {
            count(t, Errors.isOutcomeUnknown(status.reason));
            return afterRefusal(t, item, addr, t.errors.refused(item, status), status.set, status.since);
        }
        // A server has noticed the end of the attempt before this client.
        count(t, true);
        SeqException interrupted = t.interrupted();
        if (interrupted != null) {
            return Async.failed(interrupted);
        }
        t.exclude(addr);
        return t.retry(t.errors.attemptLate(item, addr), 0, false);
    }

    /** Handles an attempt that got no response in its time. */
    private static CompletableFuture<Void> afterHang(Attempts t, Long item, String addr, boolean sent) {
        count(t, sent);
        SeqException interrupted = t.interrupted();
        if (interrupted != null) {
            return Async.failed(interrupted);
        }
        SeqException error = t.errors.attemptLate(item, addr);
        t.core.pool.suspect(addr, error);
        return elsewhere(t, item, addr, error);
    }

    /** Handles an attempt whose connection failed. */
    private static CompletableFuture<Void> afterBreak(Attempts t, Long item, String addr, TransportException failed) {
        count(t, failed.sent);
        SeqException interrupted = t.interrupted();
        if (interrupted != null) {
            return Async.failed(interrupted);
        }
        t.core.pool.suspect(addr, failed);
        return elsewhere(t, item, addr, t.errors.unreachable(item, addr, failed));
    }

    /** Retries at another node than the one at an address, which is suspect. */
    private static CompletableFuture<Void> elsewhere(Attempts t, Long item, String addr, SeqException error) {
        boolean atOnce = t.exclude(addr);
        Directory directory = t.core.routes.load();
        int down = t.route.set();
        KnownSet set = directory.set(down);
        if (!t.isDown(set) || directory.others(set).isEmpty()) {
            return t.retry(error, 0, atOnce);
        }
        return t.core.discovery.refreshFromOthers(t.call, down, -1, "").thenCompose(refreshed -> {
            if (item != null && hasMoved(t, item)) {
                t.followed++;
                return Async.DONE;
            }
            SeqException unavailable = t.errors.setUnavailable(item, set.id, null).causedBy(error.getCause());
            return t.failsFast ? Async.failed(unavailable) : t.retry(unavailable, 0, atOnce);
        });
    }

    /**
     * Returns whether the call may continue at once in another set, because newer routes show that the section has moved
     * there since the last attempt.
     */
    private static boolean hasMoved(Attempts t, long item) {
        Route now = t.routeOf(t.core.routes.load(), item);
        return now != null && now.set() != t.route.set() && Long.compareUnsigned(now.epoch(), t.route.epoch()) > 0
                && t.followed < MAX_FOLLOWED;
    }

    /** Handles the refusal of a single item in a response. */
    static CompletableFuture<Void> afterItem(Attempts t, long item, String addr, ItemError refusal) {
        count(t, Errors.isOutcomeUnknown(refusal.reason));
        return afterRefusal(t, item, addr, t.errors.item(item, refusal), refusal.setId, refusal.since);
    }

    private static CompletableFuture<Void> afterRefusal(Attempts t, Long item, String addr, SeqException refused,
            Long setId, Long since) {
        boolean atOnce = refused.reason.equals(Reasons.SHUTTING_DOWN) && t.exclude(addr);
        Route sentBy = t.route;
        Classified found = classify(t, item, refused, setId, since, sentBy.epoch());
        if (found.moved) {
            t.followed++;
            return Async.DONE;
        }
        if (isFinal(t, found.error)) {
            return Async.failed(found.error);
        }
        Supplier<CompletableFuture<Void>> retry = () -> t.retry(found.error, found.error.retryAfterMs, atOnce);
        if (found.charged < 0) {
            return retry.get();
        }
        t.route = new Route(sentBy.epoch(), sentBy.owner(), found.charged, sentBy.isClaim());
        if (found.charged == sentBy.set()) {
            return retry.get();
        }
        // With newer routes, the next attempt can be sent directly to the set that the node could not reach.
        return t.core.discovery.refreshFromOthers(t.call, found.charged, sentBy.set(), addr)
                .thenCompose(refreshed -> retry.get());
    }

    /**
     * Classifies the refusal of an item that was sent by a route of the epoch {@code sentBy}. If the refusal states that
     * the section moved to another set, it adopts this route.
     */
    static Classified classify(Attempts t, Long item, SeqException refused, Long setId, Long since, long sentBy) {
        suspectOwner(t, item, refused);
        if (refused.reason.equals(Reasons.SET_UNAVAILABLE)) {
            int charged = setId == null ? -1 : t.core.routes.load().indexOf(setId);
            return new Classified(t.errors.setUnavailable(null, setId == null ? 0 : setId, refused), false, charged);
        }
        if (refused.reason.equals(Reasons.MOVED) && setId != null && since != null && item != null) {
            if (t.buckets == null) {
                t.core.routes.adoptClaim(item, setId, since);
            } else {
                t.core.routes.adoptBucketClaim(t.buckets.home(), item, setId, since);
            }
            boolean moved = Long.compareUnsigned(since, sentBy) > 0 && t.followed < MAX_FOLLOWED;
            return new Classified(refused, moved, -1);
        }
        return new Classified(refused, false, -1);
    }

    /** Returns whether the call fails at once even though the error is retryable. */
    static boolean isFinal(Attempts t, SeqException error) {
        return t.failsFast && error.kind == Kind.SET_UNAVAILABLE;
    }

    /**
     * Marks the owner of the section as suspect if another node could not reach it. A request that this client sent to
     * the owner directly would probably time out too.
     */
    private static void suspectOwner(Attempts t, Long item, SeqException refused) {
        switch (refused.reason) {
            case Reasons.OWNER_TIMED_OUT, Reasons.OWNER_CONNECTION_LOST, Reasons.OWNER_UNREACHABLE -> {
                Directory directory = t.core.routes.load();
                Route route = item == null ? null : t.routeOf(directory, item);
                if (route != null && route.owner() != 0) {
                    t.core.pool.suspect(directory.set(route.set()).addr(route.owner()), refused);
                }
            }
            default -> { }
        }
    }

    /** Counts an attempt with unknown outcome. */
    static void count(Attempts t, boolean isUnknown) {
        if (isUnknown && !t.call.reads) {
            t.lost++;
        }
    }
}
