package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/cluster"
	"seqsvr.example/clients/go/internal/fake"
)

// pipe is a driver in this process.
type pipe struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan map[string]any
	ended chan error
}

func start(t *testing.T) *pipe {
	t.Helper()
	requests, in := io.Pipe()
	out, responses := io.Pipe()
	p := &pipe{t: t, in: in, lines: make(chan map[string]any, 1000), ended: make(chan error, 1)}
	go func() {
		p.ended <- run(requests, responses)
		responses.Close()
	}()
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Errorf("%q: %v", lines.Text(), err)
			}
			p.lines <- line
		}
	}()
	if got := p.line(); got["hello"] != 1.0 || got["sdk"] != "go" || len(got["features"].([]any)) != 8 {
		t.Fatalf("%v", got)
	}
	return p
}

func (p *pipe) line() map[string]any {
	p.t.Helper()
	select {
	case line := <-p.lines:
		return line
	case <-time.After(cluster.Timeout):
		p.t.Fatal("no line")
		return nil
	}
}

func (p *pipe) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

// ask sends a request, and checks the response to it. want has the fields of ok or of error.
func (p *pipe) ask(part string, want map[string]any, format string, args ...any) {
	p.t.Helper()
	p.send(format, args...)
	line := p.line()
	got, _ := line[part].(map[string]any)
	for field, value := range want {
		if !reflect.DeepEqual(got[field], value) {
			p.t.Fatalf("%s of %v is %v, not %v", field, line, got[field], value)
		}
	}
	if got == nil {
		p.t.Fatalf("%v has no %s", line, part)
	}
}

func (p *pipe) end() {
	p.t.Helper()
	p.in.Close()
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
	for line := range p.lines {
		p.t.Errorf("%v after the end", line)
	}
}

type fields = map[string]any

func TestADriverIsDrivenThroughAPipe(t *testing.T) {
	dev := cluster.StartDev(t)
	p := start(t)
	p.ask("error", fields{"kind": "closed"}, `{"id":"0","op":"next","client":"c","uid":"1"}`)
	p.ask("error", fields{"kind": "connect", "retryable": true, "may_have_applied": false},
		`{"id":"1","op":"open","client":"c","seeds":["http://127.0.0.1:1"],"deadline_ms":2000}`)
	p.ask("ok", nil, `{"id":"2","op":"open","client":"c","seeds":["http://%s"],"deadline_ms":60000,"coalesce":true}`, dev.Allocs[0])
	p.ask("ok", fields{"first": "1", "value": "3", "prev": "0", "count": 3.0, "lost": 0.0},
		`{"id":"3","op":"next","client":"c","uid":"42","count":3,"unknown":true}`)
	p.ask("ok", fields{"value": "3", "exact": true}, `{"id":"4","op":"current","client":"c","uid":"42"}`)
	p.send(`{"id":"5","op":"next_many","client":"c","uids":["42","18446744073709551615"],"counts":[2,1]}`)
	line := p.line()
	items := line["ok"].(map[string]any)["items"].([]any)
	if got := items[0].(map[string]any)["ok"].(map[string]any); got["first"] != "4" || got["value"] != "5" {
		t.Errorf("%v", line)
	}
	if got := items[1].(map[string]any)["error"].(map[string]any); got["kind"] != "uid_outside" {
		t.Errorf("%v", line)
	}
	p.ask("ok", fields{"items": []any{}}, `{"id":"6","op":"next_many","client":"c","uids":[]}`)
	p.send(`{"id":"7","op":"current_many","client":"c","uids":["42","7"]}`)
	if line := p.line(); len(line["ok"].(map[string]any)["items"].([]any)) != 2 {
		t.Errorf("%v", line)
	}
	p.ask("ok", nil, `{"id":"8","op":"advance","client":"c","uid":"42","to":"1000"}`)
	p.ask("error", fields{"kind": "refused", "reason": "ALREADY_PAST", "code": "FAILED_PRECONDITION", "retryable": false, "attempts": 1.0},
		`{"id":"9","op":"advance","client":"c","uid":"42","to":"5"}`)
	p.ask("error", fields{"kind": "count"}, `{"id":"10","op":"next","client":"c","uid":"42","count":0}`)
	p.ask("error", fields{"kind": "unsupported"}, `{"id":"11","op":"fork","client":"c","uid":"42"}`)
	p.ask("ok", nil, `{"id":"12","op":"stats","client":"c"}`)
	p.ask("ok", nil, `{"id":"13","op":"reload","client":"c"}`)
	p.ask("ok", nil, `{"id":"14","op":"cancel","client":"c","target":"none"}`)
	burst(t, p)
	p.ask("ok", nil, `{"id":"16","op":"close","client":"c"}`)
	p.ask("ok", nil, `{"id":"17","op":"close","client":"c"}`)
	p.ask("error", fields{"kind": "closed", "retryable": false}, `{"id":"18","op":"next","client":"c","uid":"42"}`)
	p.end()
}

func burst(t *testing.T, p *pipe) {
	t.Helper()
	before := monotonic()
	p.send(`{"id":"15","op":"burst","client":"c","uids":["1","2"],"calls":50,"concurrency":8,"seed":"18446744073709551615"}`)
	for calls := 0; ; calls++ {
		line := p.line()
		call, ok := line["call"].(map[string]any)
		if !ok {
			if line["id"] != "15" || calls != 50 || line["ok"].(map[string]any)["done"] != 50.0 {
				t.Errorf("%v after %d calls", line, calls)
			}
			return
		}
		var start, end int64
		fmt.Sscan(call["start_ns"].(string)+" "+call["end_ns"].(string), &start, &end)
		if call["ok"] == nil || start < before || end < start || end > monotonic() {
			t.Errorf("%v", call)
		}
	}
}

func TestKeysAreNumbered(t *testing.T) {
	w := fake.New(t, 1, 1)
	w.AddKeyspace("main")
	p := start(t)
	p.ask("ok", nil, `{"id":"1","op":"open","client":"c","seeds":["http://%s"]}`, w.Seeds()[0])
	p.ask("ok", fields{"first": "1", "value": "3", "prev": "0", "count": 3.0},
		`{"id":"2","op":"next_key","client":"c","keyspace":"main","key":"\u00fc","count":3}`)
	p.ask("ok", fields{"value": "3", "exact": true},
		`{"id":"3","op":"current_key","client":"c","keyspace":"main","key":{"hex":"c3bc"}}`)
	p.ask("ok", fields{"epoch": "1"},
		`{"id":"4","op":"advance_key","client":"c","keyspace":"main","key":"\u00fc","to":"100"}`)
	p.send(`{"id":"5","op":"next_keys","client":"c","keyspace":"main","keys":["a",{"hex":"ff00"},"\u00fc"],"count":2}`)
	items := p.line()["ok"].(map[string]any)["items"].([]any)
	for i, want := range []string{"2", "2", "102"} {
		if got := items[i].(map[string]any)["ok"].(map[string]any); got["value"] != want || got["count"] != 2.0 {
			t.Errorf("%v", items)
		}
	}
	p.send(`{"id":"6","op":"current_keys","client":"c","keyspace":"main","keys":[{"hex":"ff00"},"none"]}`)
	items = p.line()["ok"].(map[string]any)["items"].([]any)
	for i, want := range []string{"2", "0"} {
		if got := items[i].(map[string]any)["ok"].(map[string]any); got["value"] != want {
			t.Errorf("%v", items)
		}
	}
	p.ask("error", fields{"kind": "refused", "reason": "KEY_SIZE", "code": "INVALID_ARGUMENT", "retryable": false},
		`{"id":"7","op":"next_key","client":"c","keyspace":"main","key":{"hex":""}}`)
	p.ask("error", fields{"kind": "refused", "reason": "UNKNOWN_KEYSPACE", "code": "NOT_FOUND", "retryable": false},
		`{"id":"8","op":"next_keys","client":"c","keyspace":"none","keys":["a"]}`)
	p.send(`{"id":"9","op":"burst","client":"c","keyspace":"main","uids":["7"],"calls":2,"concurrency":1,"seed":"1"}`)
	for _, want := range []string{"1", "2"} {
		call := p.line()["call"].(map[string]any)
		if got := call["ok"].(map[string]any); call["uid"] != "7" || got["value"] != want {
			t.Errorf("%v", call)
		}
	}
	if line := p.line(); line["ok"].(map[string]any)["done"] != 2.0 {
		t.Errorf("%v", line)
	}
	p.ask("ok", fields{"value": "2"}, `{"id":"10","op":"current_key","client":"c","keyspace":"main","key":"key:7"}`)
	p.end()
}

func TestACallIsCancelledAndTheEndOfTheInputEndsTheDriver(t *testing.T) {
	w := fake.New(t, 1, 1)
	p := start(t)
	p.ask("ok", nil, `{"id":"1","op":"open","client":"c","seeds":["http://%s"]}`, w.Seeds()[0])
	w.Node(0, 0).Hang(true)
	p.send(`{"id":"2","op":"next","client":"c","uid":"1","deadline_ms":60000}`)
	p.send(`{"id":"3","op":"cancel","client":"c","target":"2"}`)
	for range 2 {
		switch line := p.line(); line["id"] {
		case "2":
			if e := line["error"].(map[string]any); e["kind"] != "cancelled" || e["retryable"] != false {
				t.Errorf("%v", line)
			}
		case "3":
			if line["ok"] == nil {
				t.Errorf("%v", line)
			}
		default:
			t.Errorf("%v", line)
		}
	}
	p.ask("error", fields{"kind": "deadline", "retryable": true},
		`{"id":"4","op":"next","client":"c","uid":"1","deadline_ms":50}`)
	w.Node(0, 0).Hang(false)
	p.end()

	broken := start(t)
	broken.send("no JSON")
	if err := <-broken.ended; err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("%v", err)
	}
}
