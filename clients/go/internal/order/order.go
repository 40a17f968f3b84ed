// Package order checks the promises about numbers in a history of calls: numbers of a uid are unique, and ordered in
// real time.
package order

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Call is a call that returned numbers.
type Call struct {
	UID uint64
	// Start and End enclose the call, by one clock.
	Start, End time.Duration
	// First to Value are the numbers, and Prev the one before them; 0 if it is unknown.
	First, Value, Prev uint64
}

// History collects calls. It may be used by several goroutines.
type History struct {
	mu    sync.Mutex
	calls []Call
}

// Add adds a call.
func (h *History) Add(call Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
}

// Len returns the number of calls.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls)
}

// Check returns a description of each violation, at most ten of them.
func (h *History) Check() (violations []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byUID := map[uint64][]Call{}
	for _, call := range h.calls {
		byUID[call.UID] = append(byUID[call.UID], call)
	}
	for uid, calls := range byUID {
		violations = append(violations, checkUID(uid, calls)...)
		if len(violations) >= 10 {
			return violations[:10]
		}
	}
	return violations
}

func checkUID(uid uint64, calls []Call) (violations []string) {
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.Value, b.Value) })
	for i := 1; i < len(calls); i++ {
		before, call := calls[i-1], calls[i]
		if call.First <= before.Value {
			violations = append(violations, fmt.Sprintf("uid %d: %+v repeats numbers of %+v", uid, call, before))
		}
		// A greater Prev is a number that a lost attempt or another caller took.
		if call.Prev != 0 && call.Prev < before.Value {
			violations = append(violations, fmt.Sprintf("uid %d: the number before %+v is that of %+v", uid, call, before))
		}
	}
	// Of the calls with greater numbers, none may have ended before this one began.
	earliest := time.Duration(1<<63 - 1)
	for i := len(calls) - 1; i >= 0; i-- {
		if earliest < calls[i].Start {
			violations = append(violations, fmt.Sprintf("uid %d: %+v began after a call with a greater number had ended", uid, calls[i]))
		}
		earliest = min(earliest, calls[i].End)
	}
	return violations
}
