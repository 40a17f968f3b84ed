package seqsvr

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// leftOutFor is the time for which a counter is left out of the rotation after it failed, while another one responds.
const leftOutFor = time.Second

// Tickets takes ids from several counters in rotation, for example from two sets or clusters, so that ids go on while
// one of them is down.
//
// Ids are unique, because no two counters have an id in common. The ids of a call are greater than those of every call
// that ended before it began. If the counter of a call is unavailable, the call continues with the next one, within the
// retry budget of its set, and the unavailable counter is left out for a second.
type Tickets struct {
	counters []*ticketCounter
	turn     atomic.Uint32
	// last is the highest id in any response so far.
	last atomic.Uint64
}

type ticketCounter struct {
	series *Series
	shape  *CounterShape

	mu      sync.Mutex
	leftOut time.Time
}

// NewTickets returns tickets over counters, of one client or of several. The reason NOT_A_COUNTER is for a series whose
// ids contain a time, and LANES_OVERLAP for two counters that could give out the same id.
func NewTickets(ctx context.Context, series ...*Series) (*Tickets, error) {
	if len(series) == 0 {
		return nil, errRefusal(ReasonUnknownSeries, 3, "tickets need a series")
	}
	t := new(Tickets)
	for _, one := range series {
		shape, err := one.Shape(ctx)
		if err != nil {
			return nil, err
		}
		counter, ok := shape.(*CounterShape)
		if !ok {
			return nil, errRefusal(ReasonNotACounter, 3,
				"the ids of series %q follow the clock: tickets are ids of counters", one.name)
		}
		for _, other := range t.counters {
			if overlap(counter, other.shape) {
				return nil, errRefusal(ReasonLanesOverlap, 3,
					"series %q and %q have ids in common: give them one increment and different offsets",
					one.name, other.series.name)
			}
		}
		t.counters = append(t.counters, &ticketCounter{series: one, shape: counter})
	}
	return t, nil
}

// Next takes the next id, above the ids of all calls that ended before.
func (t *Tickets) Next(ctx context.Context) (ID, error) {
	ids, err := t.Take(ctx, 1)
	return ids.Last(), err
}

// Take takes the next count ids of one counter, 1 to [MaxCount]. They are above the ids of all calls that ended before.
//
// The error is the [*Error] of the last attempt. If its MayHaveApplied is true, ids may have been consumed, which are
// then skipped.
func (t *Tickets) Take(ctx context.Context, count uint32) (IDs, error) {
	if count == 0 || count > MaxCount {
		return IDs{}, errCount(nil, count)
	}
	order := t.order()
	state, failed := order[0].series.c.begin(ctx, "Tickets.Next", 1)
	if failed != nil {
		return IDs{}, failed
	}
	ids, err := t.take(state, order, count)
	return finish(state, ids, err)
}

func (t *Tickets) take(state *attempts, order []*ticketCounter, count uint32) (IDs, *Error) {
	mayHaveApplied := false
	for made := 0; ; made++ {
		place := made % len(order)
		counter := order[place]
		// The time of an attempt is limited, so that after a counter that does not respond there is time for the others.
		each := *state
		each.c, each.hasRoute, each.excluded = counter.series.c, false, ""
		each.once = time.Now().Add(time.Until(state.deadline) / time.Duration(len(order)-place))
		each.made = made / len(order)
		ids, err := t.takeFrom(counter, &each, count)
		state.made, state.lost = state.made+1, each.lost
		if err == nil {
			counter.leaveOut(time.Time{})
			t.raise(uint64(ids.last))
			return ids, nil
		}
		mayHaveApplied = mayHaveApplied || err.MayHaveApplied
		err.MayHaveApplied = mayHaveApplied
		if !err.Retryable || !each.hasRoute {
			return IDs{}, err
		}
		counter.leaveOut(time.Now().Add(leftOutFor))
		// Within one round, the next counter is tried without a pause.
		isLast, hint := place+1 == len(order), time.Duration(0)
		if isLast {
			hint = err.RetryAfter
		}
		if err := each.pause(err, hint, !isLast); err != nil {
			return IDs{}, err
		}
	}
}

// takeFrom takes ids of one counter. A counter that is so far behind the others that the call is refused is raised
// first.
func (t *Tickets) takeFrom(counter *ticketCounter, state *attempts, count uint32) (IDs, *Error) {
	last := ID(t.last.Load())
	series := counter.series.After(last)
	ids, err := series.take(state, count)
	if err == nil || err.Reason != ReasonAfterTooFar {
		return ids, err
	}
	to := counter.shape.atMost(last)
	if to == 0 {
		return IDs{}, err
	}
	if _, err := series.advance(state, to); err != nil && err.Reason != ReasonAlreadyPast {
		return IDs{}, err
	}
	return series.take(state, count)
}

// order returns the counters in the order in which a call tries them: in rotation, with those that are left out at the
// end.
func (t *Tickets) order() []*ticketCounter {
	turn := int(t.turn.Add(1)-1) % len(t.counters)
	order := slices.Concat(t.counters[turn:], t.counters[:turn])
	now := time.Now()
	slices.SortStableFunc(order, func(a, b *ticketCounter) int {
		return boolInt(a.isLeftOut(now)) - boolInt(b.isLeftOut(now))
	})
	return order
}

func (t *Tickets) raise(id uint64) {
	for last := t.last.Load(); last < id && !t.last.CompareAndSwap(last, id); last = t.last.Load() {
	}
}

func (c *ticketCounter) leaveOut(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftOut = until
}

func (c *ticketCounter) isLeftOut(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.leftOut)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// overlap returns whether two counters would have an id in common if their ids had no end.
func overlap(one, other *CounterShape) bool {
	a, b := one.Increment, other.Increment
	for b > 0 {
		a, b = b, a%b
	}
	return one.Offset%a == other.Offset%a
}
