package seqsvr

import (
	"sync"
	"time"

	"seqsvr.example/clients/go/internal/routes"
)

// sendGroup sends the items of a group, in as many requests as they need, one after another, so that the items of a uid
// are processed in order. It writes their results.
func sendGroup[R any](t *attempts, g *group, method batchMethod[R], results []R) {
	start := *t
	for from, to := 0, 0; from < len(g.items); from = to {
		to = g.fitting(from)
		chunk := &group{itemList: g.itemList.part(from, to), indexes: g.indexes[from:to], set: g.set, owner: g.owner}
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
	to, err := t.target(g.items[0])
	if err != nil {
		s.fail(g, err)
		return
	}
	directory := t.c.routes.Load()
	epochs := make([]uint64, len(g.items))
	for i, item := range g.items {
		route, _ := t.routeOf(directory, item)
		epochs[i] = route.Epoch
	}
	response, failed, isLate := s.method.send(t, to, g, epochs)
	if failed != nil {
		if err := t.prepareRetry(&g.items[0], to.Addr, failed, isLate); err != nil {
			s.fail(g, err)
			return
		}
		again := retryGroups{}
		for place, item := range g.items {
			route, _ := t.routeOf(t.c.routes.Load(), item)
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
	for _, refusal := range response.errors {
		if int(refusal.Index) >= len(g.items) {
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
		refusal := &response.errors[i]
		place := int(refusal.Index)
		item := g.items[place]
		found := t.classify(&item, t.errItem(item, refusal), named{refusal.SetID, refusal.Since}, epochs[place])
		if found.err.Retryable && !t.isFinal(found.err) {
			retries = append(retries, retry{place, found})
			moved = moved || found.moved
			if isOutcomeUnknown(refusal.Reason) {
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
		route, _ := t.routeOf(t.c.routes.Load(), g.items[retry.place])
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
			copied.UID, copied.HasUID = g.items[place], true
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
