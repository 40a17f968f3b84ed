package rpc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

func TestMessagesAreReadWithTheirPrefix(t *testing.T) {
	data := AppendMessage([]byte("x"), &wire.AdvanceResponse{Epoch: 4})
	if !bytes.Equal(data, []byte("x\x00\x00\x00\x00\x02\x08\x04")) {
		t.Fatalf("%x", data)
	}
	r := bytes.NewReader(append(data[1:], data[1:]...))
	buf := make([]byte, 0, 1)
	for range 2 {
		var err error
		if buf, err = ReadMessage(r, buf); err != nil || !bytes.Equal(buf, []byte{8, 4}) {
			t.Fatalf("%x, %v", buf, err)
		}
	}
	if _, err := ReadMessage(r, buf); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
	long := bytes.Repeat([]byte{7}, 200_000)
	got, err := ReadMessage(bytes.NewReader(append([]byte{0, 0, 3, 0x0d, 0x40}, long...)), nil)
	if err != nil || !bytes.Equal(got, long) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBytesThatAreNoMessageAreRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"inside a prefix":  {0, 0},
		"inside a message": {0, 0, 0, 0, 2, 8},
		"compressed":       {1, 0, 0, 0, 0},
		"bytes, more than": {0, 0xff, 0xff, 0xff, 0xff},
	} {
		_, err := ReadMessage(bytes.NewReader(data), nil)
		if !errors.Is(err, errBadFrame) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimeoutsHaveAtMostEightDigits(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		-time.Second: "1u", 0: "1u", 1500 * time.Microsecond: "1500u", 5 * time.Second: "5000000u",
		90 * time.Second: "90000m", 24 * time.Hour: "86400000m",
	} {
		if got := timeoutHeader(timeout); got != want || len(got) > 9 {
			t.Errorf("%v is %s, not %s", timeout, got, want)
		}
	}
}

func details(t *testing.T, messages map[string]wire.Message) string {
	t.Helper()
	status := &wire.Status{Code: 14}
	for url, message := range messages {
		status.Details = append(status.Details, wire.Any{TypeURL: url, Value: wire.Append(nil, message)})
	}
	return base64.StdEncoding.EncodeToString(wire.Append(nil, status))
}

func TestTheReasonOfARefusalIsRead(t *testing.T) {
	info := &wire.ErrorInfo{Reason: "MOVED", Domain: "seqsvr", Metadata: []wire.Entry{
		{Key: "set", Value: "18446744073709551615"}, {Key: "since", Value: "0"}, {Key: "bound", Value: "-1"},
	}}
	retry := &wire.RetryInfo{RetryDelay: &wire.Duration{Seconds: 1, Nanos: 5}}
	for _, padding := range []bool{true, false} {
		text := details(t, map[string]wire.Message{wire.ErrorInfoURL: info, wire.RetryInfoURL: retry, "other": info})
		if !padding {
			text = strings.TrimRight(text, "=")
		}
		header := http.Header{"Grpc-Status": {"14"}, "Grpc-Message": {"a%20b %e2%80%a6"}, "Grpc-Status-Details-Bin": {text}}
		want := &Status{
			Code: Unavailable, Message: "a b \u2026", Reason: "MOVED", RetryAfter: time.Second + 5,
			Set: wire.Some(1<<64 - 1), Since: wire.Some(0),
		}
		if got := statusOf(header); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	// A reason of another domain, and details that are not valid, leave the code.
	other := details(t, map[string]wire.Message{wire.ErrorInfoURL: &wire.ErrorInfo{Reason: "X", Domain: "other"}})
	for _, text := range []string{other, "%%%", "AAAA", ""} {
		got := statusOf(http.Header{"Grpc-Status": {"7"}, "Grpc-Status-Details-Bin": {text}})
		if got.Code != PermissionDenied || got.Reason != "" {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if statusOf(http.Header{}) != nil {
		t.Error("a header without a status has one")
	}
	if got := statusOf(http.Header{"Grpc-Status": {"x"}}); !got.BadMessage {
		t.Errorf("%+v", got)
	}
}

func TestHintsAreBounded(t *testing.T) {
	for _, test := range []struct {
		seconds int64
		nanos   int32
		want    time.Duration
	}{{0, 0, 0}, {-1, 0, 0}, {0, -1, 0}, {1 << 62, 0, 24 * time.Hour}} {
		if got := bounded(&wire.Duration{Seconds: test.seconds, Nanos: test.nanos}); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

func TestAResponseThatIsNotGRPCHasTheCodeOfItsStatus(t *testing.T) {
	for status, code := range map[int]uint32{404: Unimplemented, 503: Unavailable, 401: Unauthenticated, 200: Unknown} {
		resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}}
		got := headerStatus(resp)
		if got.Code != code || got.HTTP != status || !strings.Contains(got.Message, "text/html") {
			t.Errorf("%d: %+v", status, got)
		}
	}
	for _, kind := range []string{"application/grpc", "application/grpc+proto", "application/grpc; a=b"} {
		resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}}
		if got := headerStatus(resp); got != nil {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

func TestRejectedRequestsCountAsNotSent(t *testing.T) {
	for text, sent := range map[string]bool{
		"stream error: stream ID 3; REFUSED_STREAM; received from peer":                                                       false,
		"http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body": false,
		"http2: client connection lost": true,
		"unexpected EOF":                true,
	} {
		var e *TransportError
		if err := failed(errors.New(text), true); !errors.As(err, &e) || e.Sent != sent {
			t.Errorf("%s: %+v", text, err)
		}
		if err := failed(errors.New(text), false); !errors.As(err, &e) || e.Sent {
			t.Errorf("%s without a header: %+v", text, err)
		}
	}
}

// FuzzResponse feeds arbitrary bytes to the readers of messages and statuses.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x08\x04"), "0", "a%20b", "")
	f.Add([]byte{}, "14", "%zz", "CAESAA")
	f.Add([]byte{}, strings.Repeat("\xb6", 2000), "", "")
	f.Fuzz(func(t *testing.T, data []byte, code, message, details string) {
		r := bytes.NewReader(data)
		for {
			body, err := ReadMessage(r, nil)
			if err != nil {
				break
			}
			if len(body) > len(data) {
				t.Fatalf("%d bytes of %d", len(body), len(data))
			}
		}
		status := statusOf(http.Header{"Grpc-Status": {code}, "Grpc-Message": {message}, "Grpc-Status-Details-Bin": {details}})
		if status != nil && (status.RetryAfter < 0 || len(status.Message) > maxStatusTextBytes+64) {
			t.Fatalf("%+v", status)
		}
	})
}
