package seqsvr.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import seqsvr.client.internal.http.Pool;

/**
 * A handle to the sequence service, for any number of threads. One client for each process is enough.
 *
 * <p><b>Errors.</b> Every error of a call is a {@link SeqException}; a future fails with it. Futures complete in threads of
 * the client, so code that runs after them must not block. The cancellation of a future ends its call.
 *
 * <p><b>Deadline.</b> Each call has one deadline for all its attempts. Each request carries the remaining time, and a server
 * stops to work on a request when it has passed.
 *
 * <p><b>Retries.</b> A call with a retryable failure is retried until its deadline, within a retry budget for each set: a
 * fifth of the calls to the set, plus ten for each second. After a failed connection the next attempt is sent to another
 * node of the set, because any node of a set serves any of its uids. An attempt whose node does not respond ends after a
 * third of the deadline, but not before a second, if another node could serve.
 *
 * <p><b>Sets.</b> Sections of uids can migrate between the sets of a cluster while calls are served. The client merges the
 * routes of all sets, and follows a section that has moved without a backoff. The retry budget is separate for each set, so
 * calls to a set that is down do not delay calls to other sets.
 */
public final class SeqClient implements AutoCloseable {
    /** Version of this client. */
    public static final String VERSION = Pool.VERSION;

    /**
     * Default deadline of a call. It is longer than the time until the sections of a node whose host failed have new owners.
     */
    public static final Duration DEFAULT_DEADLINE = Duration.ofSeconds(5);

    private final Core core;
    private final Duration deadline;

    private SeqClient(Core core, Duration deadline) {
        this.core = core;
        this.deadline = deadline;
    }

    /** Returns the settings of a new client. */
    public static Builder builder() {
        return new Builder();
    }

    /** Settings of a client. It is for one thread, and can be used once. */
    public static final class Builder {
        private final Options options = new Options();

        private Builder() { }

        /**
         * Adds a seed: host:port, http://host:port or https://host:port. The seeds may be nodes of any sets of a cluster, and
         * one that responds is enough, because its routes name the nodes of all sets.
         */
        public Builder seed(String seed) {
            options.seeds.add(Objects.requireNonNull(seed, "seed"));
            return this;
        }

        /** Adds seeds. */
        public Builder seeds(Collection<String> seeds) {
            seeds.forEach(this::seed);
            return this;
        }

        /**
         * Sets the deadline of calls and of {@link #build}, over all attempts: at most a day. The default is {@link
         * #DEFAULT_DEADLINE}.
         */
        public Builder deadline(Duration deadline) {
            options.deadline = Objects.requireNonNull(deadline, "deadline");
            return this;
        }

        /** Connects to every node over TLS 1.3, with these files. */
        public Builder tls(Tls tls) {
            options.tls = Objects.requireNonNull(tls, "tls");
            return this;
        }

        /** Connects to every node over TLS 1.3, with the files of {@link Tls#of(Path, Path)}. */
        public Builder tls(Path ca, Path certificate) {
            return tls(Tls.of(ca, certificate));
        }

        /**
         * Sends the token of a tenant with every request. It needs {@link #tls(Tls)}, because every reader of the connection
         * could use the token.
         */
        public Builder token(String token) {
            options.token(Objects.requireNonNull(token, "token"));
            return this;
        }

        /** Sets functions for metrics and traces. */
        public Builder observer(Observer observer) {
            options.observer = observer;
            return this;
        }

        /**
         * Sets whether concurrent calls of {@link SeqClient#next(long)} to a node share requests, which is the default.
         * Otherwise every call is a request of its own.
         */
        public Builder coalescing(boolean coalesces) {
            options.coalesces = coalesces;
            return this;
        }

        /**
         * Connects a client: fetches the routes of the sets of every seed. If seeds respond but have no routes yet, because
         * their sets are still starting, it requests them until the deadline. The error has {@link Kind#CONNECT}, or {@link
         * Kind#CANCELLED} if the thread was interrupted.
         */
        public SeqClient build() {
            Core core;
            try {
                core = new Core(options);
            } catch (SeqException e) {
                throw e.here();
            }
            try {
                core.discovery.connect(options.deadline);
                return new SeqClient(core, options.deadline);
            } catch (SeqException e) {
                core.close(Duration.ZERO);
                throw e.here();
            } catch (InterruptedException e) {
                core.close(Duration.ZERO);
                Thread.currentThread().interrupt();
                SeqException cancelled = new SeqException(Kind.CANCELLED, Errors.CANCELLED, "the thread was interrupted");
                throw cancelled.here();
            }
        }
    }

    /**
     * Returns a handle of the same client whose calls have another deadline, over all attempts. It is cheap, and closing it
     * closes the client.
     */
    public SeqClient withDeadline(Duration other) {
        return new SeqClient(core, Objects.requireNonNull(other, "deadline"));
    }

    /** Allocates the next number of a uid. */
    public Allocation next(long uid) {
        return startNext(uid, 1).await();
    }

    /** Allocates the next numbers of a uid, 1 to {@link Allocation#MAX_COUNT}, which are contiguous. */
    public Allocation next(long uid, int count) {
        return startNext(uid, count).await();
    }

    /** Allocates the next number of a uid, as {@link #next(long)}. */
    public CompletableFuture<Allocation> nextAsync(long uid) {
        return startNext(uid, 1).result();
    }

    /** Allocates the next numbers of a uid, as {@link #next(long, int)}. */
    public CompletableFuture<Allocation> nextAsync(long uid, int count) {
        return startNext(uid, count).result();
    }

    private Call<Allocation> startNext(long uid, int count) {
        return Call.start(core, new Observer.Call("Next", 1), false, deadline, t -> {
            if (!Errors.isCount(count)) {
                throw Errors.count(uid, count);
            }
            return Numbers.next(t, uid, count);
        });
    }

    /**
     * Allocates one number for each uid, with one request to each node that owns sections of these uids. A uid that occurs
     * twice gets two numbers, of which the first occurrence gets the smaller one, unless its item had to be retried. The
     * number of uids is not limited: those of one owner are sent in requests of 10,000, one after another.
     *
     * <p>The results are in the order of uids, each with an error of its own. The error of the call means that no item got a
     * response; if its {@link SeqException#mayHaveApplied} is true, numbers of any of the items may have been consumed. If the
     * uids are in several sets, and no node of one of them can be reached, its items fail with {@link Kind#SET_UNAVAILABLE}
     * without retries, so the call does not wait for them.
     */
    public List<Result<Allocation>> nextMany(long... uids) {
        return startNextMany(uids.clone(), null).await();
    }

    /** Allocates one number for each uid, as {@link #nextMany(long...)}. */
    public CompletableFuture<List<Result<Allocation>>> nextManyAsync(long... uids) {
        return startNextMany(uids.clone(), null).result();
    }

    /**
     * Allocates {@link Item#count} numbers for each item, otherwise as {@link #nextMany(long...)}. If one of the counts is not
     * valid, nothing is sent.
     */
    public List<Result<Allocation>> nextMany(List<Item> items) {
        return startNextMany(items).await();
    }

    /** Allocates numbers for each item, as {@link #nextMany(List)}. */
    public CompletableFuture<List<Result<Allocation>>> nextManyAsync(List<Item> items) {
        return startNextMany(items).result();
    }

    private Call<List<Result<Allocation>>> startNextMany(List<Item> items) {
        return startNextMany(items.stream().mapToLong(Item::uid).toArray(), items.stream().mapToInt(Item::count).toArray());
    }

    private Call<List<Result<Allocation>>> startNextMany(long[] uids, int[] counts) {
        return Call.start(core, new Observer.Call("NextMany", uids.length), false, deadline, t -> {
            for (int i = 0; counts != null && i < counts.length; i++) {
                if (!Errors.isCount(counts[i])) {
                    throw Errors.count(uids[i], counts[i]);
                }
            }
            return many(t, ManyMethod.NEXT, uids, counts);
        });
    }

    private static <T> CompletableFuture<List<Result<T>>> many(Attempts t, ManyMethod<T> method, long[] uids, int[] counts) {
        return uids.length == 0 ? CompletableFuture.completedFuture(List.of()) : Many.run(t, method, uids, null, counts);
    }

    /** Reads the last number of a uid. It changes no counter. */
    public Current current(long uid) {
        return startCurrent(uid).await();
    }

    /** Reads the last number of a uid, as {@link #current(long)}. */
    public CompletableFuture<Current> currentAsync(long uid) {
        return startCurrent(uid).result();
    }

    private Call<Current> startCurrent(long uid) {
        return Call.start(core, new Observer.Call("Current", 1), true, deadline, t -> Numbers.current(t, uid));
    }

    /** Reads the last number of each uid, otherwise as {@link #nextMany(long...)}. It changes no counter. */
    public List<Result<Current>> currentMany(long... uids) {
        return startCurrentMany(uids.clone()).await();
    }

    /** Reads the last number of each uid, as {@link #currentMany(long...)}. */
    public CompletableFuture<List<Result<Current>>> currentManyAsync(long... uids) {
        return startCurrentMany(uids.clone()).result();
    }

    private Call<List<Result<Current>>> startCurrentMany(long[] uids) {
        return Call.start(core, new Observer.Call("CurrentMany", uids.length), true, deadline,
                t -> many(t, ManyMethod.CURRENT, uids, null));
    }

    /**
     * Raises the counter of a uid to a number, 0 to 2^62, so that the uid's next number is above it: for imports of counters.
     * It is idempotent.
     *
     * <p>The refusal {@code ALREADY_PAST} means that the last number of the uid is above the number. One possible cause is an
     * earlier attempt of this same call that was applied before another call allocated a number; {@link
     * SeqException#mayHaveApplied} is whether there may have been such an attempt.
     *
     * @return the epoch of the ownership that applied the advance
     */
    public long advance(long uid, long to) {
        return startAdvance(uid, to).await();
    }

    /** Raises the counter of a uid, as {@link #advance(long, long)}. */
    public CompletableFuture<Long> advanceAsync(long uid, long to) {
        return startAdvance(uid, to).result();
    }

    private Call<Long> startAdvance(long uid, long to) {
        return Call.start(core, new Observer.Call("Advance", 1), false, deadline, t -> Numbers.advance(t, uid, to));
    }

    /**
     * Returns a handle of the series with a name. It sends nothing: a call of a series that the seeds do not know fails with
     * the reason {@code UNKNOWN_SERIES}. They know a new series within a second of its creation.
     */
    public Series series(String name) {
        return new Series(core, deadline, Objects.requireNonNull(name, "name"));
    }

    /**
     * Returns a handle of the keyspace with a name. It sends nothing: a call of a keyspace that the seeds do not know fails
     * with the reason {@code UNKNOWN_KEYSPACE}. They know a new keyspace within a second of its creation.
     */
    public Keyspace keyspace(String name) {
        return new Keyspace(core, deadline, Objects.requireNonNull(name, "name"));
    }

    /**
     * Reads the files of {@link Builder#tls(Tls)} again now. New connections use their contents. Without a call of it, changed
     * files are read within a second. On an error, of {@link Kind#CONNECT}, the former contents stay in use.
     */
    public void reload() {
        if (core.credentials == null) {
            return;
        }
        try {
            core.credentials.reload();
        } catch (SeqException e) {
            throw e.here();
        }
    }

    /** Returns counts of the client. */
    public Stats stats() {
        Core.Counters counters = core.counters;
        return new Stats(counters.calls.sum(), counters.attempts.sum(), counters.retries.sum(), counters.budgetRefused.sum(),
                counters.messages.sum(), counters.routeAdoptions.sum(), core.pending());
    }

    /**
     * Closes the client in order: new calls fail with {@link Kind#CLOSED}, and those in progress may complete within a time.
     * Then it closes the client as {@link #close} does. Returns whether all calls completed.
     */
    public boolean shutdown(Duration drain) {
        return core.close(drain);
    }

    /** Ends every call with {@link Kind#CLOSED}, and closes the client. It is idempotent. */
    @Override
    public void close() {
        core.close(Duration.ZERO);
    }

    /** Returns the core of the client, for tests. */
    Core core() {
        return core;
    }
}
