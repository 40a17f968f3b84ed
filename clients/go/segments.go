package seqsvr

import (
	"context"
	"math/bits"
	"sync"
	"time"
)

const (
	// defaultHold is the time for which a fetched range of ids lasts. It is longer than any change of owner takes.
	defaultHold = 10 * time.Second
	// maxIDAge is the age above which fetched ids that contain a time are dropped.
	maxIDAge = time.Second
	// maxTimedIDs is the limit on the ids that contain a time in one request.
	maxTimedIDs = 10_000
	// firstPause and maxPause limit the pause after a failed fetch, whose attempts have waited already.
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// Segments fetches ids before they are needed, in ranges that grow with their use.
//
// The ids of one handle are unique and increase. The ids of different handles are unique too, but in no order relative
// to each other. Fetched ids that are never used are skipped. Their number is at most 2, plus twice that of the used ids.
//
// A range has enough ids for the time hold at the present rate of use, and the next range is fetched when half of it is
// used. So a handle in use still returns ids for a while if no node responds. If the ids contain a time, unused ids are
// dropped a second after they were fetched.
type Segments struct {
	series *Series
	hold   time.Duration
	// ctx is that of fetches. It ends when the handle or the client is closed.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	buffer *idBuffer
	// fetch is the fetch in flight; nil if there is none.
	fetch *idFetch
}

// idFetch is a fetch in flight. err is set before done is closed.
type idFetch struct {
	done chan struct{}
	err  *Error
}

// Segments returns a handle that fetches ids of the series before they are needed, in ranges that last for hold at the
// present rate of use; 0 stands for 10 s. It sends nothing before its first id is taken. Close the handle after use.
func (s *Series) Segments(hold time.Duration) *Segments {
	if hold <= 0 {
		hold = defaultHold
	}
	ctx, cancel := context.WithCancel(s.c.base)
	return &Segments{series: s, hold: hold, ctx: ctx, cancel: cancel}
}

// TryNext takes the next id, if one has been fetched. It does not wait. false before the first range has been fetched,
// and when the fetched ids run out while no node responds.
func (g *Segments) TryNext() (ID, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buffer == nil {
		return 0, false
	}
	return g.take()
}

// Next takes the next id. It waits only if no fetched id is left. The error is that of the fetch of a range, or that of
// ctx. A later call starts another fetch.
func (g *Segments) Next(ctx context.Context) (ID, error) {
	if err := g.prepare(ctx); err != nil {
		return 0, err
	}
	for {
		g.mu.Lock()
		id, ok := g.take()
		fetch, pause := g.fetch, time.Until(g.buffer.retryAt)
		g.mu.Unlock()
		if ok {
			return id, nil
		}
		if err := g.await(ctx, fetch, pause); err != nil {
			return 0, err
		}
	}
}

// await waits for the end of a fetch. After a fetch that failed, it waits for the pause before the next one instead.
func (g *Segments) await(ctx context.Context, fetch *idFetch, pause time.Duration) error {
	var done <-chan struct{}
	var retry <-chan time.Time
	if fetch != nil {
		done = fetch.done
	} else {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		retry = timer.C
	}
	select {
	case <-done:
		if fetch.err != nil {
			return fetch.err
		}
		return nil
	case <-retry:
		return nil
	case <-ctx.Done():
	case <-g.ctx.Done():
	}
	return g.errEnded(ctx)
}

// prepare creates the buffer, for which the shape of the series is needed.
func (g *Segments) prepare(ctx context.Context) error {
	g.mu.Lock()
	ready := g.buffer != nil
	g.mu.Unlock()
	if g.ctx.Err() != nil {
		return g.errEnded(ctx)
	}
	if ready {
		return nil
	}
	shape, err := g.series.Shape(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buffer != nil {
		return nil
	}
	g.buffer = &idBuffer{hold: g.hold, maxSize: MaxCount, highest: g.series.after}
	if _, timed := shape.(*TimedShape); timed {
		// The next range is fetched while half of the present range is left, and is used up before it is too old.
		g.buffer.hold, g.buffer.maxAge, g.buffer.maxSize = min(g.hold, maxIDAge/2), maxIDAge, maxTimedIDs
	}
	return nil
}

// errEnded is the error of a call whose context has ended, or whose handle or client was closed.
func (g *Segments) errEnded(ctx context.Context) *Error {
	t := &attempts{c: g.series.c, ctx: ctx, deadline: time.Now().Add(time.Hour)}
	if err := t.interrupted(); err != nil {
		return err
	}
	err := t.errClosed()
	err.Message = "the handle of fetched ids is closed"
	return err
}

// Close closes the handle. It returns the number of ids that were fetched but not used, which are skipped.
func (g *Segments) Close() (unused uint64) {
	g.cancel()
	g.mu.Lock()
	fetch := g.fetch
	g.mu.Unlock()
	if fetch != nil {
		<-fetch.done
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buffer == nil {
		return 0
	}
	return g.buffer.unused()
}

// take takes the next id and begins the fetch that is due. The caller holds the lock.
func (g *Segments) take() (ID, bool) {
	id, ok, size := g.buffer.take(time.Now())
	if size == 0 || g.ctx.Err() != nil {
		return id, ok
	}
	fetch, series := &idFetch{done: make(chan struct{})}, g.series
	if g.buffer.highest > 0 {
		series = series.After(g.buffer.highest)
	}
	if g.series.c.tasks.Go(func() { g.run(fetch, series, size) }) {
		g.fetch = fetch
	}
	return id, ok
}

// run makes a fetch.
func (g *Segments) run(fetch *idFetch, series *Series, size uint32) {
	ids, err := series.Take(g.ctx, size)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fetch = nil
	if fetch.err = asError(err); fetch.err != nil {
		g.buffer.failed(time.Now())
	} else {
		g.buffer.fetched(ids, time.Now())
	}
	close(fetch.done)
}

// idRange is a range of ids from one fetch.
type idRange struct {
	ids  IDs
	left uint32
	at   time.Time
}

// next takes the next id of a range that has one.
func (r *idRange) next() ID {
	place := r.ids.count - r.left
	r.left--
	for _, run := range r.ids.runs {
		if place < run.Count {
			return ID(run.First + uint64(place)*r.ids.step)
		}
		place -= run.Count
	}
	panic("a range has as many ids as its runs")
}

// idBuffer has the ids that were fetched but not used. It has no I/O and no clock.
//
// Invariants: ids are unique and increase, because a fetch is for ids above all ids that were fetched before, and one
// fetch is in flight at a time. The number of ids that were fetched but not used is at most twice that of the used ids,
// plus 2. If ids are dropped because of their age, each fetch can exceed this bound by 1.
type idBuffer struct {
	hold time.Duration
	// maxAge is the age above which a range is dropped; 0 for ids without a time.
	maxAge  time.Duration
	maxSize uint32

	present, spare *idRange
	isFetching     bool
	given, dropped uint64
	lastSize       uint32
	highest        ID
	// measuredAt is the time of the last fetch, and measured the number of ids that had been given until then.
	measuredAt time.Time
	measured   uint64
	retryAt    time.Time
	failures   int
}

// take takes the next id; false if none is left. If size is above 0, the caller fetches so many ids and reports the
// result.
func (b *idBuffer) take(now time.Time) (id ID, ok bool, size uint32) {
	b.dropOld(now)
	if b.present == nil || b.present.left == 0 {
		b.present, b.spare = b.spare, nil
	}
	if b.present != nil && b.present.left > 0 {
		id, ok = b.present.next(), true
		b.given++
	}
	return id, ok, b.due(now, !ok)
}

// fetched adds the ids of a fetch, of a response at a time.
func (b *idBuffer) fetched(ids IDs, at time.Time) {
	b.isFetching, b.failures, b.retryAt = false, 0, time.Time{}
	b.lastSize, b.highest = ids.count, ids.last
	b.spare = &idRange{ids: ids, left: ids.count, at: at}
}

// failed ends a fetch without ids. The next one begins after a pause.
func (b *idBuffer) failed(now time.Time) {
	b.isFetching = false
	b.retryAt = now.Add(min(firstPause<<min(b.failures, 16), maxPause))
	b.failures++
}

// unused returns the number of ids that were fetched but not used.
func (b *idBuffer) unused() uint64 {
	unused := b.dropped
	for _, r := range []*idRange{b.present, b.spare} {
		if r != nil {
			unused += uint64(r.left)
		}
	}
	return unused
}

func (b *idBuffer) dropOld(now time.Time) {
	for _, r := range []**idRange{&b.present, &b.spare} {
		if b.maxAge > 0 && *r != nil && now.Sub((*r).at) > b.maxAge {
			b.dropped += uint64((*r).left)
			*r = nil
		}
	}
}

// due begins a fetch if one is due, and returns its size: if a caller waits, or if half of the present range is used and
// there is no spare range. The first id of a handle begins none, because the handle may never need a second one.
func (b *idBuffer) due(now time.Time, waits bool) uint32 {
	if b.isFetching || b.spare != nil || now.Before(b.retryAt) {
		return 0
	}
	isHalfUsed := b.present == nil || b.present.left*2 <= b.present.ids.count
	if !waits && (b.given < 2 || !isHalfUsed) {
		return 0
	}
	size := b.size(now)
	b.isFetching, b.measuredAt, b.measured = true, now, b.given
	return size
}

// size returns the number of ids that are used during hold at the present rate, at most twice the last range, and at
// most so many that the bound on unused ids holds.
func (b *idBuffer) size(now time.Time) uint32 {
	most := min(uint64(b.lastSize)*2, b.given*2+2-min(b.unused(), b.given*2+2), uint64(b.maxSize))
	used := uint64(0)
	if !b.measuredAt.IsZero() {
		elapsed := uint64(max(now.Sub(b.measuredAt), 1))
		high, low := bits.Mul64(b.given-b.measured, uint64(b.hold))
		used = most
		if high < elapsed {
			used, _ = bits.Div64(high, low, elapsed)
		}
	}
	return uint32(max(min(used, most), 1))
}
