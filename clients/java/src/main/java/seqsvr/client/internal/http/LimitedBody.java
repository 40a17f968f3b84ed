package seqsvr.client.internal.http;

import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Collects the body of a response, up to a limit. The memory grows with the bytes that arrive. */
final class LimitedBody implements BodySubscriber<byte[]> {
    /** The error of a body above the limit. */
    static final class TooLarge extends IOException {
        private static final long serialVersionUID = 1;

        TooLarge(int limit) {
            super("the response has more than " + limit + " bytes");
        }
    }

    private final CompletableFuture<byte[]> body = new CompletableFuture<>();
    private final int limit;
    /** Length that the response states; -1 if it states none. */
    private final long stated;
    private Flow.Subscription subscription;
    private byte[] bytes = new byte[256];
    private int size;

    LimitedBody(int limit, long stated) {
        this.limit = limit;
        this.stated = stated;
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return body;
    }

    @Override
    public void onSubscribe(Flow.Subscription to) {
        if (subscription != null) {
            to.cancel();
            return;
        }
        if (stated > limit) {
            to.cancel();
            body.completeExceptionally(new TooLarge(limit));
            return;
        }
        subscription = to;
        to.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        for (ByteBuffer buffer : buffers) {
            int more = buffer.remaining();
            if (more > limit - size) {
                subscription.cancel();
                body.completeExceptionally(new TooLarge(limit));
                return;
            }
            if (bytes.length - size < more) {
                bytes = Arrays.copyOf(bytes, (int) Math.max(Math.min(bytes.length * 2L, limit), size + more));
            }
            buffer.get(bytes, size, more);
            size += more;
        }
    }

    @Override
    public void onError(Throwable error) {
        body.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
        body.complete(Arrays.copyOf(bytes, size));
    }
}
