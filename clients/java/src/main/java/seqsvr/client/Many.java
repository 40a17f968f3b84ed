package seqsvr.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import seqsvr.client.internal.routes.Directory;
import seqsvr.client.internal.routes.Route;

/**
 * A call for many uids or keys: it divides the items into groups, one for each owner, and joins their results.
 *
 * @param <T> type of a value
 */
final class Many<T> {
    /** Limit on the items of one request. Larger batches are sent in several requests. */
    static final int MAX_ITEMS = 10_000;

    /**
     * Limit on the bytes of the keys of one request: half of the largest request of a server. The rest is for lengths,
     * counts and epochs.
     */
    static final int MAX_KEYS_BYTES = 128 << 10;

    /** Items with the same destination, in the order of the call. */
    static final class Group {
        /** Items, as in {@link Attempts#routeOf}. */
        final long[] items;
        /** Keys of the items; null in a call for uids. */
        final byte[][] keys;
        /** Counts of the items; null if each requests one number. */
        final int[] counts;
        /** Indexes of the items in the call. */
        final int[] indexes;

        Group(long[] items, byte[][] keys, int[] counts, int[] indexes) {
            this.items = items;
            this.keys = keys;
            this.counts = counts;
            this.indexes = indexes;
        }

        int size() {
            return items.length;
        }

        /** Returns the place after the last item from a place on that fits into the same request. */
        int fitting(int from) {
            int to = Math.min(from + MAX_ITEMS, size());
            int bytes = 0;
            for (int at = from; keys != null && at < to; at++) {
                bytes += keys[at].length;
                if (bytes > MAX_KEYS_BYTES) {
                    return at;
                }
            }
            return to;
        }

        /** Returns the items at some places of the group. */
        Group part(List<Integer> places) {
            long[] ofItems = new long[places.size()];
            byte[][] ofKeys = keys == null ? null : new byte[places.size()][];
            int[] ofCounts = counts == null ? null : new int[places.size()];
            int[] ofIndexes = new int[places.size()];
            for (int i = 0; i < ofItems.length; i++) {
                int place = places.get(i);
                ofItems[i] = items[place];
                ofIndexes[i] = indexes[place];
                if (keys != null) {
                    ofKeys[i] = keys[place];
                }
                if (counts != null) {
                    ofCounts[i] = counts[place];
                }
            }
            return new Group(ofItems, ofKeys, ofCounts, ofIndexes);
        }
    }

    /** The groups of a call, and the items that are in no known set. */
    private record Plan(List<Group> groups, List<Integer> outside, boolean hasSeveralSets) { }

    private record Destination(int set, int owner) { }

    private final Attempts t;
    private final ManyMethod<T> method;
    private final Group all;
    private final ManyResults<T> results;

    private Many(Attempts t, ManyMethod<T> method, long[] items, byte[][] keys, int[] counts) {
        this.t = t;
        this.method = method;
        int[] indexes = new int[items.length];
        for (int i = 0; i < indexes.length; i++) {
            indexes[i] = i;
        }
        this.all = new Group(items, keys, counts, indexes);
        this.results = new ManyResults<>(items.length);
    }

    /**
     * Makes the attempts of a call with one item or more. The keys are null in a call for uids, and the counts if each
     * item requests one number.
     */
    static <T> CompletableFuture<List<Result<T>>> run(Attempts t, ManyMethod<T> method, long[] items, byte[][] keys,
            int[] counts) {
        return new Many<>(t, method, items, keys, counts).run();
    }

    private CompletableFuture<List<Result<T>>> run() {
        Plan plan = plan();
        if (plan.outside.isEmpty()) {
            return send(plan);
        }
        return t.core.discovery.refresh(t.call).thenCompose(refreshed -> send(plan()));
    }

    /** Divides the items of the call. All items of a uid or key are in the same group. */
    private Plan plan() {
        Directory directory = t.core.routes.load();
        Map<Destination, List<Integer>> places = new HashMap<>();
        List<List<Integer>> order = new ArrayList<>();
        List<Integer> outside = new ArrayList<>();
        int first = -1;
        boolean hasSeveralSets = false;
        for (int i = 0; i < all.size(); i++) {
            Route route = t.routeOf(directory, all.items[i]);
            if (route == null) {
                outside.add(i);
                continue;
            }
            first = first < 0 ? route.set() : first;
            hasSeveralSets |= route.set() != first;
            places.computeIfAbsent(new Destination(route.set(), route.owner()), to -> {
                List<Integer> list = new ArrayList<>();
                order.add(list);
                return list;
            }).add(i);
        }
        return new Plan(order.stream().map(all::part).toList(), outside, hasSeveralSets);
    }

    private CompletableFuture<List<Result<T>>> send(Plan plan) {
        for (int index : plan.outside) {
            results.set(index, Result.failed(Errors.outside(all.items[index])));
        }
        t.failsFast = plan.hasSeveralSets;
        List<Attempts> states = new ArrayList<>();
        CompletableFuture<?>[] running = new CompletableFuture<?>[plan.groups.size()];
        for (int i = 0; i < running.length; i++) {
            Attempts state = t.fork();
            states.add(state);
            running[i] = sendGroup(state, plan.groups.get(i), 0);
        }
        return CompletableFuture.allOf(running).thenApply(ended -> {
            for (Attempts state : states) {
                t.made = Math.max(t.made, state.made);
                t.lost += state.lost;
            }
            return results.finish();
        });
    }

    /**
     * Sends the items of a group from a place on, in as many requests as they need, one after another, so that the items
     * of a uid or key are processed in order.
     */
    private CompletableFuture<Void> sendGroup(Attempts state, Group group, int from) {
        if (from >= group.size()) {
            return Async.DONE;
        }
        int to = group.fitting(from);
        List<Integer> places = new ArrayList<>();
        for (int i = from; i < to; i++) {
            places.add(i);
        }
        Attempts each = state.fork();
        each.made = t.made;
        each.lost = t.lost;
        Group chunk = places.size() == group.size() ? group : group.part(places);
        return new ManySender<>(method, results).sendAll(each, chunk).thenCompose(sent -> {
            state.made = Math.max(state.made, each.made);
            state.lost += each.lost - t.lost;
            return sendGroup(state, group, to);
        });
    }
}
