package seqsvr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/fake"
	"seqsvr.example/clients/go/internal/wire"
)

// testTimeout is the timeout of a test's waits. Far longer than they take, so only a hang fails.
const testTimeout = time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, seeds []string, opts ...Option) *Client {
	t.Helper()
	c, err := Open(testContext(t), seeds, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// methods returns the methods of the requests that a node received.
func methods(n *fake.Node) (methods []string) {
	for _, seen := range n.Seen() {
		methods = append(methods, seen.Method)
	}
	return methods
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

func TestEachMethodIsServedByTheOwner(t *testing.T) {
	w := fake.New(t, 1, 2)
	c, ctx := open(t, w.Seeds()), testContext(t)
	allocation := must[Allocation](t)
	if got := allocation(c.Next(ctx, 25)); got != (Allocation{Value: 1, Epoch: 1, Count: 1}) {
		t.Errorf("%+v", got)
	}
	got := allocation(c.NextN(ctx, 25, 3))
	if got != (Allocation{Value: 4, Prev: 1, Epoch: 1, Count: 3}) || got.First() != 2 {
		t.Errorf("%+v", got)
	}
	if numbers := slices.Collect(got.Numbers()); !slices.Equal(numbers, []uint64{2, 3, 4}) {
		t.Errorf("%v", numbers)
	}
	if got := must[Current](t)(c.Current(ctx, 25)); got != (Current{Value: 4, Exact: true, Epoch: 1}) {
		t.Errorf("%+v", got)
	}
	if got := must[uint64](t)(c.Advance(ctx, 25, 1<<62-1)); got != 1 {
		t.Errorf("epoch %d", got)
	}
	if got := must[Current](t)(c.Current(ctx, 25)); got.Value != 1<<62-1 {
		t.Errorf("%+v", got)
	}
	if got := w.Node(0, 0).Seen(); len(got) != 0 {
		t.Errorf("another node than the owner received %+v", got)
	}
	if got := methods(w.Node(0, 1)); !slices.Equal(got, []string{"NextStream", "NextStream", "Current", "Advance", "Current"}) {
		t.Errorf("%v", got)
	}
}

func TestNumbersAreExactTo64Bits(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	for _, to := range []uint64{1<<53 + 1, 1<<62 - 1, MaxSeq - 1} {
		must[uint64](t)(c.Advance(ctx, 1, to))
		got := must[Allocation](t)(c.Next(ctx, 1))
		if got.Value != to+1 || must[Current](t)(c.Current(ctx, 1)).Value != to+1 {
			t.Errorf("%+v, not %d", got, to+1)
		}
		text := string(must[[]byte](t)(json.Marshal(got)))
		if !strings.Contains(text, fmt.Sprintf(`"value":"%d"`, to+1)) {
			t.Errorf("%s", text)
		}
	}
	if _, err := c.Next(ctx, 1); !errors.Is(err, KindBadAnswer) {
		t.Errorf("a number above 2^63-1: %v", err)
	}
}

func TestAHeaderNamesTheClient(t *testing.T) {
	w := fake.New(t, 1, 1)
	c := open(t, w.Seeds())
	must[Current](t)(c.Current(testContext(t), 1))
	header := w.Node(0, 0).Header()
	if header.Get("Seqsvr-Client") != "go/"+Version || header.Get("Te") != "trailers" || header.Get("Authorization") != "" {
		t.Errorf("%v", header)
	}
}

func TestInvalidArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	_, none := c.NextN(ctx, 1, 0)
	_, many := c.NextN(ctx, 1, MaxCount+1)
	_, item := c.NextManyN(ctx, []Item{{UID: 1, Count: 1}, {UID: 2, Count: MaxCount + 1}})
	_, ids := c.Series("s").Take(ctx, 0)
	for _, err := range []error{none, many, item, ids} {
		if !errors.Is(err, KindCount) || asError(err).Reason != ReasonCountOutOfRange {
			t.Errorf("%v", err)
		}
	}
	for _, uid := range []uint64{20, 1<<64 - 1} {
		_, err := c.Next(ctx, uid)
		if !errors.Is(err, KindUIDOutside) || asError(err).UID != uid || asError(err).Retryable {
			t.Errorf("%v", err)
		}
	}
	if got := must[[]AllocationResult](t)(c.NextMany(ctx, nil)); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := w.Node(0, 0).Seen(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestNewerRoutesAreAdoptedFromResponses(t *testing.T) {
	w := fake.New(t, 1, 2)
	adopted := make(chan uint64, 10)
	c := open(t, w.Seeds(), WithObserver(Observer{RoutesAdopted: func(set string, version uint64) { adopted <- version }}))
	ctx := testContext(t)
	must[Allocation](t)(c.Next(ctx, 5))
	w.Move(5, 0, 1)
	// The former owner refuses the item in the stream, with newer routes.
	if got := must[Allocation](t)(c.Next(ctx, 5)); got.Value != 2 || got.Epoch != 2 {
		t.Errorf("%+v", got)
	}
	before := len(w.Node(0, 0).Seen())
	if got := must[Allocation](t)(c.Next(ctx, 5)); got.Value != 3 {
		t.Errorf("%+v", got)
	}
	if got := methods(w.Node(0, 1)); len(w.Node(0, 0).Seen()) != before || !slices.Equal(got, []string{"Next", "NextStream"}) {
		t.Errorf("%v and %v", methods(w.Node(0, 0)), got)
	}
	if first, second := <-adopted, <-adopted; first != 1 || second != 2 {
		t.Errorf("versions %d and %d", first, second)
	}
	if got := c.Stats(); got.RouteAdoptions != 2 || got.Calls != 3 || got.Retries != 0 {
		t.Errorf("%+v", got)
	}
}

func TestConcurrentCallsShareMessages(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	must[Allocation](t)(c.Next(ctx, 0))
	node := w.Node(0, 0)
	// While the node hangs, the messages in flight reach their limit, and further calls gather.
	node.Hang(true)
	const callers, calls = 256, 8
	values := make([][]uint64, callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Add(1)
		go func() {
			defer running.Done()
			for range calls {
				got, err := c.Next(ctx, uint64(i%20))
				if err != nil {
					t.Error(err)
					return
				}
				values[i] = append(values[i], got.Value)
			}
		}()
	}
	eventually(t, "all callers wait", func() bool { return c.Stats().Pending == callers })
	node.Hang(false)
	running.Wait()
	seen := map[[2]uint64]bool{}
	for i, list := range values {
		for _, value := range list {
			seen[[2]uint64{uint64(i % 20), value}] = true
		}
		if !slices.IsSorted(list) {
			t.Errorf("caller %d has %v", i, list)
		}
	}
	if len(seen) != callers*calls {
		t.Errorf("%d numbers for %d calls", len(seen), callers*calls)
	}
	if got := node.Messages(); got > callers*calls/2 {
		t.Errorf("%d messages for %d calls", got, callers*calls)
	}
	if got := c.Stats(); got.Pending != 0 || int(got.Messages) != node.Messages() {
		t.Errorf("%+v", got)
	}
}

func TestWithoutCoalescingEachCallIsARequest(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds(), WithoutCoalescing()), testContext(t)
	must[Allocation](t)(c.Next(ctx, 1))
	if got := methods(w.Node(0, 0)); !slices.Equal(got, []string{"Next"}) {
		t.Errorf("%v", got)
	}
}

func TestANodeWithoutStreamsGetsUnaryRequests(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.Node(0, 0).KnowStreams(false)
	c, ctx := open(t, w.Seeds()), testContext(t)
	for want := uint64(1); want <= 3; want++ {
		if got := must[Allocation](t)(c.Next(ctx, 1)); got.Value != want || got.Lost != 0 {
			t.Errorf("%+v", got)
		}
	}
	if got := methods(w.Node(0, 0)); !slices.Equal(got, []string{"Next", "Next", "Next"}) {
		t.Errorf("%v", got)
	}
}

func TestAClosedClientEndsItsCalls(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds(), WithoutCoalescing()), testContext(t)
	streams := open(t, w.Seeds())
	w.Node(0, 0).Hang(true)
	failures := make(chan error, 3)
	go func() { _, err := c.Next(ctx, 1); failures <- err }()
	go func() { _, err := c.NextMany(ctx, []uint64{1, 2}); failures <- err }()
	go func() { _, err := streams.Next(ctx, 1); failures <- err }()
	eventually(t, "the requests are sent", func() bool { return len(w.Node(0, 0).Seen()) == 3 })
	c.Close()
	streams.Close()
	for range 3 {
		err := <-failures
		if !errors.Is(err, KindClosed) || !asError(err).MayHaveApplied || asError(err).Retryable {
			t.Errorf("%v", err)
		}
	}
	c.Close()
	if _, err := c.Next(ctx, 1); !errors.Is(err, KindClosed) || asError(err).MayHaveApplied {
		t.Errorf("%v", err)
	}
	w.Node(0, 0).Hang(false)
}

func TestAShutdownLetsCallsComplete(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	w.Node(0, 0).Hang(true)
	result := make(chan error, 1)
	go func() { _, err := c.Next(ctx, 1); result <- err }()
	eventually(t, "the request is sent", func() bool { return len(w.Node(0, 0).Seen()) == 1 })
	ended := make(chan error, 1)
	go func() { ended <- c.Shutdown(ctx) }()
	eventually(t, "the shutdown begins", func() bool { return c.closing.Load() })
	if _, err := c.Current(ctx, 1); !errors.Is(err, KindClosed) {
		t.Errorf("%v", err)
	}
	w.Node(0, 0).Hang(false)
	if err := <-result; err != nil {
		t.Errorf("the call in progress failed: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}

	hung := open(t, w.Seeds())
	w.Node(0, 0).Hang(true)
	go func() { _, err := hung.Next(ctx, 1); result <- err }()
	eventually(t, "the request is sent", func() bool { return len(w.Node(0, 0).Seen()) == 2 })
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := hung.Shutdown(short); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := <-result; !errors.Is(err, KindClosed) {
		t.Errorf("%v", err)
	}
	w.Node(0, 0).Hang(false)
}

func TestNothingOutlivesAClient(t *testing.T) {
	w := fake.New(t, 2, 2)
	ctx := testContext(t)
	before := runtime.NumGoroutine()
	for range 20 {
		c := open(t, w.Seeds(), WithConnections(2))
		must[Allocation](t)(c.Next(ctx, 1))
		must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 25, 45, 65}))
		c.Close()
		if got := c.Stats().Connections; got != 0 {
			t.Errorf("%d connections", got)
		}
	}
	// Goroutines of the servers end with their connections.
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+5 })
}

func TestEachEventIsObserved(t *testing.T) {
	w := fake.New(t, 1, 1)
	var mu sync.Mutex
	var events []string
	record := func(event string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, event)
	}
	type key struct{}
	c := open(t, w.Seeds(), WithConnections(1), WithoutCoalescing(), WithObserver(Observer{
		CallStart: func(ctx context.Context, call CallInfo) context.Context {
			record("start " + call.Method)
			return context.WithValue(ctx, key{}, "span")
		},
		CallEnd: func(ctx context.Context, call CallInfo, end CallEnd) {
			outcome, reason := Outcome(end.Err)
			record(strings.TrimSpace("end " + ctx.Value(key{}).(string) + " " + outcome + " " + reason))
		},
		AttemptStart: func(ctx context.Context, attempt AttemptInfo) context.Context {
			record("attempt at " + attempt.Set)
			return ctx
		},
		AttemptEnd: func(ctx context.Context, attempt AttemptInfo, end AttemptEnd) {
			outcome, _ := Outcome(end.Err)
			record("attempt " + outcome)
		},
		Retry:            func(ctx context.Context, retry RetryInfo) { record("retry " + retry.Reason) },
		ConnectionOpened: func(addr string) { record("opened") },
		ConnectionClosed: func(addr string, err error) { record("closed") },
	}))
	w.Node(0, 0).Refuse(fake.Refusal{Reason: "CEILING_STALLED", Code: 14, RetryAfterMS: 1})
	must[Allocation](t)(c.Next(testContext(t), 1))
	_, err := c.Next(testContext(t), 99)
	if !errors.Is(err, KindUIDOutside) {
		t.Error(err)
	}
	c.Close()
	want := []string{
		"opened", "start Next", "attempt at set-0", "attempt refused", "retry CEILING_STALLED", "attempt at set-0",
		"attempt ok", "end span ok", "start Next", "end span uid_outside UID_OUTSIDE", "closed",
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(events, want) {
		t.Errorf("%q, not %q", events, want)
	}
}

func TestResponsesThatDoNotFitAreRefused(t *testing.T) {
	w := fake.New(t, 1, 1)
	c, streams, ctx := open(t, w.Seeds(), WithoutCoalescing()), open(t, w.Seeds()), testContext(t)
	node := w.Node(0, 0)
	next := func(c *Client) error { _, err := c.NextN(ctx, 1, 2); return err }
	for name, test := range map[string]struct {
		change func(m *wire.NextResponse)
	}{
		"below the count":     {func(m *wire.NextResponse) { m.Value, m.Prev = 1, 0 }},
		"not above prev":      {func(m *wire.NextResponse) { m.Value, m.Prev = 10, 9 }},
		"prev above value":    {func(m *wire.NextResponse) { m.Value, m.Prev = 10, 1<<64-1 }},
		"above the last seq":  {func(m *wire.NextResponse) { m.Value = 1 << 63 }},
		"no number":           {func(m *wire.NextResponse) { *m = wire.NextResponse{} }},
		"all bits of a value": {func(m *wire.NextResponse) { m.Value = 1<<64 - 1 }},
	} {
		node.Change(func(m wire.Message) {
			if m, ok := m.(*wire.NextResponse); ok {
				test.change(m)
			}
		})
		if err := next(c); !errors.Is(err, KindBadAnswer) || asError(err).Addr != node.Addr() || !asError(err).MayHaveApplied {
			t.Errorf("%s: %v", name, err)
		}
	}
	node.Change(nil)
	for name, change := range map[string]func(m *wire.NextStreamResponse){
		"another length":      func(m *wire.NextStreamResponse) { m.Response.Prevs = nil },
		"an unknown item":     func(m *wire.NextStreamResponse) { m.Response.Errors = []wire.ItemError{{Index: 1}} },
		"items in no order":   func(m *wire.NextStreamResponse) { m.Response.Errors = []wire.ItemError{{}, {}} },
		"neither of the two":  func(m *wire.NextStreamResponse) { m.Response = nil },
		"lost without counts": func(m *wire.NextStreamResponse) { m.Response.Lost = &wire.LostAttempts{Indexes: []uint32{0}} },
		"a value of 0":        func(m *wire.NextStreamResponse) { m.Response.Values[0] = 0 },
	} {
		node.Change(func(m wire.Message) { change(m.(*wire.NextStreamResponse)) })
		if err := next(streams); !errors.Is(err, KindBadAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	node.Change(func(m wire.Message) { m.(*wire.CurrentResponse).Exactness = 7 })
	if _, err := c.Current(ctx, 1); !errors.Is(err, KindBadAnswer) {
		t.Errorf("%v", err)
	}
	node.Change(func(m wire.Message) {
		if m, ok := m.(*wire.NextManyResponse); ok {
			m.Errors = []wire.ItemError{{Index: 9}}
		}
	})
	if _, err := c.NextMany(ctx, []uint64{1, 2}); !errors.Is(err, KindBadAnswer) {
		t.Errorf("%v", err)
	}
	node.Change(nil)
	if err := next(streams); err != nil {
		t.Errorf("a client does not recover: %v", err)
	}
}
