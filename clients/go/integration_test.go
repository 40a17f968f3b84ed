package seqsvr_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	seqsvr "seqsvr.example/clients/go"
	"seqsvr.example/clients/go/internal/cluster"
	"seqsvr.example/clients/go/internal/order"
)

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Timeout)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(cluster.Timeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("never: %s: %v", what, err)
}

func open(t testing.TB, seeds []string, opts ...seqsvr.Option) *seqsvr.Client {
	t.Helper()
	var c *seqsvr.Client
	eventually(t, "a client is open", func() (err error) {
		c, err = seqsvr.Open(testContext(t), seeds, opts...)
		return err
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// start starts a cluster, and returns it with a client once each section is served.
func start(t testing.TB, settings cluster.Settings, opts ...seqsvr.Option) (*cluster.Cluster, *seqsvr.Client) {
	t.Helper()
	cl := cluster.Start(t, settings)
	c := open(t, cl.Allocs, opts...)
	eventually(t, "each section is served", func() error {
		results, err := c.CurrentMany(testContext(t), oneOfEachSection())
		for _, result := range results {
			err = errors.Join(err, result.Err)
		}
		return err
	})
	return cl, c
}

func oneOfEachSection() (uids []uint64) {
	for uid := uint64(0); uid < cluster.UIDs; uid += cluster.SectionSize {
		uids = append(uids, uid)
	}
	return uids
}

func asError(t testing.TB, err error) *seqsvr.Error {
	t.Helper()
	var e *seqsvr.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *seqsvr.Error", err)
	}
	return e
}

// load takes numbers from several goroutines until it is stopped, and records the calls.
type load struct {
	t testing.TB
	// next takes the next number of a uid, or of the key that stands for it.
	next    func(ctx context.Context, uid uint64) (seqsvr.Allocation, error)
	history order.History
	began   time.Time
	stop    atomic.Bool
	running sync.WaitGroup
	failed  atomic.Int64
	longest atomic.Int64
	// calls has the number of calls for each uid.
	calls []atomic.Int64
}

func startLoad(t testing.TB, c *seqsvr.Client, uids []uint64, callers int) *load {
	return startLoadOf(t, c.Next, uids, callers)
}

func startLoadOf(
	t testing.TB, next func(ctx context.Context, uid uint64) (seqsvr.Allocation, error), uids []uint64, callers int,
) *load {
	l := &load{t: t, next: next, began: time.Now(), calls: make([]atomic.Int64, cluster.UIDs)}
	for i := range callers {
		l.running.Add(1)
		go func() {
			defer l.running.Done()
			for n := i; !l.stop.Load(); n++ {
				l.call(uids[n%len(uids)])
			}
		}()
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) call(uid uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Timeout)
	defer cancel()
	start := time.Since(l.began)
	got, err := l.next(ctx, uid)
	end := time.Since(l.began)
	if err != nil {
		l.failed.Add(1)
		l.t.Errorf("a call failed after %v: %v", end-start, err)
		l.stop.Store(true)
		return
	}
	for took := int64(end - start); took > l.longest.Load(); {
		l.longest.Store(took)
	}
	l.history.Add(order.Call{UID: uid, Start: start, End: end, First: got.First(), Value: got.Value, Prev: got.Prev})
	l.calls[uid].Add(1)
}

// counts returns the number of calls for each uid so far.
func (l *load) counts() (counts []int64) {
	for i := range l.calls {
		counts = append(counts, l.calls[i].Load())
	}
	return counts
}

// awaitAll waits until each of the uids has had another call since the counts.
func (l *load) awaitAll(what string, uids []uint64, since []int64, more int64) {
	l.t.Helper()
	eventually(l.t, what, func() error {
		for _, uid := range uids {
			if l.calls[uid].Load() < since[uid]+more {
				return fmt.Errorf("uid %d waits", uid)
			}
		}
		return nil
	})
}

// end stops the load.
func (l *load) end() {
	l.stop.Store(true)
	l.running.Wait()
}

// check stops the load and checks the order of all numbers.
func (l *load) check() {
	l.t.Helper()
	l.end()
	for _, violation := range l.history.Check() {
		l.t.Error(violation)
	}
	l.t.Logf("%d calls, the longest took %v", l.history.Len(), time.Duration(l.longest.Load()).Round(time.Millisecond))
}

func TestADevelopmentClusterServesEachMethod(t *testing.T) {
	t.Parallel()
	dev := cluster.StartDev(t)
	c, ctx := open(t, dev.Allocs[:1]), testContext(t)
	allocation := must[seqsvr.Allocation](t)
	first := allocation(c.Next(ctx, 42))
	if first.Value != 1 || first.Prev != 0 || first.Epoch == 0 || first.Lost != 0 {
		t.Errorf("%+v", first)
	}
	if got := allocation(c.NextN(ctx, 42, seqsvr.MaxCount)); got.First() != 2 || got.Value != 1_000_001 || got.Prev != 1 {
		t.Errorf("%+v", got)
	}
	// Uids of all sections, one of them twice, and more than fit into a request.
	uids := make([]uint64, 10_001)
	for i := range uids {
		uids[i] = uint64(i) * 97 % dev.UIDEnd
	}
	uids[10_000] = uids[0]
	results := must[[]seqsvr.AllocationResult](t)(c.NextMany(ctx, uids))
	for i, result := range results {
		if want := uint64(1 + i/10_000); result.Err != nil || result.Value != want || result.Prev != want-1 {
			t.Fatalf("item %d: %+v", i, result)
		}
	}
	current := must[[]seqsvr.CurrentResult](t)(c.CurrentMany(ctx, []uint64{42, uids[0], uids[5], 7}))
	for i, want := range []uint64{1_000_001, 2, 1, 0} {
		if current[i].Err != nil || current[i].Value != want || !current[i].Exact {
			t.Errorf("item %d: %+v", i, current[i])
		}
	}
	if epoch := must[uint64](t)(c.Advance(ctx, 7, 500)); epoch == 0 {
		t.Error("no epoch")
	}
	if got := allocation(c.Next(ctx, 7)); got.Value != 501 || got.Prev != 0 {
		t.Errorf("%+v", got)
	}
	_, past := c.Advance(ctx, 42, 5)
	if e := asError(t, past); e.Reason != seqsvr.ReasonAlreadyPast || e.Code.String() != "FAILED_PRECONDITION" || e.Retryable {
		t.Errorf("%+v", e)
	}
	_, far := c.Advance(ctx, 7, 1<<61)
	if e := asError(t, far); e.Reason != seqsvr.ReasonAdvanceTooFar || e.Bound < 1_000_000_000 || e.Bound >= 1<<61 {
		t.Errorf("%+v", e)
	}
	for _, uid := range []uint64{dev.UIDEnd, 1<<64 - 1} {
		if _, err := c.Next(ctx, uid); !errors.Is(err, seqsvr.KindUIDOutside) {
			t.Errorf("%v", err)
		}
	}
	stats := c.Stats()
	if stats.Connections == 0 || stats.Calls < 9 || stats.BudgetRefused != 0 {
		t.Errorf("%+v", stats)
	}
	concurrent(t, c, ctx)
	series(t, c, ctx)
	cluster.Run(t, os.Environ(), "keyspace", "create", "main", "--yes", "--addr", "http://"+dev.Allocs[0])
	keys(t, c, ctx)

	// Ports of other servers are named.
	for addr, text := range map[string]string{dev.Stores[0]: "it is a store", dev.HTTP: "no seed responded"} {
		_, err := seqsvr.Open(ctx, []string{addr})
		if !errors.Is(err, seqsvr.KindConnect) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// concurrent makes calls of many goroutines, which share messages and go to the owners alone.
func concurrent(t *testing.T, c *seqsvr.Client, ctx context.Context) {
	t.Helper()
	const callers, calls = 256, 20
	before := c.Stats()
	var running sync.WaitGroup
	var lost atomic.Int64
	for i := range callers {
		running.Add(1)
		go func() {
			defer running.Done()
			for n := range calls {
				got, err := c.Next(ctx, uint64(500_000+i*1000+n))
				if err != nil || got.Prev+1 != got.Value {
					t.Errorf("%+v, %v", got, err)
				}
				lost.Add(int64(got.Lost))
			}
		}()
	}
	running.Wait()
	after := c.Stats()
	messages := after.Messages - before.Messages
	if messages == 0 || messages > callers*calls/2 || lost.Load() != 0 {
		t.Errorf("%d messages for %d calls, %d lost", messages, callers*calls, lost.Load())
	}
	t.Logf("%d messages for %d calls", messages, callers*calls)
}

// series takes ids of the series of a development cluster.
func series(t *testing.T, c *seqsvr.Client, ctx context.Context) {
	t.Helper()
	tweets, media, orders := c.Series("tweets"), c.Series("media"), c.Series("orders")
	id := must[seqsvr.ID](t)(tweets.Next(ctx))
	ids := must[seqsvr.IDs](t)(tweets.After(id).Take(ctx, 3))
	last := id
	for next := range ids.All() {
		if next <= last {
			t.Errorf("%d after %d", next, last)
		}
		last = next
	}
	decoded := must[seqsvr.DecodedID](t)(tweets.Decode(ctx, id))
	if age := time.Since(decoded.Time); age < -time.Minute || age > time.Hour {
		t.Errorf("%+v", decoded)
	}
	if got := must[seqsvr.DecodedID](t)(media.Decode(ctx, must[seqsvr.ID](t)(media.Lane(1341).Next(ctx)))); got.Lane != 1341 {
		t.Errorf("%+v", got)
	}
	if _, err := media.Next(ctx); asError(t, err).Reason != seqsvr.ReasonLaneRequired {
		t.Errorf("%v", err)
	}
	first := must[seqsvr.ID](t)(orders.Next(ctx))
	if got := must[seqsvr.CurrentID](t)(orders.Current(ctx)); got.ID != first || !got.Exact {
		t.Errorf("%+v after %d", got, first)
	}
	must[uint64](t)(orders.Advance(ctx, first+100))
	if got := must[seqsvr.ID](t)(orders.Next(ctx)); got <= first+100 {
		t.Errorf("%d", got)
	}
	if _, err := tweets.Current(ctx); asError(t, err).Reason != seqsvr.ReasonNotACounter {
		t.Errorf("%v", err)
	}
	segments := orders.Segments(time.Second)
	taken := []seqsvr.ID{}
	for range 100 {
		taken = append(taken, must[seqsvr.ID](t)(segments.Next(ctx)))
	}
	if !slices.IsSorted(taken) || len(slices.Compact(taken)) != 100 {
		t.Errorf("%v", taken)
	}
	segments.Close()
}

// keys takes numbers of keys of the keyspace main.
func keys(t *testing.T, c *seqsvr.Client, ctx context.Context) {
	t.Helper()
	main, key := c.Keyspace("main"), "conv:42"
	eventually(t, "the keyspace is served", func() error {
		_, err := main.Current(ctx, key)
		return err
	})
	first := must[seqsvr.Allocation](t)(main.Next(ctx, key))
	if first.Value != 1 || first.Prev != 0 || first.Epoch == 0 || first.Lost != 0 {
		t.Errorf("%+v", first)
	}
	if got := must[seqsvr.Allocation](t)(main.NextN(ctx, key, 3)); got.First() != 2 || got.Value != 4 || got.Prev != 1 {
		t.Errorf("%+v", got)
	}
	if epoch := must[uint64](t)(main.Advance(ctx, key, 1000)); epoch == 0 {
		t.Error("no epoch")
	}
	if got := must[seqsvr.Current](t)(main.Current(ctx, key)); got.Value != 1000 || !got.Exact {
		t.Errorf("%+v", got)
	}
	_, past := main.Advance(ctx, key, 7)
	if e := asError(t, past); e.Reason != seqsvr.ReasonAlreadyPast || e.Retryable || e.HasUID {
		t.Errorf("%+v", e)
	}
	// Keys of any bytes, of all buckets, more of them than fit into a request, and one of them twice.
	many := []string{"\xff\x00", " ", "\r\n", "ü", strings.Repeat("x", seqsvr.MaxKeyBytes)}
	for i := range 20_000 {
		many = append(many, fmt.Sprintf("many:%d", i))
	}
	many = append(many, many[0])
	results := must[[]seqsvr.AllocationResult](t)(main.NextMany(ctx, many))
	for i, result := range results {
		if want := uint64(1 + i/(len(many)-1)); result.Err != nil || result.Value != want || result.Prev != want-1 {
			t.Fatalf("item %d: %+v", i, result)
		}
	}
	read := must[[]seqsvr.CurrentResult](t)(main.CurrentMany(ctx, []string{many[0], "ü", key, "none"}))
	for i, want := range []uint64{2, 1, 1000, 0} {
		if read[i].Err != nil || read[i].Value != want {
			t.Errorf("item %d: %+v", i, read[i])
		}
	}
	if _, err := c.Keyspace("tweets").Next(ctx, key); asError(t, err).Reason != seqsvr.ReasonUnknownKeyspace {
		t.Errorf("%v", err)
	}
	if _, err := c.Series("main").Next(ctx); asError(t, err).Reason != seqsvr.ReasonUnknownSeries {
		t.Errorf("%v", err)
	}
}

func TestUIDsThatAreNoDoubles(t *testing.T) {
	t.Parallel()
	const uid, to = 1<<53 + 1, 900_000_001
	cl := cluster.Start(t, cluster.Settings{FirstUID: 1<<53 - 1000})
	c, ctx := open(t, cl.Allocs), testContext(t)
	// As doubles, these two uids are equal.
	eventually(t, "both are served", func() error {
		_, err := c.NextMany(ctx, []uint64{uid, uid - 1})
		return err
	})
	must[uint64](t)(c.Advance(ctx, uid, to))
	if got := must[seqsvr.Allocation](t)(c.NextN(ctx, uid, 2)); got.First() != to+1 || got.Value != to+2 {
		t.Errorf("%+v", got)
	}
	read := must[[]seqsvr.CurrentResult](t)(c.CurrentMany(ctx, []uint64{uid, uid - 1}))
	if read[0].Value != to+2 || !read[0].Exact || read[1].Value >= to {
		t.Errorf("%+v", read)
	}
	_, err := c.Advance(ctx, uid, 1<<64-1)
	if e := asError(t, err); e.Retryable || e.Kind != seqsvr.KindRefused || e.UID != uid {
		t.Errorf("%+v", e)
	}
}

func TestAnOwnerIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	cl, c := start(t, cluster.Settings{})
	killOwners(t, cl, oneOfEachSection(), c.Next)
}

func TestAnOwnerIsKilledWhileKeysAreNumbered(t *testing.T) {
	t.Parallel()
	cl, c := start(t, cluster.Settings{})
	cl.Run(t, "keyspace", "create", "main", "--yes", "--addr", "http://"+cl.Admin)
	main := c.Keyspace("main")
	key := func(uid uint64) string { return fmt.Sprintf("conv:%d", uid) }
	// The keys are in buckets of both owners.
	uids := oneOfEachSection()
	eventually(t, "each bucket is served", func() error {
		var keys []string
		for _, uid := range uids {
			keys = append(keys, key(uid))
		}
		results, err := main.CurrentMany(testContext(t), keys)
		for _, result := range results {
			err = errors.Join(err, result.Err)
		}
		return err
	})
	killOwners(t, cl, uids, func(ctx context.Context, uid uint64) (seqsvr.Allocation, error) {
		return main.Next(ctx, key(uid))
	})
}

// killOwners kills one owner after the other while numbers are taken.
func killOwners(
	t *testing.T, cl *cluster.Cluster, uids []uint64, next func(context.Context, uint64) (seqsvr.Allocation, error),
) {
	t.Helper()
	l := startLoadOf(t, next, uids, 8)
	for _, name := range []string{"a1", "a2"} {
		l.awaitAll("each section is served", uids, l.counts(), 5)
		cl.Node(name).Kill()
		// The sections of the owner that was killed are taken over by the other one.
		l.awaitAll("each section is served after "+name+" was killed", uids, l.counts(), 5)
		cl.StartNode(t, name)
		eventually(t, name+" responds again", func() error {
			client, err := seqsvr.Open(testContext(t), []string{cl.Allocs[int(name[1]-'1')]})
			if err == nil {
				client.Close()
			}
			return err
		})
	}
	l.check()
}

func TestAnOwnerHangsUnderLoad(t *testing.T) {
	t.Parallel()
	cl, c := start(t, cluster.Settings{})
	uids := oneOfEachSection()
	l := startLoad(t, c, uids, 8)
	l.awaitAll("each section is served", uids, l.counts(), 5)
	cl.Node("a1").Signal(syscall.SIGSTOP)
	l.awaitAll("each section is served while a1 hangs", uids, l.counts(), 5)
	cl.Node("a1").Signal(syscall.SIGCONT)
	l.awaitAll("each section is served after a1 continued", uids, l.counts(), 50)
	l.check()
}

func TestAnOrderlyRestartFailsNoCall(t *testing.T) {
	t.Parallel()
	cl, c := start(t, cluster.Settings{})
	uids := oneOfEachSection()
	l := startLoad(t, c, uids, 8)
	l.awaitAll("each section is served", uids, l.counts(), 5)
	cl.Node("a2").Terminate()
	cl.StartNode(t, "a2")
	l.awaitAll("each section is served after the restart", uids, l.counts(), 50)
	l.check()
}
