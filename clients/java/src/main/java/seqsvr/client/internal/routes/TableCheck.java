package seqsvr.client.internal.routes;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import seqsvr.client.internal.wire.RouteTable;

/** Validates a route table as far as a client uses it. */
final class TableCheck {
    /** Limit on the sections of a layout. No memory is taken for a larger table. */
    static final int MAX_SECTIONS = 1 << 20;

    /** Limit on the uids of a section. */
    private static final int MAX_SECTION_SIZE = 1 << 24;

    private TableCheck() { }

    static RoutesException invalid(RouteTable.Routes table, String format, Object... args) {
        return new RoutesException("set \"" + table.set + "\" " + String.format(format, args), false);
    }

    static RoutesException mismatch(RouteTable.Routes table) {
        return new RoutesException("the routes of set \"" + table.set + "\" build on a version that is not known here",
                true);
    }

    /** Returns the layout of a table that is valid. */
    static Layout check(RouteTable.Routes table) throws RoutesException {
        if (Long.compareUnsigned(table.uidStart, table.uidEnd) >= 0 || table.sectionSize <= 0
                || table.sectionSize > MAX_SECTION_SIZE) {
            throw invalid(table, "has uids %s..%s in sections of %s", Long.toUnsignedString(table.uidStart),
                    Long.toUnsignedString(table.uidEnd), Integer.toUnsignedString(table.sectionSize));
        }
        long last = Long.divideUnsigned(table.uidEnd - table.uidStart - 1, table.sectionSize);
        if (Long.compareUnsigned(last, MAX_SECTIONS) >= 0) {
            throw invalid(table, "has more than %d sections", MAX_SECTIONS);
        }
        if (table.setId == 0 || table.version == 0 || Long.compareUnsigned(table.baseVersion, table.version) >= 0) {
            throw invalid(table, "with id %s has routes of version %s since %s", Long.toUnsignedString(table.setId),
                    Long.toUnsignedString(table.version), Long.toUnsignedString(table.baseVersion));
        }
        Layout layout = new Layout(table.uidStart, table.uidEnd, table.sectionSize);
        Set<Integer> nodes = new HashSet<>();
        for (RouteTable.RouteNode node : table.nodes) {
            if (node.id == 0) {
                throw invalid(table, "has node \"%s\" without an id", node.name);
            }
            nodes.add(node.id);
        }
        checkRuns(table, table.runs, 0, layout.sections(), nodes);
        checkRuns(table, table.laneRuns, layout.sections(), MAX_SECTIONS, nodes);
        return layout;
    }

    /** Checks that runs are in order, and of the sections {@code from} to {@code end}, without the latter. */
    private static void checkRuns(RouteTable.Routes table, List<RouteTable.RouteRun> runs, int from, int end,
            Set<Integer> nodes) throws RoutesException {
        long at = from;
        for (RouteTable.RouteRun run : runs) {
            long first = Integer.toUnsignedLong(run.firstSection);
            long next = first + Integer.toUnsignedLong(run.sections);
            if (run.sections == 0 || first < at || next > end) {
                throw invalid(table, "has a run of %s sections at %d", Integer.toUnsignedString(run.sections), first);
            }
            if (run.owner != 0 && (!nodes.contains(run.owner) || run.awaySetId != 0)) {
                throw invalid(table, "has section %d with the unknown owner %s", first,
                        Integer.toUnsignedString(run.owner));
            }
            at = next;
        }
    }
}
