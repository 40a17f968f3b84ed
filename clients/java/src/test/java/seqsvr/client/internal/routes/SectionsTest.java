package seqsvr.client.internal.routes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.function.IntToLongFunction;
import org.junit.jupiter.api.Test;

class SectionsTest {
    private record Run(int first, int count, Route route) { }

    @Test
    void anOwnerIsMoreThanAClaimAndAClaimMoreThanNoOwner() {
        Route claim = new Route(5, 0, 1, true);
        Route owned = new Route(5, 2, 1, false);
        Route unknown = new Route(5, 0, 0, false);
        for (List<Route> order : List.of(List.of(unknown, claim, owned), List.of(owned, claim, unknown),
                List.of(claim, owned, unknown))) {
            Sections sections = new Sections(1);
            order.forEach(route -> sections.merge(0, 1, route, set -> set));
            assertEquals(owned, sections.get(0));
        }
        assertTrue(claim.isNewer(unknown, set -> set));
        assertFalse(new Route(-1, 0, 0, false).isNewer(new Route(-1, 1, 0, false), set -> set));
        assertTrue(new Route(-1, 0, 0, false).isNewer(owned, set -> set), "epochs are unsigned");
    }

    @Test
    void mergingIsCommutativeAndIdempotent() {
        int count = 600;
        // Not in the order of the indexes, because the indexes depend on the order of messages.
        IntToLongFunction id = set -> set * 7L % 5;
        Random random = new Random(3);
        for (int round = 0; round < 50; round++) {
            List<Run> runs = new ArrayList<>();
            for (int i = random.nextInt(12); i > 0; i--) {
                int first = random.nextInt(count);
                int owner = random.nextInt(3);
                Route route = new Route(random.nextInt(4), owner, random.nextInt(4), owner == 0 && random.nextBoolean());
                runs.add(new Run(first, 1 + random.nextInt(count - first), route));
            }
            List<Run> shuffled = new ArrayList<>(runs);
            shuffled.addAll(runs);
            Collections.shuffle(shuffled, random);
            Sections one = new Sections(count);
            Sections other = new Sections(count);
            runs.forEach(run -> one.merge(run.first, run.count, run.route, id));
            shuffled.forEach(run -> other.merge(run.first, run.count, run.route, id));
            for (int section = 0; section < count; section++) {
                assertEquals(one.get(section), other.get(section), runs::toString);
            }
        }
    }

    @Test
    void aMergeSharesTheChunksThatItDoesNotChange() {
        Sections before = new Sections(600);
        before.merge(0, 600, new Route(1, 1, 0, false), set -> 1);
        Sections after = before.copy();
        after.merge(255, 2, new Route(2, 1, 0, false), set -> 1);
        assertFalse(before.shares(after, 0));
        assertFalse(before.shares(after, 1));
        assertTrue(before.shares(after, 2));
        assertEquals(1, before.get(255).epoch());
        assertNull(after.get(10_000));
    }

    @Test
    void aBudgetIsExhaustedAndCallsAndSecondsEarn() {
        long now = System.nanoTime();
        Budget budget = new Budget(now);
        assertEquals(Budget.MAX_SAVED_RETRIES, spend(budget, now));
        for (int i = 0; i < 50; i++) {
            budget.earn();
        }
        assertEquals(10, spend(budget, now));
        assertEquals(5, spend(budget, now + 550_000_000));
        assertEquals(Budget.MAX_SAVED_RETRIES, spend(budget, now + Duration.ofHours(1).toNanos()));
    }

    private static int spend(Budget budget, long now) {
        int spent = 0;
        while (budget.spend(now)) {
            spent++;
        }
        return spent;
    }

    @Test
    void aLimiterLetsOneCallerPassInAnInterval() {
        Limiter limiter = new Limiter();
        assertTrue(limiter.tryAcquire(Duration.ofHours(1)));
        assertFalse(limiter.tryAcquire(Duration.ZERO));
        limiter.release();
        assertFalse(limiter.tryAcquire(Duration.ofHours(1)));
        assertTrue(limiter.tryAcquire(Duration.ZERO));
    }
}
