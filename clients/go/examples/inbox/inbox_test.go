package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	seqsvr "seqsvr.example/clients/go"
	"seqsvr.example/clients/go/internal/cluster"
)

// TestMain runs the tests, or the server itself in a process that a test has started.
func TestMain(m *testing.M) {
	if os.Getenv("INBOX_SERVES") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// uids has the last uid that a test has used.
var uids atomic.Uint64

// newUID returns a uid that no other test uses.
func newUID() uint64 { return 1000 + uids.Add(1) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Timeout)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, condition func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(cluster.Timeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("never: %s: %v", what, err)
}

// connect returns a client once each of the uids is served.
func connect(t testing.TB, seeds []string, served []uint64) *seqsvr.Client {
	t.Helper()
	var c *seqsvr.Client
	eventually(t, "a client is open", func() (err error) {
		c, err = seqsvr.Open(testContext(t), seeds)
		return err
	})
	t.Cleanup(func() { c.Close() })
	eventually(t, "each uid is served", func() error {
		results, err := c.CurrentMany(testContext(t), served)
		for _, result := range results {
			err = errors.Join(err, result.Err)
		}
		return err
	})
	return c
}

// database is a file for the tables of one test.
func database(t testing.TB) string { return filepath.Join(t.TempDir(), "inbox db?.sqlite") }

func open(t testing.TB, numbers Allocator, path string, grace time.Duration) *Inbox {
	t.Helper()
	inbox, err := OpenInbox(testContext(t), numbers, path, grace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inbox.Close() })
	return inbox
}

// send sends a message whose key is its text.
func send(t testing.TB, inbox *Inbox, text string, members ...uint64) map[uint64]uint64 {
	t.Helper()
	sent, err := inbox.Send(testContext(t), "c", members, text, text)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// expect compares the texts that a device gets, and returns its last number.
func expect(t testing.TB, inbox *Inbox, uid, after uint64, texts ...string) (last uint64) {
	t.Helper()
	entries, err := inbox.Sync(testContext(t), uid, after)
	if err != nil {
		t.Fatal(err)
	}
	last = after
	got := []string{}
	for _, entry := range entries {
		got = append(got, entry.Text)
		last = entry.Seq
	}
	if strings.Join(got, ", ") != strings.Join(texts, ", ") {
		t.Errorf("uid %d above %d: the inbox has %q and not %q", uid, after, got, texts)
	}
	return last
}

// paused is an allocator that delays its caller once: it runs the function meanwhile before the caller writes its rows.
type paused struct {
	Allocator
	meanwhile func()
}

func (p *paused) NextMany(ctx context.Context, uids []uint64) ([]seqsvr.AllocationResult, error) {
	results, err := p.Allocator.NextMany(ctx, uids)
	if meanwhile := p.meanwhile; meanwhile != nil {
		p.meanwhile = nil
		meanwhile()
	}
	return results, err
}

// allocator is an allocator that a test plays.
type allocator func(ctx context.Context, uids []uint64) ([]seqsvr.AllocationResult, error)

func (a allocator) NextMany(ctx context.Context, uids []uint64) ([]seqsvr.AllocationResult, error) {
	return a(ctx, uids)
}

func TestTheRulesOfAnInbox(t *testing.T) {
	t.Parallel()
	dev := cluster.StartDev(t)
	c := connect(t, dev.Allocs, []uint64{newUID()})
	for name, rule := range map[string]func(*testing.T, *seqsvr.Client){
		"a message is sent once however often it is repeated":      sentOnce,
		"a reader waits for an entry that is late":                 waitsForLate,
		"a sender that is too late takes another number":           tooLate,
		"an entry whose number before is unknown is no first one":  noFirstOne,
		"numbers with an entry between them are not closed":        notClosed,
		"no member has a message without a number for each member": allOrNone,
		"a device gets a long inbox in pages":                      pages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule(t, c)
		})
	}
}

func sentOnce(t *testing.T, c *seqsvr.Client) {
	inbox, members := open(t, c, database(t), 0), []uint64{newUID(), newUID()}
	sent := send(t, inbox, "hello", members...)
	if again := send(t, inbox, "hello", members...); !maps.Equal(again, sent) || len(sent) != 2 {
		t.Errorf("sent again as %v, and as %v before", again, sent)
	}
	send(t, inbox, "again", members...)
	for _, uid := range members {
		expect(t, inbox, uid, 0, "hello", "again")
		expect(t, inbox, uid, sent[uid], "again")
	}
	// The key is one of its conversation.
	if _, err := inbox.Send(testContext(t), "another", members[:1], "hello", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	expect(t, inbox, members[0], 0, "hello", "again", "elsewhere")
}

func waitsForLate(t *testing.T, c *seqsvr.Client) {
	path, uid := database(t), newUID()
	prompt := open(t, c, path, time.Hour)
	send(t, prompt, "first", uid)
	late := open(t, &paused{c, func() {
		send(t, prompt, "third", uid)
		// The second one is on its way.
		expect(t, prompt, uid, 0, "first")
	}}, path, time.Hour)
	send(t, late, "second", uid)
	expect(t, prompt, uid, 0, "first", "second", "third")
}

func tooLate(t *testing.T, c *seqsvr.Client) {
	path, uid := database(t), newUID()
	hasty := open(t, c, path, 0)
	first := send(t, hasty, "first", uid)[uid]
	var third uint64
	late := open(t, &paused{c, func() {
		send(t, hasty, "third", uid)
		third = expect(t, hasty, uid, 0, "first", "third")
	}}, path, 0)
	second := send(t, late, "second", uid)[uid]
	if second <= third || third <= first {
		t.Errorf("the numbers are %d, %d after the third one, %d", first, second, third)
	}
	// A device that had the third one gets it.
	expect(t, hasty, uid, third, "second")
}

// write writes an entry at a number, as a sender does that has got it.
func write(t testing.TB, inbox *Inbox, text string, r row) {
	t.Helper()
	if written, err := inbox.writeMessage(testContext(t), "c", text, text, []row{r}); !written || err != nil {
		t.Fatalf("%q was not written: %v", text, err)
	}
}

func noFirstOne(t *testing.T, c *seqsvr.Client) {
	path, uid := database(t), newUID()
	inbox, hasty := open(t, c, path, time.Hour), open(t, c, path, 0)
	write(t, inbox, "after a crash", row{uid: uid, seq: 10_001})
	expect(t, inbox, uid, 0)
	write(t, inbox, "before it", row{uid: uid, seq: 1})
	expect(t, inbox, uid, 0, "before it")
	expect(t, hasty, uid, 0, "before it", "after a crash")
	// What was closed stays closed, also for a reader that would wait.
	expect(t, inbox, uid, 0, "before it", "after a crash")
	written, err := inbox.writeMessage(testContext(t), "c", "late", "late", []row{{uid: uid, seq: 10_000, prev: 1}})
	if written || err != nil {
		t.Errorf("an entry below the horizon was written: %v", err)
	}
	if sent, err := inbox.sent(testContext(t), "c", "late"); len(sent) > 0 || err != nil {
		t.Errorf("a message without entries is there: %v, %v", sent, err)
	}
}

func notClosed(t *testing.T, c *seqsvr.Client) {
	inbox, uid := open(t, c, database(t), 0), newUID()
	write(t, inbox, "2", row{uid: uid, seq: 2, prev: 1})
	write(t, inbox, "4", row{uid: uid, seq: 4, prev: 3})
	ctx := testContext(t)
	for _, step := range []struct {
		last, seq uint64
		closes    bool
		horizon   uint64
	}{{1, 4, false, 0}, {2, 4, true, 3}, {0, 2, true, 3}} {
		empty, err := inbox.close(ctx, uid, step.last, step.seq)
		closed, failed := horizon(ctx, inbox.db, uid)
		if err := errors.Join(err, failed); empty != step.closes || closed != step.horizon || err != nil {
			t.Errorf("%+v: %v, and the horizon is %d: %v", step, empty, closed, err)
		}
	}
}

func allOrNone(t *testing.T, c *seqsvr.Client) {
	path, members := database(t), []uint64{newUID(), newUID()}
	refused := &seqsvr.Error{Kind: seqsvr.KindRefused, Reason: seqsvr.ReasonUnserved, Retryable: true}
	inbox := open(t, c, path, 0)
	half := open(t, allocator(func(ctx context.Context, uids []uint64) ([]seqsvr.AllocationResult, error) {
		results, err := c.NextMany(ctx, uids)
		results[1] = seqsvr.AllocationResult{Err: refused}
		return results, err
	}), path, 0)
	if _, err := half.Send(testContext(t), "c", members, "hello", "hello"); !errors.Is(err, refused) {
		t.Errorf("%v is not the error of the member without a number", err)
	}
	for _, uid := range members {
		expect(t, inbox, uid, 0)
	}
	sent := send(t, inbox, "hello", members...)
	if sent[members[0]] != 2 || sent[members[1]] != 2 {
		t.Errorf("the first number of each member is a gap, and not %v", sent)
	}
	for _, uid := range members {
		expect(t, inbox, uid, 0, "hello")
	}
	if _, err := inbox.Send(testContext(t), "c", nil, "nobody", "hello"); err == nil {
		t.Error("a message without members was sent")
	}
}

func pages(t *testing.T, c *seqsvr.Client) {
	inbox, uid := open(t, c, database(t), 0), newUID()
	var texts []string
	for i := range pageSize + 1 {
		texts = append(texts, fmt.Sprint(i))
		send(t, inbox, texts[i], uid)
	}
	last := expect(t, inbox, uid, 0, texts[:pageSize]...)
	last = expect(t, inbox, uid, last, texts[pageSize:]...)
	expect(t, inbox, uid, last)
}

func TestADatabaseThatCannotBeOpenedIsNamed(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", ":memory:", filepath.Join(t.TempDir(), "none", "inbox.db")} {
		_, err := OpenInbox(testContext(t), nil, path, 0)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", path)) || !strings.Contains(err.Error(), "name a file") {
			t.Errorf("%q: %v", path, err)
		}
	}
}
