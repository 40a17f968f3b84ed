package seqsvr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
)

// Kind is the kind of an [Error]. A kind is an error itself, so that errors.Is(err, seqsvr.KindRefused) tests for it.
type Kind string

// The kinds of errors.
const (
	// KindUIDOutside means that the uid is in no set that the seeds know. Nothing was sent.
	KindUIDOutside Kind = "uid_outside"
	// KindCount means that the count is 0 or above [MaxCount]. Nothing was sent.
	KindCount Kind = "count"
	// KindRefused means that a server refused the request, and that retries were refused too or would have been useless.
	KindRefused Kind = "refused"
	// KindSetUnavailable means that no node of the section's set could be reached. Calls for sections of other sets are
	// unaffected.
	KindSetUnavailable Kind = "set_unavailable"
	// KindUnreachable means that every connection failed before a response arrived.
	KindUnreachable Kind = "unreachable"
	// KindDeadline means that the deadline passed before a response arrived. errors.Is(err, context.DeadlineExceeded)
	// is true as well.
	KindDeadline Kind = "deadline"
	// KindBadAnswer means that a response does not match its request, because the server implements another protocol or
	// has a bug.
	KindBadAnswer Kind = "bad_answer"
	// KindClosed means that the client was closed before the call ended.
	KindClosed Kind = "closed"
	// KindCancelled means that the context of the call was cancelled. errors.Is(err, context.Canceled) is true as well.
	KindCancelled Kind = "cancelled"
	// KindConnect means that the client has no routes, because no seed responded with valid ones, or that an option is
	// invalid.
	KindConnect Kind = "connect"
)

// Error returns the kind as a text.
func (k Kind) Error() string { return "seqsvr: " + strings.ReplaceAll(string(k), "_", " ") }

// Code is a gRPC code.
type Code uint32

var codeNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// String returns the name of the code, e.g. UNAVAILABLE.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE_%d", uint32(c))
}

// Error is the error of a call, or of one item of a batch. It has what a caller needs to decide about a retry.
//
// Retrying a call never returns a number that was returned before. If MayHaveApplied is true, a retry can skip numbers.
type Error struct {
	// Kind of the error.
	Kind Kind
	// Reason in capitals, e.g. UNSERVED: the server's own if it refused, otherwise that of the client, as
	// DEADLINE_EXCEEDED. [LookupReason] explains it.
	Reason string
	// Code is the gRPC code of a refusal; 0 if no server refused.
	Code Code
	// Message is a description for humans.
	Message string
	// UID is the requested uid, if HasUID is true. A call for ids or keys has none.
	UID    uint64
	HasUID bool
	// SetID and SetName are the set that could not be reached; 0 and empty if unknown.
	SetID   uint64
	SetName string
	// Addr is the address of the node of the last attempt, if a connection failed or a response was invalid.
	Addr string
	// Bound is the highest number to which an advance is accepted at present, if the reason is ADVANCE_TOO_FAR.
	Bound uint64
	// Retryable is whether the same call can succeed later.
	Retryable bool
	// MayHaveApplied is whether numbers may have been consumed although none was returned. It is false for reads.
	MayHaveApplied bool
	// RetryAfter is the time after which the server expects a retry to succeed; 0 if it stated none.
	RetryAfter time.Duration
	// Attempts is the number of times that the request was sent.
	Attempts int

	cause error
	// timedOut is whether an attempt got no response in its time.
	timedOut bool
}

// Error returns the description of the error.
func (e *Error) Error() string {
	text := "seqsvr: "
	if e.HasUID {
		text += fmt.Sprintf("uid %d: ", e.UID)
	}
	text += e.Message
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the error of the connection, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Is returns whether target is the kind of the error, or the error of package context that the kind corresponds to.
func (e *Error) Is(target error) bool {
	switch target {
	case context.DeadlineExceeded:
		return e.Kind == KindDeadline
	case context.Canceled:
		return e.Kind == KindCancelled
	}
	kind, ok := target.(Kind)
	return ok && kind == e.Kind
}

// isUnanswered returns whether the call got neither numbers nor a refusal.
func (e *Error) isUnanswered() bool {
	switch e.Kind {
	case KindUnreachable, KindDeadline, KindBadAnswer, KindClosed, KindCancelled:
		return true
	case KindSetUnavailable:
		return e.RetryAfter == 0
	default:
		return false
	}
}

// asError returns the [Error] in err; nil if there is none.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

func errOutside(uid uint64) *Error {
	return &Error{
		Kind: KindUIDOutside, Reason: ReasonUIDOutside, UID: uid, HasUID: true, Message: "outside every known set",
	}
}

func errCount(uid *uint64, count uint32) *Error {
	e := &Error{
		Kind: KindCount, Reason: ReasonCountOutOfRange, Message: fmt.Sprintf("count %d is not in 1..=%d", count, MaxCount),
	}
	if uid != nil {
		e.UID, e.HasUID = *uid, true
	}
	return e
}

func errBadAnswer(addr, what string) *Error {
	return &Error{
		Kind: KindBadAnswer, Reason: ReasonBadAnswer, Addr: addr, MayHaveApplied: true, Attempts: 1,
		Message: fmt.Sprintf("%s sent an invalid response: %s", addr, what),
	}
}

// errRefusal is a refusal that the client itself makes, without sending a request.
func errRefusal(reason string, code Code, format string, args ...any) *Error {
	return &Error{Kind: KindRefused, Reason: reason, Code: code, Message: fmt.Sprintf(format, args...)}
}

func errConnect(retryable bool, cause error, format string, args ...any) *Error {
	return &Error{
		Kind: KindConnect, Reason: reasonConnect, Retryable: retryable, cause: cause, Message: fmt.Sprintf(format, args...),
	}
}

// Reasons of failures that only SDKs report.
const (
	reasonClosed    = "CLIENT_CLOSED"
	reasonCancelled = "CANCELLED"
	reasonConnect   = "CONNECT"
)

// isRetryable returns whether a refusal can be retried. An unknown reason is judged by its code and hint as well.
func isRetryable(code Code, retryAfter time.Duration) bool {
	return retryAfter > 0 || code == rpc.Unavailable || code == rpc.DeadlineExceeded
}

// isOutcomeUnknown returns whether a refused request may have changed a counter: a node forwarded it and got no
// response, or the refusal does not come from the sequence service itself.
func isOutcomeUnknown(reason string) bool {
	if reason == "" {
		return true
	}
	known, ok := LookupReason(reason)
	return ok && known.OutcomeUnknown
}
