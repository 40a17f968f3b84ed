package routes

import (
	"sync"
	"sync/atomic"
	"time"
)

// Constants of the retry budget, equal in all clients of the service.
const (
	// retryRatio is the number of retries that each call earns.
	retryRatio = 0.2
	// retriesPerSecond is the number of retries that each second earns, so that a client that makes few calls can retry
	// during a change of owner.
	retriesPerSecond = 10
	// maxSavedRetries is the largest balance, and that of a new client. It allows one retry for each caller in a busy
	// process, because the break of a stream causes a retry of all calls in it.
	maxSavedRetries = 1000
)

// Budget has the retries that a client may still make to one set. When a set fails, all its callers retry; without a
// limit, the retries would keep the set overloaded.
type Budget struct {
	// calls counts calls that are not in the balance yet. A call whose first attempt succeeds changes only this field.
	calls atomic.Int64

	mu        sync.Mutex
	saved     float64
	updatedAt time.Time
}

// NewBudget returns a full budget.
func NewBudget(now time.Time) *Budget {
	return &Budget{saved: maxSavedRetries, updatedAt: now}
}

// Earn counts a call at its first attempt.
func (b *Budget) Earn() { b.calls.Add(1) }

// Spend takes one retry; false if the budget is exhausted.
func (b *Budget) Spend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	seconds := max(now.Sub(b.updatedAt).Seconds(), 0)
	b.saved = min(b.saved+float64(b.calls.Swap(0))*retryRatio+seconds*retriesPerSecond, maxSavedRetries)
	b.updatedAt = now
	if b.saved < 1 {
		return false
	}
	b.saved--
	return true
}
