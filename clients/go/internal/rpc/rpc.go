// Package rpc sends gRPC requests over an http.RoundTripper that speaks HTTP/2, without a gRPC library.
//
// Every failure is a *Status, if a server responded, or else a *TransportError: the connection failed, or the context of
// the request ended, before a response arrived.
//
// Invariant: a TransportError counts as not sent only if the connection proves that no server processed the request.
package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

// maxResponseBytes is the limit on the message of a response. A whole route table of the largest layout is smaller.
const maxResponseBytes = 64 << 20

// prefixBytes is the length of the prefix of a gRPC message: a flag and the length of the message.
const prefixBytes = 5

// userAgent is the value of two headers, by which operators recognize the clients of a release.
const userAgent = "go/" + Version

// Version is the version of this client.
const Version = "0.1.0"

// Target is a node with the connection to it.
type Target struct {
	// Scheme is http or https.
	Scheme string
	// Addr is host:port.
	Addr string
	// Transport sends the requests.
	Transport http.RoundTripper
	// Token returns the token of a tenant, or nothing. It is a function so that no dump of a struct shows the token.
	Token func() string
}

// TransportError is the failure of a request before a response arrived.
type TransportError struct {
	Err error
	// Sent is whether a server may have processed the request.
	Sent bool
}

func (e *TransportError) Error() string { return e.Err.Error() }

func (e *TransportError) Unwrap() error { return e.Err }

// Invoke sends a unary request and decodes its response. The method is the path after the package of the service, e.g.
// SequenceService/Next. The server stops to work on the request after timeout; ctx ends the request here.
func Invoke(ctx context.Context, to Target, method string, timeout time.Duration, request, response wire.Message) error {
	message := wire.Append(make([]byte, prefixBytes, 64), request)
	putPrefix(message, len(message)-prefixBytes)
	req := newRequest(to, method, newBody(message), int64(len(message)))
	req.Header["Grpc-Timeout"] = []string{timeoutHeader(timeout)}

	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}
	resp, err := to.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return failed(err, wrote.Load())
	}
	defer resp.Body.Close()
	if status := headerStatus(resp); status != nil {
		return status.orNil("the response has no message")
	}
	body, err := ReadMessage(resp.Body, nil)
	if err == nil {
		if err = wire.Decode(body, response); err != nil {
			return &Status{Code: Internal, Message: err.Error(), BadMessage: true}
		}
		// The trailer follows the message.
		_, err = ReadMessage(resp.Body, nil)
	}
	return end(resp, err)
}

// Stream is an open bidirectional stream. Its requests are read from the body that it was opened with.
type Stream struct {
	resp *http.Response
	buf  []byte
}

// Open opens a stream whose messages, with their prefixes, are read from body. It returns when the server has sent the
// header of its response.
func Open(ctx context.Context, to Target, method string, body io.ReadCloser) (*Stream, error) {
	req := newRequest(to, method, body, -1)
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}
	resp, err := to.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		body.Close()
		return nil, failed(err, wrote.Load())
	}
	if status := headerStatus(resp); status != nil {
		resp.Body.Close()
		return nil, status.orNil("the stream ended without a message")
	}
	return &Stream{resp: resp}, nil
}

// Recv reads the next message. The error is io.EOF if the server ended the stream with a status of success.
func (s *Stream) Recv(m wire.Message) error {
	body, err := ReadMessage(s.resp.Body, s.buf)
	if err == nil {
		s.buf = body[:0]
		if err = wire.Decode(body, m); err != nil {
			return &Status{Code: Internal, Message: err.Error(), BadMessage: true}
		}
		return nil
	}
	if err = end(s.resp, err); err == nil {
		return io.EOF
	}
	return err
}

// Close ends the stream.
func (s *Stream) Close() { s.resp.Body.Close() }

func newRequest(to Target, method string, body io.ReadCloser, length int64) *http.Request {
	req := &http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: to.Scheme, Host: to.Addr, Path: "/seqsvr.v1." + method},
		Host:   to.Addr,
		Proto:  "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{
			"Content-Type":  {"application/grpc"},
			"Te":            {"trailers"},
			"User-Agent":    {"seqsvr-" + userAgent},
			"Seqsvr-Client": {userAgent},
		},
		// GetBody stays nil, so that net/http does not repeat a request that the server rejected. The caller does so,
		// at another node.
		Body:          body,
		ContentLength: length,
	}
	if to.Token != nil {
		if token := to.Token(); token != "" {
			req.Header["Authorization"] = []string{"Bearer " + token}
		}
	}
	return req
}

// failed converts the error of a round trip. wrote is whether the header of the request was sent.
func failed(err error, wrote bool) error {
	return &TransportError{Err: err, Sent: wrote && !wasRejected(err)}
}

// wasRejected returns whether the peer rejected the stream of a request without processing it. The errors of net/http
// are not exported. A text that is not recognized counts as a request that may have been processed.
func wasRejected(err error) bool {
	text := err.Error()
	for _, sign := range []string{
		"REFUSED_STREAM", "graceful shutdown GOAWAY", "client conn not usable", "client conn could not be established",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// end converts the error with which the body of a response ended: nil for a status of success.
func end(resp *http.Response, err error) error {
	switch {
	case err == nil:
		return &Status{Code: Internal, Message: "the response has more than one message", BadMessage: true}
	case errors.Is(err, io.EOF):
		status := statusOf(resp.Trailer)
		if status == nil {
			return &TransportError{Err: errors.New("the response ended without a status"), Sent: true}
		}
		return status.orNil("")
	case errors.Is(err, errBadFrame):
		return &Status{Code: Internal, Message: err.Error(), BadMessage: true}
	default:
		return &TransportError{Err: err, Sent: !wasRejected(err)}
	}
}

// errBadFrame is the error of a response that is not a gRPC message.
var errBadFrame = errors.New("the response is not a gRPC message")

// ReadMessage reads a message with its prefix. It reads into buf, or into a longer slice. The error is io.EOF at the
// end of the body.
func ReadMessage(r io.Reader, buf []byte) ([]byte, error) {
	var prefix [prefixBytes]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("%w: it ends inside a prefix", errBadFrame)
		}
		return nil, err
	}
	size := binary.BigEndian.Uint32(prefix[1:])
	if prefix[0] != 0 {
		return nil, fmt.Errorf("%w: it is compressed", errBadFrame)
	}
	if size > maxResponseBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", errBadFrame, size, maxResponseBytes)
	}
	// The memory grows with the bytes that arrive, because the length is only a claim.
	buf = buf[:0]
	for len(buf) < int(size) {
		step := min(int(size)-len(buf), 64<<10)
		start := len(buf)
		if cap(buf)-start < step {
			buf = append(buf, make([]byte, step)...)
		} else {
			buf = buf[:start+step]
		}
		if _, err := io.ReadFull(r, buf[start:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, fmt.Errorf("%w: it ends inside a message", errBadFrame)
			}
			return nil, err
		}
	}
	return buf, nil
}

// AppendMessage appends a message with its prefix.
func AppendMessage(dst []byte, m wire.Message) []byte {
	start := len(dst)
	dst = wire.Append(append(dst, make([]byte, prefixBytes)...), m)
	putPrefix(dst[start:], len(dst)-start-prefixBytes)
	return dst
}

func putPrefix(message []byte, size int) {
	message[0] = 0
	binary.BigEndian.PutUint32(message[1:], uint32(size))
}

// timeoutHeader returns the value of the header grpc-timeout, which has at most eight digits.
func timeoutHeader(timeout time.Duration) string {
	if timeout < time.Microsecond {
		timeout = time.Microsecond
	}
	if timeout < 90*time.Second {
		return strconv.FormatInt(timeout.Microseconds(), 10) + "u"
	}
	return strconv.FormatInt(timeout.Milliseconds(), 10) + "m"
}

// body is the body of a unary request.
type body struct {
	rest []byte
}

func newBody(message []byte) *body { return &body{message} }

func (b *body) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (b *body) Close() error { return nil }
