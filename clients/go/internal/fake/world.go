// Package fake has servers of a cluster in this process, for tests of what real servers do rarely: refusals, responses
// that are lost or invalid, nodes that hang, sections that move between sets.
//
// The numbers are real: no uid gets a number twice, in whatever way a test stages faults.
package fake

import (
	"fmt"
	"sync"
	"testing"

	"seqsvr.example/clients/go/internal/wire"
)

// SectionSize is the number of uids in a section.
const SectionSize = 10

// World is a cluster of sets.
type World struct {
	mu       sync.Mutex
	sections []section
	sets     []*set
	uids     map[uint64]*counter
	series   []wire.StoredSeries
	counters map[string]uint64
	// buckets are the buckets of the keyspace; nil without a keyspace. keys has the counters of its keys.
	buckets []section
	keys    map[string]*counter
	// deaf has the indexes of the sets that do not learn of moves between other sets.
	deaf map[int]bool
}

type section struct {
	set   int
	node  *Node // nil without an owner
	epoch uint64
}

type set struct {
	id      uint64
	name    string
	version uint64
	nodes   []*Node
	// routes are the sections as the set knows them.
	routes []section
}

type counter struct {
	value, prev uint64
}

// New starts a cluster of sets with nodes each, which own two sections each, in order: the sections of node 0 of set 0
// come first. The nodes stop at the end of the test.
func New(t testing.TB, sets, nodes int) *World {
	t.Helper()
	w := &World{
		uids: map[uint64]*counter{}, counters: map[string]uint64{}, keys: map[string]*counter{}, deaf: map[int]bool{},
	}
	for s := range sets {
		of := &set{id: uint64(s + 1), name: fmt.Sprintf("set-%d", s), version: 1}
		w.sets = append(w.sets, of)
		for n := range nodes {
			node := &Node{world: w, set: s, id: uint32(n + 1), held: make(chan struct{})}
			close(node.held)
			node.start(t)
			of.nodes = append(of.nodes, node)
			for range 2 {
				w.sections = append(w.sections, section{s, node, 1})
			}
		}
	}
	for _, of := range w.sets {
		of.routes = append([]section(nil), w.sections...)
	}
	return w
}

// Node returns a node of a set.
func (w *World) Node(set, node int) *Node { return w.sets[set].nodes[node] }

// SetID returns the id of a set.
func (w *World) SetID(set int) uint64 { return w.sets[set].id }

// Seeds returns the address of the first node of each set.
func (w *World) Seeds() []string {
	var seeds []string
	for _, of := range w.sets {
		seeds = append(seeds, of.nodes[0].Addr())
	}
	return seeds
}

// Move gives the section of a uid to a node of a set, under a new epoch; a node of -1 leaves it without an owner.
func (w *World) Move(uid uint64, to, node int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := uid / SectionSize
	moved := section{set: to, epoch: w.sections[at].epoch + 1}
	if node >= 0 {
		moved.node = w.sets[to].nodes[node]
	}
	from := w.sections[at].set
	w.sections[at] = moved
	for i, of := range w.sets {
		if i == from || i == to || !w.deaf[i] {
			of.routes[at] = moved
			of.version++
		}
	}
}

// Learn sets whether a set learns of moves between other sets. The default is true.
func (w *World) Learn(set int, learns bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf[set] = !learns
}

// AddCounter adds a series whose ids are offset, offset + increment, and so on.
func (w *World) AddCounter(name string, offset, increment uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	shape := wire.Append(nil, &wire.Shape{Counter: &wire.CounterShape{Offset: offset, Increment: increment, MaxID: 1<<63 - 1}})
	w.series = append(w.series, wire.StoredSeries{Name: name, Shape: shape, CreatedMS: 1, HomeSetID: w.sets[0].id})
	for _, of := range w.sets {
		of.version++
	}
}

// take allocates numbers of a uid or key.
func take[K comparable](counters map[K]*counter, of K, count uint32) (value, prev uint64) {
	c := counters[of]
	if c == nil {
		c = &counter{}
		counters[of] = c
	}
	c.prev, c.value = c.value, c.value+uint64(max(count, 1))
	return c.value, c.prev
}

// table returns the routes of a set, if they are newer than a version. The world is locked.
func (w *World) table(at int, known wire.Optional) *wire.Routes {
	of := w.sets[at]
	if !known.Present || known.Value >= of.version {
		return nil
	}
	table := &wire.Routes{
		Set: of.name, SetID: of.id, Version: of.version,
		UIDEnd: uint64(len(w.sections)) * SectionSize, SectionSize: SectionSize,
		Series: w.series,
	}
	for _, node := range of.nodes {
		table.Nodes = append(table.Nodes, wire.RouteNode{ID: node.id, Name: fmt.Sprint(node.id), Addr: node.Addr()})
	}
	for i, other := range w.sets {
		if i != at {
			named := wire.RouteSet{ID: other.id, Name: other.name}
			for _, node := range other.nodes {
				named.Allocs = append(named.Allocs, node.Addr())
			}
			table.Sets = append(table.Sets, named)
		}
	}
	for i, known := range of.routes {
		run := wire.RouteRun{FirstSection: uint32(i), Sections: 1, Epoch: known.epoch}
		switch {
		case known.set != at:
			run.AwaySetID = w.sets[known.set].id
		case known.node != nil:
			run.Owner = known.node.id
		}
		table.Runs = append(table.Runs, run)
	}
	w.addBuckets(at, table)
	return table
}
