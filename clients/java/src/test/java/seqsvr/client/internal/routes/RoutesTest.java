package seqsvr.client.internal.routes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import seqsvr.client.internal.wire.RouteTable;

class RoutesTest {
    private static final Predicate<String> NEVER = addr -> false;
    private static final Predicate<String> ALL = addr -> true;

    /**
     * Returns the routes of a set in which section n is owned by node 1 if its place in owners is 'o', is away in the set
     * with id 3 - id if it is 'a', and has no owner if it is '-'.
     */
    static RouteTable.Routes table(long id, long version, long epoch, String owners) {
        RouteTable.Routes t = new RouteTable.Routes();
        t.set = "set";
        t.setId = id;
        t.version = version;
        t.uidStart = 100;
        t.uidEnd = 100 + owners.length() * 10L;
        t.sectionSize = 10;
        RouteTable.RouteNode node = new RouteTable.RouteNode();
        node.id = 1;
        node.addr = "host-" + id + ":1";
        t.nodes.add(node);
        for (int i = 0; i < owners.length(); i++) {
            RouteTable.RouteRun run = new RouteTable.RouteRun();
            run.firstSection = i;
            run.sections = 1;
            run.epoch = epoch;
            run.owner = owners.charAt(i) == 'o' ? 1 : 0;
            run.awaySetId = owners.charAt(i) == 'a' ? 3 - id : 0;
            t.runs.add(run);
        }
        return t;
    }

    private static long setOf(Routes routes, long uid) {
        return routes.load().set(routes.load().route(uid).set()).id;
    }

    @Test
    void uidsAreMappedToOwners() throws Exception {
        Routes routes = new Routes();
        assertNull(routes.load().route(1));
        assertTrue(routes.load().isEmpty());
        routes.adopt(table(1, 5, 3, "oa-"), "seed:1");
        Map.of(100L, "1/1", 109L, "1/1", 110L, "2/0", 119L, "2/0", 120L, "1/0", 129L, "1/0").forEach((uid, want) -> {
            Route route = routes.load().route(uid);
            assertEquals(want, setOf(routes, uid) + "/" + route.owner(), () -> "uid " + uid);
            assertEquals(3, route.epoch());
            assertEquals(uid / 10 * 10, routes.load().sectionStart(uid));
        });
        for (long uid : new long[] {0, 99, 130, -1}) {
            assertNull(routes.load().route(uid), () -> "uid " + uid);
        }
    }

    @Test
    void uidsAreUnsigned() throws Exception {
        Routes routes = new Routes();
        RouteTable.Routes table = table(1, 5, 3, "oo");
        table.uidStart = Long.MAX_VALUE - 9;
        table.uidEnd = Long.MIN_VALUE + 10;
        routes.adopt(table, "seed:1");
        assertNotNull(routes.load().route(Long.MAX_VALUE));
        assertNotNull(routes.load().route(Long.MIN_VALUE + 9));
        assertNull(routes.load().route(Long.MIN_VALUE + 10));
        assertNull(routes.load().route(0));
    }

    @Test
    void aRouteIsOnlyReplacedByANewerOne() throws Exception {
        Routes routes = new Routes();
        routes.adopt(table(1, 5, 3, "oo"), "s:1");
        // Another set claims the first section under a newer epoch, and the second under an older one.
        RouteTable.Routes other = table(2, 1, 4, "oa");
        other.runs.get(1).epoch = 2;
        routes.adopt(other, "s:2");
        assertEquals(2, setOf(routes, 100));
        assertEquals(1, setOf(routes, 110));
        // An older version changes nothing, not even under larger epochs.
        assertFalse(routes.adopt(table(1, 5, 99, "oo"), "s:1").any());
        routes.adoptClaim(100, 1, 4);
        routes.adoptClaim(100, 0, 9);
        routes.adoptClaim(999, 1, 9);
        assertEquals(2, setOf(routes, 100));
        Directory before = routes.load();
        routes.adoptClaim(100, 1, 5);
        assertEquals(1, setOf(routes, 100));
        assertEquals(2, before.set(before.route(100).set()).id, "an earlier snapshot has changed");
    }

    @Test
    void deltasNeedTheirBase() throws Exception {
        Routes routes = new Routes();
        assertThrows(RoutesException.class, () -> routes.adopt(table(1, 5, 3, "oo"), ""));
        routes.adopt(table(1, 5, 3, "oo"), "s:1");
        RouteTable.Routes delta = table(1, 8, 4, "oo");
        delta.baseVersion = 6;
        assertThrows(RoutesException.class, () -> routes.adopt(delta, ""));
        // The next request asks for the whole table, once.
        KnownSet set = routes.load().byId(1);
        assertEquals(0, set.knownVersion());
        assertEquals(5, set.knownVersion());
        delta.baseVersion = 5;
        assertEquals(new Directory.Change(true, false), routes.adopt(delta, ""));
    }

    @Test
    void aSetWithoutRoutesIsAskedForAllOfThemOnceInAWhile() throws Exception {
        Routes routes = new Routes();
        routes.adopt(table(1, 5, 3, "oa"), "s:1");
        KnownSet set = routes.load().byId(2);
        assertEquals(0, set.knownVersion());
        assertNull(set.knownVersion());
    }

    @Test
    void invalidTablesAreRefused() {
        Map<String, Consumer<RouteTable.Routes>> cases = Map.ofEntries(
                Map.entry("in sections of 0", t -> t.sectionSize = 0),
                Map.entry("uids 100..100", t -> t.uidEnd = 100),
                Map.entry("more than 1048576", t -> {
                    t.uidStart = 0;
                    t.uidEnd = -1;
                    t.sectionSize = 1;
                }),
                Map.entry("of version 0", t -> t.version = 0),
                Map.entry("since 5", t -> t.baseVersion = 5),
                Map.entry("with id 0", t -> t.setId = 0),
                Map.entry("without an id", t -> t.nodes.get(0).id = 0),
                Map.entry("a run of 0 sections", t -> t.runs.get(0).sections = 0),
                Map.entry("a run of 2 sections", t -> t.runs.get(1).sections = 2),
                Map.entry("a run of 4294967295 sections", t -> t.runs.get(1).sections = -1),
                Map.entry("a run of 1 sections", t -> t.runs.get(1).firstSection = 0),
                Map.entry("the unknown owner 7", t -> t.runs.get(0).owner = 7),
                Map.entry("the unknown owner 1", t -> t.runs.get(0).awaySetId = 2));
        cases.forEach((text, change) -> {
            Routes routes = new Routes();
            RouteTable.Routes broken = table(1, 5, 3, "oo");
            change.accept(broken);
            String message = assertThrows(RoutesException.class, () -> routes.adopt(broken, "s:1"), text).getMessage();
            assertTrue(message.contains(text), () -> message + " lacks " + text);
            assertTrue(routes.load().isEmpty());
        });
    }

    @Test
    void clustersDoNotOverlap() throws Exception {
        Routes routes = new Routes();
        routes.adopt(table(1, 5, 3, "oo"), "s:1");
        RouteTable.Routes other = table(7, 1, 1, "ooo");
        assertTrue(assertThrows(RoutesException.class, () -> routes.adopt(other, "s:2")).getMessage().contains("overlaps"));
        other.uidStart = 0;
        other.uidEnd = 30;
        routes.adopt(other, "s:2");
        assertEquals(7, setOf(routes, 29));
        assertEquals(List.of(), routes.load().others(routes.load().byId(7)));
        // A cluster of one set may change its layout.
        routes.adopt(table(1, 6, 4, "oooo"), "");
        assertNotNull(routes.load().route(139));
    }

    @Test
    void aHostIsTheOwnerOrAGoodOne() throws Exception {
        Routes routes = new Routes();
        RouteTable.Routes table = table(1, 5, 3, "oo");
        table.nodes.get(0).addr = "a:1";
        RouteTable.RouteNode second = new RouteTable.RouteNode();
        second.id = 2;
        second.addr = "b:1";
        table.nodes.add(second);
        routes.adopt(table, "a:1");
        KnownSet set = routes.load().byId(1);
        for (int i = 0; i < 20; i++) {
            assertEquals("a:1", set.host(1, "", NEVER));
            assertEquals("b:1", set.host(2, "a:1", NEVER));
            assertEquals("b:1", set.host(1, "a:1", NEVER));
            assertEquals("b:1", set.host(1, "", "a:1"::equals));
            assertEquals("b:1", set.host(1, "a:1", ALL));
        }
        assertTrue(set.isDown(ALL));
        assertFalse(set.isDown(NEVER));
        assertTrue(set.hasOther("a:1", NEVER));
        assertFalse(set.hasOther("a:1", ALL));
        // A set that only others name has the addresses that they state.
        RouteTable.Routes claimed = table(1, 6, 4, "oa");
        RouteTable.RouteSet named = new RouteTable.RouteSet();
        named.id = 2;
        named.name = "b";
        named.allocs.add("x:1");
        claimed.sets.add(named);
        assertTrue(routes.adopt(claimed, "").addrs());
        assertEquals("x:1", routes.load().byId(2).host(0, "", NEVER));
        assertTrue(routes.load().addrs().contains("x:1"));
    }

    @Test
    void seriesOnlyGrow() throws Exception {
        Routes routes = new Routes();
        RouteTable.Routes first = table(1, 5, 3, "oo");
        for (String name : List.of("one", "two")) {
            RouteTable.StoredSeries series = new RouteTable.StoredSeries();
            series.name = name;
            first.series.add(series);
        }
        routes.adopt(first, "s:1");
        routes.adopt(table(1, 6, 3, "oo"), "");
        assertNotNull(routes.load().series("two"));
        assertNull(routes.load().series("three"));
        assertEquals(6, routes.load().byId(1).version());
    }
}
