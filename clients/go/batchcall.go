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
	return runUIDs(c, ctx, "NextMany", itemList{items: uids}, nextMany{}, false)
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
	return runUIDs(c, ctx, "NextMany", itemList{items: uids, counts: counts}, nextMany{}, false)
}

// CurrentMany reads the last number of each uid, otherwise as [Client.NextMany]. It changes no counter.
func (c *Client) CurrentMany(ctx context.Context, uids []uint64) ([]CurrentResult, error) {
	return runUIDs(c, ctx, "CurrentMany", itemList{items: uids}, currentMany{}, true)
}

// batchMethod is a method for many items, with results of type R.
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
	request := &wire.NextManyRequest{UIDs: g.items, Counts: g.counts, RouteVersion: to.routeVersion, KnownEpochs: epochs}
	return sendNextMany(t, to, g, "SequenceService/NextMany", request)
}

// sendNextMany makes one attempt with a request for numbers of many items.
func sendNextMany(
	t *attempts, to target, g *group, method string, request wire.Message,
) (batchResponse[AllocationResult], error, bool) {
	var data wire.NextManyResponse
	failed, isLate := t.attempt(to, method, request, &data)
	if failed != nil {
		return batchResponse[AllocationResult]{}, failed, isLate
	}
	response := batchResponse[AllocationResult]{errors: data.Errors, routes: data.Routes}
	if n := len(g.items); len(data.Values) != n || len(data.Prevs) != n || len(data.Epochs) != n {
		response.invalid = wrongLengths
		return response, nil, false
	}
	response.results = make([]AllocationResult, len(g.items))
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
	request := &wire.CurrentManyRequest{UIDs: g.items, RouteVersion: to.routeVersion, KnownEpochs: epochs}
	return sendCurrentMany(t, to, g, "SequenceService/CurrentMany", request)
}

// sendCurrentMany makes one attempt with a request for the last numbers of many items.
func sendCurrentMany(
	t *attempts, to target, g *group, method string, request wire.Message,
) (batchResponse[CurrentResult], error, bool) {
	var data wire.CurrentManyResponse
	failed, isLate := t.attempt(to, method, request, &data)
	if failed != nil {
		return batchResponse[CurrentResult]{}, failed, isLate
	}
	response := batchResponse[CurrentResult]{errors: data.Errors, routes: data.Routes}
	if n := len(g.items); len(data.Values) != n || len(data.Exactness) != n || len(data.Epochs) != n {
		response.invalid = wrongLengths
		return response, nil, false
	}
	response.results = make([]CurrentResult, len(g.items))
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

// itemList has the items of a call for many uids or keys.
type itemList struct {
	// items are as in [attempts.routeOf].
	items []uint64
	// keys are the keys of the items; nil for a call for uids.
	keys []string
	// counts of the items; nil if each requests one number.
	counts []uint32
}

// add adds the item at a place of another list.
func (l *itemList) add(from *itemList, place int) {
	l.items = append(l.items, from.items[place])
	if from.keys != nil {
		l.keys = append(l.keys, from.keys[place])
	}
	if from.counts != nil {
		l.counts = append(l.counts, from.counts[place])
	}
}

// part returns the items from..to, which are not copied.
func (l *itemList) part(from, to int) itemList {
	part := itemList{items: l.items[from:to]}
	if l.keys != nil {
		part.keys = l.keys[from:to]
	}
	if l.counts != nil {
		part.counts = l.counts[from:to]
	}
	return part
}

// fitting returns the end of the items from a place on that fit into one request.
func (l *itemList) fitting(from int) int {
	to := min(from+maxItems, len(l.items))
	if l.keys != nil {
		size := 0
		for at := from; at < to; at++ {
			if size += len(l.keys[at]); size > maxKeysBytes {
				return at
			}
		}
	}
	return to
}

// group has items with the same destination, in the order of the call.
type group struct {
	itemList
	// indexes of the items in the call.
	indexes []int
	set     routes.SetIndex
	owner   uint32
}

// part returns the items at some places of the group.
func (g *group) part(places []int) *group {
	part := &group{set: g.set, owner: g.owner}
	for _, place := range places {
		part.add(&g.itemList, place)
		part.indexes = append(part.indexes, g.indexes[place])
	}
	return part
}

// plan divides the items of a call into groups, one for each owner. All items of a uid or key are in the same group.
// outside has the indexes of the items that are in no known set.
func (t *attempts) plan(of *itemList) (groups []*group, outside []int) {
	type destination struct {
		set   routes.SetIndex
		owner uint32
	}
	directory, known := t.c.routes.Load(), map[destination]*group{}
	for i, item := range of.items {
		route, ok := t.routeOf(directory, item)
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
		g.add(of, i)
		g.indexes = append(g.indexes, i)
	}
	return groups, outside
}

// runUIDs makes a call for many uids.
func runUIDs[R any](
	c *Client, ctx context.Context, name string, of itemList, method batchMethod[R], reads bool,
) ([]R, error) {
	if len(of.items) == 0 {
		return []R{}, nil
	}
	t, failed := c.begin(ctx, name, len(of.items))
	if failed != nil {
		return nil, failed
	}
	t.reads = reads
	results, failed := runBatch(t, of, method)
	return finish(t, results, failed)
}

// runBatch makes the attempts of a call for many items.
func runBatch[R any](t *attempts, of itemList, method batchMethod[R]) ([]R, *Error) {
	groups, outside := t.plan(&of)
	if len(outside) > 0 {
		t.refresh()
		groups, outside = t.plan(&of)
	}
	for _, g := range groups {
		t.failsFast = t.failsFast || g.set != groups[0].set
	}
	results := make([]R, len(of.items))
	for _, i := range outside {
		results[i] = method.failure(errOutside(of.items[i]))
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
	return results, batchError(method, results)
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
