// Package routes has the routes of a client: they map each uid to its section, each section to its set and its owner,
// and each owner to its address.
//
// Sections can migrate between the sets of a cluster. Therefore the routes of all sets of a cluster are merged into one
// table. Separately for each set, the directory keeps the addresses of its nodes and the version of its own routes. The
// uids of different clusters do not overlap.
//
// Readers load a snapshot without a lock. Responses bring newer routes, from which a new snapshot is made.
//
// Invariants: the list of sets only grows, so the index of a set is valid in every later snapshot. The route version of
// a set and the epoch of a section never fall.
package routes

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"seqsvr.example/clients/go/internal/wire"
)

// maxSets is the limit on the sets in a directory. It is that of a store.
const maxSets = 1024

// Routes is the newest directory, shared by all calls of a client.
type Routes struct {
	current atomic.Pointer[Directory]
	// writer is held while a new directory is built from the current one.
	writer sync.Mutex
}

// New returns routes without any set.
func New() *Routes {
	r := new(Routes)
	r.current.Store(new(Directory))
	return r
}

// Load returns the newest snapshot.
func (r *Routes) Load() *Directory { return r.current.Load() }

// Directory is a snapshot of every known set.
type Directory struct {
	// clusters in order of uid, which do not overlap.
	clusters []*cluster
	sets     []*Set
}

// cluster is a range of uids that several sets share, with the route of each of its sections.
type cluster struct {
	layout layout
	// sections are the sections of the uids, and after them the buckets of keyspaces. Sections of lanes have no routes,
	// because calls for ids may be sent to any node.
	sections sections
	// home is the set that was the first to send this layout. Requests for a section without a route are sent to it.
	home SetIndex
	// series are in the order of their creation. A cluster only adds series, so of two lists the longer one is newer.
	series []wire.StoredSeries
}

// Claim is the statement of a refusal that a section has been in a set since an epoch.
type Claim struct {
	Set   uint64
	Since uint64
}

// Change describes an adoption of routes.
type Change struct {
	// Any is whether anything changed.
	Any bool
	// Addrs is whether addresses may have changed.
	Addrs bool
}

// Adopt adopts the routes that a set sent, if they are newer than those known of this set. seed is the sender if it is
// a seed, and empty otherwise.
func (r *Routes) Adopt(table *wire.Routes, seed string) (Change, error) {
	if !r.Load().wouldChange(table, seed) {
		return Change{}, nil
	}
	of, err := check(table)
	if err != nil {
		return Change{}, err
	}
	r.writer.Lock()
	defer r.writer.Unlock()
	next := r.Load().clone()
	change, err := next.adopt(table, of, seed)
	if err != nil {
		if set := r.Load().ByID(table.SetID); set != nil && isMismatch(err) {
			set.State.wantWhole.Store(true)
		}
		return Change{}, err
	}
	if change.Any {
		r.current.Store(next)
	}
	return change, nil
}

// AdoptClaim adopts a claim about the section of a uid. A claim whose epoch is not larger than that of the known route
// is ignored.
func (r *Routes) AdoptClaim(uid uint64, claim Claim) {
	r.adoptClaim(claim, func(d *Directory) (int, uint32, bool) {
		at, section, ok := d.locate(uid)
		return at, section, ok && uint64(section) < d.clusters[at].sections.len()
	})
}

// adoptClaim adopts a claim about the section that locate returns, with the index of its cluster.
func (r *Routes) adoptClaim(claim Claim, locate func(d *Directory) (at int, section uint32, ok bool)) {
	isNews := func() bool {
		d := r.Load()
		at, section, ok := locate(d)
		if !ok || claim.Set == 0 {
			return false
		}
		route, _ := d.clusters[at].sections.get(section)
		return route.Epoch < claim.Since
	}
	if !isNews() {
		return
	}
	r.writer.Lock()
	defer r.writer.Unlock()
	if !isNews() {
		return
	}
	next := r.Load().clone()
	at, section, _ := locate(next)
	if set, ok := next.indexOrInsert(claim.Set, next.clusters[at].layout); ok {
		c := next.change(at)
		c.sections.merge(section, 1, Route{Epoch: claim.Since, Set: set, IsClaim: true}, next.id)
		c.sections.owned = nil
		r.current.Store(next)
	}
}

// Route returns the route of a uid's section; false if the uid is in no known cluster.
func (d *Directory) Route(uid uint64) (Route, bool) {
	at, section, ok := d.locate(uid)
	if !ok {
		return Route{}, false
	}
	if route, ok := d.clusters[at].sections.get(section); ok {
		return route, true
	}
	return Route{Set: d.clusters[at].home}, true
}

// Set returns the set with an index, which may be from any earlier snapshot.
func (d *Directory) Set(index SetIndex) *Set { return d.sets[index] }

// Sets returns every set.
func (d *Directory) Sets() []*Set { return d.sets }

// ByID returns the set with an id; nil if it is not known.
func (d *Directory) ByID(id uint64) *Set {
	if index, ok := d.IndexOf(id); ok {
		return d.sets[index]
	}
	return nil
}

// IndexOf returns the index of the set with an id.
func (d *Directory) IndexOf(id uint64) (SetIndex, bool) {
	at := slices.IndexFunc(d.sets, func(set *Set) bool { return set.ID == id })
	return SetIndex(at), at >= 0
}

// Others returns the other sets of a set's cluster.
func (d *Directory) Others(set *Set) []*Set {
	var others []*Set
	for _, other := range d.sets {
		if other.ID != set.ID && other.layout == set.layout {
			others = append(others, other)
		}
	}
	return others
}

// HasOthers returns whether the cluster of a set has other sets.
func (d *Directory) HasOthers(set *Set) bool {
	return slices.ContainsFunc(d.sets, func(other *Set) bool { return other.ID != set.ID && other.layout == set.layout })
}

// Series returns the series with a name, and the set that was the first to send the layout of its cluster.
func (d *Directory) Series(name string) (series wire.StoredSeries, home SetIndex, ok bool) {
	for _, c := range d.clusters {
		for _, one := range c.series {
			if one.Name == name {
				return one, c.home, true
			}
		}
	}
	return wire.StoredSeries{}, 0, false
}

// IsEmpty returns whether no set is known.
func (d *Directory) IsEmpty() bool { return len(d.clusters) == 0 }

// Addrs returns every address of every set.
func (d *Directory) Addrs() map[string]bool {
	addrs := map[string]bool{}
	for _, set := range d.sets {
		set.allAddrs(func(addr string) bool {
			addrs[addr] = true
			return true
		})
	}
	return addrs
}

func (d *Directory) id(index SetIndex) uint64 { return d.sets[index].ID }

// locate returns the section of a uid with the index of its cluster. The section of a sparse uid is its bucket.
func (d *Directory) locate(uid uint64) (at int, section uint32, ok bool) {
	at, found := slices.BinarySearchFunc(d.clusters, uid, func(c *cluster, uid uint64) int {
		return cmp.Compare(c.layout.start, uid)
	})
	if !found {
		at--
	}
	if at < 0 || uid >= d.clusters[at].layout.end {
		return d.locateSparse(uid)
	}
	of := d.clusters[at].layout
	return at, uint32((uid - of.start) / uint64(of.sectionSize)), true
}

// wouldChange returns whether the routes are new, or whether seed is a new address of their set. It is checked before
// anything is copied, because the routes in most responses are not new.
func (d *Directory) wouldChange(table *wire.Routes, seed string) bool {
	set := d.ByID(table.SetID)
	return set == nil || set.version < table.Version || seed != "" && !slices.Contains(set.seeds, seed)
}

func (d *Directory) clone() *Directory {
	return &Directory{clusters: slices.Clone(d.clusters), sets: slices.Clone(d.sets)}
}

// change returns the cluster at an index as a copy that can be changed.
func (d *Directory) change(at int) *cluster {
	copied := *d.clusters[at]
	copied.sections = copied.sections.clone()
	d.clusters[at] = &copied
	return &copied
}

func (d *Directory) adopt(table *wire.Routes, of layout, seed string) (Change, error) {
	known := d.ByID(table.SetID)
	// A set is added only if a seed sent its routes, so that each set has an address.
	if known == nil && seed == "" {
		return Change{}, mismatch(table)
	}
	version := uint64(0)
	if known != nil {
		version = known.version
	}
	isNewer := table.Version > version
	at := d.clusterOf(of)
	if isNewer && (table.BaseVersion > version || table.BaseVersion > 0 && at < 0) {
		return Change{}, mismatch(table)
	}
	if isNewer {
		if err := d.checkOverlap(table, of); err != nil {
			return Change{}, err
		}
	}
	index, ok := d.indexOrInsert(table.SetID, of)
	if !ok {
		return Change{}, invalid(table, "is one more than the %d that a client holds", maxSets)
	}
	var change Change
	if seed != "" && !slices.Contains(d.sets[index].seeds, seed) {
		d.sets[index] = d.sets[index].withSeed(seed)
		change = Change{Any: true, Addrs: true}
	}
	if isNewer {
		left := d.sets[index].layout
		next, addrs := d.sets[index].withRoutes(table, of)
		d.sets[index] = next
		if left != of {
			d.leave(left, of)
		}
		addrs = d.adoptSections(index, table, of) || addrs
		change = Change{Any: true, Addrs: change.Addrs || addrs}
	}
	return change, nil
}

// adoptSections merges the routes that the set with the index own sent into those of its cluster, with the set's
// statements about other sets. It returns whether an address changed.
func (d *Directory) adoptSections(own SetIndex, table *wire.Routes, of layout) (addrs bool) {
	at := d.clusterOf(of)
	if at < 0 {
		at = d.addCluster(own, of)
	}
	for i := range table.Sets {
		other := &table.Sets[i]
		if other.ID == table.SetID || other.ID == 0 {
			continue
		}
		if index, ok := d.indexOrInsert(other.ID, of); ok {
			next, changed := d.sets[index].learn(other.Name, other.Allocs)
			d.sets[index] = next
			addrs = addrs || changed
		}
	}
	c := d.change(at)
	merge := func(run wire.RouteRun) {
		route := Route{Epoch: run.Epoch, Set: own, Owner: run.Owner}
		if run.AwaySetID != 0 {
			index, ok := d.indexOrInsert(run.AwaySetID, of)
			if !ok {
				// The section keeps its former route, and nodes forward requests for it.
				return
			}
			route.Set, route.IsClaim = index, index != own
		}
		c.sections.extend(run.FirstSection + run.Sections)
		c.sections.merge(run.FirstSection, run.Sections, route, d.id)
	}
	for _, run := range table.Runs {
		merge(run)
	}
	bucketRuns(table, merge)
	c.sections.owned = nil
	if len(table.Series) >= len(c.series) {
		c.series = slices.Clone(table.Series)
	}
	return addrs
}

// clusterOf returns the index of the cluster with a layout; -1 if there is none.
func (d *Directory) clusterOf(of layout) int {
	return slices.IndexFunc(d.clusters, func(c *cluster) bool { return c.layout == of })
}

func (d *Directory) addCluster(home SetIndex, of layout) int {
	at, _ := slices.BinarySearchFunc(d.clusters, of.start, func(c *cluster, start uint64) int {
		return cmp.Compare(c.layout.start, start)
	})
	d.clusters = slices.Insert(d.clusters, at, &cluster{layout: of, sections: newSections(of.sections()), home: home})
	return at
}

// leave removes the cluster with the layout left after a set changed from it to the layout to, unless another set has
// sent routes with it. Sets that are known only from the statements of other sets change with it.
func (d *Directory) leave(left, to layout) {
	for _, set := range d.sets {
		if set.version > 0 && set.layout == left {
			return
		}
	}
	d.clusters = slices.DeleteFunc(d.clusters, func(c *cluster) bool { return c.layout == left })
	for i, set := range d.sets {
		if set.layout == left {
			copied := *set
			copied.layout = to
			d.sets[i] = &copied
		}
	}
}

// checkOverlap checks that the uids of a table do not overlap those of another set with a different layout, which is of
// another cluster.
func (d *Directory) checkOverlap(table *wire.Routes, of layout) error {
	for _, other := range d.sets {
		sent := other.version > 0 && other.ID != table.SetID
		if sent && other.layout != of && of.start < other.layout.end && other.layout.start < of.end {
			return invalid(table, "with uids %d..%d overlaps set %q with uids %d..%d",
				of.start, of.end, other.Name, other.layout.start, other.layout.end)
		}
	}
	return nil
}

// indexOrInsert returns the index of the set with an id, which it adds without routes and addresses if it is new; false
// at the limit on sets.
func (d *Directory) indexOrInsert(id uint64, of layout) (SetIndex, bool) {
	if index, ok := d.IndexOf(id); ok {
		return index, true
	}
	if len(d.sets) >= maxSets {
		return 0, false
	}
	d.sets = append(d.sets, newSet(id, of))
	return SetIndex(len(d.sets) - 1), true
}
