package seqsvr

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"time"

	"seqsvr.example/clients/go/internal/pool"
)

const (
	// DefaultDeadline is the deadline of a call whose context has none. It is longer than the time until the sections of
	// a node whose host failed have new owners.
	DefaultDeadline = 5 * time.Second
	// maxDeadline is the longest deadline. A longer one is reduced to it.
	maxDeadline = 24 * time.Hour
	// maxSeeds is the limit on the seeds of a client, half of the addresses that its pool can hold.
	maxSeeds = pool.MaxAddresses / 2
)

// Option is a setting of [Open].
type Option func(*options)

type options struct {
	deadline    time.Duration
	connections int
	coalesce    bool
	tls         *TLSFiles
	// token is a function so that no dump of a struct shows the token.
	token    func() string
	logger   *slog.Logger
	observer Observer
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
}

func newOptions(opts []Option) options {
	o := options{
		deadline: DefaultDeadline, connections: pool.DefaultConnections, coalesce: true,
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	o.deadline = min(o.deadline, maxDeadline)
	return o
}

// WithDeadline sets the deadline of calls, and of [Open], whose context has none: over all attempts, at most a day. The
// default is [DefaultDeadline].
func WithDeadline(deadline time.Duration) Option {
	return func(o *options) { o.deadline = deadline }
}

// WithTLS connects to every node over TLS 1.3, with these files.
func WithTLS(files TLSFiles) Option {
	return func(o *options) { o.tls = &files }
}

// WithTLSFiles connects to every node over TLS 1.3. ca is the file of the authorities, and certificate that of the
// client's private key and certificate, as `seqsvr cert issue` writes them: certs/ca.crt and certs/client.backend.pem.
func WithTLSFiles(ca, certificate string) Option {
	return WithTLS(TLSFiles{CA: ca, Certificate: certificate})
}

// WithToken sends the token of a tenant with every request. It needs [WithTLS], because every reader of the connection
// could use the token.
func WithToken(token string) Option {
	return func(o *options) { o.token = func() string { return token } }
}

// WithLogger sets the logger for changes of state: a node that is not reachable, routes or files that are not valid. No
// line is about a single call. The default discards them.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) { o.logger = logger }
}

// WithObserver sets functions for metrics and traces.
func WithObserver(observer Observer) Option {
	return func(o *options) { o.observer = observer }
}

// WithConnections sets the number of connections to each node, 1 to 64. The default is 4.
func WithConnections(connections int) Option {
	return func(o *options) { o.connections = connections }
}

// WithoutCoalescing makes every call of [Client.Next] and [Client.NextN] a request of its own. By default concurrent
// calls to a node share the messages of a stream. In either case no call waits for another one.
func WithoutCoalescing() Option {
	return func(o *options) { o.coalesce = false }
}

// WithDialer sets the function that opens TCP connections, for example through a proxy.
func WithDialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// addresses returns the addresses of seeds, without repeats.
func (o *options) addresses(seeds []string) ([]string, *Error) {
	if len(seeds) == 0 {
		return nil, errConnect(false, nil, "no seed was given; name at least one node as http://host:port")
	}
	if len(seeds) > maxSeeds {
		return nil, errConnect(false, nil, "%d seeds are more than the %d that a client can hold", len(seeds), maxSeeds)
	}
	if o.token != nil {
		if o.tls == nil {
			return nil, errConnect(false, nil, "a token needs TLS: every reader of the connection could use it")
		}
		if !isToken(o.token()) {
			return nil, errConnect(false, nil, "a token is of visible ASCII characters: TENANT.SECRET")
		}
	}
	var addrs []string
	known := map[string]bool{}
	for _, seed := range seeds {
		addr, scheme := seed, ""
		if before, after, found := strings.Cut(seed, "://"); found {
			scheme, addr = before, strings.TrimSuffix(after, "/")
		}
		switch {
		case scheme != "" && scheme != "http" && scheme != "https":
			return nil, errConnect(false, nil, "seed %q: only http:// and https:// are supported", seed)
		case scheme == "https" && o.tls == nil:
			return nil, errConnect(false, nil, "seed %q: https:// needs WithTLS", seed)
		case pool.CheckAddr(addr) != nil:
			return nil, errConnect(false, nil, "seed %q is not of the form http://host:port", seed)
		case !known[addr]:
			known[addr] = true
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

// isToken returns whether a text has the form of a token.
func isToken(token string) bool {
	for _, b := range []byte(token) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return strings.Contains(token, ".")
}
