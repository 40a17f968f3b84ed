package pool

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/wire"
)

// timeout of a test's waits. Far longer than they take, so only a hang fails.
const timeout = time.Minute

// server starts a server that responds to every request.
func server(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Write(rpc.AppendMessage(nil, &wire.AdvanceResponse{Epoch: 1}))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})}
	go s.Serve(listener)
	t.Cleanup(func() { s.Close() })
	return listener.Addr().String()
}

func call(t *testing.T, p *Pool, addr string) error {
	t.Helper()
	to, err := p.Target(addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return rpc.Invoke(ctx, to, "SequenceService/Advance", timeout, &wire.AdvanceRequest{}, new(wire.AdvanceResponse))
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestConnectionsAreUsedInRotationAndSharedByRequests(t *testing.T) {
	var opened, closed atomic.Int32
	p := New(Settings{
		Connections: 3,
		Opened:      func(string) { opened.Add(1) },
		Closed:      func(string, error) { closed.Add(1) },
	})
	defer p.Close()
	addr := server(t)
	var running sync.WaitGroup
	for range 60 {
		running.Add(1)
		go func() {
			defer running.Done()
			if err := call(t, p, addr); err != nil {
				t.Error(err)
			}
		}()
	}
	running.Wait()
	// The transport of a line may dial once more before it shares the first connection.
	if got := opened.Load(); got < 3 || got > 6 || p.Len() > 3 {
		t.Errorf("%d connections were opened, %d are open", got, p.Len())
	}
	p.Retain(func(string) bool { return false })
	ended := func() bool { return closed.Load() == opened.Load() && p.Len() == 0 }
	eventually(t, "the connections of a dropped address end", ended)
}

// gatedConn is a connection whose writes wait, the preface of HTTP/2 first.
type gatedConn struct {
	net.Conn
	gate <-chan struct{}
}

func (c gatedConn) Write(p []byte) (int, error) {
	<-c.gate
	return c.Conn.Write(p)
}

func TestRequestsWaitForAConnectionThatIsNotSharedYet(t *testing.T) {
	var opened atomic.Int32
	gate := make(chan struct{})
	p := New(Settings{
		Connections: 1,
		Opened:      func(string) { opened.Add(1) },
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return gatedConn{conn, gate}, err
		},
	})
	defer p.Close()
	addr := server(t)
	to, err := p.Target(addr)
	if err != nil {
		t.Fatal(err)
	}
	const callers = 20
	ended := make(chan error, callers)
	go func() { ended <- call(t, p, addr) }()
	eventually(t, "the first caller has dialled", func() bool { return opened.Load() == 1 })
	for range callers - 1 {
		go func() { ended <- call(t, p, addr) }()
	}
	line := to.Transport.(*line)
	eventually(t, "all callers wait", func() bool { return len(line.requests) == callers })
	close(gate)
	for range callers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	// The transport may dial once more before it shares the first connection.
	if got := opened.Load(); got > 2 {
		t.Errorf("%d connections were opened for %d callers", got, callers)
	}
	if !line.hasSharedConnection() {
		t.Error("requests still take turns")
	}
}

func TestRequestsShareTheFailureOfADial(t *testing.T) {
	var dials atomic.Int32
	dialing := make(chan struct{})
	p := New(Settings{Connections: 1, Dial: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		<-dialing
		return nil, errors.New("nobody is there")
	}})
	defer p.Close()
	to, err := p.Target("a:1")
	if err != nil {
		t.Fatal(err)
	}
	line := to.Transport.(*line)
	const callers = 20
	failures := make(chan error, callers)
	for range callers {
		go func() { failures <- call(t, p, "a:1") }()
	}
	eventually(t, "all callers wait", func() bool { return len(line.requests) == callers })
	close(dialing)
	for range callers {
		err := <-failures
		var e *rpc.TransportError
		if !errors.As(err, &e) || e.Sent || !strings.Contains(err.Error(), "nobody is there") {
			t.Errorf("%v", err)
		}
	}
	// A caller that began to wait after the first dial had failed may dial again.
	if got := dials.Load(); got > 3 {
		t.Errorf("%d dials for %d callers", got, callers)
	}
}

func TestAContextThatEndsIsNoFailureOfOthers(t *testing.T) {
	addr := server(t)
	entered := make(chan struct{}, 1)
	p := New(Settings{Connections: 1, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		select {
		case entered <- struct{}{}:
			<-ctx.Done()
			return nil, ctx.Err()
		default:
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}})
	defer p.Close()
	to, _ := p.Target(addr)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() {
		first <- rpc.Invoke(ctx, to, "SequenceService/Advance", timeout, &wire.AdvanceRequest{}, new(wire.AdvanceResponse))
	}()
	eventually(t, "the first caller dials", func() bool { return len(entered) == 1 })
	second := make(chan error, 1)
	go func() { second <- call(t, p, addr) }()
	eventually(t, "the second caller waits", func() bool { return len(to.Transport.(*line).requests) == 2 })
	cancel()
	if err := <-first; err == nil {
		t.Error("a cancelled request succeeded")
	}
	if err := <-second; err != nil {
		t.Errorf("the second caller failed: %v", err)
	}
}

func TestASuspectAddressRecovers(t *testing.T) {
	suspected := 0
	p := New(Settings{Suspected: func(string, error) { suspected++ }})
	defer p.Close()
	if p.Suspect("a:1", nil); p.IsSuspect("a:1") {
		t.Error("an unknown address is suspect")
	}
	if _, err := p.Target("a:1"); err != nil || p.IsSuspect("a:1") {
		t.Errorf("a new address is suspect, or %v", err)
	}
	p.Suspect("a:1", nil)
	p.Suspect("a:1", nil)
	if !p.IsSuspect("a:1") || suspected != 1 {
		t.Errorf("suspect: %v, reported %d times", p.IsSuspect("a:1"), suspected)
	}
	eventually(t, "the address recovers", func() bool { return !p.IsSuspect("a:1") })
}

func TestBadAddressesAreRefused(t *testing.T) {
	p := New(Settings{})
	defer p.Close()
	for _, addr := range []string{
		"", "host", "host:", ":1", "host:0", "host:65536", "host:1/x", "a@host:1", "host:1?x", "h h:1", "host:-1", "host:+1",
		strings.Repeat("a", 300) + ":1",
	} {
		if _, err := p.Target(addr); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{"[::1]:7100", "node-2:7100", "127.0.0.1:1"} {
		if _, err := p.Target(addr); err != nil {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

func TestThePoolIsBounded(t *testing.T) {
	p := New(Settings{Connections: 1})
	defer p.Close()
	for port := 1; port <= MaxAddresses; port++ {
		if _, err := p.Target(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Target("127.0.0.2:1"); err == nil {
		t.Error("a pool that is full accepts another address")
	}
	if _, err := p.Target("127.0.0.1:1"); err != nil {
		t.Error(err)
	}
}

func TestAClosedPoolHasNoConnections(t *testing.T) {
	p := New(Settings{Connections: 2})
	addr := server(t)
	for range 2 {
		if err := call(t, p, addr); err != nil {
			t.Fatal(err)
		}
	}
	to, _ := p.Target(addr)
	p.Close()
	p.Close()
	if p.Len() != 0 {
		t.Errorf("%d connections", p.Len())
	}
	if err := call(t, p, addr); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := rpc.Invoke(ctx, to, "SequenceService/Advance", timeout, &wire.AdvanceRequest{}, new(wire.AdvanceResponse))
	if !errors.Is(err, ErrClosed) {
		t.Errorf("a request on a connection from before: %v", err)
	}
}
