package rpc

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

// Codes of gRPC that this client distinguishes.
const (
	OK                 = 0
	Cancelled          = 1
	Unknown            = 2
	DeadlineExceeded   = 4
	PermissionDenied   = 7
	Unimplemented      = 12
	Internal           = 13
	Unavailable        = 14
	Unauthenticated    = 16
	domain             = "seqsvr"
	headerStatusCode   = "Grpc-Status"
	headerMessage      = "Grpc-Message"
	headerDetails      = "Grpc-Status-Details-Bin"
	contentTypeOfGRPC  = "application/grpc"
	maxStatusTextBytes = 4096
)

// Status is a response without a result.
type Status struct {
	// Code is the gRPC code.
	Code uint32
	// Message is the description for humans.
	Message string
	// Reason is the reason of the refusal in capitals; empty if it does not come from the sequence service itself.
	Reason string
	// RetryAfter is the hint of the server; 0 if there is none.
	RetryAfter time.Duration
	// Bound, Set and Since are numbers in the metadata of the refusal.
	Bound, Set, Since wire.Optional
	// HTTP is the status code of a response that is not gRPC; 0 for gRPC.
	HTTP int
	// BadMessage is whether the response violates the protocol.
	BadMessage bool
}

func (s *Status) Error() string {
	switch {
	case s.Reason != "":
		return s.Reason + ": " + s.Message
	case s.Message == "":
		return fmt.Sprintf("gRPC code %d", s.Code)
	default:
		return s.Message
	}
}

// orNil returns the status as an error; nil for success. If empty is a text, even success is an error, because the
// response lacks a message.
func (s *Status) orNil(empty string) error {
	if s.Code != OK {
		return s
	}
	if empty != "" {
		return &Status{Code: Internal, Message: empty, BadMessage: true}
	}
	return nil
}

// headerStatus returns the status of a response that consists of a header alone; nil if messages follow.
func headerStatus(resp *http.Response) *Status {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && (kind == contentTypeOfGRPC || strings.HasPrefix(kind, contentTypeOfGRPC+"+")) {
		return statusOf(resp.Header)
	}
	code, ok := map[int]uint32{
		http.StatusBadRequest: Internal, http.StatusUnauthorized: Unauthenticated,
		http.StatusForbidden: PermissionDenied, http.StatusNotFound: Unimplemented,
		http.StatusTooManyRequests: Unavailable, http.StatusBadGateway: Unavailable,
		http.StatusServiceUnavailable: Unavailable, http.StatusGatewayTimeout: Unavailable,
	}[resp.StatusCode]
	if !ok {
		code = Unknown
	}
	text := fmt.Sprintf("an HTTP response with status %d and content type %.64q, not gRPC", resp.StatusCode, kind)
	return &Status{Code: code, Message: text, HTTP: resp.StatusCode}
}

// statusOf returns the status in a header or a trailer; nil if there is none.
func statusOf(header http.Header) *Status {
	text := header.Get(headerStatusCode)
	if text == "" {
		return nil
	}
	code, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return &Status{Code: Unknown, Message: fmt.Sprintf("invalid gRPC status %.64q", text), BadMessage: true}
	}
	s := &Status{Code: uint32(code), Message: unescape(header.Get(headerMessage))}
	if s.Code != OK {
		s.readDetails(header.Get(headerDetails))
	}
	return s
}

// readDetails reads the reason and the hint. Details that cannot be decoded are ignored, because the code alone is a
// valid status.
func (s *Status) readDetails(text string) {
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	var status wire.Status
	if text == "" || err != nil || wire.Decode(data, &status) != nil {
		return
	}
	for _, detail := range status.Details {
		switch detail.TypeURL {
		case wire.ErrorInfoURL:
			var info wire.ErrorInfo
			if wire.Decode(detail.Value, &info) == nil && info.Domain == domain {
				s.Reason = info.Reason
				s.Bound, s.Set, s.Since = number(&info, "bound"), number(&info, "set"), number(&info, "since")
			}
		case wire.RetryInfoURL:
			var info wire.RetryInfo
			if wire.Decode(detail.Value, &info) == nil && info.RetryDelay != nil {
				s.RetryAfter = bounded(info.RetryDelay)
			}
		}
	}
}

// bounded returns a duration of at most a day, and not below 0.
func bounded(d *wire.Duration) time.Duration {
	const day = 24 * 3600
	if d.Seconds < 0 || d.Nanos < 0 {
		return 0
	}
	return time.Duration(min(d.Seconds, day))*time.Second + time.Duration(d.Nanos)
}

func number(info *wire.ErrorInfo, key string) wire.Optional {
	value, err := strconv.ParseUint(info.Get(key), 10, 64)
	if err != nil {
		return wire.Optional{}
	}
	return wire.Some(value)
}

// unescape decodes the text of a status, in which bytes other than printable ASCII are percent-encoded.
func unescape(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	if len(text) > maxStatusTextBytes {
		text = strings.ToValidUTF8(text[:maxStatusTextBytes], "")
	}
	return text
}
