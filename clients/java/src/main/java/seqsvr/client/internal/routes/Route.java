package seqsvr.client.internal.routes;

import java.util.function.IntToLongFunction;

/**
 * The newest route of a section that the client knows.
 *
 * @param epoch of the section's ownership; without an owner, the epoch under which the section arrived in the set
 * @param owner id of the owner in the set; 0 if there is none, or if it is not known
 * @param set index of the section's set
 * @param isClaim whether a set other than {@code set} sent this route
 */
public record Route(long epoch, int owner, int set, boolean isClaim) {
    /**
     * Returns whether this route replaces another one, which is null if none is known. The route with the larger epoch
     * is newer, even if the two are of different sets. At equal epochs a route with an owner replaces a claim, and a
     * claim replaces a route without an owner, because a set also sends such a route for a section of which it knows
     * nothing. Two sets never have a section under the same epoch; if two routes state this, the ids of the sets
     * decide, so that every copy of the routes keeps the same route.
     */
    boolean isNewer(Route other, IntToLongFunction id) {
        if (other == null) {
            return true;
        }
        if (epoch != other.epoch) {
            return Long.compareUnsigned(epoch, other.epoch) > 0;
        }
        if ((owner != 0) != (other.owner != 0)) {
            return owner != 0;
        }
        if (isClaim != other.isClaim) {
            return isClaim;
        }
        int bySet = Long.compareUnsigned(id.applyAsLong(set), id.applyAsLong(other.set));
        return bySet != 0 ? bySet > 0 : Integer.compareUnsigned(owner, other.owner) > 0;
    }
}
