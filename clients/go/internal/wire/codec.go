// Package wire encodes and decodes the protobuf messages of the service, without a protobuf library.
//
// A message states its fields once, in its method fields, which serves both directions: an encoder appends each field,
// and a decoder compares each field with the tag that it has read. The package has only the messages that a client
// needs. Unknown fields are skipped, so a message of a later release is read as far as this release knows it.
//
// Invariant: decoding never panics and allocates memory in proportion to its input.
package wire

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf8"
)

// ErrMalformed is the error of bytes that are not a message.
var ErrMalformed = errors.New("the message is not valid protobuf")

// Message is a protobuf message of this package.
type Message interface {
	fields(c *codec)
}

// Optional is an optional number. A number that is absent on the wire differs from 0.
type Optional struct {
	Value   uint64
	Present bool
}

// Some returns a number that is present.
func Some(value uint64) Optional { return Optional{value, true} }

// Append appends the encoding of a message to dst and returns the extended slice.
func Append(dst []byte, m Message) []byte {
	c := codec{out: dst, encoding: true}
	m.fields(&c)
	return c.out
}

// Decode decodes data into m, which should be empty. The message does not refer to data afterwards.
func Decode(data []byte, m Message) error {
	return decode(data, m, 0)
}

// Wire types of protobuf.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeGroup   = 3
	typeGroupOf = 4
	typeFixed32 = 5
)

// maxDepth is the limit on nested messages and groups. The messages of the service nest four levels deep.
const maxDepth = 32

// codec is the state of an encoder, or of a decoder that has read the tag and the value of one field.
type codec struct {
	encoding bool
	out      []byte

	number uint32 // of the field that was read
	kind   uint8  // its wire type
	value  uint64 // its value, if it is a number
	data   []byte // its content, if it is of typeBytes
	depth  int
	failed bool
}

func decode(data []byte, m Message, depth int) error {
	if depth > maxDepth {
		return ErrMalformed
	}
	c := codec{depth: depth}
	for len(data) > 0 {
		rest, ok := c.read(data)
		if !ok {
			return ErrMalformed
		}
		data = rest
		m.fields(&c)
		if c.failed {
			return ErrMalformed
		}
	}
	return nil
}

// read reads one field and returns the bytes after it. Groups are skipped, because no message of the service has one.
func (c *codec) read(data []byte) (rest []byte, ok bool) {
	tag, n := binary.Uvarint(data)
	number := tag >> 3
	if n <= 0 || number == 0 || number > 1<<29-1 {
		return nil, false
	}
	c.number, c.kind, data = uint32(number), uint8(tag&7), data[n:]
	switch c.kind {
	case typeVarint:
		c.value, n = binary.Uvarint(data)
		if n <= 0 {
			return nil, false
		}
		return data[n:], true
	case typeFixed64:
		if len(data) < 8 {
			return nil, false
		}
		c.value = binary.LittleEndian.Uint64(data)
		return data[8:], true
	case typeFixed32:
		if len(data) < 4 {
			return nil, false
		}
		c.value = uint64(binary.LittleEndian.Uint32(data))
		return data[4:], true
	case typeBytes:
		size, n := binary.Uvarint(data)
		if n <= 0 || size > uint64(len(data)-n) {
			return nil, false
		}
		c.data = data[n : n+int(size)]
		return data[n+int(size):], true
	case typeGroup:
		return skipGroup(data, c.number, c.depth)
	default:
		return nil, false
	}
}

// skipGroup returns the bytes after the end of the group with this number.
func skipGroup(data []byte, number uint32, depth int) (rest []byte, ok bool) {
	if depth > maxDepth {
		return nil, false
	}
	for {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, false
		}
		if tag&7 == typeGroupOf {
			return data[n:], tag>>3 == uint64(number)
		}
		inner := codec{depth: depth + 1}
		if data, ok = inner.read(data); !ok {
			return nil, false
		}
	}
}

// is returns whether the field that was read has this number and wire type.
func (c *codec) is(number uint32, kind uint8) bool {
	return c.number == number && c.kind == kind
}

func (c *codec) tag(number uint32, kind uint8) {
	c.out = binary.AppendUvarint(c.out, uint64(number)<<3|uint64(kind))
}

func (c *codec) varint(number uint32, value uint64) {
	c.tag(number, typeVarint)
	c.out = binary.AppendUvarint(c.out, value)
}

func (c *codec) uint64(number uint32, v *uint64) {
	if c.encoding {
		if *v != 0 {
			c.varint(number, *v)
		}
	} else if c.is(number, typeVarint) {
		*v = c.value
	}
}

func (c *codec) uint32(number uint32, v *uint32) {
	if c.encoding {
		if *v != 0 {
			c.varint(number, uint64(*v))
		}
	} else if c.is(number, typeVarint) {
		*v = uint32(c.value)
	}
}

// int32 is a field of type int32 or of an enumeration. A negative number is encoded as a 64-bit number.
func (c *codec) int32(number uint32, v *int32) {
	if c.encoding {
		if *v != 0 {
			c.varint(number, uint64(int64(*v)))
		}
	} else if c.is(number, typeVarint) {
		*v = int32(c.value)
	}
}

func (c *codec) int64(number uint32, v *int64) {
	if c.encoding {
		if *v != 0 {
			c.varint(number, uint64(*v))
		}
	} else if c.is(number, typeVarint) {
		*v = int64(c.value)
	}
}

func (c *codec) bool(number uint32, v *bool) {
	if c.encoding {
		if *v {
			c.varint(number, 1)
		}
	} else if c.is(number, typeVarint) {
		*v = c.value != 0
	}
}

func (c *codec) fixed64(number uint32, v *uint64) {
	if c.encoding {
		if *v != 0 {
			c.optionalFixed64(number, &Optional{*v, true})
		}
	} else if c.is(number, typeFixed64) {
		*v = c.value
	}
}

func (c *codec) optionalUint64(number uint32, v *Optional) {
	if c.encoding {
		if v.Present {
			c.varint(number, v.Value)
		}
	} else if c.is(number, typeVarint) {
		*v = Some(c.value)
	}
}

func (c *codec) optionalUint32(number uint32, v *Optional) {
	if c.encoding {
		c.optionalUint64(number, v)
	} else if c.is(number, typeVarint) {
		*v = Some(uint64(uint32(c.value)))
	}
}

func (c *codec) optionalFixed64(number uint32, v *Optional) {
	if c.encoding {
		if v.Present {
			c.tag(number, typeFixed64)
			c.out = binary.LittleEndian.AppendUint64(c.out, v.Value)
		}
	} else if c.is(number, typeFixed64) {
		*v = Some(c.value)
	}
}

func (c *codec) string(number uint32, v *string) {
	c.mustBeUTF8(number)
	c.rawString(number, v)
}

// rawString is a field of bytes that are kept as a string, which need not be UTF-8.
func (c *codec) rawString(number uint32, v *string) {
	if c.encoding {
		if *v != "" {
			c.appendString(number, *v)
		}
	} else if c.is(number, typeBytes) {
		*v = string(c.data)
	}
}

func (c *codec) appendString(number uint32, v string) {
	c.tag(number, typeBytes)
	c.out = binary.AppendUvarint(c.out, uint64(len(v)))
	c.out = append(c.out, v...)
}

// mustBeUTF8 fails if a field with a text is decoded that is not UTF-8.
func (c *codec) mustBeUTF8(number uint32) {
	if !c.encoding && c.is(number, typeBytes) && !utf8.Valid(c.data) {
		c.failed = true
	}
}

func (c *codec) bytes(number uint32, v *[]byte) {
	if c.encoding {
		if len(*v) > 0 {
			c.tag(number, typeBytes)
			c.out = binary.AppendUvarint(c.out, uint64(len(*v)))
			c.out = append(c.out, *v...)
		}
	} else if c.is(number, typeBytes) {
		*v = append([]byte(nil), c.data...)
	}
}

func (c *codec) strings(number uint32, v *[]string) {
	c.mustBeUTF8(number)
	c.rawStrings(number, v)
}

// rawStrings is a repeated field of bytes that are kept as strings, as rawString.
func (c *codec) rawStrings(number uint32, v *[]string) {
	if c.encoding {
		for _, one := range *v {
			c.appendString(number, one)
		}
	} else if c.is(number, typeBytes) {
		*v = append(*v, string(c.data))
	}
}

// nested encodes or decodes a message inside a field. Both directions call it only where the message exists.
func (c *codec) nested(number uint32, m Message) {
	if !c.encoding {
		if decode(c.data, m, c.depth+1) != nil {
			c.failed = true
		}
		return
	}
	c.tag(number, typeBytes)
	// The length stands before the content and is known only after it. Most messages are shorter than 128 bytes, so
	// that their length fits into the one byte that is reserved.
	at := len(c.out)
	c.out = append(c.out, 0)
	m.fields(c)
	size := len(c.out) - at - 1
	if more := varintSize(uint64(size)) - 1; more > 0 {
		c.out = append(c.out, make([]byte, more)...)
		copy(c.out[at+1+more:], c.out[at+1:at+1+size])
	}
	binary.PutUvarint(c.out[at:], uint64(size))
}

// varintSize returns the number of bytes of a varint.
func varintSize(value uint64) int {
	return (bits.Len64(value|1) + 6) / 7
}

// list is a repeated field of numbers, which is packed. Decoding accepts the form that is not packed as well.
func list[N uint32 | uint64 | int32](c *codec, number uint32, v *[]N) {
	switch {
	case c.encoding:
		if len(*v) == 0 {
			return
		}
		size := 0
		for _, one := range *v {
			size += varintSize(uint64(one))
		}
		c.tag(number, typeBytes)
		c.out = binary.AppendUvarint(c.out, uint64(size))
		for _, one := range *v {
			c.out = binary.AppendUvarint(c.out, uint64(one))
		}
	case c.is(number, typeVarint):
		*v = append(*v, N(c.value))
	case c.is(number, typeBytes):
		count := 0
		for _, b := range c.data {
			if b < 0x80 {
				count++
			}
		}
		if cap(*v)-len(*v) < count {
			*v = append(make([]N, 0, len(*v)+count), *v...)
		}
		for data := c.data; len(data) > 0; {
			one, n := binary.Uvarint(data)
			if n <= 0 {
				c.failed = true
				return
			}
			*v, data = append(*v, N(one)), data[n:]
		}
	}
}

// pointer constrains P to the pointer of a message type T.
type pointer[T any] interface {
	*T
	Message
}

// one is a field with a message, which is nil if it is absent.
func one[T any, P pointer[T]](c *codec, number uint32, v *P) {
	if c.encoding {
		if *v != nil {
			c.nested(number, *v)
		}
	} else if c.is(number, typeBytes) {
		if *v == nil {
			*v = new(T)
		}
		c.nested(number, *v)
	}
}

// many is a repeated field of messages.
func many[T any, P pointer[T]](c *codec, number uint32, v *[]T) {
	if c.encoding {
		for i := range *v {
			c.nested(number, P(&(*v)[i]))
		}
	} else if c.is(number, typeBytes) {
		*v = append(*v, *new(T))
		c.nested(number, P(&(*v)[len(*v)-1]))
	}
}
