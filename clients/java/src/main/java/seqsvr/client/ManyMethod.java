package seqsvr.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import seqsvr.client.internal.wire.KeyMessages.CurrentKeysRequest;
import seqsvr.client.internal.wire.KeyMessages.NextKeysRequest;
import seqsvr.client.internal.wire.Message;
import seqsvr.client.internal.wire.RouteTable;
import seqsvr.client.internal.wire.Sequence.CurrentManyRequest;
import seqsvr.client.internal.wire.Sequence.CurrentManyResponse;
import seqsvr.client.internal.wire.Sequence.ItemError;
import seqsvr.client.internal.wire.Sequence.NextManyRequest;
import seqsvr.client.internal.wire.Sequence.NextManyResponse;

/**
 * A method for many uids or keys.
 *
 * @param <T> type of a value
 */
interface ManyMethod<T> {
    /** The text of a response whose lists have other lengths than those of the request. */
    String WRONG_LENGTHS = "lists of other lengths than the request's";

    /** Allocates numbers of uids. */
    ManyMethod<Allocation> NEXT = new NextMany("SequenceService/NextMany", (to, group, epochs) -> {
        NextManyRequest request = new NextManyRequest();
        request.uids = group.items;
        request.counts = group.counts == null ? request.counts : group.counts;
        request.routeVersion = to.routeVersion();
        request.knownEpochs = epochs;
        return request;
    });

    /** Reads the last numbers of uids. */
    ManyMethod<Current> CURRENT = new CurrentMany("SequenceService/CurrentMany", (to, group, epochs) -> {
        CurrentManyRequest request = new CurrentManyRequest();
        request.uids = group.items;
        request.routeVersion = to.routeVersion();
        request.knownEpochs = epochs;
        return request;
    });

    /** Returns the method that allocates numbers of keys of a keyspace. */
    static ManyMethod<Allocation> nextKeys(String keyspace) {
        return new NextMany("KeyService/NextMany", (to, group, epochs) -> {
            NextKeysRequest request = new NextKeysRequest();
            request.keyspace = keyspace;
            request.rawKeys.addAll(Arrays.asList(group.keys));
            request.counts = group.counts == null ? request.counts : group.counts;
            request.routeVersion = to.routeVersion();
            request.knownEpochs = epochs;
            return request;
        });
    }

    /** Returns the method that reads the last numbers of keys of a keyspace. */
    static ManyMethod<Current> currentKeys(String keyspace) {
        return new CurrentMany("KeyService/CurrentMany", (to, group, epochs) -> {
            CurrentKeysRequest request = new CurrentKeysRequest();
            request.keyspace = keyspace;
            request.rawKeys.addAll(Arrays.asList(group.keys));
            request.routeVersion = to.routeVersion();
            request.knownEpochs = epochs;
            return request;
        });
    }

    /** Creates the request for the items of a group, whose newest known epochs are given. */
    interface Request {
        Message of(Target to, Many.Group group, long[] epochs);
    }

    /**
     * A decoded response.
     *
     * @param results results in the order of the items, those of refused items included
     * @param errors refusals
     * @param routes newer routes; null if there are none
     * @param invalid description of how the response violates the protocol; null if it does not
     */
    record Response<T>(List<Result<T>> results, List<ItemError> errors, RouteTable.Routes routes, String invalid) { }

    /** Makes one attempt with the items of a group. */
    CompletableFuture<Response<T>> send(Attempts t, Target to, Many.Group group, long[] epochs);

    /** Adds attempts with unknown outcome to a result without an error. */
    Result<T> plusLost(Result<T> result, int lost);

    /** Reads one result of a response, whose error is thrown. */
    interface ReadItem<T> {
        T at(int place);
    }

    /** Reads the results of a response. */
    static <T> Response<T> read(int items, List<ItemError> errors, RouteTable.Routes routes, boolean isValid,
            ReadItem<T> item) {
        if (!isValid) {
            return new Response<>(List.of(), errors, routes, WRONG_LENGTHS);
        }
        List<Result<T>> results = new ArrayList<>(items);
        for (int i = 0; i < items; i++) {
            try {
                results.add(Result.of(item.at(i)));
            } catch (SeqException e) {
                results.add(Result.failed(e));
            }
        }
        return new Response<>(results, errors, routes, null);
    }

    /** A method NextMany, of uids or of keys. */
    record NextMany(String path, Request request) implements ManyMethod<Allocation> {
        @Override
        public CompletableFuture<Response<Allocation>> send(Attempts t, Target to, Many.Group group, long[] epochs) {
            int items = group.size();
            return t.attempt(to, path, request.of(to, group, epochs), new NextManyResponse()).thenApply(got -> {
                int[] lost = new int[items];
                for (int i = 0; got.lost != null && i < got.lost.indexes.length; i++) {
                    int index = got.lost.indexes[i];
                    if (index >= 0 && index < items && got.lost.attempts.length == got.lost.indexes.length) {
                        lost[index] = got.lost.attempts[i];
                    }
                }
                boolean isValid = got.values.length == items && got.prevs.length == items && got.epochs.length == items;
                return ManyMethod.read(items, got.errors, got.routes, isValid,
                        i -> Allocation.checked(to.addr(), got.values[i], got.prevs[i], got.epochs[i],
                                group.counts == null ? 1 : group.counts[i], lost[i]));
            });
        }

        @Override
        public Result<Allocation> plusLost(Result<Allocation> result, int lost) {
            return Result.of(result.valueOrNull().plusLost(lost));
        }
    }

    /** A method CurrentMany, of uids or of keys. */
    record CurrentMany(String path, Request request) implements ManyMethod<Current> {
        @Override
        public CompletableFuture<Response<Current>> send(Attempts t, Target to, Many.Group group, long[] epochs) {
            int items = group.size();
            return t.attempt(to, path, request.of(to, group, epochs), new CurrentManyResponse()).thenApply(got -> {
                boolean isValid = got.values.length == items && got.exactness.length == items
                        && got.epochs.length == items;
                return ManyMethod.read(items, got.errors, got.routes, isValid,
                        i -> Current.checked(to.addr(), got.values[i], got.exactness[i], got.epochs[i]));
            });
        }

        @Override
        public Result<Current> plusLost(Result<Current> result, int lost) {
            return result;
        }
    }
}
