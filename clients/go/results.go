package seqsvr

import (
	"iter"

	"seqsvr.example/clients/go/internal/wire"
)

const (
	// MaxCount is the limit on the numbers of one item.
	MaxCount = 1_000_000
	// MaxSeq is the largest number.
	MaxSeq = 1<<63 - 1
	// maxItems is the limit on the items of one request. Larger batches are sent in several requests.
	maxItems = 10_000
	// MaxKeyBytes is the limit on the bytes of a key.
	MaxKeyBytes = 512
	// maxKeysBytes is the limit on the bytes of the keys of one request: half of the largest request of a server; the rest
	// is for their lengths.
	maxKeysBytes = 128 << 10
)

// Allocation has the numbers allocated for one uid or key: all numbers from First to Value. No other call gets any of them.
type Allocation struct {
	// Value is the last of the numbers, 1 to 2^63-1. With a count of 1 it is the only one.
	Value uint64 `json:"value,string"`
	// Prev is the number that was allocated directly before First; 0 if there was none, if the owner does not know it,
	// or if the uid was advanced since. A receiver that has not seen Prev has missed a message, unless Prev was consumed
	// by an attempt that Lost counts.
	Prev uint64 `json:"prev,string"`
	// Epoch of the ownership that allocated the numbers, 1 or above. For one uid it never falls.
	Epoch uint64 `json:"epoch,string"`
	// Count of the numbers.
	Count uint32 `json:"count"`
	// Lost is the number of earlier attempts of this call that got no response, of this client or of a node that
	// forwarded the call. Each may have consumed Count numbers, which are then skipped. It is 0 unless a failure occurred.
	Lost uint32 `json:"lost"`
}

// First returns the first number.
func (a Allocation) First() uint64 { return a.Value - uint64(a.Count) + 1 }

// Numbers returns all numbers, in order.
func (a Allocation) Numbers() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n := a.First(); n <= a.Value && yield(n); n++ {
		}
	}
}

// Current is the last number of a uid, or an upper bound of it.
type Current struct {
	// Value is the last number allocated, or an upper bound of it, 0 to 2^63-1. It is never smaller than a value that was
	// returned earlier for the same uid.
	Value uint64 `json:"value,string"`
	// Exact is whether Value is exactly the last number; an exact 0 means that the uid never had one. Otherwise no number
	// above Value was allocated. This is so after a crash of the section's owner, until the uid's next number.
	Exact bool `json:"exact"`
	// Epoch of the ownership that responded, 1 or above.
	Epoch uint64 `json:"epoch,string"`
}

// Item is an item of [Client.NextManyN].
type Item struct {
	UID   uint64
	Count uint32
}

// AllocationResult is the result of one item: an allocation, or an error.
type AllocationResult struct {
	Allocation
	// Err is nil if the item has an allocation, and otherwise an [*Error].
	Err error
}

// CurrentResult is the result of one item: a number, or an error.
type CurrentResult struct {
	Current
	// Err is nil if the item has a number, and otherwise an [*Error].
	Err error
}

// checkedAllocation validates the fields of a response: the first number must be above prev.
func checkedAllocation(addr string, value, prev, epoch uint64, count, lost uint32) (Allocation, *Error) {
	if value > MaxSeq || prev > value || value-prev < uint64(count) {
		return Allocation{}, errBadAnswer(addr, "numbers that do not follow each other")
	}
	return Allocation{Value: value, Prev: prev, Epoch: epoch, Count: count, Lost: lost}, nil
}

// checkedCurrent validates the fields of a response.
func checkedCurrent(addr string, value uint64, exactness int32, epoch uint64) (Current, *Error) {
	if exactness != wire.Exact && exactness != wire.UpperBound {
		return Current{}, errBadAnswer(addr, "a value that is neither exact nor a bound")
	}
	return Current{Value: value, Exact: exactness == wire.Exact, Epoch: epoch}, nil
}
