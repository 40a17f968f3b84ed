package seqsvr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/fake"
	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/wire"
)

// keyOf returns a key whose bucket belongs to the node with an index among all nodes of a new world.
func keyOf(t testing.TB, node, nodes int) string {
	t.Helper()
	for n := range 10_000 {
		key := fmt.Sprintf("conv:%d", n)
		if int(routes.Bucket(key))*nodes/routes.Buckets == node {
			return key
		}
	}
	t.Fatalf("no key of node %d", node)
	return ""
}

func TestACallForAKeyIsSentToTheOwnerOfItsBucket(t *testing.T) {
	w := fake.New(t, 2, 2)
	w.AddKeyspace("main")
	c, ctx := open(t, w.Seeds()), testContext(t)
	keys := c.Keyspace("main")
	if keys.Name() != "main" {
		t.Errorf("%q", keys.Name())
	}
	for n, node := range []*fake.Node{w.Node(0, 0), w.Node(0, 1), w.Node(1, 0), w.Node(1, 1)} {
		key := keyOf(t, n, 4)
		if got := must[Allocation](t)(keys.Next(ctx, key)); got != (Allocation{Value: 1, Epoch: 1, Count: 1}) {
			t.Errorf("%+v", got)
		}
		if got := must[Allocation](t)(keys.NextN(ctx, key, 3)); got.First() != 2 || got.Value != 4 || got.Prev != 1 {
			t.Errorf("%+v", got)
		}
		if got := must[Current](t)(keys.Current(ctx, key)); got != (Current{Value: 4, Exact: true, Epoch: 1}) {
			t.Errorf("%+v", got)
		}
		if got := must[uint64](t)(keys.Advance(ctx, key, 100)); got != 1 {
			t.Errorf("%d", got)
		}
		if got := must[Allocation](t)(keys.Next(ctx, key)); got.Value != 101 {
			t.Errorf("%+v", got)
		}
		if got := methods(node); !slices.Equal(got, []string{"KeyNext", "KeyNext", "KeyCurrent", "KeyAdvance", "KeyNext"}) {
			t.Errorf("node %d: %v", n, got)
		}
		for _, seen := range node.Seen() {
			if !slices.Equal(seen.Epochs, []uint64{1}) || !slices.Equal(seen.Keys, []string{key}) {
				t.Errorf("%+v", seen)
			}
		}
	}
}

func TestABatchOfKeysIsSentToEachOwner(t *testing.T) {
	w := fake.New(t, 2, 1)
	w.AddKeyspace("main")
	c, ctx := open(t, w.Seeds()), testContext(t)
	keys := c.Keyspace("main")
	a, b := keyOf(t, 0, 2), keyOf(t, 1, 2)
	results := must[[]AllocationResult](t)(keys.NextMany(ctx, []string{a, b, a, "{" + b + "}"}))
	for i, want := range []uint64{1, 1, 2, 1} {
		if results[i].Err != nil || results[i].Value != want {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	counted := must[[]AllocationResult](t)(keys.NextManyN(ctx, []KeyItem{{a, 5}, {b, 1}, {a, 2}}))
	for i, want := range []Allocation{
		{Value: 7, Prev: 2, Epoch: 1, Count: 5}, {Value: 2, Prev: 1, Epoch: 1, Count: 1}, {Value: 9, Prev: 7, Epoch: 1, Count: 2},
	} {
		if counted[i].Allocation != want {
			t.Errorf("item %d: %+v", i, counted[i])
		}
	}
	current := must[[]CurrentResult](t)(keys.CurrentMany(ctx, []string{b, "none", a}))
	for i, want := range []uint64{2, 0, 9} {
		if current[i].Err != nil || current[i].Value != want || !current[i].Exact {
			t.Errorf("item %d: %+v", i, current[i])
		}
	}
	for s, own := range []string{a, b} {
		seen := w.Node(s, 0).Seen()
		if len(seen) < 2 || seen[0].Method != "NextKeys" || !slices.Contains(seen[0].Keys, own) || seen[0].Epochs[0] != 1 {
			t.Errorf("%+v", seen)
		}
	}
	if got := must[[]AllocationResult](t)(keys.NextMany(ctx, nil)); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestALargeBatchOfKeysIsSentInParts(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddKeyspace("main")
	c, ctx := open(t, w.Seeds()), testContext(t)
	short, long := make([]string, 10_001), make([]string, 600)
	for i := range short {
		short[i] = string(rune('a' + i%3))
	}
	for i := range long {
		long[i] = strings.Repeat("x", MaxKeyBytes)
	}
	for _, keys := range [][]string{short, long} {
		results := must[[]AllocationResult](t)(c.Keyspace("main").NextMany(ctx, keys))
		kinds := 1 + 2*(len(keys)/10_000)
		for i, result := range results {
			if result.Err != nil || result.Value != uint64(i/kinds+1) {
				t.Fatalf("item %d: %+v", i, result)
			}
		}
	}
	var sizes []int
	for _, seen := range w.Node(0, 0).Seen() {
		sizes = append(sizes, len(seen.Keys))
	}
	if !slices.Equal(sizes, []int{10_000, 1, 256, 256, 88}) {
		t.Errorf("%v", sizes)
	}
}

func TestKeysOfOtherSizesAndUnknownKeyspacesAreRefused(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddCounter("orders", 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	keys := c.Keyspace("main")
	reason := func(err error) string {
		t.Helper()
		e := asError(err)
		if e == nil || e.Kind != KindRefused || e.Retryable || e.MayHaveApplied || e.HasUID || e.Attempts != 0 {
			t.Errorf("%+v", err)
			return ""
		}
		return e.Reason
	}
	for _, wrong := range []string{"", strings.Repeat("x", MaxKeyBytes+1)} {
		_, next := keys.Next(ctx, wrong)
		_, current := keys.Current(ctx, wrong)
		_, advance := keys.Advance(ctx, wrong, 5)
		nextMany, failed := keys.NextMany(ctx, []string{wrong})
		currentMany, failedToo := keys.CurrentMany(ctx, []string{wrong})
		if failed != nil || failedToo != nil {
			t.Fatal(failed, failedToo)
		}
		for i, err := range []error{next, current, advance, nextMany[0].Err, currentMany[0].Err} {
			if got := reason(err); got != ReasonKeySize {
				t.Errorf("call %d: %s", i, got)
			}
		}
	}
	for _, count := range []uint32{0, MaxCount + 1} {
		_, one := keys.NextN(ctx, "a", count)
		_, many := keys.NextManyN(ctx, []KeyItem{{"a", count}})
		if !errors.Is(one, KindCount) || !errors.Is(many, KindCount) {
			t.Errorf("%v, %v", one, many)
		}
	}
	_, unknown := keys.Next(ctx, "a")
	_, many := keys.NextMany(ctx, []string{"a"})
	_, series := c.Keyspace("orders").Next(ctx, "a")
	for _, err := range []error{unknown, many, series} {
		if got := reason(err); got != ReasonUnknownKeyspace {
			t.Errorf("%s", got)
		}
	}
	if got := len(w.Node(0, 0).Seen()); got != 0 {
		t.Errorf("%d requests", got)
	}
	// A keyspace that the client does not know yet is found. It is no series.
	w.AddKeyspace("main")
	eventually(t, "a new keyspace is found", func() bool {
		_, err := keys.Next(ctx, "a\xff\x00")
		return err == nil
	})
	if _, err := c.Series("main").Next(ctx); reason(err) != ReasonUnknownSeries {
		t.Errorf("%v", err)
	}
	c.Close()
	if _, err := keys.Next(ctx, "a"); !errors.Is(err, KindClosed) {
		t.Errorf("%v", err)
	}
}

func TestCallsForKeysAreRetriedAsThoseForUIDs(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	w.AddKeyspace("main")
	seeds := []string{w.Node(0, 0).Addr(), w.Node(0, 1).Addr()}
	c, ctx := open(t, seeds), testContext(t)
	keys, key, node := c.Keyspace("main"), keyOf(t, 0, 2), w.Node(0, 0)
	node.Refuse(refusals("UNSERVED", 14, 1, 3)...)
	if got := must[Allocation](t)(keys.Next(ctx, key)); got.Value != 1 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	if got := len(node.Seen()); got != 4 {
		t.Errorf("%d requests", got)
	}
	node.Refuse(refusals("OTHER_TENANTS_KEY", 7, 0, 1)...)
	_, err := keys.Next(ctx, key)
	if e := asError(err); e == nil || e.Reason != ReasonOtherTenantsKey || e.Retryable || e.HasUID || e.Attempts != 1 {
		t.Errorf("%+v", err)
	}
	node.Refuse(refusals("OWNER_CONNECTION_LOST", 14, 1, 1)...)
	if got := must[Allocation](t)(keys.Next(ctx, key)); got.Lost != 1 || got.Value != 2 {
		t.Errorf("%+v", got)
	}
	if !c.pool.IsSuspect(node.Addr()) {
		t.Error("the owner that another node could not reach is not suspect")
	}
	recovers := func() {
		t.Helper()
		eventually(t, "the owner recovers", func() bool { return !c.pool.IsSuspect(node.Addr()) })
	}
	recovers()
	node.Cut(1)
	if got := must[Allocation](t)(keys.Next(ctx, key)); got.Lost != 1 || got.Value != 4 {
		t.Errorf("%+v", got)
	}
	recovers()
	node.Cut(1)
	results := must[[]AllocationResult](t)(keys.NextMany(ctx, []string{key, key}))
	if results[0].Lost != 1 || results[1].Value != 8 || results[0].Err != nil {
		t.Errorf("%+v", results)
	}
	recovers()
	node.Hang(true)
	short, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
	defer cancel()
	if got := must[Allocation](t)(keys.Next(short, key)); got.Lost != 1 {
		t.Errorf("%+v", got)
	}
	node.Hang(false)
	node.Stop()
	before := must[Current](t)(keys.Current(ctx, key))
	if got := must[Allocation](t)(keys.Next(ctx, key)); got.Value != before.Value+1 || got.Prev != before.Value {
		t.Errorf("%+v after %+v", got, before)
	}
}

func TestItemsOfKeysThatAreRefusedAreSentAgain(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddKeyspace("main")
	c, ctx := open(t, w.Seeds()), testContext(t)
	keys, node := c.Keyspace("main"), w.Node(0, 0)
	must[[]AllocationResult](t)(keys.NextMany(ctx, []string{"a", "b"}))
	// The bucket of b has no owner for a while.
	w.MoveBucket("b", 0, -1, true)
	refused := 0
	node.Change(func(m wire.Message) {
		if many, ok := m.(*wire.NextManyResponse); ok && len(many.Errors) > 0 {
			if refused++; refused == 3 {
				w.MoveBucket("b", 0, 0, true)
			}
		}
	})
	results := must[[]AllocationResult](t)(keys.NextManyN(ctx, []KeyItem{{"a", 1}, {"b", 2}, {"c", 3}, {"{b}", 4}}))
	for i, want := range []uint64{2, 3, 3, 4} {
		if results[i].Err != nil || results[i].Value != want || results[i].Lost != 0 {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	seen := node.Seen()
	if got := seen[len(seen)-1].Keys; !slices.Equal(got, []string{"b", "{b}"}) {
		t.Errorf("the last request has %v", got)
	}
	node.Change(nil)
	node.Refuse(refusals("KEYS_EXHAUSTED", 8, 0, 1)...)
	for _, result := range must[[]AllocationResult](t)(keys.NextMany(ctx, []string{"a", "b"})) {
		if e := asError(result.Err); e == nil || e.Reason != ReasonKeysExhausted || e.HasUID {
			t.Errorf("%+v", result)
		}
	}
	node.Refuse(refusals("OWNER_CONNECTION_LOST", 14, 1, 1)...)
	results = must[[]AllocationResult](t)(keys.NextMany(ctx, []string{"a", "b"}))
	if results[0].Lost != 1 || results[1].Lost != 1 {
		t.Errorf("%+v", results)
	}
}

func TestABucketThatMovedIsFollowed(t *testing.T) {
	for _, known := range []bool{true, false} {
		w := fake.New(t, 2, 1)
		w.AddKeyspace("main")
		w.Node(0, 0).Isolate(true)
		c, ctx := open(t, w.Seeds()), testContext(t)
		keys, key := c.Keyspace("main"), keyOf(t, 0, 2)
		must[Allocation](t)(keys.Next(ctx, key))
		// The refusal states the set, whether the routes of a response state it as well or not.
		w.MoveBucket(key, 1, 0, known)
		if got := must[Allocation](t)(keys.Next(ctx, key)); got.Value != 2 || got.Epoch != 2 || got.Lost != 0 {
			t.Errorf("%+v", got)
		}
		before := len(w.Node(0, 0).Seen())
		results := must[[]AllocationResult](t)(keys.NextMany(ctx, []string{key}))
		if results[0].Err != nil || results[0].Epoch != 2 || len(w.Node(0, 0).Seen()) != before {
			t.Errorf("%+v, and %v", results, methods(w.Node(0, 0)))
		}
		if got := c.Stats().Retries; got != 0 {
			t.Errorf("%d retries were charged", got)
		}
	}
}
