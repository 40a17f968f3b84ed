package seqsvr.client.fake;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import seqsvr.client.Code;
import seqsvr.client.internal.json.Json;
import seqsvr.client.internal.wire.ErrorDetails;
import seqsvr.client.internal.wire.Message;
import seqsvr.client.internal.wire.Sequence.ItemError;

/**
 * The refusal of a request, or of the items of a batch.
 *
 * @param reason reason; empty if the refusal is not of the service itself
 * @param code code of gRPC
 * @param retryAfterMs hint; 0 for none
 * @param set id of the set that it names; null for none
 * @param since epoch that it names; null for none
 */
public record Refusal(String reason, int code, int retryAfterMs, Long set, Long since) {
    /** Creates a refusal that names no set. */
    public Refusal(String reason, int code, int retryAfterMs) {
        this(reason, code, retryAfterMs, null, null);
    }

    ItemError item(int index) {
        ItemError item = new ItemError();
        item.index = index;
        item.code = code;
        item.reason = reason;
        item.message = "refused: " + reason;
        item.retryAfterMs = retryAfterMs;
        item.setId = set;
        item.since = since;
        return item;
    }

    int http() {
        return switch (code) {
            case 3, 9, 11 -> 400;
            case 4 -> 504;
            case 8 -> 429;
            case 14 -> 503;
            default -> 500;
        };
    }

    /** Returns the error of the Connect protocol. */
    String json() {
        List<Object> details = new ArrayList<>();
        if (!reason.isEmpty()) {
            ErrorDetails.ErrorInfo info = new ErrorDetails.ErrorInfo();
            info.reason = reason;
            info.domain = "seqsvr";
            add(info, "set", set);
            add(info, "since", since);
            details.add(detail("google.rpc.ErrorInfo", info));
        }
        if (retryAfterMs > 0) {
            ErrorDetails.RetryInfo retry = new ErrorDetails.RetryInfo();
            retry.retryDelay = new ErrorDetails.Duration();
            retry.retryDelay.seconds = retryAfterMs / 1000;
            retry.retryDelay.nanos = retryAfterMs % 1000 * 1_000_000;
            details.add(detail("google.rpc.RetryInfo", retry));
        }
        String name = code == 1 ? "canceled" : Code.values()[code].name().toLowerCase(Locale.ROOT);
        return Json.write(Map.of("code", name, "message", "refused: " + reason, "details", details));
    }

    private static void add(ErrorDetails.ErrorInfo info, String key, Long number) {
        if (number != null) {
            ErrorDetails.Entry entry = new ErrorDetails.Entry();
            entry.key = key;
            entry.value = Long.toUnsignedString(number);
            info.metadata.add(entry);
        }
    }

    private static Map<String, Object> detail(String type, Message value) {
        return Map.of("type", type, "value", Base64.getEncoder().withoutPadding().encodeToString(value.encode()));
    }
}
