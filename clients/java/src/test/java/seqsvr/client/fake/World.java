package seqsvr.client.fake;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import seqsvr.client.internal.routes.Buckets;
import seqsvr.client.internal.wire.RouteTable;

/**
 * Servers of a cluster in this process, for tests of what real servers do rarely: refusals, responses that are lost or
 * invalid, nodes that hang, sections that move between sets.
 *
 * <p>The numbers are real: no uid gets a number twice, in whatever way a test stages faults. The state is guarded by the
 * lock of the world.
 */
public final class World implements AutoCloseable {
    /** Number of uids in a section. */
    public static final int SECTION_SIZE = 10;

    /** Section: its set, its node, which is null without an owner, and its epoch. */
    record Section(int set, FakeNode node, long epoch) { }

    /** Set of the cluster. */
    static final class OfSet {
        final long id;
        final String name;
        final List<FakeNode> nodes = new ArrayList<>();
        /** Sections as the set knows them. */
        List<Section> routes = new ArrayList<>();
        long version = 1;

        OfSet(long id, String name) {
            this.id = id;
            this.name = name;
        }
    }

    /** Last numbers of a uid. */
    static final class Counter {
        long value;
        long prev;
    }

    final List<Section> sections = new ArrayList<>();
    final List<OfSet> sets = new ArrayList<>();
    final Map<Long, Counter> uids = new HashMap<>();
    final List<RouteTable.StoredSeries> series = new ArrayList<>();
    final Map<String, Long> counters = new HashMap<>();
    /** Buckets of the keyspace; empty without one. */
    private final List<Section> buckets = new ArrayList<>();
    final Map<String, Counter> keys = new HashMap<>();
    /** Sets that do not learn of moves between other sets. */
    private final Set<Integer> deaf = new HashSet<>();

    /**
     * Starts a cluster of sets with nodes each, which own two sections each, in order: the sections of node 0 of set 0 come
     * first.
     */
    public World(int ofSets, int nodes) throws IOException {
        for (int s = 0; s < ofSets; s++) {
            OfSet of = new OfSet(s + 1, "set-" + s);
            sets.add(of);
            for (int n = 0; n < nodes; n++) {
                FakeNode node = new FakeNode(this, s, n + 1);
                of.nodes.add(node);
                sections.add(new Section(s, node, 1));
                sections.add(new Section(s, node, 1));
            }
        }
        sets.forEach(of -> of.routes = new ArrayList<>(sections));
    }

    /** Returns the addresses of the first node of each set. */
    public List<String> seeds() {
        return sets.stream().map(of -> of.nodes.get(0).addr()).toList();
    }

    /** Returns a node of a set. */
    public FakeNode node(int set, int node) {
        return sets.get(set).nodes.get(node);
    }

    /** Returns the id of a set. */
    public long setId(int set) {
        return sets.get(set).id;
    }

    /** Moves the section of a uid to a node of a set, or leaves it without an owner if the node is -1. */
    public synchronized void move(long uid, int to, int node) {
        int at = (int) (uid / SECTION_SIZE);
        Section before = sections.get(at);
        Section moved = new Section(to, node < 0 ? null : sets.get(to).nodes.get(node), before.epoch + 1);
        sections.set(at, moved);
        for (int i = 0; i < sets.size(); i++) {
            if (i == before.set || i == to || !deaf.contains(i)) {
                sets.get(i).routes.set(at, moved);
                sets.get(i).version++;
            }
        }
    }

    /** Sets whether a set learns of moves between other sets. The default is true. */
    public synchronized void learn(int set, boolean learns) {
        if (learns) {
            deaf.remove(set);
        } else {
            deaf.add(set);
        }
    }

    /** Adds a series whose ids are offset, offset + increment, and so on. */
    public synchronized void addCounter(String name, long offset, long increment) {
        RouteTable.Shape shape = new RouteTable.Shape();
        shape.counter = new RouteTable.CounterShape();
        shape.counter.offset = offset;
        shape.counter.increment = increment;
        shape.counter.maxId = Long.MAX_VALUE;
        RouteTable.StoredSeries stored = new RouteTable.StoredSeries();
        stored.name = name;
        stored.shape = shape.encode();
        stored.createdMs = 1;
        stored.homeSetId = sets.get(0).id;
        series.add(stored);
        sets.forEach(of -> of.version++);
    }

    /**
     * Adds a keyspace. Each node owns as many of its buckets as any other, in the order of the nodes. A world has at most one
     * keyspace.
     */
    public synchronized void addKeyspace(String name) {
        List<FakeNode> nodes = sets.stream().flatMap(of -> of.nodes.stream()).toList();
        for (int bucket = 0; bucket < Buckets.COUNT; bucket++) {
            FakeNode node = nodes.get(bucket * nodes.size() / Buckets.COUNT);
            buckets.add(new Section(node.set, node, 1));
        }
        RouteTable.StoredSeries stored = new RouteTable.StoredSeries();
        stored.name = name;
        stored.createdMs = 1;
        stored.homeSetId = sets.get(0).id;
        stored.lanes = new RouteTable.Lanes();
        stored.lanes.count = Buckets.COUNT;
        stored.lanes.perSection = 1;
        stored.lanes.firstSection = sections.size();
        stored.lanes.keys = new RouteTable.Hashing();
        stored.lanes.keys.digest = 7;
        series.add(stored);
        sets.forEach(of -> of.version++);
    }

    /**
     * Moves the bucket of a key to a node of a set, under a new epoch, or leaves it without an owner if the node is -1. No set
     * sends the new route in its table unless it is known.
     */
    public synchronized void moveBucket(String key, int to, int node, boolean isKnown) {
        int at = Buckets.bucket(key.getBytes(StandardCharsets.UTF_8));
        FakeNode owner = node < 0 ? null : sets.get(to).nodes.get(node);
        buckets.set(at, new Section(to, owner, buckets.get(at).epoch + 1));
        if (isKnown) {
            sets.forEach(of -> of.version++);
        }
    }

    Section bucket(byte[] key) {
        return buckets.get(Buckets.bucket(key));
    }

    long lastOfKey(String key) {
        Counter counter = keys.get(key);
        return counter == null ? 0 : counter.value;
    }

    /** Allocates numbers of a key. */
    Counter takeOfKey(String key, int count) {
        return take(keys.computeIfAbsent(key, of -> new Counter()), count);
    }

    /** Allocates numbers of a uid. */
    Counter take(long uid, int count) {
        return take(uids.computeIfAbsent(uid, of -> new Counter()), count);
    }

    private static Counter take(Counter counter, int count) {
        counter.prev = counter.value;
        counter.value += Math.max(count, 1);
        return counter;
    }

    long epoch(long uid) {
        return sections.get((int) (uid / SECTION_SIZE)).epoch;
    }

    /** Returns the routes of a set, if they are newer than a version; otherwise null. */
    RouteTable.Routes table(int at, Long known) {
        OfSet of = sets.get(at);
        if (known == null || Long.compareUnsigned(known, of.version) >= 0) {
            return null;
        }
        RouteTable.Routes table = new RouteTable.Routes();
        table.set = of.name;
        table.setId = of.id;
        table.version = of.version;
        table.uidEnd = (long) sections.size() * SECTION_SIZE;
        table.sectionSize = SECTION_SIZE;
        table.series.addAll(series);
        for (FakeNode node : of.nodes) {
            RouteTable.RouteNode named = new RouteTable.RouteNode();
            named.id = node.id;
            named.name = "a" + node.id;
            named.addr = node.addr();
            table.nodes.add(named);
        }
        for (int i = 0; i < sets.size(); i++) {
            if (i != at) {
                RouteTable.RouteSet named = new RouteTable.RouteSet();
                named.id = sets.get(i).id;
                named.name = sets.get(i).name;
                sets.get(i).nodes.forEach(node -> named.allocs.add(node.addr()));
                table.sets.add(named);
            }
        }
        for (int i = 0; i < of.routes.size(); i++) {
            table.runs.add(run(at, i, of.routes.get(i)));
        }
        for (int i = 0; i < buckets.size(); i++) {
            int first = i;
            while (i + 1 < buckets.size() && buckets.get(i + 1).equals(buckets.get(first))) {
                i++;
            }
            RouteTable.RouteRun run = run(at, sections.size() + first, buckets.get(first));
            run.sections = i + 1 - first;
            table.laneRuns.add(run);
        }
        return table;
    }

    /** Returns the route of a section as the set at an index sends it. */
    private RouteTable.RouteRun run(int at, int first, Section section) {
        RouteTable.RouteRun run = new RouteTable.RouteRun();
        run.firstSection = first;
        run.sections = 1;
        run.epoch = section.epoch;
        if (section.set != at) {
            run.awaySetId = sets.get(section.set).id;
        } else if (section.node != null) {
            run.owner = section.node.id;
        }
        return run;
    }

    /** Stops every node. */
    @Override
    public void close() {
        sets.forEach(of -> of.nodes.forEach(FakeNode::stop));
    }
}
