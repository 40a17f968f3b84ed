package seqsvr.client;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import seqsvr.client.internal.routes.Buckets;
import seqsvr.client.internal.wire.KeyMessages.AdvanceKeyRequest;
import seqsvr.client.internal.wire.KeyMessages.CurrentKeyRequest;
import seqsvr.client.internal.wire.KeyMessages.NextKeyRequest;
import seqsvr.client.internal.wire.Sequence.AdvanceResponse;
import seqsvr.client.internal.wire.Sequence.CurrentResponse;
import seqsvr.client.internal.wire.Sequence.NextResponse;

/**
 * Makes the attempts of calls for keys. A key of another size than 1 to {@link Keyspace#MAX_KEY_BYTES} bytes is refused, and
 * is not sent.
 */
final class KeyCalls {
    private KeyCalls() { }

    /** Returns the bytes of a text, which are its UTF-8. */
    static byte[] bytes(String key) {
        ByteBuffer encoded;
        try {
            encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(key));
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(
                    "the key \"" + key + "\" has half of a surrogate pair, which has no UTF-8: pass bytes", e);
        }
        byte[] bytes = new byte[encoded.remaining()];
        encoded.get(bytes);
        return bytes;
    }

    static CompletableFuture<Allocation> next(Attempts t, String keyspace, byte[] key, int count) {
        if (!Errors.isCount(count)) {
            throw Errors.count(null, count);
        }
        return section(t, keyspace, key).thenCompose(section -> Numbers.unary(t, section, "KeyService/Next", to -> {
            NextKeyRequest request = new NextKeyRequest();
            request.keyspace = keyspace;
            request.rawKey = key;
            request.count = count;
            request.routeVersion = to.routeVersion();
            request.epoch = to.epoch();
            return request;
        }, NextResponse::new, response -> response.routes,
                (addr, response) -> Numbers.allocation(t, addr, response, count)));
    }

    static CompletableFuture<Current> current(Attempts t, String keyspace, byte[] key) {
        return section(t, keyspace, key).thenCompose(section -> Numbers.unary(t, section, "KeyService/Current", to -> {
            CurrentKeyRequest request = new CurrentKeyRequest();
            request.keyspace = keyspace;
            request.rawKey = key;
            request.routeVersion = to.routeVersion();
            request.epoch = to.epoch();
            return request;
        }, CurrentResponse::new, response -> response.routes,
                (addr, response) -> Current.checked(addr, response.value, response.exactness, response.epoch)));
    }

    static CompletableFuture<Long> advance(Attempts t, String keyspace, byte[] key, long number) {
        return section(t, keyspace, key).thenCompose(section -> Numbers.unary(t, section, "KeyService/Advance", to -> {
            AdvanceKeyRequest request = new AdvanceKeyRequest();
            request.keyspace = keyspace;
            request.rawKey = key;
            request.to = number;
            request.routeVersion = to.routeVersion();
            request.epoch = to.epoch();
            return request;
        }, AdvanceResponse::new, response -> response.routes, (addr, response) -> response.epoch));
    }

    /**
     * Makes a call for many keys. A key of another size refuses its own item. The counts are null if each item requests one
     * number; if one is not valid, nothing is sent.
     */
    static <T> CompletableFuture<List<Result<T>>> many(Attempts t, String keyspace, ManyMethod<T> method, byte[][] keys,
            int[] counts) {
        List<Result<T>> results = new ArrayList<>(Collections.nCopies(keys.length, null));
        List<Integer> places = new ArrayList<>();
        for (int i = 0; i < keys.length; i++) {
            if (counts != null && !Errors.isCount(counts[i])) {
                throw Errors.count(null, counts[i]);
            }
            SeqException wrong = wrongSize(keys[i]);
            if (wrong == null) {
                places.add(i);
            } else {
                results.set(i, Result.failed(wrong));
            }
        }
        if (places.isEmpty()) {
            return CompletableFuture.completedFuture(List.copyOf(results));
        }
        return find(t, keyspace, false).thenCompose(buckets -> {
            long[] items = places.stream().mapToLong(place -> buckets.section(keys[place])).toArray();
            byte[][] sent = places.stream().map(place -> keys[place]).toArray(byte[][]::new);
            int[] ofSent = counts == null ? null : places.stream().mapToInt(place -> counts[place]).toArray();
            return Many.run(t, method, items, sent, ofSent);
        }).thenApply(given -> {
            for (int i = 0; i < given.size(); i++) {
                results.set(places.get(i), given.get(i));
            }
            return List.copyOf(results);
        });
    }

    /** Returns the section of the bucket of a key, and sets the keyspace of the call. */
    private static CompletableFuture<Integer> section(Attempts t, String keyspace, byte[] key) {
        SeqException wrong = wrongSize(key);
        if (wrong != null) {
            throw wrong;
        }
        return find(t, keyspace, false).thenApply(buckets -> buckets.section(key));
    }

    /** Sets the keyspace of a call to that in the newest routes. Routes are fetched if they do not have it. */
    private static CompletableFuture<Buckets> find(Attempts t, String keyspace, boolean wasFetched) {
        Buckets found = t.core.routes.load().buckets(keyspace);
        if (found != null) {
            t.buckets = found;
            return CompletableFuture.completedFuture(found);
        }
        if (wasFetched) {
            throw Errors.refusal(Reasons.UNKNOWN_KEYSPACE, Code.NOT_FOUND,
                    "no keyspace is named \"" + keyspace + "\": `seqsvr keyspace list` lists them");
        }
        return t.core.discovery.refresh(t.call).thenCompose(refreshed -> {
            SeqException interrupted = t.interrupted();
            return interrupted == null ? find(t, keyspace, true) : Async.failed(interrupted);
        });
    }

    /** Returns the refusal of a key of another size; null for any other key. */
    private static SeqException wrongSize(byte[] key) {
        boolean isWrong = key.length == 0 || key.length > Keyspace.MAX_KEY_BYTES;
        return !isWrong ? null : Errors.refusal(Reasons.KEY_SIZE, Code.INVALID_ARGUMENT,
                "the key has " + key.length + " bytes: a key has 1 to " + Keyspace.MAX_KEY_BYTES);
    }
}
