package seqsvr.client.internal.http;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import seqsvr.client.internal.json.Json;
import seqsvr.client.internal.wire.ErrorDetails;
import seqsvr.client.internal.wire.Malformed;

/** A response without a result: the error of the Connect protocol, or an HTTP response that is not of this protocol. */
public final class StatusException extends AttemptException {
    private static final long serialVersionUID = 1;

    /** Codes of gRPC that a client distinguishes. */
    public static final int CANCELLED = 1;
    public static final int UNKNOWN = 2;
    public static final int DEADLINE_EXCEEDED = 4;
    public static final int PERMISSION_DENIED = 7;
    public static final int UNIMPLEMENTED = 12;
    public static final int INTERNAL = 13;
    public static final int UNAVAILABLE = 14;
    public static final int UNAUTHENTICATED = 16;

    private static final String DOMAIN = "seqsvr";
    private static final int MAX_TEXT = 4096;
    private static final long DAY_MS = 86_400_000;

    /** Names of the codes in the Connect protocol, from 1 on. */
    private static final List<String> CODES = List.of("canceled", "unknown", "invalid_argument", "deadline_exceeded",
            "not_found", "already_exists", "permission_denied", "resource_exhausted", "failed_precondition", "aborted",
            "out_of_range", "unimplemented", "internal", "unavailable", "data_loss", "unauthenticated");

    /** Code of gRPC, 1 to 16. */
    public final int code;
    /** Reason of the refusal in capitals; empty if it does not come from the sequence service itself. */
    public String reason = "";
    /** Hint of the server; 0 if there is none. */
    public long retryAfterMs;
    /** Numbers in the metadata of the refusal, unsigned; null if they are absent. */
    public Long bound;
    public Long set;
    public Long since;
    /** Status code of a response that is not of the Connect protocol; 0 otherwise. */
    public int http;
    /** Whether the response violates the protocol. */
    public boolean isBadMessage;

    private StatusException(int code, String message) {
        super(message, null);
        this.code = code;
    }

    /** Returns the status of a response that violates the protocol. */
    public static StatusException bad(String message) {
        StatusException status = new StatusException(INTERNAL, message);
        status.isBadMessage = true;
        return status;
    }

    /** Returns the status in a response without a result. */
    static StatusException of(int http, String contentType, byte[] body) {
        if (http != 200 && contentType.equals("application/json")) {
            try {
                Map<String, Object> error = Json.object(Json.parse(new String(body, StandardCharsets.UTF_8)));
                int code = CODES.indexOf(String.valueOf(error.get("code"))) + 1;
                if (code > 0) {
                    return ofError(code, error);
                }
            } catch (IllegalArgumentException e) {
                // The response is not of this protocol.
            }
        }
        int code = switch (http) {
            case 400 -> INTERNAL;
            case 401 -> UNAUTHENTICATED;
            case 403 -> PERMISSION_DENIED;
            case 404 -> UNIMPLEMENTED;
            case 429, 502, 503, 504 -> UNAVAILABLE;
            default -> UNKNOWN;
        };
        StatusException status = new StatusException(code,
                "an HTTP response with status " + http + " and content type \"" + contentType + "\", not of seqsvr");
        status.http = http;
        return status;
    }

    private static StatusException ofError(int code, Map<String, Object> error) {
        String message = error.get("message") instanceof String text ? text : "";
        StatusException status = new StatusException(code, message.substring(0, Math.min(message.length(), MAX_TEXT)));
        for (Object detail : Json.array(error.get("details"))) {
            Map<String, Object> fields = Json.object(detail);
            if (fields.get("type") instanceof String type && fields.get("value") instanceof String value) {
                status.readDetail(type, value);
            }
        }
        return status;
    }

    /** Reads a detail. One that cannot be decoded is ignored, because the code alone is a valid status. */
    private void readDetail(String type, String value) {
        try {
            byte[] data = Base64.getDecoder().decode(value);
            if (type.equals("google.rpc.ErrorInfo")) {
                ErrorDetails.ErrorInfo info = new ErrorDetails.ErrorInfo();
                info.decode(data);
                if (info.domain.equals(DOMAIN)) {
                    reason = info.reason;
                    bound = number(info.get("bound"));
                    set = number(info.get("set"));
                    since = number(info.get("since"));
                }
            } else if (type.equals("google.rpc.RetryInfo")) {
                ErrorDetails.RetryInfo info = new ErrorDetails.RetryInfo();
                info.decode(data);
                retryAfterMs = info.retryDelay == null ? 0 : bounded(info.retryDelay);
            }
        } catch (IllegalArgumentException | Malformed e) {
            // The detail is ignored.
        }
    }

    /** Returns a duration in milliseconds, rounded up: at most a day, and not below 0. */
    static long bounded(ErrorDetails.Duration delay) {
        if (delay.seconds < 0 || delay.nanos < 0) {
            return 0;
        }
        return Math.min(Math.min(delay.seconds, DAY_MS / 1000) * 1000 + (delay.nanos + 999_999L) / 1_000_000, DAY_MS);
    }

    private static Long number(String text) {
        try {
            return Long.parseUnsignedLong(text);
        } catch (NumberFormatException e) {
            return null;
        }
    }
}
