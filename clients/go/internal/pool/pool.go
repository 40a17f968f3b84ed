// Package pool has the connections of a client, by address. A connection is made at its first use and is shared by all
// calls.
//
// Each node has a few connections, which are used in rotation. HTTP/2 pings detect a connection whose peer has
// disappeared or hangs, even while no request waits. An address that was recently unreachable is suspect: requests are
// sent to another address if possible.
package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seqsvr.example/clients/go/internal/rpc"
)

// Constants that are equal in all clients of the service.
const (
	// DefaultConnections is the number of connections to a node.
	DefaultConnections = 4
	// MaxConnections is the limit on the number of connections to a node.
	MaxConnections = 64
	// MaxAddresses is the limit on the addresses in a pool.
	MaxAddresses = 4096
	// connectTimeout is the timeout for making a connection, with its TLS handshake. It is short, because another node
	// can serve the request instead.
	connectTimeout = time.Second
	// pingInterval is the time without a frame from the peer after which a ping is sent.
	pingInterval = 500 * time.Millisecond
	// pingTimeout is the timeout of a ping. It is longer than the time for which a busy node may leave its sockets
	// unread.
	pingTimeout = 1500 * time.Millisecond
	// suspectFor is the time for which an address is suspect after a failure. So about one request per second is sent to
	// a node that stays unreachable.
	suspectFor = time.Second
	// reportInterval is the minimum interval between two reports that the same address is suspect.
	reportInterval = time.Minute
	// maxRequests is the limit on concurrent requests of a connection. A node accepts 256. Without a limit, net/http
	// would open a further connection for each request above the limit of the node.
	maxRequests = 128
	// reconnectJitter is the longest wait before a lost connection is made again, so that the clients of a node that
	// restarts do not all connect at once.
	reconnectJitter = 100 * time.Millisecond
	// maxAddrBytes is the limit on the length of an address: a DNS name and a port.
	maxAddrBytes = 261
)

// ErrClosed is the error of a request after the pool was closed.
var ErrClosed = errors.New("the client is closed")

// Settings of a pool.
type Settings struct {
	// Connections is the number of connections to each node.
	Connections int
	// TLS returns the configuration of the next connection to a host; nil for connections without TLS.
	TLS func(host string) *tls.Config
	// Dial opens a TCP connection; nil for the default.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Token returns the token of a tenant; nil without a token.
	Token func() string
	// Opened and Closed are called when a connection was made and when it ended. They may be nil.
	Opened func(addr string)
	Closed func(addr string, err error)
	// Suspected is called when an address becomes suspect, at most once a minute for each address. It may be nil.
	Suspected func(addr string, err error)
}

// Pool is a set of connections by address.
type Pool struct {
	settings Settings
	made     time.Time

	mu     sync.RWMutex
	nodes  map[string]*node
	closed bool

	connsMu sync.Mutex
	conns   map[*trackedConn]struct{}
	// closing is whether the pool accepts no further connection.
	closing bool
	// ended is closed when the last connection has ended after Close.
	ended chan struct{}
}

type node struct {
	addr  string
	lines []*line
	turn  atomic.Uint32
	// suspectUntil is in nanoseconds since Pool.made; 0 if the node is not suspect.
	suspectUntil atomic.Int64
	// reported is the time of the last call of Suspected, in nanoseconds since Pool.made; 0 if there was none.
	reported atomic.Int64
}

// New returns an empty pool.
func New(settings Settings) *Pool {
	settings.Connections = min(max(settings.Connections, 1), MaxConnections)
	if settings.Dial == nil {
		settings.Dial = (&net.Dialer{}).DialContext
	}
	return &Pool{
		settings: settings,
		made:     time.Now(),
		nodes:    map[string]*node{},
		conns:    map[*trackedConn]struct{}{},
		ended:    make(chan struct{}),
	}
}

// Target returns the next connection to an address. It does not wait, because a connection is made at its first
// request.
func (p *Pool) Target(addr string) (rpc.Target, error) {
	n, err := p.node(addr)
	if err != nil {
		return rpc.Target{}, err
	}
	line := n.lines[int(n.turn.Add(1)-1)%len(n.lines)]
	scheme := "http"
	if p.settings.TLS != nil {
		scheme = "https"
	}
	return rpc.Target{Scheme: scheme, Addr: addr, Transport: line, Token: p.settings.Token}, nil
}

func (p *Pool) node(addr string) (*node, error) {
	p.mu.RLock()
	n, closed := p.nodes[addr], p.closed
	p.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	if n != nil {
		return n, nil
	}
	if err := CheckAddr(addr); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[addr]; n != nil {
		return n, nil
	}
	if p.closed {
		return nil, ErrClosed
	}
	if len(p.nodes) >= MaxAddresses {
		return nil, fmt.Errorf("no room for %q: the client has connections to %d addresses", addr, MaxAddresses)
	}
	n = &node{addr: addr}
	for range p.settings.Connections {
		n.lines = append(n.lines, newLine(p, addr))
	}
	p.nodes[addr] = n
	return n, nil
}

// CheckAddr returns an error for a text that is not host:port.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || number == 0 || host == "" || len(addr) > maxAddrBytes ||
		strings.ContainsAny(host, "/@?#\\ ") {
		return fmt.Errorf("%q is not an address of the form host:port", addr)
	}
	return nil
}

// Suspect marks an address as suspect, because it has just been unreachable.
func (p *Pool) Suspect(addr string, err error) {
	p.mu.RLock()
	n := p.nodes[addr]
	p.mu.RUnlock()
	if n == nil {
		return
	}
	now := int64(time.Since(p.made))
	n.suspectUntil.Store(now + int64(suspectFor))
	last := n.reported.Load()
	isDue := last == 0 || now-last >= int64(reportInterval)
	if isDue && n.reported.CompareAndSwap(last, now) && p.settings.Suspected != nil {
		p.settings.Suspected(addr, err)
	}
}

// IsSuspect returns whether an address was recently unreachable.
func (p *Pool) IsSuspect(addr string) bool {
	p.mu.RLock()
	n := p.nodes[addr]
	p.mu.RUnlock()
	if n == nil {
		return false
	}
	until := n.suspectUntil.Load()
	return until != 0 && int64(time.Since(p.made)) < until
}

// Retain drops the addresses for which keep returns false. Requests in flight on their connections still run to
// completion.
func (p *Pool) Retain(keep func(addr string) bool) {
	p.mu.Lock()
	var dropped []*node
	for addr, n := range p.nodes {
		if !keep(addr) {
			delete(p.nodes, addr)
			dropped = append(dropped, n)
		}
	}
	p.mu.Unlock()
	for _, n := range dropped {
		for _, line := range n.lines {
			line.retire()
		}
	}
}

// Len returns the number of open connections.
func (p *Pool) Len() int {
	p.connsMu.Lock()
	defer p.connsMu.Unlock()
	return len(p.conns)
}

// Close closes every connection. It returns when the last one has ended.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.nodes = map[string]*node{}
	p.mu.Unlock()

	p.connsMu.Lock()
	if !p.closing && len(p.conns) == 0 {
		close(p.ended)
	}
	p.closing = true
	p.connsMu.Unlock()
	p.closeConnections(func(*trackedConn) bool { return true })
	<-p.ended
}

// closeConnections closes the connections for which match returns true.
func (p *Pool) closeConnections(match func(*trackedConn) bool) {
	p.connsMu.Lock()
	var open []*trackedConn
	for conn := range p.conns {
		if match(conn) {
			open = append(open, conn)
		}
	}
	p.connsMu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
}

// track registers a connection; false after the pool was closed.
func (p *Pool) track(conn *trackedConn) bool {
	p.connsMu.Lock()
	defer p.connsMu.Unlock()
	if p.closing {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Pool) untrack(conn *trackedConn) {
	p.connsMu.Lock()
	defer p.connsMu.Unlock()
	delete(p.conns, conn)
	if p.closing && len(p.conns) == 0 {
		close(p.ended)
	}
}
