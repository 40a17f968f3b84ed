package wire

// Messages of proto/seqsvr/v1/keys.proto. Keys are any bytes, so the fields of keys as text are left out.

// NextKeyRequest requests numbers of one key.
type NextKeyRequest struct {
	Keyspace     string
	RawKey       string
	Count        uint32
	RouteVersion Optional
	Epoch        uint64
}

func (m *NextKeyRequest) fields(c *codec) {
	c.string(1, &m.Keyspace)
	c.rawString(3, &m.RawKey)
	c.uint32(4, &m.Count)
	c.optionalUint64(5, &m.RouteVersion)
	c.uint64(6, &m.Epoch)
}

// NextKeysRequest requests numbers of many keys of one keyspace.
type NextKeysRequest struct {
	Keyspace     string
	RawKeys      []string
	Counts       []uint32
	RouteVersion Optional
	KnownEpochs  []uint64
}

func (m *NextKeysRequest) fields(c *codec) {
	c.string(1, &m.Keyspace)
	c.rawStrings(3, &m.RawKeys)
	list(c, 4, &m.Counts)
	c.optionalUint64(5, &m.RouteVersion)
	list(c, 6, &m.KnownEpochs)
}

// CurrentKeyRequest requests the last number of one key.
type CurrentKeyRequest struct {
	Keyspace     string
	RawKey       string
	RouteVersion Optional
	Epoch        uint64
}

func (m *CurrentKeyRequest) fields(c *codec) {
	c.string(1, &m.Keyspace)
	c.rawString(3, &m.RawKey)
	c.optionalUint64(4, &m.RouteVersion)
	c.uint64(5, &m.Epoch)
}

// CurrentKeysRequest requests the last numbers of many keys of one keyspace.
type CurrentKeysRequest struct {
	Keyspace     string
	RawKeys      []string
	RouteVersion Optional
	KnownEpochs  []uint64
}

func (m *CurrentKeysRequest) fields(c *codec) {
	c.string(1, &m.Keyspace)
	c.rawStrings(3, &m.RawKeys)
	c.optionalUint64(4, &m.RouteVersion)
	list(c, 5, &m.KnownEpochs)
}

// AdvanceKeyRequest requests that one key be raised to a number.
type AdvanceKeyRequest struct {
	Keyspace     string
	RawKey       string
	To           Optional
	RouteVersion Optional
	Epoch        uint64
}

func (m *AdvanceKeyRequest) fields(c *codec) {
	c.string(1, &m.Keyspace)
	c.rawString(3, &m.RawKey)
	c.optionalUint64(4, &m.To)
	c.optionalUint64(5, &m.RouteVersion)
	c.uint64(6, &m.Epoch)
}

// Lanes has the sections of the lanes of a series, or of the buckets of a keyspace. A client needs the lanes of keyspaces
// alone, so the fields that only lanes of series have are left out.
type Lanes struct {
	Count        uint32
	PerSection   uint32
	FirstSection uint32
	// Keys is nil for a series.
	Keys *Hashing
}

func (m *Lanes) fields(c *codec) {
	c.uint32(1, &m.Count)
	c.uint32(2, &m.PerSection)
	c.uint32(6, &m.FirstSection)
	one(c, 7, &m.Keys)
}

// Hashing states how the keys of a keyspace are hashed.
type Hashing struct {
	Digest uint64
	// OfUIDs is whether the keys are the uids that no set file declares.
	OfUIDs bool
}

func (m *Hashing) fields(c *codec) {
	c.fixed64(1, &m.Digest)
	c.bool(3, &m.OfUIDs)
}
