// Command driver is the driver of this client for the conformance suite: it carries out one request for each line of its
// standard input, and writes one response for each to its standard output. The suite has the protocol, version 1.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	seqsvr "seqsvr.example/clients/go"
)

// maxLine is the limit on the length of a line. A batch of the suite has some 20,000 uids.
const maxLine = 16 << 20

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
		os.Exit(1)
	}
}

// hello is the greeting.
var hello = map[string]any{
	"hello": 1, "sdk": "go", "version": seqsvr.Version,
	"features": []string{"stream", "advance", "tls", "token", "reload", "cancel", "stats", "keys"},
}

// driver has the clients and the calls in flight.
type driver struct {
	outMu sync.Mutex
	out   *bufio.Writer

	mu      sync.Mutex
	clients map[string]*seqsvr.Client
	// calls has the function that cancels each request.
	calls map[string]context.CancelFunc
}

// request is a request. 64-bit values are strings of decimal digits.
type request struct {
	ID         string   `json:"id"`
	Op         string   `json:"op"`
	Client     string   `json:"client"`
	DeadlineMS int64    `json:"deadline_ms"`
	UID        uint64   `json:"uid,string"`
	To         uint64   `json:"to,string"`
	Count      *uint32  `json:"count"`
	UIDs       []digits `json:"uids"`
	Counts     []uint32 `json:"counts"`
	Keyspace   string   `json:"keyspace"`
	Key        key      `json:"key"`
	Keys       []key    `json:"keys"`

	Seeds    []string `json:"seeds"`
	Coalesce *bool    `json:"coalesce"`
	TLS      *struct{ CA, Cert string }
	Token    string `json:"token"`

	Calls       int    `json:"calls"`
	Concurrency int    `json:"concurrency"`
	Seed        uint64 `json:"seed,string"`
	Quiet       bool   `json:"quiet"`

	Target string `json:"target"`
}

// digits is a 64-bit value, a string of decimal digits.
type digits uint64

func (d *digits) UnmarshalJSON(data []byte) error {
	var value struct {
		V uint64 `json:"v,string"`
	}
	err := json.Unmarshal(append(append([]byte(`{"v":`), data...), '}'), &value)
	*d = digits(value.V)
	return err
}

// count returns the count of numbers of each item.
func (r *request) count() uint32 {
	if r.Count == nil {
		return 1
	}
	return *r.Count
}

func (r *request) uids() []uint64 {
	uids := make([]uint64, len(r.UIDs))
	for i, uid := range r.UIDs {
		uids[i] = uint64(uid)
	}
	return uids
}

// run serves requests until the end of in.
func run(in io.Reader, out io.Writer) error {
	d := &driver{
		out: bufio.NewWriter(out), clients: map[string]*seqsvr.Client{}, calls: map[string]context.CancelFunc{},
	}
	d.write(hello)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	var running sync.WaitGroup
	for lines.Scan() {
		r := new(request)
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			return fmt.Errorf("%q is no request: %w", lines.Text(), err)
		}
		// A call is known before the next line is read, which may cancel it.
		ctx, cancel := context.WithCancel(context.Background())
		d.mu.Lock()
		d.calls[r.ID] = cancel
		d.mu.Unlock()
		running.Add(1)
		go func() {
			defer running.Done()
			d.serve(ctx, r)
			cancel()
			d.mu.Lock()
			delete(d.calls, r.ID)
			d.mu.Unlock()
		}()
	}
	d.mu.Lock()
	for _, client := range d.clients {
		running.Add(1)
		go func() {
			defer running.Done()
			client.Close()
		}()
	}
	d.mu.Unlock()
	running.Wait()
	return lines.Err()
}

// serve carries out a request and writes its response.
func (d *driver) serve(ctx context.Context, r *request) {
	if r.DeadlineMS > 0 && r.Op != "burst" && r.Op != "open" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	ok, err := d.respond(ctx, r)
	if err != nil {
		d.write(map[string]any{"id": r.ID, "error": failure(err)})
		return
	}
	d.write(map[string]any{"id": r.ID, "ok": ok})
}

func (d *driver) write(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	d.outMu.Lock()
	defer d.outMu.Unlock()
	d.out.Write(append(text, '\n'))
	d.out.Flush()
}

type object = map[string]any

// errUnsupported is the error of an op that the driver does not have.
var errUnsupported = errors.New("the driver does not have the op")

func (d *driver) respond(ctx context.Context, r *request) (any, error) {
	d.mu.Lock()
	c, cancel := d.clients[r.Client], d.calls[r.Target]
	d.mu.Unlock()
	switch r.Op {
	case "open":
		opened, err := open(ctx, r)
		if err == nil {
			d.mu.Lock()
			d.clients[r.Client] = opened
			d.mu.Unlock()
		}
		return object{}, err
	case "cancel":
		if cancel != nil {
			cancel()
		}
		return object{}, nil
	}
	if c == nil {
		return nil, seqsvr.KindClosed
	}
	switch r.Op {
	case "close":
		return object{}, c.Close()
	case "reload":
		return object{}, c.Reload()
	case "stats":
		return stats(c), nil
	case "burst":
		return d.burst(ctx, c, r), nil
	default:
		return call(ctx, c, r)
	}
}

func open(ctx context.Context, r *request) (*seqsvr.Client, error) {
	var opts []seqsvr.Option
	if r.DeadlineMS > 0 {
		opts = append(opts, seqsvr.WithDeadline(time.Duration(r.DeadlineMS)*time.Millisecond))
	}
	if r.Coalesce != nil && !*r.Coalesce {
		opts = append(opts, seqsvr.WithoutCoalescing())
	}
	if r.TLS != nil {
		// A list of revocations is beside the authorities, if there is one.
		revocations := filepath.Join(filepath.Dir(r.TLS.CA), "crl.pem")
		opts = append(opts, seqsvr.WithTLS(seqsvr.TLSFiles{CA: r.TLS.CA, Certificate: r.TLS.Cert, Revocations: revocations}))
	}
	if r.Token != "" {
		opts = append(opts, seqsvr.WithToken(r.Token))
	}
	return seqsvr.Open(ctx, r.Seeds, opts...)
}

func call(ctx context.Context, c *seqsvr.Client, r *request) (any, error) {
	switch r.Op {
	case "next":
		got, err := c.NextN(ctx, r.UID, r.count())
		return allocation(got), err
	case "next_many":
		results, err := nextMany(ctx, c, r)
		return allocations(results), err
	case "current":
		got, err := c.Current(ctx, r.UID)
		return got, err
	case "current_many":
		results, err := c.CurrentMany(ctx, r.uids())
		return readings(results), err
	case "advance":
		epoch, err := c.Advance(ctx, r.UID, r.To)
		return object{"epoch": fmt.Sprint(epoch)}, err
	default:
		return callOfKeys(ctx, c.Keyspace(r.Keyspace), r)
	}
}

func nextMany(ctx context.Context, c *seqsvr.Client, r *request) ([]seqsvr.AllocationResult, error) {
	if r.Counts == nil {
		return c.NextMany(ctx, r.uids())
	}
	items := make([]seqsvr.Item, len(r.UIDs))
	for i, uid := range r.UIDs {
		items[i] = seqsvr.Item{UID: uint64(uid), Count: r.Counts[i]}
	}
	return c.NextManyN(ctx, items)
}

// burst makes the calls of a burst, and writes a line for each of them unless the burst is quiet.
func (d *driver) burst(ctx context.Context, c *seqsvr.Client, r *request) any {
	random := rand.New(rand.NewPCG(r.Seed, 0))
	chosen := make(chan uint64, r.Calls)
	for range r.Calls {
		chosen <- uint64(r.UIDs[random.IntN(len(r.UIDs))])
	}
	close(chosen)
	var failed atomic.Int64
	var running sync.WaitGroup
	for range max(min(r.Concurrency, r.Calls), 1) {
		running.Add(1)
		go func() {
			defer running.Done()
			for uid := range chosen {
				line, err := d.one(ctx, c, r, uid)
				if err != nil {
					failed.Add(1)
				}
				if !r.Quiet {
					d.write(object{"id": r.ID, "call": line})
				}
			}
		}()
	}
	running.Wait()
	return object{"done": r.Calls, "failed": failed.Load()}
}

// one makes a call of a burst. The object is nil if the burst is quiet.
func (d *driver) one(ctx context.Context, c *seqsvr.Client, r *request, uid uint64) (object, error) {
	if r.DeadlineMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.DeadlineMS)*time.Millisecond)
		defer cancel()
	}
	start := monotonic()
	got, err := nextOf(ctx, c, r.Keyspace, uid)
	if r.Quiet {
		return nil, err
	}
	line := item(allocation(got), err)
	line["uid"], line["start_ns"], line["end_ns"] = fmt.Sprint(uid), fmt.Sprint(start), fmt.Sprint(monotonic())
	return line, err
}

func allocations(results []seqsvr.AllocationResult) object {
	items := []object{}
	for _, result := range results {
		items = append(items, item(allocation(result.Allocation), result.Err))
	}
	return object{"items": items}
}

func readings(results []seqsvr.CurrentResult) object {
	items := []object{}
	for _, result := range results {
		items = append(items, item(result.Current, result.Err))
	}
	return object{"items": items}
}

func item(ok any, err error) object {
	if err != nil {
		return object{"error": failure(err)}
	}
	return object{"ok": ok}
}

func allocation(a seqsvr.Allocation) object {
	return object{
		"first": fmt.Sprint(a.First()), "value": fmt.Sprint(a.Value), "prev": fmt.Sprint(a.Prev),
		"epoch": fmt.Sprint(a.Epoch), "count": a.Count, "lost": a.Lost,
	}
}

func failure(err error) object {
	var e *seqsvr.Error
	var kind seqsvr.Kind
	switch {
	case errors.As(err, &e):
		line := object{
			"kind": e.Kind, "retryable": e.Retryable, "may_have_applied": e.MayHaveApplied, "message": err.Error(),
			"attempts": e.Attempts,
		}
		if e.Kind == seqsvr.KindRefused || e.Kind == seqsvr.KindSetUnavailable {
			line["reason"], line["code"] = e.Reason, e.Code.String()
			if e.Reason == seqsvr.ReasonRefusedByOthers {
				line["reason"] = ""
			}
			if e.RetryAfter > 0 {
				line["retry_after_ms"] = e.RetryAfter.Milliseconds()
			}
		}
		return line
	case errors.As(err, &kind):
	case errors.Is(err, errUnsupported):
		kind = "unsupported"
	default:
		kind = "other"
	}
	return object{"kind": kind, "retryable": false, "may_have_applied": false, "message": err.Error()}
}

func stats(c *seqsvr.Client) object {
	s := c.Stats()
	return object{
		"calls": s.Calls, "attempts": s.Attempts, "retries": s.Retries, "budget_refused": s.BudgetRefused,
		"connections": s.Connections, "pending": s.Pending, "route_adoptions": s.RouteAdoptions,
		"tasks": runtime.NumGoroutine(), "threads": pprof.Lookup("threadcreate").Count(),
	}
}
