package seqsvr

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seqsvr.example/clients/go/internal/batch"
	"seqsvr.example/clients/go/internal/pool"
	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/tasks"
	"seqsvr.example/clients/go/internal/wire"
)

// Version is the version of this client.
const Version = rpc.Version

// Client is a handle to the sequence service, for any number of goroutines. One client for each process is enough.
//
// # Deadline
//
// Each call has one deadline for all its attempts: that of its context, or else [WithDeadline]. Each request carries the
// remaining time, and a server stops to work on a request when it has passed.
//
// # Retries
//
// A call with a retryable failure is retried until its deadline, within a retry budget for each set: a fifth of the
// calls to the set, plus ten for each second. After a failed connection the next attempt is sent to another node of the
// set, because any node of a set serves any of its uids. An attempt whose node does not respond ends after a third of
// the deadline, but not before a second, if another node could serve.
//
// # Sets
//
// Sections of uids can migrate between the sets of a cluster while calls are served. The client merges the routes of all
// sets, and follows a section that has moved without a backoff. Connections and retry budget are separate for each set,
// so calls to a set that is down do not delay calls to other sets.
//
// # Cancellation
//
// A call whose context ends returns at once. It may have consumed numbers. Such numbers are skipped and never allocated
// again.
type Client struct {
	options     options
	seeds       []string
	routes      *routes.Routes
	pool        *pool.Pool
	credentials *credentials

	// base ends when the client is closed.
	base  context.Context
	close context.CancelFunc
	// tasks has the goroutines of the client.
	tasks tasks.Group
	// calls counts the calls in progress, and idle is notified when the last one ends after closing has begun.
	calls   atomic.Int64
	closing atomic.Bool
	idle    chan struct{}

	// refresh limits fetches of routes from the seeds: one element is the permit.
	refresh   chan struct{}
	refreshed time.Time

	batchersMu sync.RWMutex
	batchers   map[string]*batch.Batcher

	// addrs is held while the connections are adjusted to the addresses in the newest routes.
	addrs sync.Mutex
	stats counters
}

type counters struct {
	calls, attempts, retries, budgetRefused, messages, routeAdoptions atomic.Uint64
}

// Open connects a client: it fetches the routes of the sets of every seed, given as host:port, http://host:port or
// https://host:port. One seed that responds is enough, because its routes name the nodes of all sets of its cluster. If
// seeds respond but have no routes yet, because their sets are still starting, Open requests them until the deadline.
//
// The error is an [*Error] of [KindConnect], or of [KindCancelled] if the context was cancelled.
func Open(ctx context.Context, seeds []string, opts ...Option) (*Client, error) {
	o := newOptions(opts)
	addrs, invalid := o.addresses(seeds)
	if invalid != nil {
		return nil, invalid
	}
	c := &Client{
		options: o, seeds: addrs, routes: routes.New(),
		idle: make(chan struct{}, 1), refresh: make(chan struct{}, 1),
		batchers: map[string]*batch.Batcher{},
	}
	settings := pool.Settings{
		Connections: o.connections, Dial: o.dial, Token: o.token,
		Opened: o.observer.ConnectionOpened, Closed: o.observer.ConnectionClosed,
		Suspected: func(addr string, err error) {
			c.log().Warn("a node does not respond; requests are sent to others for a second", "addr", addr, "error", err)
		},
	}
	if o.tls != nil {
		credentials, err := loadCredentials(*o.tls, o.logger)
		if err != nil {
			return nil, errConnect(false, err, "the certificates cannot be used")
		}
		c.credentials, settings.TLS = credentials, credentials.config
	}
	c.pool = pool.New(settings)
	c.base, c.close = context.WithCancel(context.Background())
	if err := c.connect(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Next allocates the next number of a uid.
//
// The error is an [*Error]. If its MayHaveApplied is true, a number may have been consumed, which is then skipped.
func (c *Client) Next(ctx context.Context, uid uint64) (Allocation, error) {
	return c.NextN(ctx, uid, 1)
}

// NextN allocates the next count numbers of a uid, 1 to [MaxCount], which are contiguous.
//
// The error is an [*Error]. If its MayHaveApplied is true, numbers may have been consumed, which are then skipped.
func (c *Client) NextN(ctx context.Context, uid uint64, count uint32) (Allocation, error) {
	if count == 0 || count > MaxCount {
		return Allocation{}, errCount(&uid, count)
	}
	t, err := c.begin(ctx, "Next", 1)
	if err != nil {
		return Allocation{}, err
	}
	allocation, err := t.next(uid, count)
	return finish(t, allocation, err)
}

// Current reads the last number of a uid. It changes no counter.
func (c *Client) Current(ctx context.Context, uid uint64) (Current, error) {
	t, err := c.begin(ctx, "Current", 1)
	if err != nil {
		return Current{}, err
	}
	t.reads = true
	var current Current
	err = unary(t, uid, "SequenceService/Current",
		func(to target) wire.Message {
			return &wire.CurrentRequest{UID: wire.Some(uid), RouteVersion: to.routeVersion, Epoch: to.epoch}
		},
		func(addr string, data *wire.CurrentResponse) (*wire.Routes, *Error) {
			var bad *Error
			current, bad = checkedCurrent(addr, data.Value, data.Exactness, data.Epoch)
			return data.Routes, bad
		})
	return finish(t, current, err)
}

// Advance raises the counter of a uid to a number, 0 to 2^62-1, so that the uid's next number is above it: for imports
// of counters. It is idempotent. It returns the epoch of the ownership that applied the advance.
//
// The refusal ALREADY_PAST means that the last number of the uid is above the number. One possible cause is an earlier
// attempt of this same call that was applied before another call allocated a number; MayHaveApplied of the error is
// whether there may have been such an attempt.
func (c *Client) Advance(ctx context.Context, uid, to uint64) (epoch uint64, err error) {
	t, failed := c.begin(ctx, "Advance", 1)
	if failed != nil {
		return 0, failed
	}
	failed = unary(t, uid, "SequenceService/Advance",
		func(at target) wire.Message {
			return &wire.AdvanceRequest{
				UID: wire.Some(uid), To: wire.Some(to), RouteVersion: at.routeVersion, Epoch: at.epoch,
			}
		},
		func(_ string, data *wire.AdvanceResponse) (*wire.Routes, *Error) {
			epoch = data.Epoch
			return data.Routes, nil
		})
	return finish(t, epoch, failed)
}

// Reload reads the files of [WithTLS] again now. New connections use their contents. Without a call of it, changed files
// are read before the next connection. On an error the former contents stay in use.
func (c *Client) Reload() error {
	if c.credentials == nil {
		return nil
	}
	if err := c.credentials.reload(); err != nil {
		return errConnect(false, err, "the certificates cannot be used; the former ones stay in use")
	}
	return nil
}

// Stats returns counts of the client.
func (c *Client) Stats() Stats {
	s := Stats{
		Calls: c.stats.calls.Load(), Attempts: c.stats.attempts.Load(), Retries: c.stats.retries.Load(),
		BudgetRefused: c.stats.budgetRefused.Load(), Messages: c.stats.messages.Load(),
		RouteAdoptions: c.stats.routeAdoptions.Load(), Connections: c.pool.Len(),
	}
	c.batchersMu.RLock()
	defer c.batchersMu.RUnlock()
	for _, batcher := range c.batchers {
		s.Pending += batcher.Pending()
	}
	return s
}

// Shutdown closes the client in order: new calls fail with [KindClosed], and those in progress may complete. When they
// have, or when ctx ends, it closes the client as [Client.Close] does. It returns the error of ctx if calls were still
// in progress.
func (c *Client) Shutdown(ctx context.Context) error {
	c.closing.Store(true)
	var err error
	for c.calls.Load() > 0 && err == nil && c.base.Err() == nil {
		select {
		case <-c.idle:
		case <-c.base.Done():
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	c.Close()
	return err
}

// Close ends every call with [KindClosed], closes the connections, and returns when the goroutines of the client have
// ended. It is idempotent and returns nil.
func (c *Client) Close() error {
	c.closing.Store(true)
	c.close()
	c.pool.Close()
	c.tasks.Close()
	return nil
}

func (c *Client) log() *slog.Logger { return c.options.logger }

// batcher returns the batcher of a node, which its first call creates.
func (c *Client) batcher(addr string) *batch.Batcher {
	c.batchersMu.RLock()
	b := c.batchers[addr]
	c.batchersMu.RUnlock()
	if b != nil {
		return b
	}
	c.batchersMu.Lock()
	defer c.batchersMu.Unlock()
	if b := c.batchers[addr]; b != nil {
		return b
	}
	target := func() (rpc.Target, error) { return c.pool.Target(addr) }
	b = batch.New(c.base, &c.tasks, &c.stats.messages, addr, target)
	c.batchers[addr] = b
	return b
}

// adopt adopts the routes of a response. Invalid routes are logged and ignored, because the rest of the response is
// valid.
func (c *Client) adopt(table *wire.Routes, from string) {
	if table == nil {
		return
	}
	change, err := c.routes.Adopt(table, "")
	if err != nil {
		c.log().Warn("routes in a response were not adopted", "addr", from, "error", err)
	}
	c.adopted(table, change)
}

func (c *Client) adopted(table *wire.Routes, change routes.Change) {
	if change.Any {
		c.stats.routeAdoptions.Add(1)
		if c.options.observer.RoutesAdopted != nil {
			c.options.observer.RoutesAdopted(table.Set, table.Version)
		}
	}
	if change.Addrs {
		c.followAddrs()
	}
}

// followAddrs closes the connections to addresses that are no longer in the routes of any set.
func (c *Client) followAddrs() {
	c.addrs.Lock()
	defer c.addrs.Unlock()
	used := c.routes.Load().Addrs()
	for _, seed := range c.seeds {
		used[seed] = true
	}
	c.pool.Retain(func(addr string) bool { return used[addr] })
	c.batchersMu.Lock()
	defer c.batchersMu.Unlock()
	for addr, batcher := range c.batchers {
		if !used[addr] {
			batcher.Retire()
			delete(c.batchers, addr)
		}
	}
}
