package seqsvr.client;

/**
 * The last id of a counter, or an upper bound of it.
 *
 * @param id last id, or an upper bound of it; 0 if the counter never had an id
 * @param exact whether the id is exactly the last one. Otherwise it is an upper bound, as after a crash of the section's
 *     owner, until the next id
 * @param epoch epoch of the ownership that responded, 1 or above
 */
public record CurrentId(long id, boolean exact, long epoch) { }
