package seqsvr.client;

import java.util.Arrays;
import java.util.Objects;

/** An item of {@link Keyspace#nextMany(java.util.List)}: a key, and the count of the numbers for it. */
public final class KeyItem {
    private final byte[] key;
    private final int count;

    /** Creates an item of a key that is a text, whose bytes are those of its UTF-8. */
    public KeyItem(String key, int count) {
        this.key = KeyCalls.bytes(key);
        this.count = count;
    }

    /** Creates an item of a key. The count is 1 to {@link Allocation#MAX_COUNT}. */
    public KeyItem(byte[] key, int count) {
        this.key = key.clone();
        this.count = count;
    }

    /** Returns a copy of the bytes of the key. */
    public byte[] key() {
        return key.clone();
    }

    /** Returns the count of the numbers. */
    public int count() {
        return count;
    }

    /** Returns whether another object is an item of the same key with the same count. */
    @Override
    public boolean equals(Object other) {
        return other instanceof KeyItem item && count == item.count && Arrays.equals(key, item.key);
    }

    /** Returns a hash of the key and the count. */
    @Override
    public int hashCode() {
        return Objects.hash(Arrays.hashCode(key), count);
    }
}
