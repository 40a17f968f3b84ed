package seqsvr.client;

import java.time.Instant;
import java.util.Optional;

/**
 * The parts of an id.
 *
 * @param lane lane of the id; 0 for a counter
 * @param number number of the lane's counter from which the id was made
 * @param time time in the id; empty for a counter
 * @param seq sequence number in the unit of time; 0 for a counter
 */
public record DecodedId(int lane, long number, Optional<Instant> time, long seq) { }
