package seqsvr

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/wire"
)

const (
	// minRefreshInterval is the minimum interval between two fetches of routes that are made because a uid is in no known
	// set, or because a set is down.
	minRefreshInterval = time.Second
	// othersTimeout is the timeout of a request for routes to another set. It is short, because a call waits for it.
	othersTimeout = 250 * time.Millisecond
	// seedGrace is the time for which a fetch waits for the other seeds once one has sent routes. Those that respond
	// later are adopted later, so a seed that hangs does not delay the start.
	seedGrace = 100 * time.Millisecond
)

// connect fetches the routes of the seeds, until one has some or the deadline passes.
func (c *Client) connect(ctx context.Context) *Error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.deadline)
		defer cancel()
	}
	for made := 1; ; made++ {
		failed, isStarting := c.fetchRoutes(ctx)
		if failed == nil {
			return nil
		}
		if !isStarting {
			return failed
		}
		timer := time.NewTimer(backoff(made, 0, rand.Float64()))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return failed
		}
	}
}

// seedResponse is the response of one seed.
type seedResponse struct {
	addr string
	err  error
	// isBad is whether the seed sent routes that were not adopted.
	isBad bool
	// isStarting is whether the seed responded that it has no routes yet.
	isStarting bool
	// isFinal is whether the seed refused the client for a reason for which it refuses it again.
	isFinal bool
}

// fetchRoutes fetches the routes of every seed. It fails if the client has no routes afterwards, or if a seed sent routes
// that are invalid or of another cluster. isStarting is whether a seed has no routes yet.
func (c *Client) fetchRoutes(ctx context.Context) (failed *Error, isStarting bool) {
	responses := make(chan seedResponse, len(c.seeds))
	deadline, _ := ctx.Deadline()
	for _, seed := range c.seeds {
		started := c.tasks.Go(func() {
			// The request outlives the fetch, for a seed that responds late.
			ctx, cancel := context.WithDeadline(c.base, deadline)
			defer cancel()
			responses <- c.fetchFrom(ctx, seed)
		})
		if !started {
			return errConnect(false, nil, "the client is closed"), false
		}
	}
	var grace <-chan time.Time
	var last *Error
	for range c.seeds {
		select {
		case response := <-responses:
			switch {
			case response.isBad:
				return errConnect(false, response.err, "the routes of %s cannot be used", response.addr), false
			case response.isStarting:
				isStarting = true
				last = errConnect(true, nil, "%s responds, but has no routes yet", response.addr)
			case response.err != nil && !isStarting:
				last = errConnect(!response.isFinal, response.err, "no seed responded; %s failed last", response.addr)
			case response.err == nil && grace == nil:
				timer := time.NewTimer(seedGrace)
				defer timer.Stop()
				grace = timer.C
			}
			continue
		case <-grace:
			return nil, false
		case <-ctx.Done():
			if !isStarting {
				last = c.fetchEnded(ctx)
			}
		}
		break
	}
	if c.routes.Load().IsEmpty() {
		return last, isStarting && ctx.Err() == nil
	}
	return nil, false
}

// fetchEnded is the error of a fetch whose context has ended.
func (c *Client) fetchEnded(ctx context.Context) *Error {
	e := errConnect(true, ctx.Err(), "no seed responded before the deadline; the seeds are %v", c.seeds)
	if errors.Is(ctx.Err(), context.Canceled) {
		e.Kind, e.Reason = KindCancelled, reasonCancelled
	}
	return e
}

// fetchFrom fetches the routes of a seed and adopts them.
func (c *Client) fetchFrom(ctx context.Context, seed string) seedResponse {
	table, err := c.getRoutes(ctx, seed, 0)
	var status *rpc.Status
	switch {
	case err == nil && table == nil:
		return seedResponse{addr: seed, isStarting: true}
	case err == nil:
		change, err := c.routes.Adopt(table, seed)
		c.adopted(table, change)
		return seedResponse{addr: seed, err: err, isBad: err != nil}
	case errors.As(err, &status):
		isStarting := status.Code == rpc.Unavailable && status.HTTP == 0
		reason, known := LookupReason(status.Reason)
		isFinal := known && !reason.Retryable
		return seedResponse{addr: seed, err: described(status), isStarting: isStarting, isFinal: isFinal}
	default:
		c.pool.Suspect(seed, err)
		return seedResponse{addr: seed, err: err}
	}
}

// described adds to the status of a seed what the seed is, if the status shows that it is no AllocSvr.
func described(status *rpc.Status) error {
	switch {
	case status.HTTP != 0:
		return errors.New("it does not speak gRPC; name the gRPC port of an AllocSvr: " + status.Error())
	case status.Code == rpc.Unimplemented:
		return errors.New("it is a store or another gRPC server; name an AllocSvr: " + status.Error())
	default:
		return status
	}
}

// getRoutes requests the routes of a node that are newer than a version. The result is nil if there are none.
func (c *Client) getRoutes(ctx context.Context, addr string, known uint64) (*wire.Routes, error) {
	to, err := c.pool.Target(addr)
	if err != nil {
		return nil, &rpc.TransportError{Err: err}
	}
	deadline, _ := ctx.Deadline()
	var response wire.GetRoutesResponse
	request := &wire.GetRoutesRequest{KnownVersion: known}
	err = rpc.Invoke(ctx, to, "SequenceService/GetRoutes", time.Until(deadline), request, &response)
	return response.Routes, err
}

// refreshIfOutside fetches routes from the seeds again if a uid is in no known set, because the cluster may have new
// ones.
func (t *attempts) refreshIfOutside(item uint64) {
	if _, ok := t.routeOf(t.c.routes.Load(), item); !ok {
		t.refresh()
	}
}

// refresh fetches routes from the seeds again. If such a fetch is in progress, it waits for its end instead. If the last
// fetch ended less than minRefreshInterval ago, it does nothing. A fetch that fails leaves the known routes.
func (t *attempts) refresh() {
	ctx, cancel := context.WithDeadline(t.ctx, t.deadline)
	defer cancel()
	defer context.AfterFunc(t.c.base, cancel)()
	select {
	case t.c.refresh <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-t.c.refresh }()
	if !t.c.refreshed.IsZero() && time.Since(t.c.refreshed) < minRefreshInterval {
		return
	}
	if err, _ := t.c.fetchRoutes(ctx); err != nil {
		t.c.log().Debug("fetching routes from the seeds failed", "error", err)
	}
	t.c.refreshed = time.Now()
}

// refreshFromOthers fetches newer routes because no node of the set down can be reached: from the node addr of the set
// from, or, if from is nil, from another set. It does nothing while such a fetch for the set is in progress, or if the
// last one began less than minRefreshInterval ago. So a set that is down causes one small request per second.
func (c *Client) refreshFromOthers(ctx context.Context, down routes.SetIndex, from *routes.SetIndex, addr string) {
	directory := c.routes.Load()
	set := directory.Set(down)
	version := uint64(0)
	if from != nil {
		version = directory.Set(*from).Version()
	} else {
		var up []*routes.Set
		for _, other := range directory.Others(set) {
			if !other.IsDown(c.pool.IsSuspect) {
				up = append(up, other)
			}
		}
		if len(up) == 0 {
			return
		}
		other := up[rand.IntN(len(up))]
		addr, version = other.Host(0, "", c.pool.IsSuspect), other.Version()
	}
	if addr == "" || !set.State.Refresh.TryAcquire(minRefreshInterval) {
		return
	}
	defer set.State.Refresh.Release()
	ctx, cancel := context.WithTimeout(ctx, othersTimeout)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	table, err := c.getRoutes(ctx, addr, version)
	if err != nil {
		c.log().Debug("fetching routes from another set failed", "addr", addr, "error", err)
		return
	}
	c.adopt(table, addr)
}
