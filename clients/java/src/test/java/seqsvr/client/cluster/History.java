package seqsvr.client.cluster;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Checks the promises about numbers in calls: numbers of a uid are unique, and ordered in real time. */
public final class History {
    /**
     * A call that returned numbers.
     *
     * @param uid uid
     * @param start time before the call, by one clock
     * @param end time after it
     * @param first first number
     * @param value last number
     * @param prev number before the first one; 0 if it is unknown
     */
    public record Call(long uid, long start, long end, long first, long value, long prev) { }

    private final List<Call> calls = new ArrayList<>();

    public synchronized void add(Call call) {
        calls.add(call);
    }

    public synchronized int size() {
        return calls.size();
    }

    /** Returns a description of each violation. */
    public synchronized List<String> check() {
        Map<Long, List<Call>> byUid = new HashMap<>();
        calls.forEach(call -> byUid.computeIfAbsent(call.uid, uid -> new ArrayList<>()).add(call));
        List<String> violations = new ArrayList<>();
        byUid.values().forEach(list -> checkUid(list, violations));
        return violations;
    }

    private static void checkUid(List<Call> list, List<String> violations) {
        list.sort(Comparator.comparingLong(Call::value));
        for (int i = 1; i < list.size(); i++) {
            Call before = list.get(i - 1);
            Call call = list.get(i);
            if (call.first <= before.value) {
                violations.add(call + " repeats numbers of " + before);
            }
            // A greater prev is a number that a lost attempt or another caller took.
            if (call.prev != 0 && call.prev < before.value) {
                violations.add("the number before " + call + " is that of " + before);
            }
        }
        // Of the calls with greater numbers, none may have ended before this one began.
        long earliest = Long.MAX_VALUE;
        for (int i = list.size() - 1; i >= 0; i--) {
            if (earliest < list.get(i).start) {
                violations.add(list.get(i) + " began after a call with a greater number had ended");
            }
            earliest = Math.min(earliest, list.get(i).end);
        }
    }
}
