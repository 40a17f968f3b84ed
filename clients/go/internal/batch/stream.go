package batch

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"seqsvr.example/clients/go/internal/pool"
	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/wire"
)

// stream is one NextStream. It is also the body of its request: net/http reads the next message when the connection can
// send it. So the flow control of HTTP/2 limits the rate of messages, and calls stay pending until then.
type stream struct {
	b      *Batcher
	cancel context.CancelFunc
	// wake has an element if calls are pending or the stream has ended since the last read.
	wake chan struct{}
	// responded is whether the stream has delivered a response. It is guarded by the lock of the batcher.
	responded bool

	// The fields below belong to the reader of the body.
	request wire.NextStreamRequest
	message []byte
	rest    []byte

	closeOnce sync.Once
	closed    chan struct{}
}

// open starts a stream. The caller holds the lock.
func (b *Batcher) open() {
	ctx, cancel := context.WithCancel(b.done)
	s := &stream{
		b: b, cancel: cancel,
		wake:    make(chan struct{}, 1),
		request: wire.NextStreamRequest{Request: new(wire.NextManyRequest)},
		closed:  make(chan struct{}),
	}
	b.stream = s
	if !b.tasks.Go(func() { s.run(ctx) }) {
		cancel()
		b.stream = nil
		deliver(b.pending, Outcome{Err: pool.ErrClosed})
		b.pending = nil
	}
}

func (s *stream) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Read returns bytes of the messages. It waits for pending calls.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		s.b.mu.Lock()
		current, ready := s.b.stream == s, false
		if current {
			ready = s.b.nextMessage(&s.request)
		}
		isIdle := s.b.retired && len(s.b.inFlight) == 0 && !ready
		s.b.mu.Unlock()
		if !current || isIdle {
			return 0, io.EOF
		}
		if ready {
			s.message = rpc.AppendMessage(s.message[:0], &s.request)
			s.rest = s.message
			break
		}
		select {
		case <-s.wake:
			// Calls of other goroutines that are ready to run are added to the same message.
			runtime.Gosched()
		case <-s.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the body. net/http calls it when the request has ended.
func (s *stream) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	return nil
}

// ending is the end of a stream.
type ending struct {
	err error
	// sent is whether the node may have processed messages without a response.
	sent bool
	// keeps is whether pending calls may be sent in a further stream to the node, if this one delivered a response.
	keeps bool
	// unsupported is whether the node does not implement streams.
	unsupported bool
}

// run serves the stream until it ends.
func (s *stream) run(ctx context.Context) {
	defer s.cancel()
	end := s.serve(ctx)
	_ = s.Close()

	b := s.b
	b.mu.Lock()
	b.stream = nil
	var failed, unsent []*Call
	for _, calls := range b.inFlight {
		failed = append(failed, calls...)
	}
	b.inFlight = map[uint64][]*Call{}
	if end.unsupported {
		b.unsupportedUntil = time.Now().Add(unsupportedFor)
	}
	if !end.keeps || !s.responded {
		// The callers may be able to reach another node.
		unsent, b.pending = b.pending, nil
	}
	if len(b.pending) > 0 {
		b.open()
	}
	deliver(failed, Outcome{Err: end.errIf(!end.unsupported), Sent: end.sent, Unsupported: end.unsupported})
	deliver(unsent, Outcome{Err: end.errIf(!end.unsupported), Unsupported: end.unsupported})
	b.mu.Unlock()
}

func (e ending) errIf(failed bool) error {
	if failed {
		return e.err
	}
	return nil
}

// serve opens the stream and completes calls with its responses.
func (s *stream) serve(ctx context.Context) ending {
	to, err := s.b.target()
	if err != nil {
		return ending{err: err}
	}
	opened, err := rpc.Open(ctx, to, "SequenceService/NextStream", s)
	if err != nil {
		return endOf(err)
	}
	defer opened.Close()
	for {
		// The outcomes refer to the response, so each one is decoded into memory of its own.
		response := new(wire.NextStreamResponse)
		if err := opened.Recv(response); errors.Is(err, io.EOF) {
			// A node that ends the stream has responded to every message that it processed.
			return ending{err: errors.New("the node ended the stream")}
		} else if err != nil {
			return endOf(err)
		}
		if !s.take(response) {
			return ending{err: errors.New("a response to a message that is not in flight"), sent: true}
		}
	}
}

// take completes the calls of the message with this response; false if no such message is in flight.
func (s *stream) take(response *wire.NextStreamResponse) bool {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	calls, ok := b.inFlight[response.Tag]
	if !ok {
		return false
	}
	delete(b.inFlight, response.Tag)
	s.responded = true
	if len(b.pending) > 0 || b.retired {
		s.notify()
	}
	complete(calls, response)
	return true
}

// endOf converts the error with which a stream ended.
func endOf(err error) ending {
	var transport *rpc.TransportError
	if errors.As(err, &transport) {
		return ending{err: err, sent: transport.Sent, keeps: transport.Sent}
	}
	var status *rpc.Status
	if !errors.As(err, &status) {
		return ending{err: err, sent: true}
	}
	switch {
	case status.Code == rpc.Unimplemented && status.HTTP == 0 && status.Reason == "":
		return ending{unsupported: true}
	case status.Reason == "" && isOfStream(status.Code):
		// The status concerns the stream as a whole, not its calls.
		err = &rpc.TransportError{Err: errors.New(status.Error()), Sent: true}
	}
	return ending{err: err, sent: true, keeps: true}
}

func isOfStream(code uint32) bool {
	return code == rpc.Cancelled || code == rpc.DeadlineExceeded || code == rpc.Unknown || code == rpc.Internal
}
