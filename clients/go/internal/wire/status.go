package wire

// Messages of google/rpc/status.proto and error_details.proto, in which a refusal states its reason.

// Type URLs of the details of a Status.
const (
	ErrorInfoURL = "type.googleapis.com/google.rpc.ErrorInfo"
	RetryInfoURL = "type.googleapis.com/google.rpc.RetryInfo"
)

// Status is the content of the trailer grpc-status-details-bin.
type Status struct {
	Code    int32
	Message string
	Details []Any
}

func (m *Status) fields(c *codec) {
	c.int32(1, &m.Code)
	c.string(2, &m.Message)
	many(c, 3, &m.Details)
}

// Any is a message of a type that its URL names.
type Any struct {
	TypeURL string
	Value   []byte
}

func (m *Any) fields(c *codec) {
	c.string(1, &m.TypeURL)
	c.bytes(2, &m.Value)
}

// ErrorInfo is the reason of a refusal.
type ErrorInfo struct {
	Reason   string
	Domain   string
	Metadata []Entry
}

func (m *ErrorInfo) fields(c *codec) {
	c.string(1, &m.Reason)
	c.string(2, &m.Domain)
	many(c, 3, &m.Metadata)
}

// Get returns the metadata with a key; empty if there is none.
func (m *ErrorInfo) Get(key string) string {
	for _, entry := range m.Metadata {
		if entry.Key == key {
			return entry.Value
		}
	}
	return ""
}

// Entry is an entry of a map.
type Entry struct {
	Key   string
	Value string
}

func (m *Entry) fields(c *codec) {
	c.string(1, &m.Key)
	c.string(2, &m.Value)
}

// RetryInfo has the time after which a retry can succeed.
type RetryInfo struct {
	RetryDelay *Duration
}

func (m *RetryInfo) fields(c *codec) {
	one(c, 1, &m.RetryDelay)
}

// Duration is google.protobuf.Duration.
type Duration struct {
	Seconds int64
	Nanos   int32
}

func (m *Duration) fields(c *codec) {
	c.int64(1, &m.Seconds)
	c.int32(2, &m.Nanos)
}
