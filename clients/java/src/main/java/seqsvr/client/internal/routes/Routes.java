package seqsvr.client.internal.routes;

import java.util.function.Function;
import seqsvr.client.internal.wire.RouteTable;

/**
 * The newest directory, shared by all calls of a client. Readers load a snapshot without a lock; responses bring newer
 * routes, from which a new snapshot is made.
 */
public final class Routes {
    private volatile Directory current = new Directory();

    /** Returns the newest snapshot. */
    public Directory load() {
        return current;
    }

    /**
     * Adopts the routes that a set sent, if they are newer than those known of this set. The seed is the sender if it
     * is a seed, and empty otherwise.
     */
    public Directory.Change adopt(RouteTable.Routes table, String seed) throws RoutesException {
        if (!current.wouldChange(table, seed)) {
            return Directory.Change.NONE;
        }
        Layout of = TableCheck.check(table);
        synchronized (this) {
            Directory next = current.copy();
            try {
                Directory.Change change = next.adopt(table, of, seed);
                if (change.any()) {
                    current = next;
                }
                return change;
            } catch (RoutesException e) {
                KnownSet set = current.byId(table.setId);
                if (set != null && e.isMismatch) {
                    set.state.wantWhole.set(true);
                }
                throw e;
            }
        }
    }

    /**
     * Adopts the statement of a refusal that the section of a uid has been in a set since an epoch. A statement whose
     * epoch is not larger than that of the known route is ignored.
     */
    public void adoptClaim(long uid, long setId, long since) {
        adoptClaim(directory -> directory.locate(uid), setId, since);
    }

    /** Adopts a statement about a section of buckets in the cluster with a home, as {@link #adoptClaim}. */
    public void adoptBucketClaim(int home, long section, long setId, long since) {
        adoptClaim(directory -> directory.locateBucket(home, section), setId, since);
    }

    private void adoptClaim(Function<Directory, Directory.Place> locate, long setId, long since) {
        if (!isNews(locate, setId, since)) {
            return;
        }
        synchronized (this) {
            if (isNews(locate, setId, since)) {
                Directory next = current.copy();
                next.adoptClaim(locate.apply(next), setId, since);
                current = next;
            }
        }
    }

    private boolean isNews(Function<Directory, Directory.Place> locate, long setId, long since) {
        Directory directory = current;
        Directory.Place place = locate.apply(directory);
        return place != null && setId != 0 && Long.compareUnsigned(directory.route(place).epoch(), since) < 0;
    }
}
