package seqsvr.client;

import java.util.Optional;

/**
 * The result of one item of a batch: a value, or an error of its own.
 *
 * @param <T> type of the value: {@link Allocation} or {@link Current}
 */
public final class Result<T> {
    private final T value;
    private final SeqException error;

    private Result(T value, SeqException error) {
        this.value = value;
        this.error = error;
    }

    static <T> Result<T> of(T value) {
        return new Result<>(value, null);
    }

    static <T> Result<T> failed(SeqException error) {
        return new Result<>(null, error);
    }

    /** Returns whether the item has a value. */
    public boolean isOk() {
        return error == null;
    }

    /** Returns the value. Throws the error of an item without one. */
    public T value() {
        if (error != null) {
            throw error.copy().here();
        }
        return value;
    }

    /** Returns the error; empty if the item has a value. */
    public Optional<SeqException> error() {
        return Optional.ofNullable(error);
    }

    T valueOrNull() {
        return value;
    }

    SeqException errorOrNull() {
        return error;
    }

    /** Returns a description of the value or of the error. */
    @Override
    public String toString() {
        return error == null ? String.valueOf(value) : error.toString();
    }
}
