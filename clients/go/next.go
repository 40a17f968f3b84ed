package seqsvr

import (
	"errors"
	"time"

	"seqsvr.example/clients/go/internal/batch"
	"seqsvr.example/clients/go/internal/wire"
)

// next makes the attempts of a call for numbers of one uid. The first one is made in the stream to the owner, if the
// owner is known, and the others are unary requests.
func (t *attempts) next(uid uint64, count uint32) (Allocation, *Error) {
	if allocation, done, err := t.nextInStream(uid, count); done || err != nil {
		return allocation, err
	}
	var allocation Allocation
	err := unary(t, uid, "SequenceService/Next",
		func(to target) wire.Message {
			return &wire.NextRequest{
				UID: wire.Some(uid), Count: count, RouteVersion: to.routeVersion, Epoch: to.epoch,
			}
		},
		func(addr string, data *wire.NextResponse) (*wire.Routes, *Error) {
			lost := uint32(data.Lost.Value) + uint32(t.lost)
			var bad *Error
			allocation, bad = checkedAllocation(addr, data.Value, data.Prev, data.Epoch, count, lost)
			return data.Routes, bad
		})
	return allocation, err
}

// nextInStream makes the first attempt in the stream to the owner. done is false if the call continues with unary
// requests.
func (t *attempts) nextInStream(uid uint64, count uint32) (result Allocation, done bool, err *Error) {
	if !t.c.options.coalesce {
		return Allocation{}, false, nil
	}
	directory := t.c.routes.Load()
	route, ok := directory.Route(uid)
	if !ok || route.Owner == 0 {
		return Allocation{}, false, nil
	}
	set := directory.Set(route.Set)
	addr := set.Addr(route.Owner)
	if addr == "" || t.c.pool.IsSuspect(addr) {
		return Allocation{}, false, nil
	}
	t.sendBy(directory, route)
	until := t.until(set.HasOther(addr, t.c.pool.IsSuspect))
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	call := &batch.Call{
		UID: uid, Count: count, Epoch: route.Epoch, RouteVersion: set.KnownVersion(), Deadline: until,
	}
	ctx := t.ctx
	end := t.startAttempt(&ctx, addr, set, true)
	outcome := t.c.batcher(addr).Send(call, t.ctx.Done(), t.c.base.Done(), timer.C)
	end(outcome.Err)
	t.c.adopt(outcome.Routes, addr)
	switch {
	case outcome.Unsupported:
		return Allocation{}, false, nil
	case outcome.Err != nil:
		return Allocation{}, false, t.prepareStreamRetry(uid, addr, outcome)
	case outcome.Invalid != "":
		return Allocation{}, false, errBadAnswer(addr, outcome.Invalid)
	case outcome.Refused != nil && outcome.Refused.Reason == ReasonWouldWait:
		return Allocation{}, false, nil
	case outcome.Refused != nil:
		return Allocation{}, false, t.prepareItemRetry(uid, addr, outcome.Refused)
	default:
		result, err = checkedAllocation(addr, outcome.Value, outcome.Prev, outcome.Epoch, count, outcome.Lost)
		return result, true, err
	}
}

// prepareStreamRetry handles a call whose stream ended, or that got no response in its time, as prepareRetry.
func (t *attempts) prepareStreamRetry(uid uint64, addr string, outcome batch.Outcome) *Error {
	switch {
	case errors.Is(outcome.Err, batch.ErrAbandoned):
		return t.retryAfterHang(&uid, addr, outcome.Sent)
	case outcome.Sent:
		return t.prepareRetry(&uid, addr, outcome.Err, false)
	default:
		return t.retryAfterBreak(&uid, addr, outcome.Err, false)
	}
}

// response constrains P to the pointer of a message type R.
type response[R any] interface {
	*R
	wire.Message
}

// unary makes the attempts of a call for one item with unary requests. read reads a response and returns its routes.
func unary[R any, P response[R]](
	t *attempts, item uint64, method string, request func(to target) wire.Message,
	read func(addr string, response P) (*wire.Routes, *Error),
) *Error {
	t.refreshIfOutside(item)
	for {
		to, err := t.target(item)
		if err != nil {
			return err
		}
		var response P = new(R)
		failed, isLate := t.attempt(to, method, request(to), response)
		if failed == nil {
			table, err := read(to.Addr, response)
			t.c.adopt(table, to.Addr)
			return err
		}
		if err := t.prepareRetry(&item, to.Addr, failed, isLate); err != nil {
			return err
		}
	}
}
