package seqsvr.client;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/**
 * A handle of a keyspace, for any number of threads: counters of keys, which are any bytes, 1 to {@link #MAX_KEY_BYTES} of
 * them. A text and its UTF-8 are the same key.
 *
 * <p>A call is sent to the owner of its key's bucket, in a request of its own, and any node serves it while that one cannot be
 * reached. Failed attempts are repeated as those of {@link SeqClient}; numbers of a lost response are skipped and never
 * allocated again.
 *
 * <p>The error of each call is a {@link SeqException}, without a uid. If its {@link SeqException#mayHaveApplied} is true,
 * numbers may have been consumed, which are then skipped. A key of another size is refused with the reason {@code KEY_SIZE},
 * and is not sent. A text with half of a surrogate pair has no UTF-8, and leads to an {@link IllegalArgumentException}.
 */
public final class Keyspace {
    /** The limit on the bytes of a key. */
    public static final int MAX_KEY_BYTES = 512;

    private final Core core;
    private final Duration deadline;
    private final String name;

    Keyspace(Core core, Duration deadline, String name) {
        this.core = core;
        this.deadline = deadline;
        this.name = name;
    }

    /** Returns the name of the keyspace. */
    public String name() {
        return name;
    }

    /** Returns a handle of the same keyspace whose calls have another deadline, over all attempts. */
    public Keyspace withDeadline(Duration other) {
        return new Keyspace(core, Objects.requireNonNull(other, "deadline"), name);
    }

    /** Allocates the next number of a key. */
    public Allocation next(String key) {
        return startNext(KeyCalls.bytes(key), 1).await();
    }

    /** Allocates the next number of a key. */
    public Allocation next(byte[] key) {
        return startNext(key.clone(), 1).await();
    }

    /** Allocates the next numbers of a key, 1 to {@link Allocation#MAX_COUNT}, which are contiguous. */
    public Allocation next(String key, int count) {
        return startNext(KeyCalls.bytes(key), count).await();
    }

    /** Allocates the next numbers of a key, as {@link #next(String, int)}. */
    public Allocation next(byte[] key, int count) {
        return startNext(key.clone(), count).await();
    }

    /** Allocates the next number of a key, as {@link #next(String)}. */
    public CompletableFuture<Allocation> nextAsync(String key) {
        return startNext(KeyCalls.bytes(key), 1).result();
    }

    /** Allocates the next number of a key, as {@link #next(byte[])}. */
    public CompletableFuture<Allocation> nextAsync(byte[] key) {
        return startNext(key.clone(), 1).result();
    }

    /** Allocates the next numbers of a key, as {@link #next(String, int)}. */
    public CompletableFuture<Allocation> nextAsync(String key, int count) {
        return startNext(KeyCalls.bytes(key), count).result();
    }

    /** Allocates the next numbers of a key, as {@link #next(byte[], int)}. */
    public CompletableFuture<Allocation> nextAsync(byte[] key, int count) {
        return startNext(key.clone(), count).result();
    }

    private Call<Allocation> startNext(byte[] key, int count) {
        return Call.start(core, new Observer.Call("Keyspace.Next", 1), false, deadline,
                t -> KeyCalls.next(t, name, key, count));
    }

    /**
     * Allocates one number for each key, with one request to each node that owns buckets of these keys. A key that occurs
     * twice gets two numbers, of which the first occurrence gets the smaller one, unless its item had to be retried. The
     * number of keys is not limited: those of one owner are sent in requests of up to 10,000 keys and 128 KiB, one after
     * another.
     *
     * <p>The results are in the order of the keys, each with an error of its own, as those of {@link
     * SeqClient#nextMany(long...)}. A key of another size refuses its own item, with the reason {@code KEY_SIZE}.
     */
    public List<Result<Allocation>> nextMany(String... keys) {
        return startNextMany(bytes(keys), null).await();
    }

    /** Allocates one number for each key, as {@link #nextMany(String...)}. */
    public List<Result<Allocation>> nextMany(byte[]... keys) {
        return startNextMany(copies(keys), null).await();
    }

    /**
     * Allocates {@link KeyItem#count} numbers for each item, otherwise as {@link #nextMany(String...)}. If one of the counts is
     * not valid, nothing is sent.
     */
    public List<Result<Allocation>> nextMany(List<KeyItem> items) {
        return startNextMany(items).await();
    }

    /** Allocates one number for each key, as {@link #nextMany(String...)}. */
    public CompletableFuture<List<Result<Allocation>>> nextManyAsync(String... keys) {
        return startNextMany(bytes(keys), null).result();
    }

    /** Allocates one number for each key, as {@link #nextMany(byte[][])}. */
    public CompletableFuture<List<Result<Allocation>>> nextManyAsync(byte[]... keys) {
        return startNextMany(copies(keys), null).result();
    }

    /** Allocates numbers for each item, as {@link #nextMany(List)}. */
    public CompletableFuture<List<Result<Allocation>>> nextManyAsync(List<KeyItem> items) {
        return startNextMany(items).result();
    }

    private Call<List<Result<Allocation>>> startNextMany(List<KeyItem> items) {
        return startNextMany(items.stream().map(KeyItem::key).toArray(byte[][]::new),
                items.stream().mapToInt(KeyItem::count).toArray());
    }

    private Call<List<Result<Allocation>>> startNextMany(byte[][] keys, int[] counts) {
        return Call.start(core, new Observer.Call("Keyspace.NextMany", keys.length), false, deadline,
                t -> KeyCalls.many(t, name, ManyMethod.nextKeys(name), keys, counts));
    }

    /** Reads the last number of a key. It changes no counter. */
    public Current current(String key) {
        return startCurrent(KeyCalls.bytes(key)).await();
    }

    /** Reads the last number of a key, as {@link #current(String)}. */
    public Current current(byte[] key) {
        return startCurrent(key.clone()).await();
    }

    /** Reads the last number of a key, as {@link #current(String)}. */
    public CompletableFuture<Current> currentAsync(String key) {
        return startCurrent(KeyCalls.bytes(key)).result();
    }

    /** Reads the last number of a key, as {@link #current(byte[])}. */
    public CompletableFuture<Current> currentAsync(byte[] key) {
        return startCurrent(key.clone()).result();
    }

    private Call<Current> startCurrent(byte[] key) {
        return Call.start(core, new Observer.Call("Keyspace.Current", 1), true, deadline,
                t -> KeyCalls.current(t, name, key));
    }

    /** Reads the last number of each key, otherwise as {@link #nextMany(String...)}. It changes no counter. */
    public List<Result<Current>> currentMany(String... keys) {
        return startCurrentMany(bytes(keys)).await();
    }

    /** Reads the last number of each key, as {@link #currentMany(String...)}. */
    public List<Result<Current>> currentMany(byte[]... keys) {
        return startCurrentMany(copies(keys)).await();
    }

    /** Reads the last number of each key, as {@link #currentMany(String...)}. */
    public CompletableFuture<List<Result<Current>>> currentManyAsync(String... keys) {
        return startCurrentMany(bytes(keys)).result();
    }

    /** Reads the last number of each key, as {@link #currentMany(byte[][])}. */
    public CompletableFuture<List<Result<Current>>> currentManyAsync(byte[]... keys) {
        return startCurrentMany(copies(keys)).result();
    }

    private Call<List<Result<Current>>> startCurrentMany(byte[][] keys) {
        return Call.start(core, new Observer.Call("Keyspace.CurrentMany", keys.length), true, deadline,
                t -> KeyCalls.many(t, name, ManyMethod.currentKeys(name), keys, null));
    }

    /**
     * Raises the counter of a key to a number, 0 to 2^62, so that the key's next number is above it: for imports of counters.
     * It is idempotent.
     *
     * <p>The refusal {@code ALREADY_PAST} means that the last number of the key is above the number, or may be, as in {@link
     * SeqClient#advance}.
     *
     * @return the epoch of the ownership that applied the advance
     */
    public long advance(String key, long to) {
        return startAdvance(KeyCalls.bytes(key), to).await();
    }

    /** Raises the counter of a key, as {@link #advance(String, long)}. */
    public long advance(byte[] key, long to) {
        return startAdvance(key.clone(), to).await();
    }

    /** Raises the counter of a key, as {@link #advance(String, long)}. */
    public CompletableFuture<Long> advanceAsync(String key, long to) {
        return startAdvance(KeyCalls.bytes(key), to).result();
    }

    /** Raises the counter of a key, as {@link #advance(byte[], long)}. */
    public CompletableFuture<Long> advanceAsync(byte[] key, long to) {
        return startAdvance(key.clone(), to).result();
    }

    private Call<Long> startAdvance(byte[] key, long to) {
        return Call.start(core, new Observer.Call("Keyspace.Advance", 1), false, deadline,
                t -> KeyCalls.advance(t, name, key, to));
    }

    private static byte[][] bytes(String[] keys) {
        return Arrays.stream(keys).map(KeyCalls::bytes).toArray(byte[][]::new);
    }

    private static byte[][] copies(byte[][] keys) {
        return Arrays.stream(keys).map(byte[]::clone).toArray(byte[][]::new);
    }
}
