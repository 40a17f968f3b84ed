package seqsvr

import (
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

// MaxID is the largest id.
const MaxID = 1<<63 - 1

// ID is an id of a series, 1 to [MaxID]. In JSON it is a string, because JavaScript reads a number as a double, which is
// not exact above 2^53 - 1. It is read from a string or an integer.
type ID uint64

// String returns the id in decimal digits.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 10) }

// ParseID reads an id in decimal digits.
func ParseID(text string) (ID, error) {
	id, err := strconv.ParseUint(text, 10, 63)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q is no id: an id is 1 to %d in decimal digits", text, uint64(MaxID))
	}
	return ID(id), nil
}

// MarshalJSON returns the id as a string.
func (id ID) MarshalJSON() ([]byte, error) { return []byte(`"` + id.String() + `"`), nil }

// UnmarshalJSON reads the id from a string or an integer.
func (id *ID) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	parsed, err := ParseID(text)
	if err == nil {
		*id = parsed
	}
	return err
}

// IDs are ids that one call allocated, in ascending order. No other call gets any of them.
type IDs struct {
	runs []wire.IDRun
	step uint64
	last ID
	// count is the number of ids.
	count uint32
	lane  uint32
	epoch uint64
}

// Len returns the number of ids.
func (ids IDs) Len() int { return int(ids.count) }

// Last returns the last id.
func (ids IDs) Last() ID { return ids.last }

// Lane returns the lane of the ids; 0 for a counter.
func (ids IDs) Lane() uint32 { return ids.lane }

// Epoch returns the epoch of the ownership that allocated the ids, 1 or above.
func (ids IDs) Epoch() uint64 { return ids.epoch }

// All returns the ids in order.
func (ids IDs) All() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for _, run := range ids.runs {
			for i := range uint64(run.Count) {
				if !yield(ID(run.First + i*ids.step)) {
					return
				}
			}
		}
	}
}

// checkedIDs validates a response: it must have count ids in ascending order, all of them above after.
func checkedIDs(addr string, response *wire.NextIDsResponse, count uint32, after ID) (IDs, *Error) {
	const outOfOrder = "runs that are no ascending ids"
	left, last := count, uint64(after)
	for _, run := range response.Runs {
		if run.Count == 0 || run.Count > left || response.Step == 0 || run.First <= last || run.First > MaxID {
			return IDs{}, errBadAnswer(addr, outOfOrder)
		}
		steps := uint64(run.Count) - 1
		if steps > (MaxID-run.First)/response.Step {
			return IDs{}, errBadAnswer(addr, outOfOrder)
		}
		left, last = left-run.Count, run.First+steps*response.Step
	}
	if left > 0 {
		return IDs{}, errBadAnswer(addr, "another number of ids than requested")
	}
	return IDs{
		runs: response.Runs, step: response.Step, last: ID(last), count: count, lane: response.Lane, epoch: response.Epoch,
	}, nil
}

// CurrentID is the last id of a counter, or an upper bound of it.
type CurrentID struct {
	// ID is the last id, or an upper bound of it; 0 if the counter never had an id.
	ID ID `json:"id"`
	// Exact is whether ID is exactly the last id. Otherwise it is an upper bound, as after a crash of the section's owner,
	// until the next id.
	Exact bool `json:"exact"`
	// Epoch of the ownership that responded, 1 or above.
	Epoch uint64 `json:"epoch,string"`
}

// DecodedID has the parts of an id.
type DecodedID struct {
	// Lane of the id; 0 for a counter.
	Lane uint32
	// Number of the lane's counter from which the id was made.
	Number uint64
	// Time in the id; zero for a counter.
	Time time.Time
	// Seq is the sequence number in the unit of time; 0 for a counter.
	Seq uint64
}

// Shape is the rule by which the number of a lane becomes an id: a [*CounterShape] or a [*TimedShape].
type Shape interface {
	// Decode returns the parts of an id; false for a number that is no id of the shape.
	Decode(id ID) (DecodedID, bool)
	// String describes the ids.
	String() string
}

// CounterShape has the ids Offset, Offset + Increment, and so on, up to Max.
type CounterShape struct {
	Offset, Increment uint64
	Max               ID
}

// Decode returns the parts of an id.
func (s *CounterShape) Decode(id ID) (DecodedID, bool) {
	if uint64(id) < s.Offset || id > s.Max || (uint64(id)-s.Offset)%s.Increment != 0 {
		return DecodedID{}, false
	}
	return DecodedID{Number: (uint64(id)-s.Offset)/s.Increment + 1}, true
}

// String describes the ids.
func (s *CounterShape) String() string {
	return fmt.Sprintf("%d and every %d after it, up to %d", s.Offset, s.Increment, s.Max)
}

// atMost returns the highest id up to id; 0 if there is none.
func (s *CounterShape) atMost(id ID) ID {
	id = min(id, s.Max)
	if uint64(id) < s.Offset {
		return 0
	}
	return ID(s.Offset + (uint64(id)-s.Offset)/s.Increment*s.Increment)
}

// TimedShape has ids of a time, a lane and a sequence number, from the highest bit to the lowest.
type TimedShape struct {
	// Epoch is time 0, and Unit the unit of time.
	Epoch time.Time
	Unit  time.Duration
	// TimeBits, LaneBits and SeqBits are the numbers of bits of the parts, at most 63 in sum.
	TimeBits, LaneBits, SeqBits uint
	// NamedLanes is whether callers name the lane, instead of the server.
	NamedLanes bool
}

// Decode returns the parts of an id.
func (s *TimedShape) Decode(id ID) (DecodedID, bool) {
	units := uint64(id) >> (s.LaneBits + s.SeqBits)
	if id == 0 || id > MaxID || units>>s.TimeBits != 0 {
		return DecodedID{}, false
	}
	seq := uint64(id) & (1<<s.SeqBits - 1)
	return DecodedID{
		Lane:   uint32(uint64(id) >> s.SeqBits & (1<<s.LaneBits - 1)),
		Number: units<<s.SeqBits | seq,
		// In milliseconds, because a time.Duration ends after 292 years.
		Time: time.UnixMilli(s.Epoch.UnixMilli() + int64(units)*s.Unit.Milliseconds()).UTC(),
		Seq:  seq,
	}, true
}

// String describes the ids.
func (s *TimedShape) String() string {
	return fmt.Sprintf("%d bits of %v since %s, %d bits of a lane and %d of a sequence number",
		s.TimeBits, s.Unit, s.Epoch.Format(time.DateOnly), s.LaneBits, s.SeqBits)
}

const (
	maxIncrement = 1 << 32
	maxUnitMS    = 86_400_000
	maxLaneBits  = 20
	// lastMS is the last millisecond of the year 9999.
	lastMS = 253_402_300_799_999
)

// decodeShape decodes the shape of a series; nil for a shape that only later releases know.
func decodeShape(data []byte) Shape {
	var shape wire.Shape
	if wire.Decode(data, &shape) != nil {
		return nil
	}
	if c := shape.Counter; c != nil {
		if c.Increment == 0 || c.Increment > maxIncrement || c.Offset == 0 || c.Offset > c.Increment ||
			c.MaxID < c.Offset || c.MaxID > MaxID {
			return nil
		}
		return &CounterShape{Offset: c.Offset, Increment: c.Increment, Max: ID(c.MaxID)}
	}
	t := shape.Timed
	if t == nil || t.UnitMS == 0 || t.UnitMS > maxUnitMS || t.TimeBits == 0 || t.LaneBits > maxLaneBits ||
		t.TimeBits > 63 || t.SeqBits > 63 || t.TimeBits+t.LaneBits+t.SeqBits > 63 {
		return nil
	}
	if t.EpochMS > lastMS || uint64(1)<<t.TimeBits > (lastMS+1-t.EpochMS)/uint64(t.UnitMS) {
		return nil
	}
	return &TimedShape{
		Epoch: time.UnixMilli(int64(t.EpochMS)).UTC(), Unit: time.Duration(t.UnitMS) * time.Millisecond,
		TimeBits: uint(t.TimeBits), LaneBits: uint(t.LaneBits), SeqBits: uint(t.SeqBits), NamedLanes: t.NamedLanes,
	}
}
