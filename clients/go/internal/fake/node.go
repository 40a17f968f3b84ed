package fake

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/wire"
)

// Node is a server of a set. Its faults can be changed at any time.
type Node struct {
	world *World
	set   int
	id    uint32

	addr     string
	server   *http.Server
	listener net.Listener

	mu sync.Mutex
	// held is closed while the node handles requests, and open while it hangs.
	held     chan struct{}
	refusals []Refusal
	// always is the refusal of every request; nil if there is none.
	always    *Refusal
	cuts      int
	noRoutes  bool
	noStreams bool
	// isolated is whether the node refuses requests for other sets with MOVED.
	isolated bool
	change   func(response wire.Message)
	seen     []Seen
	header   http.Header
	messages int
}

// Refusal is the refusal of a request, or of the items of a batch.
type Refusal struct {
	Reason       string
	Code         uint32
	RetryAfterMS uint32
	Set, Since   wire.Optional
}

// Seen is a request that a node received.
type Seen struct {
	Method string
	UIDs   []uint64
	Keys   []string
	Epochs []uint64
}

func (n *Node) start(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.addr = listener.Addr().String()
	n.serve(listener)
	t.Cleanup(n.Stop)
}

func (n *Node) serve(listener net.Listener) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	n.listener = listener
	n.server = &http.Server{Handler: n, Protocols: protocols}
	go n.server.Serve(listener)
}

// Addr returns the address of the node.
func (n *Node) Addr() string { return n.addr }

// Stop closes the node and its connections at once.
func (n *Node) Stop() { n.server.Close() }

// Restart starts the node at its address again.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	n.serve(listener)
}

// Drain ends the connections of the node in order.
func (n *Node) Drain(ctx context.Context) { _ = n.server.Shutdown(ctx) }

// Hang makes the node hold requests after it has recorded them, or continue.
func (n *Node) Hang(hangs bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.held:
		if hangs {
			n.held = make(chan struct{})
		}
	default:
		if !hangs {
			close(n.held)
		}
	}
}

// Refuse makes the node refuse the next requests.
func (n *Node) Refuse(refusals ...Refusal) {
	n.with(func() { n.refusals = append(n.refusals, refusals...) })
}

// RefuseAll makes the node refuse every request, or none.
func (n *Node) RefuseAll(refusal *Refusal) { n.with(func() { n.always = refusal }) }

// Cut makes the node reset the next requests after it has processed them.
func (n *Node) Cut(requests int) { n.with(func() { n.cuts = requests }) }

// KnowRoutes sets whether the node has routes.
func (n *Node) KnowRoutes(knows bool) { n.with(func() { n.noRoutes = !knows }) }

// KnowStreams sets whether the node implements streams.
func (n *Node) KnowStreams(knows bool) { n.with(func() { n.noStreams = !knows }) }

// Isolate sets whether the node refuses requests for other sets with MOVED instead of forwarding them.
func (n *Node) Isolate(isolated bool) { n.with(func() { n.isolated = isolated }) }

// Change sets a function that changes responses before they are sent.
func (n *Node) Change(change func(response wire.Message)) { n.with(func() { n.change = change }) }

// Seen returns the requests for numbers, reads and ids that the node received.
func (n *Node) Seen() (seen []Seen) {
	n.with(func() { seen = append(seen, n.seen...) })
	return seen
}

// Messages returns the number of messages of streams that the node received.
func (n *Node) Messages() (messages int) {
	n.with(func() { messages = n.messages })
	return messages
}

// Header returns the header of the last request.
func (n *Node) Header() (header http.Header) {
	n.with(func() { header = n.header })
	return header
}

func (n *Node) with(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// see records a request, waits while the node hangs, and returns the refusal that is due.
func (n *Node) see(ctx context.Context, seen Seen) (*Refusal, error) {
	n.mu.Lock()
	n.seen = append(n.seen, seen)
	held := n.held
	n.mu.Unlock()
	select {
	case <-held:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.refusals) == 0 {
		return n.always, nil
	}
	refusal := n.refusals[0]
	n.refusals = n.refusals[1:]
	return &refusal, nil
}

// isCut returns whether the response to a request is to be lost.
func (n *Node) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts--
	return n.cuts >= 0
}

// errUnknown is the error of a method that the node does not implement.
var errUnknown = errors.New("unknown method")

// ServeHTTP serves one gRPC request.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.with(func() { n.header = r.Header.Clone() })
	ctx := r.Context()
	w.Header().Set("Content-Type", "application/grpc")
	method := strings.TrimPrefix(r.URL.Path, "/seqsvr.v1.")
	var noStreams bool
	n.with(func() { noStreams = n.noStreams })
	if method == "SequenceService/NextStream" && !noStreams {
		n.stream(ctx, w, r)
		return
	}
	data, err := rpc.ReadMessage(r.Body, nil)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	response, refusal, err := n.handle(ctx, method, data)
	switch {
	case errors.Is(err, errUnknown):
		end(w, rpc.Unimplemented, err.Error(), nil)
	case err != nil:
		panic(http.ErrAbortHandler)
	case refusal != nil:
		end(w, refusal.Code, "refused: "+refusal.Reason, refusal)
	case n.isCut():
		panic(http.ErrAbortHandler)
	default:
		n.changed(response)
		w.Write(rpc.AppendMessage(nil, response))
		end(w, rpc.OK, "", nil)
	}
}

func (n *Node) changed(response wire.Message) {
	n.mu.Lock()
	change := n.change
	n.mu.Unlock()
	if change != nil {
		change(response)
	}
}

// end ends a response with a status.
func end(w http.ResponseWriter, code uint32, message string, refusal *Refusal) {
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", fmt.Sprint(code))
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", strings.ReplaceAll(message, " ", "%20"))
	if refusal == nil || refusal.Reason == "" {
		return
	}
	info := &wire.ErrorInfo{Reason: refusal.Reason, Domain: "seqsvr"}
	for key, number := range map[string]wire.Optional{"set": refusal.Set, "since": refusal.Since} {
		if number.Present {
			info.Metadata = append(info.Metadata, wire.Entry{Key: key, Value: fmt.Sprint(number.Value)})
		}
	}
	status := &wire.Status{Code: int32(code), Message: message}
	status.Details = append(status.Details, wire.Any{TypeURL: wire.ErrorInfoURL, Value: wire.Append(nil, info)})
	if refusal.RetryAfterMS > 0 {
		delay := time.Duration(refusal.RetryAfterMS) * time.Millisecond
		retry := &wire.RetryInfo{RetryDelay: &wire.Duration{Seconds: int64(delay / time.Second), Nanos: int32(delay % time.Second)}}
		status.Details = append(status.Details, wire.Any{TypeURL: wire.RetryInfoURL, Value: wire.Append(nil, retry)})
	}
	details := base64.RawStdEncoding.EncodeToString(wire.Append(nil, status))
	w.Header().Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", details)
}
