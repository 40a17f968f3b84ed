package seqsvr.client.fake;

import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import seqsvr.client.fake.FakeNode.Answer;
import seqsvr.client.fake.FakeNode.Seen;
import seqsvr.client.internal.wire.IdMessages;
import seqsvr.client.internal.wire.Malformed;
import seqsvr.client.internal.wire.RouteTable;
import seqsvr.client.internal.wire.Sequence;

/** Handles the requests of a node. */
final class Handlers {
    private static final int UNAVAILABLE = 14;

    private Handlers() { }

    /** Returns the answer to a request; null for an unknown method. */
    static Answer handle(FakeNode node, String method, byte[] data) throws Malformed {
        return switch (method) {
            case "SequenceService/GetRoutes" -> routes(node, data);
            case "SequenceService/Next" -> next(node, data);
            case "SequenceService/Current" -> current(node, data);
            case "SequenceService/Advance" -> advance(node, data);
            case "SequenceService/NextMany" -> nextMany(node, data);
            case "SequenceService/CurrentMany" -> currentMany(node, data);
            case "IdService/Next" -> nextIds(node, data);
            case "IdService/Advance" -> advanceId(node, data);
            default -> KeyHandlers.handle(node, method, data);
        };
    }

    private static Answer routes(FakeNode node, byte[] data) throws Malformed {
        Sequence.GetRoutesRequest request = new Sequence.GetRoutesRequest();
        request.decode(data);
        if (request.knownVersion == -1) {
            node.probed();
        }
        node.await();
        Sequence.GetRoutesResponse response = new Sequence.GetRoutesResponse();
        if (!node.hasNoRoutes()) {
            synchronized (node.world) {
                response.routes = node.world.table(node.set, request.knownVersion);
            }
        }
        return new Answer(response, null);
    }

    /** Handles a request for one uid. The function is called with the locked world, and returns whether it was applied. */
    private static Refusal one(FakeNode node, String method, Long uid, long epoch, BooleanSupplier apply) {
        Refusal refusal = node.see(new Seen(method, List.of(uid), List.of(epoch)));
        if (refusal != null) {
            return refusal;
        }
        synchronized (node.world) {
            refusal = refusalOf(node, uid);
            if (refusal == null) {
                apply.getAsBoolean();
            }
            return refusal;
        }
    }

    private static Answer next(FakeNode node, byte[] data) throws Malformed {
        Sequence.NextRequest request = new Sequence.NextRequest();
        request.decode(data);
        Sequence.NextResponse response = new Sequence.NextResponse();
        World world = node.world;
        Refusal refusal = one(node, "Next", request.uid, request.epoch, () -> {
            World.Counter counter = world.take(request.uid, request.count);
            response.value = counter.value;
            response.prev = counter.prev;
            response.epoch = world.epoch(request.uid);
            response.routes = world.table(node.set, request.routeVersion);
            return true;
        });
        return new Answer(response, refusal);
    }

    private static Answer current(FakeNode node, byte[] data) throws Malformed {
        Sequence.CurrentRequest request = new Sequence.CurrentRequest();
        request.decode(data);
        Sequence.CurrentResponse response = new Sequence.CurrentResponse();
        World world = node.world;
        Refusal refusal = one(node, "Current", request.uid, request.epoch, () -> {
            World.Counter counter = world.uids.get(request.uid);
            response.value = counter == null ? 0 : counter.value;
            response.exactness = 1;
            response.epoch = world.epoch(request.uid);
            response.routes = world.table(node.set, request.routeVersion);
            return true;
        });
        return new Answer(response, refusal);
    }

    private static Answer advance(FakeNode node, byte[] data) throws Malformed {
        Sequence.AdvanceRequest request = new Sequence.AdvanceRequest();
        request.decode(data);
        Sequence.AdvanceResponse response = new Sequence.AdvanceResponse();
        World world = node.world;
        Refusal refusal = one(node, "Advance", request.uid, request.epoch, () -> {
            world.uids.computeIfAbsent(request.uid, of -> new World.Counter()).value = request.to;
            response.epoch = world.epoch(request.uid);
            response.routes = world.table(node.set, request.routeVersion);
            return true;
        });
        return new Answer(response, refusal);
    }

    /** Returns the refusal of an item; null if the node serves it, or forwards it. The world is locked. */
    private static Refusal refusalOf(FakeNode node, long uid) {
        World world = node.world;
        if (uid < 0 || uid / World.SECTION_SIZE >= world.sections.size()) {
            return new Refusal("UID_OUT_OF_RANGE", 11, 0);
        }
        return refusalAt(node, world.sections.get((int) (uid / World.SECTION_SIZE)));
    }

    /** Returns the refusal of an item of a section; null if the node serves it, or forwards it. The world is locked. */
    static Refusal refusalAt(FakeNode node, World.Section at) {
        if (at.node() == node) {
            return null;
        }
        if (at.set() != node.set && node.isIsolated()) {
            return new Refusal("MOVED", UNAVAILABLE, 1, node.world.sets.get(at.set()).id, at.epoch());
        }
        return at.node() == null ? new Refusal("UNSERVED", UNAVAILABLE, 20) : null;
    }

    private static List<Long> list(long[] numbers) {
        return Arrays.stream(numbers).boxed().toList();
    }

    private static Answer nextMany(FakeNode node, byte[] data) throws Malformed {
        Sequence.NextManyRequest request = new Sequence.NextManyRequest();
        request.decode(data);
        Refusal refused = node.see(new Seen("NextMany", list(request.uids), list(request.knownEpochs)));
        int items = request.uids.length;
        Sequence.NextManyResponse response = new Sequence.NextManyResponse();
        response.values = new long[items];
        response.prevs = new long[items];
        response.epochs = new long[items];
        synchronized (node.world) {
            for (int i = 0; i < items; i++) {
                Refusal refusal = refused == null ? refusalOf(node, request.uids[i]) : refused;
                if (refusal != null) {
                    response.errors.add(refusal.item(i));
                    continue;
                }
                World.Counter counter = node.world.take(request.uids[i], request.counts.length > 0 ? request.counts[i] : 1);
                response.values[i] = counter.value;
                response.prevs[i] = counter.prev;
                response.epochs[i] = node.world.epoch(request.uids[i]);
            }
            response.routes = node.world.table(node.set, request.routeVersion);
        }
        return new Answer(response, null);
    }

    private static Answer currentMany(FakeNode node, byte[] data) throws Malformed {
        Sequence.CurrentManyRequest request = new Sequence.CurrentManyRequest();
        request.decode(data);
        Refusal refused = node.see(new Seen("CurrentMany", list(request.uids), list(request.knownEpochs)));
        int items = request.uids.length;
        Sequence.CurrentManyResponse response = new Sequence.CurrentManyResponse();
        response.values = new long[items];
        response.exactness = new int[items];
        response.epochs = new long[items];
        synchronized (node.world) {
            for (int i = 0; i < items; i++) {
                World.Counter counter = node.world.uids.get(request.uids[i]);
                if (refused != null) {
                    response.errors.add(refused.item(i));
                } else {
                    response.values[i] = counter == null ? 0 : counter.value;
                }
                response.exactness[i] = refused == null ? 1 : 0;
                response.epochs[i] = 1;
            }
        }
        return new Answer(response, null);
    }

    /** Takes ids of a counter. An id that is more than 1,000 numbers ahead is refused. */
    private static Answer nextIds(FakeNode node, byte[] data) throws Malformed {
        IdMessages.NextIdsRequest request = new IdMessages.NextIdsRequest();
        request.decode(data);
        long after = request.after == null ? 0 : request.after;
        Refusal refusal = node.see(new Seen("Ids", List.of(after), List.of()));
        if (refusal != null) {
            return new Answer(null, refusal);
        }
        World world = node.world;
        synchronized (world) {
            RouteTable.CounterShape counter = counter(world, request.series);
            if (counter == null) {
                return new Answer(null, new Refusal("UNKNOWN_SERIES", 5, 0));
            }
            long given = world.counters.getOrDefault(request.series, 0L);
            long number = after < counter.offset ? given : Math.max(given, (after - counter.offset) / counter.increment + 1);
            if (number > given + 1000) {
                return new Answer(null, new Refusal("AFTER_TOO_FAR", 11, 0));
            }
            world.counters.put(request.series, number + request.count);
            IdMessages.IdRun run = new IdMessages.IdRun();
            run.first = counter.offset + number * counter.increment;
            run.count = request.count;
            IdMessages.NextIdsResponse response = new IdMessages.NextIdsResponse();
            response.runs.add(run);
            response.step = counter.increment;
            response.epoch = 1;
            return new Answer(response, null);
        }
    }

    private static RouteTable.CounterShape counter(World world, String name) throws Malformed {
        for (RouteTable.StoredSeries one : world.series) {
            if (one.name.equals(name)) {
                RouteTable.Shape shape = new RouteTable.Shape();
                shape.decode(one.shape);
                return shape.counter;
            }
        }
        return null;
    }

    /** Raises a counter to an id. */
    private static Answer advanceId(FakeNode node, byte[] data) throws Malformed {
        IdMessages.AdvanceIdRequest request = new IdMessages.AdvanceIdRequest();
        request.decode(data);
        Refusal refusal = node.see(new Seen("AdvanceId", List.of(request.to), List.of()));
        if (refusal != null) {
            return new Answer(null, refusal);
        }
        synchronized (node.world) {
            RouteTable.CounterShape counter = counter(node.world, request.series);
            node.world.counters.put(request.series, (request.to - counter.offset) / counter.increment + 1);
        }
        IdMessages.AdvanceIdResponse response = new IdMessages.AdvanceIdResponse();
        response.epoch = 1;
        return new Answer(response, null);
    }
}
