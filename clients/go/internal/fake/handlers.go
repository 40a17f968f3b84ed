package fake

import (
	"context"
	"errors"
	"io"
	"net/http"

	"seqsvr.example/clients/go/internal/rpc"
	"seqsvr.example/clients/go/internal/wire"
)

// unavailable is the gRPC code of most refusals.
const unavailable = rpc.Unavailable

// handle handles a unary request.
func (n *Node) handle(ctx context.Context, method string, data []byte) (wire.Message, *Refusal, error) {
	switch method {
	case "SequenceService/GetRoutes":
		var request wire.GetRoutesRequest
		if err := wire.Decode(data, &request); err != nil {
			return nil, nil, err
		}
		var noRoutes bool
		var held chan struct{}
		n.with(func() { noRoutes, held = n.noRoutes, n.held })
		select {
		case <-held:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if noRoutes {
			return &wire.GetRoutesResponse{}, nil, nil
		}
		n.world.mu.Lock()
		defer n.world.mu.Unlock()
		return &wire.GetRoutesResponse{Routes: n.world.table(n.set, wire.Some(request.KnownVersion))}, nil, nil
	case "SequenceService/Next":
		var request wire.NextRequest
		err := wire.Decode(data, &request)
		response := &wire.NextResponse{}
		refusal, err := n.one(ctx, err, "Next", request.UID.Value, request.Epoch, request.RouteVersion, &response.Routes,
			func(w *World) {
				response.Value, response.Prev = take(w.uids, request.UID.Value, request.Count)
				response.Epoch = w.sections[request.UID.Value/SectionSize].epoch
			})
		return response, refusal, err
	case "SequenceService/Current":
		var request wire.CurrentRequest
		err := wire.Decode(data, &request)
		response := &wire.CurrentResponse{Exactness: wire.Exact}
		refusal, err := n.one(ctx, err, "Current", request.UID.Value, request.Epoch, request.RouteVersion, &response.Routes,
			func(w *World) {
				if c := w.uids[request.UID.Value]; c != nil {
					response.Value = c.value
				}
				response.Epoch = w.sections[request.UID.Value/SectionSize].epoch
			})
		return response, refusal, err
	case "SequenceService/Advance":
		var request wire.AdvanceRequest
		err := wire.Decode(data, &request)
		response := &wire.AdvanceResponse{}
		refusal, err := n.one(ctx, err, "Advance", request.UID.Value, request.Epoch, request.RouteVersion, &response.Routes,
			func(w *World) {
				if w.uids[request.UID.Value] == nil {
					w.uids[request.UID.Value] = &counter{}
				}
				w.uids[request.UID.Value].value = request.To.Value
				response.Epoch = w.sections[request.UID.Value/SectionSize].epoch
			})
		return response, refusal, err
	case "SequenceService/NextMany":
		var request wire.NextManyRequest
		if err := wire.Decode(data, &request); err != nil {
			return nil, nil, err
		}
		return n.many(ctx, "NextMany", &request, false)
	case "SequenceService/CurrentMany":
		return n.currentMany(ctx, data)
	case "KeyService/Next", "KeyService/Current", "KeyService/Advance":
		return n.oneKey(ctx, method, data)
	case "KeyService/NextMany":
		return n.nextKeys(ctx, data)
	case "KeyService/CurrentMany":
		return n.currentKeys(ctx, data)
	case "IdService/Next":
		return n.nextIDs(ctx, data)
	case "IdService/Advance":
		return n.advanceID(ctx, data)
	default:
		return nil, nil, errUnknown
	}
}

// one handles a request for one uid. apply is called with the locked world.
func (n *Node) one(
	ctx context.Context, err error, method string, uid, epoch uint64, version wire.Optional, table **wire.Routes,
	apply func(w *World),
) (*Refusal, error) {
	if err != nil {
		return nil, err
	}
	refusal, err := n.see(ctx, Seen{Method: method, UIDs: []uint64{uid}, Epochs: []uint64{epoch}})
	if refusal != nil || err != nil {
		return refusal, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if refusal := n.refusalOf(uid, false); refusal != nil {
		return refusal, nil
	}
	apply(w)
	*table = w.table(n.set, version)
	return nil, nil
}

// refusalOf returns the refusal of an item; nil if this node serves it, or forwards it. The world is locked.
func (n *Node) refusalOf(uid uint64, nowOnly bool) *Refusal {
	w := n.world
	if uid/SectionSize >= uint64(len(w.sections)) {
		return &Refusal{Reason: "UID_OUT_OF_RANGE", Code: 11}
	}
	return n.refusalAt(w.sections[uid/SectionSize], nowOnly)
}

// refusalAt returns the refusal of an item of a section. The world is locked.
func (n *Node) refusalAt(at section, nowOnly bool) *Refusal {
	w := n.world
	switch {
	case at.node == n:
		return nil
	case nowOnly:
		return &Refusal{Reason: "WOULD_WAIT", Code: unavailable, RetryAfterMS: 1}
	case at.set != n.set && n.isIsolated():
		return &Refusal{
			Reason: "MOVED", Code: unavailable, RetryAfterMS: 1,
			Set: wire.Some(w.sets[at.set].id), Since: wire.Some(at.epoch),
		}
	case at.node == nil:
		return &Refusal{Reason: "UNSERVED", Code: unavailable, RetryAfterMS: 20}
	default:
		return nil
	}
}

func (n *Node) isIsolated() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isolated
}

func (n *Node) many(
	ctx context.Context, method string, request *wire.NextManyRequest, nowOnly bool,
) (*wire.NextManyResponse, *Refusal, error) {
	refused, err := n.see(ctx, Seen{Method: method, UIDs: request.UIDs, Epochs: request.KnownEpochs})
	if err != nil {
		return nil, nil, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	items := len(request.UIDs)
	response := &wire.NextManyResponse{
		Values: make([]uint64, items), Prevs: make([]uint64, items), Epochs: make([]uint64, items),
	}
	for i, uid := range request.UIDs {
		refusal := refused
		if refusal == nil {
			refusal = n.refusalOf(uid, nowOnly)
		}
		if refusal != nil {
			response.Errors = append(response.Errors, refusal.item(i))
			continue
		}
		count := uint32(1)
		if len(request.Counts) > 0 {
			count = request.Counts[i]
		}
		response.Values[i], response.Prevs[i] = take(w.uids, uid, count)
		response.Epochs[i] = w.sections[uid/SectionSize].epoch
	}
	response.Routes = w.table(n.set, request.RouteVersion)
	return response, nil, nil
}

func (r *Refusal) item(index int) wire.ItemError {
	return wire.ItemError{
		Index: uint32(index), Code: r.Code, Reason: r.Reason, Message: "refused: " + r.Reason,
		RetryAfterMS: r.RetryAfterMS, SetID: r.Set, Since: r.Since,
	}
}

func (n *Node) currentMany(ctx context.Context, data []byte) (wire.Message, *Refusal, error) {
	var request wire.CurrentManyRequest
	if err := wire.Decode(data, &request); err != nil {
		return nil, nil, err
	}
	refused, err := n.see(ctx, Seen{Method: "CurrentMany", UIDs: request.UIDs})
	if err != nil {
		return nil, nil, err
	}
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	response := &wire.CurrentManyResponse{}
	for i, uid := range request.UIDs {
		value := uint64(0)
		if c := n.world.uids[uid]; c != nil {
			value = c.value
		}
		exactness := int32(wire.Exact)
		if refused != nil {
			response.Errors = append(response.Errors, refused.item(i))
			value, exactness = 0, wire.UpperBound
		}
		response.Values = append(response.Values, value)
		response.Exactness = append(response.Exactness, exactness)
		response.Epochs = append(response.Epochs, 1)
	}
	return response, nil, nil
}

// nextIDs takes ids of a counter. An id that is more than 1,000 numbers ahead is refused.
func (n *Node) nextIDs(ctx context.Context, data []byte) (wire.Message, *Refusal, error) {
	var request wire.NextIDsRequest
	if err := wire.Decode(data, &request); err != nil {
		return nil, nil, err
	}
	refusal, err := n.see(ctx, Seen{Method: "IDs", UIDs: []uint64{request.After.Value}})
	if refusal != nil || err != nil {
		return nil, refusal, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.series {
		if one.Name != request.Series {
			continue
		}
		var shape wire.Shape
		if err := wire.Decode(one.Shape, &shape); err != nil {
			return nil, nil, err
		}
		counter, count := shape.Counter, uint64(max(request.Count, 1))
		number := w.counters[one.Name]
		if request.After.Value >= counter.Offset {
			number = max(number, (request.After.Value-counter.Offset)/counter.Increment+1)
		}
		if number > w.counters[one.Name]+1000 {
			return nil, &Refusal{Reason: "AFTER_TOO_FAR", Code: 11}, nil
		}
		w.counters[one.Name] = number + count
		first := counter.Offset + number*counter.Increment
		return &wire.NextIDsResponse{
			Runs: []wire.IDRun{{First: first, Count: uint32(count)}}, Step: counter.Increment, Epoch: 1,
		}, nil, nil
	}
	return nil, &Refusal{Reason: "UNKNOWN_SERIES", Code: 5}, nil
}

// advanceID raises a counter to an id.
func (n *Node) advanceID(ctx context.Context, data []byte) (wire.Message, *Refusal, error) {
	var request wire.AdvanceIDRequest
	if err := wire.Decode(data, &request); err != nil {
		return nil, nil, err
	}
	refusal, err := n.see(ctx, Seen{Method: "AdvanceID", UIDs: []uint64{request.To}})
	if refusal != nil || err != nil {
		return nil, refusal, err
	}
	w := n.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.series {
		var shape wire.Shape
		if one.Name == request.Series && wire.Decode(one.Shape, &shape) == nil {
			w.counters[one.Name] = (request.To-shape.Counter.Offset)/shape.Counter.Increment + 1
		}
	}
	return &wire.AdvanceIDResponse{Epoch: 1}, nil, nil
}

// stream serves a NextStream until its caller ends it.
func (n *Node) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w).Flush
	w.WriteHeader(http.StatusOK)
	if flush() != nil {
		return
	}
	for {
		data, err := rpc.ReadMessage(r.Body, nil)
		if errors.Is(err, io.EOF) {
			end(w, rpc.OK, "", nil)
			return
		}
		var request wire.NextStreamRequest
		if err != nil || wire.Decode(data, &request) != nil {
			panic(http.ErrAbortHandler)
		}
		n.with(func() { n.messages++ })
		many, _, err := n.many(ctx, "NextStream", request.Request, request.NowOnly)
		if err != nil || n.isCut() {
			panic(http.ErrAbortHandler)
		}
		response := &wire.NextStreamResponse{Tag: request.Tag, Response: many}
		n.changed(response)
		if _, err := w.Write(rpc.AppendMessage(nil, response)); err != nil || flush() != nil {
			return
		}
	}
}
