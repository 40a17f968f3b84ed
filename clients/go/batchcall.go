package seqsvr

import (
	"context"
	"sync"
	"time"

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

// sendGroup sends the items of a group, in as many requests as they need, one after another, so that the items of a uid
// are processed in order. It writes their results.
func sendGroup[R any](t *attempts, g *group, method batchMethod[R], results []R) {
	start := *t
	for from := 0; from < len(g.uids); from += maxItems {
		to := min(from+maxItems, len(g.uids))
		chunk := &group{uids: g.uids[from:to], indexes: g.indexes[from:to], set: g.set, owner: g.owner}
		if g.counts != nil {
			chunk.counts = g.counts[from:to]
		}
		each := start
		sender := &batchSender[R]{method: method, results: results, unknown: map[int]int{}}
		sender.send(&each, chunk)
		sender.running.Wait()
		for index, unknown := range sender.unknown {
			if method.err(&results[index]) == nil {
				method.addLost(&results[index], unknown)
			}
		}
		t.made, t.lost = each.made, t.lost+each.lost-start.lost
	}
}

// batchSender sends items until each has a result or a permanent refusal, or until the deadline or the retry budget
// allows no retry.
//
// Invariant: items of different sets are retried separately, each under the budget of its own set. So a set that is down
// does not delay items of another set.
type batchSender[R any] struct {
	method  batchMethod[R]
	running sync.WaitGroup

	mu      sync.Mutex
	results []R
	// unknown has, for each item, the number of refusals after which it may have consumed numbers.
	unknown map[int]int
}

// retryGroup are items that are sent again in one request.
type retryGroup struct {
	set routes.SetIndex
	// charged is the set whose budget pays, if hasCharged.
	charged    routes.SetIndex
	hasCharged bool
	// moved is whether the items are sent without a backoff, because their sections moved to another set.
	moved bool
}

type retryItems struct {
	places []int
	// err is an error of the items, and hint the longest of their hints.
	err  *Error
	hint time.Duration
}

// send sends items in one request, and those that are to be retried again, in one request for each set, because any node
// of a set forwards items to their owners.
func (s *batchSender[R]) send(t *attempts, g *group) {
	to, err := t.target(g.uids[0])
	if err != nil {
		s.fail(g, err)
		return
	}
	directory := t.c.routes.Load()
	epochs := make([]uint64, len(g.uids))
	for i, uid := range g.uids {
		route, _ := directory.Route(uid)
		epochs[i] = route.Epoch
	}
	response, failed, isLate := s.method.send(t, to, g, epochs)
	if failed != nil {
		if err := t.prepareRetry(&g.uids[0], to.Addr, failed, isLate); err != nil {
			s.fail(g, err)
			return
		}
		again := retryGroups{}
		for place, uid := range g.uids {
			route, _ := t.c.routes.Load().Route(uid)
			// The backoff is over already.
			again.add(retryGroup{set: route.Set, moved: true}, place, nil)
		}
		s.sendAgain(t, g, again)
		return
	}
	t.c.adopt(response.routes, to.Addr)
	s.sendAgain(t, g, s.read(t, to, g, response, epochs))
}

// read writes the results of a response, and returns the items to send again.
func (s *batchSender[R]) read(t *attempts, to target, g *group, response batchResponse[R], epochs []uint64) retryGroups {
	for _, item := range response.errors {
		if int(item.Index) >= len(g.uids) {
			response.invalid = "an error of an item that was not sent"
		}
	}
	if response.invalid != "" {
		s.fail(g, errBadAnswer(to.Addr, response.invalid))
		return nil
	}
	type retry struct {
		place int
		found classified
	}
	var retries []retry
	moved := false
	for i := range response.errors {
		item := &response.errors[i]
		place := int(item.Index)
		found := t.classify(t.errItem(g.uids[place], item), named{item.SetID, item.Since}, epochs[place])
		if found.err.Retryable && !t.isFinal(found.err) {
			retries = append(retries, retry{place, found})
			moved = moved || found.moved
			if isOutcomeUnknown(item.Reason) {
				s.addUnknown(g.indexes[place])
			}
		}
		response.results[place] = s.method.failure(found.err)
	}
	for place, index := range g.indexes {
		result := response.results[place]
		if t.lost > 0 && s.method.err(&result) == nil {
			s.method.addLost(&result, t.lost)
		}
		s.set(index, result)
	}
	if moved {
		t.followed++
	}
	// The sets are those after the response's routes and all its statements about moved sections were adopted.
	again := retryGroups{}
	for _, retry := range retries {
		route, _ := t.c.routes.Load().Route(g.uids[retry.place])
		key := retryGroup{route.Set, retry.found.charged, retry.found.hasCharged, retry.found.moved}
		again.add(key, retry.place, retry.found.err)
	}
	return again
}

type retryGroups map[retryGroup]*retryItems

func (r retryGroups) add(key retryGroup, place int, err *Error) {
	items := r[key]
	if items == nil {
		items = &retryItems{err: err}
		r[key] = items
	}
	items.places = append(items.places, place)
	if err != nil {
		items.hint = max(items.hint, err.RetryAfter)
	}
}

// sendAgain sends the items of each group again, after a backoff unless they moved.
func (s *batchSender[R]) sendAgain(t *attempts, g *group, again retryGroups) {
	for key, items := range again {
		fork, part := *t, g.part(items.places)
		if key.hasCharged {
			fork.route.Set = key.charged
		}
		s.running.Add(1)
		go func() {
			defer s.running.Done()
			if !key.moved {
				if err := fork.pause(items.err, items.hint, false); err != nil {
					// The items keep their errors, unless the call was interrupted.
					if err != items.err {
						s.fail(part, err)
					}
					return
				}
			}
			s.send(&fork, part)
		}()
	}
}

// fail sets an error as the result of items.
func (s *batchSender[R]) fail(g *group, err *Error) {
	for place, index := range g.indexes {
		copied := *err
		if copied.HasUID || copied.Kind == KindUIDOutside {
			copied.UID, copied.HasUID = g.uids[place], true
		}
		s.set(index, s.method.failure(&copied))
	}
}

// set replaces the result of an item by that of a later attempt. If both are errors, the later one states as well that
// numbers may have been consumed.
func (s *batchSender[R]) set(index int, result R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.method.err(&s.results[index]), s.method.err(&result)
	if err != nil && before != nil && before.MayHaveApplied && !err.MayHaveApplied {
		copied := *err
		copied.MayHaveApplied = true
		result = s.method.failure(&copied)
	}
	s.results[index] = result
}

func (s *batchSender[R]) addUnknown(index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown[index]++
}
