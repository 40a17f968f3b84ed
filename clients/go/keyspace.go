package seqsvr

import (
	"context"

	"seqsvr.example/clients/go/internal/wire"
)

// Keyspace is a handle of a keyspace: counters of keys, which are strings of any bytes, 1 to [MaxKeyBytes] of them. A
// call is sent to the owner of its key's bucket, and any node serves it while that one cannot be reached. Failed
// attempts are repeated as the attempts of [Client]; numbers of a lost response are skipped and never allocated again.
//
// An error of a call for a key has no uid. A key of another size is refused with the reason KEY_SIZE, and is not
// sent.
type Keyspace struct {
	c    *Client
	name string
}

// KeyItem is an item of [Keyspace.NextManyN].
type KeyItem struct {
	Key   string
	Count uint32
}

// Keyspace returns the handle of the keyspace with a name. It sends nothing: a call of a keyspace that the seeds do not
// know fails with the reason UNKNOWN_KEYSPACE. They know a new keyspace within a second of its creation.
func (c *Client) Keyspace(name string) *Keyspace {
	return &Keyspace{c: c, name: name}
}

// Name returns the name of the keyspace.
func (k *Keyspace) Name() string { return k.name }

// Next allocates the next number of a key.
//
// The error is an [*Error]. If its MayHaveApplied is true, a number may have been consumed, which is then skipped.
func (k *Keyspace) Next(ctx context.Context, key string) (Allocation, error) {
	return k.NextN(ctx, key, 1)
}

// NextN allocates the next count numbers of a key, 1 to [MaxCount], which are contiguous.
//
// The error is an [*Error]. If its MayHaveApplied is true, numbers may have been consumed, which are then skipped.
func (k *Keyspace) NextN(ctx context.Context, key string, count uint32) (Allocation, error) {
	if count == 0 || count > MaxCount {
		return Allocation{}, errCount(nil, count)
	}
	t, section, failed := k.begin(ctx, "Keyspace.Next", key)
	if failed != nil {
		return Allocation{}, failed
	}
	var allocation Allocation
	failed = unary(t, section, "KeyService/Next",
		func(to target) wire.Message {
			return &wire.NextKeyRequest{
				Keyspace: k.name, RawKey: key, Count: count, RouteVersion: to.routeVersion, Epoch: to.epoch,
			}
		},
		func(addr string, data *wire.NextResponse) (*wire.Routes, *Error) {
			lost := uint32(data.Lost.Value) + uint32(t.lost)
			var bad *Error
			allocation, bad = checkedAllocation(addr, data.Value, data.Prev, data.Epoch, count, lost)
			return data.Routes, bad
		})
	return finish(t, allocation, failed)
}

// NextMany allocates one number for each key, with one request to each node that owns buckets of these keys. A key that
// occurs twice gets two numbers, of which the first occurrence gets the smaller one, unless its item had to be retried.
// The number of keys is not limited: the keys of an owner are sent in requests of up to 10,000 keys and 128 KiB, one after
// another.
//
// It returns results and an error as [Client.NextMany] does. A key of another size refuses its own item, with the reason
// KEY_SIZE, and is not sent.
func (k *Keyspace) NextMany(ctx context.Context, keys []string) ([]AllocationResult, error) {
	return runKeys(k, ctx, "Keyspace.NextMany", keys, nil, nextKeys{name: k.name}, false)
}

// NextManyN allocates Count numbers for each item, otherwise as [Keyspace.NextMany]. Each count is 1 to [MaxCount]; if
// one is not, nothing is sent.
func (k *Keyspace) NextManyN(ctx context.Context, items []KeyItem) ([]AllocationResult, error) {
	keys, counts := make([]string, len(items)), make([]uint32, len(items))
	for i, item := range items {
		if item.Count == 0 || item.Count > MaxCount {
			return nil, errCount(nil, item.Count)
		}
		keys[i], counts[i] = item.Key, item.Count
	}
	return runKeys(k, ctx, "Keyspace.NextMany", keys, counts, nextKeys{name: k.name}, false)
}

// Current reads the last number of a key. It changes no counter.
func (k *Keyspace) Current(ctx context.Context, key string) (Current, error) {
	t, section, failed := k.begin(ctx, "Keyspace.Current", key)
	if failed != nil {
		return Current{}, failed
	}
	t.reads = true
	var current Current
	failed = unary(t, section, "KeyService/Current",
		func(to target) wire.Message {
			return &wire.CurrentKeyRequest{Keyspace: k.name, RawKey: key, RouteVersion: to.routeVersion, Epoch: to.epoch}
		},
		func(addr string, data *wire.CurrentResponse) (*wire.Routes, *Error) {
			var bad *Error
			current, bad = checkedCurrent(addr, data.Value, data.Exactness, data.Epoch)
			return data.Routes, bad
		})
	return finish(t, current, failed)
}

// CurrentMany reads the last number of each key, otherwise as [Keyspace.NextMany]. It changes no counter.
func (k *Keyspace) CurrentMany(ctx context.Context, keys []string) ([]CurrentResult, error) {
	return runKeys(k, ctx, "Keyspace.CurrentMany", keys, nil, currentKeys{name: k.name}, true)
}

// Advance raises the counter of a key to a number, 0 to 2^62-1, so that the key's next number is above it: for imports
// of counters. It is idempotent. It returns the epoch of the ownership that applied the advance.
//
// The refusal ALREADY_PAST means that the last number of the key is above the number, or may be; see [Client.Advance].
func (k *Keyspace) Advance(ctx context.Context, key string, to uint64) (epoch uint64, err error) {
	t, section, failed := k.begin(ctx, "Keyspace.Advance", key)
	if failed != nil {
		return 0, failed
	}
	failed = unary(t, section, "KeyService/Advance",
		func(at target) wire.Message {
			return &wire.AdvanceKeyRequest{
				Keyspace: k.name, RawKey: key, To: wire.Some(to), RouteVersion: at.routeVersion, Epoch: at.epoch,
			}
		},
		func(_ string, data *wire.AdvanceResponse) (*wire.Routes, *Error) {
			epoch = data.Epoch
			return data.Routes, nil
		})
	return finish(t, epoch, failed)
}

// begin starts a call for a key. It returns the section of the key's bucket as well.
func (k *Keyspace) begin(ctx context.Context, method, key string) (t *attempts, section uint64, err *Error) {
	if err := checkKey(key); err != nil {
		return nil, 0, err
	}
	if t, err = k.c.begin(ctx, method, 1); err != nil {
		return nil, 0, err
	}
	if err := k.find(t); err != nil {
		return nil, 0, t.end(err)
	}
	return t, t.keyspace.Section(key), nil
}

// find sets the keyspace of a call to that in the newest routes. It fetches routes if they do not have it.
func (k *Keyspace) find(t *attempts) *Error {
	for fetched := false; ; fetched = true {
		if keyspace, ok := t.c.routes.Load().Keyspace(k.name); ok {
			t.keyspace = &keyspace
			return nil
		}
		if fetched {
			return errRefusal(ReasonUnknownKeyspace, 5, "no keyspace is named %q: `seqsvr keyspace list` lists them", k.name)
		}
		t.refresh()
		if err := t.interrupted(); err != nil {
			return err
		}
	}
}

// runKeys makes a call for many keys. A key of another size refuses its own item, and is not sent.
func runKeys[R any](
	k *Keyspace, ctx context.Context, name string, keys []string, counts []uint32, method batchMethod[R], reads bool,
) ([]R, error) {
	all, of := itemList{keys: keys, counts: counts}, itemList{}
	results, places := make([]R, len(keys)), make([]int, 0, len(keys))
	for i, key := range keys {
		if err := checkKey(key); err != nil {
			results[i] = method.failure(err)
			continue
		}
		places = append(places, i)
	}
	if len(places) == 0 {
		return results, nil
	}
	t, failed := k.c.begin(ctx, name, len(places))
	if failed != nil {
		return nil, failed
	}
	t.reads = reads
	if err := k.find(t); err != nil {
		return nil, t.end(err)
	}
	all.items = make([]uint64, len(keys))
	for _, place := range places {
		all.items[place] = t.keyspace.Section(keys[place])
		of.add(&all, place)
	}
	given, failed := runBatch(t, of, method)
	for i, place := range places {
		results[place] = given[i]
	}
	return finish(t, results, failed)
}

// nextKeys allocates numbers of many keys of a keyspace.
type nextKeys struct {
	nextMany
	name string
}

func (m nextKeys) send(t *attempts, to target, g *group, epochs []uint64) (batchResponse[AllocationResult], error, bool) {
	request := &wire.NextKeysRequest{
		Keyspace: m.name, RawKeys: g.keys, Counts: g.counts, RouteVersion: to.routeVersion, KnownEpochs: epochs,
	}
	return sendNextMany(t, to, g, "KeyService/NextMany", request)
}

// currentKeys reads the last numbers of many keys of a keyspace.
type currentKeys struct {
	currentMany
	name string
}

func (m currentKeys) send(t *attempts, to target, g *group, epochs []uint64) (batchResponse[CurrentResult], error, bool) {
	request := &wire.CurrentKeysRequest{
		Keyspace: m.name, RawKeys: g.keys, RouteVersion: to.routeVersion, KnownEpochs: epochs,
	}
	return sendCurrentMany(t, to, g, "KeyService/CurrentMany", request)
}

// checkKey returns the refusal KEY_SIZE for a key of another size.
func checkKey(key string) *Error {
	if len(key) == 0 || len(key) > MaxKeyBytes {
		return errRefusal(ReasonKeySize, 3, "the key has %d bytes: a key has 1 to %d", len(key), MaxKeyBytes)
	}
	return nil
}
