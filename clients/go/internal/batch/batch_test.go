package batch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/tasks"
	"seqsvr.example/clients/go/internal/wire"
)

// timeout of a test's waits. Far longer than they take, so only a hang fails.
const timeout = time.Minute

// node is the other end of streams. It has no connection: it reads the body of the request.
type node struct {
	t        *testing.T
	requests chan *wire.NextStreamRequest
	// ended receives the end of each body.
	ended     chan error
	responses *io.PipeWriter
	trailer   http.Header
	streams   atomic.Int32
}

func newNode(t *testing.T) (*node, *Batcher, *atomic.Uint64) {
	t.Helper()
	n := &node{t: t, requests: make(chan *wire.NextStreamRequest, 1000), ended: make(chan error, 10)}
	ctx, cancel := context.WithCancel(context.Background())
	group, messages := new(tasks.Group), new(atomic.Uint64)
	t.Cleanup(func() {
		cancel()
		group.Close()
	})
	target := func() (rpc.Target, error) { return rpc.Target{Scheme: "http", Addr: "a:1", Transport: n}, nil }
	return n, New(ctx, group, messages, "a:1", target), messages
}

func (n *node) RoundTrip(req *http.Request) (*http.Response, error) {
	n.streams.Add(1)
	body, responses := io.Pipe()
	n.responses, n.trailer = responses, http.Header{}
	go func() {
		for {
			data, err := rpc.ReadMessage(req.Body, nil)
			if err != nil {
				n.ended <- err
				return
			}
			request := new(wire.NextStreamRequest)
			if err := wire.Decode(data, request); err != nil {
				n.t.Error(err)
			}
			n.requests <- request
		}
	}()
	context.AfterFunc(req.Context(), func() {
		req.Body.Close()
		responses.CloseWithError(req.Context().Err())
	})
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"application/grpc"}}, Body: body, Trailer: n.trailer,
	}, nil
}

// respond responds to a message with the values of its uids.
func (n *node) respond(request *wire.NextStreamRequest) {
	n.t.Helper()
	many := &wire.NextManyResponse{
		Values: request.Request.UIDs, Prevs: make([]uint64, len(request.Request.UIDs)),
		Epochs: make([]uint64, len(request.Request.UIDs)),
	}
	response := rpc.AppendMessage(nil, &wire.NextStreamResponse{Tag: request.Tag, Response: many})
	if _, err := n.responses.Write(response); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) request() *wire.NextStreamRequest {
	n.t.Helper()
	select {
	case request := <-n.requests:
		return request
	case <-time.After(timeout):
		n.t.Fatal("no message")
		return nil
	}
}

// send makes a call in a goroutine.
func send(b *Batcher, uid uint64, cancelled <-chan struct{}) <-chan Outcome {
	outcome := make(chan Outcome, 1)
	go func() {
		call := &Call{UID: uid, Count: 1, Deadline: time.Now().Add(timeout)}
		outcome <- b.Send(call, cancelled, nil, nil)
	}()
	return outcome
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (b *Batcher) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.pending)
}

func TestMessagesInFlightAndItemsOfAMessageAreBounded(t *testing.T) {
	n, b, messages := newNode(t)
	var outcomes []<-chan Outcome
	first := make([]*wire.NextStreamRequest, 0, maxInFlight)
	for uid := range uint64(maxInFlight) {
		outcomes = append(outcomes, send(b, uid+1, nil))
		first = append(first, n.request())
	}
	const more = 2*maxItems + 5
	for uid := range uint64(more) {
		outcomes = append(outcomes, send(b, uid+1, nil))
	}
	eventually(t, "further calls are pending", func() bool { return b.waiting() == more })
	if got := messages.Load(); got != maxInFlight || len(n.requests) != 0 || b.Pending() != maxInFlight+more {
		t.Errorf("%d messages, %d calls", got, b.Pending())
	}
	for _, request := range first {
		n.respond(request)
	}
	for _, items := range []int{maxItems, maxItems, 5} {
		request := n.request()
		if got := len(request.Request.UIDs); got != items || !request.NowOnly || request.TimeoutMS == 0 || request.TimeoutMS > 10_000 {
			t.Errorf("%d items, %+v", got, request)
		}
		n.respond(request)
	}
	for _, outcome := range outcomes {
		if got := <-outcome; got.Value == 0 || got.Err != nil {
			t.Fatalf("%+v", got)
		}
	}
	if b.Pending() != 0 || n.streams.Load() != 1 {
		t.Errorf("%d calls, %d streams", b.Pending(), n.streams.Load())
	}
}

func TestAnAbandonedCallIsNotSent(t *testing.T) {
	n, b, _ := newNode(t)
	cancelled := make(chan struct{})
	sent := send(b, 1, cancelled)
	held := []*wire.NextStreamRequest{n.request()}
	var others []<-chan Outcome
	for uid := range uint64(maxInFlight - 1) {
		others = append(others, send(b, 100+uid, nil))
		held = append(held, n.request())
	}
	unsent, last := send(b, 2, cancelled), send(b, 3, nil)
	eventually(t, "two calls are pending", func() bool { return b.waiting() == 2 })
	close(cancelled)
	if got := <-sent; !errors.Is(got.Err, ErrAbandoned) || !got.Sent {
		t.Errorf("%+v", got)
	}
	if got := <-unsent; !errors.Is(got.Err, ErrAbandoned) || got.Sent {
		t.Errorf("%+v", got)
	}
	for _, request := range held {
		n.respond(request)
	}
	request := n.request()
	if len(request.Request.UIDs) != 1 || request.Request.UIDs[0] != 3 {
		t.Errorf("%+v", request.Request)
	}
	n.respond(request)
	for _, outcome := range append(others, last) {
		if got := <-outcome; got.Err != nil {
			t.Errorf("%+v", got)
		}
	}
}

func TestPendingCallsGoIntoTheNextStreamOnlyIfTheNodeResponded(t *testing.T) {
	for _, responded := range []bool{true, false} {
		n, b, _ := newNode(t)
		if responded {
			one := send(b, 1, nil)
			n.respond(n.request())
			<-one
		}
		var sent []<-chan Outcome
		for uid := range uint64(maxInFlight) {
			sent = append(sent, send(b, uid+1, nil))
			n.request()
		}
		pending := send(b, 7, nil)
		eventually(t, "a call is pending", func() bool { return b.waiting() == 1 })
		n.responses.CloseWithError(errors.New("broken"))
		for _, outcome := range sent {
			if got := <-outcome; got.Err == nil || !got.Sent {
				t.Fatalf("%+v", got)
			}
		}
		if responded {
			n.respond(n.request())
		}
		if got := <-pending; (got.Err == nil) != responded || got.Sent {
			t.Errorf("responded %v: %+v", responded, got)
		}
	}
}

func TestAStreamThatTheNodeEndsInOrderLosesNothing(t *testing.T) {
	n, b, _ := newNode(t)
	outcome := send(b, 1, nil)
	n.request()
	n.trailer.Set("Grpc-Status", "0")
	n.responses.Close()
	if got := <-outcome; got.Err == nil || got.Sent {
		t.Errorf("%+v", got)
	}
}

func TestARetiredBatcherEndsItsStreamAfterItsCalls(t *testing.T) {
	n, b, _ := newNode(t)
	outcome := send(b, 1, nil)
	request := n.request()
	b.Retire()
	n.respond(request)
	if got := <-outcome; got.Err != nil {
		t.Errorf("%+v", got)
	}
	select {
	case err := <-n.ended:
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	case <-time.After(timeout):
		t.Error("the stream does not end")
	}
}
