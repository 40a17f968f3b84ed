package seqsvr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/fake"
	"seqsvr.example/clients/go/internal/wire"
)

func refusals(reason string, code uint32, hint uint32, times int) []fake.Refusal {
	return slices.Repeat([]fake.Refusal{{Reason: reason, Code: code, RetryAfterMS: hint}}, times)
}

func TestBackoffDoublesIsJitteredAndIsNeverShorterThanRequested(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		made   int
		hint   time.Duration
		jitter float64
		want   time.Duration
	}{
		{1, 0, 0, 10 * ms}, {2, 0, 0, 20 * ms}, {3, 0, 0, 40 * ms}, {7, 0, 0, 500 * ms}, {90, 0, 0, 500 * ms},
		{0, 0, 0, 10 * ms}, {2, 0, 1, 10 * ms}, {1, 100 * ms, 0, 100 * ms}, {1, 100 * ms, 1, 150 * ms},
		{20, 100 * ms, 0, 500 * ms},
	} {
		if got := backoff(test.made, test.hint, test.jitter); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestRetryableRefusalsAreRetriedAndOthersAreNot(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds(), WithoutCoalescing()), testContext(t)
	node := w.Node(0, 0)
	node.Refuse(refusals("UNSERVED", 14, 1, 3)...)
	if got := must[Allocation](t)(c.Next(ctx, 1)); got.Value != 1 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	if got := len(node.Seen()); got != 4 {
		t.Errorf("%d requests", got)
	}
	node.Refuse(refusals("ALREADY_PAST", 9, 0, 1)...)
	_, err := c.Advance(ctx, 1, 5)
	want := &Error{Kind: KindRefused, Reason: "ALREADY_PAST", Code: 9, UID: 1, HasUID: true, Attempts: 1}
	if e := asError(err); e == nil || e.Message != "refused: ALREADY_PAST" || e.Reason != want.Reason || e.Code != want.Code ||
		e.UID != want.UID || !e.HasUID || e.Retryable || e.MayHaveApplied || e.Attempts != 1 || !errors.Is(err, KindRefused) {
		t.Errorf("%+v", err)
	}
	// An unknown reason is judged by its hint and its code.
	node.Refuse(refusals("OF_A_LATER_RELEASE", 8, 1, 1)...)
	node.Refuse(refusals("OF_A_LATER_RELEASE", 14, 0, 1)...)
	must[Allocation](t)(c.Next(ctx, 1))
	node.Refuse(refusals("OF_A_LATER_RELEASE", 8, 0, 1)...)
	if _, err := c.Next(ctx, 1); !errors.Is(err, KindRefused) {
		t.Errorf("%v", err)
	}
}

func TestRefusalsWithUnknownOutcomeCountAsLost(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	for _, c := range []*Client{open(t, w.Seeds(), WithoutCoalescing()), open(t, w.Seeds())} {
		ctx, node := testContext(t), w.Node(0, 0)
		node.Refuse(refusals("OWNER_TIMED_OUT", 4, 1, 1)...)
		if got := must[Allocation](t)(c.Next(ctx, 1)); got.Lost != 1 {
			t.Errorf("%+v", got)
		}
		if !c.pool.IsSuspect(node.Addr()) {
			t.Error("the owner that another node could not reach is not suspect")
		}
		eventually(t, "the owner recovers", func() bool { return !c.pool.IsSuspect(node.Addr()) })
		// A server that ended the attempt has not stated whether it was applied.
		node.Refuse(fake.Refusal{Code: 4})
		if got := must[Current](t)(c.Current(ctx, 1)); got.Value == 0 {
			t.Errorf("%+v", got)
		}
		// A refusal without a reason is not of the service itself.
		node.Refuse(fake.Refusal{Code: 13})
		_, err := c.Next(ctx, 1)
		if e := asError(err); e == nil || e.Reason != ReasonRefusedByOthers || !e.MayHaveApplied || e.Retryable {
			t.Errorf("%+v", err)
		}
		// A read changes nothing, so nothing is lost.
		node.Refuse(fake.Refusal{Code: 13})
		_, err = c.Current(ctx, 1)
		if e := asError(err); e == nil || e.MayHaveApplied {
			t.Errorf("%+v", err)
		}
	}
}

func TestALostResponseIsCounted(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	for _, c := range []*Client{open(t, w.Seeds(), WithoutCoalescing()), open(t, w.Seeds())} {
		ctx, node := testContext(t), w.Node(0, 0)
		before := must[Allocation](t)(c.Next(ctx, 1))
		node.Cut(1)
		got := must[Allocation](t)(c.Next(ctx, 1))
		if got.Lost != 1 || got.Value != before.Value+2 {
			t.Errorf("%+v after %+v", got, before)
		}
		eventually(t, "the node recovers", func() bool { return !c.pool.IsSuspect(node.Addr()) })
	}
}

func TestANodeThatIsDownIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	seeds := []string{w.Node(0, 0).Addr(), w.Node(0, 1).Addr()}
	c, ctx := open(t, seeds), testContext(t)
	must[Allocation](t)(c.Next(ctx, 1))
	w.Node(0, 0).Stop()
	// The other node forwards.
	if got := must[Allocation](t)(c.Next(ctx, 1)); got.Lost > 1 {
		t.Errorf("%+v", got)
	}
	if got := must[Current](t)(c.Current(ctx, 1)); got.Value < 2 {
		t.Errorf("%+v", got)
	}
	w.Node(0, 0).Restart(t)
	eventually(t, "the owner is used again", func() bool {
		before := len(w.Node(0, 0).Seen())
		must[Allocation](t)(c.Next(ctx, 1))
		return len(w.Node(0, 0).Seen()) > before
	})
}

func TestAnOrderlyStopLosesNothing(t *testing.T) {
	w := fake.New(t, 1, 2)
	seeds := []string{w.Node(0, 0).Addr(), w.Node(0, 1).Addr()}
	c, ctx := open(t, seeds, WithoutCoalescing(), WithConnections(1)), testContext(t)
	must[Allocation](t)(c.Next(ctx, 1))
	w.Node(0, 0).Drain(ctx)
	eventually(t, "the connection ends", func() bool { return c.Stats().Connections == 1 })
	for range 5 {
		if got := must[Allocation](t)(c.Next(ctx, 1)); got.Lost != 0 {
			t.Errorf("%+v", got)
		}
	}
}

func TestAnAttemptAtANodeThatHangsEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	for _, c := range []*Client{open(t, w.Seeds(), WithoutCoalescing()), open(t, w.Seeds())} {
		ctx, cancel := context.WithTimeout(testContext(t), 30*time.Second)
		defer cancel()
		t1, err := c.begin(ctx, "Next", 1)
		if err != nil || t1.limit > 10*time.Second || t1.limit < 9*time.Second {
			t.Errorf("%+v, %v", t1, err)
		}
		t1.end(nil)
		short, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
		defer cancel()
		w.Node(0, 0).Hang(true)
		got, failed := c.Next(short, 1)
		if failed != nil || got.Lost != 1 {
			t.Errorf("%+v, %v", got, failed)
		}
		if !c.pool.IsSuspect(w.Node(0, 0).Addr()) {
			t.Error("the node that hangs is not suspect")
		}
		w.Node(0, 0).Hang(false)
	}
}

func TestTheDeadlineEndsACall(t *testing.T) {
	w := fake.New(t, 1, 1)
	for _, c := range []*Client{
		open(t, w.Seeds(), WithoutCoalescing(), WithDeadline(200*time.Millisecond)),
		open(t, w.Seeds(), WithDeadline(200*time.Millisecond)),
	} {
		w.Node(0, 0).Hang(true)
		_, err := c.Next(context.Background(), 1)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, KindDeadline) {
			t.Errorf("%v", err)
		}
		if e := asError(err); !e.MayHaveApplied || !e.Retryable || e.Attempts == 0 || e.Reason != ReasonDeadlineExceeded {
			t.Errorf("%+v", e)
		}
		w.Node(0, 0).Hang(false)
	}
	// With too little time for another attempt, the call has the refusal that it got.
	c := open(t, w.Seeds(), WithoutCoalescing())
	w.Node(0, 0).Refuse(refusals("UNSERVED", 14, 60_000, 1)...)
	_, err := c.Next(context.Background(), 1)
	if e := asError(err); e == nil || e.Reason != "UNSERVED" || e.RetryAfter != time.Minute || !e.Retryable {
		t.Errorf("%+v", err)
	}
}

func TestACancelledCallEnds(t *testing.T) {
	w := fake.New(t, 1, 1)
	for _, c := range []*Client{open(t, w.Seeds(), WithoutCoalescing()), open(t, w.Seeds())} {
		w.Node(0, 0).Hang(true)
		before := len(w.Node(0, 0).Seen())
		ctx, cancel := context.WithCancel(testContext(t))
		result := make(chan error, 1)
		go func() { _, err := c.Next(ctx, 1); result <- err }()
		eventually(t, "the request is sent", func() bool { return len(w.Node(0, 0).Seen()) > before })
		cancel()
		err := <-result
		if !errors.Is(err, context.Canceled) || !errors.Is(err, KindCancelled) || !asError(err).MayHaveApplied {
			t.Errorf("%v", err)
		}
		if _, err := c.Next(ctx, 1); !errors.Is(err, KindCancelled) || asError(err).MayHaveApplied {
			t.Errorf("a call with a cancelled context: %v", err)
		}
		w.Node(0, 0).Hang(false)
		must[Allocation](t)(c.Next(testContext(t), 1))
	}
}

func TestTheBudgetLimitsRetries(t *testing.T) {
	t.Parallel()
	const calls = 300
	w := fake.New(t, 1, 1)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	var refused atomic.Int32
	c := open(t, w.Seeds(), WithoutCoalescing(), WithObserver(Observer{
		BudgetRefused: func(_ context.Context, set string) {
			// The last calls could go on for long with the retries that each second adds.
			if refused.Add(1) == calls/2 {
				cancel()
			}
		},
	}))
	w.Node(0, 0).RefuseAll(&fake.Refusal{Reason: "OUT_OF_MEMORY", Code: 8, RetryAfterMS: 1})
	began := time.Now()
	var running sync.WaitGroup
	for range calls {
		running.Add(1)
		go func() {
			defer running.Done()
			if _, err := c.Next(ctx, 1); !errors.Is(err, KindRefused) && !errors.Is(err, KindCancelled) {
				t.Errorf("%v", err)
			}
		}()
	}
	running.Wait()
	// The budget of a new client, a fifth of the calls, and ten each second.
	most := 1000 + calls/5 + int(10*time.Since(began).Seconds()) + 10
	got := c.Stats()
	if int(got.Retries) > most || got.BudgetRefused == 0 || int(got.BudgetRefused) != int(refused.Load()) {
		t.Errorf("%+v, %d refused, %d retries allowed", got, refused.Load(), most)
	}
	if got.Attempts > calls+got.Retries {
		t.Errorf("%+v", got)
	}
}

func TestAMoveIsFollowedWithoutBudgetOnlyIfItIsNewer(t *testing.T) {
	w := fake.New(t, 2, 1)
	w.Node(0, 0).Isolate(true)
	c, ctx := open(t, w.Seeds(), WithoutCoalescing()), testContext(t)
	must[Allocation](t)(c.Next(ctx, 1))
	// A statement that is not newer than the route of the request is retried as any refusal.
	w.Node(0, 0).Refuse(fake.Refusal{
		Reason: "MOVED", Code: 14, RetryAfterMS: 1, Set: wire.Some(w.SetID(1)), Since: wire.Some(1),
	})
	must[Allocation](t)(c.Next(ctx, 1))
	if got := c.Stats().Retries; got != 1 {
		t.Errorf("%d retries", got)
	}
	w.Move(1, 1, 0)
	if got := must[Allocation](t)(c.Next(ctx, 1)); got.Epoch != 2 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	if got := c.Stats().Retries; got != 1 {
		t.Errorf("the move was charged: %d retries", got)
	}
	if got := methods(w.Node(0, 0)); len(got) != 4 {
		t.Errorf("%v", got)
	}
}

func TestMovesThatACallFollowsAreBounded(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 2, 1)
	c, ctx := open(t, w.Seeds(), WithoutCoalescing()), testContext(t)
	// Each node states a newer move to the other one.
	const moves = maxFollowed + 3
	for hop := range uint64(moves) {
		w.Node(int(hop%2), 0).Refuse(fake.Refusal{
			Reason: "MOVED", Code: 14, RetryAfterMS: 1, Set: wire.Some(w.SetID(int(1 - hop%2))), Since: wire.Some(2 + hop),
		})
	}
	must[Allocation](t)(c.Next(ctx, 1))
	if got := c.Stats().Retries; got != moves-maxFollowed {
		t.Errorf("%d of %d moves were charged", got, moves)
	}
}

func TestASetThatIsDownFailsItsOwnCallsOnly(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 2, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 25}))
	w.Node(1, 0).Stop()
	results := must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 25, 2}))
	if results[0].Err != nil || results[2].Err != nil {
		t.Errorf("%+v", results)
	}
	e := asError(results[1].Err)
	if !errors.Is(results[1].Err, KindSetUnavailable) || e.SetID != w.SetID(1) || e.SetName != "set-1" || !e.Retryable {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(e.Error(), `uid 25: the section is in set "set-1", of which no node can be reached`) {
		t.Errorf("%v", e)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := c.Next(short, 25); !errors.Is(err, KindSetUnavailable) && !errors.Is(err, KindUnreachable) &&
		!errors.Is(err, KindDeadline) {
		t.Errorf("%v", err)
	}
	// The section moves to the set that is up, whose routes are fetched.
	w.Move(25, 0, 0)
	eventually(t, "the section is found in its new set", func() bool {
		_, err := c.Next(ctx, 25)
		return err == nil
	})
}

func TestTheEndOfAStreamEndsEachOfItsCalls(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	c, ctx := open(t, []string{w.Node(0, 0).Addr(), w.Node(0, 1).Addr()}), testContext(t)
	must[Allocation](t)(c.Next(ctx, 1))
	w.Node(0, 0).Hang(true)
	const callers = 300
	results := make(chan Allocation, callers)
	for i := range callers {
		go func() {
			got, err := c.Next(ctx, uint64(i%20))
			if err != nil {
				t.Error(err)
			}
			results <- got
		}()
	}
	eventually(t, "all callers wait", func() bool { return c.Stats().Pending == callers && len(w.Node(0, 0).Seen()) > 1 })
	w.Node(0, 0).Stop()
	lost, values := 0, map[uint64]int{}
	for range callers {
		got := <-results
		lost += int(got.Lost)
		values[got.Value]++
	}
	// The message that the node held was sent, and calls that were not sent in any message are not lost.
	if lost == 0 || lost > callers {
		t.Errorf("%d lost attempts", lost)
	}
	for value, times := range values {
		if times > 20 {
			t.Errorf("%d calls got the number %d of 20 uids", times, value)
		}
	}
	if got := c.Stats(); got.Pending != 0 {
		t.Errorf("%+v", got)
	}
}
