package seqsvr.client;

import java.time.Duration;
import java.util.Optional;

/**
 * The machine-readable reason of a refusal or of a failure, with its properties.
 *
 * @param name name in capitals, as in {@link SeqException#reason}
 * @param subject subject of the requests that are refused with it; {@code Clients} if only clients report it
 * @param retryable whether the same request can succeed later
 * @param retryAfter usual hint of servers; zero if there is none
 * @param outcomeUnknown whether the request may have taken effect
 * @param meaning description for humans
 */
public record Reason(String name, String subject, boolean retryable, Duration retryAfter, boolean outcomeUnknown,
        String meaning) {
    /**
     * Returns the reason with a name. It is empty for a name that only later releases know; such a reason is judged by
     * its code and its hint.
     */
    public static Optional<Reason> lookup(String name) {
        return Optional.ofNullable(ReasonTable.ALL.get(name));
    }
}
