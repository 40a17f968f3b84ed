package seqsvr.client;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * The results of a call for many uids or keys, to which the groups of its items write concurrently.
 *
 * @param <T> type of a value
 */
final class ManyResults<T> {
    private final List<Result<T>> results;
    /** Number of refusals of each item after which it may have consumed numbers. */
    private final int[] unknown;

    ManyResults(int items) {
        results = new ArrayList<>(Collections.nCopies(items, null));
        unknown = new int[items];
    }

    /**
     * Replaces the result of an item by that of a later attempt. If both are errors, the later one states as well that
     * numbers may have been consumed.
     */
    synchronized void set(int index, Result<T> result) {
        Result<T> before = results.get(index);
        boolean mayHaveApplied = before != null && !before.isOk() && before.errorOrNull().mayHaveApplied;
        if (!result.isOk() && mayHaveApplied && !result.errorOrNull().mayHaveApplied) {
            SeqException copied = result.errorOrNull().copy();
            copied.mayHaveApplied = true;
            results.set(index, Result.failed(copied));
            return;
        }
        results.set(index, result);
    }

    synchronized void addUnknown(int index) {
        unknown[index]++;
    }

    /** Adds the counted refusals to the results of items. */
    synchronized void addLost(Many.Group group, ManyMethod<T> method) {
        for (int index : group.indexes) {
            Result<T> result = results.get(index);
            if (result.isOk() && unknown[index] > 0) {
                results.set(index, method.plusLost(result, unknown[index]));
            }
        }
    }

    /**
     * Returns the results. Throws the error of a call in which no item got a response, which is that of the first item.
     */
    synchronized List<Result<T>> finish() {
        boolean mayHaveApplied = false;
        for (Result<T> result : results) {
            if (result.isOk() || !result.errorOrNull().isUnanswered()) {
                return List.copyOf(results);
            }
            mayHaveApplied |= result.errorOrNull().mayHaveApplied;
        }
        SeqException first = results.get(0).errorOrNull().copy();
        first.mayHaveApplied = mayHaveApplied;
        throw first;
    }
}
