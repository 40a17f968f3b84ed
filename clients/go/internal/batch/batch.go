// Package batch coalesces calls for numbers: concurrent calls to a node share the messages of one NextStream.
//
// Processing a message takes a hundred times as long as the allocation of a number. But no call is delayed to fill a
// message: a call is sent at once if the connection is free, and calls that arrive while a message is being written are
// sent together in the next one. Several messages are in flight.
//
// No call waits for another one either. Messages set now_only, so the node refuses an item with WOULD_WAIT if the item
// would have to wait there, or if another node owns its section. The caller then sends it in a unary request.
//
// Invariant: a call gets exactly one outcome, unless its caller abandoned it. A call that was in a message never becomes
// pending again, so a call is sent at most once.
package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/tasks"
	"seqsvr.example/clients/go/internal/wire"
)

// Limits of a batcher.
const (
	// maxPending is the limit on the calls of a batcher, pending and in flight. Further calls wait to their deadlines.
	maxPending = 65536
	// maxItems is the limit on the calls in a message, so that the response to the first one does not wait long for the
	// last one.
	maxItems = 1024
	// maxInFlight is the limit on the messages in flight, half of that of a node.
	maxInFlight = 256
	// maxTimeout is the longest timeout of a message that a node accepts.
	maxTimeout = 10 * time.Second
	// unsupportedFor is the time until the next attempt to open a stream to a node that does not implement streams. Only
	// a restart of the node can change that.
	unsupportedFor = time.Minute
)

// Outcome is the outcome of a call. Exactly one of its fields is set, apart from Routes and Sent.
type Outcome struct {
	// Value, Prev, Epoch and Lost are the numbers that the node allocated, if Value is not 0.
	Value, Prev, Epoch uint64
	Lost               uint32
	// Routes are newer routes. Only one call of a message gets them.
	Routes *wire.Routes
	// Refused is the refusal of the item.
	Refused *wire.ItemError
	// Err is the error with which the stream ended before it delivered a response.
	Err error
	// Sent is whether the node may have processed the call, if Err is set.
	Sent bool
	// Invalid describes a response that violates the protocol.
	Invalid string
	// Unsupported is whether the node does not implement streams.
	Unsupported bool
}

// Call is a call for numbers of one uid.
type Call struct {
	UID   uint64
	Count uint32
	// Epoch is the newest epoch of the section that the caller knows.
	Epoch uint64
	// RouteVersion is the version of the caller's routes.
	RouteVersion wire.Optional
	// Deadline is the time at which the caller stops to wait.
	Deadline time.Time

	outcome chan Outcome
	// state is guarded by the lock of the batcher.
	state state
}

type state uint8

const (
	pending state = iota
	inFlight
	abandoned
)

// ErrAbandoned is the error of a call whose caller stopped to wait.
var ErrAbandoned = errors.New("the caller stopped to wait")

// Batcher has the calls to one node and the stream in which they are sent.
type Batcher struct {
	addr    string
	target  func() (rpc.Target, error)
	permits chan struct{}
	// done ends the streams of the batcher.
	done context.Context
	// tasks has the goroutines of streams, and messages counts the messages of all batchers.
	tasks    *tasks.Group
	messages *atomic.Uint64

	mu       sync.Mutex
	pending  []*Call
	inFlight map[uint64][]*Call
	nextTag  uint64
	// stream is the open stream, or the one that is being opened; nil if there is none.
	stream           *stream
	unsupportedUntil time.Time
	retired          bool
}

// New returns a batcher for the node at addr. target returns the connection for a new stream. The streams end with done.
// tasks has their goroutines, and messages counts their messages.
func New(
	done context.Context, tasks *tasks.Group, messages *atomic.Uint64, addr string, target func() (rpc.Target, error),
) *Batcher {
	return &Batcher{
		addr: addr, target: target, done: done, tasks: tasks, messages: messages,
		permits:  make(chan struct{}, maxPending),
		inFlight: map[uint64][]*Call{},
	}
}

// Addr returns the node's address.
func (b *Batcher) Addr() string { return b.addr }

// Pending returns the number of calls whose callers wait.
func (b *Batcher) Pending() int { return len(b.permits) }

// Send enqueues a call and waits for its outcome, until one of the channels is readable. In that case the error of the
// outcome is ErrAbandoned.
func (b *Batcher) Send(call *Call, cancelled, closed <-chan struct{}, timeout <-chan time.Time) Outcome {
	select {
	case b.permits <- struct{}{}:
	default:
		select {
		case b.permits <- struct{}{}:
		case <-cancelled:
			return Outcome{Err: ErrAbandoned}
		case <-closed:
			return Outcome{Err: ErrAbandoned}
		case <-timeout:
			return Outcome{Err: ErrAbandoned}
		}
	}
	defer func() { <-b.permits }()
	call.outcome = make(chan Outcome, 1)
	if !b.enqueue(call) {
		return Outcome{Unsupported: true}
	}
	select {
	case outcome := <-call.outcome:
		return outcome
	case <-cancelled:
	case <-closed:
	case <-timeout:
	}
	return b.abandon(call)
}

// enqueue adds a pending call, and opens a stream if there is none. It returns false if the node does not implement
// streams.
func (b *Batcher) enqueue(call *Call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.unsupportedUntil.IsZero() && time.Now().Before(b.unsupportedUntil) {
		return false
	}
	if len(b.pending) >= 2*maxPending {
		// The permits limit the calls whose callers wait to half of this number. The others were abandoned.
		b.dropAbandoned()
	}
	b.pending = append(b.pending, call)
	if b.stream == nil {
		b.open()
	} else {
		b.stream.notify()
	}
	return true
}

func (b *Batcher) dropAbandoned() {
	kept := b.pending[:0]
	for _, call := range b.pending {
		if call.state == pending {
			kept = append(kept, call)
		}
	}
	clear(b.pending[len(kept):])
	b.pending = kept
}

// abandon ends the wait of a caller. The outcome may have arrived at the same time.
func (b *Batcher) abandon(call *Call) Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case outcome := <-call.outcome:
		return outcome
	default:
	}
	sent := call.state == inFlight
	call.state = abandoned
	return Outcome{Err: ErrAbandoned, Sent: sent}
}

// Retire closes the stream once no call uses it, because the node is no longer in the routes.
func (b *Batcher) Retire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
	if b.stream != nil {
		b.stream.notify()
	}
}

// nextMessage builds the next message from pending calls; false if there is none to send now.
func (b *Batcher) nextMessage(request *wire.NextStreamRequest) bool {
	if len(b.inFlight) >= maxInFlight {
		return false
	}
	many := request.Request
	many.UIDs, many.Counts, many.KnownEpochs = many.UIDs[:0], many.Counts[:0], many.KnownEpochs[:0]
	many.RouteVersion = wire.Optional{}
	var calls []*Call
	var deadline time.Time
	hasCounts, hasEpochs, taken := false, false, 0
	for _, call := range b.pending {
		if len(calls) == maxItems {
			break
		}
		taken++
		if call.state != pending {
			continue
		}
		call.state = inFlight
		calls = append(calls, call)
		many.UIDs = append(many.UIDs, call.UID)
		many.Counts = append(many.Counts, call.Count)
		many.KnownEpochs = append(many.KnownEpochs, call.Epoch)
		hasCounts, hasEpochs = hasCounts || call.Count != 1, hasEpochs || call.Epoch != 0
		if call.RouteVersion.Present && (!many.RouteVersion.Present || call.RouteVersion.Value < many.RouteVersion.Value) {
			// The oldest version of any caller's routes; 0 asks for the whole table.
			many.RouteVersion = call.RouteVersion
		}
		if call.Deadline.After(deadline) {
			deadline = call.Deadline
		}
	}
	b.pending = b.pending[:copy(b.pending, b.pending[taken:])]
	clear(b.pending[len(b.pending) : len(b.pending)+taken])
	if len(calls) == 0 {
		return false
	}
	if !hasCounts {
		many.Counts = many.Counts[:0]
	}
	if !hasEpochs {
		many.KnownEpochs = many.KnownEpochs[:0]
	}
	request.Tag = b.nextTag
	b.nextTag++
	left := min(max(time.Until(deadline), time.Millisecond), maxTimeout)
	request.TimeoutMS, request.NowOnly = uint32(left.Milliseconds()), true
	b.inFlight[request.Tag] = calls
	b.messages.Add(1)
	return true
}

// complete sends the outcomes of a message to its callers.
func complete(calls []*Call, response *wire.NextStreamResponse) {
	switch {
	case response.Refusal != nil:
		deliver(calls, Outcome{Refused: response.Refusal})
	case response.Response == nil:
		deliver(calls, Outcome{Invalid: "neither a response nor a refusal"})
	default:
		many := response.Response
		if what := invalid(many, len(calls)); what != "" {
			deliver(calls, Outcome{Invalid: what})
			return
		}
		refused, lost := many.Errors, 0
		for i, call := range calls {
			outcome := Outcome{Routes: many.Routes}
			many.Routes = nil
			if len(refused) > 0 && int(refused[0].Index) == i {
				outcome.Refused, refused = &refused[0], refused[1:]
			} else {
				outcome.Value, outcome.Prev, outcome.Epoch = many.Values[i], many.Prevs[i], many.Epochs[i]
				if outcome.Value == 0 {
					outcome.Invalid = "numbers that do not follow each other"
				}
			}
			if many.Lost != nil && lost < len(many.Lost.Indexes) && int(many.Lost.Indexes[lost]) == i {
				outcome.Lost = many.Lost.Attempts[lost]
				lost++
			}
			call.outcome <- outcome
		}
	}
}

// deliver sends the same outcome to several callers. A caller that has left does not read it.
func deliver(calls []*Call, outcome Outcome) {
	for _, call := range calls {
		call.outcome <- outcome
	}
}

// invalid describes how a response to a message with so many items violates the protocol; empty if it does not.
func invalid(many *wire.NextManyResponse, items int) string {
	if len(many.Values) != items || len(many.Prevs) != items || len(many.Epochs) != items {
		return "lists of other lengths than the request's"
	}
	last := -1
	for i := range many.Errors {
		index := int(many.Errors[i].Index)
		if index >= items {
			return "an error of an item that was not sent"
		}
		if index <= last {
			return "errors that are not in order of index"
		}
		last = index
	}
	if many.Lost == nil {
		return ""
	}
	last = -1
	for _, index := range many.Lost.Indexes {
		if int(index) <= last || len(many.Lost.Attempts) != len(many.Lost.Indexes) {
			return "lost attempts that are not in order of index"
		}
		last = int(index)
	}
	return ""
}
