package seqsvr

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/fake"
	"seqsvr.example/clients/go/internal/wire"
)

func TestABatchIsSentToEachOwner(t *testing.T) {
	w := fake.New(t, 2, 2)
	c, ctx := open(t, w.Seeds()), testContext(t)
	uids := []uint64{1, 25, 1, 999, 45, 65, 1}
	results := must[[]AllocationResult](t)(c.NextMany(ctx, uids))
	for i, want := range []uint64{1, 1, 2, 0, 1, 1, 3} {
		if results[i].Value != want || (results[i].Err != nil) != (want == 0) {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	if e := asError(results[3].Err); !errors.Is(e, KindUIDOutside) || e.UID != 999 {
		t.Errorf("%+v", results[3])
	}
	for _, node := range []*fake.Node{w.Node(0, 0), w.Node(0, 1), w.Node(1, 0), w.Node(1, 1)} {
		if got := methods(node); !slices.Equal(got, []string{"NextMany"}) {
			t.Errorf("%v", got)
		}
	}
	counted := must[[]AllocationResult](t)(c.NextManyN(ctx, []Item{{1, 5}, {25, 1}, {1, 2}}))
	for i, want := range []Allocation{
		{Value: 8, Prev: 3, Epoch: 1, Count: 5}, {Value: 2, Prev: 1, Epoch: 1, Count: 1}, {Value: 10, Prev: 8, Epoch: 1, Count: 2},
	} {
		if counted[i].Allocation != want {
			t.Errorf("item %d: %+v", i, counted[i])
		}
	}
	current := must[[]CurrentResult](t)(c.CurrentMany(ctx, uids))
	for i, want := range []uint64{10, 2, 10, 0, 1, 1, 10} {
		if current[i].Value != want || (current[i].Err != nil) != (i == 3) {
			t.Errorf("item %d: %+v", i, current[i])
		}
	}
}

func TestALargeBatchIsSentInParts(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	uids := make([]uint64, 10_001)
	for i := range uids {
		uids[i] = uint64(i % 3)
	}
	results := must[[]AllocationResult](t)(c.NextMany(ctx, uids))
	for i, result := range results {
		if result.Err != nil || result.Value != uint64(i/3+1) {
			t.Fatalf("item %d: %+v", i, result)
		}
	}
	seen := w.Node(0, 0).Seen()
	if len(seen) != 2 || len(seen[0].UIDs) != 10_000 || len(seen[1].UIDs) != 1 {
		t.Errorf("%d requests", len(seen))
	}
}

func TestItemsThatAreRefusedAreSentAgain(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	node := w.Node(0, 0)
	must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 11}))
	// The second section has no owner for a while.
	w.Move(11, 0, -1)
	refused := 0
	node.Change(func(m wire.Message) {
		if many, ok := m.(*wire.NextManyResponse); ok && len(many.Errors) > 0 {
			if refused++; refused == 3 {
				w.Move(11, 0, 0)
			}
		}
	})
	results := must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 11, 2, 12}))
	for i, want := range []uint64{2, 2, 1, 1} {
		if results[i].Err != nil || results[i].Value != want || results[i].Lost != 0 {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	seen := node.Seen()
	if got := seen[len(seen)-1].UIDs; !slices.Equal(got, []uint64{11, 12}) {
		t.Errorf("the last request has %v", got)
	}
	node.Change(nil)
	// Permanent refusals are not retried, and unknown outcomes are counted.
	node.Refuse(refusals("EXHAUSTED", 8, 0, 1)...)
	before := len(node.Seen())
	results = must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 2}))
	for i := range results {
		if e := asError(results[i].Err); e == nil || e.Reason != ReasonExhausted || e.Retryable || e.UID != uint64(i+1) {
			t.Errorf("%+v", results[i])
		}
	}
	if len(node.Seen()) != before+1 {
		t.Error("a permanent refusal was retried")
	}
	node.Refuse(refusals("OWNER_CONNECTION_LOST", 14, 1, 1)...)
	results = must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 2}))
	if results[0].Lost != 1 || results[1].Lost != 1 {
		t.Errorf("%+v", results)
	}
}

func TestABatchWhoseResponseIsLostIsSentAgain(t *testing.T) {
	w := fake.New(t, 1, 2)
	seeds := []string{w.Node(0, 0).Addr(), w.Node(0, 1).Addr()}
	c, ctx := open(t, seeds), testContext(t)
	w.Node(0, 0).Cut(1)
	results := must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 2, 1}))
	for i, want := range []uint64{3, 2, 4} {
		if results[i].Err != nil || results[i].Value != want || results[i].Lost != 1 {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
}

func TestABatchWithoutAnyResponseFailsAsAWhole(t *testing.T) {
	w := fake.New(t, 1, 1)
	c := open(t, w.Seeds(), WithDeadline(500*time.Millisecond))
	w.Node(0, 0).Stop()
	_, err := c.NextMany(context.Background(), []uint64{1, 2})
	if !errors.Is(err, KindUnreachable) || !asError(err).Retryable {
		t.Errorf("%v", err)
	}
}

func TestItemsThatMovedAreSentToTheirSet(t *testing.T) {
	w := fake.New(t, 2, 1)
	w.Node(0, 0).Isolate(true)
	w.Learn(0, false)
	c, ctx := open(t, w.Seeds()), testContext(t)
	must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 11}))
	w.Move(11, 1, 0)
	results := must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 11, 12}))
	for i, epoch := range []uint64{1, 2, 2} {
		if results[i].Err != nil || results[i].Epoch != epoch {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	if got := c.Stats().Retries; got != 0 {
		t.Errorf("%d retries were charged", got)
	}
}
