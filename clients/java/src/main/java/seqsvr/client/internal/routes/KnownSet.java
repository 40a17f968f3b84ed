package seqsvr.client.internal.routes;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import seqsvr.client.internal.wire.RouteTable;

/**
 * The addresses of a set's nodes. It is immutable, except for its {@link State}.
 *
 * <p>Invariant: the version of a set's own routes never falls. A set that is known only from the routes of other sets
 * has version 0.
 */
public final class KnownSet {
    /**
     * Limit on the addresses of a set that other sets state. At least one of so many usually reaches a running node.
     */
    private static final int MAX_LEARNED = 16;

    /** Minimum interval between two requests for the whole table of a set without routes. A whole table is large. */
    private static final Duration WHOLE_INTERVAL = Duration.ofSeconds(1);

    /** Id of the set, 1 or above, unsigned. */
    public final long id;
    /** Name of the set; empty while only its id is known. */
    public final String name;
    /** State that all snapshots of the set share. */
    public final State state;

    final Layout layout;
    final long version;
    private final Map<Integer, String> addrs;
    /** Seeds that sent the set's routes. */
    private final List<String> seeds;
    /** Addresses of the set that the routes of other sets state. */
    private final List<String> learned;
    /**
     * Addresses of the set's nodes and seeds. While the set has not sent the addresses of its nodes, those that other
     * sets state are used instead.
     */
    private final List<String> hosts;

    /** State of one set that all calls to the set share. */
    public static final class State {
        public final Budget budget = new Budget(System.nanoTime());
        /** Limits requests for routes to other sets, which are made when no node of this set can be reached. */
        public final Limiter refresh = new Limiter();
        /**
         * Whether the next request asks for the set's whole table, because a response had only the changes since a
         * version that is not known here.
         */
        final AtomicBoolean wantWhole = new AtomicBoolean();
        final Limiter wholeAsked = new Limiter();
    }

    KnownSet(long id, Layout layout) {
        this(id, "", new State(), layout, 0, Map.of(), List.of(), List.of());
    }

    private KnownSet(long id, String name, State state, Layout layout, long version, Map<Integer, String> addrs,
            List<String> seeds, List<String> learned) {
        this.id = id;
        this.name = name;
        this.state = state;
        this.layout = layout;
        this.version = version;
        this.addrs = addrs;
        this.seeds = seeds;
        this.learned = learned;
        LinkedHashSet<String> all = new LinkedHashSet<>(addrs.values());
        if (addrs.isEmpty()) {
            all.addAll(learned);
        }
        all.addAll(seeds);
        this.hosts = List.copyOf(all);
    }

    /** Returns the address of a node; empty if it is not known. */
    public String addr(int node) {
        return addrs.getOrDefault(node, "");
    }

    /** Returns the version of the set's own routes; 0 if it has not sent any. */
    public long version() {
        return version;
    }

    /**
     * Returns the route version that a request to the set states as known: 0 asks for the whole table, and null asks
     * for no routes.
     */
    public Long knownVersion() {
        if (version == 0) {
            if (state.wholeAsked.tryAcquire(WHOLE_INTERVAL)) {
                state.wholeAsked.release();
                return 0L;
            }
            return null;
        }
        return state.wantWhole.get() && state.wantWhole.getAndSet(false) ? 0L : version;
    }

    /** Returns every known address of the set. */
    List<String> allAddrs() {
        List<String> all = new ArrayList<>(hosts);
        all.addAll(learned);
        return all;
    }

    /**
     * Returns the address to which a request for a section of this set is sent; empty if no address is known. An
     * address is good if it is neither excluded nor suspect. The result is the owner's address if it is good, otherwise
     * a random good address of another node, which forwards the request, otherwise a good address that another set
     * states. If no address is good, it is any address that is not excluded, or else any address.
     */
    public String host(int owner, String excluded, Predicate<String> isSuspect) {
        Predicate<String> isGood = addr -> !addr.equals(excluded) && !isSuspect.test(addr);
        if (owner != 0) {
            String addr = addr(owner);
            if (!addr.isEmpty() && isGood.test(addr)) {
                return addr;
            }
        }
        if (hosts.isEmpty()) {
            return "";
        }
        List<String> shuffled = new ArrayList<>(hosts);
        Collections.shuffle(shuffled, ThreadLocalRandom.current());
        for (List<String> list : List.of(shuffled, learned)) {
            for (String addr : list) {
                if (isGood.test(addr)) {
                    return addr;
                }
            }
        }
        return shuffled.stream().filter(addr -> !addr.equals(excluded)).findFirst().orElse(shuffled.get(0));
    }

    /** Returns whether a node of the set other than addr could be reached. */
    public boolean hasOther(String addr, Predicate<String> isSuspect) {
        return isAnyGood(hosts, addr, isSuspect) || isAnyGood(learned, addr, isSuspect);
    }

    private static boolean isAnyGood(List<String> list, String excluded, Predicate<String> isSuspect) {
        for (String addr : list) {
            if (!addr.equals(excluded) && !isSuspect.test(addr)) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether the set has no known address, or every known address was unreachable recently. */
    public boolean isDown(Predicate<String> isSuspect) {
        return !hasOther("", isSuspect);
    }

    boolean hasSeed(String seed) {
        return seeds.contains(seed);
    }

    /** Returns the set after a newer table of its own. */
    KnownSet withRoutes(RouteTable.Routes table, Layout of) {
        Map<Integer, String> next = new HashMap<>();
        for (RouteTable.RouteNode node : table.nodes) {
            next.put(node.id, node.addr);
        }
        return new KnownSet(id, table.set, state, of, table.version, next, seeds, learned);
    }

    /** Returns whether the addresses of nodes differ from those of another state of the set. */
    boolean hasSameAddrs(KnownSet other) {
        return addrs.equals(other.addrs) && learned.equals(other.learned);
    }

    /** Returns the set after a seed that is of the set. */
    KnownSet withSeed(String seed) {
        List<String> next = new ArrayList<>(seeds);
        next.add(seed);
        return new KnownSet(id, name, state, layout, version, addrs, next, learned);
    }

    /** Returns the set after another set stated its name and addresses. */
    KnownSet learn(String stated, List<String> allocs) {
        List<String> next = List.copyOf(allocs.subList(0, Math.min(allocs.size(), MAX_LEARNED)));
        // The own routes of a set take precedence for its name.
        String named = version == 0 ? stated : name;
        if (named.equals(name) && next.equals(learned)) {
            return this;
        }
        return new KnownSet(id, named, state, layout, version, addrs, seeds, next);
    }

    /** Returns the set in a cluster with another layout. */
    KnownSet withLayout(Layout other) {
        return new KnownSet(id, name, state, other, version, addrs, seeds, learned);
    }
}
