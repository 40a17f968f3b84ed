package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seqsvr.example/clients/go/internal/cluster"
)

const (
	senders   = 4
	messages  = 60
	killAfter = 20
	perGroup  = 4
)

// group returns the members that a message is sent to.
func group(members []uint64, sender, message int) []uint64 {
	order := rand.New(rand.NewPCG(uint64(sender), uint64(message))).Perm(len(members))
	var to []uint64
	for _, i := range order[:perGroup] {
		to = append(to, members[i])
	}
	return to
}

// storm is the state of a test under load: senders and devices at two servers with one database.
type storm struct {
	t       *testing.T
	servers []*client
	members []uint64
	half    sync.WaitGroup
	sent    atomic.Int64
	done    chan struct{}
	// end is when senders and devices give up.
	end time.Time
	// numbers has the numbers that each sender got, by the text of the message.
	mu      sync.Mutex
	numbers map[string]map[uint64]uint64
}

// send sends all messages of a sender. It repeats each one until it succeeds, and every fifth one at both servers at once.
func (s *storm) send(sender int) {
	for i := range messages {
		if i == killAfter {
			s.half.Done()
			s.half.Wait()
		}
		if s.t.Failed() {
			continue
		}
		text := fmt.Sprintf("%d %d", sender, i)
		attempts := 1 + i%5/4
		results := make(chan map[uint64]uint64, attempts)
		for attempt := range attempts {
			at := s.servers[(sender+attempt)%len(s.servers)]
			go func() { results <- s.sendOne(at, group(s.members, sender, i), text) }()
		}
		numbers := <-results
		for range attempts - 1 {
			if again := <-results; !maps.Equal(again, numbers) {
				s.t.Errorf("message %q has the numbers %v at one server, and %v at the other one", text, numbers, again)
			}
		}
		s.mu.Lock()
		s.numbers[text] = numbers
		s.mu.Unlock()
		s.sent.Add(1)
	}
}

// sendOne sends one message, with the same key until it succeeds.
func (s *storm) sendOne(at *client, to []uint64, text string) map[uint64]uint64 {
	for {
		numbers, refused, err := at.send("c", to, text, text)
		switch {
		case err == nil && refused == nil:
			return numbers
		case err != nil || !refused.Retryable || time.Now().After(s.end):
			s.t.Errorf("message %q failed: %+v, %v", text, refused, err)
			return nil
		}
	}
}

// receive synchronises the device of a user until it has count entries and all senders have ended.
func (s *storm) receive(at *client, uid uint64, count int) (entries []Entry) {
	var last uint64
	for ; time.Now().Before(s.end); time.Sleep(20 * time.Millisecond) {
		more, refused, err := at.sync(uid, last)
		if err != nil || refused != nil {
			s.t.Errorf("the inbox of %d failed: %+v, %v", uid, refused, err)
			return entries
		}
		for _, entry := range more {
			entries, last = append(entries, entry), entry.Seq
		}
		select {
		case <-s.done:
			if len(entries) >= count && len(more) == 0 {
				return entries
			}
		default:
		}
	}
	return entries
}

func TestNoMessageIsLostOrDoubledWhileAnOwnerIsKilled(t *testing.T) {
	t.Parallel()
	cl := cluster.Start(t, cluster.Settings{})
	var members []uint64
	for uid := uint64(0); uid < cluster.UIDs; uid += cluster.UIDs / 12 {
		members = append(members, uid)
	}
	c, path := connect(t, cl.Allocs[1:], members), database(t)
	s := &storm{
		t: t, members: members, done: make(chan struct{}), end: time.Now().Add(cluster.Timeout),
		numbers: map[string]map[uint64]uint64{},
	}
	for range 2 {
		s.servers = append(s.servers, serveInbox(t, open(t, c, path, 500*time.Millisecond)))
	}

	expected := map[uint64][]string{}
	var sending, receiving sync.WaitGroup
	s.half.Add(senders)
	for sender := range senders {
		for i := range messages {
			for _, uid := range group(members, sender, i) {
				expected[uid] = append(expected[uid], fmt.Sprintf("%d %d", sender, i))
			}
		}
		sending.Add(1)
		go func() {
			defer sending.Done()
			s.send(sender)
		}()
	}
	received := make([][]Entry, len(members))
	for i, uid := range members {
		receiving.Add(1)
		go func() {
			defer receiving.Done()
			received[i] = s.receive(s.servers[i%len(s.servers)], uid, len(expected[uid]))
		}()
	}
	s.half.Wait()
	cl.Node("a1").Kill()
	if sent := s.sent.Load(); sent >= senders*messages {
		t.Errorf("all %d messages were sent before the owner was dead", sent)
	}
	began := time.Now()
	sending.Wait()
	t.Logf("the senders ended %v after the owner", time.Since(began).Round(time.Millisecond))
	close(s.done)
	receiving.Wait()

	crossed := false
	for i, uid := range members {
		s.check(uid, received[i], expected[uid])
		for n := 1; n < len(received[i]); n++ {
			crossed = crossed || received[i][n].Seq > received[i][n-1].Seq+100
		}
	}
	if !crossed {
		t.Error("no inbox goes on at a ceiling: the owner that was killed had none of the members")
	}
}

// check compares the entries that a device has received with the messages that were sent to its user.
func (s *storm) check(uid uint64, received []Entry, expected []string) {
	var texts []string
	lastOf := map[string]int{}
	var last uint64
	for _, entry := range received {
		texts = append(texts, entry.Text)
		if entry.Seq <= last {
			s.t.Errorf("uid %d: number %d comes after %d", uid, entry.Seq, last)
		}
		last = entry.Seq
		if number := s.numbers[entry.Text][uid]; number != entry.Seq {
			s.t.Errorf("uid %d: message %q is at %d, and its sender was told %d", uid, entry.Text, entry.Seq, number)
		}
		var i int
		sender, index, _ := strings.Cut(entry.Text, " ")
		if _, err := fmt.Sscan(index, &i); err != nil {
			s.t.Errorf("uid %d: %q is no message of the test: %v", uid, entry.Text, err)
		}
		if before, ok := lastOf[sender]; ok && i <= before {
			s.t.Errorf("uid %d: message %d of sender %s comes after %d", uid, i, sender, before)
		}
		lastOf[sender] = i
	}
	slices.Sort(texts)
	slices.Sort(expected)
	if !slices.Equal(texts, expected) {
		s.t.Errorf("uid %d: the device has %q, and %q was sent", uid, texts, expected)
	}
}
