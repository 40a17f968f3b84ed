package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

const (
	maxUint64 = 1<<64 - 1
	maxInt64  = 1<<63 - 1
)

func testRoutes() *Routes {
	return &Routes{
		Set: "set-a", Version: 7, BaseVersion: 6, UIDStart: 100, UIDEnd: 1 << 40, SectionSize: 100_000,
		Nodes: []RouteNode{{ID: 1, Name: "a1", Addr: "127.0.0.1:7100"}, {ID: 2, Name: "a2", Addr: "[::1]:1"}},
		Runs: []RouteRun{
			{Sections: 3, Owner: 1, Epoch: 9},
			{FirstSection: 3, Sections: 300, Epoch: 1 << 62, AwaySetID: maxUint64},
		},
		SetID:  0x1122334455667788,
		Sets:   []RouteSet{{ID: 5, Name: "b", Allocs: []string{"x:1", "y:2"}}},
		Series: []StoredSeries{{Name: "tweets", Shape: []byte{0x12, 0}, CreatedMS: 1, Retired: true, HomeSetID: 3}},
	}
}

func testRoutesWithBuckets() *Routes {
	table := testRoutes()
	table.Series = append(table.Series, StoredSeries{
		Name: "main", CreatedMS: 2, HomeSetID: 3,
		Lanes: &Lanes{Count: 16_384, PerSection: 1, FirstSection: 400, Keys: &Hashing{Digest: maxUint64}},
	})
	table.LaneRuns = []RouteRun{{FirstSection: 400, Sections: 16, Owner: 2, Epoch: 1}}
	return table
}

func longUIDs() []uint64 {
	uids := make([]uint64, 300)
	for i := range uids {
		uids[i] = 1<<40 + uint64(i)
	}
	return uids
}

// vectors are the messages of testdata/vectors.py, stated a second time.
var vectors = map[string]Message{
	"NextRequest": &NextRequest{
		UID: Some(0), Count: 1_000_000, RouteVersion: Some(0), Epoch: maxUint64, Hops: 2,
	},
	"NextRequest/absent": &NextRequest{},
	"NextResponse":       &NextResponse{Value: maxInt64, Prev: 1<<53 + 1, Epoch: 3, Routes: testRoutes(), Lost: Some(0)},
	"NextManyRequest": &NextManyRequest{
		UIDs: []uint64{0, 1, 127, 128, maxUint64}, Counts: []uint32{1, 2, 300}, RouteVersion: Some(5),
		KnownEpochs: []uint64{1 << 32},
	},
	"NextManyResponse": &NextManyResponse{
		Values: []uint64{1, 0, 1 << 62}, Prevs: []uint64{0, 0, 5}, Epochs: []uint64{1, 0, 1},
		Errors: []ItemError{{
			Index: 1, Code: 14, Reason: "MOVED", Message: "away", RetryAfterMS: 1, SetID: Some(0), Since: Some(maxUint64),
		}},
		Lost: &LostAttempts{Indexes: []uint32{0, 2}, Attempts: []uint32{1, 300}},
	},
	"NextStreamRequest": &NextStreamRequest{
		Tag: maxUint64, Request: &NextManyRequest{UIDs: []uint64{42}}, TimeoutMS: 4000, NowOnly: true,
	},
	"NextStreamRequest/long":     &NextStreamRequest{Tag: 1, Request: &NextManyRequest{UIDs: longUIDs()}},
	"NextStreamResponse":         &NextStreamResponse{Tag: 9, Response: &NextManyResponse{}},
	"NextStreamResponse/refusal": &NextStreamResponse{Tag: 9, Refusal: &ItemError{Code: 8, Reason: "OUT_OF_MEMORY"}},
	"CurrentRequest":             &CurrentRequest{UID: Some(maxUint64), RouteVersion: Some(1), Epoch: 2},
	"CurrentResponse":            &CurrentResponse{Value: 8, Exactness: UpperBound, Epoch: 2},
	"CurrentManyRequest":         &CurrentManyRequest{UIDs: []uint64{1, 2}, RouteVersion: Some(0), KnownEpochs: []uint64{0, 7}},
	"CurrentManyResponse": &CurrentManyResponse{
		Values: []uint64{4, 0}, Exactness: []int32{1, 2}, Epochs: []uint64{1, 1},
	},
	"AdvanceRequest":            &AdvanceRequest{UID: Some(0), To: Some(1<<62 - 1), Epoch: 1},
	"AdvanceResponse":           &AdvanceResponse{Epoch: 4},
	"GetRoutesRequest":          &GetRoutesRequest{KnownVersion: 1 << 32},
	"GetRoutesResponse":         &GetRoutesResponse{Routes: testRoutes()},
	"GetRoutesResponse/buckets": &GetRoutesResponse{Routes: testRoutesWithBuckets()},
	"GetRoutesResponse/skipped": &GetRoutesResponse{Routes: testRoutesWithBuckets()},
	"Shape/counter":             &Shape{Counter: &CounterShape{Offset: 1, Increment: 10, MaxID: maxInt64}},
	"Shape/timed": &Shape{Timed: &TimedShape{
		EpochMS: 1288834974657, UnitMS: 1, TimeBits: 41, LaneBits: 10, SeqBits: 12, Spread: true, NamedLanes: true,
		AheadMS: 1000,
	}},
	"NextIdsRequest": &NextIDsRequest{Series: "media", Count: 3, Lane: Some(0), After: Some(maxInt64)},
	"NextIdsResponse": &NextIDsResponse{
		Runs: []IDRun{{First: 5, Count: 2}, {First: 1 << 62, Count: 1}}, Step: 10, Epoch: 2, Lane: 1341,
	},
	"CurrentIdRequest":  &CurrentIDRequest{Series: "orders"},
	"CurrentIdResponse": &CurrentIDResponse{ID: maxInt64, Exact: true, Epoch: 1},
	"AdvanceIdRequest":  &AdvanceIDRequest{Series: "orders", To: 1<<53 + 1},
	"AdvanceIdResponse": &AdvanceIDResponse{Epoch: 1},
	"NextKeyRequest": &NextKeyRequest{
		Keyspace: "main", RawKey: "conv:\xff\x00", Count: 1_000_000, RouteVersion: Some(0), Epoch: maxUint64,
	},
	"NextKeysRequest": &NextKeysRequest{
		Keyspace: "main", RawKeys: []string{"a", "", "\xff"}, Counts: []uint32{1, 2, 300}, RouteVersion: Some(5),
		KnownEpochs: []uint64{0, 1, 1 << 32},
	},
	"CurrentKeyRequest": &CurrentKeyRequest{Keyspace: "main", RawKey: "\r\n", RouteVersion: Some(1), Epoch: 2},
	"CurrentKeysRequest": &CurrentKeysRequest{
		Keyspace: "main", RawKeys: []string{strings.Repeat("k", 512)}, RouteVersion: Some(0), KnownEpochs: []uint64{7},
	},
	"AdvanceKeyRequest": &AdvanceKeyRequest{
		Keyspace: "main", RawKey: "\x00", To: Some(1<<62 - 1), RouteVersion: Some(0), Epoch: 1,
	},
	"Status": &Status{
		Code: 14, Message: "the section is in another set \u2026",
		Details: []Any{
			{ErrorInfoURL, Append(nil, &ErrorInfo{Reason: "MOVED", Domain: "seqsvr", Metadata: []Entry{{"set", "12"}}})},
			{RetryInfoURL, Append(nil, &RetryInfo{RetryDelay: &Duration{Seconds: 1, Nanos: 500}})},
		},
	},
	"Status/negative":    &Status{Code: -1},
	"RetryInfo/negative": &RetryInfo{RetryDelay: &Duration{Seconds: -1, Nanos: -5}},
}

func readVectors(t testing.TB) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	var texts map[string]string
	if err == nil {
		err = json.Unmarshal(data, &texts)
	}
	if err != nil {
		t.Fatal(err)
	}
	encoded := map[string][]byte{}
	for name, text := range texts {
		if encoded[name], err = hex.DecodeString(text); err != nil {
			t.Fatal(err)
		}
	}
	return encoded
}

func empty(m Message) Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
}

func TestMessagesAreEncodedAndDecodedAsByTheLibraryOfPython(t *testing.T) {
	encoded := readVectors(t)
	if len(encoded) != len(vectors) {
		t.Errorf("%d vectors of Python and %d of Go", len(encoded), len(vectors))
	}
	for name, message := range vectors {
		data, ok := encoded[name]
		if !ok {
			t.Errorf("no vector %s", name)
			continue
		}
		if got := Append(nil, message); name != "GetRoutesResponse/skipped" && !bytes.Equal(got, data) {
			t.Errorf("%s is encoded as %x, and by Python as %x", name, got, data)
		}
		decoded := empty(message)
		if err := Decode(data, decoded); err != nil || !reflect.DeepEqual(decoded, message) {
			t.Errorf("%s is decoded as %+v (%v), not %+v", name, decoded, err, message)
		}
	}
}
