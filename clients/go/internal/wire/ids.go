package wire

// Messages of proto/seqsvr/v1/ids.proto and series.proto.

// StoredSeries is a series or a keyspace in a route table.
type StoredSeries struct {
	Name      string
	Shape     []byte
	Lanes     *Lanes
	CreatedMS uint64
	Retired   bool
	HomeSetID uint64
}

func (m *StoredSeries) fields(c *codec) {
	c.string(1, &m.Name)
	c.bytes(2, &m.Shape)
	one(c, 3, &m.Lanes)
	c.uint64(4, &m.CreatedMS)
	c.bool(5, &m.Retired)
	c.fixed64(6, &m.HomeSetID)
}

// Shape is the rule by which the number of a lane becomes an id. At most one of its fields is set.
type Shape struct {
	Counter *CounterShape
	Timed   *TimedShape
}

func (m *Shape) fields(c *codec) {
	// The last kind on the wire replaces an earlier one.
	if !c.encoding && c.is(1, typeBytes) {
		m.Timed = nil
	}
	if !c.encoding && c.is(2, typeBytes) {
		m.Counter = nil
	}
	one(c, 1, &m.Counter)
	one(c, 2, &m.Timed)
}

// CounterShape has the ids Offset, Offset + Increment, and so on.
type CounterShape struct {
	Offset    uint64
	Increment uint64
	MaxID     uint64
}

func (m *CounterShape) fields(c *codec) {
	c.uint64(1, &m.Offset)
	c.uint64(2, &m.Increment)
	c.uint64(3, &m.MaxID)
}

// TimedShape has ids of a time, a lane and a sequence number.
type TimedShape struct {
	EpochMS    uint64
	UnitMS     uint32
	TimeBits   uint32
	LaneBits   uint32
	SeqBits    uint32
	Spread     bool
	NamedLanes bool
	AheadMS    uint32
}

func (m *TimedShape) fields(c *codec) {
	c.uint64(1, &m.EpochMS)
	c.uint32(2, &m.UnitMS)
	c.uint32(3, &m.TimeBits)
	c.uint32(4, &m.LaneBits)
	c.uint32(5, &m.SeqBits)
	c.bool(6, &m.Spread)
	c.bool(7, &m.NamedLanes)
	c.uint32(8, &m.AheadMS)
}

// NextIDsRequest requests ids of a series.
type NextIDsRequest struct {
	Series string
	Count  uint32
	Lane   Optional
	After  Optional
}

func (m *NextIDsRequest) fields(c *codec) {
	c.string(1, &m.Series)
	c.uint32(2, &m.Count)
	c.optionalUint32(3, &m.Lane)
	c.optionalUint64(4, &m.After)
}

// NextIDsResponse has ids of a series.
type NextIDsResponse struct {
	Runs  []IDRun
	Step  uint64
	Epoch uint64
	Lane  uint32
}

func (m *NextIDsResponse) fields(c *codec) {
	many(c, 1, &m.Runs)
	c.uint64(2, &m.Step)
	c.uint64(3, &m.Epoch)
	c.uint32(4, &m.Lane)
}

// IDRun has Count ids from First on.
type IDRun struct {
	First uint64
	Count uint32
}

func (m *IDRun) fields(c *codec) {
	c.uint64(1, &m.First)
	c.uint32(2, &m.Count)
}

// CurrentIDRequest requests the last id of a counter.
type CurrentIDRequest struct {
	Series string
}

func (m *CurrentIDRequest) fields(c *codec) {
	c.string(1, &m.Series)
}

// CurrentIDResponse has the last id of a counter.
type CurrentIDResponse struct {
	ID    uint64
	Exact bool
	Epoch uint64
}

func (m *CurrentIDResponse) fields(c *codec) {
	c.uint64(1, &m.ID)
	c.bool(2, &m.Exact)
	c.uint64(3, &m.Epoch)
}

// AdvanceIDRequest requests that a counter be raised to an id.
type AdvanceIDRequest struct {
	Series string
	To     uint64
}

func (m *AdvanceIDRequest) fields(c *codec) {
	c.string(1, &m.Series)
	c.uint64(2, &m.To)
}

// AdvanceIDResponse states that a counter is at an id or above it.
type AdvanceIDResponse struct {
	Epoch uint64
}

func (m *AdvanceIDResponse) fields(c *codec) {
	c.uint64(1, &m.Epoch)
}
