package wire

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestEncodingAppends(t *testing.T) {
	if got := Append([]byte("ab"), &AdvanceResponse{Epoch: 4}); !bytes.Equal(got, []byte("ab\x08\x04")) {
		t.Errorf("%x", got)
	}
}

func TestNestedMessagesOfEachLengthAreRead(t *testing.T) {
	// The length of a nested message takes one, two or three bytes.
	for _, items := range []int{0, 1, 100, 126, 127, 128, 200, 16_381, 16_382, 16_383, 40_000} {
		want := &NextStreamRequest{Tag: 1, Request: &NextManyRequest{UIDs: make([]uint64, items)}}
		for i := range want.Request.UIDs {
			want.Request.UIDs[i] = uint64(i % 128)
		}
		if items == 0 {
			want.Request.UIDs = nil
		}
		got := new(NextStreamRequest)
		if err := Decode(Append(nil, want), got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d items: %v", items, err)
		}
	}
}

func TestListsThatAreNotPackedAndRepeatedMessagesAreMerged(t *testing.T) {
	data := []byte{
		0x08, 1, 0x0a, 2, 2, 3, 0x08, 4, // uids: 1, packed 2 and 3, 4
		0x18, 5, 0x18, 6, // route_version twice: the last one counts
	}
	var got NextManyRequest
	want := NextManyRequest{UIDs: []uint64{1, 2, 3, 4}, RouteVersion: Some(6)}
	if err := Decode(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	// The response twice: its parts are merged. A refusal after it replaces it.
	first := Append(nil, &NextStreamResponse{Response: &NextManyResponse{Values: []uint64{1}}})
	second := Append(nil, &NextStreamResponse{Response: &NextManyResponse{Values: []uint64{2}}})
	var response NextStreamResponse
	if err := Decode(append(first, second...), &response); err != nil || len(response.Response.Values) != 2 {
		t.Errorf("%+v, %v", response.Response, err)
	}
	refusal := Append(nil, &NextStreamResponse{Refusal: &ItemError{Code: 8}})
	response = NextStreamResponse{}
	if err := Decode(append(first, refusal...), &response); err != nil || response.Response != nil || response.Refusal == nil {
		t.Errorf("%+v, %v", response, err)
	}
}

func TestUnknownFieldsOfEachWireTypeAreSkipped(t *testing.T) {
	unknown := []byte{
		0xf8, 0x07, 1, // field 127, varint
		0xf9, 0x07, 1, 2, 3, 4, 5, 6, 7, 8, // fixed64
		0xfa, 0x07, 2, 0xff, 0xff, // bytes
		0xfd, 0x07, 1, 2, 3, 4, // fixed32
		0xfb, 0x07, 0x08, 1, 0x13, 0x08, 2, 0x14, 0xfc, 0x07, // a group with a field and a group
		0x09, 1, 2, 3, 4, 5, 6, 7, 8, // field 1 with another wire type
	}
	var got AdvanceResponse
	if err := Decode(append(unknown, 0x08, 4), &got); err != nil || got.Epoch != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBytesThatAreNoMessageAreRefused(t *testing.T) {
	deep := []byte{}
	for range 100 {
		deep = append(deep, 0x0b)
	}
	for name, data := range map[string][]byte{
		"a tag without a value":         {0x08},
		"a varint without an end":       {0x08, 0xff},
		"a varint of eleven bytes":      {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"a varint above 64 bits":        {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2},
		"field 0":                       {0x00, 1},
		"a field above the range":       {0x80, 0x80, 0x80, 0x80, 0x10, 1},
		"a length past the end":         {0x12, 5, 1},
		"a length near 2^64":            {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"fixed64 that ends early":       {0x09, 1, 2},
		"fixed32 that ends early":       {0x0d, 1, 2},
		"a wire type that is not one":   {0x0e, 1},
		"the end of no group":           {0x0c},
		"a group without an end":        {0x0b, 0x08, 1},
		"the end of another group":      {0x0b, 0x14},
		"groups nested too deep":        deep,
		"a nested message that is none": {0x12, 1, 0xff},
	} {
		if err := Decode(data, new(AdvanceResponse)); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
	if err := Decode([]byte{0x0a, 1, 0xff}, new(RouteSet)); err != nil {
		t.Errorf("field 1 of another wire type is skipped: %v", err)
	}
	for name, m := range map[string]Message{"a text": new(ItemError), "a list of texts": new(RouteSet)} {
		if err := Decode([]byte{0x1a, 1, 0xff}, m); err == nil {
			t.Errorf("%s that is not UTF-8 is decoded", name)
		}
	}
	if err := Decode([]byte{0x0a, 1, 0xff}, new(NextManyRequest)); err == nil {
		t.Error("a packed list that ends inside a number is decoded")
	}
}

// TestDecodingIsStable checks that each part of a message, and each message with a changed byte, is either refused or
// decoded to a message that is encoded and decoded to itself.
func TestDecodingIsStable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, message := range vectors {
		data := Append(nil, message)
		for end := range min(len(data), 200) {
			stable(t, name, message, data[:end])
		}
		for range 200 {
			if len(data) > 0 {
				changed := bytes.Clone(data)
				changed[random.IntN(len(changed))] ^= byte(1 << random.IntN(8))
				stable(t, name, message, changed)
			}
		}
	}
}

func stable(t *testing.T, name string, kind Message, data []byte) {
	t.Helper()
	first, second := empty(kind), empty(kind)
	if Decode(data, first) != nil {
		return
	}
	if err := Decode(Append(nil, first), second); err != nil || !reflect.DeepEqual(first, second) {
		t.Errorf("%s of %x: %+v is not stable: %+v (%v)", name, data, first, second, err)
	}
}

// FuzzDecode feeds arbitrary bytes to the decoder of each message.
func FuzzDecode(f *testing.F) {
	for _, data := range readVectors(f) {
		f.Add(data)
	}
	var kinds []Message
	for _, message := range vectors {
		kinds = append(kinds, message)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range kinds {
			stable(t, reflect.TypeOf(kind).String(), kind, data)
		}
	})
}
