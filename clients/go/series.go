package seqsvr

import (
	"context"

	"seqsvr.example/clients/go/internal/routes"
	"seqsvr.example/clients/go/internal/wire"
)

// Series is a handle of a series of ids. [Series.Lane] and [Series.After] return handles of the same series with other
// settings. Any node serves a call. Failed attempts are repeated as those of [Client]; ids of a lost response are
// skipped and never allocated again.
type Series struct {
	c    *Client
	name string
	lane wire.Optional
	// after is the id above which all ids of this handle are; 0 if there is no such bound.
	after ID
}

// knownSeries is a series in the routes.
type knownSeries struct {
	// home is the set that was the first to send the routes of the series' cluster.
	home  routes.SetIndex
	shape Shape
}

// Series returns a handle of the series with a name. It sends nothing: a call of a series that the seeds do not know
// fails with the reason UNKNOWN_SERIES. They know a new series within a second of its creation.
func (c *Client) Series(name string) *Series {
	return &Series{c: c, name: name}
}

// Name returns the name of the series.
func (s *Series) Name() string { return s.name }

// Lane returns a handle of the same series for the ids of one lane. In a series whose callers name lanes, calls without
// a lane are refused; in any other series, calls with one are.
func (s *Series) Lane(lane uint32) *Series {
	copied := *s
	copied.lane = wire.Some(uint64(lane))
	return &copied
}

// After returns a handle of the same series for ids above id.
func (s *Series) After(id ID) *Series {
	copied := *s
	copied.after = id
	return &copied
}

// Next takes the next id.
//
// The error is an [*Error]. If its MayHaveApplied is true, an id may have been consumed, which is then skipped.
func (s *Series) Next(ctx context.Context) (ID, error) {
	ids, err := s.Take(ctx, 1)
	return ids.Last(), err
}

// Take takes the next count ids: 1 to [MaxCount], or to 10,000 if the ids contain a time. They are of the same lane and
// in ascending order.
//
// The error is an [*Error]. If its MayHaveApplied is true, ids may have been consumed, which are then skipped.
func (s *Series) Take(ctx context.Context, count uint32) (IDs, error) {
	if count == 0 || count > MaxCount {
		return IDs{}, errCount(nil, count)
	}
	t, err := s.c.begin(ctx, "Series.Next", 1)
	if err != nil {
		return IDs{}, err
	}
	ids, err := s.take(t, count)
	return finish(t, ids, err)
}

func (s *Series) take(t *attempts, count uint32) (ids IDs, err *Error) {
	if s.after > MaxID {
		return IDs{}, s.errNoID(s.after)
	}
	request := &wire.NextIDsRequest{Series: s.name, Count: count, Lane: s.lane}
	if s.after > 0 {
		request.After = wire.Some(uint64(s.after))
	}
	err = callIDs(t, s, "IdService/Next", request, func(addr string, data *wire.NextIDsResponse) (bad *Error) {
		ids, bad = checkedIDs(addr, data, count, s.after)
		return bad
	})
	return ids, err
}

// Current reads the last id of a counter. It changes nothing. A series whose ids contain a time is refused with
// NOT_A_COUNTER.
func (s *Series) Current(ctx context.Context) (CurrentID, error) {
	t, err := s.c.begin(ctx, "Series.Current", 1)
	if err != nil {
		return CurrentID{}, err
	}
	t.reads = true
	var current CurrentID
	request := &wire.CurrentIDRequest{Series: s.name}
	err = callIDs(t, s, "IdService/Current", request, func(addr string, data *wire.CurrentIDResponse) *Error {
		current = CurrentID{ID: ID(data.ID), Exact: data.Exact, Epoch: data.Epoch}
		if data.ID > MaxID {
			return errBadAnswer(addr, "a last id above 2^63-1")
		}
		return nil
	})
	return finish(t, current, err)
}

// Advance raises a counter to one of its ids, so that its next id is above it: for imports of counters. It is
// idempotent. It returns the epoch of the ownership that applied the advance. ALREADY_PAST means that the last id is
// above id, as in [Client.Advance].
func (s *Series) Advance(ctx context.Context, id ID) (epoch uint64, err error) {
	t, failed := s.c.begin(ctx, "Series.Advance", 1)
	if failed != nil {
		return 0, failed
	}
	epoch, failed = s.advance(t, id)
	return finish(t, epoch, failed)
}

func (s *Series) advance(t *attempts, id ID) (epoch uint64, err *Error) {
	if id == 0 || id > MaxID {
		return 0, s.errNoID(id)
	}
	request := &wire.AdvanceIDRequest{Series: s.name, To: uint64(id)}
	err = callIDs(t, s, "IdService/Advance", request, func(_ string, data *wire.AdvanceIDResponse) *Error {
		epoch = data.Epoch
		return nil
	})
	return epoch, err
}

// Shape returns the shape of the ids. It sends a request only if the client does not know the series yet.
func (s *Series) Shape(ctx context.Context) (Shape, error) {
	t, err := s.c.begin(ctx, "Series.Shape", 1)
	if err != nil {
		return nil, err
	}
	known, err := s.known(t)
	return finish(t, known.shape, err)
}

// Decode returns the parts of an id. The reason NOT_AN_ID means that the number is no id of the series.
func (s *Series) Decode(ctx context.Context, id ID) (DecodedID, error) {
	shape, err := s.Shape(ctx)
	if err != nil {
		return DecodedID{}, err
	}
	decoded, ok := shape.Decode(id)
	if !ok {
		return DecodedID{}, s.errNoID(id)
	}
	return decoded, nil
}

func (s *Series) errNoID(id ID) *Error {
	return errRefusal(ReasonNotAnID, 3, "%d is no id of series %q", uint64(id), s.name)
}

// known returns the series in the newest routes. It fetches routes if they do not have it.
func (s *Series) known(t *attempts) (knownSeries, *Error) {
	for fetched := false; ; fetched = true {
		series, home, ok := t.c.routes.Load().Series(s.name)
		if ok {
			if shape := decodeShape(series.Shape); shape != nil {
				return knownSeries{home, shape}, nil
			}
		}
		if ok || fetched {
			return knownSeries{}, errRefusal(ReasonUnknownSeries, 5,
				"no series that this client can use is named %q: `seqsvr series list` lists them", s.name)
		}
		t.refresh()
		if err := t.interrupted(); err != nil {
			return knownSeries{}, err
		}
	}
}

// callIDs sends a request to one node of the cluster after another until a node responds. read reads the response.
func callIDs[R any, P response[R]](
	t *attempts, s *Series, method string, request wire.Message, read func(addr string, response P) *Error,
) *Error {
	known, err := s.known(t)
	if err != nil {
		return err
	}
	for {
		to, err := t.targetOfIDs(known.home)
		if err != nil {
			return err
		}
		var response P = new(R)
		failed, isLate := t.attempt(to, method, request, response)
		if failed == nil {
			return read(to.Addr, response)
		}
		if err := t.prepareRetry(nil, to.Addr, failed, isLate); err != nil {
			return err
		}
	}
}
