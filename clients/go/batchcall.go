package seqsvr

import (
	"context"
	"sync"

	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/wire"
)

// NextMany allocates one number for each uid, with one request to each node that owns sections of these uids. A uid that
// occurs twice gets two numbers, of which the first occurrence gets the smaller one, unless its item had to be retried.
// The number of uids is not limited: those of one owner are sent in requests of 10,000, one after another.
//
// The results are in the order of uids, each with an error of its own. The error of the call means that no item got a
// response; if its MayHaveApplied is true, numbers of any of the items may have been consumed. If the uids are in several
// sets, and no node of one of them can be reached, its items fail with [KindSetUnavailable] without retries, so the call
// does not wait for them.
func (c *Client) NextMany(ctx context.Context, uids []uint64) ([]AllocationResult, error) {
	return runBatch(c, ctx, "NextMany", uids, nil, nextMany{}, false)
}

// NextManyN allocates Count numbers for each item, otherwise as [Client.NextMany]. Each count is 1 to [MaxCount]; if one
// is not, nothing is sent.
func (c *Client) NextManyN(ctx context.Context, items []Item) ([]AllocationResult, error) {
	uids, counts := make([]uint64, len(items)), make([]uint32, len(items))
	for i, item := range items {
		if item.Count == 0 || item.Count > MaxCount {
			return nil, errCount(&item.UID, item.Count)
		}
		uids[i], counts[i] = item.UID, item.Count
	}
	return runBatch(c, ctx, "NextMany", uids, counts, nextMany{}, false)
}

// CurrentMany reads the last number of each uid, otherwise as [Client.NextMany]. It changes no counter.
func (c *Client) CurrentMany(ctx context.Context, uids []uint64) ([]CurrentResult, error) {
	return runBatch(c, ctx, "CurrentMany", uids, nil, currentMany{}, true)
}

// batchMethod is a method for many uids, with results of type R.
type batchMethod[R any] interface {
	// send makes one attempt with the items.
	send(t *attempts, to target, items *group, epochs []uint64) (batchResponse[R], error, bool)
	// failure returns the result of an item with an error.
	failure(err *Error) R
	// err returns the error of a result; nil if it has none.
	err(result *R) *Error
	// addLost adds attempts with unknown outcome to a result without an error.
	addLost(result *R, lost int)
}

// batchResponse is a decoded response. invalid describes how it violates the protocol; empty if it does not.
type batchResponse[R any] struct {
	results []R
	errors  []wire.ItemError
	routes  *wire.Routes
	invalid string
}

const wrongLengths = "lists of other lengths than the request's"

type nextMany struct{}

func (nextMany) send(t *attempts, to target, g *group, epochs []uint64) (batchResponse[AllocationResult], error, bool) {
	var data wire.NextManyResponse
	request := &wire.NextManyRequest{UIDs: g.uids, Counts: g.counts, RouteVersion: to.routeVersion, KnownEpochs: epochs}
	failed, isLate := t.attempt(to, "SequenceService/NextMany", request, &data)
	if failed != nil {
		return batchResponse[AllocationResult]{}, failed, isLate
	}
	response := batchResponse[AllocationResult]{errors: data.Errors, routes: data.Routes}
	if n := len(g.uids); len(data.Values) != n || len(data.Prevs) != n || len(data.Epochs) != n {
		response.invalid = wrongLengths
		return response, nil, false
	}
	response.results = make([]AllocationResult, len(g.uids))
	for i := range response.results {
		count := uint32(1)
		if g.counts != nil {
			count = g.counts[i]
		}
		allocation, bad := checkedAllocation(to.Addr, data.Values[i], data.Prevs[i], data.Epochs[i], count, 0)
		if bad != nil {
			response.results[i].Err = bad
		} else {
			response.results[i].Allocation = allocation
		}
	}
	if data.Lost != nil && len(data.Lost.Indexes) == len(data.Lost.Attempts) {
		for i, index := range data.Lost.Indexes {
			if int(index) < len(response.results) {
				response.results[index].Lost = data.Lost.Attempts[i]
			}
		}
	}
	return response, nil, false
}

func (nextMany) failure(err *Error) AllocationResult { return AllocationResult{Err: err} }

func (nextMany) err(result *AllocationResult) *Error { return asError(result.Err) }

func (nextMany) addLost(result *AllocationResult, lost int) { result.Lost += uint32(lost) }

type currentMany struct{}

func (currentMany) send(t *attempts, to target, g *group, epochs []uint64) (batchResponse[CurrentResult], error, bool) {
	var data wire.CurrentManyResponse
	request := &wire.CurrentManyRequest{UIDs: g.uids, RouteVersion: to.routeVersion, KnownEpochs: epochs}
	failed, isLate := t.attempt(to, "SequenceService/CurrentMany", request, &data)
	if failed != nil {
		return batchResponse[CurrentResult]{}, failed, isLate
	}
	response := batchResponse[CurrentResult]{errors: data.Errors, routes: data.Routes}
	if n := len(g.uids); len(data.Values) != n || len(data.Exactness) != n || len(data.Epochs) != n {
		response.invalid = wrongLengths
		return response, nil, false
	}
	response.results = make([]CurrentResult, len(g.uids))
	for i := range response.results {
		current, bad := checkedCurrent(to.Addr, data.Values[i], data.Exactness[i], data.Epochs[i])
		if bad != nil {
			response.results[i].Err = bad
		} else {
			response.results[i].Current = current
		}
	}
	return response, nil, false
}

func (currentMany) failure(err *Error) CurrentResult {
	err.MayHaveApplied = false
	return CurrentResult{Err: err}
}

func (currentMany) err(result *CurrentResult) *Error { return asError(result.Err) }

func (currentMany) addLost(*CurrentResult, int) {}

// group has items with the same destination, in the order of the call.
type group struct {
	uids []uint64
	// counts of the items; nil if each requests one number.
	counts []uint32
	// indexes of the items in the call.
	indexes []int
	set     routes.SetIndex
	owner   uint32
}

// part returns the items at some places of the group.
func (g *group) part(places []int) *group {
	part := &group{set: g.set, owner: g.owner}
	for _, place := range places {
		part.add(g.uids[place], g.counts, place, g.indexes[place])
	}
	return part
}

func (g *group) add(uid uint64, counts []uint32, place, index int) {
	g.uids = append(g.uids, uid)
	if counts != nil {
		g.counts = append(g.counts, counts[place])
	}
	g.indexes = append(g.indexes, index)
}

// plan divides the items of a call into groups, one for each owner. All items of a uid are in the same group. outside
// has the indexes of the items that are in no known set.
func plan(directory *routes.Directory, uids []uint64, counts []uint32) (groups []*group, outside []int) {
	type destination struct {
		set   routes.SetIndex
		owner uint32
	}
	known := map[destination]*group{}
	for i, uid := range uids {
		route, ok := directory.Route(uid)
		if !ok {
			outside = append(outside, i)
			continue
		}
		to := destination{route.Set, route.Owner}
		g := known[to]
		if g == nil {
			g = &group{set: route.Set, owner: route.Owner}
			known[to] = g
			groups = append(groups, g)
		}
		g.add(uid, counts, i, i)
	}
	return groups, outside
}

// runBatch makes a call for many uids.
func runBatch[R any](
	c *Client, ctx context.Context, name string, uids []uint64, counts []uint32, method batchMethod[R], reads bool,
) ([]R, error) {
	if len(uids) == 0 {
		return []R{}, nil
	}
	t, failed := c.begin(ctx, name, len(uids))
	if failed != nil {
		return nil, failed
	}
	t.reads = reads
	groups, outside := plan(c.routes.Load(), uids, counts)
	if len(outside) > 0 {
		t.refresh()
		groups, outside = plan(c.routes.Load(), uids, counts)
	}
	for _, g := range groups {
		t.failsFast = t.failsFast || g.set != groups[0].set
	}
	results := make([]R, len(uids))
	for _, i := range outside {
		results[i] = method.failure(errOutside(uids[i]))
	}
	var running sync.WaitGroup
	states := make([]attempts, len(groups))
	for i, g := range groups {
		states[i] = *t
		run := func() { sendGroup(&states[i], g, method, results) }
		if i == len(groups)-1 {
			// The caller's goroutine sends the last group, which usually is the only one.
			run()
			break
		}
		running.Add(1)
		go func() {
			defer running.Done()
			run()
		}()
	}
	running.Wait()
	for i := range states {
		t.made, t.lost = max(t.made, states[i].made), t.lost+states[i].lost
	}
	return finish(t, results, batchError(method, results))
}

// batchError returns the error of a call in which no item got a response, which is that of the first item; nil if an
// item got one.
func batchError[R any](method batchMethod[R], results []R) *Error {
	var first *Error
	applied := false
	for i := range results {
		err := method.err(&results[i])
		if err == nil || !err.isUnanswered() {
			return nil
		}
		if first == nil {
			copied := *err
			first = &copied
		}
		applied = applied || err.MayHaveApplied
	}
	first.MayHaveApplied = applied
	return first
}
