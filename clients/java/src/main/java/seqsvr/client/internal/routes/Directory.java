package seqsvr.client.internal.routes;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import seqsvr.client.internal.wire.RouteTable;

/**
 * A snapshot of every known set.
 *
 * <p>Sections can migrate between the sets of a cluster. Therefore the routes of all sets of a cluster are merged into
 * one table. Separately for each set, the directory keeps the addresses of its nodes and the version of its own routes.
 * The uids of different clusters do not overlap.
 *
 * <p>Invariants: the list of sets only grows, so the index of a set is valid in every later snapshot. The route version
 * of a set and the epoch of a section never fall.
 */
public final class Directory {
    /** Limit on the sets in a directory. It is that of a store. */
    private static final int MAX_SETS = 1024;

    /** Clusters in order of uid, which do not overlap. */
    private final List<Cluster> clusters;
    private final List<KnownSet> sets;

    /** Range of uids that several sets share, with the routes of its sections and of the buckets of its keyspaces. */
    private static final class Cluster {
        final Layout layout;
        final Sections sections;
        /** Set that was the first to send this layout. Requests for a section without a route are sent to it. */
        final int home;
        /**
         * Series in the order of their creation. A cluster only adds series, so of two lists the longer one is newer.
         */
        List<RouteTable.StoredSeries> series = List.of();

        Cluster(Layout layout, Sections sections, int home) {
            this.layout = layout;
            this.sections = sections;
            this.home = home;
        }
    }

    /** Series in the routes, with the set that was the first to send the layout of its cluster. */
    public record FoundSeries(RouteTable.StoredSeries series, int home) { }

    /** Place of a section: the index of its cluster, and its number there. */
    record Place(int cluster, int section) { }

    /** What an adoption of routes changed: anything at all, and possibly addresses. */
    public record Change(boolean any, boolean addrs) {
        static final Change NONE = new Change(false, false);
    }

    Directory() {
        clusters = List.of();
        sets = List.of();
    }

    private Directory(Directory of) {
        clusters = new ArrayList<>(of.clusters);
        sets = new ArrayList<>(of.sets);
    }

    Directory copy() {
        return new Directory(this);
    }

    /** Returns the route of a uid's section; null if the uid is in no known cluster. */
    public Route route(long uid) {
        Place place = locate(uid);
        return place == null ? null : route(place);
    }

    /** Returns the route of a section; one without an owner in the cluster's home if no set sent any. */
    Route route(Place place) {
        Cluster cluster = clusters.get(place.cluster);
        Route route = cluster.sections.get(place.section);
        return route != null ? route : new Route(0, 0, cluster.home, false);
    }

    /** Returns the buckets of the keyspace with a name; null if it is not known. */
    public Buckets buckets(String name) {
        FoundSeries found = series(name);
        return found == null ? null : Buckets.of(found.series, found.home);
    }

    /**
     * Returns the route of a section of buckets in the cluster whose layout the set {@code home} was the first to send.
     * Requests for a section without a route are sent to any node of that set.
     */
    public Route bucketRoute(int home, long section) {
        Place place = locateBucket(home, section);
        return place == null ? new Route(0, 0, home, false) : route(place);
    }

    /** Returns the first uid of the section of a uid; the uid itself if it is in no section of uids. */
    public long sectionStart(long uid) {
        int at = clusterWith(uid);
        if (at < 0) {
            return uid;
        }
        Layout layout = clusters.get(at).layout;
        return layout.start() + (long) layout.sectionOf(uid) * layout.sectionSize();
    }

    /** Returns the set with an index, which may be from any earlier snapshot. */
    public KnownSet set(int index) {
        return sets.get(index);
    }

    /** Returns the index of the set with an id; -1 if it is not known. */
    public int indexOf(long id) {
        for (int i = 0; i < sets.size(); i++) {
            if (sets.get(i).id == id) {
                return i;
            }
        }
        return -1;
    }

    /** Returns the set with an id; null if it is not known. */
    public KnownSet byId(long id) {
        int index = indexOf(id);
        return index < 0 ? null : sets.get(index);
    }

    /** Returns the other sets of a set's cluster. */
    public List<KnownSet> others(KnownSet set) {
        return sets.stream().filter(other -> other.id != set.id && other.layout.equals(set.layout)).toList();
    }

    /** Returns the series with a name; null if it is not known. */
    public FoundSeries series(String name) {
        for (Cluster cluster : clusters) {
            for (RouteTable.StoredSeries series : cluster.series) {
                if (series.name.equals(name)) {
                    return new FoundSeries(series, cluster.home);
                }
            }
        }
        return null;
    }

    /** Returns whether no set is known. */
    public boolean isEmpty() {
        return clusters.isEmpty();
    }

    /** Returns every address of every set. */
    public Set<String> addrs() {
        Set<String> all = new HashSet<>();
        sets.forEach(set -> all.addAll(set.allAddrs()));
        return all;
    }

    private long id(int index) {
        return sets.get(index).id;
    }

    /** Returns the place of a uid's section; null if there is none. That of a sparse uid is its bucket. */
    Place locate(long uid) {
        int at = clusterWith(uid);
        return at < 0 ? locateSparse(uid) : new Place(at, clusters.get(at).layout.sectionOf(uid));
    }

    /** Returns the bucket of a uid that no cluster declares, in the keyspace of uids; null if there is no such keyspace. */
    private Place locateSparse(long uid) {
        for (int i = 0; i < clusters.size(); i++) {
            for (RouteTable.StoredSeries series : clusters.get(i).series) {
                Buckets buckets = Buckets.of(series, clusters.get(i).home);
                if (buckets != null && series.lanes.keys.ofUids) {
                    return new Place(i, buckets.section(Long.toUnsignedString(uid).getBytes(StandardCharsets.US_ASCII)));
                }
            }
        }
        return null;
    }

    /** Returns the place of a section of buckets; null if the cluster is not known, or the section is beyond the limit. */
    Place locateBucket(int home, long section) {
        for (int i = 0; i < clusters.size(); i++) {
            if (clusters.get(i).home == home && section >= 0 && section < TableCheck.MAX_SECTIONS) {
                return new Place(i, (int) section);
            }
        }
        return null;
    }

    /** Returns the index of the cluster that declares a uid; -1 if there is none. */
    private int clusterWith(long uid) {
        for (int i = 0; i < clusters.size(); i++) {
            if (clusters.get(i).layout.contains(uid)) {
                return i;
            }
        }
        return -1;
    }

    /**
     * Returns whether the routes are new, or whether the seed is a new address of their set. It is checked before
     * anything is copied, because the routes in most responses are not new.
     */
    boolean wouldChange(RouteTable.Routes table, String seed) {
        KnownSet set = byId(table.setId);
        return set == null || Long.compareUnsigned(set.version, table.version) < 0
                || !seed.isEmpty() && !set.hasSeed(seed);
    }

    /** Adopts a claim about the section at a place. */
    void adoptClaim(Place place, long setId, long since) {
        int set = indexOrInsert(setId, clusters.get(place.cluster).layout);
        if (set >= 0) {
            Sections sections = change(place.cluster).sections;
            sections.extend(place.section + 1);
            sections.merge(place.section, 1, new Route(since, 0, set, true), this::id);
            sections.publish();
        }
    }

    Change adopt(RouteTable.Routes table, Layout of, String seed) throws RoutesException {
        KnownSet known = byId(table.setId);
        // A set is added only if a seed sent its routes, so that each set has an address.
        if (known == null && seed.isEmpty()) {
            throw TableCheck.mismatch(table);
        }
        long version = known == null ? 0 : known.version;
        boolean isNewer = Long.compareUnsigned(table.version, version) > 0;
        boolean isPart = table.baseVersion != 0;
        if (isNewer && isPart && (Long.compareUnsigned(table.baseVersion, version) > 0 || clusterOf(of) < 0)) {
            throw TableCheck.mismatch(table);
        }
        if (isNewer) {
            checkOverlap(table, of);
        }
        int index = indexOrInsert(table.setId, of);
        if (index < 0) {
            throw TableCheck.invalid(table, "is one more than the %d that a client holds", MAX_SETS);
        }
        boolean any = false;
        boolean addrs = false;
        if (!seed.isEmpty() && !sets.get(index).hasSeed(seed)) {
            sets.set(index, sets.get(index).withSeed(seed));
            any = true;
            addrs = true;
        }
        if (isNewer) {
            KnownSet before = sets.get(index);
            sets.set(index, before.withRoutes(table, of));
            if (!before.layout.equals(of)) {
                leave(before.layout, of);
            }
            addrs |= !sets.get(index).hasSameAddrs(before);
            addrs |= adoptSections(index, table, of);
            any = true;
        }
        return new Change(any, addrs);
    }

    /**
     * Merges the routes that the set with the index {@code own} sent into those of its cluster, with the set's
     * statements about other sets. Returns whether an address changed.
     */
    private boolean adoptSections(int own, RouteTable.Routes table, Layout of) {
        boolean addrs = false;
        for (RouteTable.RouteSet other : table.sets) {
            int index = other.id == table.setId || other.id == 0 ? -1 : indexOrInsert(other.id, of);
            if (index >= 0) {
                KnownSet before = sets.get(index);
                sets.set(index, before.learn(other.name, other.allocs));
                addrs |= !sets.get(index).hasSameAddrs(before);
            }
        }
        int at = clusterOf(of);
        if (at < 0) {
            clusters.add(new Cluster(of, new Sections(of.sections()), own));
            clusters.sort((a, b) -> Long.compareUnsigned(a.layout.start(), b.layout.start()));
            at = clusterOf(of);
        }
        Cluster cluster = change(at);
        table.runs.forEach(run -> merge(cluster, own, run));
        Buckets.runs(table, run -> merge(cluster, own, run));
        cluster.sections.publish();
        if (table.series.size() >= cluster.series.size()) {
            cluster.series = List.copyOf(table.series);
        }
        return addrs;
    }

    /** Merges a run of routes that the set with the index {@code own} sent. */
    private void merge(Cluster cluster, int own, RouteTable.RouteRun run) {
        int set = run.awaySetId == 0 ? own : indexOrInsert(run.awaySetId, cluster.layout);
        // Beyond the limit on sets the section keeps its former route, and nodes forward requests for it.
        if (set >= 0) {
            cluster.sections.extend(run.firstSection + run.sections);
            cluster.sections.merge(run.firstSection, run.sections, new Route(run.epoch, run.owner, set, set != own),
                    this::id);
        }
    }

    /** Replaces the cluster at an index by a copy that can be changed, and returns the copy. */
    private Cluster change(int at) {
        Cluster before = clusters.get(at);
        Cluster copied = new Cluster(before.layout, before.sections.copy(), before.home);
        copied.series = before.series;
        clusters.set(at, copied);
        return copied;
    }

    /** Returns the index of the cluster with a layout; -1 if there is none. */
    private int clusterOf(Layout of) {
        for (int i = 0; i < clusters.size(); i++) {
            if (clusters.get(i).layout.equals(of)) {
                return i;
            }
        }
        return -1;
    }

    /**
     * Removes the cluster with the layout {@code left} after a set changed from it to another layout, unless another
     * set has sent routes with it. Sets that are known only from the statements of other sets change with it.
     */
    private void leave(Layout left, Layout to) {
        if (sets.stream().anyMatch(set -> set.version != 0 && set.layout.equals(left))) {
            return;
        }
        clusters.removeIf(cluster -> cluster.layout.equals(left));
        sets.replaceAll(set -> set.layout.equals(left) ? set.withLayout(to) : set);
    }

    /**
     * Checks that the uids of a table do not overlap those of another set with a different layout, which is of another
     * cluster.
     */
    private void checkOverlap(RouteTable.Routes table, Layout of) throws RoutesException {
        for (KnownSet other : sets) {
            boolean sent = other.version != 0 && other.id != table.setId;
            if (sent && !other.layout.equals(of) && of.overlaps(other.layout)) {
                throw TableCheck.invalid(table, "with uids %s..%s overlaps set \"%s\" with uids %s..%s",
                        Long.toUnsignedString(of.start()), Long.toUnsignedString(of.end()), other.name,
                        Long.toUnsignedString(other.layout.start()), Long.toUnsignedString(other.layout.end()));
            }
        }
    }

    /**
     * Returns the index of the set with an id, which is added without routes and addresses if it is new; -1 at the
     * limit on sets.
     */
    private int indexOrInsert(long id, Layout of) {
        int index = indexOf(id);
        if (index < 0 && sets.size() < MAX_SETS) {
            sets.add(new KnownSet(id, of));
            return sets.size() - 1;
        }
        return index;
    }
}
