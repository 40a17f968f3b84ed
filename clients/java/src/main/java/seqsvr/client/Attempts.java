package seqsvr.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Predicate;
import seqsvr.client.internal.http.AttemptException;
import seqsvr.client.internal.http.Exchange;
import seqsvr.client.internal.http.Node;
import seqsvr.client.internal.http.StatusException;
import seqsvr.client.internal.http.TransportException;
import seqsvr.client.internal.routes.Buckets;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.KnownSet;
import seqsvr.client.internal.routes.Route;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.Message;

/**
 * The attempts of one call, or of some items of a batch: they choose the node for each attempt, wait for the backoff, and
 * keep what is known about attempts that failed. {@link Retries} decides after each failure.
 *
 * <p>The constants are equal in all clients of the service.
 */
final class Attempts {
    /** First backoff in ms. It is longer than the time that a node needs to adopt a route that it has just received. */
    private static final long FIRST_BACKOFF = 10;

    /**
     * The longest backoff in ms, unless a server requests a longer one. It is short compared with the time that a change
     * of a section's owner takes.
     */
    private static final long MAX_BACKOFF = 500;

    /**
     * Minimum time until the deadline for another attempt. With less time the attempt would usually exceed the deadline,
     * and hide the refusal that the call already has.
     */
    private static final long LEAST_ATTEMPT = 20_000_000;

    /**
     * Time for which an attempt waits for a response after its server was to respond. A server that is alive responds
     * before, with a refusal that changed nothing.
     */
    static final long ATTEMPT_GRACE = 100_000_000;

    final Call<?> call;
    /** Client of the attempts. Tickets have attempts of several clients in one call. */
    final Core core;
    final CallErrors errors = new CallErrors(this);
    private final Predicate<String> isSuspect;

    /**
     * Buckets of the keyspace of a call for keys, whose items are the sections of their buckets; null for a call for uids,
     * whose items are the uids.
     */
    Buckets buckets;
    int made;
    /** Number of attempts with unknown outcome, each of which may have changed a counter. */
    int lost;
    /** Address of the last attempt that failed; empty if there is none. */
    String excluded = "";
    /** Route by which the last attempt was sent; null before the first one. */
    Route route;
    /** Number of responses after which the call continued at once in another set. */
    int followed;
    /**
     * Whether the call fails without retries if no node of the section's set can be reached, because the caller also
     * waits for items of other sets.
     */
    boolean failsFast;
    /** Whether the call has a single attempt, which ends at {@link #onceUntil}. */
    boolean isOnce;
    long onceUntil;

    Attempts(Call<?> call) {
        this(call, call.core);
    }

    private Attempts(Call<?> call, Core core) {
        this.call = call;
        this.core = core;
        this.isSuspect = core.pool::isSuspect;
    }

    /** Returns a copy, with which some items are retried separately. */
    Attempts fork() {
        return forkFor(core);
    }

    /** Returns a copy for another client. */
    Attempts forkFor(Core other) {
        Attempts fork = new Attempts(call, other);
        fork.buckets = buckets;
        fork.made = made;
        fork.lost = lost;
        fork.excluded = excluded;
        fork.route = route;
        fork.followed = followed;
        fork.failsFast = failsFast;
        fork.isOnce = isOnce;
        fork.onceUntil = onceUntil;
        return fork;
    }

    SeqException interrupted() {
        if (core.isClosed) {
            return errors.closed();
        }
        return call.interrupted(this);
    }

    /** Returns the time at which an attempt ends, for its server. */
    long until(boolean hasOther) {
        long until = call.deadline;
        if (isOnce && onceUntil - until < 0) {
            until = onceUntil;
        }
        long limit = System.nanoTime() + call.limit;
        return hasOther && limit - until < 0 ? limit : until;
    }

    /** Sends a request and decodes its response. The error of the future is an {@link AttemptException}. */
    <R extends Message> CompletableFuture<R> attempt(Target to, String method, Message request, R response) {
        long until = until(to.hasOther());
        long last = until - call.deadline < 0 ? until + ATTEMPT_GRACE : until;
        Observation observation = observe(to.addr(), to.set(), false);
        long now = System.nanoTime();
        Exchange exchange = to.node().send(method, request.encode(), until - now, last - now);
        call.onInterruption(exchange::abort);
        return exchange.outcome().handle((bytes, error) -> {
            AttemptException failed = error == null ? decode(bytes, response) : failureOf(error);
            observation.end(failed);
            return failed == null ? CompletableFuture.completedFuture(response) : Async.<R>failed(failed);
        }).thenCompose(future -> future);
    }

    private static AttemptException decode(byte[] bytes, Message into) {
        try {
            into.decode(bytes);
            return null;
        } catch (Malformed e) {
            return StatusException.bad(e.getMessage());
        }
    }

    static AttemptException failureOf(Throwable error) {
        Throwable cause = Async.unwrap(error);
        return cause instanceof AttemptException e ? e : StatusException.bad(String.valueOf(cause));
    }

    /** An attempt that is observed. */
    final class Observation {
        private final Observer.Attempt attempt;
        private final long started = System.nanoTime();

        private Observation(Observer.Attempt attempt) {
            this.attempt = attempt;
        }

        void end(AttemptException failed) {
            core.observe(observer -> {
                Duration duration = Duration.ofNanos(System.nanoTime() - started);
                observer.attemptEnded(call.context, attempt, new Observer.AttemptEnd(duration, outcomeOf(failed)));
                return null;
            });
        }
    }

    private static Observer.Outcome outcomeOf(AttemptException failed) {
        if (failed == null) {
            return Observer.Outcome.OK;
        }
        if (failed instanceof StatusException status) {
            return new Observer.Outcome(Kind.REFUSED.label(),
                    status.reason.isEmpty() ? Reasons.REFUSED_BY_OTHERS : status.reason);
        }
        return new Observer.Outcome(Kind.UNREACHABLE.label(), Reasons.UNREACHABLE);
    }

    /** Counts an attempt, and observes it. */
    Observation observe(String addr, KnownSet set, boolean coalesced) {
        made++;
        core.counters.attempts.increment();
        Observer.Attempt attempt = new Observer.Attempt(call.info.method(), addr, set.name, made, coalesced);
        core.observe(observer -> {
            observer.attemptStarted(call.context, attempt);
            return null;
        });
        return new Observation(attempt);
    }

    /** Returns the route of an item: a uid, or the section of a key's bucket. It is null for a uid in no known cluster. */
    Route routeOf(Directory directory, long item) {
        return buckets == null ? directory.route(item) : directory.bucketRoute(buckets.home(), item);
    }

    /** Returns the node to which the next attempt for an item is sent. Throws the error of a uid without any. */
    Target target(long item) {
        Directory directory = core.routes.load();
        Route found = routeOf(directory, item);
        if (found == null) {
            throw Errors.outside(item);
        }
        sendBy(directory, found);
        KnownSet set = directory.set(found.set());
        KnownSet via = set;
        String addr = set.host(found.owner(), excluded, isSuspect);
        if (addr.isEmpty()) {
            // A node of another set forwards the request.
            for (KnownSet other : directory.others(set)) {
                via = other;
                addr = other.host(0, excluded, isSuspect);
                if (!addr.isEmpty()) {
                    break;
                }
            }
        }
        if (addr.isEmpty()) {
            throw errors.setUnavailable(item, set.id, null);
        }
        return targetAt(item, addr, via, found.epoch());
    }

    /**
     * Returns the node to which the next attempt for ids is sent: of the set {@code home}, or of another set while no
     * node of home can be reached. Any node forwards the call to the owner of the lane.
     */
    Target targetOfIds(int home) {
        Directory directory = core.routes.load();
        KnownSet set = directory.set(home);
        if (set.isDown(isSuspect)) {
            for (KnownSet other : directory.others(set)) {
                if (!other.isDown(isSuspect)) {
                    set = other;
                    break;
                }
            }
        }
        String addr = set.host(0, excluded, isSuspect);
        if (addr.isEmpty()) {
            throw errors.setUnavailable(null, set.id, null);
        }
        sendBy(directory, new Route(0, 0, directory.indexOf(set.id), false));
        return targetAt(null, addr, set, 0);
    }

    private Target targetAt(Long item, String addr, KnownSet set, long epoch) {
        Node node;
        try {
            node = core.pool.node(addr);
        } catch (TransportException e) {
            SeqException interrupted = interrupted();
            throw interrupted != null ? interrupted : errors.unreachable(item, addr, e);
        }
        return new Target(node, addr, set, set.knownVersion(), epoch, set.hasOther(addr, isSuspect));
    }

    /** Returns whether another node of a set could be reached. */
    boolean hasOther(KnownSet set, String addr) {
        return set.hasOther(addr, isSuspect);
    }

    boolean isDown(KnownSet set) {
        return set.isDown(isSuspect);
    }

    /** Begins an attempt that is sent by a route. The first attempt counts the call in the budget of the route's set. */
    void sendBy(Directory directory, Route by) {
        if (route == null) {
            directory.set(by.set()).state.budget.earn();
        }
        route = by;
    }

    /**
     * Excludes an address from the following attempts, in place of the one that was excluded before. Returns whether it
     * is the first one: the retry after a first exclusion needs no backoff.
     */
    boolean exclude(String addr) {
        boolean isFirst = excluded.isEmpty();
        excluded = addr;
        return isFirst;
    }

    /**
     * Waits for the backoff before the next attempt. If there is no further attempt, the future fails with the error of
     * the call, which is usually the given one.
     */
    CompletableFuture<Void> retry(SeqException error, long hintMs, boolean atOnce) {
        return error.isRetryable && !isOnce ? pause(error, hintMs, atOnce) : Async.failed(error);
    }

    /** Waits as {@link #retry} for an error that is known to be retryable. */
    CompletableFuture<Void> pause(SeqException error, long hintMs, boolean atOnce) {
        double millis = atOnce ? 0 : backoff(made, hintMs, ThreadLocalRandom.current().nextDouble());
        long wait = (long) (millis * 1e6);
        long now = System.nanoTime();
        if (now + wait + LEAST_ATTEMPT - call.deadline >= 0) {
            return Async.failed(error);
        }
        KnownSet set = core.routes.load().set(route.set());
        if (!set.state.budget.spend(now)) {
            core.counters.budgetRefused.increment();
            core.observe(observer -> {
                observer.budgetRefused(call.context, set.name);
                return null;
            });
            return Async.failed(error);
        }
        core.counters.retries.increment();
        core.observe(observer -> {
            observer.retried(call.context, new Observer.Retry(call.info.method(), error.reason, Duration.ofNanos(wait)));
            return null;
        });
        if (wait == 0) {
            return Async.DONE;
        }
        return call.atMost(new CompletableFuture<>(), wait).thenCompose(over -> {
            SeqException interrupted = interrupted();
            return interrupted == null ? Async.DONE : Async.failed(interrupted);
        });
    }

    /**
     * Returns the backoff in ms after so many attempts. The jitter is in 0..1: it shortens the client's own backoff, which
     * doubles, by up to half, and lengthens a requested one by up to half. The longer of the two is the result.
     */
    static double backoff(int made, long hintMs, double jitter) {
        long doubled = Math.min(FIRST_BACKOFF << Math.min(Math.max(made - 1, 0), 16), MAX_BACKOFF);
        return Math.max(doubled * (1 - jitter / 2), hintMs * (1 + jitter / 2));
    }
}
