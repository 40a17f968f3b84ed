package seqsvr.client.fake;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import seqsvr.client.fake.FakeNode.Answer;
import seqsvr.client.fake.FakeNode.Seen;
import seqsvr.client.internal.wire.KeyMessages;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.Sequence;

/** Handles the requests of a node for keys. */
final class KeyHandlers {
    private KeyHandlers() { }

    /** Returns the answer to a request; null for an unknown method. */
    static Answer handle(FakeNode node, String method, byte[] data) throws Malformed {
        return switch (method) {
            case "KeyService/Next" -> next(node, data);
            case "KeyService/Current" -> current(node, data);
            case "KeyService/Advance" -> advance(node, data);
            case "KeyService/NextMany" -> nextMany(node, data);
            case "KeyService/CurrentMany" -> currentMany(node, data);
            default -> null;
        };
    }

    /** Returns a key as a text of one character for each byte. */
    private static String text(byte[] key) {
        return new String(key, StandardCharsets.ISO_8859_1);
    }

    /** Handles a request for one key. The task is called with the locked world, and returns its own refusal, or null. */
    private static Refusal one(FakeNode node, String method, byte[] key, long epoch,
            Function<World.Section, Refusal> apply) {
        Refusal refusal = node.see(new Seen(method, List.of(), List.of(text(key)), List.of(epoch)));
        if (refusal != null) {
            return refusal;
        }
        synchronized (node.world) {
            World.Section at = node.world.bucket(key);
            refusal = Handlers.refusalAt(node, at);
            return refusal != null ? refusal : apply.apply(at);
        }
    }

    private static Answer next(FakeNode node, byte[] data) throws Malformed {
        KeyMessages.NextKeyRequest request = new KeyMessages.NextKeyRequest();
        request.decode(data);
        Sequence.NextResponse response = new Sequence.NextResponse();
        World world = node.world;
        Refusal refusal = one(node, "KeyNext", request.rawKey, request.epoch, at -> {
            World.Counter counter = world.takeOfKey(text(request.rawKey), request.count);
            response.value = counter.value;
            response.prev = counter.prev;
            response.epoch = at.epoch();
            response.routes = world.table(node.set, request.routeVersion);
            return null;
        });
        return new Answer(response, refusal);
    }

    private static Answer current(FakeNode node, byte[] data) throws Malformed {
        KeyMessages.CurrentKeyRequest request = new KeyMessages.CurrentKeyRequest();
        request.decode(data);
        Sequence.CurrentResponse response = new Sequence.CurrentResponse();
        World world = node.world;
        Refusal refusal = one(node, "KeyCurrent", request.rawKey, request.epoch, at -> {
            response.value = world.lastOfKey(text(request.rawKey));
            response.exactness = 1;
            response.epoch = at.epoch();
            response.routes = world.table(node.set, request.routeVersion);
            return null;
        });
        return new Answer(response, refusal);
    }

    private static Answer advance(FakeNode node, byte[] data) throws Malformed {
        KeyMessages.AdvanceKeyRequest request = new KeyMessages.AdvanceKeyRequest();
        request.decode(data);
        Sequence.AdvanceResponse response = new Sequence.AdvanceResponse();
        World world = node.world;
        Refusal refusal = one(node, "KeyAdvance", request.rawKey, request.epoch, at -> {
            if (world.lastOfKey(text(request.rawKey)) > request.to) {
                return new Refusal("ALREADY_PAST", 9, 0);
            }
            world.keys.computeIfAbsent(text(request.rawKey), of -> new World.Counter()).value = request.to;
            response.epoch = at.epoch();
            response.routes = world.table(node.set, request.routeVersion);
            return null;
        });
        return new Answer(response, refusal);
    }

    /** Records a request for many keys, and returns the refusal of all of them; null for none. */
    private static Refusal see(FakeNode node, String method, List<byte[]> keys, long[] epochs) {
        return node.see(new Seen(method, List.of(), keys.stream().map(KeyHandlers::text).toList(),
                Arrays.stream(epochs).boxed().toList()));
    }

    private static Answer nextMany(FakeNode node, byte[] data) throws Malformed {
        KeyMessages.NextKeysRequest request = new KeyMessages.NextKeysRequest();
        request.decode(data);
        Refusal refused = see(node, "NextKeys", request.rawKeys, request.knownEpochs);
        int items = request.rawKeys.size();
        Sequence.NextManyResponse response = new Sequence.NextManyResponse();
        response.values = new long[items];
        response.prevs = new long[items];
        response.epochs = new long[items];
        synchronized (node.world) {
            for (int i = 0; i < items; i++) {
                byte[] key = request.rawKeys.get(i);
                World.Section at = node.world.bucket(key);
                Refusal refusal = refused == null ? Handlers.refusalAt(node, at) : refused;
                if (refusal != null) {
                    response.errors.add(refusal.item(i));
                    continue;
                }
                int count = request.counts.length > 0 ? request.counts[i] : 1;
                World.Counter counter = node.world.takeOfKey(text(key), count);
                response.values[i] = counter.value;
                response.prevs[i] = counter.prev;
                response.epochs[i] = at.epoch();
            }
            response.routes = node.world.table(node.set, request.routeVersion);
        }
        return new Answer(response, null);
    }

    private static Answer currentMany(FakeNode node, byte[] data) throws Malformed {
        KeyMessages.CurrentKeysRequest request = new KeyMessages.CurrentKeysRequest();
        request.decode(data);
        Refusal refused = see(node, "CurrentKeys", request.rawKeys, request.knownEpochs);
        int items = request.rawKeys.size();
        Sequence.CurrentManyResponse response = new Sequence.CurrentManyResponse();
        response.values = new long[items];
        response.exactness = new int[items];
        response.epochs = new long[items];
        synchronized (node.world) {
            for (int i = 0; i < items; i++) {
                byte[] key = request.rawKeys.get(i);
                if (refused != null) {
                    response.errors.add(refused.item(i));
                } else {
                    response.values[i] = node.world.lastOfKey(text(key));
                }
                response.exactness[i] = refused == null ? 1 : 0;
                response.epochs[i] = node.world.bucket(key).epoch();
            }
        }
        return new Answer(response, null);
    }
}
