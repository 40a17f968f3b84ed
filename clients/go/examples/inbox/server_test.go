package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	seqsvr "seqsvr.example/clients/go"
	"seqsvr.example/clients/go/internal/cluster"
)

// client is a phone.
type client struct {
	base string
	http http.Client
}

// newClient returns a phone that waits longer than the server may take.
func newClient(base string) *client {
	return &client{base: base, http: http.Client{Timeout: cluster.Timeout}}
}

// call makes a request. It reads the response into result, or returns the problem that the server states.
func (c *client) call(method, path, body string, result any) (*problem, error) {
	request, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return nil, json.Unmarshal(text, result)
	}
	var refused struct{ Error *problem }
	if err := json.Unmarshal(text, &refused); err != nil || refused.Error == nil {
		return nil, fmt.Errorf("status %d with %q: %v", response.StatusCode, text, err)
	}
	p := refused.Error
	p.status = response.StatusCode
	if retry := response.Header.Get("Retry-After"); p.Message == "" || p.Next == "" || p.Retryable != (retry == "1") {
		return p, fmt.Errorf("%+v with Retry-After %q", p, retry)
	}
	return p, nil
}

func (c *client) send(conversation string, members []uint64, key, text string) (map[uint64]uint64, *problem, error) {
	m := message{Conversation: conversation, SenderKey: key, Text: text}
	for _, uid := range members {
		m.Members = append(m.Members, strconv.FormatUint(uid, 10))
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	var sent struct{ Numbers map[uint64]json.RawMessage }
	refused, err := c.call(http.MethodPost, "/messages", string(body), &sent)
	numbers := map[uint64]uint64{}
	for uid, quoted := range sent.Numbers {
		var text string
		err = errors.Join(err, json.Unmarshal(quoted, &text))
		number, failed := strconv.ParseUint(text, 10, 64)
		numbers[uid], err = number, errors.Join(err, failed)
	}
	return numbers, refused, err
}

func (c *client) sync(uid, after uint64) ([]Entry, *problem, error) {
	var got struct{ Entries []Entry }
	refused, err := c.call(http.MethodGet, fmt.Sprintf("/inbox/%d?after=%d", uid, after), "", &got)
	return got.Entries, refused, err
}

// lines writes the log of a server to that of its test.
type lines struct{ testing.TB }

func (l lines) Write(line []byte) (int, error) {
	l.Logf("%s", bytes.TrimSpace(line))
	return len(line), nil
}

// serveInbox serves an inbox on a port of its own.
func serveInbox(t testing.TB, inbox *Inbox) *client {
	t.Helper()
	server := httptest.NewServer(newHandler(inbox, log.New(lines{t}, "", 0)))
	t.Cleanup(server.Close)
	return newClient(server.URL)
}

// big is a number that no double has.
const big = 1<<53 + 1

// bigNumbers allocates the number big to each uid.
func bigNumbers(_ context.Context, uids []uint64) ([]seqsvr.AllocationResult, error) {
	results := make([]seqsvr.AllocationResult, len(uids))
	for i := range uids {
		results[i].Allocation = seqsvr.Allocation{Value: big, Prev: big - 1, Count: 1}
	}
	return results, nil
}

func TestNumbersOf64BitsAreStrings(t *testing.T) {
	t.Parallel()
	phone := serveInbox(t, open(t, allocator(bigNumbers), database(t), 0))
	for _, step := range []struct{ method, path, body, response string }{
		{
			"POST", "/messages", `{"conversation":"c","members":["9007199254740995"],"sender_key":"k","text":"hello"}`,
			`{"numbers":{"9007199254740995":"9007199254740993"}}`,
		},
		{
			"GET", "/inbox/9007199254740995?after=9007199254740992", "",
			`{"entries":[{"seq":"9007199254740993","conversation":"c","text":"hello"}]}`,
		},
		{"GET", "/inbox/9007199254740995?after=9007199254740993", "", `{"entries":[]}`},
		// As a double, this uid is that of the message.
		{"GET", "/inbox/9007199254740996", "", `{"entries":[]}`},
	} {
		var got json.RawMessage
		refused, err := phone.call(step.method, step.path, step.body, &got)
		if refused != nil || err != nil || string(got) != step.response {
			t.Errorf("%s %s: %s, %+v, %v", step.method, step.path, got, refused, err)
		}
	}
}

func TestBadInputIsRefusedByName(t *testing.T) {
	t.Parallel()
	inbox := open(t, allocator(func(context.Context, []uint64) ([]seqsvr.AllocationResult, error) {
		t.Error("bad input took numbers")
		return nil, errors.New("bad input")
	}), database(t), 0)
	phone := serveInbox(t, inbox)
	body := func(members string) string {
		return `{"conversation":"c","members":` + members + `,"sender_key":"k","text":"hello"}`
	}
	many := "[" + strings.Repeat(`"1",`, maxMembers) + `"2"]`
	for _, bad := range []struct {
		request, body string
		status        int
		reason, names string
	}{
		{"POST /messages", body(`[]`), 400, "EMPTY_FIELD", "members"},
		{"POST /messages", body(`null`), 400, "EMPTY_FIELD", "members"},
		{"POST /messages", body(`["7","x1"]`), 400, "NOT_A_NUMBER", `members[1]: "x1"`},
		{"POST /messages", body(`["-7"]`), 400, "NOT_A_NUMBER", `members[0]: "-7"`},
		{"POST /messages", body(`["9223372036854775808"]`), 400, "NOT_A_NUMBER", `"9223372036854775808"`},
		{"POST /messages", body(`[7]`), 400, "INVALID_FIELD", "members"},
		{"POST /messages", body(`["7","42","7"]`), 400, "REPEATED_MEMBER", "members[2]: uid 7"},
		{"POST /messages", body(many), 400, "TOO_MANY_MEMBERS", "1001"},
		{"POST /messages", `{"members":["7"],"sender_key":"k","text":"t"}`, 400, "EMPTY_FIELD", "conversation"},
		{"POST /messages", `{"conversation":"c","members":["7"],"text":"t"}`, 400, "EMPTY_FIELD", "sender_key"},
		{"POST /messages", `{"conversation":"c","members":["7"],"sender_key":"k","text":""}`, 400, "EMPTY_FIELD", "text"},
		{"POST /messages", `{"key":"k"}`, 400, "INVALID_JSON", "key"},
		{"POST /messages", `{"conversation":`, 400, "INVALID_JSON", "no message"},
		{"POST /messages", ``, 400, "INVALID_JSON", "no message"},
		{"POST /messages", body(`["7"]`) + "{}", 400, "INVALID_JSON", "goes on"},
		{"POST /messages", body(`["` + strings.Repeat("7", maxBody) + `"]`), 413, "BODY_TOO_LARGE", "65536"},
		{"POST /messages", body(`["7"]`) + strings.Repeat(" ", maxBody), 413, "BODY_TOO_LARGE", "65536"},
		{"GET /messages", "", 405, "WRONG_METHOD", `GET is not for "/messages"`},
		{"DELETE /inbox/7", "", 405, "WRONG_METHOD", "DELETE"},
		{"GET /", "", 404, "UNKNOWN_PATH", `"/"`},
		{"GET /inbox/", "", 404, "UNKNOWN_PATH", `"/inbox/"`},
		{"GET /inbox/seven", "", 400, "NOT_A_NUMBER", `uid: "seven"`},
		{"GET /inbox/7?after=", "", 400, "NOT_A_NUMBER", `after: ""`},
		{"GET /inbox/7?after=1.5", "", 400, "NOT_A_NUMBER", `after: "1.5"`},
	} {
		method, path, _ := strings.Cut(bad.request, " ")
		var got json.RawMessage
		p, err := phone.call(method, path, bad.body, &got)
		if err != nil || p == nil {
			t.Errorf("%s %.100s: %s, %v", bad.request, bad.body, got, err)
			continue
		}
		if p.status != bad.status || p.Reason != bad.reason || !strings.Contains(p.Message, bad.names) || p.Retryable {
			t.Errorf("%s %.100s: %+v", bad.request, bad.body, p)
		}
	}
}

func TestAFailureStatesTheNextStep(t *testing.T) {
	t.Parallel()
	dev := cluster.StartDev(t)
	c, uid := connect(t, dev.Allocs, []uint64{newUID()}), newUID()
	inbox := open(t, c, database(t), 0)
	phone := serveInbox(t, inbox)
	expectProblem := func(phone *client, uid uint64, status int, reason, next string, retryable bool) {
		t.Helper()
		sent, p, err := phone.send("c", []uint64{uid}, reason, "hello")
		if err != nil || p == nil {
			t.Errorf("%s: %v, %v", reason, sent, err)
		} else if p.status != status || p.Reason != reason || !strings.Contains(p.Next, next) || p.Retryable != retryable {
			t.Errorf("%s: %+v", reason, p)
		}
	}
	expectProblem(phone, dev.UIDEnd, 422, seqsvr.ReasonUIDOutside, "leave this member out", false)
	for _, failed := range []struct {
		err       error
		status    int
		reason    string
		next      string
		retryable bool
	}{
		{&seqsvr.Error{Kind: seqsvr.KindRefused, Reason: "UNSERVED", Retryable: true}, 503, "UNSERVED", "same sender_key", true},
		{&seqsvr.Error{Kind: seqsvr.KindRefused, Reason: "EXHAUSTED"}, 502, "EXHAUSTED", "seqsvr explain EXHAUSTED", false},
		{context.DeadlineExceeded, 503, "DATABASE_BUSY", "same sender_key", true},
	} {
		failing := allocator(func(context.Context, []uint64) ([]seqsvr.AllocationResult, error) { return nil, failed.err })
		expectProblem(serveInbox(t, open(t, failing, database(t), 0)), uid, failed.status, failed.reason, failed.next, failed.retryable)
	}
	if sent, p, err := phone.send("c", []uint64{uid}, "k", "hello"); p != nil || err != nil || sent[uid] != 1 {
		t.Errorf("%v, %+v, %v", sent, p, err)
	}
	inbox.Close()
	expectProblem(phone, uid, 500, "DATABASE_FAILED", "log of this server", false)
	c.Close()
	expectProblem(serveInbox(t, open(t, c, database(t), 0)), uid, 503, "CLIENT_CLOSED", "same sender_key", true)
}

func TestARequestInProgressCompletesWhileTheServerStops(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	inbox := open(t, &paused{allocator(bigNumbers), func() {
		close(entered)
		<-release
	}}, database(t), 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	ctx, stop := context.WithCancel(testContext(t))
	defer stop()
	served, sent := make(chan error, 1), make(chan error, 1)
	go func() { served <- serve(ctx, listener, newHandler(inbox, log.New(lines{t}, "", 0))) }()
	go func() {
		numbers, refused, err := newClient("http://"+addr).send("c", []uint64{7}, "k", "hello")
		if err == nil && (refused != nil || numbers[7] != big) {
			err = fmt.Errorf("%v, %+v", numbers, refused)
		}
		sent <- err
	}()
	<-entered
	stop()
	eventually(t, "the server takes no more connections", func() error {
		connection, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("it took one"), connection.Close())
	})
	select {
	case err := <-served:
		close(release)
		t.Fatalf("the server ended before its request: %v", err)
	default:
	}
	close(release)
	if err := errors.Join(<-sent, <-served); err != nil {
		t.Error(err)
	}
}

// startProcess starts the server as a process, and returns it with a phone.
func startProcess(t *testing.T, seed, path string) (*exec.Cmd, *client) {
	t.Helper()
	command := exec.Command(os.Args[0], "-listen", "127.0.0.1:0", "-seed", seed, "-database", path, "-grace", "0s")
	command.Env = append(os.Environ(), "INBOX_SERVES=1")
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	base, found := strings.CutPrefix(strings.TrimSpace(line), "inbox: listening on ")
	if err != nil || !found {
		t.Fatalf("the server printed %q: %v", line, err)
	}
	return command, newClient(base)
}

func TestTheCommandsOfTheReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^\$ curl (?:--json '(.*)' )?'?127\.0\.0\.1:8080([^'\n]*)'?\n(.*)$`).FindAllSubmatch(page, -1)
	if len(shown) < 3 {
		t.Fatalf("the README has %d commands, and there are three at least", len(shown))
	}
	dev, path := cluster.StartDev(t), database(t)
	connect(t, dev.Allocs, []uint64{7, 42})
	process, phone := startProcess(t, dev.Allocs[0], path)
	for round := range 2 {
		for _, command := range shown {
			method := http.MethodGet
			if len(command[1]) > 0 {
				method = http.MethodPost
			}
			var got json.RawMessage
			refused, err := phone.call(method, string(command[2]), string(command[1]), &got)
			if refused != nil || err != nil || !bytes.Equal(got, command[3]) {
				t.Errorf("%s\nin round %d: %s, %+v, %v", command[0], round, got, refused, err)
			}
		}
		if err := errors.Join(process.Process.Signal(syscall.SIGTERM), process.Wait()); err != nil {
			t.Fatalf("the server did not end in order: %v", err)
		}
		// The inboxes are there again, and a message that was sent is not sent anew.
		if round == 0 {
			process, phone = startProcess(t, dev.Allocs[0], path)
		}
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	t.Parallel()
	dev, good := cluster.StartDev(t), settings{listen: "127.0.0.1:0", database: database(t)}
	connect(t, dev.Allocs, []uint64{7})
	good.seeds = dev.Allocs[0]
	for _, bad := range []struct {
		change    func(s *settings)
		arguments []string
		names     []string
	}{
		{func(*settings) {}, []string{"inbox.db"}, []string{`"inbox.db"`, "-help"}},
		{func(s *settings) { s.grace = -time.Second }, nil, []string{"-grace -1s", "0"}},
		{func(s *settings) { s.seeds = "nowhere" }, nil, []string{"-seed nowhere", "seqsvr dev"}},
		{func(s *settings) { s.database = ":memory:" }, nil, []string{`":memory:"`, "name a file"}},
		{func(s *settings) { s.listen = "127.0.0.1:none" }, nil, []string{"-listen 127.0.0.1:none", "choose another"}},
	} {
		s := good
		bad.change(&s)
		err := run(testContext(t), s, bad.arguments, io.Discard)
		for _, name := range bad.names {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%+v: %v does not have %q", s, err, name)
			}
		}
	}
}
