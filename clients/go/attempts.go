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

// Constants of retries, equal in all clients of the service.
const (
	// firstBackoff is longer than the time that a node needs to adopt a route that it has just received.
	firstBackoff = 10 * time.Millisecond
	// maxBackoff is the longest backoff, unless a server requests a longer one. It is short compared with the time that
	// a change of a section's owner takes.
	maxBackoff = 500 * time.Millisecond
	// leastAttempt is the minimum time until the deadline for another attempt. With less time the attempt would usually
	// exceed the deadline, and hide the refusal that the call already has.
	leastAttempt = 20 * time.Millisecond
	// maxFollowed is the number of times that one call continues at once in the set to which a section moved.
	maxFollowed = 8
	// minAttemptTime is the minimum time after which an attempt without a response ends, if another node could serve.
	minAttemptTime = time.Second
	// attemptShare is the number of such attempts that fit into the deadline.
	attemptShare = 3
	// attemptGrace is the time for which an attempt waits for a response after its server was to respond. A server that
	// is alive responds before, with a refusal that changed nothing.
	attemptGrace = 100 * time.Millisecond
)

// attempts is the state of one call under one deadline: it chooses the node for each attempt, waits for the backoff, and
// keeps what is known about attempts that failed.
//
// A call continues at once, and does not spend from the retry budget, if a refusal states that a section moved to
// another set under a newer epoch than that of the route by which the request was sent. So a call cannot circle between
// two nodes with outdated routes.
type attempts struct {
	c       *Client
	ctx     context.Context
	info    CallInfo
	started time.Time
	// deadline of the call, and limit on the time of an attempt while another node can serve.
	deadline time.Time
	limit    time.Duration
	// reads is whether the call changes no counter.
	reads bool
	// keyspace is the keyspace of a call for keys, whose items are in the sections of their buckets; nil for a call for uids.
	keyspace *routes.Keyspace

	made int
	// lost is the number of attempts with unknown outcome, each of which may have changed a counter.
	lost int
	// excluded is the address of the last attempt that failed; empty if there is none.
	excluded string
	// route by which the last attempt was sent, if hasRoute, which is so before any attempt fails.
	route    routes.Route
	hasRoute bool
	// followed is the number of responses after which the call continued at once in another set.
	followed int
	// failsFast is whether the call fails without retries if no node of the section's set can be reached, because the
	// caller also waits for items of other sets.
	failsFast bool
	// once is the end of the only attempt of a call without retries; zero with retries.
	once time.Time
}

// target is a node to which an attempt is sent, with the fields of its request.
type target struct {
	rpc.Target
	set          *routes.Set
	routeVersion wire.Optional
	// epoch is the newest known epoch of the item's section.
	epoch uint64
	// hasOther is whether another node could serve the request.
	hasOther bool
}

// begin starts a call.
func (c *Client) begin(ctx context.Context, method string, items int) (*attempts, *Error) {
	t := &attempts{c: c, ctx: ctx, info: CallInfo{Method: method, Items: items}, started: time.Now()}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = t.started.Add(c.options.deadline)
	}
	if longest := t.started.Add(maxDeadline); deadline.After(longest) {
		deadline = longest
	}
	t.deadline, t.limit = deadline, max(minAttemptTime, deadline.Sub(t.started)/attemptShare)
	c.stats.calls.Add(1)
	c.calls.Add(1)
	if start := c.options.observer.CallStart; start != nil {
		t.ctx = start(ctx, t.info)
	}
	if c.closing.Load() {
		return nil, t.end(t.errClosed())
	}
	if err := t.interrupted(); err != nil {
		return nil, t.end(err)
	}
	return t, nil
}

// end ends a call and returns its error.
func (t *attempts) end(err *Error) *Error {
	c := t.c
	if err != nil && t.reads {
		err.MayHaveApplied = false
	}
	if end := c.options.observer.CallEnd; end != nil {
		result := CallEnd{Duration: time.Since(t.started), Attempts: t.made, Lost: t.lost}
		if err != nil {
			result.Err = err
		}
		end(t.ctx, t.info, result)
	}
	if c.calls.Add(-1) == 0 && c.closing.Load() {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
	return err
}

// finish ends a call and returns its result.
func finish[T any](t *attempts, result T, err *Error) (T, error) {
	if err = t.end(err); err != nil {
		return *new(T), err
	}
	return result, nil
}

// interrupted returns an error if the client was closed, the context of the call has ended, or its deadline has passed.
func (t *attempts) interrupted() *Error {
	switch err := t.ctx.Err(); {
	case t.c.base.Err() != nil:
		return t.errClosed()
	case errors.Is(err, context.Canceled):
		e := t.newError(KindCancelled, reasonCancelled, "the context of the call was cancelled")
		e.cause = context.Canceled
		return e
	case err != nil || !time.Now().Before(t.deadline):
		return t.errDeadline()
	default:
		return nil
	}
}

// until returns the time at which an attempt ends, for its server.
func (t *attempts) until(hasOther bool) time.Time {
	until := t.deadline
	if !t.once.IsZero() && t.once.Before(until) {
		until = t.once
	}
	if limit := time.Now().Add(t.limit); hasOther && limit.Before(until) {
		until = limit
	}
	return until
}

// attempt sends a request. The error is that of package rpc, and isLate is whether the attempt used up its time.
func (t *attempts) attempt(to target, method string, request, response wire.Message) (err error, isLate bool) {
	until := t.until(to.hasOther)
	last := until
	if until.Before(t.deadline) {
		last = until.Add(attemptGrace)
	}
	ctx, cancel := context.WithDeadline(t.ctx, last)
	defer cancel()
	defer context.AfterFunc(t.c.base, cancel)()
	end := t.startAttempt(&ctx, to.Addr, to.set, false)
	err = rpc.Invoke(ctx, to.Target, method, time.Until(until), request, response)
	end(err)
	return err, err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// startAttempt counts an attempt. The returned function is called with its result.
func (t *attempts) startAttempt(ctx *context.Context, addr string, set *routes.Set, streamed bool) func(error) {
	t.made++
	t.c.stats.attempts.Add(1)
	observer := &t.c.options.observer
	if observer.AttemptStart == nil && observer.AttemptEnd == nil {
		return func(error) {}
	}
	info := AttemptInfo{Method: t.info.Method, Addr: addr, Set: set.Name, Number: t.made, Streamed: streamed}
	started := time.Now()
	if observer.AttemptStart != nil {
		*ctx = observer.AttemptStart(*ctx, info)
	}
	observed := *ctx
	return func(err error) {
		if observer.AttemptEnd != nil {
			observer.AttemptEnd(observed, info, AttemptEnd{Duration: time.Since(started), Err: err})
		}
	}
}

// routeOf returns the route of an item, which is a uid, or the section of a key's bucket in a call for keys; false if
// the uid is in no known cluster.
func (t *attempts) routeOf(directory *routes.Directory, item uint64) (routes.Route, bool) {
	if t.keyspace != nil {
		return directory.BucketRoute(t.keyspace.Home, item), true
	}
	return directory.Route(item)
}

// target returns the node to which the next attempt for an item is sent.
func (t *attempts) target(item uint64) (target, *Error) {
	directory := t.c.routes.Load()
	route, ok := t.routeOf(directory, item)
	if !ok {
		return target{}, errOutside(item)
	}
	t.sendBy(directory, route)
	set, via := directory.Set(route.Set), directory.Set(route.Set)
	addr := set.Host(route.Owner, t.excluded, t.c.pool.IsSuspect)
	if addr == "" {
		// A node of another set forwards the request.
		for _, via = range directory.Others(set) {
			if addr = via.Host(0, t.excluded, t.c.pool.IsSuspect); addr != "" {
				break
			}
		}
	}
	if addr == "" {
		return target{}, t.errSetUnavailable(&item, set.ID, nil)
	}
	return t.targetAt(&item, addr, via, route.Epoch)
}

// targetOfIDs returns the node to which the next attempt for ids is sent: of the set home, or of another set while no
// node of home can be reached. Any node forwards the call to the owner of the lane.
func (t *attempts) targetOfIDs(home routes.SetIndex) (target, *Error) {
	directory := t.c.routes.Load()
	set := directory.Set(home)
	if set.IsDown(t.c.pool.IsSuspect) {
		for _, other := range directory.Others(set) {
			if !other.IsDown(t.c.pool.IsSuspect) {
				set = other
				break
			}
		}
	}
	addr := set.Host(0, t.excluded, t.c.pool.IsSuspect)
	if addr == "" {
		return target{}, t.errSetUnavailable(nil, set.ID, nil)
	}
	index, _ := directory.IndexOf(set.ID)
	t.sendBy(directory, routes.Route{Set: index})
	return t.targetAt(nil, addr, set, 0)
}

func (t *attempts) targetAt(item *uint64, addr string, set *routes.Set, epoch uint64) (target, *Error) {
	to, err := t.c.pool.Target(addr)
	if err != nil {
		if e := t.interrupted(); e != nil {
			return target{}, e
		}
		return target{}, t.errUnreachable(item, addr, err)
	}
	return target{
		Target: to, set: set, epoch: epoch,
		routeVersion: set.KnownVersion(),
		hasOther:     set.HasOther(addr, t.c.pool.IsSuspect),
	}, nil
}

// sendBy begins an attempt that is sent by a route. The first attempt counts the call in the budget of the route's set.
func (t *attempts) sendBy(directory *routes.Directory, route routes.Route) {
	if !t.hasRoute {
		directory.Set(route.Set).State.Budget.Earn()
	}
	t.route, t.hasRoute = route, true
}

// exclude excludes an address from the following attempts, in place of the one that was excluded before. It returns
// whether it is the first one: the retry after a first exclusion needs no backoff.
func (t *attempts) exclude(addr string) bool {
	isFirst := t.excluded == ""
	t.excluded = addr
	return isFirst
}

// retry waits for the backoff before the next attempt, and returns nil. If there is no further attempt, it returns the
// error of the call, which is usually err.
func (t *attempts) retry(err *Error, hint time.Duration, atOnce bool) *Error {
	if !err.Retryable || !t.once.IsZero() {
		return err
	}
	return t.pause(err, hint, atOnce)
}

// pause is retry for an error that is known to be retryable.
func (t *attempts) pause(err *Error, hint time.Duration, atOnce bool) *Error {
	wait := time.Duration(0)
	if !atOnce {
		wait = backoff(t.made, hint, rand.Float64())
	}
	now := time.Now()
	if !now.Add(wait + leastAttempt).Before(t.deadline) {
		return err
	}
	set := t.c.routes.Load().Set(t.route.Set)
	if !set.State.Budget.Spend(now) {
		t.c.stats.budgetRefused.Add(1)
		if refused := t.c.options.observer.BudgetRefused; refused != nil {
			refused(t.ctx, set.Name)
		}
		return err
	}
	t.c.stats.retries.Add(1)
	if retry := t.c.options.observer.Retry; retry != nil {
		retry(t.ctx, RetryInfo{Method: t.info.Method, Reason: err.Reason, Wait: wait})
	}
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
	case <-t.c.base.Done():
	}
	return t.interrupted()
}

// backoff returns the backoff after so many attempts. jitter is in 0..1: it shortens the client's own backoff, which
// doubles, by up to half, and lengthens a requested one by up to half. The longer of the two is returned.
func backoff(made int, hint time.Duration, jitter float64) time.Duration {
	doubled := min(firstBackoff<<min(max(made-1, 0), 16), maxBackoff)
	own := time.Duration(float64(doubled) * (1 - jitter/2))
	return max(own, time.Duration(float64(hint)*(1+jitter/2)))
}
