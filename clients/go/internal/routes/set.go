package routes

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seqsvr.example/clients/go/internal/wire"
)

const (
	// maxLearnedAddrs is the limit on the addresses of a set that other sets state. At least one of so many usually
	// reaches a running node.
	maxLearnedAddrs = 16
	// wholeInterval is the minimum interval between two requests for the whole route table of a set that has not sent
	// routes yet. A whole table is large.
	wholeInterval = time.Second
)

// Set has the addresses of a set's nodes. It is immutable, except for its State.
//
// Invariant: the version of a set's own routes never falls. A set that is known only from the routes of other sets has
// version 0.
type Set struct {
	// ID of the set, 1 or above.
	ID uint64
	// Name of the set; empty while only its id is known.
	Name string
	// State is shared by all snapshots of the set.
	State *State

	layout  layout
	version uint64
	addrs   map[uint32]string
	// seeds are the seeds that sent the set's routes.
	seeds []string
	// learned are the addresses of the set that the routes of other sets state.
	learned []string
	// hosts are the addresses of the set's nodes and seeds. While the set has not sent the addresses of its nodes, those
	// that other sets state are used instead.
	hosts []string
}

// State is the state of one set that all calls to the set share.
type State struct {
	Budget *Budget
	// Refresh limits requests for routes to other sets, which are made when no node of this set can be reached.
	Refresh Limiter

	// wantWhole is whether the next request asks for the set's whole table, because a response had only the changes
	// since a version that is not known here.
	wantWhole  atomic.Bool
	wholeAsked Limiter
}

// Limiter lets one caller pass at a time, and at most one in an interval.
type Limiter struct {
	mu   sync.Mutex
	busy bool
	last time.Time
}

// TryAcquire returns false while another caller is busy, or if the last one began less than interval ago.
func (l *Limiter) TryAcquire(interval time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || !l.last.IsZero() && time.Since(l.last) < interval {
		return false
	}
	l.busy, l.last = true, time.Now()
	return true
}

// Release ends the work of a caller that passed.
func (l *Limiter) Release() {
	l.mu.Lock()
	l.busy = false
	l.mu.Unlock()
}

func newSet(id uint64, of layout) *Set {
	return &Set{ID: id, layout: of, State: &State{Budget: NewBudget(time.Now())}}
}

// Addr returns the address of a node; empty if it is not known.
func (s *Set) Addr(node uint32) string { return s.addrs[node] }

// Version returns the version of the set's own routes; 0 if it has not sent any.
func (s *Set) Version() uint64 { return s.version }

// KnownVersion returns the route version that a request to the set states as known: 0 asks for the whole table, and
// absent asks for no routes.
func (s *Set) KnownVersion() wire.Optional {
	if s.version == 0 {
		if s.State.wholeAsked.TryAcquire(wholeInterval) {
			s.State.wholeAsked.Release()
			return wire.Some(0)
		}
		return wire.Optional{}
	}
	if s.State.wantWhole.Load() && s.State.wantWhole.Swap(false) {
		return wire.Some(0)
	}
	return wire.Some(s.version)
}

// allAddrs calls yield with every known address of the set, until yield returns false.
func (s *Set) allAddrs(yield func(addr string) bool) {
	for _, list := range [2][]string{s.hosts, s.learned} {
		for _, addr := range list {
			if !yield(addr) {
				return
			}
		}
	}
}

// Host returns the address to which a request for a section of this set is sent; empty if no address is known. An
// address is good if it is neither excluded nor suspect. Host returns the owner's address if it is good, otherwise a
// random good address of another node, which forwards the request, otherwise a good address that another set states. If
// no address is good, it returns any address that is not excluded, or else any address.
func (s *Set) Host(owner uint32, excluded string, isSuspect func(string) bool) string {
	good := func(addr string) bool { return addr != excluded && !isSuspect(addr) }
	if owner != 0 {
		if addr := s.addrs[owner]; addr != "" && good(addr) {
			return addr
		}
	}
	if len(s.hosts) == 0 {
		return ""
	}
	hosts := slices.Clone(s.hosts)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	for _, list := range [2][]string{hosts, s.learned} {
		if at := slices.IndexFunc(list, good); at >= 0 {
			return list[at]
		}
	}
	if at := slices.IndexFunc(hosts, func(addr string) bool { return addr != excluded }); at >= 0 {
		return hosts[at]
	}
	return hosts[0]
}

// HasOther returns whether a node of the set other than addr could be reached.
func (s *Set) HasOther(addr string, isSuspect func(string) bool) bool {
	found := false
	s.allAddrs(func(other string) bool {
		found = other != addr && !isSuspect(other)
		return !found
	})
	return found
}

// IsDown returns whether the set has no known address, or every known address was unreachable recently.
func (s *Set) IsDown(isSuspect func(string) bool) bool {
	return !s.HasOther("", isSuspect)
}

// withRoutes returns the set after a newer table of its own. changed is whether an address changed.
func (s *Set) withRoutes(table *wire.Routes, of layout) (next *Set, changed bool) {
	copied := *s
	copied.Name, copied.layout, copied.version = table.Set, of, table.Version
	addrs := make(map[uint32]string, len(table.Nodes))
	for _, node := range table.Nodes {
		addrs[node.ID] = node.Addr
		changed = changed || s.addrs[node.ID] != node.Addr
	}
	if changed || len(addrs) != len(s.addrs) {
		changed = true
		copied.addrs = addrs
		copied.findHosts()
	}
	return &copied, changed
}

// withSeed returns the set after a seed that is of the set.
func (s *Set) withSeed(seed string) *Set {
	copied := *s
	copied.seeds = append(slices.Clone(s.seeds), seed)
	copied.findHosts()
	return &copied
}

// learn returns the set after another set stated its name and addresses. changed is whether either is new.
func (s *Set) learn(name string, addrs []string) (next *Set, changed bool) {
	addrs = addrs[:min(len(addrs), maxLearnedAddrs)]
	// The own routes of a set take precedence for its name.
	keepName := s.Name == name || s.version > 0
	if keepName && slices.Equal(s.learned, addrs) {
		return s, false
	}
	copied := *s
	copied.learned = slices.Clone(addrs)
	if !keepName {
		copied.Name = name
	}
	copied.findHosts()
	return &copied, true
}

func (s *Set) findHosts() {
	s.hosts = nil
	add := func(addr string) {
		if !slices.Contains(s.hosts, addr) {
			s.hosts = append(s.hosts, addr)
		}
	}
	for _, addr := range s.addrs {
		add(addr)
	}
	if len(s.addrs) == 0 {
		for _, addr := range s.learned {
			add(addr)
		}
	}
	for _, addr := range s.seeds {
		add(addr)
	}
}
