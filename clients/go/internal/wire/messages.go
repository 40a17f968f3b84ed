package wire

// Messages of proto/seqsvr/v1/sequence.proto and route.proto. The comments of their fields are in the protos.

// NextRequest requests numbers of one uid.
type NextRequest struct {
	UID          Optional
	Count        uint32
	RouteVersion Optional
	Epoch        uint64
	Hops         uint32
}

func (m *NextRequest) fields(c *codec) {
	c.optionalUint64(1, &m.UID)
	c.uint32(2, &m.Count)
	c.optionalUint64(3, &m.RouteVersion)
	c.uint64(4, &m.Epoch)
	c.uint32(5, &m.Hops)
}

// NextResponse has numbers of one uid.
type NextResponse struct {
	Value  uint64
	Prev   uint64
	Epoch  uint64
	Routes *Routes
	Lost   Optional
}

func (m *NextResponse) fields(c *codec) {
	c.uint64(1, &m.Value)
	c.uint64(2, &m.Prev)
	c.uint64(3, &m.Epoch)
	one(c, 4, &m.Routes)
	c.optionalUint32(5, &m.Lost)
}

// NextManyRequest requests numbers of many uids.
type NextManyRequest struct {
	UIDs         []uint64
	Counts       []uint32
	RouteVersion Optional
	Hops         uint32
	KnownEpochs  []uint64
}

func (m *NextManyRequest) fields(c *codec) {
	list(c, 1, &m.UIDs)
	list(c, 2, &m.Counts)
	c.optionalUint64(3, &m.RouteVersion)
	c.uint32(4, &m.Hops)
	list(c, 5, &m.KnownEpochs)
}

// NextManyResponse has the results of many uids.
type NextManyResponse struct {
	Values []uint64
	Prevs  []uint64
	Epochs []uint64
	Errors []ItemError
	Routes *Routes
	Lost   *LostAttempts
}

func (m *NextManyResponse) fields(c *codec) {
	list(c, 1, &m.Values)
	list(c, 2, &m.Prevs)
	list(c, 3, &m.Epochs)
	many(c, 4, &m.Errors)
	one(c, 5, &m.Routes)
	one(c, 6, &m.Lost)
}

// LostAttempts counts attempts of items with unknown outcome.
type LostAttempts struct {
	Indexes  []uint32
	Attempts []uint32
}

func (m *LostAttempts) fields(c *codec) {
	list(c, 1, &m.Indexes)
	list(c, 2, &m.Attempts)
}

// ItemError is the refusal of one item of a batch.
type ItemError struct {
	Index        uint32
	Code         uint32
	Reason       string
	Message      string
	RetryAfterMS uint32
	SetID        Optional
	Since        Optional
}

func (m *ItemError) fields(c *codec) {
	c.uint32(1, &m.Index)
	c.uint32(2, &m.Code)
	c.string(3, &m.Reason)
	c.string(4, &m.Message)
	c.uint32(5, &m.RetryAfterMS)
	c.optionalFixed64(6, &m.SetID)
	c.optionalUint64(7, &m.Since)
}

// NextStreamRequest is one message of a stream.
type NextStreamRequest struct {
	Tag       uint64
	Request   *NextManyRequest
	TimeoutMS uint32
	NowOnly   bool
}

func (m *NextStreamRequest) fields(c *codec) {
	c.uint64(1, &m.Tag)
	one(c, 2, &m.Request)
	c.uint32(3, &m.TimeoutMS)
	c.bool(4, &m.NowOnly)
}

// NextStreamResponse is the response to one message of a stream. At most one of Response and Refusal is set.
type NextStreamResponse struct {
	Tag      uint64
	Response *NextManyResponse
	Refusal  *ItemError
}

func (m *NextStreamResponse) fields(c *codec) {
	c.uint64(1, &m.Tag)
	// The last outcome on the wire replaces an earlier one.
	if !c.encoding && c.is(2, typeBytes) {
		m.Refusal = nil
	}
	if !c.encoding && c.is(3, typeBytes) {
		m.Response = nil
	}
	one(c, 2, &m.Response)
	one(c, 3, &m.Refusal)
}

// CurrentRequest requests the last number of one uid.
type CurrentRequest struct {
	UID          Optional
	RouteVersion Optional
	Epoch        uint64
	Hops         uint32
}

func (m *CurrentRequest) fields(c *codec) {
	c.optionalUint64(1, &m.UID)
	c.optionalUint64(2, &m.RouteVersion)
	c.uint64(3, &m.Epoch)
	c.uint32(4, &m.Hops)
}

// Values of the enumeration Exactness.
const (
	Exact      = 1
	UpperBound = 2
)

// CurrentResponse has the last number of one uid.
type CurrentResponse struct {
	Value     uint64
	Exactness int32
	Epoch     uint64
	Routes    *Routes
}

func (m *CurrentResponse) fields(c *codec) {
	c.uint64(1, &m.Value)
	c.int32(2, &m.Exactness)
	c.uint64(3, &m.Epoch)
	one(c, 4, &m.Routes)
}

// CurrentManyRequest requests the last numbers of many uids.
type CurrentManyRequest struct {
	UIDs         []uint64
	RouteVersion Optional
	Hops         uint32
	KnownEpochs  []uint64
}

func (m *CurrentManyRequest) fields(c *codec) {
	list(c, 1, &m.UIDs)
	c.optionalUint64(2, &m.RouteVersion)
	c.uint32(3, &m.Hops)
	list(c, 4, &m.KnownEpochs)
}

// CurrentManyResponse has the last numbers of many uids.
type CurrentManyResponse struct {
	Values    []uint64
	Exactness []int32
	Epochs    []uint64
	Errors    []ItemError
	Routes    *Routes
}

func (m *CurrentManyResponse) fields(c *codec) {
	list(c, 1, &m.Values)
	list(c, 2, &m.Exactness)
	list(c, 3, &m.Epochs)
	many(c, 4, &m.Errors)
	one(c, 5, &m.Routes)
}

// AdvanceRequest requests that one uid be raised to a number.
type AdvanceRequest struct {
	UID          Optional
	To           Optional
	RouteVersion Optional
	Epoch        uint64
	Hops         uint32
}

func (m *AdvanceRequest) fields(c *codec) {
	c.optionalUint64(1, &m.UID)
	c.optionalUint64(2, &m.To)
	c.optionalUint64(3, &m.RouteVersion)
	c.uint64(4, &m.Epoch)
	c.uint32(5, &m.Hops)
}

// AdvanceResponse states that a uid is at a number or above it.
type AdvanceResponse struct {
	Epoch  uint64
	Routes *Routes
}

func (m *AdvanceResponse) fields(c *codec) {
	c.uint64(1, &m.Epoch)
	one(c, 2, &m.Routes)
}

// GetRoutesRequest requests the route table.
type GetRoutesRequest struct {
	KnownVersion uint64
}

func (m *GetRoutesRequest) fields(c *codec) {
	c.uint64(1, &m.KnownVersion)
}

// GetRoutesResponse has the node's route table.
type GetRoutesResponse struct {
	Routes *Routes
}

func (m *GetRoutesResponse) fields(c *codec) {
	one(c, 1, &m.Routes)
}

// Routes is a whole route table, or the part of it that is newer than BaseVersion.
type Routes struct {
	Set         string
	Version     uint64
	BaseVersion uint64
	UIDStart    uint64
	UIDEnd      uint64
	SectionSize uint32
	Nodes       []RouteNode
	Runs        []RouteRun
	SetID       uint64
	Sets        []RouteSet
	Series      []StoredSeries
	LaneRuns    []RouteRun
}

func (m *Routes) fields(c *codec) {
	c.string(1, &m.Set)
	c.uint64(2, &m.Version)
	c.uint64(3, &m.BaseVersion)
	c.uint64(4, &m.UIDStart)
	c.uint64(5, &m.UIDEnd)
	c.uint32(6, &m.SectionSize)
	many(c, 7, &m.Nodes)
	many(c, 8, &m.Runs)
	c.fixed64(9, &m.SetID)
	many(c, 10, &m.Sets)
	many(c, 11, &m.Series)
	many(c, 12, &m.LaneRuns)
}

// RouteSet is another set of the cluster.
type RouteSet struct {
	ID     uint64
	Name   string
	Allocs []string
}

func (m *RouteSet) fields(c *codec) {
	c.fixed64(1, &m.ID)
	c.string(2, &m.Name)
	c.strings(3, &m.Allocs)
}

// RouteNode is an AllocSvr that may own sections.
type RouteNode struct {
	ID   uint32
	Name string
	Addr string
}

func (m *RouteNode) fields(c *codec) {
	c.uint32(1, &m.ID)
	c.string(2, &m.Name)
	c.string(3, &m.Addr)
}

// RouteRun is a run of neighbouring sections with the same owner and epoch.
type RouteRun struct {
	FirstSection uint32
	Sections     uint32
	Owner        uint32
	Epoch        uint64
	AwaySetID    uint64
}

func (m *RouteRun) fields(c *codec) {
	c.uint32(1, &m.FirstSection)
	c.uint32(2, &m.Sections)
	c.uint32(3, &m.Owner)
	c.uint64(4, &m.Epoch)
	c.fixed64(5, &m.AwaySetID)
}
