package seqsvr

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/fake"
)

func TestIDsAreTakenFromAnyNode(t *testing.T) {
	t.Parallel()
	w := fake.New(t, 1, 2)
	w.AddCounter("orders", 1, 10)
	c, ctx := open(t, w.Seeds()), testContext(t)
	orders := c.Series("orders")
	if got := must[ID](t)(orders.Next(ctx)); got != 1 {
		t.Errorf("%d", got)
	}
	ids := must[IDs](t)(orders.Take(ctx, 3))
	if got := slices.Collect(ids.All()); !slices.Equal(got, []ID{11, 21, 31}) {
		t.Errorf("%v", got)
	}
	if got := must[ID](t)(orders.After(75).Next(ctx)); got <= 75 {
		t.Errorf("%d is not above 75", got)
	}
	if got := must[DecodedID](t)(orders.Decode(ctx, 31)); got.Number != 4 {
		t.Errorf("%+v", got)
	}
	_, unknown := c.Series("none").Next(ctx)
	_, noID := orders.Decode(ctx, 32)
	_, far := orders.After(MaxID + 1).Next(ctx)
	for reason, err := range map[string]error{ReasonUnknownSeries: unknown, ReasonNotAnID: noID} {
		if e := asError(err); e == nil || e.Reason != reason || e.Retryable || e.HasUID {
			t.Errorf("%+v", err)
		}
	}
	if e := asError(far); e == nil || e.Reason != ReasonNotAnID {
		t.Errorf("%+v", far)
	}
	// A series that the client does not know yet is found.
	w.AddCounter("bills", 1, 1)
	eventually(t, "a new series is found", func() bool {
		_, err := c.Series("bills").Next(ctx)
		return err == nil
	})
}

func TestCallsForIDsAreRetriedAtAnotherNode(t *testing.T) {
	w := fake.New(t, 2, 1)
	w.AddCounter("orders", 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	must[ID](t)(c.Series("orders").Next(ctx))
	w.Node(0, 0).Refuse(refusals("LANE_AHEAD", 14, 1, 2)...)
	must[ID](t)(c.Series("orders").Next(ctx))
	w.Node(0, 0).Cut(1)
	before := must[ID](t)(c.Series("orders").Next(ctx))
	w.Node(0, 0).Stop()
	if got := must[ID](t)(c.Series("orders").Next(ctx)); got <= before {
		t.Errorf("%d after %d", got, before)
	}
	if len(w.Node(1, 0).Seen()) == 0 {
		t.Error("the other set received no request")
	}
}

func TestSegmentsFetchAheadAndIncrease(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddCounter("orders", 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	segments := c.Series("orders").Segments(0)
	if _, ok := segments.TryNext(); ok {
		t.Error("an id before any was fetched")
	}
	last := ID(0)
	for range 2000 {
		id := must[ID](t)(segments.Next(ctx))
		if id <= last {
			t.Fatalf("%d after %d", id, last)
		}
		last = id
	}
	if got := len(w.Node(0, 0).Seen()); got > 100 {
		t.Errorf("%d requests", got)
	}
	var running sync.WaitGroup
	seen := make([][]ID, 4)
	for i := range seen {
		running.Add(1)
		go func() {
			defer running.Done()
			for range 100 {
				id, err := segments.Next(ctx)
				if err != nil {
					t.Error(err)
				}
				seen[i] = append(seen[i], id)
			}
		}()
	}
	running.Wait()
	all := slices.Concat(seen...)
	slices.Sort(all)
	if len(slices.Compact(all)) != 400 || all[0] <= last {
		t.Errorf("%d ids, from %d on after %d", len(all), all[0], last)
	}
	if unused := segments.Close(); unused > 2*2400+2 {
		t.Errorf("%d unused", unused)
	}
	if _, err := segments.Next(ctx); !errors.Is(err, KindClosed) {
		t.Errorf("%v", err)
	}
}

func TestSegmentsReportAFailureAndGoOn(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddCounter("orders", 1, 1)
	c, ctx := open(t, w.Seeds()), testContext(t)
	segments := c.Series("orders").Segments(time.Second)
	defer segments.Close()
	w.Node(0, 0).Refuse(refusals("SERIES_ENDED", 11, 0, 1)...)
	if _, err := segments.Next(ctx); err == nil || asError(err).Reason != ReasonSeriesEnded {
		t.Errorf("%v", err)
	}
	if got := must[ID](t)(segments.Next(ctx)); got != 1 {
		t.Errorf("%d", got)
	}
	w.Node(0, 0).Hang(true)
	defer w.Node(0, 0).Hang(false)
	result := make(chan error, 1)
	go func() {
		for {
			if _, err := segments.Next(ctx); err != nil {
				result <- err
				return
			}
		}
	}()
	eventually(t, "a fetch is in flight", func() bool { return len(w.Node(0, 0).Seen()) >= 3 })
	c.Close()
	if err := <-result; !errors.Is(err, KindClosed) {
		t.Errorf("%v", err)
	}
}

func TestTicketsGoOnWhileACounterIsDown(t *testing.T) {
	one, other := fake.New(t, 1, 1), fake.New(t, 1, 1)
	one.AddCounter("photos.1", 1, 2)
	other.AddCounter("photos.2", 2, 2)
	ctx := testContext(t)
	a, b := open(t, one.Seeds()).Series("photos.1"), open(t, other.Seeds()).Series("photos.2")
	tickets := must[*Tickets](t)(NewTickets(ctx, a, b))
	last := ID(0)
	take := func() {
		t.Helper()
		id := must[ID](t)(tickets.Next(ctx))
		if id <= last {
			t.Fatalf("%d after %d", id, last)
		}
		last = id
	}
	for range 10 {
		take()
	}
	if len(one.Node(0, 0).Seen()) < 4 || len(other.Node(0, 0).Seen()) < 4 {
		t.Errorf("%v and %v", methods(one.Node(0, 0)), methods(other.Node(0, 0)))
	}
	other.Node(0, 0).Stop()
	for range 10 {
		take()
	}
	// A refusal that a retry would not change is the error of the call.
	one.Node(0, 0).Refuse(refusals("SERIES_RETIRED", 9, 0, 1)...)
	if _, err := tickets.Next(ctx); err == nil || asError(err).Reason != ReasonSeriesRetired {
		t.Errorf("%v", err)
	}
	_, overlap := NewTickets(ctx, a, a)
	_, none := NewTickets(ctx)
	for reason, err := range map[string]error{ReasonLanesOverlap: overlap, ReasonUnknownSeries: none} {
		if e := asError(err); e == nil || e.Reason != reason {
			t.Errorf("%+v", err)
		}
	}
}

func TestTicketsRaiseACounterThatIsFarBehind(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddCounter("a", 1, 2)
	w.AddCounter("b", 2, 2)
	c, ctx := open(t, w.Seeds()), testContext(t)
	a, b := c.Series("a"), c.Series("b")
	tickets := must[*Tickets](t)(NewTickets(ctx, a, b))
	must[IDs](t)(a.Take(ctx, 900))
	must[IDs](t)(a.Take(ctx, 900))
	var last ID
	for range 6 {
		id := must[ID](t)(tickets.Next(ctx))
		if id <= last {
			t.Errorf("%d after %d", id, last)
		}
		last = id
	}
	if last < 1800 {
		t.Errorf("the last id is %d", last)
	}
}
