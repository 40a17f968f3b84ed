package seqsvr

import (
	"context"
	"errors"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
)

// Names of metrics and attributes. They are equal in all clients of the service, and follow the form of OpenTelemetry.
// No attribute has a uid or a token.
const (
	// MetricCalls counts calls, with the attributes method, outcome and reason.
	MetricCalls = "seqsvr.client.calls"
	// MetricAttempts counts requests, with the attributes method, outcome and reason.
	MetricAttempts = "seqsvr.client.attempts"
	// MetricRetries counts retries, with the attributes method and reason.
	MetricRetries = "seqsvr.client.retries"
	// MetricLost counts attempts with unknown outcome, each of which may have skipped numbers.
	MetricLost = "seqsvr.client.lost"
	// MetricDuration is the duration of calls in seconds.
	MetricDuration = "seqsvr.client.duration"

	// AttrMethod is the method of a call, e.g. Next.
	AttrMethod = "seqsvr.method"
	// AttrOutcome is ok, or the [Kind] of the error.
	AttrOutcome = "seqsvr.outcome"
	// AttrReason is the reason of the error, e.g. UNSERVED.
	AttrReason = "seqsvr.reason"
	// AttrSet is the name of a set.
	AttrSet = "seqsvr.set"
	// AttrAddr is the address of a node.
	AttrAddr = "server.address"
)

// Observer has functions that the client calls at events, for metrics and traces. Each function may be nil. They are
// called in the goroutine of the event, concurrently, and must not block.
//
// CallStart and AttemptStart return a context, in which a tracer keeps its span. The README has an adapter to
// OpenTelemetry.
type Observer struct {
	// CallStart is called when a call begins. The context that it returns is passed to the other functions.
	CallStart func(ctx context.Context, call CallInfo) context.Context
	// CallEnd is called when a call ends.
	CallEnd func(ctx context.Context, call CallInfo, end CallEnd)
	// AttemptStart is called before a request is sent. Calls of Next that share a stream are attempts of their own.
	AttemptStart func(ctx context.Context, attempt AttemptInfo) context.Context
	// AttemptEnd is called when a request has ended.
	AttemptEnd func(ctx context.Context, attempt AttemptInfo, end AttemptEnd)
	// Retry is called before the wait for a retry.
	Retry func(ctx context.Context, retry RetryInfo)
	// BudgetRefused is called when a call fails because the retry budget of a set is exhausted.
	BudgetRefused func(ctx context.Context, set string)
	// RoutesAdopted is called when newer routes of a set were adopted.
	RoutesAdopted func(set string, version uint64)
	// ConnectionOpened is called when a connection was made.
	ConnectionOpened func(addr string)
	// ConnectionClosed is called when a connection has ended. err is nil if it was closed in order.
	ConnectionClosed func(addr string, err error)
}

// CallInfo describes a call.
type CallInfo struct {
	// Method is the name of the client's method, e.g. Next, NextMany, Current or Series.Next.
	Method string
	// Items is the number of items of a batch, otherwise 1.
	Items int
}

// CallEnd describes the end of a call.
type CallEnd struct {
	Duration time.Duration
	// Attempts is the number of requests that were sent for the first item.
	Attempts int
	// Lost is the number of attempts with unknown outcome.
	Lost int
	// Err is nil if the call succeeded. Items of a batch have errors of their own.
	Err error
}

// AttemptInfo describes an attempt.
type AttemptInfo struct {
	Method string
	// Addr is the address of the node.
	Addr string
	// Set is the name of the set of the section.
	Set string
	// Number of the attempt in its call, from 1.
	Number int
	// Streamed is whether the attempt is part of a message that it shares with other calls.
	Streamed bool
}

// AttemptEnd describes the end of an attempt.
type AttemptEnd struct {
	Duration time.Duration
	// Err is nil if a response arrived. The items of a response have errors of their own.
	Err error
}

// RetryInfo describes a retry.
type RetryInfo struct {
	Method string
	// Reason of the failure that is retried.
	Reason string
	// Wait is the backoff before the retry.
	Wait time.Duration
}

// Outcome returns the values of [AttrOutcome] and [AttrReason] for the error of a call or an attempt: ok and nothing for
// nil.
func Outcome(err error) (outcome, reason string) {
	var status *rpc.Status
	if err == nil {
		return "ok", ""
	}
	if e := asError(err); e != nil {
		return string(e.Kind), e.Reason
	}
	if errors.As(err, &status) {
		if status.Reason == "" {
			return string(KindRefused), ReasonRefusedByOthers
		}
		return string(KindRefused), status.Reason
	}
	return string(KindUnreachable), ReasonUnreachable
}

// Stats are counts of a client since it was opened.
type Stats struct {
	// Calls and Attempts are the numbers of calls and of requests for them. Calls that share a message count one attempt
	// each.
	Calls, Attempts uint64
	// Retries is the number of retries, and BudgetRefused that of calls that the retry budget did not let retry.
	Retries, BudgetRefused uint64
	// Messages is the number of messages with coalesced calls.
	Messages uint64
	// RouteAdoptions is the number of times that newer routes were adopted.
	RouteAdoptions uint64
	// Connections is the number of open connections.
	Connections int
	// Pending is the number of calls in streams, pending and in flight.
	Pending int
}
