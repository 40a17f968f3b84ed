package seqsvr.client;

/**
 * An item of {@link SeqClient#nextMany(java.util.List)}.
 *
 * @param uid uid, unsigned
 * @param count count of the numbers, 1 to {@link Allocation#MAX_COUNT}
 */
public record Item(long uid, int count) { }
