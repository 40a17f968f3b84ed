package seqsvr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/fake"
	"seqsvr.example/clients/go/internal/wire"
)

func TestOneSeedOfSeveralIsEnough(t *testing.T) {
	w := fake.New(t, 2, 1)
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	c := open(t, []string{"http://" + hung.Addr().String(), "127.0.0.1:1", w.Node(0, 0).Addr()})
	// The routes of the seed name the other set.
	if got := must[Allocation](t)(c.Next(testContext(t), 25)); got.Value != 1 {
		t.Errorf("%+v", got)
	}
}

func TestSeedsThatAreNotUsableAreNamed(t *testing.T) {
	for seed, text := range map[string]string{
		"":                  `seed "" is not of the form`,
		"host":              "not of the form http://host:port",
		"ftp://a:1":         "only http:// and https://",
		"https://a:1":       "needs WithTLS",
		"http://a:1/path":   "not of the form",
		"http://user@a:1":   "not of the form",
		"127.0.0.1:1":       "no seed responded; 127.0.0.1:1 failed last",
		"http://127.0.0.1:": "not of the form",
	} {
		_, err := Open(testContext(t), []string{seed}, WithDeadline(5*time.Second))
		if !errors.Is(err, KindConnect) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", seed, err)
		}
	}
	if _, err := Open(testContext(t), nil); !errors.Is(err, KindConnect) {
		t.Errorf("%v", err)
	}
	if _, err := Open(testContext(t), make([]string, maxSeeds+1)); !errors.Is(err, KindConnect) {
		t.Errorf("%v", err)
	}
}

func TestPortsOfOtherServersAreNamed(t *testing.T) {
	other := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusNotFound) })
	grpc := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "12")
	})
	for addr, text := range map[string]string{other: "does not speak gRPC", grpc: "it is a store or another gRPC server"} {
		_, err := Open(testContext(t), []string{addr})
		if !errors.Is(err, KindConnect) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v", err)
		}
	}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: protocols}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

func TestOpenWaitsForRoutes(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.Node(0, 0).KnowRoutes(false)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, w.Seeds())
	if !errors.Is(err, KindConnect) || !strings.Contains(err.Error(), "has no routes yet") || !asError(err).Retryable {
		t.Errorf("%v", err)
	}
	opened := make(chan error, 1)
	go func() {
		c, err := Open(testContext(t), w.Seeds())
		if err == nil {
			c.Close()
		}
		opened <- err
	}()
	w.Node(0, 0).KnowRoutes(true)
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.Node(0, 0).Hang(true)
	defer w.Node(0, 0).Hang(false)
	ctx, cancel := context.WithCancel(testContext(t))
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Open(ctx, w.Seeds()); !errors.Is(err, KindCancelled) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_, err := Open(context.Background(), w.Seeds(), WithDeadline(50*time.Millisecond))
	if !errors.Is(err, KindConnect) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestInvalidRoutesOfASeedAreRefused(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.Node(0, 0).Change(func(m wire.Message) { m.(*wire.GetRoutesResponse).Routes.SectionSize = 0 })
	_, err := Open(testContext(t), w.Seeds())
	if !errors.Is(err, KindConnect) || !strings.Contains(err.Error(), "in sections of 0") || asError(err).Retryable {
		t.Errorf("%v", err)
	}
}

func TestATokenNeedsTLSAndIsInNoText(t *testing.T) {
	const secret = "im.S3CRET"
	_, err := Open(testContext(t), []string{"127.0.0.1:1"}, WithToken(secret))
	if !errors.Is(err, KindConnect) || !strings.Contains(err.Error(), "a token needs TLS") {
		t.Errorf("%v", err)
	}
	for _, token := range []string{"", "im", "im.se cret", "im.s\u00e4", "im.x\n"} {
		_, err := Open(testContext(t), []string{"127.0.0.1:1"}, WithToken(token), WithTLSFiles("ca", ""))
		if err == nil || !strings.Contains(err.Error(), "visible ASCII") {
			t.Errorf("%q: %v", token, err)
		}
	}
	o := newOptions([]Option{WithToken(secret)})
	if text := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(text, "S3CRET") {
		t.Error("a dump of the options has the token")
	}
}

func TestAddressesThatAreGoneAreDropped(t *testing.T) {
	w := fake.New(t, 1, 2)
	c, ctx := open(t, w.Seeds()), testContext(t)
	must[[]AllocationResult](t)(c.NextMany(ctx, []uint64{1, 25}))
	must[Allocation](t)(c.Next(ctx, 25))
	before := c.Stats().Connections
	w.Node(0, 0).Change(func(m wire.Message) {
		if m, ok := m.(*wire.CurrentResponse); ok && m.Routes != nil {
			m.Routes.Nodes[1].Addr = "127.0.0.1:1"
		}
	})
	w.Move(1, 0, 0)
	must[Current](t)(c.Current(ctx, 1))
	eventually(t, "the connections to the former address end", func() bool { return c.Stats().Connections < before })
	c.batchersMu.RLock()
	defer c.batchersMu.RUnlock()
	if c.batchers[w.Node(0, 1).Addr()] != nil {
		t.Error("the batcher of the former address is kept")
	}
}
