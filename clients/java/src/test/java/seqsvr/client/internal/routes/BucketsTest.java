package seqsvr.client.internal.routes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static seqsvr.client.internal.routes.RoutesTest.table;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import seqsvr.client.internal.wire.RouteTable;

class BucketsTest {
    /** Returns the bytes that the characters of a text are. */
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    /** Returns a keyspace whose first bucket is a section. */
    private static RouteTable.StoredSeries keyspaceAt(String name, int first) {
        RouteTable.StoredSeries series = new RouteTable.StoredSeries();
        series.name = name;
        series.lanes = new RouteTable.Lanes();
        series.lanes.count = Buckets.COUNT;
        series.lanes.perSection = 1;
        series.lanes.firstSection = first;
        series.lanes.keys = new RouteTable.Hashing();
        series.lanes.keys.digest = 7;
        return series;
    }

    private static RouteTable.RouteRun run(int first, int sections, int owner, long epoch, long away) {
        RouteTable.RouteRun run = new RouteTable.RouteRun();
        run.firstSection = first;
        run.sections = sections;
        run.owner = owner;
        run.epoch = epoch;
        run.awaySetId = away;
        return run;
    }

    @Test
    void bucketsAreTheSlotsOfRedisCluster() {
        assertEquals(0x31c3, Buckets.crc16(bytes("123456789"), 0, 9));
        // The keys with braces are the examples of the specification of Redis Cluster.
        Map.ofEntries(Map.entry("123456789", 12_739), Map.entry("somekey", 11_058), Map.entry("foo", 12_182),
                Map.entry("bar", 5_061), Map.entry("foo{hash_tag}", 2_515), Map.entry("hash_tag", 2_515),
                Map.entry("user1000", 3_443), Map.entry("{user1000}.following", 3_443),
                Map.entry("{user1000}.followers", 3_443), Map.entry("foo{}{bar}", 8_363),
                Map.entry("foo{bar}{zap}", 5_061), Map.entry("{bar", 4_015), Map.entry("foo{{bar}}zap", 4_015),
                Map.entry("{}", 15_257), Map.entry("{", 4_092), Map.entry("", 0), Map.entry("conv:42", 7_999))
                .forEach((key, slot) -> assertEquals(slot, Buckets.bucket(bytes(key)), key));
        assertEquals(Buckets.bucket(bytes("b")), Buckets.bucket(bytes("}a{b}c")), "a brace before the tag counts");
        assertEquals(Buckets.bucket(bytes("\0\u00fe")), Buckets.bucket(bytes("\u00ff{\0\u00fe}\n")), "keys are not bytes");
    }

    @Test
    void bucketsHaveRoutesAndLanesHaveNone() throws Exception {
        Routes routes = new Routes();
        RouteTable.Routes one = table(1, 5, 3, "oo-");
        RouteTable.StoredSeries lanes = keyspaceAt("orders", 3);
        lanes.lanes.count = 10;
        lanes.lanes.keys = null;
        one.series.addAll(List.of(lanes, keyspaceAt("main", 13)));
        // The first run has lanes and the first ten buckets.
        one.laneRuns.addAll(List.of(run(3, 20, 1, 4, 0), run(13 + Buckets.COUNT - 1, 5, 0, 9, 2)));
        routes.adopt(one, "seed:1");
        Directory directory = routes.load();
        assertEquals(13 + 12_739, directory.buckets("main").section(bytes("123456789")));
        assertEquals(0, directory.buckets("main").home());
        assertNull(directory.buckets("orders"), "a series is a keyspace");
        Route owned = new Route(4, 1, 0, false);
        Route unknown = new Route(0, 0, 0, false);
        Map.of(13L, owned, 22L, owned, 12L, unknown, 23L, unknown, 13L + Buckets.COUNT - 1, new Route(9, 0, 1, true),
                13L + Buckets.COUNT, unknown, 1L << 40, unknown, -1L, unknown)
                .forEach((section, want) -> assertEquals(want, directory.bucketRoute(0, section), () -> "" + section));
        assertNull(directory.route(100 + 13 * 10), "a uid is in a bucket");
        assertEquals(new Route(0, 0, 7, false), directory.bucketRoute(7, 13));
        RouteTable.Routes delta = table(1, 6, 3, "oo-");
        delta.runs.clear();
        delta.baseVersion = 5;
        delta.series.addAll(one.series);
        delta.laneRuns.add(run(14, 1, 0, 5, 0));
        routes.adopt(delta, "");
        assertEquals(new Route(5, 0, 0, false), routes.load().bucketRoute(0, 14));
        assertEquals(owned, directory.bucketRoute(0, 14), "an earlier snapshot has changed");
        routes.adoptBucketClaim(0, 14, 2, 5);
        routes.adoptBucketClaim(0, 15, 2, 8);
        routes.adoptBucketClaim(0, 1L << 40, 2, 8);
        routes.adoptBucketClaim(7, 16, 2, 8);
        assertEquals(0, routes.load().bucketRoute(0, 14).set(), "a claim that is not newer");
        assertEquals(new Route(8, 0, 1, true), routes.load().bucketRoute(0, 15));
        assertEquals(owned, routes.load().bucketRoute(0, 16));
    }

    @Test
    void aClaimAboutABucketWithoutARouteIsKept() throws Exception {
        Routes routes = new Routes();
        RouteTable.Routes one = table(1, 5, 3, "oo-");
        one.series.add(keyspaceAt("main", 3));
        routes.adopt(one, "seed:1");
        routes.adoptBucketClaim(0, 3 + 12_739, 2, 8);
        assertEquals(new Route(8, 0, 1, true), routes.load().bucketRoute(0, 3 + 12_739));
        assertEquals(new Route(0, 0, 0, false), routes.load().bucketRoute(0, 3 + 12_738));
    }

    @Test
    void sparseUidsHaveTheRoutesOfTheirBuckets() throws Exception {
        long uid = 1_234_567_890_123_456_789L;
        Routes routes = new Routes();
        for (boolean isOfUids : new boolean[] {false, true}) {
            assertNull(routes.load().route(uid), "a keyspace of any keys has uids");
            RouteTable.Routes table = table(1, isOfUids ? 6 : 5, 3, "oo-");
            table.series.add(keyspaceAt("users", 13));
            table.series.get(0).lanes.keys.ofUids = isOfUids;
            table.laneRuns.add(run(13, Buckets.COUNT, 1, 4, 0));
            routes.adopt(table, "seed:1");
        }
        for (long sparse : new long[] {uid, -1}) {
            assertEquals(new Route(4, 1, 0, false), routes.load().route(sparse));
            assertEquals(sparse, routes.load().sectionStart(sparse));
        }
        routes.adoptClaim(uid, 2, 9);
        assertEquals(new Route(9, 0, 1, true), routes.load().bucketRoute(0, 13 + 5_033));
        assertEquals(new Route(4, 1, 0, false), routes.load().route(-1));
    }

    @Test
    void runsOfLanesAreChecked() throws Exception {
        Map.of("a section of uids", List.of(run(2, 1, 0, 1, 0)),
                "past the limit", List.of(run(TableCheck.MAX_SECTIONS, 1, 0, 1, 0)),
                "above 2^31", List.of(run(-1, 1, 0, 1, 0)),
                "an unknown owner", List.of(run(3, 1, 9, 1, 0)),
                "runs that overlap", List.of(run(3, 2, 0, 1, 0), run(4, 1, 0, 1, 0)),
                "a run of no length", List.of(run(3, 0, 0, 1, 0))).forEach((name, runs) -> {
                    RouteTable.Routes wrong = table(1, 5, 3, "oo-");
                    wrong.series.add(keyspaceAt("main", 3));
                    wrong.laneRuns.addAll(runs);
                    assertThrows(RoutesException.class, () -> new Routes().adopt(wrong, "seed:1"), name);
                });
        // The buckets of a keyspace beyond the limit have no routes, and neither have those of a keyspace of another size.
        RouteTable.Routes odd = table(1, 5, 3, "oo-");
        RouteTable.StoredSeries small = keyspaceAt("small", 3);
        small.lanes.count = 16;
        odd.series.addAll(List.of(keyspaceAt("far", TableCheck.MAX_SECTIONS), keyspaceAt("farther", -1), small));
        Routes routes = new Routes();
        routes.adopt(odd, "seed:1");
        for (String name : List.of("far", "farther", "small", "none")) {
            assertNull(routes.load().buckets(name), name);
        }
    }
}
