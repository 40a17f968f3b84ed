package seqsvr

import (
	"encoding/json"
	"math/big"
	"slices"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

func TestAnIDIsAStringInJSON(t *testing.T) {
	data, err := json.Marshal(struct{ ID ID }{MaxID})
	if err != nil || string(data) != `{"ID":"9223372036854775807"}` {
		t.Errorf("%s, %v", data, err)
	}
	for _, text := range []string{`"9223372036854775807"`, `9223372036854775807`, `1`} {
		var id ID
		if err := json.Unmarshal([]byte(text), &id); err != nil || id == 0 {
			t.Errorf("%s: %d, %v", text, id, err)
		}
	}
	for _, text := range []string{`0`, `-1`, `1.0`, `1e3`, `""`, `"+1"`, `null`, `9223372036854775808`, `"1 "`, `true`} {
		id := ID(5)
		if err := json.Unmarshal([]byte(text), &id); err == nil && id != 5 {
			t.Errorf("%s is read as %d", text, id)
		}
	}
	if got, err := ParseID("42"); got != 42 || err != nil || got.String() != "42" {
		t.Errorf("%d, %v", got, err)
	}
}

func TestRunsAreExpandedInOrder(t *testing.T) {
	response := &wire.NextIDsResponse{Runs: []wire.IDRun{{First: 5, Count: 2}, {First: 25, Count: 3}}, Step: 10, Epoch: 3, Lane: 7}
	ids, err := checkedIDs("a:1", response, 5, 4)
	if err != nil || ids.Len() != 5 || ids.Last() != 45 || ids.Lane() != 7 || ids.Epoch() != 3 {
		t.Fatalf("%+v, %v", ids, err)
	}
	if got := slices.Collect(ids.All()); !slices.Equal(got, []ID{5, 15, 25, 35, 45}) {
		t.Errorf("%v", got)
	}
	for range ids.All() {
		break
	}
	last := &wire.NextIDsResponse{Runs: []wire.IDRun{{First: MaxID, Count: 1}}, Step: 1}
	if ids, err := checkedIDs("a:1", last, 1, 0); err != nil || ids.Last() != MaxID {
		t.Errorf("%+v, %v", ids, err)
	}
}

func TestIDsThatDoNotFitAreRefused(t *testing.T) {
	for _, test := range []struct {
		runs  []wire.IDRun
		step  uint64
		count uint32
		after ID
	}{
		{nil, 1, 1, 0},
		{[]wire.IDRun{{First: 0, Count: 1}}, 1, 1, 0},
		{[]wire.IDRun{{First: 5, Count: 1}}, 1, 2, 0},
		{[]wire.IDRun{{First: 5, Count: 3}}, 1, 2, 0},
		{[]wire.IDRun{{First: 5}, {First: 6, Count: 1}}, 1, 1, 0},
		{[]wire.IDRun{{First: 5, Count: 1}}, 0, 1, 0},
		{[]wire.IDRun{{First: 5, Count: 1}}, 1, 1, 5},
		{[]wire.IDRun{{First: 5, Count: 2}, {First: 6, Count: 1}}, 1, 3, 0},
		{[]wire.IDRun{{First: MaxID, Count: 2}}, 1, 2, 0},
		{[]wire.IDRun{{First: 1, Count: 2}}, 1<<64 - 1, 2, 0},
		{[]wire.IDRun{{First: 1<<64 - 1, Count: 1}}, 1, 1, 0},
	} {
		response := &wire.NextIDsResponse{Runs: test.runs, Step: test.step}
		if ids, err := checkedIDs("a:1", response, test.count, test.after); err == nil || err.Kind != KindBadAnswer {
			t.Errorf("%+v: %+v", test, ids)
		}
	}
}

func TestIDsAreDecoded(t *testing.T) {
	counter := &CounterShape{Offset: 2, Increment: 10, Max: 1000}
	for id, number := range map[ID]uint64{2: 1, 12: 2, 992: 100} {
		if got, ok := counter.Decode(id); !ok || got.Number != number {
			t.Errorf("%d: %+v", id, got)
		}
	}
	for _, id := range []ID{0, 1, 3, 1002, MaxID} {
		if got, ok := counter.Decode(id); ok {
			t.Errorf("%d: %+v", id, got)
		}
	}
	for id, most := range map[ID]ID{1: 0, 2: 2, 11: 2, 12: 12, 40: 32, 5000: 992} {
		if got := counter.atMost(id); got != most {
			t.Errorf("at most %d: %d", id, got)
		}
	}
	twitter := &TimedShape{Epoch: time.UnixMilli(1288834974657), Unit: time.Millisecond, TimeBits: 41, LaneBits: 10, SeqBits: 12}
	got, ok := twitter.Decode(1<<22 | 26<<12 | 7)
	want := DecodedID{Lane: 26, Number: 1<<12 | 7, Time: time.UnixMilli(1288834974658).UTC(), Seq: 7}
	if !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := twitter.Decode(MaxID); !ok {
		t.Error("the last id of 63 bits is no id")
	}
	small := &TimedShape{Unit: time.Second, TimeBits: 10, SeqBits: 12}
	if got, ok := small.Decode(1 << 22); ok {
		t.Errorf("%+v", got)
	}
}

func TestShapesThatCannotBeUsedAreUnknown(t *testing.T) {
	valid := wire.TimedShape{EpochMS: 1288834974657, UnitMS: 1, TimeBits: 41, LaneBits: 10, SeqBits: 12}
	if decodeShape(wire.Append(nil, &wire.Shape{Timed: &valid})) == nil {
		t.Fatal("a valid shape is unknown")
	}
	for name, change := range map[string]func(*wire.TimedShape){
		"no unit":    func(s *wire.TimedShape) { s.UnitMS = 0 },
		"no time":    func(s *wire.TimedShape) { s.TimeBits = 0 },
		"a sum":      func(s *wire.TimedShape) { s.SeqBits = 13 },
		"a lane":     func(s *wire.TimedShape) { s.TimeBits, s.LaneBits = 10, 21 },
		"wrapping":   func(s *wire.TimedShape) { s.TimeBits = 1<<32 - 1 },
		"the end":    func(s *wire.TimedShape) { s.UnitMS = 86_400_000 },
		"the epoch":  func(s *wire.TimedShape) { s.EpochMS = 1<<64 - 1 },
		"a day long": func(s *wire.TimedShape) { s.UnitMS = 86_400_001 },
	} {
		shape := valid
		change(&shape)
		if got := decodeShape(wire.Append(nil, &wire.Shape{Timed: &shape})); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, c := range []wire.CounterShape{
		{Offset: 1, MaxID: 5}, {Increment: 1, MaxID: 5}, {Offset: 3, Increment: 2, MaxID: 5},
		{Offset: 2, Increment: 2, MaxID: 1}, {Offset: 1, Increment: 1, MaxID: 1 << 63}, {Offset: 1, Increment: 1<<32 + 1, MaxID: 5},
	} {
		if got := decodeShape(wire.Append(nil, &wire.Shape{Counter: &c})); got != nil {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, data := range [][]byte{nil, {0xff}, {0x1a, 0}} {
		if got := decodeShape(data); got != nil {
			t.Errorf("%x: %v", data, got)
		}
	}
}

func TestCountersOverlapIfAnIDCouldBeOfBoth(t *testing.T) {
	ids := func(s *CounterShape) map[uint64]bool {
		all := map[uint64]bool{}
		for id := s.Offset; id < 200; id += s.Increment {
			all[id] = true
		}
		return all
	}
	for one := uint64(1); one <= 6; one++ {
		for other := uint64(1); other <= 6; other++ {
			for a := uint64(1); a <= one; a++ {
				for b := uint64(1); b <= other; b++ {
					x, y := &CounterShape{Offset: a, Increment: one}, &CounterShape{Offset: b, Increment: other}
					common, of := false, ids(y)
					for id := range ids(x) {
						common = common || of[id]
					}
					if overlap(x, y) != common {
						t.Errorf("%+v and %+v: %v", x, y, !common)
					}
				}
			}
		}
	}
}

// idsFrom returns count ids from first on.
func idsFrom(first ID, count uint32) IDs {
	ids, err := checkedIDs("a:1", &wire.NextIDsResponse{Runs: []wire.IDRun{{First: uint64(first), Count: count}}, Step: 1}, count, 0)
	if err != nil {
		panic(err)
	}
	return ids
}

// TestTheBufferSkipsAtMostTwiceTheUsedIDs takes ids at different rates, with fetches that take time.
func TestTheBufferSkipsAtMostTwiceTheUsedIDs(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Microsecond, time.Millisecond, 100 * time.Millisecond, time.Minute} {
		b := &idBuffer{hold: 10 * time.Second, maxSize: MaxCount}
		now, last, next, pending, requests := time.Unix(1_000_000, 0), ID(0), ID(1), uint32(0), 0
		given := uint64(0)
		for range 20_000 {
			id, ok, size := b.take(now)
			if ok {
				if id <= last {
					t.Fatalf("%d after %d", id, last)
				}
				last, given = id, given+1
			}
			if size > 0 {
				if pending > 0 {
					t.Fatal("two fetches are in flight")
				}
				pending = size
				requests++
			}
			now = now.Add(pause)
			if pending > 0 && (!ok || given%3 == 0) {
				b.fetched(idsFrom(next, pending), now)
				next, pending = next+ID(pending), 0
			}
			if unused := b.unused(); unused > 2*given+2 {
				t.Fatalf("%d unused ids for %d used ones", unused, given)
			}
		}
		if pause == time.Microsecond && requests > 100 {
			t.Errorf("%d requests for %d ids", requests, given)
		}
	}
}

func TestTheBufferDropsOldIDsAndPausesAfterFailures(t *testing.T) {
	b := &idBuffer{hold: time.Second, maxAge: time.Second, maxSize: maxTimedIDs}
	now := time.Unix(1_000_000, 0)
	if _, ok, size := b.take(now); ok || size != 1 {
		t.Errorf("%v, %d", ok, size)
	}
	b.fetched(idsFrom(5, 10), now)
	if id, ok, _ := b.take(now); !ok || id != 5 {
		t.Errorf("%d, %v", id, ok)
	}
	now = now.Add(maxIDAge + 1)
	if _, ok, size := b.take(now); ok || size == 0 || b.unused() != 9 {
		t.Errorf("%v, %d, %d unused", ok, size, b.unused())
	}
	for _, pause := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		b.failed(now)
		now = now.Add(pause*time.Millisecond - 1)
		if _, _, size := b.take(now); size != 0 {
			t.Errorf("a fetch begins before the pause of %d ms is over", pause)
		}
		now = now.Add(1)
		if _, _, size := b.take(now); size == 0 {
			t.Errorf("no fetch after the pause of %d ms", pause)
		}
	}
}

func TestTheSizeOfARangeDoesNotOverflow(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, given := range []uint64{0, 1, 1 << 40, 1 << 62} {
		for _, elapsed := range []time.Duration{0, 1, time.Hour} {
			b := &idBuffer{hold: 1 << 62, maxSize: MaxCount, lastSize: MaxCount, given: given, measuredAt: now}
			exact := new(big.Int).Mul(new(big.Int).SetUint64(given), big.NewInt(1<<62))
			exact.Div(exact, big.NewInt(int64(max(elapsed, 1))))
			want := uint32(max(min(given*2+2, MaxCount), 1))
			if exact.IsUint64() && exact.Uint64() < uint64(want) {
				want = uint32(max(exact.Uint64(), 1))
			}
			if got := b.size(now.Add(elapsed)); got != want {
				t.Errorf("%d given in %v: %d, not %d", given, elapsed, got, want)
			}
		}
	}
}
