package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// line is one of the connections to a node: an http.Transport of its own, so that no request moves to another one.
//
// Invariant: while the line has no connection, one request dials and the others wait for its result. Otherwise each
// request that waits when a connection breaks would dial a connection of its own. The transport shares a new connection
// only some time after the dial, perhaps even after the request that dialled has sent its headers. So the others follow
// one by one until the transport has given the connection to one of them; a request that is too early dials once more.
type line struct {
	pool      *Pool
	addr      string
	transport *http.Transport

	// requests has an element for each request in flight.
	requests chan struct{}
	retired  atomic.Bool

	// dialing is held by the request that dials, and then by one request after the other until shared is set. Each holds
	// it until it has sent its headers or has failed.
	dialing chan struct{}
	open    atomic.Int32
	// shared is whether the transport has given an open connection to a second request.
	shared atomic.Bool
	mu     sync.Mutex
	// dials counts the dials that have ended, and lastErr is the error of the last one. Both are guarded by mu.
	dials   uint64
	lastErr error
	// lost is whether the last connection of the line broke, so that the next dial is jittered. It is guarded by mu.
	lost bool
}

func newLine(pool *Pool, addr string) *line {
	l := &line{
		pool: pool, addr: addr,
		requests: make(chan struct{}, maxRequests),
		dialing:  make(chan struct{}, 1),
	}
	protocols := new(http.Protocols)
	config := &http.HTTP2Config{
		SendPingTimeout: pingInterval,
		PingTimeout:     pingTimeout,
		// A peer that does not read is found by this limit, if a ping cannot even be written.
		WriteByteTimeout: pingInterval + pingTimeout,
	}
	waitForSlots(config)
	l.transport = &http.Transport{Protocols: protocols, HTTP2: config, DisableCompression: true}
	if pool.settings.TLS == nil {
		protocols.SetUnencryptedHTTP2(true)
		l.transport.DialContext = l.dial
	} else {
		protocols.SetHTTP2(true)
		l.transport.DialTLSContext = l.dialTLS
	}
	return l
}

// RoundTrip sends a request. An error without a call of the hook WroteHeaders means that nothing was sent.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	select {
	case l.requests <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	release := sync.OnceFunc(l.release)
	connected, err := l.awaitConnection(ctx)
	if err != nil {
		release()
		return nil, err
	}
	if connected != nil {
		trace := &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) {
				if info.Reused {
					l.shared.Store(true)
				}
			},
			WroteHeaders: func() { connected(nil) },
		}
		req = req.WithContext(httptrace.WithClientTrace(ctx, trace))
	}
	resp, err := l.transport.RoundTrip(req)
	if connected != nil {
		connected(err)
	}
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &releasingBody{resp.Body, release}
	return resp, nil
}

// awaitConnection waits until the line has a connection that is shared, or until it is the caller's turn: to make the
// connection, or to be the first that shares it. In its turn the caller gets a function, which it calls when its headers
// are sent, or with its error. If another request fails to make the connection, returns the error of that request.
func (l *line) awaitConnection(ctx context.Context) (connected func(error), err error) {
	if l.hasSharedConnection() {
		return nil, nil
	}
	l.mu.Lock()
	before := l.dials
	l.mu.Unlock()
	select {
	case l.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	dialed, failed, jitter := l.dials != before, l.lastErr, l.lost
	l.lost = false
	l.mu.Unlock()
	if l.hasSharedConnection() {
		<-l.dialing
		return nil, nil
	}
	if l.open.Load() > 0 {
		next := sync.OnceFunc(func() { <-l.dialing })
		return func(error) { next() }, nil
	}
	if dialed && failed != nil {
		<-l.dialing
		return nil, failed
	}
	if jitter {
		select {
		case <-time.After(rand.N(reconnectJitter)):
		case <-ctx.Done():
			<-l.dialing
			return nil, ctx.Err()
		}
	}
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			// The end of the caller's context is no failure of the node, so the next request dials.
			if ctx.Err() != nil {
				err = nil
			}
			l.mu.Lock()
			l.dials++
			l.lastErr = err
			l.mu.Unlock()
			<-l.dialing
		})
	}, nil
}

func (l *line) hasSharedConnection() bool {
	return l.open.Load() > 0 && l.shared.Load()
}

func (l *line) release() {
	<-l.requests
	l.closeIfRetired()
}

// retire closes the connection when its last request has ended.
func (l *line) retire() {
	l.retired.Store(true)
	l.closeIfRetired()
}

func (l *line) closeIfRetired() {
	if l.retired.Load() && len(l.requests) == 0 {
		l.pool.closeConnections(func(conn *trackedConn) bool { return conn.line == l })
	}
}

// dial opens a connection without TLS.
func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := l.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conn.established()
	return conn, nil
}

// dialTLS opens a connection with TLS and completes its handshake. The certificates are read for each handshake.
func (l *line) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conn, err := l.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	config := l.pool.settings.TLS(host)
	config.NextProtos = []string{"h2"}
	secure := tls.Client(conn, config)
	if err = secure.HandshakeContext(ctx); err == nil && secure.ConnectionState().NegotiatedProtocol != "h2" {
		err = errors.New("the server does not speak HTTP/2 over TLS")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	conn.established()
	return secure, nil
}

// connect opens a TCP connection. Names are resolved for each connection.
func (l *line) connect(ctx context.Context, network, addr string) (*trackedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := l.pool.settings.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, line: l}
	if !l.pool.track(tracked) {
		conn.Close()
		return nil, ErrClosed
	}
	return tracked, nil
}

// trackedConn is a connection that the pool can close.
type trackedConn struct {
	net.Conn
	line *line
	// isOpen is whether the line counts the connection as open.
	isOpen atomic.Bool
	once   sync.Once
	// broken is the first error of a read.
	broken atomic.Pointer[error]
}

// established makes the line count the connection as open.
func (c *trackedConn) established() {
	c.isOpen.Store(true)
	if c.line.open.Load() == 0 {
		c.line.shared.Store(false)
	}
	c.line.open.Add(1)
	if opened := c.line.pool.settings.Opened; opened != nil {
		opened(c.line.addr)
	}
}

func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.broken.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Close closes the connection, and stops to count it.
func (c *trackedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.ended)
	return err
}

func (c *trackedConn) ended() {
	c.line.pool.untrack(c)
	if !c.isOpen.Load() {
		return
	}
	c.line.mu.Lock()
	c.line.lost = true
	c.line.mu.Unlock()
	c.line.open.Add(-1)
	if closed := c.line.pool.settings.Closed; closed != nil {
		var cause error
		if broken := c.broken.Load(); broken != nil && !errors.Is(*broken, io.EOF) {
			cause = *broken
		}
		closed(c.line.addr, cause)
	}
}

// releasingBody ends a request when its response was read or closed.
type releasingBody struct {
	io.ReadCloser
	release func()
}

func (b *releasingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *releasingBody) Close() error {
	b.release()
	return b.ReadCloser.Close()
}
