package seqsvr

import (
	"errors"
	"fmt"
	"time"

	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/wire"
)

// named is the set that a refusal names, and the epoch since which the section is there.
type named struct {
	set, since wire.Optional
}

// classified is the refusal of an item with the consequences for its retry.
type classified struct {
	err *Error
	// moved is whether the call continues at once in the set to which the section moved.
	moved bool
	// charged is the set whose budget pays for a retry, if hasCharged. Otherwise it is that of the last attempt.
	charged    routes.SetIndex
	hasCharged bool
}

// prepareRetry handles the failure of an attempt. It returns nil after the backoff if the call has another attempt, and
// otherwise the error of the call. item is as in routeOf, and nil in a call for ids.
func (t *attempts) prepareRetry(item *uint64, addr string, failed error, isLate bool) *Error {
	var status *rpc.Status
	var transport *rpc.TransportError
	switch {
	case errors.As(failed, &status) && status.BadMessage:
		return errBadAnswer(addr, status.Message)
	case status != nil && (status.Reason != "" || status.Code != rpc.Cancelled && status.Code != rpc.DeadlineExceeded):
		t.count(isOutcomeUnknown(status.Reason))
		refused := t.errRefused(item, status)
		return t.retryAfterRefusal(item, addr, refused, named{status.Set, status.Since})
	case status != nil:
		// A server has noticed the end of the attempt before this client.
		t.count(true)
		if err := t.interrupted(); err != nil {
			return err
		}
		t.exclude(addr)
		return t.retry(t.errAttemptLate(item, addr), 0, false)
	}
	sent := !errors.As(failed, &transport) || transport.Sent
	if isLate {
		return t.retryAfterHang(item, addr, sent)
	}
	return t.retryAfterBreak(item, addr, failed, sent)
}

// retryAfterHang handles an attempt that got no response in its time.
func (t *attempts) retryAfterHang(item *uint64, addr string, sent bool) *Error {
	t.count(sent)
	if err := t.interrupted(); err != nil {
		return err
	}
	err := t.errAttemptLate(item, addr)
	t.c.pool.Suspect(addr, err)
	return t.retryElsewhere(item, addr, err)
}

// retryAfterBreak handles an attempt whose connection failed. sent is whether a node may have processed it.
func (t *attempts) retryAfterBreak(item *uint64, addr string, failed error, sent bool) *Error {
	t.count(sent)
	if err := t.interrupted(); err != nil {
		return err
	}
	t.c.pool.Suspect(addr, failed)
	return t.retryElsewhere(item, addr, t.errUnreachable(item, addr, failed))
}

// retryElsewhere retries at another node than addr, which is suspect.
func (t *attempts) retryElsewhere(item *uint64, addr string, err *Error) *Error {
	atOnce := t.exclude(addr)
	directory := t.c.routes.Load()
	if set := directory.Set(t.route.Set); set.IsDown(t.c.pool.IsSuspect) && directory.HasOthers(set) {
		t.c.refreshFromOthers(t.ctx, t.route.Set, nil, "")
		if item != nil && t.hasMoved(*item) {
			t.followed++
			return nil
		}
		cause := err.cause
		err = t.errSetUnavailable(item, set.ID, nil)
		err.cause = cause
		if t.failsFast {
			return err
		}
	}
	return t.retry(err, 0, atOnce)
}

// hasMoved returns whether the call may continue at once in another set, because newer routes show that the section has
// moved there since the last attempt.
func (t *attempts) hasMoved(item uint64) bool {
	now, ok := t.routeOf(t.c.routes.Load(), item)
	return ok && now.Set != t.route.Set && now.Epoch > t.route.Epoch && t.followed < maxFollowed
}

// prepareItemRetry handles the refusal of a single item in a response, as prepareRetry.
func (t *attempts) prepareItemRetry(item uint64, addr string, refusal *wire.ItemError) *Error {
	t.count(isOutcomeUnknown(refusal.Reason))
	return t.retryAfterRefusal(&item, addr, t.errItem(item, refusal), named{refusal.SetID, refusal.Since})
}

func (t *attempts) retryAfterRefusal(item *uint64, addr string, refused *Error, by named) *Error {
	atOnce := refused.Reason == ReasonShuttingDown && t.exclude(addr)
	sentBy := t.route
	found := t.classify(item, refused, by, sentBy.Epoch)
	if found.moved {
		t.followed++
		return nil
	}
	if t.isFinal(found.err) {
		return found.err
	}
	if found.hasCharged {
		t.route.Set = found.charged
		if found.charged != sentBy.Set {
			// With newer routes, the next attempt can be sent directly to the set that the node could not reach.
			t.c.refreshFromOthers(t.ctx, found.charged, &sentBy.Set, addr)
		}
	}
	return t.retry(found.err, found.err.RetryAfter, atOnce)
}

// classify classifies the refusal of an item that was sent by a route of the epoch sentBy. If the refusal states that
// the section moved to another set, it adopts this route.
func (t *attempts) classify(item *uint64, refused *Error, by named, sentBy uint64) classified {
	t.suspectOwner(item, refused)
	switch {
	case refused.Reason == ReasonSetUnavailable:
		found := classified{err: t.errSetUnavailable(nil, by.set.Value, refused)}
		if by.set.Present {
			found.charged, found.hasCharged = t.c.routes.Load().IndexOf(by.set.Value)
		}
		return found
	case refused.Reason == ReasonMoved && by.set.Present && by.since.Present && item != nil:
		claim := routes.Claim{Set: by.set.Value, Since: by.since.Value}
		if t.keyspace != nil {
			t.c.routes.AdoptBucketClaim(t.keyspace.Home, *item, claim)
		} else {
			t.c.routes.AdoptClaim(*item, claim)
		}
		moved := t.hasRoute && by.since.Value > sentBy && t.followed < maxFollowed
		return classified{err: refused, moved: moved}
	default:
		return classified{err: refused}
	}
}

// isFinal returns whether the call fails at once even though the error is retryable.
func (t *attempts) isFinal(err *Error) bool {
	return t.failsFast && err.Kind == KindSetUnavailable
}

// suspectOwner marks the owner of the section as suspect if another node could not reach it. A request that this client
// sent to the owner directly would probably time out too.
func (t *attempts) suspectOwner(item *uint64, refused *Error) {
	switch refused.Reason {
	case ReasonOwnerTimedOut, ReasonOwnerConnectionLost, ReasonOwnerUnreachable:
	default:
		return
	}
	if item == nil {
		return
	}
	directory := t.c.routes.Load()
	if route, ok := t.routeOf(directory, *item); ok && route.Owner != 0 {
		if addr := directory.Set(route.Set).Addr(route.Owner); addr != "" {
			t.c.pool.Suspect(addr, refused)
		}
	}
}

// count counts an attempt with unknown outcome.
func (t *attempts) count(isUnknown bool) {
	if isUnknown && !t.reads {
		t.lost++
	}
}

func (t *attempts) newError(kind Kind, reason, format string, args ...any) *Error {
	return &Error{
		Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...),
		MayHaveApplied: t.lost > 0, Attempts: t.made,
	}
}

func (t *attempts) errClosed() *Error {
	return t.newError(KindClosed, reasonClosed, "the client is closed; open a new one")
}

func (t *attempts) errDeadline() *Error {
	e := t.newError(KindDeadline, ReasonDeadlineExceeded, "no response before the deadline, after %d attempts", t.made)
	e.Retryable = true
	return e
}

// errAttemptLate is the error of an attempt that ended before the deadline of the call.
func (t *attempts) errAttemptLate(item *uint64, addr string) *Error {
	e := t.newError(KindDeadline, ReasonDeadlineExceeded, "%s did not respond, after %d attempts", addr, t.made)
	e.Retryable, e.Addr = true, addr
	return t.of(e, item)
}

func (t *attempts) errUnreachable(item *uint64, addr string, cause error) *Error {
	e := t.newError(KindUnreachable, ReasonUnreachable, "the call to %s failed after %d attempts", addr, t.made)
	e.Retryable, e.Addr, e.cause = true, addr, cause
	return t.of(e, item)
}

// errSetUnavailable is the error for a set whose nodes cannot be reached, by this client or by the node that refused.
func (t *attempts) errSetUnavailable(item *uint64, id uint64, refused *Error) *Error {
	name := fmt.Sprintf("set %d", id)
	if id == 0 {
		name = "another set"
	}
	e := t.newError(KindSetUnavailable, ReasonSetUnavailable, "")
	if set := t.c.routes.Load().ByID(id); set != nil && set.Name != "" {
		name, e.SetName = fmt.Sprintf("set %q", set.Name), set.Name
	}
	e.Message = fmt.Sprintf("the section is in %s, of which no node can be reached", name)
	e.Retryable, e.SetID = true, id
	if refused != nil {
		e.Message += ": " + refused.Message
		e.UID, e.HasUID, e.Code, e.RetryAfter = refused.UID, refused.HasUID, refused.Code, refused.RetryAfter
		e.MayHaveApplied = refused.MayHaveApplied
	}
	return t.of(e, item)
}

// errRefused is the error of a call that a server refused.
func (t *attempts) errRefused(item *uint64, status *rpc.Status) *Error {
	e := t.newError(KindRefused, status.Reason, "%s", status.Message)
	e.Code, e.RetryAfter, e.Bound = Code(status.Code), status.RetryAfter, status.Bound.Value
	if status.Reason == "" {
		// The message of a refusal without a reason may be empty.
		e.Reason, e.Message = ReasonRefusedByOthers, fmt.Sprintf("%s: %s", e.Code, status.Message)
	}
	e.Retryable = isRetryable(e.Code, e.RetryAfter)
	return t.of(e, item)
}

// errItem is the error of an item that a server refused.
func (t *attempts) errItem(item uint64, refusal *wire.ItemError) *Error {
	e := t.newError(KindRefused, refusal.Reason, "%s", refusal.Message)
	e.Code, e.RetryAfter = Code(refusal.Code), time.Duration(refusal.RetryAfterMS)*time.Millisecond
	e.MayHaveApplied = e.MayHaveApplied || isOutcomeUnknown(refusal.Reason) && !t.reads
	if refusal.Reason == "" {
		e.Reason = ReasonRefusedByOthers
	}
	e.Retryable = isRetryable(e.Code, e.RetryAfter)
	return t.of(e, &item)
}

// of returns the error as the error of an item. Errors of keys state no uid.
func (t *attempts) of(e *Error, item *uint64) *Error {
	if item != nil && t.keyspace == nil {
		e.UID, e.HasUID = *item, true
	}
	return e
}
