/**
 * A client of the sequence service seqsvr: numbers that grow, for each user.
 *
 * <p>A {@link seqsvr.client.SeqClient} fetches the routes, which map uids to owners, from its seeds. It sends each
 * request to the owner of the request's uid, and adopts newer routes from the responses. The routes of each set name all
 * sets of its cluster, so a client that has a seed in one set reaches all of them.
 *
 * <pre>{@code
 * try (SeqClient client = SeqClient.builder().seed("127.0.0.1:7100").build()) {
 *     Allocation number = client.next(42); // number.value(), and number.prev(), the number before it
 * }
 * }</pre>
 *
 * <p>A uid is an unsigned 64-bit number in a {@code long}: {@link java.lang.Long#parseUnsignedLong} reads one, and {@link
 * java.lang.Long#toUnsignedString} prints it. Numbers, ids and epochs are 0 to 2^63-1.
 *
 * <p>The client keeps no state for single uids. The servers guarantee order and uniqueness. A client that fetched
 * numbers before they are needed could break the order between two processes that use the same uid.
 */
package seqsvr.client;
