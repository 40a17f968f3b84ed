package fake

import (
	"context"
	"strings"

	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/wire"
)

// AddKeyspace adds a keyspace. Each node owns as many of its buckets as any other, in the order of the nodes. A world has
// at most one keyspace.
func (w *World) AddKeyspace(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var nodes []*Node
	for _, of := range w.sets {
		nodes = append(nodes, of.nodes...)
		of.version++
	}
	for bucket := range routes.Buckets {
		node := nodes[bucket*len(nodes)/routes.Buckets]
		w.buckets = append(w.buckets, section{node.set, node, 1})
	}
	w.series = append(w.series, wire.StoredSeries{
		Name: name, CreatedMS: 1, HomeSetID: w.sets[0].id,
		Lanes: &wire.Lanes{
			Count: routes.Buckets, PerSection: 1, FirstSection: uint32(len(w.sections)), Keys: &wire.Hashing{Digest: 7},
		},
	})
}

// MoveBucket gives the bucket of a key to a node of a set, under a new epoch; a node of -1 leaves it without an owner. If
// known is false, no set sends the new route in its table.
func (w *World) MoveBucket(key string, to, node int, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := routes.Bucket(key)
	moved := section{set: to, epoch: w.buckets[at].epoch + 1}
	if node >= 0 {
		moved.node = w.sets[to].nodes[node]
	}
	w.buckets[at] = moved
	for _, of := range w.sets {
		if known {
			of.version++
		}
	}
}

// addBuckets adds the routes of all buckets to the table of a set.
func (w *World) addBuckets(at int, table *wire.Routes) {
	for i, known := range w.buckets {
		run := wire.RouteRun{FirstSection: uint32(len(w.sections) + i), Sections: 1, Epoch: known.epoch}
		switch {
		case known.set != at:
			run.AwaySetID = w.sets[known.set].id
		case known.node != nil:
			run.Owner = known.node.id
		}
		if last := len(table.LaneRuns) - 1; last >= 0 {
			before := &table.LaneRuns[last]
			if before.Owner == run.Owner && before.AwaySetID == run.AwaySetID && before.Epoch == run.Epoch {
				before.Sections++
				continue
			}
		}
		table.LaneRuns = append(table.LaneRuns, run)
	}
}

// oneKey handles a request for one key.
func (n *Node) oneKey(ctx context.Context, method string, data []byte) (wire.Message, *Refusal, error) {
	// A request to advance has the fields of the other two, except for their numbers.
	var next wire.NextKeyRequest
	var current wire.CurrentKeyRequest
	var advance wire.AdvanceKeyRequest
	var err error
	name := strings.TrimPrefix(method, "KeyService/")
	switch name {
	case "Next":
		err = wire.Decode(data, &next)
		current = wire.CurrentKeyRequest{
			Keyspace: next.Keyspace, RawKey: next.RawKey, RouteVersion: next.RouteVersion, Epoch: next.Epoch,
		}
	case "Current":
		err = wire.Decode(data, &current)
	case "Advance":
		err = wire.Decode(data, &advance)
		current = wire.CurrentKeyRequest{
			Keyspace: advance.Keyspace, RawKey: advance.RawKey, RouteVersion: advance.RouteVersion, Epoch: advance.Epoch,
		}
	}
	if err != nil {
		return nil, nil, err
	}
	key := current.RawKey
	refusal, err := n.see(ctx, Seen{Method: "Key" + name, Keys: []string{key}, Epochs: []uint64{current.Epoch}})
	if refusal != nil || err != nil {
		return nil, refusal, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.buckets[routes.Bucket(key)]
	if refusal := n.refusalAt(at, false); refusal != nil {
		return nil, refusal, nil
	}
	table := w.table(n.set, current.RouteVersion)
	switch name {
	case "Next":
		value, prev := take(w.keys, key, next.Count)
		return &wire.NextResponse{Value: value, Prev: prev, Epoch: at.epoch, Routes: table}, nil, nil
	case "Current":
		response := &wire.CurrentResponse{Exactness: wire.Exact, Epoch: at.epoch, Routes: table}
		if c := w.keys[key]; c != nil {
			response.Value = c.value
		}
		return response, nil, nil
	default:
		if c := w.keys[key]; c != nil && c.value > advance.To.Value {
			return nil, &Refusal{Reason: "ALREADY_PAST", Code: 9}, nil
		}
		w.keys[key] = &counter{value: advance.To.Value}
		return &wire.AdvanceResponse{Epoch: at.epoch, Routes: table}, nil, nil
	}
}

// nextKeys handles a request for numbers of many keys.
func (n *Node) nextKeys(ctx context.Context, data []byte) (wire.Message, *Refusal, error) {
	var request wire.NextKeysRequest
	if err := wire.Decode(data, &request); err != nil {
		return nil, nil, err
	}
	refused, err := n.see(ctx, Seen{Method: "NextKeys", Keys: request.RawKeys, Epochs: request.KnownEpochs})
	if err != nil {
		return nil, nil, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	items := len(request.RawKeys)
	response := &wire.NextManyResponse{
		Values: make([]uint64, items), Prevs: make([]uint64, items), Epochs: make([]uint64, items),
	}
	for i, key := range request.RawKeys {
		at, refusal := w.buckets[routes.Bucket(key)], refused
		if refusal == nil {
			refusal = n.refusalAt(at, false)
		}
		if refusal != nil {
			response.Errors = append(response.Errors, refusal.item(i))
			continue
		}
		count := uint32(1)
		if len(request.Counts) > 0 {
			count = request.Counts[i]
		}
		response.Values[i], response.Prevs[i] = take(w.keys, key, count)
		response.Epochs[i] = at.epoch
	}
	response.Routes = w.table(n.set, request.RouteVersion)
	return response, nil, nil
}

// currentKeys handles a request for the last numbers of many keys.
func (n *Node) currentKeys(ctx context.Context, data []byte) (wire.Message, *Refusal, error) {
	var request wire.CurrentKeysRequest
	if err := wire.Decode(data, &request); err != nil {
		return nil, nil, err
	}
	refused, err := n.see(ctx, Seen{Method: "CurrentKeys", Keys: request.RawKeys, Epochs: request.KnownEpochs})
	if err != nil {
		return nil, nil, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	response := &wire.CurrentManyResponse{}
	for i, key := range request.RawKeys {
		value, exactness := uint64(0), int32(wire.Exact)
		if c := w.keys[key]; c != nil {
			value = c.value
		}
		if refused != nil {
			response.Errors = append(response.Errors, refused.item(i))
			value, exactness = 0, wire.UpperBound
		}
		response.Values = append(response.Values, value)
		response.Exactness = append(response.Exactness, exactness)
		response.Epochs = append(response.Epochs, w.buckets[routes.Bucket(key)].epoch)
	}
	return response, nil, nil
}
